//! Other models that are asked when one fails.
//!
//! The run's own model is route 0; the routes of the configuration follow it in order. When a call fails and is not made
//! again on its route, the next route that is meant for that kind of failure takes the next attempt, in the same turn, and
//! also where a part of the reply had arrived already: that part is closed as superseded and enters no history. A route
//! whose failure no later try can mend (a wrong key, no credit, no such model) is not asked again in this run; after any
//! other failure the next turn begins with it again.
//!
//! ```
//! use agent_core::{ErrorKind, ModelConfig, Route};
//! let spare = Route::new(ModelConfig::anthropic("claude-haiku-4-5", "Haiku", "key"))
//!     .on([ErrorKind::RateLimited, ErrorKind::Network])
//!     .with_max_retries(1);
//! assert!(spare.takes_over(ErrorKind::RateLimited) && !spare.takes_over(ErrorKind::Auth));
//! ```

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::message::CostConfig;
use crate::model::{ApiProtocol, ModelConfig};
use crate::provider::{ErrorKind, StreamProvider};

/// The failures after which a route is asked unless it says otherwise: those that another model need not have.
pub const USUAL_FAILURES: [ErrorKind; 5] =
    [ErrorKind::RateLimited, ErrorKind::Network, ErrorKind::Quota, ErrorKind::Auth, ErrorKind::ModelNotFound];

/// A model to ask when the routes before it fail.
#[derive(Clone)]
#[non_exhaustive]
pub struct Route {
    /// The model.
    pub model: Arc<ModelConfig>,
    /// Who calls it; the agent's own provider when absent.
    pub provider: Option<Arc<dyn StreamProvider>>,
    /// The failures of the route before it after which it is asked; [`USUAL_FAILURES`] unless said otherwise.
    pub on: BTreeSet<ErrorKind>,
    /// How often a failed call is made again on this route; as the agent's retry configuration says when absent.
    pub max_retries: Option<u32>,
}

impl Route {
    /// A route to this model, through the agent's own provider, for the [`USUAL_FAILURES`].
    #[must_use]
    pub fn new(model: impl Into<Arc<ModelConfig>>) -> Self {
        Self { model: model.into(), provider: None, on: USUAL_FAILURES.into(), max_retries: None }
    }

    /// The same route through another provider.
    #[must_use]
    pub fn with_provider(mut self, provider: Arc<dyn StreamProvider>) -> Self {
        self.provider = Some(provider);
        self
    }

    /// The same route, asked after these failures only.
    #[must_use]
    pub fn on(mut self, failures: impl IntoIterator<Item = ErrorKind>) -> Self {
        self.on = failures.into_iter().collect();
        self
    }

    /// The same route with another number of calls after the first one.
    #[must_use]
    pub fn with_max_retries(mut self, retries: u32) -> Self {
        self.max_retries = Some(retries);
        self
    }

    /// Whether it is asked after a failure of this kind. It never is after a cancelled call.
    #[must_use]
    pub fn takes_over(&self, failure: ErrorKind) -> bool {
        failure != ErrorKind::Cancelled && self.on.contains(&failure)
    }

    /// What a run knows of it.
    #[must_use]
    pub fn setup(&self) -> RouteSetup {
        RouteSetup {
            provider: self.model.provider.clone(),
            model: self.model.id.clone(),
            api: Some(self.model.api),
            context_window: Some(self.model.context_window),
            on: self.on.clone(),
            max_retries: self.max_retries,
            prices: self.model.cost.clone(),
        }
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route")
            .field("model", &self.model)
            .field("on", &self.on)
            .field("max_retries", &self.max_retries)
            .finish_non_exhaustive()
    }
}

/// A route as a run knows it: plain data, without keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RouteSetup {
    /// The provider's name.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The protocol.
    #[serde(default)]
    pub api: Option<ApiProtocol>,
    /// The model's window in tokens.
    #[serde(default)]
    pub context_window: Option<u32>,
    /// The failures of the route before it after which it is asked.
    pub on: BTreeSet<ErrorKind>,
    /// How often a failed call is made again on it; as the run's retry configuration says when absent.
    #[serde(default)]
    pub max_retries: Option<u32>,
    /// What the model costs.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub prices: CostConfig,
}

fn is_unknown(prices: &CostConfig) -> bool {
    !prices.is_known()
}

/// A route's name in an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RouteName {
    /// Its number; 0 is the run's own model.
    pub index: u32,
    /// The provider's name.
    pub provider: String,
    /// The model.
    pub model: String,
}

/// Which routes are not asked again in this run, and what they failed with.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct LostRoutes(BTreeMap<u32, ErrorKind>);

impl LostRoutes {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes a failure of `route`, if no later try can mend it.
    pub(crate) fn note(&mut self, route: u32, failure: ErrorKind) {
        if matches!(failure, ErrorKind::Auth | ErrorKind::Quota | ErrorKind::ModelNotFound) {
            self.0.insert(route, failure);
        }
    }

    /// The route that is asked after `route` failed like this. `routes` are those after the run's own model.
    pub(crate) fn after(&self, routes: &[RouteSetup], route: u32, failure: ErrorKind) -> Option<u32> {
        let numbered = (1_u32..).zip(routes);
        let mut later = numbered.filter(|(n, _)| *n > route && !self.0.contains_key(n));
        later.find(|(_, r)| failure != ErrorKind::Cancelled && r.on.contains(&failure)).map(|(n, _)| n)
    }

    /// The route that a turn begins with: the first one that is not lost, found as the failures would have found it. When
    /// there is none, the run's own model is asked once more.
    pub(crate) fn first(&self, routes: &[RouteSetup]) -> u32 {
        let mut route = 0;
        while let Some(failure) = self.0.get(&route) {
            match self.after(routes, route, *failure) {
                Some(next) => route = next,
                None => return 0,
            }
        }
        route
    }
}
