//! The definitions of tools that a model receives.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::loading::{ToolLoading, ToolSearchForm};
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
    /// Who may call the tool. Default: the model.
    #[serde(default, skip_serializing_if = "ToolCallers::is_default")]
    pub callers: ToolCallers,
}

/// Who may call a tool.
///
/// In programmatic tool calling, the model writes code that the vendor runs, and this code calls tools of the program. The
/// run executes such a call like any other; its result goes to the code and not to the model. Anthropic has it with
/// [`ServerTool::CodeExecution`](crate::model::ServerTool::CodeExecution), and the OpenAI Responses API without a further
/// setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolCallers {
    /// The model calls the tool. This is the default.
    #[default]
    Model,
    /// Only code that the vendor runs calls the tool. A request to a protocol without such code is an error before it is
    /// sent.
    Code,
    /// Both may call the tool. For a protocol without such code, this is the same as [`Model`](Self::Model).
    ModelAndCode,
}

impl ToolCallers {
    /// Returns whether code may call the tool.
    #[must_use]
    pub fn includes_code(self) -> bool {
        matches!(self, Self::Code | Self::ModelAndCode)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::Model
    }
}

impl ToolDefinition {
    /// Creates a definition from the name, the description and the JSON schema of the arguments.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        let (loading, callers) = (ToolLoading::Always, ToolCallers::Model);
        Self { name: name.into(), description: description.into(), parameters, loading, callers }
    }

    /// Sets who may call the tool.
    #[must_use]
    pub fn with_callers(mut self, callers: ToolCallers) -> Self {
        self.callers = callers;
        self
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
    search: ToolSearchForm,
    wire: WireCache,
    tokens: OnceLock<u64>,
    by_code: bool,
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

    /// Returns whether code may call any of the tools.
    #[must_use]
    pub fn are_called_by_code(&self) -> bool {
        self.inner.by_code
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

    /// Returns how the model finds tools that are not listed. Without deferred tools it is [`ToolSearchForm::Listed`].
    #[must_use]
    pub fn search(&self) -> ToolSearchForm {
        self.inner.search
    }

    /// Returns these definitions with another way to find tools that are not listed.
    #[must_use]
    pub fn with_search(self, search: ToolSearchForm) -> Self {
        Self::create(self.inner.definitions.clone(), search)
    }

    fn create(definitions: Vec<ToolDefinition>, search: ToolSearchForm) -> Self {
        let (wire, tokens) = (WireCache::default(), OnceLock::new());
        let by_code = definitions.iter().any(|definition| definition.callers.includes_code());
        Self { inner: Arc::new(Inner { definitions, search, wire, tokens, by_code }) }
    }

    /// Returns the cache of the encoded forms.
    #[must_use]
    pub fn wire(&self) -> &WireCache {
        &self.inner.wire
    }
}

impl FromIterator<ToolDefinition> for ToolDefinitions {
    fn from_iter<I: IntoIterator<Item = ToolDefinition>>(iter: I) -> Self {
        Self::create(iter.into_iter().collect(), ToolSearchForm::Listed)
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
