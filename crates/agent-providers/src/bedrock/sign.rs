//! Signs and sends requests through the AWS SDK.
//!
//! The request runs through the SDK's ConverseStream operation, which resolves the credentials, signs the body from
//! [`encode`](super::encode) and passes the request to a connector. The connector uses the connections of this crate,
//! so there is one HTTP stack. It keeps the response for the transport and returns an empty one to the SDK, whose
//! parser ends the stream at unknown members. The retries and timeouts of the SDK are disabled, because the agent's
//! loop and the transport have their own.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use agent_core::{ErrorKind, ModelRequest};
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_bedrockruntime::Client;
use aws_sdk_bedrockruntime::config::retry::RetryConfig;
use aws_sdk_bedrockruntime::config::timeout::TimeoutConfig;
use aws_sdk_bedrockruntime::config::{
    AppName, BehaviorVersion, Builder, Config, IdentityCache, Region, StalledStreamProtectionConfig, Token,
};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest as SdkRequest, HttpResponse as SdkResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use tracing::Dispatch;
use tracing::instrument::WithSubscriber as _;

use super::config::Auth;
use super::error;
use crate::protocol::{Dispatched, HttpRequest, Undelivered};
use crate::tap::Tap;

/// The credentials of the caller and the region that the signature names.
#[derive(Debug, Clone)]
pub(super) struct Signer {
    pub(super) auth: Auth,
    pub(super) region: Option<String>,
}

