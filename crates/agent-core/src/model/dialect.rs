//! What a server that speaks Chat Completions wants to be different, as data.
//!
//! Every field is optional: what is not set is found out from the provider's name and the address (B-157).

use serde::{Deserialize, Serialize};

/// Deviations of a Chat Completions server. A set field wins over what would be detected.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ChatDialect {
    /// The field that limits the output: `max_tokens` or `max_completion_tokens`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens_field: Option<String>,
    /// Whether the system prompt goes under the role `developer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub developer_role: Option<bool>,
    /// Whether `reasoning_effort` is understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<bool>,
    /// Whether `stream_options.include_usage` is understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_in_stream: Option<bool>,
    /// Whether `store` is understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<bool>,
    /// Whether a tool message must carry the tool's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_result_name: Option<bool>,
    /// Whether an assistant message must stand between tool results and a user message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assistant_after_tool_result: Option<bool>,
    /// Whether `strict` is understood in tool definitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_tools: Option<bool>,
    /// Whether `prompt_cache_key` is understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_cache_key: Option<bool>,
    /// Whether the assistant's earlier thinking is sent back, and under which field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_field: Option<ReasoningField>,
    /// How thinking is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_format: Option<ThinkingFormat>,
    /// The longest tool-call id that is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_call_id: Option<usize>,
    /// Whether `response_format` takes a schema. Where it does not, any JSON object is demanded and the schema is said in
    /// the system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_schema: Option<bool>,
}

/// The field of an assistant message under which thinking is sent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReasoningField {
    /// It is not sent back.
    Omit,
    /// `reasoning_content`.
    ReasoningContent,
    /// `reasoning`.
    Reasoning,
    /// `reasoning_text`.
    ReasoningText,
}

/// How a Chat Completions server is asked to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ThinkingFormat {
    /// `reasoning_effort`.
    OpenAi,
    /// `reasoning: { effort }`.
    OpenRouter,
    /// `thinking: { type }`.
    Zai,
    /// `enable_thinking`.
    Qwen,
    /// `chat_template_kwargs: { enable_thinking }`.
    QwenTemplate,
}
