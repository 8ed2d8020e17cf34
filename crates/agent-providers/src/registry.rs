//! A provider that forwards each call to the provider of the model's protocol.
//!
//! ```
//! use agent_core::{ApiProtocol, ModelConfig, StreamProvider};
//! use agent_providers::ProviderRegistry;
//! let registry = ProviderRegistry::default();
//! let model = ModelConfig::ollama("qwen3");
//! assert_eq!(registry.provider_id_for(&model), "ollama");
//! assert_eq!(registry.check(&model).is_ok(), registry.serves(ApiProtocol::OllamaChat));
//! let error = ProviderRegistry::new().check(&model).unwrap_err();
//! assert!(error.to_string().contains("feature"));
//! ```

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use agent_core::{
    ApiProtocol, CancellationToken, Completion, ErrorContext, ErrorKind, EventSink, ModelConfig,
    ModelRequest, ProviderError, StreamProvider, ToolSearchForm,
};

/// A set of providers, one per protocol, which is itself a provider. Clones share the providers.
#[derive(Clone)]
pub struct ProviderRegistry {
    providers: BTreeMap<ApiProtocol, Arc<dyn StreamProvider>>,
}

impl ProviderRegistry {
    /// Returns an empty registry. Calls fail with an error that names the missing feature.
    #[must_use]
    pub fn new() -> Self {
        Self { providers: BTreeMap::new() }
    }

    /// Returns a registry of all enabled providers, which use `transport`.
    #[cfg(feature = "http-protocols")]
    #[must_use]
    pub fn with_transport(transport: &crate::Transport) -> Self {
        let mut registry = Self::new();
        let _ = (&mut registry, transport);
        #[cfg(feature = "anthropic")]
        registry.register(
            ApiProtocol::AnthropicMessages,
            Arc::new(crate::AnthropicProvider::with_transport(transport.clone())),
        );
        #[cfg(feature = "bedrock")]
        registry.register(
            ApiProtocol::BedrockConverseStream,
            Arc::new(crate::BedrockProvider::for_registry(transport)),
        );
        #[cfg(feature = "openai-chat")]
        registry.register(
            ApiProtocol::OpenAiCompletions,
            Arc::new(crate::OpenAiChatProvider::with_transport(transport.clone())),
        );
        #[cfg(feature = "openai-responses")]
        registry.register(
            ApiProtocol::OpenAiResponses,
            Arc::new(crate::OpenAiResponsesProvider::with_transport(transport.clone())),
        );
        #[cfg(feature = "azure")]
        registry.register(
            ApiProtocol::AzureOpenAiResponses,
            Arc::new(crate::AzureOpenAiProvider::with_transport(transport.clone())),
        );
        #[cfg(feature = "ollama")]
        registry.register(
            ApiProtocol::OllamaChat,
            Arc::new(crate::OllamaProvider::with_transport(transport.clone())),
        );
        #[cfg(feature = "google")]
        registry.register(
            ApiProtocol::GoogleGenerativeAi,
            Arc::new(crate::GoogleProvider::with_transport(transport.clone())),
        );
        #[cfg(feature = "vertex")]
        registry.register(
            ApiProtocol::GoogleVertex,
            Arc::new(crate::VertexProvider::with_transport(transport.clone())),
        );
        #[cfg(feature = "vertex")]
        registry.register(
            ApiProtocol::AnthropicVertex,
            Arc::new(crate::AnthropicVertexProvider::with_transport(transport.clone())),
        );
        registry
    }

    /// Registers `provider` for `protocol`, built-in or [custom](ApiProtocol::custom), and replaces the one that was
    /// registered before.
    pub fn register(&mut self, protocol: ApiProtocol, provider: Arc<dyn StreamProvider>) -> &mut Self {
        self.providers.insert(protocol, provider);
        self
    }

    /// Returns whether a provider is registered for `protocol`.
    #[must_use]
    pub fn serves(&self, protocol: ApiProtocol) -> bool {
        self.providers.contains_key(&protocol)
    }

    /// Returns the protocols that have a provider.
    pub fn protocols(&self) -> impl Iterator<Item = ApiProtocol> {
        self.providers.keys().copied()
    }

    fn provider(&self, model: &ModelConfig) -> Result<&Arc<dyn StreamProvider>, ProviderError> {
        self.providers.get(&model.api).ok_or_else(|| {
            let advice = match model.api.feature() {
                Some(feature) => format!(
                    "enable the feature {feature:?} of looptree or agent-providers, or register a provider"
                ),
                None => format!(
                    "register its provider: registry.register(ApiProtocol::custom({:?})?, provider)",
                    model.api.provider_id()
                ),
            };
            let context = ErrorContext::new(format!("no provider speaks the protocol {}", model.api))
                .with_target(&model.provider, &model.id)
                .with_advice(advice);
            ProviderError::new(ErrorKind::Other, context)
        })
    }
}

impl Default for ProviderRegistry {
    /// Returns a registry of all enabled providers, which use the connection pool of the process.
    fn default() -> Self {
        #[cfg(feature = "http-protocols")]
        let registry = Self::with_transport(&crate::Transport::default());
        #[cfg(not(feature = "http-protocols"))]
        let registry = Self::new();
        registry
    }
}

impl fmt::Debug for ProviderRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.providers.keys()).finish()
    }
}

impl StreamProvider for ProviderRegistry {
    fn provider_id(&self) -> &str {
        "registry"
    }

    // Written without the `async_trait` macro, so that the provider's future is returned as it is. The macro would box it a
    // second time, and every poll would pass through both boxes.
    fn stream<'s, 'r, 'e, 'f, 'c, 'async_trait>(
        &'s self,
        request: &'r ModelRequest,
        sink: &'e mut EventSink<'f>,
        cancel: &'c CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Result<Completion, ProviderError>> + Send + 'async_trait>>
    where
        's: 'async_trait,
        'r: 'async_trait,
        'e: 'async_trait,
        'f: 'async_trait,
        'c: 'async_trait,
        Self: 'async_trait,
    {
        match self.provider(&request.model) {
            Ok(provider) => provider.stream(request, sink, cancel),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn provider_id_for(&self, model: &ModelConfig) -> String {
        match self.provider(model) {
            Ok(provider) => provider.provider_id_for(model),
            Err(_) => model.api.provider_id().to_owned(),
        }
    }

    fn complete_model(&self, model: &ModelConfig) -> Option<ModelConfig> {
        self.providers.get(&model.api)?.complete_model(model)
    }

    fn tool_search(&self, model: &ModelConfig) -> ToolSearchForm {
        self.provider(model).map_or(ToolSearchForm::Listed, |provider| provider.tool_search(model))
    }

    fn check(&self, model: &ModelConfig) -> Result<(), ProviderError> {
        self.provider(model)?.check(model)
    }

    fn body(&self, request: &ModelRequest) -> Option<Vec<u8>> {
        self.provider(&request.model).ok()?.body(request)
    }

    fn cache_lifetime(&self, request: &ModelRequest) -> Option<Duration> {
        self.provider(&request.model).ok()?.cache_lifetime(request)
    }
}
