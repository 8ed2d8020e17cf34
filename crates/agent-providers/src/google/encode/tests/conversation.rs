//! The conversation: signatures, ids, results, pictures, and that what was said does not change.

use proptest::prelude::*;

use super::*;

fn contents(model: ModelConfig, messages: Vec<AgentMessage>) -> Value {
    let (history, _) = History::repaired(messages);
    written(&ModelRequest::new(model, history))["contents"].clone()
}

fn calls_by(author: &ModelConfig, signature: Option<&str>) -> Vec<AgentMessage> {
    let mut first = Content::tool_call("call|a b", "look", json!({"at": "x"}));
    if let Some(signature) = signature {
        first = signed(first, signature);
    }
    let second = Content::tool_call("call|a c", "look", json!([1]));
    vec![
        AgentMessage::user("?"),
        Message::from(reply_of(
            author,
            vec![Content::thinking("hm", Some("dA==".to_owned())), first, second],
        ))
        .into(),
        result("call|a b", vec![Content::text("one")], false),
        result("call|a c", vec![Content::text("two")], true),
    ]
}

fn signatures(contents: &Value) -> Vec<Option<String>> {
    let parts = contents[1]["parts"].as_array().unwrap().iter().filter(|p| p["functionCall"].is_object());
    parts.map(|p| p["thoughtSignature"].as_str().map(str::to_owned)).collect()
}

const SKIP: &str = "skip_thought_signature_validator";

/// B-144, B-131, B-132.
#[test]
fn signatures_go_back_to_their_author_and_gemini_3_gets_the_mark_for_what_is_not_signed() {
    let third = model("gemini-3.5-flash");
    let second = model("gemini-2.5-flash");
    let claude = ModelConfig::anthropic("claude-sonnet-4-5", "C", "k");
    let some = |s: &str| Some(s.to_owned());
    let said = |to: &ModelConfig, from: &ModelConfig, signature| {
        signatures(&contents(to.clone(), calls_by(from, signature)))
    };
    assert_eq!(said(&third, &third, Some("c2ln")), [some("c2ln"), None], "as the vendor gave them");
    assert_eq!(said(&third, &third, None), [some(SKIP), None], "the first of a step must have one");
    assert_eq!(said(&third, &second, Some("c2ln")), [some(SKIP), some(SKIP)]);
    assert_eq!(said(&third, &claude, Some("c2ln")), [some(SKIP), some(SKIP)]);
    assert_eq!(said(&second, &second, Some("c2ln")), [some("c2ln"), None]);
    assert_eq!(said(&second, &second, None), [None, None], "other models get no mark");
    assert_eq!(said(&second, &claude, Some("c2ln")), [None, None]);
    let vertex = ModelConfig::vertex("p", "r", "gemini-3.5-flash");
    assert_eq!(
        said(&vertex, &third, Some("c2ln")),
        [some(SKIP), some(SKIP)],
        "the other door is another author"
    );
    let foreign = contents(third, calls_by(&claude, None)).to_string();
    assert!(!foreign.contains("hm") && !foreign.contains("dA=="), "{foreign}");
}

/// B-134, B-135, B-141.
#[test]
fn all_results_of_a_turn_are_one_content_and_stay_paired_with_their_calls() {
    let contents = contents(model("gemini-2.5-flash"), calls_by(&ModelConfig::default(), None));
    assert_eq!(contents.as_array().unwrap().len(), 3);
    let calls: Vec<&Value> =
        contents[1]["parts"].as_array().unwrap().iter().map(|p| &p["functionCall"]).collect();
    let results: Vec<&Value> =
        contents[2]["parts"].as_array().unwrap().iter().map(|p| &p["functionResponse"]).collect();
    assert_eq!((calls.len(), results.len()), (2, 2));
    for (call, result) in calls.iter().zip(&results) {
        assert_eq!(call["id"], result["id"]);
        let id = call["id"].as_str().unwrap();
        assert!(
            id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'),
            "{id}"
        );
    }
    assert_ne!(calls[0]["id"], calls[1]["id"]);
    assert_eq!(
        (&results[0]["response"], &results[1]["response"]),
        (&json!({"output": "one"}), &json!({"error": "two"}))
    );
    assert_eq!(calls[1]["args"], json!({}), "arguments that are no object were answered with an error");
}

/// REQ-121.
#[test]
fn vertex_is_told_ids_only_where_it_gave_them() {
    let vertex = ModelConfig::vertex("p", "r", "gemini-2.5-flash");
    let ids = |from: &ModelConfig| {
        let said = contents(vertex.clone(), calls_by(from, None));
        let last = |content: usize, key: &str| {
            said[content]["parts"].as_array().unwrap().last().unwrap()[key]["id"].clone()
        };
        (last(1, "functionCall"), last(2, "functionResponse"))
    };
    assert_eq!(ids(&ModelConfig::default()), (Value::Null, Value::Null));
    let (call, result) = ids(&vertex);
    assert!(call.is_string() && call == result);
}

