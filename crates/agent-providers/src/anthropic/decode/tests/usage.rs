//! Token counts, and what a reply contains besides its content.

use super::*;

fn stopped(usage: Value) -> String {
    json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}).to_string()
}

fn call_of(kind: &str, input: u64, output: u64) -> Value {
    json!({"type": kind, "input_tokens": input, "output_tokens": output, "cache_read_input_tokens": 1,
        "cache_creation_input_tokens": 2})
}

#[track_caller]
fn check(usage: Value, expect: [u64; 4], unreadable: u64) {
    let start = r#"{"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":0}}}"#;
    let read = read(&[start, &stopped(usage.clone()), STOP]);
    let got = read.log.usage();
    assert_eq!([got.input, got.output, got.cache_read, got.cache_write], expect, "{usage}");
    assert_eq!(read.log.unrecognised(), unreadable, "{usage}");
    assert!(read.end.is_ok());
}

#[test]
fn model_calls_outside_of_the_reply_are_counted() {
    let of_reply = |iterations: Value| {
        json!({"input_tokens": 23_000, "output_tokens": 1_000, "cache_read_input_tokens": 1,
            "cache_creation_input_tokens": 2, "iterations": iterations})
    };
    let compaction = json!([call_of("compaction", 60_000, 385), call_of("message", 23_000, 1_000)]);
    check(of_reply(compaction), [83_000, 1_385, 2, 4], 0);
    let adviser = json!([call_of("message", 22_000, 900), call_of("advisor_message", 2_518, 22),
        {"type": "message", "input_tokens": 1_000, "output_tokens": 100}]);
    check(of_reply(adviser), [25_518, 1_022, 2, 4], 0);
    // A server whose counts include all calls.
    let included = json!([call_of("compaction", 20_000, 400),
        {"type": "message", "input_tokens": 3_000, "output_tokens": 600}]);
    check(of_reply(included), [23_000, 1_000, 1, 2], 0);
    for none in [json!(null), json!([])] {
        check(of_reply(none), [23_000, 1_000, 1, 2], 0);
    }
    check(of_reply(json!("two")), [23_000, 1_000, 1, 2], 1);
}

#[test]
fn counts_that_are_no_numbers_do_not_fail_the_reply() {
    for odd in [json!(true), json!([1]), json!({"n": 1}), json!("many"), json!(-1)] {
        check(json!({"input_tokens": odd, "output_tokens": 3}), [0, 3, 0, 0], 1);
    }
    for odd in [json!(true), json!("none"), json!([1])] {
        check(odd, [0; 4], 1);
    }
    check(json!({"output_tokens": 3, "output_tokens_details": "none"}), [0, 3, 0, 0], 1);
}

#[test]
fn a_later_zero_takes_no_count_away() {
    let read = read(&[START, &stopped(json!({"input_tokens": 0, "output_tokens": 7})), STOP]);
    let got = read.log.usage();
    assert_eq!([got.input, got.output, got.cache_read, got.cache_write], [10, 7, 4, 3]);
}

#[test]
fn a_call_keeps_its_caller_and_a_reply_its_container() {
    let caller = json!({"type": "code_execution_20250825", "tool_id": "srvtoolu_1"});
    let container = json!({"id": "container_1", "expires_at": "2025-12-20T05:33:37Z"});
    let call = |id: &str, caller: &Value| json!({"type": "tool_use", "id": id, "name": "roll", "input": {"n": 1}, "caller": caller});
    let streamed = read(&refs(&[
        START.to_owned(),
        begin(0, call("toolu_1", &caller)),
        end(0),
        begin(1, call("toolu_2", &json!({"type": "direct"}))),
        end(1),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "container": container}})
            .to_string(),
        STOP.to_owned(),
    ]));
    let body = json!({"id": "msg_1", "content": [call("toolu_1", &caller), call("toolu_2", &json!({"type": "direct"}))],
        "stop_reason": "tool_use", "container": container});
    let start = json!({"type": "message_start", "message": body});
    for read in [streamed, read(&[&start.to_string(), STOP])] {
        let content = read.log.content();
        let calls = content.iter().filter_map(agent_core::Content::as_tool_call);
        let signatures: Vec<Option<&str>> = calls.map(|c| c.signature.as_deref()).collect();
        let mark = r#"{"caller":{"type":"code_execution_20250825","tool_id":"srvtoolu_1"}}"#;
        assert_eq!(signatures, [Some(mark), None]);
        assert_eq!(content.last(), Some(&agent_core::Content::opaque("container", container.clone())));
        assert_eq!(read.end.unwrap().stop_reason, agent_core::StopReason::ToolUse);
    }
}

