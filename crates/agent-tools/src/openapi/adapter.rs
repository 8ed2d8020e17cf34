//! Converts a description to tools.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use reqwest::Url;
use reqwest::redirect::Policy;

use super::config::OpenApiConfig;
use super::credentials::Credentials;
use super::document::Document;
use super::error::{OpenApiError, OpenApiWarning, Warnings};
use super::filter::OperationFilter;
use super::reader::Reader;
use super::tool::{Api, OpenApiToolAdapter};
use super::{CONNECT_TIMEOUT, MAX_SPEC_BYTES, fetch};
use crate::names::tool_name;

/// The tools of an API, and the warnings about the parts of its description that cannot be used.
#[derive(Debug, Clone)]
pub struct OpenApiAdapter {
    tools: Vec<OpenApiToolAdapter>,
    warnings: Vec<OpenApiWarning>,
    prefix: Option<String>,
}

impl OpenApiAdapter {
    /// Creates a tool for each operation that the filter selects. The text is parsed as JSON if it begins with `{` or
    /// `[`, otherwise as YAML. A large description takes seconds; [`from_file`](Self::from_file) and
    /// [`from_url`](Self::from_url) parse it on a blocking thread.
    ///
    /// # Errors
    /// Returns an error if the text is not a description of OpenAPI 3.0 or 3.1, is too long or names no address for
    /// requests, or if the configuration cannot be used.
    #[expect(clippy::needless_pass_by_value, reason = "a filter is made for one call")]
    pub fn from_str(
        spec: &str,
        config: OpenApiConfig,
        filter: OperationFilter,
    ) -> Result<Self, OpenApiError> {
        let document = Document::parse(spec)?;
        let mut warnings = Warnings::default();
        let address = match &config.spec_url {
            Some(url) => Some(Url::parse(url).map_err(|error| OpenApiError::Config {
                detail: format!("the address of the description: {error}"),
            })?),
            None => None,
        };
        let credentials = Credentials::new(&document, &config, &mut warnings)?;
        let reader = Reader::new(&document, &config, &filter, &credentials, address, &mut warnings)?;
        let operations = reader.operations()?;
        let client = match &config.client {
            Some(client) => client.clone(),
            None => client()?,
        };
        let Credentials { reserved, secrets, .. } = credentials;
        let api = Arc::new(Api {
            client,
            reserved,
            secrets,
            slashes: config.slashes,
            timeout: config.timeout,
            max_response_bytes: config.max_response_bytes,
        });
        let unnamed: Arc<str> = Arc::from("");
        let tools = operations
            .into_iter()
            .map(|operation| OpenApiToolAdapter {
                api: api.clone(),
                operation: Arc::new(operation),
                name: unnamed.clone(),
            })
            .collect();
        let adapter = Self { tools, warnings: warnings.list, prefix: config.prefix };
        let tools = adapter.named(&mut BTreeSet::new());
        Ok(Self { tools, ..adapter })
    }

    /// Reads a description from a file; see [`from_str`](Self::from_str).
    ///
    /// # Errors
    /// Returns the errors of [`from_str`](Self::from_str), and [`OpenApiError::File`] if the file cannot be read.
    pub async fn from_file(
        path: impl AsRef<Path>,
        config: OpenApiConfig,
        filter: OperationFilter,
    ) -> Result<Self, OpenApiError> {
        let text = fetch::file(path.as_ref()).await?;
        Self::parsed(text, config, filter).await
    }

    /// Fetches a description from an address; see [`from_str`](Self::from_str). Relative server addresses are resolved against it. The request has no
    /// credentials.
    ///
    /// # Errors
    /// Returns the errors of [`from_str`](Self::from_str), and an error if the address cannot be reached, responds
    /// without success, or takes longer than [`FETCH_TIMEOUT`](super::FETCH_TIMEOUT).
    pub async fn from_url(
        url: impl AsRef<str>,
        config: OpenApiConfig,
        filter: OperationFilter,
    ) -> Result<Self, OpenApiError> {
        let (text, address) = fetch::address(url.as_ref(), config.client.as_ref()).await?;
        let config = if config.spec_url.is_none() { config.with_spec_url(address) } else { config };
        Self::parsed(text, config, filter).await
    }

    /// Parses a description on a blocking thread, because a large one takes seconds.
    async fn parsed(
        text: String,
        config: OpenApiConfig,
        filter: OperationFilter,
    ) -> Result<Self, OpenApiError> {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return Self::from_str(&text, config, filter);
        };
        let work = runtime.spawn_blocking(move || Self::from_str(&text, config, filter));
        work.await.map_err(|error| OpenApiError::Interrupted { detail: error.to_string() })?
    }

    /// Returns the tools in the order of the description.
    #[must_use]
    pub fn tools(&self) -> &[OpenApiToolAdapter] {
        &self.tools
    }

    /// Returns the tools of all operations.
    #[must_use]
    pub fn into_tools(self) -> Vec<OpenApiToolAdapter> {
        self.tools
    }

    /// Returns the warnings about operations that were skipped and facts that were assumed.
    #[must_use]
    pub fn warnings(&self) -> &[OpenApiWarning] {
        &self.warnings
    }

    /// Returns the tools with names that are not in `taken`, and adds the names to it.
    pub(super) fn named(&self, taken: &mut BTreeSet<String>) -> Vec<OpenApiToolAdapter> {
        let named = self.tools.iter().map(|tool| {
            let name = tool_name(self.prefix.as_deref(), &tool.operation.id, taken);
            taken.insert(name.clone());
            OpenApiToolAdapter { name: name.into(), ..tool.clone() }
        });
        named.collect()
    }
}

/// Returns the client that sends the requests. It does not follow redirects, because `send` checks their targets.
fn client() -> Result<reqwest::Client, OpenApiError> {
    reqwest::Client::builder()
        .redirect(Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .build()
        .map_err(|source| OpenApiError::Client { source })
}

/// Converts bytes to text and checks their number.
pub(super) fn text(bytes: Vec<u8>) -> Result<String, OpenApiError> {
    if bytes.len() > MAX_SPEC_BYTES {
        return Err(OpenApiError::TooLarge { limit: MAX_SPEC_BYTES });
    }
    String::from_utf8(bytes).map_err(|_| OpenApiError::NotText)
}