/// Signs and sends a request.
pub(super) fn dispatch(
    signer: Signer,
    request: &ModelRequest,
    client: &reqwest::Client,
    (ready, tap): (HttpRequest, Option<Arc<Tap>>),
) -> Dispatched {
    let HttpRequest { url, headers, body } = ready;
    let body = crate::body_buffer::sent(body);
    let answer = Answer::default();
    let connector = Connector {
        client: client.clone(),
        body: body.clone(),
        by_hand: by_hand(request, &headers),
        answer: Arc::clone(&answer),
        tap,
    };
    let (id, request) = (request.model.id.clone(), request.clone());
    Box::pin(async move {
        let config = config(&signer).endpoint_url(url.origin().ascii_serialization()).http_client(connector);
        let sent = Client::from_conf(config.build())
            .converse_stream()
            .model_id(id)
            .customize()
            .map_request(move |sdk| written(sdk, &url, &headers, &body))
            .send();
        // The log of the SDK would show requests with their credentials.
        let end = sent.with_subscriber(Dispatch::none()).await;
        match answer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(Ok(response)) => Ok(response),
            Some(Err(error)) => Err(Undelivered::Sending(error)),
            None => Err(Undelivered::Refused(refused(
                &request,
                end.err().as_ref().map(|e| e as &(dyn Error + 'static)),
            ))),
        }
    })
}

/// Returns the SDK's configuration for one call.
fn config(signer: &Signer) -> Builder {
    let builder = match &signer.auth {
        Auth::Source(source) => source.builder(),
        _ => Config::builder().identity_cache(IdentityCache::no_cache()),
    };
    let builder = match &signer.auth {
        Auth::Bearer(key) => {
            builder.bearer_token(Token::new(key.expose(), None)).auth_scheme_preference([BEARER.into()])
        }
        Auth::Keys { id, secret, session } => builder.credentials_provider(Credentials::new(
            id.expose(),
            secret.expose(),
            session.as_ref().map(|s| s.expose().to_owned()),
            None,
            "looptree",
        )),
        Auth::Headers => builder.allow_no_auth(),
        Auth::Source(_) => builder,
    };
    let mut builder = builder
        .behavior_version(BehaviorVersion::latest())
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .region(signer.region.clone().map(Region::new));
    builder.set_app_name(AppName::new(APP).ok());
    builder
}

/// The SDK's name for bearer tokens.
const BEARER: &str = "httpBearerAuth";

/// The name of this library in the SDK's `user-agent`.
const APP: &str = concat!("looptree-", env!("CARGO_PKG_VERSION"));

/// Replaces address, headers and body of the SDK's request by the encoded ones.
fn written(
    mut sdk: SdkRequest,
    url: &reqwest::Url,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<SdkRequest, Unwritable> {
    sdk.set_uri(url.as_str()).map_err(|_| Unwritable)?;
    for (name, value) in headers {
        let value = value.to_str().map_err(|_| Unwritable)?;
        sdk.headers_mut().try_insert(name.as_str().to_owned(), value.to_owned()).map_err(|_| Unwritable)?;
    }
    let length = body.len().to_string();
    sdk.headers_mut().try_insert(CONTENT_LENGTH.as_str(), length).map_err(|_| Unwritable)?;
    *sdk.body_mut() = SdkBody::from(body.clone());
    Ok(sdk)
}

/// The request cannot be converted to or from the SDK's form.
#[derive(Debug, thiserror::Error)]
#[error("the address or a header holds characters that cannot be sent")]
struct Unwritable;

/// Returns the headers to correct after the SDK has written its own: those that the caller removed, and the caller's user
/// agent.
fn by_hand(request: &ModelRequest, headers: &HeaderMap) -> Vec<(HeaderName, Option<HeaderValue>)> {
    let said = request.model.headers.iter().chain(&request.options.headers);
    let mut out = Vec::new();
    for (name, value) in said {
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else { continue };
        if value.is_none() && !headers.contains_key(&name) {
            out.push((name, None));
        } else if name == USER_AGENT {
            out.push((name, headers.get(USER_AGENT).cloned()));
        }
    }
    out
}

/// Returns the error of a request that was not sent.
fn refused(request: &ModelRequest, error: Option<&(dyn Error + 'static)>) -> agent_core::ProviderError {
    let mut chain: Vec<&(dyn Error + 'static)> = Vec::new();
    let mut next = error;
    while let Some(error) = next {
        chain.push(error);
        next = error.source();
    }
    let credentials = chain.iter().find_map(|e| e.downcast_ref::<CredentialsError>());
    let cause = chain.last().map_or_else(|| "the SDK did not send it".to_owned(), ToString::to_string);
    match credentials {
        // An endpoint for credentials that timed out may be reachable later.
        Some(CredentialsError::ProviderTimedOut(_)) => {
            let message = format!("AWS credentials could not be had in time: {cause}");
            error::unsigned(request, ErrorKind::Network, &message)
        }
        Some(_) => {
            let message = format!("AWS credentials could not be had: {cause}");
            error::unsigned(request, ErrorKind::Auth, &message)
        }
        None => {
            let message = format!("the request could not be signed: {cause}");
            error::unsigned(request, ErrorKind::Auth, &message)
        }
    }
}

type Answer = Arc<Mutex<Option<reqwest::Result<reqwest::Response>>>>;

/// Sends one signed request and stores its response.
struct Connector {
    client: reqwest::Client,
    /// The signed body.
    body: Bytes,
    by_hand: Vec<(HeaderName, Option<HeaderValue>)>,
    answer: Answer,
    /// Reports the signed request to the wire hooks.
    tap: Option<Arc<Tap>>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl Connector {
    /// Converts the signed request for the client.
    fn request(&self, signed: &SdkRequest) -> Result<reqwest::Request, Unwritable> {
        let url = reqwest::Url::parse(signed.uri()).map_err(|_| Unwritable)?;
        let mut request = reqwest::Request::new(reqwest::Method::POST, url);
        let headers = request.headers_mut();
        for (name, value) in signed.headers() {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| Unwritable)?;
            let mut value = HeaderValue::from_str(value).map_err(|_| Unwritable)?;
            value.set_sensitive(true);
            headers.append(name, value);
        }
        for (name, value) in &self.by_hand {
            match value {
                Some(value) => drop(headers.insert(name, value.clone())),
                None => drop(headers.remove(name)),
            }
        }
        *request.body_mut() = Some(self.body.clone().into());
        Ok(request)
    }
}

impl HttpConnector for Connector {
    fn call(&self, signed: SdkRequest) -> HttpConnectorFuture {
        let request = match self.request(&signed) {
            Ok(request) => request,
            Err(error) => return HttpConnectorFuture::ready(Err(ConnectorError::user(error.into()))),
        };
        if let Some(tap) = &self.tap {
            tap.sent(&request);
        }
        let (sent, answer) = (self.client.execute(request), Arc::clone(&self.answer));
        HttpConnectorFuture::new(async move {
            let end = sent.await;
            let failed = end.is_err();
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
            if failed {
                return Err(ConnectorError::io("see the answer that was kept".into()));
            }
            Ok(SdkResponse::new(http::StatusCode::OK.into(), SdkBody::empty()))
        })
    }
}

/// Each call has its own client with one connector.
impl HttpClient for Connector {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(Self {
            client: self.client.clone(),
            body: self.body.clone(),
            by_hand: self.by_hand.clone(),
            answer: Arc::clone(&self.answer),
            tap: self.tap.clone(),
        })
    }
}
