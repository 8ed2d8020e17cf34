//! The names of attributes and metrics against the conventions.
#![allow(deprecated, reason = "the crate marks the names of generative AI as moved to another repository")]

use agent_core::StopReason;
use agent_core::trace::names;
use agent_core::trace::names::metrics;
use opentelemetry_semantic_conventions::{SCHEMA_URL, attribute};

/// The attributes that `opentelemetry-semantic-conventions` contains for semantic conventions 1.42.0.
const RELEASED: [(&str, &str); 22] = [
    (names::OPERATION, attribute::GEN_AI_OPERATION_NAME),
    (names::PROVIDER, attribute::GEN_AI_PROVIDER_NAME),
    (names::REQUEST_MODEL, attribute::GEN_AI_REQUEST_MODEL),
    (names::REQUEST_MAX_TOKENS, attribute::GEN_AI_REQUEST_MAX_TOKENS),
    (names::AGENT_NAME, attribute::GEN_AI_AGENT_NAME),
    (names::CONVERSATION, attribute::GEN_AI_CONVERSATION_ID),
    (names::RESPONSE_ID, attribute::GEN_AI_RESPONSE_ID),
    (names::FINISH_REASONS, attribute::GEN_AI_RESPONSE_FINISH_REASONS),
    (names::FIRST_CHUNK, attribute::GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK),
    (names::INPUT_TOKENS, attribute::GEN_AI_USAGE_INPUT_TOKENS),
    (names::OUTPUT_TOKENS, attribute::GEN_AI_USAGE_OUTPUT_TOKENS),
    (names::CACHE_READ, attribute::GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS),
    (names::REASONING, attribute::GEN_AI_USAGE_REASONING_OUTPUT_TOKENS),
    (names::TOOL_NAME, attribute::GEN_AI_TOOL_NAME),
    (names::TOOL_CALL, attribute::GEN_AI_TOOL_CALL_ID),
    (names::TOOL_TYPE, attribute::GEN_AI_TOOL_TYPE),
    (names::ERROR_TYPE, attribute::ERROR_TYPE),
    (names::SYSTEM_INSTRUCTIONS, attribute::GEN_AI_SYSTEM_INSTRUCTIONS),
    (names::INPUT_MESSAGES, attribute::GEN_AI_INPUT_MESSAGES),
    (names::OUTPUT_MESSAGES, attribute::GEN_AI_OUTPUT_MESSAGES),
    (names::TOOL_ARGUMENTS, attribute::GEN_AI_TOOL_CALL_ARGUMENTS),
    (names::TOOL_RESULT, attribute::GEN_AI_TOOL_CALL_RESULT),
];

/// The names that v0.1.0 of the conventions for generative AI has renamed or added since, as its repository lists them.
const SINCE: [&str; 1] = ["gen_ai.usage.cache_write.input_tokens"];

/// The metrics of v0.1.0 of the conventions for generative AI.
const METRICS: [&str; 11] = [
    "gen_ai.client.inference.duration",
    "gen_ai.client.inference.time_to_first_chunk",
    "gen_ai.client.inference.usage.input_tokens",
    "gen_ai.client.inference.usage.output_tokens",
    "gen_ai.client.inference.usage.cache_read.input_tokens",
    "gen_ai.client.inference.usage.cache_write.input_tokens",
    "gen_ai.client.inference.usage.reasoning.output_tokens",
    "gen_ai.invoke_agent.duration",
    "gen_ai.invoke_agent.inference_calls",
    "gen_ai.invoke_agent.tool_calls",
    "gen_ai.execute_tool.duration",
];

#[test]
fn every_attribute_is_one_of_the_conventions_whose_version_is_named() {
    assert!(names::CONVENTIONS.ends_with("v0.1.0"));
    assert_eq!(SCHEMA_URL, "https://opentelemetry.io/schemas/1.42.0");
    for (ours, theirs) in RELEASED {
        assert_eq!(ours, theirs);
    }
    let known: Vec<&str> = RELEASED.iter().map(|(_, theirs)| *theirs).chain(SINCE).collect();
    for name in names::OF_CONVENTIONS {
        assert!(known.contains(&name), "{name}");
    }
    assert_eq!(known.len(), names::OF_CONVENTIONS.len());
}

#[test]
fn every_metric_is_one_of_the_conventions() {
    assert_eq!(metrics::OF_CONVENTIONS, METRICS);
}

#[test]
fn own_names_begin_with_the_name_of_the_project() {
    let own = [
        names::AGENT_ID,
        names::LOOP,
        names::LOOP_PARENT,
        names::LOOP_END,
        names::GROUP,
        names::TURN,
        names::STEP,
        names::ATTEMPT,
        names::COST,
        names::QUEUE,
        names::COMPACTION_REASON,
        names::COMPACTION_BUDGET,
        metrics::COST,
        metrics::RETRIES,
        metrics::QUEUE,
        metrics::ACTIVE,
    ];
    for name in own {
        assert!(name.starts_with("looptree."), "{name}");
    }
}

#[test]
fn providers_and_finish_reasons_have_the_values_of_the_conventions() {
    for (ours, theirs) in [
        ("anthropic", "anthropic"),
        ("openai", "openai"),
        ("google", "gcp.gemini"),
        ("vertex", "gcp.vertex_ai"),
        ("bedrock", "aws.bedrock"),
        ("azure", "azure.ai.openai"),
        ("mistral", "mistral_ai"),
        ("xai", "x_ai"),
        ("groq", "groq"),
        ("my-server", "my-server"),
    ] {
        assert_eq!(names::provider(ours), theirs);
    }
    for (ours, theirs) in [
        (StopReason::Stop, "stop"),
        (StopReason::Length, "length"),
        (StopReason::ToolUse, "tool_call"),
        (StopReason::Error, "error"),
    ] {
        assert_eq!(names::finish_reason(ours), theirs);
    }
}
