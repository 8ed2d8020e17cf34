//! Items, their pieces and their ends.

use super::*;

/// REQ-123, REQ-131.
#[test]
fn thinking_text_and_a_call_come_in_pieces_and_are_kept_with_their_names() {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "final",
        "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}]});
    let part = |n: u64, delta: &str| {
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": n,
            "delta": delta})
    };
    let said = json!({"type": "message", "id": "msg_1", "role": "assistant", "phase": "commentary",
        "content": [{"type": "output_text", "text": "I will look."}]});
    let read = read(&[
        json!({"type": "response.created", "response": {"id": "resp_1", "model": "gpt-test-2026"}}),
        added(0, json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "early"})),
        part(0, "Fir"),
        part(0, "st."),
        part(1, "Then."),
        done(0, reasoning),
        added(1, json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []})),
        text_delta(1, "I will "),
        text_delta(1, "look."),
        done(1, said),
        added(2, call("fc_1", "call_1", "")),
        arguments(2, "{\"at\":"),
        arguments(2, "\"src\"}"),
        done(2, call("fc_1", "call_1", "{\"at\":\"src\"}")),
        completed(json!([])),
    ]);
    let content = read.content();
    let kept = json!({"type": "reasoning", "id": "rs_1",
        "summary": [{"type": "summary_text"}, {"type": "summary_text"}]});
    assert_eq!(content[0], Content::opaque("reasoning", kept));
    assert_eq!(content[1], Content::thinking("First.", None));
    assert_eq!(content[2], Content::thinking("Then.", Some("final".into())));
    let Content::Text(text) = &content[3] else { panic!("{content:?}") };
    assert_eq!(text.text, "I will look.");
    assert_eq!(text.signature.as_deref(), Some(r#"{"id":"msg_1","phase":"commentary"}"#));
    let call = content[4].as_tool_call().unwrap();
    assert_eq!((call.id.as_str(), call.arguments.text()), ("call_1", "{\"at\":\"src\"}"));
    assert_eq!(call.signature.as_deref(), Some(r#"{"id":"fc_1"}"#));
    let usage = read.log.usage();
    assert_eq!((usage.input, usage.output, usage.cache_read, usage.reasoning), (40, 20, 60, 5));
    assert_eq!(read.log.model().as_deref(), Some("gpt-test-2026"));
    assert_eq!(read.end.unwrap().stop_reason, StopReason::ToolUse);
    assert_eq!(read.log.unrecognised(), 0);
}

/// B-125.
#[test]
fn pieces_of_several_open_items_are_not_mixed() {
    let read = read(&[
        added(0, call("fc_1", "call_1", "")),
        added(1, call("fc_2", "call_2", "")),
        added(2, json!({"type": "message", "id": "msg_1", "content": []})),
        arguments(1, "{\"b\""),
        text_delta(2, "x"),
        arguments(0, "{\"a\""),
        arguments(1, ":2}"),
        text_delta(2, "y"),
        arguments(0, ":1}"),
        done(1, call("fc_2", "call_2", "{\"b\":2}")),
        done(0, call("fc_1", "call_1", "{\"a\":1}")),
        done(2, message("msg_1", "xy")),
        completed(json!([])),
    ]);
    let calls: Vec<String> =
        read.end.as_ref().unwrap().tool_calls().map(|c| format!("{} {}", c.id, c.arguments.text())).collect();
    assert_eq!(calls, ["call_1 {\"a\":1}", "call_2 {\"b\":2}"]);
    assert_eq!(read.log.snapshot().text(), "xy");
}

/// B-125.
#[test]
fn a_piece_that_names_no_item_goes_to_the_only_one_and_is_an_error_where_there_are_several() {
    let piece = |delta: &str| json!({"type": "response.function_call_arguments.delta", "delta": delta});
    let one = [added(0, call("fc_1", "call_1", "")), piece("{}"), completed(json!([]))];
    assert_eq!(read(&one).end.unwrap().tool_calls().next().unwrap().arguments.text(), "{}");
    let two = [added(0, call("a", "call_1", "")), added(1, call("b", "call_2", "")), piece("{}")];
    let read = read(&two);
    assert_eq!(read.kind(), ErrorKind::Network);
    assert!(read.end.unwrap_err().to_string().contains("which item"));
}

#[test]
fn a_piece_without_a_number_is_found_by_the_name_of_its_item() {
    let piece =
        json!({"type": "response.function_call_arguments.delta", "item_id": "b", "delta": "{\"x\":1}"});
    let read = read(&[
        added(0, call("a", "call_1", "")),
        added(1, call("b", "call_2", "")),
        piece,
        completed(json!([])),
    ]);
    let texts: Vec<String> = read.end.unwrap().tool_calls().map(|c| c.arguments.text().to_owned()).collect();
    assert_eq!(texts, ["", "{\"x\":1}"]);
}

/// What never came in pieces is passed on from the whole, and what came is not passed on twice.
#[test]
fn the_whole_completes_what_came_in_pieces() {
    let text = |done: Value| {
        let frames = [added(0, json!({"type": "message", "id": "m"})), text_delta(0, "Hel"), done];
        read(&[&frames[..], &[completed(json!([]))]].concat()).log.snapshot().text()
    };
    let whole =
        json!({"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": "Hello"});
    assert_eq!(text(whole), "Hello");
    assert_eq!(text(done(0, message("m", "Hello"))), "Hello");
    assert_eq!(text(done(0, message("m", "Hel"))), "Hel");
    assert_eq!(text(done(0, message("m", "Another text"))), "Hel", "another text is not a longer one");
    let part = json!({"type": "response.content_part.done", "output_index": 0, "content_index": 0,
        "part": {"type": "output_text", "text": "Hello"}});
    assert_eq!(text(part), "Hello");
}

#[test]
fn output_that_stands_only_in_the_last_event_is_passed_on() {
    let item = |n: u64| message(&format!("msg_{n}"), &format!("{n};"));
    assert_eq!(read(&[completed(json!([item(0), item(1)]))]).log.snapshot().text(), "0;1;");
    let some = [done(0, item(0)), completed(json!([item(0), item(1)]))];
    assert_eq!(read(&some).log.snapshot().text(), "0;1;");
    // Other names and another order, but no more items than came.
    let renamed = [done(0, item(0)), done(1, item(1)), completed(json!([item(7), item(8)]))];
    assert_eq!(read(&renamed).log.snapshot().text(), "0;1;");
}

#[test]
fn an_item_without_an_end_of_its_own_is_ended_by_the_last_event() {
    let read = read(&[
        added(0, json!({"type": "reasoning", "id": "rs_1"})),
        added(1, call("fc_1", "call_1", "")),
        arguments(1, "{\"a\":1}"),
        completed(json!([
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"},
            call("fc_1", "call_1", "{\"a\":1}")
        ])),
    ]);
    let content = read.content();
    assert!(content.contains(&Content::thinking("", Some("sealed".into()))), "{content:?}");
    assert_eq!(read.end.unwrap().tool_calls().next().unwrap().arguments.text(), "{\"a\":1}");
}

#[test]
fn an_item_of_another_kind_is_kept_as_it_came_and_its_progress_says_nothing() {
    let item = json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "b", "a": 1}});
    let read = read(&[
        added(0, json!({"type": "web_search_call", "id": "ws_1", "status": "in_progress"})),
        json!({"type": "response.web_search_call.searching", "output_index": 0, "item_id": "ws_1"}),
        done(0, item.clone()),
        done(1, json!({"type": "item_of_next_year", "x": [1]})),
        json!({"type": "response.of_next_year", "output_index": 9}),
        completed(json!([])),
    ]);
    assert_eq!(
        read.content(),
        [
            Content::opaque("web_search_call", item),
            Content::opaque("item_of_next_year", json!({"type": "item_of_next_year", "x": [1]}))
        ]
    );
    assert_eq!(read.log.unrecognised(), 1);
    assert_eq!(read.end.unwrap().stop_reason, StopReason::Stop);
}