/// B-140, B-142.
#[test]
fn pictures_of_tools_stand_inside_of_the_result_since_gemini_3_and_behind_it_before() {
    let pictured = |id: &str, images: bool| {
        let author = model(id).with_images(images);
        let messages = vec![
            AgentMessage::user("?"),
            Message::from(reply_of(&author, vec![Content::tool_call("k", "look", json!({}))])).into(),
            result("k", vec![Content::image("aGk=", "image/png")], false),
        ];
        contents(author, messages)
    };
    let third = pictured("gemini-3.5-flash", true);
    let inline = json!({"inlineData": {"mimeType": "image/png", "data": "aGk="}});
    assert_eq!(third[2]["parts"][0]["functionResponse"]["parts"], json!([inline]));
    assert_eq!(third.as_array().unwrap().len(), 3);
    let second = pictured("gemini-2.5-flash", true);
    assert_eq!(
        second[2]["parts"][0]["functionResponse"]["response"]["output"],
        crate::handoff::IMAGE_ATTACHED
    );
    assert_eq!((&second[3]["role"], &second[3]["parts"][1]), (&json!("user"), &inline));
    let blind = pictured("gemini-2.5-flash", false).to_string();
    assert!(!blind.contains("aGk=") && blind.contains("reads text only"), "{blind}");
}

#[test]
fn a_picture_by_address_is_a_file_whose_type_vertex_must_be_told() {
    let said = |model: ModelConfig, url: &str| {
        let messages = [AgentMessage::from(Message::user_content(vec![Content::image_url(url)]))];
        let (history, _) = History::repaired(messages);
        let body: Value = serde_json::from_slice(&body(&ModelRequest::new(model, history)).unwrap()).unwrap();
        body["contents"][0]["parts"][0].clone()
    };
    let vertex = || ModelConfig::vertex("p", "r", "gemini-2.5-flash");
    let typed = json!({"mimeType": "image/webp", "fileUri": "https://h/a.webp#x"});
    assert_eq!(said(model("gemini-2.5-flash"), "https://h/a.webp#x")["fileData"], typed);
    assert_eq!(said(vertex(), "https://h/a.webp#x")["fileData"], typed);
    let untyped = json!({"fileUri": "https://h/a"});
    assert_eq!(said(model("gemini-2.5-flash"), "https://h/a")["fileData"], untyped);
    let left_out = said(vertex(), "https://h/a.b/c?d.png");
    assert!(left_out["text"].as_str().unwrap().contains("does not show its type"), "{left_out}");
}

/// B-143, B-139.
#[test]
fn blank_and_failed_things_are_left_out_and_two_replies_in_a_row_are_one() {
    let author = model("gemini-2.5-flash");
    let reply = |text: &str| AgentMessage::from(Message::from(reply_of(&author, vec![Content::text(text)])));
    let said = contents(
        author.clone(),
        vec![
            reply("first"),
            reply("second"),
            AgentMessage::user(" "),
            reply("\n"),
            AgentMessage::user("now"),
        ],
    );
    assert_eq!(said[1], json!({"role": "model", "parts": [{"text": "first"}, {"text": "second"}]}));
    assert_eq!((&said[0]["role"], said.as_array().unwrap().len()), (&json!("user"), 3));
    let mut history = History::new();
    history.push(AgentMessage::user("a")).unwrap();
    let mut failed =
        reply_of(&author, vec![Content::text("half of"), Content::tool_call("k", "look", json!({}))]);
    failed.stop_reason = StopReason::Error;
    history.push_failed(agent_core::Entry::from(AgentMessage::from(Message::from(failed)))).unwrap();
    history.push(AgentMessage::user("b")).unwrap();
    let said = written(&ModelRequest::new(author, history))["contents"].to_string();
    assert!(!said.contains("half of"), "{said}");
}

#[test]
fn a_name_that_the_api_does_not_take_is_changed_alike_in_call_and_result() {
    let author = ModelConfig::default();
    for (given, sent) in
        [("no such tool!", "no_such_tool_"), ("1st", "_1st"), ("mcp.x:y-z", "mcp.x:y-z"), ("ü", "__")]
    {
        let mut answer = ToolResultMessage::new("k".into(), given.into(), vec![Content::text("r")]);
        answer.is_error = true;
        let call = reply_of(&author, vec![Content::tool_call("k", given, json!({}))]);
        let said = contents(
            model("gemini-2.5-flash"),
            vec![AgentMessage::user("?"), Message::from(call).into(), Message::from(answer).into()],
        );
        assert_eq!(said[1]["parts"][0]["functionCall"]["name"], sent, "{given}");
        assert_eq!(said[2]["parts"][0]["functionResponse"]["name"], sent, "{given}");
    }
}

