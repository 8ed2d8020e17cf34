//! Fetches a JSON document beside the model calls, such as a list of models.

use agent_core::{CancellationToken, ModelRequest, ProviderError};
use reqwest::{Method, Url};
use serde_json::Value;

use super::call::dress;
use super::send::Head;
use super::{Transport, failure};
use crate::protocol::{HttpRequest, Protocol, Rejection};
use crate::request::apply_custom;

impl Transport {
    /// Sends a GET request to `url` with the headers that a call of this model has, once, and returns the JSON body. The time
    /// limit of the response headers applies to the whole exchange.
    pub(crate) async fn fetch(
        &self,
        protocol: &dyn Protocol,
        request: &ModelRequest,
        encoded: &HttpRequest,
        url: Url,
        cancel: &CancellationToken,
    ) -> Result<Value, ProviderError> {
        let limit = self.inner.config.header_timeout;
        let exchange = tokio::time::timeout(limit, self.exchange(protocol, request, encoded, &url));
        let result = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ProviderError::Cancelled),
            result = exchange => result.unwrap_or_else(|_| Err(failure::no_head(&url, limit))),
        };
        result.map_err(|error| dress(error, request, &Head::default()))
    }

    async fn exchange(
        &self,
        protocol: &dyn Protocol,
        request: &ModelRequest,
        encoded: &HttpRequest,
        url: &Url,
    ) -> Result<Value, ProviderError> {
        let mut headers = encoded.headers.clone();
        headers.remove(http::header::CONTENT_TYPE);
        headers.insert(http::header::ACCEPT, http::HeaderValue::from_static("application/json"));
        apply_custom(&mut headers, request)?;
        let mut sent = reqwest::Request::new(Method::GET, url.clone());
        *sent.headers_mut() = headers;
        let client = self.inner.clients.for_url(url)?;
        let mut response = client.execute(sent).await.map_err(|error| failure::sending(error, url))?;
        let status = response.status();
        if status.is_redirection() {
            return Err(failure::redirected(status.as_u16(), response.headers(), url));
        }
        let config = &self.inner.config;
        let most = if status.is_success() { config.max_frame_bytes } else { config.max_error_bytes };
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(failure::broken)? {
            body.extend_from_slice(&piece);
            if body.len() > most {
                if status.is_success() {
                    return Err(failure::too_long(most));
                }
                body.truncate(most);
                break;
            }
        }
        if !status.is_success() {
            let rejection = Rejection { status: status.as_u16(), body: &body, error_type: None };
            return Err(protocol.rejected(request, &rejection));
        }
        serde_json::from_slice(&body).map_err(|error| failure::unreadable(&error))
    }
}