#[test]
fn written_tokens_are_counted_by_their_lifetime() {
    let start = |creation: Value| {
        json!({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 5,
            "cache_creation_input_tokens": 100, "cache_creation": creation}}})
        .to_string()
    };
    for (creation, long, unreadable) in [
        (json!({"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 60}), 60, 0),
        (json!({"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 0}), 0, 0),
        (json!({"ephemeral_1h_input_tokens": 900}), 100, 0),
        (json!(null), 0, 0),
        (json!("many"), 0, 1),
    ] {
        let read = read(&[&start(creation.clone()), &stopped(json!({"output_tokens": 3})), STOP]);
        let usage = read.log.usage();
        assert_eq!(
            (usage.cache_write, usage.cache_write_long, usage.total_tokens),
            (100, long, 108),
            "{creation}"
        );
        assert_eq!(read.log.unrecognised(), unreadable, "{creation}");
    }
}

#[test]
fn the_vendors_reason_for_a_cache_miss_is_in_the_completion() {
    let completion = |diagnostics: Value| {
        let start = json!({"type": "message_start", "message": {"id": "m", "diagnostics": diagnostics}});
        let text = begin(0, json!({"type": "text", "text": "x"}));
        read(&[&start.to_string(), &text, &end(0), &stopped(json!({"output_tokens": 3})), STOP])
            .end
            .unwrap()
            .cache_miss
    };
    let miss = |kind: &str, tokens: Option<u64>| Some(agent_core::CacheMiss::new(kind, tokens));
    for (diagnostics, expect) in [
        (
            json!({"cache_miss_reason": {"type": "tools_changed", "cache_missed_input_tokens": 812}}),
            miss("tools_changed", Some(812)),
        ),
        (
            json!({"cache_miss_reason": {"type": "previous_message_not_found"}}),
            miss("previous_message_not_found", None),
        ),
        (json!({"cache_miss_reason": null}), None),
        (json!(null), None),
        (json!("later"), None),
    ] {
        assert_eq!(completion(diagnostics.clone()), expect, "{diagnostics}");
    }
}

/// The samples of the vendor: a compaction that reads the cache, a model that declines before another one answers, and a
/// refusal without output.
#[test]
fn a_zero_is_a_count_and_no_call_is_counted_twice() {
    let counts = |start: Value, end: Value| {
        let start = json!({"type": "message_start", "message": {"id": "m", "usage": start}}).to_string();
        let got = read(&[&start, &stopped(end), STOP]).log.usage();
        [got.input, got.output, got.cache_read, got.cache_write]
    };
    let iteration = |kind: &str, input: u64, output: u64, read: u64| {
        json!({"type": kind, "input_tokens": input, "output_tokens": output, "cache_read_input_tokens": read,
            "cache_creation_input_tokens": 0})
    };
    let start = json!({"input_tokens": 100, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 55_096,
        "output_tokens": 7});
    let mut end = iteration("", 181, 8, 0);
    end["iterations"] = json!([iteration("compaction", 100, 83, 55_096), iteration("message", 181, 8, 0)]);
    assert_eq!(counts(start.clone(), end), [281, 91, 55_096, 0]);
    let mut end = iteration("", 25, 40, 0);
    end["iterations"] = json!([iteration("message", 25, 7, 0), iteration("fallback_message", 25, 40, 0)]);
    assert_eq!(counts(json!({"input_tokens": 25, "output_tokens": 1}), end), [50, 47, 0, 0]);
    // Only the compaction is listed, so the reply stands beside it.
    let mut end = iteration("", 181, 8, 0);
    end["iterations"] = json!([iteration("compaction", 100, 83, 55_096)]);
    assert_eq!(counts(start, end), [281, 91, 55_096, 0]);
    assert_eq!(
        counts(json!({"input_tokens": 9, "output_tokens": 1}), json!({"output_tokens": 0})),
        [9, 0, 0, 0]
    );
    // A relay that does not know the counts.
    let unknown = json!({"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0});
    assert_eq!(counts(json!({"input_tokens": 9, "output_tokens": 1}), unknown), [9, 1, 0, 0]);
}
