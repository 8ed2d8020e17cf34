//! The names of spans, attributes and metrics, and the values that conventions define.
//!
//! This file is the only place that maps Looptree to the OpenTelemetry conventions for generative AI. Live spans, metrics and
//! exported sessions use it. Names that begin with `gen_ai` and `error` are those of [`CONVENTIONS`]; the others begin with
//! `looptree`. The conventions have the status *Development*: a later version can rename attributes.
//!
//! ```
//! use agent_core::trace::names;
//! assert_eq!(names::provider("google"), "gcp.gemini");
//! assert_eq!(names::INPUT_TOKENS, "gen_ai.usage.input_tokens");
//! ```

use crate::message::{CostConfig, StopReason, Usage};

/// The version of the conventions that the names follow: the first release of the repository
/// `open-telemetry/semantic-conventions-genai`.
pub const CONVENTIONS: &str = "OpenTelemetry GenAI semantic conventions v0.1.0";

// Attributes of the conventions.

/// The operation: [`INVOKE_AGENT`], [`INVOKE_WORKFLOW`], [`CHAT`] or [`EXECUTE_TOOL`].
pub const OPERATION: &str = "gen_ai.operation.name";
/// The provider of the model, with the value that [`provider`] returns.
pub const PROVIDER: &str = "gen_ai.provider.name";
/// The id of the model that was requested.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// The maximum number of tokens of the reply.
pub const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
/// The name of a sub-agent.
pub const AGENT_NAME: &str = "gen_ai.agent.name";
/// The id of the session.
pub const CONVERSATION: &str = "gen_ai.conversation.id";
/// The vendor's id of the response.
pub const RESPONSE_ID: &str = "gen_ai.response.id";
/// The reasons for which the reply ended, with the values that [`finish_reason`] returns.
pub const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// The time from the request to the first piece of the reply, in seconds.
pub const FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
/// The prompt tokens, including those read from and written to a cache.
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// The tokens of the reply, including reasoning.
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// The prompt tokens that were read from a cache.
pub const CACHE_READ: &str = "gen_ai.usage.cache_read.input_tokens";
/// The prompt tokens that were written to a cache.
pub const CACHE_WRITE: &str = "gen_ai.usage.cache_write.input_tokens";
/// The tokens of the reply that were reasoning.
pub const REASONING: &str = "gen_ai.usage.reasoning.output_tokens";
/// The name of the tool.
pub const TOOL_NAME: &str = "gen_ai.tool.name";
/// The id of the tool call.
pub const TOOL_CALL: &str = "gen_ai.tool.call.id";
/// The kind of the tool: always [`FUNCTION`].
pub const TOOL_TYPE: &str = "gen_ai.tool.type";
/// The kind of a failure; absent if the operation succeeded.
pub const ERROR_TYPE: &str = "error.type";

/// The system prompt. Content, absent by default.
pub const SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";
/// The messages that the model received. Content, absent by default.
pub const INPUT_MESSAGES: &str = "gen_ai.input.messages";
/// The reply. Content, absent by default.
pub const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
/// The arguments of a tool call. Content, absent by default.
pub const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
/// The result of a tool call. Content, absent by default.
pub const TOOL_RESULT: &str = "gen_ai.tool.call.result";

/// The attributes that contain text of a conversation.
pub const CONTENT: [&str; 5] =
    [SYSTEM_INSTRUCTIONS, INPUT_MESSAGES, OUTPUT_MESSAGES, TOOL_ARGUMENTS, TOOL_RESULT];

// Values of the conventions.

/// The operation of a loop.
pub const INVOKE_AGENT: &str = "invoke_agent";
/// The operation of a group of parallel loops.
pub const INVOKE_WORKFLOW: &str = "invoke_workflow";
/// The operation of a model call.
pub const CHAT: &str = "chat";
/// The operation of a tool call.
pub const EXECUTE_TOOL: &str = "execute_tool";
/// The kind of a tool that the program executes.
pub const FUNCTION: &str = "function";
/// The kind of a failure about which nothing else is known.
pub const OTHER_ERROR: &str = "_OTHER";
/// The kind of a tool's failure.
pub const TOOL_ERROR: &str = "tool_error";

// Attributes of Looptree.

/// The id of the agent. It is not `gen_ai.agent.id`, which the conventions reserve for hosted agents.
pub const AGENT_ID: &str = "looptree.agent.id";
/// The id of the loop.
pub const LOOP: &str = "looptree.loop.id";
/// The id of the loop that this one continues, or that started it.
pub const LOOP_PARENT: &str = "looptree.loop.parent_id";
/// How the loop ended.
pub const LOOP_END: &str = "looptree.loop.end";
/// The id of a group of parallel loops.
pub const GROUP: &str = "looptree.group.id";
/// The index of the turn in its loop, from 0.
pub const TURN: &str = "looptree.turn.index";
/// The key of the step, the same after a resume.
pub const STEP: &str = "looptree.step";
/// The number of the attempt in its turn, from 0.
pub const ATTEMPT: &str = "looptree.attempt";
/// The cost of the model call in US dollars, if the prices of the model are known.
pub const COST: &str = "looptree.cost.usd";
/// The time for which the call waited for a rate limit of the program, in seconds.
pub const QUEUE: &str = "looptree.queue.duration";
/// The reason of a compaction.
pub const COMPACTION_REASON: &str = "looptree.compaction.reason";
/// The goal of a compaction, in tokens.
pub const COMPACTION_BUDGET: &str = "looptree.compaction.budget_tokens";