proptest! {
    /// What was sent once is sent again in the same bytes, whatever comes after it.
    #[test]
    fn a_longer_conversation_begins_with_the_bytes_of_a_shorter_one(texts in prop::collection::vec("[ a-zü\"\\\\]{0,6}", 1..8), third: bool) {
        let author = model(if third { "gemini-3.5-flash" } else { "gemini-2.5-flash" });
        let mut history = History::new();
        let mut before: Option<Vec<u8>> = None;
        for (n, text) in texts.iter().enumerate() {
            history.push(AgentMessage::user(format!("q{text}"))).unwrap();
            let call = Content::tool_call(format!("k{n}"), "look", json!({"at": text}));
            let reply = Message::from(reply_of(&author, vec![Content::text(text), call]));
            let answer = result(&format!("k{n}"), vec![Content::text(text)], false);
            let entry = |message: AgentMessage| agent_core::Entry::from(message);
            history.push_exchange(entry(reply.into()), vec![entry(answer)]).unwrap();
            let now = body(&ModelRequest::new(author.clone(), history.clone())).unwrap();
            if let Some(before) = before {
                let kept = before.len() - "]}".len();
                prop_assert!(now.starts_with(&before[..kept]));
            }
            before = Some(now);
        }
    }
}

/// A part of a reply that ends at the limit of one request.
fn paused(model: &ModelConfig, text: &str, token: &str) -> AgentMessage {
    let content = vec![text.into(), Content::opaque("continuationToken", json!(token))];
    let mut reply = reply_of(model, content);
    reply.stop_reason = StopReason::Paused;
    Message::from(reply).into()
}

#[test]
fn a_paused_reply_is_continued_by_the_same_contents_with_the_last_token() {
    let model = model("gemini-3.5-flash");
    let asked = |messages: Vec<AgentMessage>| {
        let (history, repairs) = History::repaired(messages);
        assert!(repairs.is_empty(), "{repairs:?}");
        written(&ModelRequest::new(model.clone(), history))
    };
    let user = || AgentMessage::user("count");
    let plain = asked(vec![user()]);
    let parts = vec![user(), paused(&model, "One ", "Zmlyc3Q="), paused(&model, "two ", "bGFzdA==")];
    let mut continued = asked(parts.clone());
    assert_eq!(continued.as_object_mut().unwrap().remove("continuationToken"), Some(json!("bGFzdA==")));
    assert_eq!(continued, plain);

    // Later, the parts are one content without tokens.
    let end = Message::from(reply_of(&model, vec!["three".into()])).into();
    let later = asked(parts.into_iter().chain([end, AgentMessage::user("and then?")]).collect());
    assert!(later.get("continuationToken").is_none());
    let said = json!({"role": "model", "parts": [{"text": "One "}, {"text": "two "}, {"text": "three"}]});
    assert_eq!(later["contents"][1], said);
    assert_eq!(later["contents"].as_array().unwrap().len(), 3);
}

#[test]
fn the_token_of_another_model_is_not_sent() {
    let other = model("gemini-2.5-pro");
    let (history, _) =
        History::repaired(vec![AgentMessage::user("count"), paused(&other, "One ", "Zmlyc3Q=")]);
    let body = written(&ModelRequest::new(model("gemini-3.5-flash"), history));
    assert!(body.get("continuationToken").is_none());
    assert_eq!(body["contents"].as_array().unwrap().len(), 2);
}

#[test]
fn files_of_any_type_are_parts() {
    let (history, _) =
        History::repaired([AgentMessage::from(Message::user_content(crate::handoff::files()))]);
    let sent = written(&ModelRequest::new(model("gemini-3.5-flash"), history));
    let inline = |kind: &str| json!({"inlineData": {"mimeType": kind, "data": "QUJD"}});
    assert_eq!(
        sent["contents"][0]["parts"],
        json!([
            inline("application/pdf"),
            {"text": "notes\n\na text"},
            {"fileData": {"mimeType": "application/pdf", "fileUri": "https://a/b.pdf"}},
            {"fileData": {"fileUri": "file-1"}},
            {"text": "A (https://a)\n\none\n\ntwo"},
            inline("audio/wav"),
            inline("video/mp4"),
        ])
    );
}

#[test]
fn files_of_a_tool_follow_its_result() {
    let asked = AgentMessage::user("go");
    let model = model("gemini-3.5-flash");
    let call = reply_of(&model, vec![Content::tool_call("c1", "look", json!({}))]);
    let answer = result("c1", crate::handoff::files().drain(..2).collect(), false);
    let (history, _) = History::repaired([asked, Message::from(call).into(), answer]);
    let sent = written(&ModelRequest::new(model, history));
    let contents = sent["contents"].as_array().unwrap();
    assert_eq!(contents[2]["parts"][0]["functionResponse"]["response"]["output"], "notes\n\na text");
    assert_eq!(
        contents[3]["parts"],
        json!([{"text": "The files that the tools above returned:"},
            {"inlineData": {"mimeType": "application/pdf", "data": "QUJD"}}])
    );
}
