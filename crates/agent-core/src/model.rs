//! Model configuration: protocol, address, key, limits, capabilities and prices.
//!
//! A [`ModelConfig`] is data that the caller owns. Its serialized form has the names of environment variables instead of
//! keys and header values, and its `Debug` output shows neither.
//!
//! ```
//! use agent_core::{ApiProtocol, ModelConfig};
//! let model = ModelConfig::anthropic("claude-sonnet-4-6", "Claude Sonnet", "sk-ant-secret");
//! assert_eq!(model.api, ApiProtocol::AnthropicMessages);
//! assert!(!format!("{model:?}").contains("sk-ant-secret"));
//! assert_eq!(ModelConfig::default().id, "qwen3-coder:30b");
//! ```

mod cache;
mod config;
mod credentials;
mod dialect;
mod prices;
mod protocol;
mod providers;
mod redaction;
mod secret;
mod server_tool;
mod stored;
mod thinking;
mod vendor_context;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use cache::{
    CacheBreakpoints, CacheChanges, CacheConfig, CacheDiagnostics, CachePrewarm, CacheStrategy, CacheTtl,
    PrewarmError,
};
pub use config::{AnthropicAuth, ModelConfig, ModelFact};
pub use credentials::MissingSecret;
pub use dialect::{ChatDialect, ReasoningField, ThinkingFormat};
pub use prices::{CostConfig, CostTier};
pub use protocol::{ApiProtocol, InvalidProtocolName, MAX_PROTOCOL_NAME, ProtocolName};
pub use providers::{InvalidModelName, key_variable};
pub use redaction::{MAX_ENCODINGS, Redactor, TextEnd};
pub use secret::Secret;
pub use server_tool::{
    CodeExecution, ComputerEnvironment, ComputerUse, FileSearch, ImageGeneration, Mcp, McpApproval,
    SearchContext, ServerTool, ServerToolError, TextEditor, ToolSearch, ToolSearchVariant, UserLocation,
    WebFetch, WebSearch,
};
pub use thinking::{
    ReasoningContext, ReasoningMode, ReasoningOptions, ThinkingBudgets, ThinkingForm, ThinkingLevel,
};
pub use vendor_context::{ClearResults, VendorContext, VendorContextError};

/// Controls whether the model must, may or must not call tools.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides whether to call a tool.
    #[default]
    Auto,
    /// The model must not call a tool.
    None,
    /// The model must call at least one tool.
    Required,
    /// The model must call this tool.
    Tool(String),
}

/// The required format of the answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResponseFormat {
    /// Free text without a required format.
    #[default]
    Text,
    /// Any JSON object, without a schema.
    JsonObject,
    /// JSON that conforms to a schema.
    JsonSchema {
        /// The name of the schema: letters, digits, `_` and `-`, at most 64 characters.
        name: String,
        /// The JSON schema of the answer.
        schema: serde_json::Value,
        /// Whether the provider must enforce the schema.
        strict: bool,
    },
}
