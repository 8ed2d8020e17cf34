//! Creates the pooled clients when they are first needed.
//!
//! There are three because their costs differ. Requests to this machine need neither proxies nor certificates. A client
//! for `http://` loads no certificates, which takes 16 us instead of 3 to 9 ms. Only the client for `https://` loads
//! them.

use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use agent_core::{ErrorContext, ErrorKind, ProviderError};
use reqwest::{Client, ClientBuilder, Url, redirect, retry};

/// The idle time after which a pooled connection is closed. Many servers close theirs after 60 s.
const POOL_IDLE: Duration = Duration::from_secs(50);

/// The interval of TCP keep-alive probes, which detect a dead connection.
const KEEPALIVE: Duration = Duration::from_secs(30);

pub(super) struct Clients {
    connect_timeout: Duration,
    given: Option<Client>,
    local: OnceLock<Client>,
    plain: OnceLock<Client>,
    tls: OnceLock<Client>,
    #[cfg(feature = "openai-responses-ws")]
    upgrade: OnceLock<Client>,
}

impl Clients {
    pub(super) fn lazy(connect_timeout: Duration) -> Self {
        Self {
            connect_timeout,
            given: None,
            local: OnceLock::new(),
            plain: OnceLock::new(),
            tls: OnceLock::new(),
            #[cfg(feature = "openai-responses-ws")]
            upgrade: OnceLock::new(),
        }
    }

    pub(super) fn given(client: Client) -> Self {
        Self { given: Some(client), ..Self::lazy(super::CONNECT_TIMEOUT) }
    }

    /// Returns the client for this address.
    pub(super) fn for_url(&self, url: &Url) -> Result<&Client, ProviderError> {
        if let Some(client) = &self.given {
            return Ok(client);
        }
        match url.scheme() {
            "https" => self.secure(),
            _ if is_local(url) => built(&self.local, || without_roots(self.builder()).no_proxy()),
            _ => built(&self.plain, || without_roots(self.builder())),
        }
    }

    /// Returns the client for an upgrade of a connection to this address. HTTP/2, which `https://` servers prefer, has none.
    #[cfg(feature = "openai-responses-ws")]
    pub(super) fn for_upgrade(&self, url: &Url) -> Result<&Client, ProviderError> {
        // Without TLS this is the error that names the missing feature.
        let client = self.for_url(url)?;
        if self.given.is_some() || url.scheme() != "https" {
            return Ok(client);
        }
        built(&self.upgrade, || self.builder().http1_only())
    }

    fn builder(&self) -> ClientBuilder {
        Client::builder()
            // Even a client that never retries copies each request if it may retry it.
            .retry(retry::never().max_retries_per_request(0))
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(self.connect_timeout)
            .pool_idle_timeout(POOL_IDLE)
            .tcp_keepalive(KEEPALIVE)
            .tcp_nodelay(true)
    }

    #[cfg(any(feature = "tls-rustls", feature = "tls-native"))]
    fn secure(&self) -> Result<&Client, ProviderError> {
        built(&self.tls, || self.builder())
    }

    #[cfg(not(any(feature = "tls-rustls", feature = "tls-native")))]
    fn secure(&self) -> Result<&Client, ProviderError> {
        let _ = &self.tls;
        let context = ErrorContext::new("https:// is not built in")
            .with_advice("enable the feature tls-rustls or tls-native, or use an http:// address");
        Err(ProviderError::new(ErrorKind::Other, context))
    }
}

#[cfg(any(feature = "tls-rustls", feature = "tls-native"))]
fn without_roots(builder: ClientBuilder) -> ClientBuilder {
    builder.tls_certs_only([])
}

#[cfg(not(any(feature = "tls-rustls", feature = "tls-native")))]
fn without_roots(builder: ClientBuilder) -> ClientBuilder {
    builder
}

fn built(slot: &OnceLock<Client>, make: impl FnOnce() -> ClientBuilder) -> Result<&Client, ProviderError> {
    if let Some(client) = slot.get() {
        return Ok(client);
    }
    let client = make().build().map_err(|error| {
        let context = ErrorContext::new("the HTTP client cannot be built").with_source(error.without_url());
        ProviderError::new(ErrorKind::Other, context)
    })?;
    Ok(slot.get_or_init(|| client))
}

/// Returns whether the host is the local machine, which a proxy cannot reach.
fn is_local(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    })
}
