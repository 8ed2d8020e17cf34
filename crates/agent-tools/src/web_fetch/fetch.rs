//! Sends requests to permitted addresses only, and reads answers with limits.

use std::error::Error as _;
use std::net::IpAddr;
use std::sync::Arc;

use reqwest::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use reqwest::{Client, Response, Url};

use super::address::{Guard, Lookup, Reach, Refused};
use super::{MAX_REDIRECTS, MAX_URL_BYTES, Redirects, TIMEOUT, USER_AGENT, WebFetchError};
use crate::text::head;

/// What a fetch may do.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    pub(super) reach: Reach,
    pub(super) ports: Vec<u16>,
    pub(super) redirects: Redirects,
}

/// The answer of a server.
#[derive(Debug)]
pub(super) enum Answer {
    /// The content of a page.
    Page { url: Url, kind: String, body: Vec<u8>, is_cut: bool },
    /// The page is at another site, which was not followed.
    Elsewhere(Url),
    /// A status that is no success.
    Status(Url, u16),
}

/// The result of one request.
#[derive(Debug)]
pub(super) enum Hop {
    /// The server redirects to this address, which is permitted.
    Moved(Url),
    /// The server answered.
    End(Answer),
}

/// Creates the client. It uses no proxy, because a proxy would connect instead of this process, and follows no redirects.
pub(super) fn client(limits: &Limits, lookup: Lookup) -> Result<Client, WebFetchError> {
    Client::builder()
        .dns_resolver(Arc::new(Guard { reach: limits.reach.clone(), lookup }))
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .pool_max_idle_per_host(0)
        .user_agent(USER_AGENT)
        .timeout(TIMEOUT)
        .build()
        .map_err(|source| WebFetchError::Client { source })
}

/// Parses an address and checks everything that can be checked without a connection.
pub(super) fn checked(url: &str, limits: &Limits) -> Result<Url, WebFetchError> {
    let wrong = |cause: &str| WebFetchError::Url { url: head(url, 200).to_owned(), cause: cause.to_owned() };
    if url.len() > MAX_URL_BYTES {
        return Err(wrong("it is too long"));
    }
    let mut parsed = Url::parse(url).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(wrong("use http or https"));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(wrong("it has a user name or a password"));
    }
    let port = parsed.port_or_known_default().unwrap_or_default();
    if !limits.ports.contains(&port) {
        return Err(wrong(&format!("the port {port} is not permitted")));
    }
    // The client does not resolve a host that is an address. The parser has converted all forms of one.
    let host = parsed.host_str().unwrap_or_default();
    if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>()
        && !limits.reach.permits(address)
    {
        return Err(WebFetchError::Refused { host: host.to_owned(), address });
    }
    parsed.set_fragment(None);
    Ok(parsed)
}

/// Fetches an address, and follows the redirects that are permitted. Reads at most `max` bytes.
pub(super) async fn get(
    client: &Client,
    url: Url,
    limits: &Limits,
    max: usize,
) -> Result<Answer, WebFetchError> {
    let mut url = url;
    for _ in 0..=MAX_REDIRECTS {
        match once(client, url, limits, max).await? {
            Hop::Moved(next) => url = next,
            Hop::End(answer) => return Ok(answer),
        }
    }
    Err(WebFetchError::Redirects { url: url.to_string() })
}

/// Sends one request. Reads at most `max` bytes of the answer.
pub(super) async fn once(
    client: &Client,
    url: Url,
    limits: &Limits,
    max: usize,
) -> Result<Hop, WebFetchError> {
    let accept = "text/html, text/markdown, text/plain, application/json;q=0.9, text/*;q=0.8, */*;q=0.1";
    let sent = client.get(url.clone()).header(ACCEPT, accept).send().await;
    let response = sent.map_err(|error| failure(&url, error))?;
    if let Some(connected) = response.remote_addr()
        && !limits.reach.permits(connected.ip())
    {
        return Err(refused(&url, connected.ip()));
    }
    let status = response.status();
    let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
    if let Some(location) = location.filter(|_| status.is_redirection()) {
        let joined = url.join(location).map_err(|error| WebFetchError::Url {
            url: head(location, 200).to_owned(),
            cause: error.to_string(),
        })?;
        let next = checked(joined.as_str(), limits)?;
        if limits.redirects == Redirects::SameSite && site(&next) != site(&url) {
            return Ok(Hop::End(Answer::Elsewhere(next)));
        }
        return Ok(Hop::Moved(next));
    }
    if !status.is_success() {
        return Ok(Hop::End(Answer::Status(url, status.as_u16())));
    }
    read(url, response, max).await.map(Hop::End)
}

/// Returns the host without `www.`, which most sites have or have not.
fn site(url: &Url) -> &str {
    let host = url.host_str().unwrap_or_default();
    host.strip_prefix("www.").unwrap_or(host)
}

fn refused(url: &Url, address: IpAddr) -> WebFetchError {
    WebFetchError::Refused { host: url.host_str().unwrap_or_default().to_owned(), address }
}

async fn read(url: Url, mut response: Response, max: usize) -> Result<Answer, WebFetchError> {
    let header =
        |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (kind, coding) = (header(CONTENT_TYPE).to_owned(), header(CONTENT_ENCODING).trim().to_owned());
    if !coding.is_empty() && !coding.eq_ignore_ascii_case("identity") {
        let cause =
            format!("the server compressed it ({}), although no compression was offered", head(&coding, 50));
        return Err(WebFetchError::Failed { url: url.to_string(), cause });
    }
    let (mut body, mut is_cut) = (Vec::new(), false);
    while let Some(chunk) = response.chunk().await.map_err(|error| failure(&url, error))? {
        let room = max - body.len();
        body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if chunk.len() > room {
            is_cut = true;
            break;
        }
    }
    Ok(Answer::Page { url, kind, body, is_cut })
}

fn failure(url: &Url, error: reqwest::Error) -> WebFetchError {
    if error.is_timeout() {
        return WebFetchError::Timeout { url: url.to_string() };
    }
    let error = error.without_url();
    let mut cause = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref::<Refused>() {
            return WebFetchError::Refused { host: found.host.clone(), address: found.address };
        }
        cause.push_str(": ");
        cause.push_str(&error.to_string());
        source = error.source();
    }
    WebFetchError::Failed { url: url.to_string(), cause }
}
