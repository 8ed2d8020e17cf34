//! What an agent has before it is given a provider.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::environment::Environment;
use crate::model::ModelConfig;
use crate::provider::{
    Completion, ErrorContext, ErrorKind, EventSink, ModelRequest, ProviderError, StreamProvider,
};

/// The provider of an agent that has none. One for the process: each agent begins with it.
pub(super) fn provider() -> Arc<dyn StreamProvider> {
    static MISSING: LazyLock<Arc<dyn StreamProvider>> = LazyLock::new(|| Arc::new(MissingProvider));
    Arc::clone(&MISSING)
}

/// Answers every call with an error that says how to get a provider.
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
    let context = ErrorContext::new(format!("no provider for the protocol {} is there", model.api))
        .with_target(&model.provider, &model.id)
        .with_advice(advice);
    ProviderError::new(ErrorKind::Other, context)
}

/// The operating system's, where the feature `system` brings it.
#[cfg(feature = "system")]
pub(super) fn environment() -> Arc<dyn Environment> {
    static SYSTEM: LazyLock<Arc<dyn Environment>> =
        LazyLock::new(|| Arc::new(crate::environment::SystemEnvironment));
    Arc::clone(&SYSTEM)
}

/// Without the feature `system` the caller brings one; until then nothing can be run.
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
