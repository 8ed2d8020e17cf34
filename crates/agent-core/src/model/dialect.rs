//! The deviations of a Chat Completions server from OpenAI's API, as data.
//!
//! Every field is optional. The provider detects an unset field from the provider's name and the address.

use serde::{Deserialize, Serialize};

/// The deviations of a Chat Completions server. A field that is set takes precedence over detection.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ChatDialect {
    /// The field that limits the output: `max_tokens` or `max_completion_tokens`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens_field: Option<String>,
    /// Whether the system prompt uses the role `developer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub developer_role: Option<bool>,
    /// Whether the server supports `reasoning_effort`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<bool>,
    /// Whether the server supports `stream_options.include_usage`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_in_stream: Option<bool>,
    /// Whether the server supports `store`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<bool>,
    /// Whether a tool message must contain the name of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_result_name: Option<bool>,
    /// Whether an assistant message must stand between tool results and a user message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assistant_after_tool_result: Option<bool>,
    /// Whether the server supports `strict` in tool definitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_tools: Option<bool>,
    /// Whether the server supports `prompt_cache_key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_cache_key: Option<bool>,
    /// Whether earlier thinking of the assistant is sent back, and in which field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_field: Option<ReasoningField>,
    /// The request field that switches thinking on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_format: Option<ThinkingFormat>,
    /// Whether the Responses server supports `async` in tool definitions, so that the output of a call may come in a later
    /// request. Unset: GPT-6 models of OpenAI do, directly and not on Azure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub async_tools: Option<bool>,
    /// The maximum length of a tool-call id, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_call_id: Option<usize>,
    /// Whether `response_format` accepts a schema. Otherwise any JSON object is requested, and the schema is added to
    /// the system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_schema: Option<bool>,
    /// Whether a user message accepts documents and sounds. Otherwise a text says that they are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<bool>,
}

/// The field of an assistant message in which thinking is sent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReasoningField {
    /// Thinking is not sent back.
    Omit,
    /// The field is named `reasoning_content`.
    ReasoningContent,
    /// The field is named `reasoning`.
    Reasoning,
    /// The field is named `reasoning_text`.
    ReasoningText,
}

/// The request field that asks a Chat Completions server to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ThinkingFormat {
    /// The field `reasoning_effort`, as OpenAI defines it.
    OpenAi,
    /// The object `reasoning: { effort }`, as OpenRouter defines it.
    OpenRouter,
    /// The object `thinking: { type }`, as Z.ai defines it.
    Zai,
    /// The field `enable_thinking`, as Qwen defines it.
    Qwen,
    /// The object `chat_template_kwargs: { enable_thinking }`, for Qwen's chat template.
    QwenTemplate,
}
