//! The options of the vendors' tools for the web.

use serde::{Deserialize, Serialize};

use super::list;

/// The options of a web search.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct WebSearch {
    /// The maximum number of searches in one reply. Only Anthropic has it.
    pub max_uses: Option<u32>,
    /// The domains whose pages may be found. Empty allows all. Anthropic and OpenAI have it.
    pub allowed_domains: Vec<String>,
    /// The domains whose pages are never found. Anthropic and Vertex AI have it.
    pub blocked_domains: Vec<String>,
    /// Where the user is. Anthropic and OpenAI have it.
    pub user_location: Option<UserLocation>,
    /// How much of the results the model reads. Only OpenAI has it.
    pub context: Option<SearchContext>,
    /// The version of the tool, such as `web_search_20260318`. Only Anthropic has versions. Default: the first one, which
    /// all models accept.
    pub version: Option<String>,
}

/// The approximate location of the user, for local search results.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct UserLocation {
    /// The city of the user.
    pub city: Option<String>,
    /// The region or state of the user.
    pub region: Option<String>,
    /// The two-letter ISO code of the country.
    pub country: Option<String>,
    /// The IANA name of the time zone, for example `Europe/Vienna`.
    pub timezone: Option<String>,
}

/// How much of the search results the model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SearchContext {
    /// The smallest part, which costs least.
    Low,
    /// A medium part of the results.
    Medium,
    /// The largest part, for the best answers.
    High,
}

/// The options of reading web pages. Gemini reads pages without any options.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct WebFetch {
    /// The maximum number of pages that are read in one reply.
    pub max_uses: Option<u32>,
    /// The domains from which pages may be read. Empty allows all.
    pub allowed_domains: Vec<String>,
    /// The domains from which no page is read.
    pub blocked_domains: Vec<String>,
    /// Whether the model cites the pages. Default: `false`.
    pub citations: bool,
    /// The maximum number of tokens of one page.
    pub max_content_tokens: Option<u32>,
    /// The version of the tool, such as `web_fetch_20260318`. Default: the first one.
    pub version: Option<String>,
}

impl WebSearch {
    /// Creates a search without restrictions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of searches in one reply.
    #[must_use]
    pub fn with_max_uses(mut self, uses: u32) -> Self {
        self.max_uses = Some(uses);
        self
    }

    /// Sets the only domains whose pages may be found.
    #[must_use]
    pub fn with_allowed_domains<T: Into<String>>(mut self, domains: impl IntoIterator<Item = T>) -> Self {
        self.allowed_domains = list(domains);
        self
    }

    /// Sets the domains whose pages are never found.
    #[must_use]
    pub fn with_blocked_domains<T: Into<String>>(mut self, domains: impl IntoIterator<Item = T>) -> Self {
        self.blocked_domains = list(domains);
        self
    }

    /// Sets where the user is.
    #[must_use]
    pub fn with_user_location(mut self, location: UserLocation) -> Self {
        self.user_location = Some(location);
        self
    }

    /// Sets how much of the results the model reads.
    #[must_use]
    pub fn with_context(mut self, context: SearchContext) -> Self {
        self.context = Some(context);
        self
    }

    /// Sets the version of the tool, for example `web_search_20260318`.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }
}

impl UserLocation {
    /// Creates a location from the two-letter ISO code of a country.
    #[must_use]
    pub fn country(code: impl Into<String>) -> Self {
        Self { country: Some(code.into()), ..Self::default() }
    }

    /// Sets the city of the user.
    #[must_use]
    pub fn with_city(mut self, city: impl Into<String>) -> Self {
        self.city = Some(city.into());
        self
    }

    /// Sets the region or state of the user.
    #[must_use]
    pub fn with_region(mut self, region: impl Into<String>) -> Self {
        self.region = Some(region.into());
        self
    }

    /// Sets the IANA name of the time zone.
    #[must_use]
    pub fn with_timezone(mut self, timezone: impl Into<String>) -> Self {
        self.timezone = Some(timezone.into());
        self
    }
}

impl WebFetch {
    /// Creates a tool that reads all pages.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of pages that are read in one reply.
    #[must_use]
    pub fn with_max_uses(mut self, uses: u32) -> Self {
        self.max_uses = Some(uses);
        self
    }

    /// Sets the only domains from which pages may be read.
    #[must_use]
    pub fn with_allowed_domains<T: Into<String>>(mut self, domains: impl IntoIterator<Item = T>) -> Self {
        self.allowed_domains = list(domains);
        self
    }

    /// Sets the domains from which no page is read.
    #[must_use]
    pub fn with_blocked_domains<T: Into<String>>(mut self, domains: impl IntoIterator<Item = T>) -> Self {
        self.blocked_domains = list(domains);
        self
    }

    /// Makes the model cite the pages.
    #[must_use]
    pub fn with_citations(mut self) -> Self {
        self.citations = true;
        self
    }

    /// Sets the maximum number of tokens of one page.
    #[must_use]
    pub fn with_max_content_tokens(mut self, tokens: u32) -> Self {
        self.max_content_tokens = Some(tokens);
        self
    }

    /// Sets the version of the tool, for example `web_fetch_20260318`.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }
}
