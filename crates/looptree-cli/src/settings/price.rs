//! The prices of models that the catalogue does not know.

use std::collections::BTreeMap;

use looptree::budget::Money;
use looptree::model::{CostConfig, ModelConfig};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::args::money;

/// The key for every model that has no prices of its own.
pub(super) const EVERY: &str = "*";

/// The prices of a model: `INPUT,OUTPUT[,CACHE_READ[,CACHE_WRITE]]` in dollars per million tokens, or `0` for a free model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Price(CostConfig);

/// The prices of models, by `provider/id`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Prices(BTreeMap<String, Price>);

impl From<Vec<(String, Price)>> for Prices {
    fn from(prices: Vec<(String, Price)>) -> Self {
        Self(prices.into_iter().collect())
    }
}

impl Prices {
    /// Returns the model with its prices, if there are any for it.
    pub(crate) fn apply(&self, model: ModelConfig) -> ModelConfig {
        let every = || self.0.get(EVERY).map(|Price(cost)| cost.clone());
        match self.named(&model).or_else(every) {
            Some(cost) => model.with_cost(cost),
            None => model,
        }
    }

    /// Returns the prices that are set for exactly this model.
    pub(crate) fn named(&self, model: &ModelConfig) -> Option<CostConfig> {
        self.0.get(&format!("{}/{}", model.provider, model.id)).map(|Price(cost)| cost.clone())
    }
}

/// Parses the prices of a model, with its name or for the model of the run.
pub(crate) fn named_price(text: &str) -> Result<(String, Price), String> {
    let (model, price) = text.rsplit_once('=').unwrap_or((EVERY, text));
    Ok((model.to_owned(), price.parse()?))
}

impl std::str::FromStr for Price {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let prices = text.split(',').map(|price| money(price.trim()).map(Money::micros));
        let prices = prices.collect::<Result<Vec<u64>, String>>()?;
        let (input, output, read, write) = match prices[..] {
            [input] if input == 0 => (input, input, input, input),
            [input, output] => (input, output, input, input),
            [input, output, read] => (input, output, read, input),
            [input, output, read, write] => (input, output, read, write),
            _ => {
                return Err(format!(
                    "{text:?} are no prices; write INPUT,OUTPUT in dollars per million tokens, for example 0.20,0.60, \
                     or 0 for a free model"
                ));
            }
        };
        let cost = CostConfig::per_million(input, output, read, write);
        // Prices that are all zero would count as unknown.
        Ok(Self(if cost.is_known() { cost } else { CostConfig::free() }))
    }
}

impl std::fmt::Display for Price {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.free {
            return f.write_str("0");
        }
        let prices = [self.0.input, self.0.output, self.0.cache_read, self.0.cache_write];
        let prices = prices.map(|micros| Money::from_micros(micros).to_string());
        f.write_str(&prices.join(","))
    }
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for Price {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
