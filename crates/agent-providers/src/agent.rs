//! Creates agents that use the built-in providers.

use agent_core::compat::SeedSetters as _;
use std::sync::{Arc, OnceLock};

use agent_core::{BasicAgent, ModelConfig, StreamProvider};

use crate::ProviderRegistry;

/// Returns an agent for `model` with a provider for every enabled protocol. All agents share one connection pool.
///
/// The catalogue's facts about each model of the agent (context window, limits, capabilities, prices) replace those settings
/// that still have the default of the model's constructor and were not set by a method. If the protocol's feature is disabled, the first prompt ends with an
/// error that names the feature.
///
/// ```
/// use agent_core::ModelConfig;
/// let agent = agent_providers::agent(ModelConfig::default()).with_system_prompt("Be brief.");
/// assert_eq!(agent.handle().config().model.id, "qwen3-coder:30b");
/// ```
#[must_use]
pub fn agent(model: ModelConfig) -> BasicAgent {
    BasicAgent::new(model).with_provider_override(shared())
}

/// Returns the registry of the process, and with it the one connection pool.
fn shared() -> Arc<dyn StreamProvider> {
    static REGISTRY: OnceLock<Arc<ProviderRegistry>> = OnceLock::new();
    let registry = REGISTRY.get_or_init(|| Arc::new(ProviderRegistry::default()));
    Arc::clone(registry) as Arc<dyn StreamProvider>
}

#[cfg(test)]
mod tests;