#[test]
fn a_call_keeps_what_else_its_item_holds() {
    let program = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look",
        "arguments": "{}", "status": "completed", "caller": {"type": "program", "caller_id": "p"}, "namespace": null});
    let free = json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_2", "name": "sql", "input": "SELECT 1"});
    let read = read(&[done(0, program), done(1, free), completed(json!([]))]);
    let message = read.end.unwrap();
    let signatures: Vec<Option<&str>> = message.tool_calls().map(|c| c.signature.as_deref()).collect();
    assert_eq!(
        signatures,
        [
            Some(r#"{"id":"fc_1","caller":{"type":"program","caller_id":"p"}}"#),
            Some(r#"{"type":"custom_tool_call","id":"ctc_1"}"#)
        ]
    );
    assert_eq!(message.tool_calls().nth(1).unwrap().arguments.text(), "SELECT 1");
}

#[test]
fn a_call_without_an_id_gets_one_and_a_late_name_is_taken() {
    let read = read(&[
        added(0, json!({"type": "function_call"})),
        arguments(0, "{\"a\":1}"),
        done(
            0,
            json!({"type": "function_call", "name": "look", "arguments": {"ignored": "it came as text"}}),
        ),
        done(1, json!({"type": "function_call", "name": "look", "arguments": {"b": 1, "a": 2}})),
        completed(json!([])),
    ]);
    let message = read.end.unwrap();
    let calls: Vec<&agent_core::ToolCall> = message.tool_calls().collect();
    assert!(!calls[0].id.as_str().is_empty() && calls[0].id != calls[1].id);
    assert_eq!((calls[0].name.as_str(), calls[0].arguments.text()), ("look", r#"{"a":1}"#));
    assert_eq!(calls[1].arguments.text(), r#"{"b":1,"a":2}"#);
}

/// D17: the names of REQ-123 are understood beside the real ones.
#[test]
fn the_other_family_of_events_is_understood() {
    let read = read(&[
        json!({"type": "response.reasoning.delta", "output_index": 0, "delta": "hm"}),
        json!({"type": "response.function_call_arguments.start", "output_index": 1, "call_id": "c", "name": "look"}),
        arguments(1, "{\"a\":1}"),
        json!({"type": "response.function_call_arguments.done", "output_index": 1, "arguments": "{\"a\":1}"}),
        completed(json!([])),
    ]);
    assert!(read.content().contains(&Content::thinking("hm", None)));
    let message = read.end.unwrap();
    let call = message.tool_calls().next().unwrap();
    assert_eq!((call.id.as_str(), call.name.as_str(), call.arguments.text()), ("c", "look", "{\"a\":1}"));
}

/// Two items under one number, as some servers send them, are told apart by their names.
#[test]
fn a_number_that_is_given_twice_is_two_items() {
    let read = read(&[
        done(0, message("msg_1", "a")),
        added(0, call("fc_1", "call_1", "")),
        arguments(0, "{}"),
        done(0, call("fc_1", "call_1", "{}")),
        completed(json!([message("msg_1", "a"), call("fc_1", "call_1", "{}")])),
    ]);
    assert_eq!(read.content().len(), 2);
    assert_eq!(read.end.unwrap().tool_calls().next().unwrap().arguments.text(), "{}");
}

#[test]
fn annotations_belong_to_their_parts() {
    let page = |url: &str| json!({"type": "url_citation", "url": url, "title": "T", "start_index": 0, "end_index": 2});
    let text = |text: &str, annotations: Value| json!({"type": "output_text", "text": text, "annotations": annotations});
    let said = json!({"type": "message", "id": "msg_1", "role": "assistant",
        "content": [text("So.", json!([page("a"), page("b")])), text("And so.", json!([page("c")]))]});
    let part = |n: u64, delta: &str| json!({"type": "response.output_text.delta", "output_index": 0, "content_index": n, "delta": delta});
    let announced = |n: u64| json!({"type": "response.content_part.added", "output_index": 0, "content_index": n, "part": text("", json!([]))});
    let streamed = read(&[
        added(0, json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []})),
        announced(0),
        part(0, "So."),
        json!({"type": "response.output_text.annotation.added", "output_index": 0, "annotation": page("a")}),
        announced(1),
        part(1, "And so."),
        done(0, said.clone()),
        completed(json!([])),
    ]);
    assert_eq!(streamed.log.unrecognised(), 0);
    let sources = |read: &Read| -> Vec<Vec<Value>> {
        let texts = read.content().into_iter().filter_map(|content| match content {
            Content::Text(text) => Some(text.citations.into_iter().map(|citation| citation.data).collect()),
            _ => None,
        });
        texts.collect()
    };
    let expect = vec![vec![page("a"), page("b")], vec![page("c")]];
    assert_eq!(sources(&streamed), expect);
    assert_eq!(sources(&read(&[done(0, said)])), expect);
}

/// The vendor asks the agent to search, or has searched by itself.
#[test]
fn a_search_of_the_agent_is_a_call_and_one_of_the_vendor_is_kept() {
    let client = json!({"type": "tool_search_call", "id": "tsc_1", "call_id": "call_1", "execution": "client",
        "arguments": {"query": "refund"}, "status": "completed", "created_by": null});
    let server = json!({"type": "tool_search_call", "id": "tsc_2", "call_id": null, "execution": "server",
        "arguments": {"paths": ["crm"]}, "status": "completed"});
    let begun = json!({"type": "tool_search_call", "id": "tsc_1", "call_id": "call_1", "execution": "client",
        "arguments": {}, "status": "in_progress"});
    let read = read(&[added(0, begun), done(0, client), done(1, server.clone()), completed(json!([]))]);
    let message = read.end.unwrap();
    let call = message.tool_calls().next().unwrap();
    assert_eq!((call.id.as_str(), call.name.as_str()), ("call_1", "tool_search"));
    assert_eq!(call.arguments.text(), r#"{"query":"refund"}"#);
    assert_eq!(call.signature.as_deref(), Some(r#"{"type":"tool_search_call","id":"tsc_1"}"#));
    assert_eq!(message.content[1], Content::opaque("tool_search_call", server));
    assert_eq!(message.stop_reason, StopReason::ToolUse);
}

/// Servers put the arguments of a call into one of several places.
#[test]
fn arguments_are_found_wherever_a_server_puts_them() {
    const A: &str = r#"{"path":"a.txt"}"#;
    let item = |arguments: Value| json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": arguments});
    let bare = |arguments: &str| json!({"type": "function_call", "call_id": "call_1", "name": "read", "arguments": arguments});
    let whole = |text: &str| json!({"type": "response.function_call_arguments.done", "output_index": 0, "item_id": "fc_1", "arguments": text});
    let ended = || completed(json!([]));
    let forms: Vec<(&str, Vec<Value>)> = vec![
        ("the added item", vec![added(0, item(json!(A))), ended()]),
        (
            "the added item, with empty ends",
            vec![added(0, item(json!(A))), whole(""), done(0, item(json!(""))), ended()],
        ),
        ("deltas", vec![added(0, item(json!(""))), arguments(0, &A[..5]), arguments(0, &A[5..]), ended()]),
        ("the done event", vec![added(0, item(json!(""))), whole(A), ended()]),
        ("the finished item", vec![added(0, item(json!(""))), whole(""), done(0, item(json!(A))), ended()]),
        (
            "the response",
            vec![
                added(0, item(json!(""))),
                whole(""),
                done(0, item(json!(""))),
                completed(json!([item(json!(A))])),
            ],
        ),
        ("only the response", vec![completed(json!([item(json!(A))]))]),
        (
            "no added event",
            vec![arguments(0, &A[..5]), arguments(0, &A[5..]), whole(A), done(0, item(json!(A))), ended()],
        ),
        (
            "an empty value first",
            vec![added(0, item(json!("{}"))), arguments(0, A), whole(A), done(0, item(json!(A))), ended()],
        ),
        (
            "an empty value as a delta",
            vec![added(0, item(json!(""))), arguments(0, "{}"), done(0, item(json!(A))), ended()],
        ),
        ("an object", vec![added(0, item(json!(""))), done(0, item(json!({"path": "a.txt"}))), ended()]),
        ("no ids of items", vec![added(0, bare("")), arguments(0, A), done(0, bare(A)), ended()]),
        (
            "twice in the deltas",
            vec![
                added(0, item(json!(""))),
                arguments(0, A),
                arguments(0, A),
                done(0, item(json!(A))),
                ended(),
            ],
        ),
        (
            "all so far with each delta",
            vec![
                added(0, item(json!(""))),
                arguments(0, &A[..5]),
                arguments(0, A),
                done(0, item(json!(A))),
                ended(),
            ],
        ),
    ];
    for (form, frames) in forms {
        let read = read(&frames);
        assert!(read.log.open_calls().is_empty(), "{form}: the call has its end");
        let message = read.end.unwrap();
        let calls: Vec<&agent_core::ToolCall> = message.tool_calls().collect();
        assert_eq!(calls.len(), 1, "{form}");
        assert_eq!((calls[0].id.as_str(), calls[0].name.as_str()), ("call_1", "read"), "{form}");
        assert_eq!(calls[0].arguments.value(), Ok(&json!({"path": "a.txt"})), "{form}");
    }
    // A tool without arguments.
    let none = read(&[added(0, item(json!(""))), done(0, item(json!(""))), ended()]);
    assert!(none.log.open_calls().is_empty());
    assert_eq!(none.end.unwrap().tool_calls().next().unwrap().arguments.value(), Ok(&json!({})));
}

#[test]
fn a_reply_of_the_allowed_number_of_messages_is_complete_and_a_cut_call_has_no_end() {
    let ends = |reason: &str| {
        json!({"type": "response.incomplete", "response": {"status": "incomplete", "output": [],
        "incomplete_details": {"reason": reason}}})
    };
    let text = json!({"type": "response.output_text.delta", "output_index": 0, "delta": "all of it"});
    let message = read(&[text.clone(), ends("max_messages")]).end.unwrap();
    assert_eq!((message.text(), message.stop_reason), ("all of it".to_owned(), StopReason::Stop));
    assert_eq!(read(&[text, ends("chickens")]).kind(), ErrorKind::Api);
    let item = json!({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": ""});
    let half = [added(0, item.clone()), arguments(0, "{\"a\":1")];
    let cut = read(&[&half[..], &[ends("max_output_tokens")]].concat());
    assert_eq!(cut.log.open_calls().len(), 1);
    let message = cut.end.unwrap();
    assert_eq!(message.stop_reason, StopReason::Length);
    assert!(
        message.tool_calls().next().unwrap().arguments.value().is_err(),
        "what a limit cut is not completed"
    );
    assert_eq!(read(&[&half[..], &[ends("chickens")]].concat()).kind(), ErrorKind::Api);
    let mut whole = item;
    whole["arguments"] = json!("{}");
    let called = read(&[done(0, whole), ends("chickens")]).end.unwrap();
    assert_eq!((called.stop_reason, called.tool_calls().count()), (StopReason::ToolUse, 1));
}
