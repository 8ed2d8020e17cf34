//! What the replies of a session cost.

use std::collections::BTreeMap;

use agent_core::{AssistantMessage, CostConfig, LoopConfigSnapshot, Usage};
use serde::Serialize;

/// The prices of models: those that the caller set, before those that the loops recorded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prices {
    by_model: BTreeMap<String, CostConfig>,
}

impl Prices {
    pub(crate) fn set(&mut self, model: String, prices: CostConfig) {
        self.by_model.insert(model, prices);
    }

    /// Returns the prices of a model in a loop; `None` if they are unknown, as those of fallback models are.
    pub(crate) fn of<'p>(&'p self, model: &str, config: &'p LoopConfigSnapshot) -> Option<&'p CostConfig> {
        let recorded = || config.prices.as_ref().filter(|_| model == config.model);
        self.by_model.get(model).or_else(recorded)
    }
}

/// An amount of money in micro-units, and whether it is all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Amount {
    /// The cost of the replies whose prices are known; `None` if there is none.
    pub(crate) known: Option<u64>,
    /// Whether the price of a reply is unknown.
    pub(crate) partial: bool,
}

impl Amount {
    /// Adds a reply. The prices depend on the length of a prompt, so each request is priced by itself.
    pub(crate) fn add_reply(&mut self, reply: &AssistantMessage, prices: Option<&CostConfig>) {
        match prices {
            Some(prices) => self.add_micros(reply.usage.cost(prices).total),
            None => self.partial |= !reply.usage.is_zero(),
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        if let Some(micros) = other.known {
            self.add_micros(micros);
        }
        self.partial |= other.partial;
    }

    fn add_micros(&mut self, micros: u64) {
        self.known = Some(self.known.unwrap_or(0).saturating_add(micros));
    }
}

/// Writes the amount as `null`, a number, or, if it is not all, a list with the number.
impl Serialize for Amount {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.known, self.partial) {
            (None, _) => serializer.serialize_none(),
            (Some(micros), false) => serializer.serialize_u64(micros),
            (Some(micros), true) => [micros].serialize(serializer),
        }
    }
}

/// Tokens as a list: uncached input, output, read from a cache, written to a cache, reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tokens(pub(crate) Usage);

impl Serialize for Tokens {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let usage = &self.0;
        [usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning]
            .serialize(serializer)
    }
}
