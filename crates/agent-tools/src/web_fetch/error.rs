//! The errors of `web_fetch`.

/// The reason why a page was not fetched. The texts are written for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebFetchError {
    /// The client could not be created.
    #[error("the HTTP client could not be created: {source}")]
    Client {
        /// The error of the library.
        source: reqwest::Error,
    },
    /// The address is not a URL, or is too long.
    #[error("{url} is not an address that can be fetched: {cause}")]
    Url {
        /// The address in the arguments or of the redirect, at most 200 bytes.
        url: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The connection would go to an address that is not permitted.
    #[error("{host} has the address {address}, which is not on the public internet; it cannot be fetched")]
    Refused {
        /// The host in the URL.
        host: String,
        /// The address of the host.
        address: std::net::IpAddr,
    },
    /// The file `robots.txt` of the server excludes the page.
    #[error("the robots.txt of the server does not permit fetching {url}; use another source")]
    Robots {
        /// The address of the page.
        url: String,
    },
    /// The server answered with a status that is not a success.
    #[error("{url} answered with status {status}")]
    Status {
        /// The address of the page.
        url: String,
        /// The status of HTTP.
        status: u16,
    },
    /// The page has more redirects than [`MAX_REDIRECTS`](super::MAX_REDIRECTS).
    #[error("{url} redirects more than {max} times", max = super::MAX_REDIRECTS)]
    Redirects {
        /// The address of the last redirect.
        url: String,
    },
    /// The content is not text.
    #[error("{url} has content of the type {kind}, which is not text")]
    Type {
        /// The address of the page.
        url: String,
        /// The type as the server states it.
        kind: String,
    },
    /// The offset is behind the end of the text.
    #[error("the text ends at byte {bytes}; use a smaller offset")]
    Offset {
        /// The size of the text.
        bytes: usize,
    },
    /// The request failed before the answer was complete.
    #[error("{url} could not be fetched: {cause}")]
    Failed {
        /// The address of the page.
        url: String,
        /// The reason for the failure.
        cause: String,
    },
    /// The fetch took longer than [`TIMEOUT`](super::TIMEOUT).
    #[error("{url} took too long (limit {limit} s)", limit = super::TIMEOUT.as_secs())]
    Timeout {
        /// The address of the page.
        url: String,
    },
}
