//! Fallback models that are called when a model fails.
//!
//! The run's own model is route 0; the configured routes follow in order. When a call fails and is not retried on its
//! route, the next route that accepts this kind of failure makes the next attempt in the same turn. A part of the
//! reply that had already arrived is superseded and enters no history. A route with a permanent failure (invalid key,
//! no credit, unknown model) is not called again in this run; after any other failure, the next turn starts with it
//! again.
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
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::message::CostConfig;
use crate::model::{ApiProtocol, ModelConfig};
use crate::provider::{ErrorKind, StreamProvider};

/// The failures after which a route is called by default: those that another model may not have.
pub const USUAL_FAILURES: [ErrorKind; 5] =
    [ErrorKind::RateLimited, ErrorKind::Network, ErrorKind::Quota, ErrorKind::Auth, ErrorKind::ModelNotFound];

/// A model to call when the routes before it fail.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Route {
    /// The model of the route.
    pub model: Arc<ModelConfig>,
    /// The provider of the route; `None` for the agent's own provider.
    pub provider: Option<Arc<dyn StreamProvider>>,
    /// The failures of the previous route after which this route is called; [`USUAL_FAILURES`] by default.
    pub on: BTreeSet<ErrorKind>,
    /// The maximum number of retries on this route; `None` for that of the agent's retry configuration.
    pub max_retries: Option<u32>,
}

impl Route {
    /// Creates a route to this model through the agent's own provider, for the [`USUAL_FAILURES`].
    #[must_use]
    pub fn new(model: impl Into<Arc<ModelConfig>>) -> Self {
        Self { model: model.into(), provider: None, on: USUAL_FAILURES.into(), max_retries: None }
    }

    /// Sets the provider of the route.
    #[must_use]
    pub fn with_provider(mut self, provider: Arc<dyn StreamProvider>) -> Self {
        self.provider = Some(provider);
        self
    }

    /// Sets the failures after which the route is called.
    #[must_use]
    pub fn on(mut self, failures: impl IntoIterator<Item = ErrorKind>) -> Self {
        self.on = failures.into_iter().collect();
        self
    }

    /// Sets the maximum number of retries on this route.
    #[must_use]
    pub fn with_max_retries(mut self, retries: u32) -> Self {
        self.max_retries = Some(retries);
        self
    }

    /// Returns whether the route is called after a failure of this kind. It is never called after a cancelled call.
    #[must_use]
    pub fn takes_over(&self, failure: ErrorKind) -> bool {
        failure != ErrorKind::Cancelled && self.on.contains(&failure)
    }

    /// Returns the serializable description of the route for a run.
    #[must_use]
    pub fn setup(&self) -> RouteSetup {
        RouteSetup {
            provider: self.model.provider.clone(),
            model: self.model.id.clone(),
            api: Some(self.model.api),
            context_window: self.model.context_window,
            max_tokens: self.model.max_tokens,
            on: self.on.clone(),
            max_retries: self.max_retries,
            prices: self.model.cost.clone(),
        }
    }
}

/// A route as plain data for a run, without keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RouteSetup {
    /// The name of the provider.
    pub provider: String,
    /// The id of the model.
    pub model: String,
    /// The wire protocol of the model.
    #[serde(default)]
    pub api: Option<ApiProtocol>,
    /// The context window of the model, in tokens.
    #[serde(default)]
    pub context_window: Option<u32>,
    /// The tokens that are reserved for a reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// The failures of the previous route after which this route is called.
    pub on: BTreeSet<ErrorKind>,
    /// The maximum number of retries on this route; `None` for that of the run's retry configuration.
    #[serde(default)]
    pub max_retries: Option<u32>,
    /// The prices of the model's tokens.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub prices: CostConfig,
}

fn is_unknown(prices: &CostConfig) -> bool {
    !prices.is_known()
}

/// Identifies a route in an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RouteName {
    /// The index of the route; 0 is the run's own model.
    pub index: u32,
    /// The name of the provider.
    pub provider: String,
    /// The id of the model.
    pub model: String,
}

/// The routes that are not called again in this run, with their failures.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct LostRoutes(BTreeMap<u32, ErrorKind>);

impl LostRoutes {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Marks `route` as lost if the failure is permanent.
    pub(crate) fn note(&mut self, route: u32, failure: ErrorKind) {
        if matches!(failure, ErrorKind::Auth | ErrorKind::Quota | ErrorKind::ModelNotFound) {
            self.0.insert(route, failure);
        }
    }

    /// Returns the route to call after `route` failed. `routes` are those after the run's own model.
    pub(crate) fn after(&self, routes: &[RouteSetup], route: u32, failure: ErrorKind) -> Option<u32> {
        let numbered = (1_u32..).zip(routes);
        let mut later = numbered.filter(|(n, _)| *n > route && !self.0.contains_key(n));
        later.find(|(_, r)| failure != ErrorKind::Cancelled && r.on.contains(&failure)).map(|(n, _)| n)
    }

    /// Returns the route with which a turn begins: the first one that is not lost, following the failures. If there
    /// is none, the run's own model is called once more.
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
