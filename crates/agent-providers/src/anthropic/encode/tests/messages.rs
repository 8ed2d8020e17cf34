use agent_core::{ImageContent, ToolArguments, ToolCall};

use agent_core::{Citation, CitationSource};

use super::*;

#[track_caller]
fn check(request: ModelRequest, expect: Value) {
    assert_eq!(messages(request), expect);
}

fn one_call(reply: AssistantMessage, result: AgentMessage) -> ModelRequest {
    request(vec![AgentMessage::user("go"), said(reply), result])
}

#[test]
fn text_and_pictures_of_a_user_are_sent_as_they_are() {
    let content = vec![
        "look".into(),
        Content::image("aGk=", "image/png"),
        Content::image_url("https://example.com/cat.jpg"),
    ];
    let seen = with_model(request(vec![Message::user_content(content.clone()).into()]), |m| m.images = true);
    check(
        seen,
        json!([{"role": "user", "content": [
            {"type": "text", "text": "look"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
            {"type": "image", "source": {"type": "url", "url": "https://example.com/cat.jpg"}},
        ]}]),
    );
    assert!(matches!(&content[1], Content::Image(ImageContent::Base64 { .. })));
}

/// B-140.
#[test]
fn pictures_become_text_for_a_model_that_reads_text_only() {
    let blind = with_model(
        request(vec![Message::user_content(vec![Content::image("aGk=", "image/png")]).into()]),
        |m| {
            m.images = false;
        },
    );
    check(
        blind,
        json!([{"role": "user", "content": [
            {"type": "text", "text": "[image left out: this model reads text only]"}]}]),
    );
}

/// B-143.
#[test]
fn blank_text_and_empty_messages_are_left_out() {
    check(
        request(vec![
            AgentMessage::user("hi"),
            said(reply(vec![" \n".into()])),
            Message::user_content(vec!["".into(), "there".into()]).into(),
            Message::user_content(vec![]).into(),
        ]),
        json!([
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "user", "content": [{"type": "text", "text": "there"}]},
        ]),
    );
}

/// B-129, B-131.
#[test]
fn thinking_goes_back_to_its_model_even_without_text() {
    let thoughts = vec![
        Content::thinking("hm", Some("sig-1".into())),
        Content::thinking("", Some("sig-2".into())),
        Content::redacted_thinking("cipher"),
        "done".into(),
    ];
    check(
        request(vec![AgentMessage::user("go"), said(reply(thoughts.clone()))]),
        json!([
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig-1"},
                {"type": "thinking", "thinking": "", "signature": "sig-2"},
                {"type": "redacted_thinking", "data": "cipher"},
                {"type": "text", "text": "done"},
            ]},
        ]),
    );
}

/// B-132, B-133.
#[test]
fn thinking_of_another_model_is_dropped_or_shown_as_text_and_no_signature_leaks() {
    let thoughts = vec![
        Content::thinking("secret", Some("sig".into())),
        Content::redacted_thinking("cipher"),
        Content::opaque("web_search_tool_result", json!({"type": "web_search_tool_result"})),
        "done".into(),
    ];
    let mut asked = request(vec![AgentMessage::user("go"), said(foreign(thoughts))]);
    assert_eq!(
        messages(asked.clone())[1],
        json!({"role": "assistant", "content": [{"type": "text", "text": "done"}]})
    );
    asked.options.foreign_thinking_as_text = true;
    assert_eq!(
        messages(asked.clone())[1],
        json!({"role": "assistant", "content": [{"type": "text", "text": "secret"}, {"type": "text", "text": "done"}]})
    );
    let bytes = text(&asked);
    assert!(!bytes.contains("sig") && !bytes.contains("cipher") && !bytes.contains("web_search"));
}

#[test]
fn thinking_at_the_end_of_a_reply_is_left_out_because_the_api_refuses_it() {
    let trailing = reply(vec!["so".into(), Content::thinking("hm", Some("s".into()))]);
    check(
        request(vec![
            AgentMessage::user("go"),
            said(trailing),
            said(reply(vec![Content::redacted_thinking("c")])),
        ]),
        json!([
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "so"}]},
        ]),
    );
}

