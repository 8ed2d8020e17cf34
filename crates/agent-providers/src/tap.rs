//! Passes the bytes of an exchange to the wire hooks, without credentials.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use agent_core::provider::HIDDEN;
use agent_core::{ModelRequest, Received, ReceivedPart, SentRequest, WireHooks};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::server_tools;

/// The minimum length of a secret in bytes. Shorter strings cannot be distinguished from other text.
const MIN_SECRET: usize = 8;

/// Headers that never contain a credential.
const HARMLESS: &[&str] = &[
    "accept",
    "accept-encoding",
    "amz-sdk-invocation-id",
    "amz-sdk-request",
    "anthropic-beta",
    "anthropic-version",
    "content-length",
    "content-type",
    "host",
    "http-referer",
    "openai-beta",
    "openai-organization",
    "openai-project",
    "user-agent",
    "x-amz-date",
    "x-amz-user-agent",
    "x-amzn-bedrock-accept",
    "x-goog-api-client",
    "x-goog-user-project",
    "x-title",
];

/// Words of authentication schemes. They occur beside a credential in a header and are not secret.
const SCHEMES: &[&[u8]] = &[b"AWS4-HMAC-SHA256", b"Credential", b"SignedHeaders", b"Signature"];

/// Substrings of the names of headers and query parameters that contain a credential.
const TELLING: &[&str] =
    &["auth", "key", "token", "secret", "cookie", "signature", "credential", "password", "sig"];

/// One exchange that is reported to the wire hooks.
pub(crate) struct Tap {
    hooks: WireHooks,
    exchange: u64,
    target: (String, String),
    /// The secrets that are removed from everything that the hooks receive.
    secrets: OnceLock<Vec<Vec<u8>>>,
    /// The credentials in the request, before it was encoded.
    given: Vec<String>,
}

impl Tap {
    /// Returns a tap if the request has wire hooks.
    pub(crate) fn of(request: &ModelRequest) -> Option<Arc<Self>> {
        static EXCHANGES: AtomicU64 = AtomicU64::new(1);
        if !request.options.wire_hooks.is_set() {
            return None;
        }
        let keys = [request.api_key.as_ref(), request.model.api_key.as_ref()];
        let keys = keys.into_iter().flatten().chain(server_tools::secrets(request));
        Some(Arc::new(Self {
            hooks: request.options.wire_hooks.clone(),
            exchange: EXCHANGES.fetch_add(1, Ordering::Relaxed),
            target: (request.model.provider.clone(), request.model.id.clone()),
            secrets: OnceLock::new(),
            given: keys.flat_map(|key| parts(key.expose())).collect(),
        }))
    }

    /// Reports the request to the hooks and collects its secrets, which are removed from the response as well.
    pub(crate) fn sent(&self, request: &reqwest::Request) {
        let mut secrets: Vec<Vec<u8>> = self.given.iter().map(|s| s.as_bytes().to_vec()).collect();
        for (name, value) in request.headers() {
            if is_hidden(name, value) {
                let value = value.as_bytes();
                let pieces = value.split(|b| b" ,=".contains(b));
                // The names of the headers that the AWS signature covers are not secret.
                let aws = value.starts_with(b"AWS4-");
                secrets.extend(pieces.filter(|p| !(aws && p.contains(&b';'))).map(<[u8]>::to_vec));
                secrets.push(value.to_vec());
            }
        }
        secrets.retain(|s| s.len() >= MIN_SECRET && !SCHEMES.contains(&s.as_slice()));
        // The longest first, so that replacing a part of a secret cannot leave the rest of it.
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        let secrets = self.secrets.get_or_init(|| secrets);
        if self.hooks.on_request.is_none() {
            return;
        }
        let headers = shown(request.headers(), secrets);
        let url = String::from_utf8_lossy(&without(address(request.url()).as_bytes(), secrets)).into_owned();
        let body = request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default();
        let target = (self.target.0.as_str(), self.target.1.as_str());
        let line = (request.method().as_str(), url.as_str());
        let body = without(body, secrets);
        self.hooks.show_request(&SentRequest::new(self.exchange, target, line, &headers, &body));
    }

    /// Reports the head of the response. The returned value reports the body.
    pub(crate) fn answered(self: Arc<Self>, status: u16, headers: &HeaderMap) -> Option<Answering> {
        self.hooks.on_response.as_ref()?;
        let headers = shown(headers, self.secrets());
        self.show(Received::Head { status, headers: &headers });
        Some(Answering { tap: self, held: Vec::new() })
    }

    fn show(&self, part: Received<'_>) {
        self.hooks.show_response(&ReceivedPart::new(self.exchange, part));
    }

    fn secrets(&self) -> &[Vec<u8>] {
        self.secrets.get().map_or(&[], Vec::as_slice)
    }
}

