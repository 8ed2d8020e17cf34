//! Token counts as servers send them.

use super::*;

fn ended(usage: serde_json::Value) -> String {
    json!({"choices": [], "usage": usage}).to_string()
}

#[track_caller]
fn check(frames: &[String], expect: (u64, u64, u64, u64, u64)) {
    let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
    let read = read(&frames);
    let got = read.end.unwrap().usage;
    let found = (got.input, got.output, got.cache_read, got.cache_write, got.reasoning);
    assert_eq!(found, expect, "{frames:?}");
    assert_eq!(read.log.unrecognised(), 0);
}

fn text() -> String {
    delta(json!({"content": "Paris"}))
}

#[test]
fn an_estimate_of_thinking_does_not_exceed_what_is_charged() {
    let usage = |reasoning: u64| {
        json!({"prompt_tokens": 22, "completion_tokens": 105, "total_tokens": 127, "cost": 0.000_110_94,
            "cost_details": {"upstream_inference_completions_cost": 0.000_105},
            "completion_tokens_details": {"reasoning_tokens": reasoning}})
    };
    check(&[text(), finish("stop"), ended(usage(112))], (22, 105, 0, 0, 105));
    check(&[text(), finish("stop"), ended(usage(900))], (22, 105, 0, 0, 105));
}

#[test]
fn the_sound_of_a_prompt_is_no_output() {
    let usage = json!({"prompt_audio_seconds": 5, "prompt_tokens": 11, "completion_tokens": 15, "total_tokens": 401,
        "prompt_tokens_details": {"audio_tokens": 375, "cached_tokens": 9}});
    check(&[text(), finish("stop"), ended(usage)], (377, 15, 9, 0, 0));
}

#[test]
fn counts_beside_each_other_are_added() {
    // A gateway that counts reasoning beside the completion and leaves it out of the total.
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11,
        "completion_tokens_details": {"reasoning_tokens": 25}});
    check(&[text(), finish("stop"), ended(usage)], (9, 27, 0, 0, 25));
    // Grok on Azure.
    let usage = json!({"prompt_tokens": 235, "completion_tokens": 12, "total_tokens": 247,
        "prompt_tokens_details": {"cached_tokens": 373}});
    check(&[text(), finish("stop"), ended(usage)], (235, 12, 373, 0, 0));
    // Claude behind a gateway.
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12,
        "prompt_tokens_details": {"cache_write_tokens": 2_161}});
    check(&[text(), finish("stop"), ended(usage)], (7, 5, 0, 2_161, 0));
    // Perplexity.
    let usage = json!({"prompt_tokens": 33, "completion_tokens": 7_163, "total_tokens": 7_196,
        "reasoning_tokens": 73_170});
    check(&[text(), finish("stop"), ended(usage)], (33, 80_333, 0, 0, 73_170));
    // Gemini's OpenAI endpoint.
    let usage = json!({"prompt_tokens": 35, "completion_tokens": 12, "total_tokens": 109});
    check(&[text(), finish("stop"), ended(usage)], (35, 74, 0, 0, 0));
}

#[test]
fn the_completion_of_a_reply_of_thinking_only_is_reasoning() {
    let usage = json!({"prompt_tokens": 43, "completion_tokens": 10, "total_tokens": 53,
        "completion_tokens_details": {"reasoning_tokens": 11}});
    let thinks = delta(json!({"reasoning": "We need to"}));
    check(&[thinks, finish("length"), ended(usage)], (43, 10, 0, 0, 10));
}

#[test]
fn the_names_of_anthropic_are_read() {
    let usage = json!({"input_tokens": 26, "output_tokens": 23, "cache_creation_input_tokens": 4,
        "cache_read_input_tokens": 500});
    check(&[text(), finish("stop"), ended(usage)], (26, 23, 500, 4, 0));
    let usage = json!({"prompt_tokens": 5_789, "completion_tokens": 16, "total_tokens": 5_805,
        "cache_read_input_tokens": 5_280, "prompt_tokens_details": {"cached_tokens": 5_280}});
    check(&[text(), finish("stop"), ended(usage)], (509, 16, 5_280, 0, 0));
}

#[test]
fn the_usage_of_groq_is_read() {
    let usage = json!({"prompt_tokens": 40, "completion_tokens": 5, "total_tokens": 45,
        "prompt_tokens_details": {"cached_tokens": 30}});
    let mut last: serde_json::Value = serde_json::from_str(&finish("stop")).unwrap();
    last["x_groq"] = json!({"id": "req_1", "usage": usage});
    let mut first: serde_json::Value = serde_json::from_str(&text()).unwrap();
    first["x_groq"] = json!({"id": "req_1", "seed": 7});
    check(&[first.to_string(), last.to_string()], (10, 5, 30, 0, 0));
    // Both places, as newer models have it.
    last["usage"] = usage;
    check(&[first.to_string(), last.to_string()], (10, 5, 30, 0, 0));
}

#[test]
fn an_empty_usage_takes_no_counts_away() {
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 2});
    let zeros = json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0});
    for empty in [json!({}), json!([]), json!(null), zeros] {
        check(&[text(), finish("stop"), ended(usage.clone()), ended(empty)], (9, 2, 0, 0, 0));
    }
}

#[test]
fn counts_that_are_no_numbers_are_reported_and_the_reply_remains() {
    let odd = [json!(true), json!([1, 2]), json!({"n": 1}), json!("many"), json!(-1)];
    let members = ["prompt_tokens", "total_tokens", "prompt_tokens_details", "completion_tokens_details"];
    for (odd, member) in odd.iter().flat_map(|odd| members.map(|member| (odd, member))) {
        if member.ends_with("details") && odd.is_object() {
            continue;
        }
        let mut usage = json!({"prompt_tokens": 9, "completion_tokens": 2});
        usage[member] = odd.clone();
        let read = read(&[&text(), &finish("stop"), &ended(usage)]);
        let got = read.end.unwrap();
        assert_eq!(got.content.len(), 1);
        let prompt = if member == "prompt_tokens" { 0 } else { 9 };
        assert_eq!((got.usage.input, got.usage.output), (prompt, 2), "{member} {odd}");
        assert_eq!(read.log.unrecognised(), 1, "{member} {odd}");
    }
    for odd in [json!("none"), json!(true), json!(3), json!([1])] {
        let read = read(&[&text(), &finish("stop"), &ended(odd)]);
        assert_eq!((read.end.unwrap().usage.total_tokens, read.log.unrecognised()), (0, 1));
    }
}
