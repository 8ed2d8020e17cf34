//! Token counts: each token of the vendor is in exactly one of our buckets.

use agent_core::Usage;
use serde_json::Value;

use super::is_google;
use crate::conformance::manifest::{Expected, ExpectedUsage};

/// The buckets of prompt tokens are disjoint: what Chat Completions counts as input has the cached part taken out.
const DISJOINT_USAGE: &str = "usage: cached tokens are not input tokens";
/// Reasoning is part of the output. A vendor whose total shows that it counts reasoning beside it has both added up.
const REASONING_INSIDE: &str = "usage: reasoning is part of the output";
/// Numbers that the vendor did not send are 0 in a complete reply, and are not compared in a failed one.
const ABSENT_USAGE: &str = "usage: an absent number is 0";
/// What the vendor's own tools put into the prompt is input.
const TOOL_PROMPT: &str = "usage: tokens of the vendor's tools are input";
/// Sound of the prompt that the vendor counts beside it is input.
const SOUND: &str = "usage: sound of the prompt is input";
/// A gateway's own estimate of thinking is not more than the completion that it charges for.
const ESTIMATE: &str = "usage: the total decides against an estimate of thinking";
/// A total that is larger than its counts contains hidden thinking.
const HIDDEN: &str = "usage: tokens that only the total contains are output";
/// The SDK does not read Anthropic's names in a reply of Chat Completions.
const OTHER_NAMES: &str = "usage: Anthropic's names count in Chat Completions";
/// Anthropic's counts leave out the model calls for a compaction and of an adviser, which are paid for.
const ITERATIONS: &str = "usage: model calls outside of the reply count";

/// The usage that a provider must report.
pub(super) fn wanted(
    protocol: &str,
    expected: &Expected,
    failed: bool,
    fired: &mut Vec<&'static str>,
) -> ExpectedUsage {
    let raw = &expected.usage_raw;
    let mut usage = expected.usage;
    if protocol == "openai-chat" && usage == ExpectedUsage::default() && raw.get("input_tokens").is_some() {
        usage = under_other_names(raw);
        fired.push(OTHER_NAMES);
    }
    let total = raw.get("total_tokens").and_then(Value::as_u64);
    if let (Some(input), Some(output), Some(total)) = (usage.input, usage.output, total) {
        let reasoning = usage.reasoning.unwrap_or(0);
        let beside = input.saturating_add(output).saturating_add(reasoning);
        let sound = raw.pointer("/prompt_tokens_details/audio_tokens").and_then(Value::as_u64).unwrap_or(0);
        let charged =
            raw.get("cost").is_some_and(Value::is_number) || reasoning <= output.saturating_mul(3) / 2;
        if reasoning > output && total == input.saturating_add(output) && charged {
            usage.reasoning = Some(output);
            fired.push(ESTIMATE);
        } else if sound > 0 && total == input.saturating_add(output).saturating_add(sound) {
            usage.input = Some(input.saturating_add(sound));
            fired.push(SOUND);
        } else if reasoning > 0 && total == beside {
            usage.output = Some(output.saturating_add(reasoning));
            fired.push(REASONING_INSIDE);
        } else if total > input.saturating_add(output) {
            usage.output = Some(total.saturating_sub(input));
            fired.push(HIDDEN);
        }
    }
    if is_google(protocol) {
        let number = |key: &str| raw.get(key).and_then(Value::as_u64).unwrap_or(0);
        let (thought, tools) = (number("thoughts_token_count"), number("tool_use_prompt_token_count"));
        if thought > 0 {
            usage.output = Some(usage.output.unwrap_or(0).saturating_add(thought));
            fired.push(REASONING_INSIDE);
        }
        if tools > 0 {
            usage.input = Some(usage.input.unwrap_or(0).saturating_add(tools));
            fired.push(TOOL_PROMPT);
        }
    }
    if counts_cached_as_input(protocol)
        && let Some(input) = usage.input
    {
        let cached = usage.cache_read.unwrap_or(0).saturating_add(usage.cache_write.unwrap_or(0));
        usage.input = Some(input.saturating_sub(cached));
        if cached > 0 {
            fired.push(DISJOINT_USAGE);
        }
    }
    add_iterations(raw, &mut usage, fired);
    if !failed {
        let slots = slots(&mut usage);
        let mut absent = false;
        for slot in slots {
            absent |= slot.is_none();
            *slot = Some(slot.unwrap_or(0));
        }
        if absent {
            fired.push(ABSENT_USAGE);
        }
    }
    usage
}

/// Where the vendor's total is not the sum of our buckets, what both are.
pub(in crate::conformance) fn contradiction(expected: &Expected, found: &Usage) -> Option<String> {
    let names = ["total_tokens", "total_token_count", "totalTokens"];
    let total = names.iter().find_map(|name| expected.usage_raw.get(name)?.as_u64())?;
    (total != found.total_tokens && !found.is_zero())
        .then(|| format!("the vendor's total is {total}, the sum of its counts {}", found.total_tokens))
}

fn slots(usage: &mut ExpectedUsage) -> [&mut Option<u64>; 5] {
    [&mut usage.input, &mut usage.output, &mut usage.cache_read, &mut usage.cache_write, &mut usage.reasoning]
}

fn under_other_names(raw: &Value) -> ExpectedUsage {
    let number = |key: &str| raw.get(key).and_then(Value::as_u64);
    let cached = |key: &str| number(key).unwrap_or(0);
    let (read, write) = (cached("cache_read_input_tokens"), cached("cache_creation_input_tokens"));
    ExpectedUsage {
        // The rule on cached tokens takes them out again.
        input: number("input_tokens").map(|input| input.saturating_add(read).saturating_add(write)),
        output: number("output_tokens"),
        cache_read: Some(read),
        cache_write: Some(write),
        reasoning: None,
    }
}

fn add_iterations(raw: &Value, usage: &mut ExpectedUsage, fired: &mut Vec<&'static str>) {
    let calls: Vec<&Value> = raw.get("iterations").and_then(Value::as_array).into_iter().flatten().collect();
    let kind = |call: &&&Value| matches!(call["type"].as_str(), Some("message" | "fallback_message"));
    let is_listed = calls.iter().any(|call| kind(&call));
    let keys = ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
    for (slot, key) in slots(usage).into_iter().zip(keys).filter(|_| !calls.is_empty()) {
        let sum: u64 = calls.iter().filter_map(|call| call.get(key).and_then(Value::as_u64)).sum();
        let reply = slot.unwrap_or(0);
        let all = if is_listed { sum.max(reply) } else { sum.saturating_add(reply) };
        if all != reply {
            *slot = Some(all);
            fired.push(ITERATIONS);
        }
    }
}

/// The protocols whose input tokens include the cached ones.
fn counts_cached_as_input(protocol: &str) -> bool {
    matches!(protocol, "openai-chat" | "openai-responses" | "azure-responses" | "gemini" | "vertex")
}
