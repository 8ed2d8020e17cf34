//! The definitions of tools that a model receives.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
}

impl ToolDefinition {
    /// Creates a definition from the name, the description and the JSON schema of the arguments.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self { name: name.into(), description: description.into(), parameters }
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

    /// Returns an estimate of the tokens that the definitions take in a request: a quarter of their bytes.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let count = |tool: &ToolDefinition| {
            let bytes = tool.name.len() + tool.description.len() + tool.parameters.to_string().len();
            (bytes as u64).div_ceil(4)
        };
        *self.inner.tokens.get_or_init(|| self.inner.definitions.iter().map(count).sum())
    }

    /// Returns the cache of the encoded forms.
    #[must_use]
    pub fn wire(&self) -> &WireCache {
        &self.inner.wire
    }
}

impl FromIterator<ToolDefinition> for ToolDefinitions {
    fn from_iter<I: IntoIterator<Item = ToolDefinition>>(iter: I) -> Self {
        Self {
            inner: Arc::new(Inner {
                definitions: iter.into_iter().collect(),
                wire: WireCache::default(),
                tokens: OnceLock::new(),
            }),
        }
    }
}

impl From<Vec<ToolDefinition>> for ToolDefinitions {
    fn from(definitions: Vec<ToolDefinition>) -> Self {
        definitions.into_iter().collect()
    }
}

impl PartialEq for ToolDefinitions {
    fn eq(&self, other: &Self) -> bool {
        self.definitions() == other.definitions()
    }
}