/// All attributes of the conventions that spans can have.
pub const OF_CONVENTIONS: [&str; 23] = [
    OPERATION,
    PROVIDER,
    REQUEST_MODEL,
    REQUEST_MAX_TOKENS,
    AGENT_NAME,
    CONVERSATION,
    RESPONSE_ID,
    FINISH_REASONS,
    FIRST_CHUNK,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    CACHE_READ,
    CACHE_WRITE,
    REASONING,
    TOOL_NAME,
    TOOL_CALL,
    TOOL_TYPE,
    ERROR_TYPE,
    SYSTEM_INSTRUCTIONS,
    INPUT_MESSAGES,
    OUTPUT_MESSAGES,
    TOOL_ARGUMENTS,
    TOOL_RESULT,
];

/// Returns the conventions' name of a provider; `name` itself if they define none.
#[must_use]
pub fn provider(name: &str) -> &str {
    match name {
        "google" => "gcp.gemini",
        "vertex" | "google-vertex" => "gcp.vertex_ai",
        "bedrock" | "amazon-bedrock" => "aws.bedrock",
        "azure" | "azure-openai" => "azure.ai.openai",
        "mistral" => "mistral_ai",
        "moonshot" | "kimi" => "moonshot_ai",
        "xai" => "x_ai",
        other => other,
    }
}

/// Returns the conventions' name of a stop reason.
#[must_use]
pub fn finish_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Stop => "stop",
        StopReason::Length => "length",
        StopReason::ToolUse => "tool_call",
        StopReason::Paused => "pause",
        StopReason::Error | StopReason::Aborted => "error",
    }
}

/// Returns the cost of a model call in US dollars; `None` if no price of the model is known.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "costs have fewer than 53 bits")]
pub fn dollars(usage: &Usage, prices: &CostConfig) -> Option<f64> {
    (*prices != CostConfig::default()).then(|| usage.cost(prices).total as f64 / 1e6)
}

/// The names of metrics. Those that begin with `gen_ai` are those of the conventions.
pub mod metrics {
    /// The duration of a model call, a histogram in seconds.
    pub const CHAT_DURATION: &str = "gen_ai.client.inference.duration";
    /// The time from the request to the first piece of the reply, a histogram in seconds.
    pub const FIRST_CHUNK: &str = "gen_ai.client.inference.time_to_first_chunk";
    /// The prompt tokens, a counter.
    pub const INPUT_TOKENS: &str = "gen_ai.client.inference.usage.input_tokens";
    /// The tokens of replies, a counter.
    pub const OUTPUT_TOKENS: &str = "gen_ai.client.inference.usage.output_tokens";
    /// The prompt tokens that were read from a cache, a counter.
    pub const CACHE_READ: &str = "gen_ai.client.inference.usage.cache_read.input_tokens";
    /// The prompt tokens that were written to a cache, a counter.
    pub const CACHE_WRITE: &str = "gen_ai.client.inference.usage.cache_write.input_tokens";
    /// The tokens of replies that were reasoning, a counter.
    pub const REASONING: &str = "gen_ai.client.inference.usage.reasoning.output_tokens";
    /// The duration of a loop, a histogram in seconds.
    pub const AGENT_DURATION: &str = "gen_ai.invoke_agent.duration";
    /// The model calls of a loop, a histogram.
    pub const AGENT_CALLS: &str = "gen_ai.invoke_agent.inference_calls";
    /// The tool calls of a loop, a histogram.
    pub const AGENT_TOOLS: &str = "gen_ai.invoke_agent.tool_calls";
    /// The duration of a tool call, a histogram in seconds.
    pub const TOOL_DURATION: &str = "gen_ai.execute_tool.duration";
    /// The cost of model calls whose prices are known, a counter in US dollars.
    pub const COST: &str = "looptree.cost";
    /// The repeated model calls, a counter.
    pub const RETRIES: &str = "looptree.retries";
    /// The time for which model calls waited for a rate limit of the program, a histogram in seconds.
    pub const QUEUE: &str = "looptree.queue.duration";
    /// The loops that are running, an up-down counter.
    pub const ACTIVE: &str = "looptree.loops.active";

    /// All names of the conventions.
    pub const OF_CONVENTIONS: [&str; 11] = [
        CHAT_DURATION,
        FIRST_CHUNK,
        INPUT_TOKENS,
        OUTPUT_TOKENS,
        CACHE_READ,
        CACHE_WRITE,
        REASONING,
        AGENT_DURATION,
        AGENT_CALLS,
        AGENT_TOOLS,
        TOOL_DURATION,
    ];
}
