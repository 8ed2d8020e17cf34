//! AWS Bedrock ConverseStream: `POST /model/{id}/converse-stream`, always streamed.
//!
//! Suggested reading order: `config` (endpoint and credentials), `encode` (request body), `sign` (signing and sending
//! through the AWS SDK), `wire` (the vendor's types), `decode` (events), `error` (error responses).
//! [`eventstream`](crate::eventstream) splits the response into frames. `docs/providers/bedrock.md` describes the
//! documented and the observed behaviour of the API.
//!
//! The model's `api_key` is either a Bedrock API key, which is sent as a bearer token, or an AWS key of the form
//! `ACCESS_KEY_ID:SECRET_ACCESS_KEY` or `ACCESS_KEY_ID:SECRET_ACCESS_KEY:SESSION_TOKEN`, which signs the request. This
//! module does not read the environment. [`with_credentials`](BedrockProvider::with_credentials) and, with the feature
//! `bedrock-config`, `with_default_chain` supply credentials from other sources.
//!
//! ```
//! use agent_core::{ModelConfig, StreamProvider};
//! use agent_providers::BedrockProvider;
//! let provider = BedrockProvider::new();
//! assert_eq!(provider.provider_id(), "bedrock");
//! let model = ModelConfig::bedrock("eu-central-1", "eu.anthropic.claude-sonnet-4-6");
//! assert!(provider.check(&model).is_err());
//! assert!(provider.check(&model.with_api_key("AKIDEXAMPLE:its-secret-key")).is_ok());
//! ```

#[cfg(feature = "bedrock-config")]
mod chain;
mod citation;
mod config;
mod decode;
mod encode;
mod error;
mod family;
mod sign;
mod source;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use agent_core::{
    CancellationToken, Completion, EventSink, ModelConfig, ModelRequest, ProviderError, StreamProvider,
};
use async_trait::async_trait;

pub use aws_credential_types::Credentials;
pub use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};

use crate::Transport;
use crate::protocol::{Decode, Dispatched, Framing, HttpRequest, Protocol, Rejection, Undelivered};
use crate::tap::Tap;
use source::Source;

/// The ConverseStream protocol: encodes requests and decodes responses. It holds no connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bedrock {
    /// Supplies the credentials if the model has no key.
    source: Option<Source>,
}

impl Protocol for Bedrock {
    fn encode(&self, request: &ModelRequest) -> Result<HttpRequest, ProviderError> {
        let url = config::endpoint(&request.model, self.source.as_ref())?;
        config::auth(request, self.source.as_ref())?;
        let body = encode::body(request)?;
        Ok(HttpRequest { url, headers: config::headers(&request.model)?, body })
    }

    fn framing(&self) -> Framing {
        Framing::EventStream
    }

    fn decoder(&self, request: &ModelRequest) -> Box<dyn Decode> {
        Box::new(decode::Decoder::new(request))
    }

    fn dispatch(
        &self,
        request: &ModelRequest,
        client: &reqwest::Client,
        ready: HttpRequest,
        tap: Option<Arc<Tap>>,
    ) -> Dispatched {
        let region = config::region(&request.model, self.source.as_ref());
        match config::auth(request, self.source.as_ref()) {
            Ok(auth) => sign::dispatch(sign::Signer { auth, region }, request, client, (ready, tap)),
            Err(error) => Box::pin(std::future::ready(Err(Undelivered::Refused(error)))),
        }
    }

    fn cache_lifetime(&self, request: &ModelRequest) -> Option<Duration> {
        encode::lifetimes(request)?.shortest(&request.options.cache_config)
    }

    fn rejected(&self, request: &ModelRequest, rejection: &Rejection<'_>) -> ProviderError {
        error::rejected(request, rejection)
    }
}

/// A provider for models on AWS Bedrock. Clones share one connection pool.
#[derive(Debug, Clone, Default)]
pub struct BedrockProvider {
    transport: Transport,
    protocol: Bedrock,
    #[cfg(feature = "bedrock-config")]
    chain: Option<chain::Chain>,
}

impl BedrockProvider {
    /// Returns a provider that uses the connection pool of the process.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a provider that uses `transport`.
    #[must_use]
    pub fn with_transport(transport: Transport) -> Self {
        Self { transport, ..Self::default() }
    }

    /// Requests credentials from `credentials` for models without an `api_key`. The provider asks before every call, so an
    /// implementation that fetches credentials should cache them.
    #[must_use]
    pub fn with_credentials(mut self, credentials: impl ProvideCredentials + 'static) -> Self {
        self.protocol.source = Some(Source::Provider(SharedCredentialsProvider::new(credentials)));
        self
    }

    /// Reads credentials and region from the standard AWS sources for models without an `api_key`: environment, profile,
    /// web identity, container role or machine role. The first call that needs them loads them over the same connections.
    #[cfg(feature = "bedrock-config")]
    #[must_use]
    pub fn with_default_chain(mut self) -> Self {
        self.chain = Some(chain::Chain::default());
        self
    }

    /// Uses the credentials, region and endpoint of an AWS SDK configuration for models without an `api_key`.
    #[cfg(feature = "bedrock-config")]
    #[must_use]
    pub fn with_sdk_config(mut self, config: aws_config::SdkConfig) -> Self {
        self.protocol.source = Some(Source::Config(Box::new(config)));
        self
    }

    /// Returns the provider of the registry, which uses every source of credentials that this build supports.
    pub(crate) fn for_registry(transport: &Transport) -> Self {
        let provider = Self::with_transport(transport.clone());
        #[cfg(feature = "bedrock-config")]
        let provider = provider.with_default_chain();
        provider
    }

    /// Returns the protocol with the credentials of the default chain if this call needs them.
    async fn protocol(
        &self,
        request: &ModelRequest,
        cancel: &CancellationToken,
    ) -> Result<Bedrock, ProviderError> {
        let _ = (request, cancel);
        #[cfg(feature = "bedrock-config")]
        if let Some(chain) = &self.chain
            && self.protocol.source.is_none()
            && chain::is_needed(request)
        {
            let source = chain.load(&self.transport, cancel).await?;
            return Ok(Bedrock { source: Some(source) });
        }
        Ok(self.protocol.clone())
    }
}

#[async_trait]
impl StreamProvider for BedrockProvider {
    fn provider_id(&self) -> &str {
        "bedrock"
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        let protocol = self.protocol(request, cancel).await?;
        self.transport.call(&protocol, request, sink, cancel).await
    }

    fn complete_model(&self, model: &ModelConfig) -> Option<ModelConfig> {
        crate::catalogue::complete(model)
    }

    fn check(&self, model: &ModelConfig) -> Result<(), ProviderError> {
        #[cfg(feature = "bedrock-config")]
        if let Some(chain) = &self.chain
            && self.protocol.source.is_none()
        {
            return chain.check(model);
        }
        self.protocol.check(model)
    }

    fn body(&self, request: &ModelRequest) -> Option<Vec<u8>> {
        self.protocol.sendable(request).ok().map(|ready| ready.body)
    }

    fn cache_lifetime(&self, request: &ModelRequest) -> Option<Duration> {
        self.protocol.cache_lifetime(request)
    }
}
