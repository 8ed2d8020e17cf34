//! Options of a request to a model.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::wire_hooks::WireHooks;
use crate::model::{
    CacheConfig, ReasoningOptions, ResponseFormat, ServerTool, ThinkingBudgets, ThinkingLevel, ToolChoice,
    VendorContext,
};

/// A hook that receives the JSON body of a request before it is sent. `Some` replaces the body, `None` leaves it.
pub type RequestHook = Arc<dyn Fn(&Value) -> Option<Value> + Send + Sync>;

/// The options of a model request: sampling, thinking, caching, the form of the answer, and hooks on the wire.
///
/// An agent's configuration holds one set of options, and every [`ModelRequest`](super::ModelRequest) shares it. A
/// provider leaves out an option that its protocol does not have, or reports it as an error where leaving it out would
/// change the result.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct RequestOptions {
    /// How much the model thinks before it answers. Default: [`ThinkingLevel::Off`].
    pub thinking_level: ThinkingLevel,
    /// The thinking budget of each level, in tokens.
    pub thinking_budgets: ThinkingBudgets,
    /// How the model executes its reasoning, for the OpenAI Responses API.
    pub reasoning: ReasoningOptions,
    /// The maximum number of tokens of one answer. Default: the model's own maximum.
    pub max_tokens: Option<u32>,
    /// The sampling temperature; the range depends on the vendor. Default: the vendor's.
    pub temperature: Option<f32>,
    /// Where prompt cache markers are placed.
    pub cache_config: CacheConfig,
    /// Whether the model may, must or must not call tools. Default: it may.
    pub tool_choice: ToolChoice,
    /// The tools of the model's vendor that the model may use. Default: none.
    pub server_tools: Vec<ServerTool>,
    /// What the vendor's servers do when the conversation becomes long. Default: nothing.
    pub vendor_context: Option<VendorContext>,
    /// The form of the answer: text, or JSON that fits a schema. Default: text.
    pub response_format: ResponseFormat,
    /// Texts at which the model stops. Default: none.
    pub stop_sequences: Vec<String>,
    /// Extra HTTP headers. They take precedence over the model's headers, and `None` removes a header.
    pub headers: BTreeMap<String, Option<String>>,
    /// Whether readable thinking of another vendor's model is sent as text. Default: `false`, it is left out.
    pub foreign_thinking_as_text: bool,
    /// The names of tools whose results may be [deferred](crate::ToolResult::deferred), for APIs in which a tool declares this
    /// before it is called. Default: none; a deferred call is then sent with its preliminary result. Other APIs ignore it.
    pub async_tools: BTreeSet<String>,
    /// A hook that receives the body of each request and may replace it. Default: none.
    pub request_hook: Option<RequestHook>,
    /// Observers of the exact bytes of each exchange, without credentials.
    pub wire_hooks: WireHooks,
}

impl fmt::Debug for RequestOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestOptions")
            .field("thinking_level", &self.thinking_level)
            .field("max_tokens", &self.max_tokens)
            .field("temperature", &self.temperature)
            .field("tool_choice", &self.tool_choice)
            .finish_non_exhaustive()
    }
}
