//! Loads credentials and region once from the standard AWS sources (feature `bedrock-config`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_core::{CancellationToken, History, Message, ModelConfig, ModelRequest, ProviderError};
use aws_config::{BehaviorVersion, SdkConfig};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use http::{HeaderName, HeaderValue};
use tokio::sync::OnceCell;
use tracing::Dispatch;
use tracing::instrument::WithSubscriber as _;

use super::config;
use super::encode;
use super::source::Source;
use crate::Transport;

/// The maximum size of a response with credentials, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// The maximum time to wait for a response with credentials. The SDK may set a shorter one.
const PATIENCE: Duration = Duration::from_secs(20);

/// The credentials and the region, once they have been found. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Chain {
    found: Arc<OnceCell<SdkConfig>>,
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Chain")
    }
}

/// Returns whether a call needs credentials or a region that its model lacks.
pub(super) fn is_needed(request: &ModelRequest) -> bool {
    config::auth(request, None).is_err() && request.key().is_none_or(agent_core::Secret::is_empty)
        || config::region(&request.model, None).is_none()
}

impl Chain {
    /// Returns the credentials and the region. The first call looks them up; later calls return the stored result.
    pub(super) async fn load(
        &self,
        transport: &Transport,
        cancel: &CancellationToken,
    ) -> Result<Source, ProviderError> {
        let lookup = async {
            let http = Connector { transport: transport.clone(), limit: PATIENCE };
            aws_config::defaults(BehaviorVersion::latest()).http_client(http).load().await
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ProviderError::Cancelled),
            // The log of the SDK would show the credentials that it finds.
            found = self.found.get_or_init(|| lookup.with_subscriber(Dispatch::none())) => {
                Ok(Source::Config(Box::new(found.clone())))
            }
        }
    }

    /// Checks whether a call is possible, as far as this is known before the lookup.
    pub(super) fn check(&self, model: &ModelConfig) -> Result<(), ProviderError> {
        let (history, _) = History::repaired([agent_core::AgentMessage::from(Message::user("?"))]);
        let request = ModelRequest::new(model.clone(), history);
        let source = self.found.get().map(|found| Source::Config(Box::new(found.clone())));
        if source.is_some() || !is_needed(&request) {
            config::endpoint(model, source.as_ref())?;
            config::auth(&request, source.as_ref())?;
        }
        encode::body(&request).map(|_| ())
    }
}

/// Lets the SDK request credentials over the connections of this crate.
#[derive(Debug, Clone)]
struct Connector {
    transport: Transport,
    limit: Duration,
}

impl HttpClient for Connector {
    fn http_connector(&self, settings: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        // A machine without a role does not respond at all; the SDK waits one second.
        let limits = [settings.connect_timeout(), settings.read_timeout()];
        let limit = limits.into_iter().flatten().reduce(|a, b| a + b).unwrap_or(PATIENCE);
        SharedHttpConnector::new(Self { transport: self.transport.clone(), limit: limit.min(PATIENCE) })
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (transport, limit) = (self.transport.clone(), self.limit);
        HttpConnectorFuture::new(async move {
            match tokio::time::timeout(limit, exchange(&transport, request)).await {
                Ok(end) => end,
                Err(late) => Err(ConnectorError::timeout(late.into())),
            }
        })
    }
}

async fn exchange(transport: &Transport, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
    let user = |error: &str| ConnectorError::user(error.into());
    let url = reqwest::Url::parse(request.uri()).map_err(|e| ConnectorError::user(e.into()))?;
    let method = reqwest::Method::from_bytes(request.method().as_bytes())
        .map_err(|e| ConnectorError::user(e.into()))?;
    let client = transport.client(&url).map_err(|e| ConnectorError::user(e.into()))?;
    let mut ready = reqwest::Request::new(method, url);
    for (name, value) in request.headers() {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|e| ConnectorError::user(e.into()))?;
        let mut value = HeaderValue::from_str(value).map_err(|e| ConnectorError::user(e.into()))?;
        value.set_sensitive(true);
        ready.headers_mut().append(name, value);
    }
    let body = request.body().bytes().ok_or_else(|| user("the body of a request for credentials streams"))?;
    *ready.body_mut() = Some(body.to_vec().into());
    let io = |error: reqwest::Error| ConnectorError::io(error.without_url().into());
    let mut response = client.execute(ready).await.map_err(io)?;
    let status = response.status();
    let headers = std::mem::take(response.headers_mut());
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(io)? {
        bytes.extend_from_slice(&piece);
        if bytes.len() > MAX_ANSWER_BYTES {
            return Err(user("an answer with credentials is too long"));
        }
    }
    let mut out = HttpResponse::new(status.into(), SdkBody::from(bytes));
    for (name, value) in &headers {
        if let Ok(value) = value.to_str() {
            let _ = out.headers_mut().try_append(name.as_str().to_owned(), value.to_owned());
        }
    }
    Ok(out)
}
