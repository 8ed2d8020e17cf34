//! AWS Bedrock ConverseStream: `POST /model/{id}/converse-stream`, always streamed.
//!
//! Read in this order: `config` (where to and who calls), `encode` (a request as bytes), `sign` (the AWS SDK signs and
//! sends it), `wire` (the vendor's names), `decode` (the events), `error` (refusals). The frames of the answer are in
//! [`eventstream`](crate::eventstream). What the vendor documents and what was found out besides stands in
//! `docs/providers/bedrock.md`.
//!
//! The key of the model is either an API key for Bedrock, which is sent as a bearer token, or an AWS key as
//! `ACCESS_KEY_ID:SECRET_ACCESS_KEY` with `:SESSION_TOKEN` behind it where there is one, by which the request is signed.
//! Nothing here reads the environment; credentials from elsewhere are given by
//! [`with_credentials`](BedrockProvider::with_credentials), and with the feature `bedrock-config` by
//! `with_default_chain`.
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
mod config;
mod decode;
mod encode;
mod error;
mod family;
mod sign;
mod source;
mod wire;

use std::sync::Arc;

use agent_core::{
    CancellationToken, Completion, EventSink, ModelConfig, ModelRequest, ProviderError, StreamProvider,
};
use async_trait::async_trait;

pub use aws_credential_types::Credentials;
pub use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};

use crate::Transport;
use crate::protocol::{Decode, Dispatched, Framing, HttpRequest, Protocol, Rejection, Undelivered};
use crate::transport::tap::Tap;
use source::Source;

/// The ConverseStream protocol: how a request is written and how its answer is read. It holds no connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bedrock {
    /// Who knows the credentials where the model has no key.
    source: Option<Source>,
}

impl Protocol for Bedrock {
    fn encode(&self, request: &ModelRequest) -> Result<HttpRequest, ProviderError> {
        let url = config::endpoint(&request.model, self.source.as_ref())?;
        config::auth(request, self.source.as_ref())?;
        let body = encode::body(request)?;
        Ok(HttpRequest { url, headers: config::headers(), body })
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

    fn rejected_as(
        &self,
        request: &ModelRequest,
        rejection: &Rejection<'_>,
        error_type: Option<&str>,
    ) -> ProviderError {
        error::rejected(request, rejection, error_type)
    }

    fn rejected(&self, request: &ModelRequest, rejection: &Rejection<'_>) -> ProviderError {
        error::rejected(request, rejection, None)
    }
}

/// Calls models on AWS Bedrock (REQ-122).
#[derive(Debug, Clone, Default)]
pub struct BedrockProvider {
    transport: Transport,
    protocol: Bedrock,
    #[cfg(feature = "bedrock-config")]
    chain: Option<chain::Chain>,
}

impl BedrockProvider {
    /// A provider over the connections that the process shares.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A provider over these connections.
    #[must_use]
    pub fn with_transport(transport: Transport) -> Self {
        Self { transport, ..Self::default() }
    }

    /// The same provider, which asks `credentials` where a model has no key of its own. Asked for each call: a provider
    /// that has to fetch its credentials should keep them.
    #[must_use]
    pub fn with_credentials(mut self, credentials: impl ProvideCredentials + 'static) -> Self {
        self.protocol.source = Some(Source::Provider(SharedCredentialsProvider::new(credentials)));
        self
    }

    /// The same provider, which takes credentials and region from where AWS keeps them, where a model has no key of its
    /// own: environment, profile, web identity, container or machine role. They are looked up by the first call that
    /// needs them, over the same connections.
    #[cfg(feature = "bedrock-config")]
    #[must_use]
    pub fn with_default_chain(mut self) -> Self {
        self.chain = Some(chain::Chain::default());
        self
    }

    /// The same provider with a configuration of the AWS SDK, for where a model has no key of its own: credentials,
    /// region and address.
    #[cfg(feature = "bedrock-config")]
    #[must_use]
    pub fn with_sdk_config(mut self, config: aws_config::SdkConfig) -> Self {
        self.protocol.source = Some(Source::Config(Box::new(config)));
        self
    }

    /// What the registry takes: with everything that this build can find.
    pub(crate) fn for_registry(transport: &Transport) -> Self {
        let provider = Self::with_transport(transport.clone());
        #[cfg(feature = "bedrock-config")]
        let provider = provider.with_default_chain();
        provider
    }

    /// The protocol, with what the chain knows where this call needs it.
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
        self.protocol.encode(request).ok().map(|ready| ready.body)
    }
}
