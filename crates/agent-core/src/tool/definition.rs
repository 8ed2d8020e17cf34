//! What a model is told of a tool (REQ-016).

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wire::WireCache;

/// A tool's name, description and argument schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: Value,
}

impl ToolDefinition {
    /// A definition.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self { name: name.into(), description: description.into(), parameters }
    }
}

/// The definitions of a run. They are encoded once for each target.
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
    /// The definitions, in the order in which the model is told of them.
    #[must_use]
    pub fn definitions(&self) -> &[ToolDefinition] {
        &self.inner.definitions
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.definitions.is_empty()
    }

    /// Whether both are the same object.
    #[must_use]
    pub fn same(a: &Self, b: &Self) -> bool {
        Arc::ptr_eq(&a.inner, &b.inner)
    }

    /// An estimate of their tokens: a quarter of their bytes.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let count = |tool: &ToolDefinition| {
            let bytes = tool.name.len() + tool.description.len() + tool.parameters.to_string().len();
            (bytes as u64).div_ceil(4)
        };
        *self.inner.tokens.get_or_init(|| self.inner.definitions.iter().map(count).sum())
    }

    /// Where their encoded forms are kept.
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
