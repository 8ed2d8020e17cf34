//! The conversation.

use super::*;

/// B-141, B-142.
#[test]
fn all_results_of_a_reply_are_one_message_with_text_pictures_and_status() {
    let mut failed = ToolResultMessage::error("b".into(), "read".into(), "no");
    failed.content.push(Content::image("QUJD", "image/png"));
    let asked = request(vec![
        AgentMessage::user("go"),
        said(reply(vec![
            Content::tool_call("a", "read", json!({"n": 1})),
            Content::tool_call("b", "read", json!({})),
            Content::tool_call("c", "read", json!({})),
        ])),
        result("a", vec!["seen".into(), Content::image("QUJD", "image/webp")]),
        Message::from(failed).into(),
        result("c", vec![]),
    ]);
    assert_eq!(
        messages(asked)[2],
        json!({"role": "user", "content": [
            {"toolResult": {"toolUseId": "a", "status": "success", "content": [
                {"text": "seen"}, {"image": {"format": "webp", "source": {"bytes": "QUJD"}}}]}},
            {"toolResult": {"toolUseId": "b", "status": "error", "content": [
                {"text": "no"}, {"text": "[image left out: an error can only carry text]"}]}},
            {"toolResult": {"toolUseId": "c", "status": "success", "content": [{"text": "[no output]"}]}},
        ]})
    );
}

#[test]
fn what_one_side_says_twice_is_one_message() {
    let asked = request(vec![
        AgentMessage::user("one"),
        AgentMessage::user("two"),
        said(reply(vec!["a".into()])),
        said(reply(vec!["b".into(), Content::tool_call("t", "read", json!({}))])),
        result("t", vec!["out".into()]),
        AgentMessage::user("three"),
    ]);
    let sent = messages(asked);
    let roles: Vec<&str> = sent.as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    assert_eq!(sent[0]["content"], json!([{"text": "one"}, {"text": "two"}]));
    assert_eq!(sent[1]["content"].as_array().unwrap().len(), 3);
    assert_eq!(sent[2]["content"][1], json!({"text": "three"}));
}

#[test]
fn a_conversation_that_begins_with_a_reply_is_opened_for_it() {
    let sent = messages(request(vec![said(reply(vec!["a".into()])), AgentMessage::user("b")]));
    assert_eq!((sent[0]["role"].as_str(), sent.as_array().unwrap().len()), (Some("user"), 3));
}

/// B-143.
#[test]
fn blank_text_is_never_sent() {
    let asked = request(vec![
        Message::user_content(vec![" \n".into(), "go".into(), "".into()]).into(),
        said(reply(vec!["\t".into()])),
        AgentMessage::user("  "),
        AgentMessage::user("on"),
    ]);
    assert_eq!(messages(asked), json!([{"role": "user", "content": [{"text": "go"}, {"text": "on"}]}]));
}

/// B-131, B-129.
#[test]
fn reasoning_goes_back_to_its_model_byte_for_byte() {
    let thought = vec![
        Content::thinking("", Some("c2ln+/=".into())),
        Content::redacted_thinking("QUFB"),
        Content::thinking("unsigned", None),
        "Hi".into(),
    ];
    let asked = request(vec![AgentMessage::user("x"), said(reply(thought)), AgentMessage::user("y")]);
    assert_eq!(
        messages(asked)[1]["content"],
        json!([
            {"reasoningContent": {"reasoningText": {"text": "", "signature": "c2ln+/="}}},
            {"reasoningContent": {"redactedContent": "QUFB"}},
            {"text": "Hi"},
        ])
    );
}

#[track_caller]
fn check_reasoning(id: &str, expect: Value) {
    let mut spoken = reply(vec![Content::thinking("hm", None), "Hi".into()]);
    spoken.model = id.to_owned();
    let asked = request(vec![AgentMessage::user("x"), said(spoken), AgentMessage::user("y")]);
    let sent = messages(with_model(asked, |m| m.id = id.to_owned()));
    assert_eq!(sent[1]["content"], expect, "{id}");
}

#[test]
fn reasoning_without_a_signature_goes_back_where_it_is_taken() {
    let kept = json!([{"reasoningContent": {"reasoningText": {"text": "hm"}}}, {"text": "Hi"}]);
    check_reasoning("openai.gpt-oss-120b-1:0", kept.clone());
    check_reasoning("us.amazon.nova-2-lite-v1:0", kept);
    check_reasoning("us.deepseek.r1-v1:0", json!([{"text": "Hi"}]));
    check_reasoning(ID, json!([{"text": "Hi"}]));
}