#[test]
fn thinking_without_a_signature_goes_only_to_those_who_make_none() {
    let thoughts = || vec![Content::thinking("hm", None), "done".into()];
    let vendor = request(vec![AgentMessage::user("go"), said(reply(thoughts()))]);
    let gateway = with_model(vendor.clone(), |m| m.base_url = Some("http://localhost:1".into()));
    assert_eq!(messages(vendor)[1]["content"], json!([{"type": "text", "text": "done"}]));
    assert_eq!(
        messages(gateway)[1]["content"][0],
        json!({"type": "thinking", "thinking": "hm", "signature": ""})
    );
}

#[test]
fn a_block_that_only_the_model_knows_goes_back_as_it_came() {
    let data =
        json!({"type": "server_tool_use", "id": "srvtoolu_1", "input": {"b": 1, "a": [2.5]}, "name": "x"});
    let asked = request(vec![
        AgentMessage::user("go"),
        said(reply(vec![Content::opaque("server_tool_use", data.clone()), "found".into()])),
    ]);
    assert!(text(&asked).contains(&data.to_string()));
}

/// B-141.
#[test]
fn all_results_of_a_reply_are_one_user_message() {
    let calls = vec![
        Content::tool_call("a", "read", json!({"path": "x"})),
        Content::tool_call("b", "read", json!({"path": "y"})),
    ];
    let mut failed = ToolResultMessage::error("b".into(), "read".into(), "no such file");
    failed.content.push(Content::image("aGk=", "image/png"));
    let asked = request(vec![
        AgentMessage::user("go"),
        said(reply(calls)),
        result("a", vec!["one".into(), "two".into(), " ".into()]),
        Message::from(failed).into(),
    ]);
    check(
        with_model(asked, |m| m.images = true),
        json!([
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x"}},
                {"type": "tool_use", "id": "b", "name": "read", "input": {"path": "y"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [
                    {"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
                {"type": "tool_result", "tool_use_id": "b", "is_error": true, "content": [
                    {"type": "text", "text": "no such file"},
                    {"type": "text", "text": "[image left out: an error can only carry text]"}]},
            ]},
        ]),
    );
}

#[track_caller]
fn check_result(images: bool, content: Vec<Content>, expect: Value) {
    let asked = one_call(reply(vec![Content::tool_call("a", "read", json!({}))]), result("a", content));
    let sent = messages(with_model(asked, |m| m.images = images));
    assert_eq!(sent[2]["content"][0]["content"], expect);
}

/// B-142.
#[test]
fn a_result_is_never_empty_and_a_picture_never_alone() {
    let picture = || Content::image("aGk=", "image/png");
    let sent =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}});
    check_result(true, vec![picture()], json!([sent, {"type": "text", "text": "[see the attached image]"}]));
    check_result(true, vec!["a cat".into(), picture()], json!([{"type": "text", "text": "a cat"}, sent]));
    check_result(
        false,
        vec![picture()],
        json!([{"type": "text", "text": "[image left out: this model reads text only]"}]),
    );
    check_result(true, vec![], json!([{"type": "text", "text": "[no output]"}]));
    check_result(true, vec![" ".into()], json!([{"type": "text", "text": "[no output]"}]));
}

#[track_caller]
fn check_input(arguments: &str, expect: &str) {
    let call = Content::ToolCall(ToolCall::new("a", "read", ToolArguments::from_text(arguments)));
    let mut asked = one_call(reply(vec![call]), result("a", vec!["x".into()]));
    asked.options.cache_config = agent_core::CacheConfig::disabled();
    let expect = format!(r#""name":"read","input":{expect}}}"#);
    assert!(text(&asked).contains(&expect), "{expect} in {}", text(&asked));
}

#[test]
fn arguments_are_sent_as_the_model_wrote_them_or_as_an_empty_object() {
    check_input(
        r#"{ "b":1.0,  "a":12345678901234567890123 }"#,
        r#"{ "b":1.0,  "a":12345678901234567890123 }"#,
    );
    check_input("", "{}");
    check_input(r#"{"path": "cut o"#, "{}");
    check_input("[1]", "{}");
    check_input("null", "{}");
}

/// B-134, B-135.
#[test]
fn foreign_ids_are_rewritten_alike_in_call_and_result() {
    let long = format!("call_1|{}", "x".repeat(450));
    let ids = [long.as_str(), "call.1", "call:1"];
    let calls = ids.map(|id| Content::tool_call(id, "read", json!({}))).to_vec();
    let mut said_so = vec![AgentMessage::user("go"), said(foreign(calls))];
    said_so.extend(ids.map(|id| result(id, vec![id[..6].into()])));
    let sent = messages(request(said_so));
    let mut seen = std::collections::BTreeSet::new();
    for (call, result) in
        sent[1]["content"].as_array().unwrap().iter().zip(sent[2]["content"].as_array().unwrap())
    {
        let id = call["id"].as_str().unwrap();
        assert_eq!(result["tool_use_id"], id);
        assert!(id.len() <= 64 && id.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)), "{id}");
        assert!(seen.insert(id.to_owned()), "{id}");
    }
    assert_eq!(seen.len(), 3);
}

