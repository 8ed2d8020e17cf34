//! The provider and the environment of an agent for which the caller has set none.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::environment::Environment;
use crate::model::ModelConfig;
use crate::provider::{
    Completion, ErrorContext, ErrorKind, EventSink, ModelRequest, ProviderError, StreamProvider,
};

/// Returns the provider that every new agent has. All agents of the process share it.
pub(super) fn provider() -> Arc<dyn StreamProvider> {
    static MISSING: LazyLock<Arc<dyn StreamProvider>> = LazyLock::new(|| Arc::new(MissingProvider));
    Arc::clone(&MISSING)
}

/// A provider that fails every call with an error that names the feature or the method that provides one.
struct MissingProvider;

#[async_trait]
impl StreamProvider for MissingProvider {
    fn provider_id(&self) -> &'static str {
        "none"
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        _sink: &mut EventSink<'_>,
        _cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        Err(missing(&request.model))
    }

    fn provider_id_for(&self, model: &ModelConfig) -> String {
        model.api.provider_id().to_owned()
    }

    fn check(&self, model: &ModelConfig) -> Result<(), ProviderError> {
        Err(missing(model))
    }
}

fn missing(model: &ModelConfig) -> ProviderError {
    let advice = match model.api.feature() {
        Some(feature) => format!(
            "enable the feature `{feature}` and build the agent with looptree::agent, or give it one with with_provider"
        ),
        None => "give the agent its provider with with_provider".to_owned(),
    };
    let context = ErrorContext::new(format!("there is no provider for the protocol {}", model.api))
        .with_target(&model.provider, &model.id)
        .with_advice(advice);
    ProviderError::new(ErrorKind::Other, context)
}

/// Returns the environment of the operating system, which the feature `system` provides.
#[cfg(feature = "system")]
pub(super) fn environment() -> Arc<dyn Environment> {
    static SYSTEM: LazyLock<Arc<dyn Environment>> =
        LazyLock::new(|| Arc::new(crate::environment::SystemEnvironment));
    Arc::clone(&SYSTEM)
}

/// Returns an environment that cannot start tasks. Without the feature `system` the caller supplies an environment.
#[cfg(not(feature = "system"))]
pub(super) fn environment() -> Arc<dyn Environment> {
    Arc::new(Nowhere)
}

#[cfg(not(feature = "system"))]
#[derive(Debug)]
struct Nowhere;

#[cfg(not(feature = "system"))]
impl Environment for Nowhere {
    fn now(&self) -> crate::identity::Timestamp {
        crate::identity::Timestamp::default()
    }

    fn sleep(&self, _duration: std::time::Duration) -> crate::environment::BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn spawn(
        &self,
        _task: crate::environment::BoxFuture<'static, ()>,
    ) -> Result<crate::environment::TaskHandle, crate::environment::NoRuntime> {
        Err(crate::environment::NoRuntime)
    }

    fn can_spawn(&self) -> bool {
        false
    }

    fn random_id(&self) -> String {
        "unnamed".to_owned()
    }
}