/// A response that is reported to the wire hooks.
pub(crate) struct Answering {
    tap: Arc<Tap>,
    /// The last received bytes, while they may be the beginning of a secret.
    held: Vec<u8>,
}

impl Answering {
    /// Reports the next bytes of the body.
    pub(crate) fn piece(&mut self, piece: &[u8]) {
        let secrets = self.tap.secrets();
        let all = if self.held.is_empty() {
            std::borrow::Cow::Borrowed(piece)
        } else {
            self.held.extend_from_slice(piece);
            std::borrow::Cow::Owned(std::mem::take(&mut self.held))
        };
        let clean = without(&all, secrets);
        let begun = begun(&clean, secrets);
        let (now, later) = clean.split_at_checked(clean.len() - begun).unwrap_or((&clean, &[]));
        if !now.is_empty() {
            self.tap.show(Received::Body(now));
        }
        self.held = later.to_vec();
    }

    /// Reports the withheld bytes, and the end if the body is complete. A truncated beginning of a secret is hidden.
    pub(crate) fn end(&mut self, complete: bool) {
        match std::mem::take(&mut self.held) {
            rest if rest.is_empty() => {}
            rest if rest.len() < MIN_SECRET => self.tap.show(Received::Body(&rest)),
            _ => self.tap.show(Received::Body(HIDDEN.as_bytes())),
        }
        if complete {
            self.tap.show(Received::End);
        }
    }
}

/// If the response is not read to its end, the withheld bytes are reported without an end.
impl Drop for Answering {
    fn drop(&mut self) {
        self.end(false);
    }
}

/// Returns the secrets in a key: the whole key, its parts if it is a list, and the secret members of a JSON key file.
fn parts(key: &str) -> Vec<String> {
    let mut out = vec![key.to_owned()];
    if let Ok(serde_json::Value::Object(members)) = serde_json::from_str(key) {
        let secret = ["private_key", "client_secret", "refresh_token", "access_token"];
        out.extend(secret.iter().filter_map(|name| members.get(*name)?.as_str()).map(str::to_owned));
    } else {
        out.extend(key.split([':', ' ']).map(str::to_owned));
    }
    out
}

fn is_hidden(name: &HeaderName, value: &HeaderValue) -> bool {
    let name = name.as_str();
    !HARMLESS.contains(&name) && (value.is_sensitive() || tells(name))
}

fn tells(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    TELLING.iter().any(|part| name.contains(part))
}

fn shown(headers: &HeaderMap, secrets: &[Vec<u8>]) -> Vec<(String, String)> {
    let value = |name: &HeaderName, value: &HeaderValue| {
        if is_hidden(name, value) {
            return HIDDEN.to_owned();
        }
        String::from_utf8_lossy(&without(value.as_bytes(), secrets)).into_owned()
    };
    headers.iter().map(|(n, v)| (n.as_str().to_owned(), value(n, v))).collect()
}

/// Returns the URL with the values of secret query parameters hidden.
fn address(url: &reqwest::Url) -> String {
    let Some(query) = url.query() else { return url.as_str().to_owned() };
    let members: Vec<String> = query
        .split('&')
        .map(|member| match member.split_once('=') {
            Some((name, _)) if tells(name) => format!("{name}={HIDDEN}"),
            _ => member.to_owned(),
        })
        .collect();
    let before = url.as_str().split('?').next().unwrap_or_default();
    format!("{before}?{}", members.join("&"))
}

/// Returns the bytes with every secret replaced.
fn without<'b>(bytes: &'b [u8], secrets: &[Vec<u8>]) -> std::borrow::Cow<'b, [u8]> {
    let mut out = std::borrow::Cow::Borrowed(bytes);
    for secret in secrets {
        let mut at = memchr::memmem::find_iter(&out, secret).peekable();
        if at.peek().is_none() {
            continue;
        }
        let mut clean = Vec::with_capacity(out.len());
        let mut from = 0;
        for found in at {
            clean.extend_from_slice(out.get(from..found).unwrap_or_default());
            clean.extend_from_slice(HIDDEN.as_bytes());
            from = found + secret.len();
        }
        clean.extend_from_slice(out.get(from..).unwrap_or_default());
        out = std::borrow::Cow::Owned(clean);
    }
    out
}

/// Returns the number of bytes at the end that may be the beginning of a secret.
fn begun(bytes: &[u8], secrets: &[Vec<u8>]) -> usize {
    let longest = |secret: &Vec<u8>| {
        let most = bytes.len().min(secret.len() - 1);
        (1..=most).rev().find(|n| secret.get(..*n).is_some_and(|head| bytes.ends_with(head)))
    };
    secrets.iter().filter_map(longest).max().unwrap_or(0)
}
