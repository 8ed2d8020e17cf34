//! Who serves whom.

use super::*;
use agent_core::{History, StopReason};
use async_trait::async_trait;

struct Fixed(&'static str);

#[async_trait]
impl StreamProvider for Fixed {
    fn provider_id(&self) -> &str {
        self.0
    }

    async fn stream(
        &self,
        _: &ModelRequest,
        _: &mut EventSink<'_>,
        _: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        Ok(Completion::new(StopReason::Stop).with_vendor_reason(self.0))
    }
}

fn two() -> ProviderRegistry {
    let mut registry = ProviderRegistry::new();
    registry.register(ApiProtocol::AnthropicMessages, Arc::new(Fixed("a")));
    registry.register(ApiProtocol::OpenAiCompletions, Arc::new(Fixed("b")));
    registry
}

/// REQ-042.
#[tokio::test]
async fn a_call_goes_to_who_speaks_the_models_protocol() {
    let registry = two();
    for (model, expect) in
        [(ModelConfig::anthropic("m", "M", "k"), "a"), (ModelConfig::openai("m", "M", "k"), "b")]
    {
        let request = ModelRequest::new(model, History::new());
        let completion = registry.stream(&request, &mut |_| {}, &CancellationToken::new()).await.unwrap();
        assert_eq!(completion.vendor_reason.as_deref(), Some(expect));
        assert_eq!(registry.provider_id_for(&request.model), expect);
    }
}

/// REQ-042.
#[tokio::test]
async fn a_protocol_that_nobody_speaks_is_an_error_that_names_the_feature() {
    let request = ModelRequest::new(ModelConfig::ollama("m"), History::new());
    let registry = two();
    let error = registry.stream(&request, &mut |_| {}, &CancellationToken::new()).await.unwrap_err();
    for error in [error, registry.check(&request.model).unwrap_err()] {
        let text = error.to_string();
        assert!(text.contains("ollama_chat") && text.contains("\"ollama\""), "{text}");
        assert!(!error.is_retryable());
    }
}

#[tokio::test]
async fn a_custom_protocol_stands_beside_the_built_in_ones() {
    let mut registry = two();
    let model = ModelConfig::custom("toy", "acme", "toy-1").unwrap();
    let request = ModelRequest::new(model, History::new());
    let error = registry.stream(&request, &mut |_| {}, &CancellationToken::new()).await.unwrap_err();
    for error in [error, registry.check(&request.model).unwrap_err()] {
        let text = error.to_string();
        assert!(text.contains("custom:toy") && text.contains("ApiProtocol::custom(\"toy\")"), "{text}");
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Other, false));
    }

    let toy = ApiProtocol::custom("toy").unwrap();
    registry.register(toy, Arc::new(Fixed("t")));
    let completion = registry.stream(&request, &mut |_| {}, &CancellationToken::new()).await.unwrap();
    assert_eq!(completion.vendor_reason.as_deref(), Some("t"));
    assert_eq!(registry.provider_id_for(&request.model), "t");
    assert!(registry.serves(toy) && !registry.serves(ApiProtocol::custom("other").unwrap()));
    assert!(registry.protocols().any(|protocol| protocol == toy));
    assert_eq!(registry.provider_id_for(&ModelConfig::openai("m", "M", "k")), "b");
}

#[test]
fn a_later_registration_takes_the_place_of_an_earlier_one() {
    let mut registry = two();
    registry.register(ApiProtocol::AnthropicMessages, Arc::new(Fixed("c")));
    assert_eq!(registry.provider_id_for(&ModelConfig::anthropic("m", "M", "k")), "c");
    assert_eq!(registry.protocols().count(), 2);
}

/// REQ-186.
#[cfg(all(feature = "openai-chat", feature = "ollama"))]
#[test]
fn the_default_registry_serves_every_protocol_that_is_built_in() {
    let registry = ProviderRegistry::default();
    assert_eq!(registry.provider_id(), "registry");
    assert_eq!(registry.provider_id_for(&ModelConfig::openai("m", "M", "k")), "openai");
    assert_eq!(registry.provider_id_for(&ModelConfig::default()), "ollama");
    assert!(
        registry
            .check(&ModelConfig::openai("m", "M", ""))
            .unwrap_err()
            .to_string()
            .contains("OPENAI_API_KEY")
    );
    assert!(registry.check(&ModelConfig::openai("m", "M", "k").with_base_url("nowhere")).is_err());
    registry.check(&ModelConfig::default()).unwrap();
}

/// REQ-125, REQ-186.
#[cfg(all(
    feature = "anthropic",
    feature = "azure",
    feature = "bedrock",
    feature = "openai-chat",
    feature = "openai-responses",
    feature = "vertex"
))]
#[test]
fn with_everything_built_in_the_default_registry_serves_every_hosted_protocol() {
    let registry = ProviderRegistry::default();
    for (api, id) in [
        (ApiProtocol::AnthropicMessages, "anthropic"),
        (ApiProtocol::OpenAiCompletions, "openai"),
        (ApiProtocol::OpenAiResponses, "openai_responses"),
        (ApiProtocol::AzureOpenAiResponses, "azure_openai"),
        (ApiProtocol::GoogleGenerativeAi, "google"),
        (ApiProtocol::GoogleVertex, "google_vertex"),
        (ApiProtocol::AnthropicVertex, "anthropic_vertex"),
        (ApiProtocol::BedrockConverseStream, "bedrock"),
    ] {
        assert_eq!(registry.provider_id_for(&ModelConfig::new(api, "p", "m")), id);
        assert!(registry.serves(api), "{id}");
    }
}
