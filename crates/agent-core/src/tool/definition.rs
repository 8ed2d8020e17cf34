//! The definitions of tools that a model receives.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::loading::{ToolLoading, ToolSearch};
use crate::wire::WireCache;

/// The definition of a tool that the model receives: name, description and argument schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The name by which the model calls the tool.
    pub name: String,
    /// What the tool does and when to use it.
    pub description: String,
    /// The JSON schema of the arguments, an object.
    pub parameters: Value,
    /// Whether the model receives the definition at once, or only when the vendor's search finds it.
    #[serde(default, skip_serializing_if = "ToolLoading::is_always")]
    pub loading: ToolLoading,
}

impl ToolDefinition {
    /// Creates a definition from the name, the description and the JSON schema of the arguments.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self { name: name.into(), description: description.into(), parameters, loading: ToolLoading::Always }
    }

    /// Returns an estimate of the tokens of the definition in a request: a quarter of its bytes.
    pub(super) fn tokens(&self) -> u64 {
        let bytes = self.name.len() + self.description.len() + self.parameters.to_string().len();
        (bytes as u64).div_ceil(4)
    }
}

/// The tool definitions of a run. A clone shares them, and each provider format is encoded only once.
#[derive(Debug, Clone, Default)]
pub struct ToolDefinitions {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    definitions: Vec<ToolDefinition>,
    search: ToolSearch,
    wire: WireCache,
    tokens: OnceLock<u64>,
}

impl ToolDefinitions {
    /// Returns the definitions in the order in which the model receives them.
    #[must_use]
    pub fn definitions(&self) -> &[ToolDefinition] {
        &self.inner.definitions
    }

    /// Returns whether there are no definitions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.definitions.is_empty()
    }

    /// Returns whether both share the same allocation. Does not compare the definitions.
    #[must_use]
    pub fn same(a: &Self, b: &Self) -> bool {
        Arc::ptr_eq(&a.inner, &b.inner)
    }

    /// Returns an estimate of the tokens of the definitions in a prompt: a quarter of their bytes, without those of
    /// deferred definitions, which the vendor does not show to the model.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let shown = || self.inner.definitions.iter().filter(|tool| tool.loading == ToolLoading::Always);
        *self.inner.tokens.get_or_init(|| shown().map(ToolDefinition::tokens).sum())
    }

    /// Returns how the model finds tools that are not listed. Without deferred tools it is [`ToolSearch::Listed`].
    #[must_use]
    pub fn search(&self) -> ToolSearch {
        self.inner.search
    }

    /// Returns these definitions with another way to find tools that are not listed.
    #[must_use]
    pub fn with_search(self, search: ToolSearch) -> Self {
        Self::create(self.inner.definitions.clone(), search)
    }

    fn create(definitions: Vec<ToolDefinition>, search: ToolSearch) -> Self {
        let (wire, tokens) = (WireCache::default(), OnceLock::new());
        Self { inner: Arc::new(Inner { definitions, search, wire, tokens }) }
    }

    /// Returns the cache of the encoded forms.
    #[must_use]
    pub fn wire(&self) -> &WireCache {
        &self.inner.wire
    }
}

impl FromIterator<ToolDefinition> for ToolDefinitions {
    fn from_iter<I: IntoIterator<Item = ToolDefinition>>(iter: I) -> Self {
        Self::create(iter.into_iter().collect(), ToolSearch::Listed)
    }
}

impl From<Vec<ToolDefinition>> for ToolDefinitions {
    fn from(definitions: Vec<ToolDefinition>) -> Self {
        definitions.into_iter().collect()
    }
}

impl PartialEq for ToolDefinitions {
    fn eq(&self, other: &Self) -> bool {
        self.search() == other.search() && self.definitions() == other.definitions()
    }
}