/// B-132, B-133.
#[test]
fn nothing_secret_of_another_model_is_sent() {
    let thought = || {
        vec![
            Content::thinking("elsewhere", Some("foreign-sig".into())),
            Content::redacted_thinking("cipher"),
            Content::opaque("toolUse", json!({"toolUse": {"toolUseId": "s1"}})),
            "Hi".into(),
        ]
    };
    let asked = request(vec![AgentMessage::user("x"), said(foreign(thought())), AgentMessage::user("y")]);
    assert_eq!(messages(asked.clone())[1]["content"], json!([{"text": "Hi"}]));
    let mut shown = asked;
    shown.options.foreign_thinking_as_text = true;
    assert_eq!(messages(shown)[1]["content"], json!([{"text": "elsewhere"}, {"text": "Hi"}]));
}

/// B-134, B-135.
#[test]
fn ids_and_names_become_what_the_api_takes_and_stay_paired() {
    let ids = ["call|1", "call.1", &"x".repeat(100), "fine_-9"];
    let calls = ids.iter().map(|id| Content::tool_call(*id, "a tool/with spaces", json!({}))).collect();
    let mut all = vec![AgentMessage::user("go"), said(foreign(calls))];
    all.extend(ids.iter().map(|id| result(id, vec!["out".into()])));
    let sent = messages(request(all));
    let of = |message: &Value, kind: &str| -> Vec<String> {
        let blocks = message["content"].as_array().unwrap();
        blocks.iter().map(|b| b[kind]["toolUseId"].as_str().unwrap().to_owned()).collect()
    };
    let (made, answered) = (of(&sent[1], "toolUse"), of(&sent[2], "toolResult"));
    assert_eq!(made, answered);
    let distinct: std::collections::BTreeSet<&String> = made.iter().collect();
    assert_eq!(distinct.len(), ids.len());
    assert!(made.iter().all(|id| super::super::is_name(id)), "{made:?}");
    assert!(made.contains(&"fine_-9".to_owned()));
    assert_eq!(sent[1]["content"][0]["toolUse"]["name"], "a_tool_with_spaces");
}

/// A picture that was an error would be one in every later request.
#[test]
fn a_picture_that_cannot_be_sent_is_left_out_with_the_reason() {
    let picture = |content| request(vec![Message::user_content(vec!["see".into(), content]).into()]);
    let by_address = picture(Content::image_url("https://h/x.png"));
    let odd = picture(Content::image("QUJD", "image/tiff"));
    assert!(text(&by_address).contains("by its address"));
    assert!(text(&odd).contains("png, jpeg, gif, webp"));
    let blind = with_model(by_address, |m| m.images = false);
    assert!(text(&blind).contains("image left out"));
}

#[test]
fn a_text_goes_back_with_its_citations_to_the_model_that_wrote_it() {
    let data = json!({"title": "T", "sourceContent": [{"text": "so"}], "location": {"documentChunk": {"documentIndex": 0, "start": 1, "end": 2}}});
    let cited = || {
        let mut text = agent_core::TextContent::default();
        text.text = "So it is.".into();
        text.citations =
            vec![agent_core::Citation::new(agent_core::CitationSource::Other).with_data(data.clone())];
        Content::Text(text)
    };
    let sent = |reply: AssistantMessage| {
        messages(request(vec![AgentMessage::user("go"), said(reply), AgentMessage::user("on")]))[1]["content"]
            [0]
        .take()
    };
    assert_eq!(
        sent(reply(vec![cited()])),
        json!({"citationsContent": {"content": [{"text": "So it is."}], "citations": [data]}})
    );
    assert_eq!(sent(foreign(vec![cited()])), json!({"text": "So it is."}));
}

#[test]
fn no_two_documents_of_a_request_have_the_same_name() {
    let document = |title: Option<&str>| {
        let document = agent_core::DocumentContent::text("a");
        Content::Document(Box::new(match title {
            Some(title) => document.with_title(title),
            None => document,
        }))
    };
    let call = said(reply(vec![Content::tool_call("t", "read", json!({}))]));
    let sent = messages(request(vec![
        AgentMessage::from(Message::user_content(vec![document(Some("lease")), document(Some("lease"))])),
        call,
        result("t", vec![document(None), document(Some("lease 2"))]),
        AgentMessage::from(Message::user_content(vec![document(None)])),
    ]));
    let mut names = Vec::new();
    for message in sent.as_array().unwrap() {
        for block in message["content"].as_array().unwrap() {
            let nested = block["toolResult"]["content"].as_array().into_iter().flatten();
            names.extend(nested.chain([block]).filter_map(|b| b["document"]["name"].as_str()));
        }
    }
    assert_eq!(names, ["lease", "lease 2", "document 3", "lease 2 4", "document 5"]);
}