#[test]
fn a_tool_name_that_never_was_is_made_one_that_the_api_takes() {
    let asked = one_call(
        foreign(vec![Content::tool_call("a", "fs.read file", json!({}))]),
        result("a", vec!["x".into()]),
    );
    assert_eq!(messages(asked)[1]["content"][0]["name"], "fs_read_file");
}

/// B-139.
#[test]
fn failed_replies_and_notes_are_not_sent() {
    let mut asked = asking("go");
    let mut failed = reply(vec!["half a".into(), Content::tool_call("a", "read", json!({}))]);
    failed.stop_reason = StopReason::Error;
    asked.history.push_failed(said(failed).into()).unwrap();
    asked.history.push(AgentMessage::extension("note", json!({"x": "private"}))).unwrap();
    asked.history.push(AgentMessage::user("again")).unwrap();
    check(
        asked,
        json!([
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {"role": "user", "content": [{"type": "text", "text": "again"}]},
        ]),
    );
}

#[test]
fn a_conversation_that_begins_with_a_reply_gets_a_user_message_before_it() {
    let sent = messages(request(vec![said(reply(vec!["hello".into()])), AgentMessage::user("hi")]));
    let roles: Vec<&str> = sent.as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
}

#[test]
fn documents_and_search_results_have_the_forms_of_the_api() {
    let sent = messages(request(vec![Message::user_content(crate::handoff::files()).into()]));
    assert_eq!(
        sent[0]["content"],
        json!([
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "QUJD"},
                "title": "a.pdf", "citations": {"enabled": true}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a text"},
                "title": "notes", "context": "old"},
            {"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}},
            {"type": "document", "source": {"type": "file", "file_id": "file-1"}},
            {"type": "search_result", "source": "https://a", "title": "A",
                "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
            {"type": "text", "text": "[sound left out: this API does not take it]"},
            {"type": "text", "text": "[film left out: this API does not take it]"},
        ])
    );
}

#[test]
fn a_result_contains_the_files_of_a_tool() {
    let call = said(reply(vec![Content::tool_call("c1", "read", json!({"path": "a"}))]));
    let document = crate::handoff::files().swap_remove(0);
    let sent = messages(request(vec![AgentMessage::user("go"), call, result("c1", vec![document])]));
    let content = &sent[2]["content"][0]["content"];
    assert_eq!(content.as_array().unwrap().len(), 1, "no note says that there is no output");
    assert_eq!(content[0]["type"], "document");
}

#[test]
fn a_text_goes_back_with_its_citations_to_the_model_that_wrote_it() {
    let data = json!({"type": "char_location", "cited_text": "a", "document_index": 0, "document_title": null,
        "start_char_index": 0, "end_char_index": 1});
    let cited = |data: &Value| {
        let mut text = agent_core::TextContent::default();
        text.text = "So it is.".into();
        text.citations = vec![Citation::new(CitationSource::Other).with_data(data.clone())];
        Content::Text(text)
    };
    let sent = |reply: AssistantMessage| {
        messages(request(vec![AgentMessage::user("go"), said(reply), AgentMessage::user("on")]))[1]["content"]
            [0]
        .take()
    };
    assert_eq!(
        sent(reply(vec![cited(&data)])),
        json!({"type": "text", "text": "So it is.", "citations": [data]})
    );
    assert_eq!(sent(foreign(vec![cited(&data)])), json!({"type": "text", "text": "So it is."}));
}
