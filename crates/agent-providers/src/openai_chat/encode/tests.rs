//! What is sent.

#![allow(clippy::needless_pass_by_value, reason = "`json!` reads better by value")]

use agent_core::{
    AgentMessage, AssistantMessage, CacheConfig, CacheStrategy, CacheTtl, Content, Entry, ErrorKind, History,
    Message, ModelConfig, ResponseFormat, StopReason, ThinkingForm, ThinkingFormat, ThinkingLevel,
    ToolChoice, ToolDefinition, ToolResultMessage,
};
use serde_json::{Value, json};

use super::*;

fn model() -> ModelConfig {
    ModelConfig::local("http://localhost:1/v1", "m", "")
}

fn with(model: ModelConfig, history: History) -> ModelRequest {
    ModelRequest::new(model, history)
}

fn json_of(request: &ModelRequest) -> Value {
    serde_json::from_slice(&super::request(request).unwrap().body).unwrap()
}

fn history(messages: Vec<Message>) -> History {
    let (history, repairs) = History::repaired(messages.into_iter().map(AgentMessage::from));
    assert!(repairs.is_empty(), "{repairs:?}");
    history
}

/// A reply of the model `m` of the provider `local`, which is the one that is asked.
fn reply(content: Vec<Content>) -> AssistantMessage {
    let calls = content.iter().any(|c| matches!(c, Content::ToolCall(_)));
    let mut reply =
        AssistantMessage::new("local", "m", if calls { StopReason::ToolUse } else { StopReason::Stop });
    reply.api = Some(agent_core::ApiProtocol::OpenAiCompletions);
    reply.content = content;
    reply
}

fn result(id: &str, content: Vec<Content>) -> Message {
    ToolResultMessage::new(id.into(), "look".into(), content).into()
}

fn call(id: &str, arguments: &str) -> Content {
    Content::tool_call(id, "look", agent_core::ToolArguments::from_text(arguments))
}

#[track_caller]
fn check_messages(messages: Vec<Message>, expect: Value) {
    assert_eq!(json_of(&with(model(), history(messages)))["messages"], expect);
}

/// Kimi's own form of ids, and an id of nine letters that only Mistral makes.
#[test]
fn the_ids_of_the_same_models_calls_go_back_byte_for_byte() {
    let mistral = || ModelConfig::local("https://api.mistral.ai/v1", "m", "key");
    for (model, sent) in
        [(model(), "functions.weather:0"), (model(), "resp_1:call_0"), (mistral(), "chatcmpl-tool-7")]
    {
        let messages = vec![Message::user("x"), reply(vec![call(sent, "{}")]).into(), result(sent, vec![])];
        let own = json_of(&with(model.clone(), history(messages)));
        assert_eq!(own["messages"][1]["tool_calls"][0]["id"], sent);
        assert_eq!(own["messages"][2]["tool_call_id"], sent);
        // Another model's reply follows the rules of the target.
        let mut other = reply(vec![call(sent, "{}")]);
        other.model = "n".to_owned();
        let messages = vec![Message::user("x"), other.into(), result(sent, vec![])];
        let body = json_of(&with(model, history(messages)));
        let id = body["messages"][1]["tool_calls"][0]["id"].as_str().unwrap();
        assert!(id != sent && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)), "{id}");
        assert_eq!(body["messages"][2]["tool_call_id"], id);
    }
    // An id that this library made for a call without one.
    let messages =
        vec![Message::user("x"), reply(vec![call("call_1_0", "{}")]).into(), result("call_1_0", vec![])];
    let id = json_of(&with(mistral(), history(messages)))["messages"][1]["tool_calls"][0]["id"].clone();
    assert_eq!(id.as_str().unwrap().len(), 9);
}

#[test]
fn arguments_that_are_nearly_json_go_back_as_json() {
    let messages =
        vec![Message::user("x"), reply(vec![call("a", "{'city': 'Oslo',}")]).into(), result("a", vec![])];
    let body = json_of(&with(model(), history(messages)));
    assert_eq!(body["messages"][1]["tool_calls"][0]["function"]["arguments"], "{\"city\":\"Oslo\"}");
}

/// REQ-041.
#[test]
fn a_request_says_everything_before_the_conversation() {
    let mut request = with(model(), history(vec![Message::user("hi")]));
    request.system_prompt = "Be brief.".into();
    request.tools = vec![ToolDefinition::new("look", "Looks", json!({"type": "object"}))].into();
    request.options.max_tokens = Some(50);
    request.options.temperature = Some(0.5);
    request.options.stop_sequences = vec!["END".into()];
    let sent = super::request(&request).unwrap();
    assert_eq!(
        String::from_utf8(sent.body).unwrap(),
        concat!(
            r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":50,"temperature":0.5,"#,
            r#""stop":["END"],"tools":[{"type":"function","function":{"name":"look","description":"Looks","#,
            r#""parameters":{"type":"object","properties":{}}}}],"messages":[{"role":"system","content":"Be brief."},"#,
            r#"{"role":"user","content":"hi"}]}"#
        )
    );
    assert_eq!(sent.url.as_str(), "http://localhost:1/v1/chat/completions");
    assert!(!sent.headers.contains_key("authorization"), "a local server needs no key");
}

/// REQ-041, REQ-159.
#[test]
fn the_key_goes_where_the_vendor_wants_it_and_is_marked_secret() {
    let sent = |model: ModelConfig| super::request(&with(model, history(vec![Message::user("hi")])));
    let headers = sent(ModelConfig::openai("gpt-5", "G", "sk-1")).unwrap().headers;
    assert_eq!(headers["authorization"], "Bearer sk-1");
    assert!(headers["authorization"].is_sensitive());
    let azure = ModelConfig::openai("dep", "G", "sk-1")
        .with_base_url("https://r.openai.azure.com/openai/v1?api-version=1");
    let request = sent(azure).unwrap();
    assert_eq!(request.headers["api-key"], "sk-1");
    assert_eq!(request.url.as_str(), "https://r.openai.azure.com/openai/v1/chat/completions?api-version=1");
    let error = sent(ModelConfig::openai("gpt-5", "G", "")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Auth);
    assert!(sent(ModelConfig::openai("gpt-5", "G", "").with_header("authorization", "Bearer x")).is_ok());
}

#[test]
fn the_key_of_the_call_wins_over_that_of_the_model() {
    let mut request = with(ModelConfig::openai("gpt-5", "G", "sk-model"), history(vec![Message::user("hi")]));
    request.api_key = Some("sk-call".into());
    assert_eq!(super::request(&request).unwrap().headers["authorization"], "Bearer sk-call");
}

/// REQ-041.
#[test]
fn an_exchange_is_a_reply_with_its_calls_and_one_message_for_each_result() {
    check_messages(
        vec![
            Message::user("look"),
            reply(vec![Content::text("ok"), call("c1", "{ \"a\": 1 }"), call("c2", "")]).into(),
            result("c1", vec![Content::text("one"), Content::text("two")]),
            result("c2", vec![]),
        ],
        json!([
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": "ok", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{ \"a\": 1 }"}},
                {"id": "c2", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "one\ntwo"},
            {"role": "tool", "tool_call_id": "c2", "content": "[no output]"}
        ]),
    );
}

/// B-090.
#[test]
fn arguments_that_are_no_object_are_sent_as_an_empty_one() {
    for text in ["{\"a\": ", "[1]", "nonsense \u{1F389}"] {
        let sent = json_of(&with(
            model(),
            history(vec![
                Message::user("x"),
                reply(vec![call("c", text)]).into(),
                result("c", vec![Content::text("bad")]),
            ]),
        ));
        let message = &sent["messages"][1];
        assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{}", "{text}");
        assert_eq!(message["content"], Value::Null);
    }
}

/// B-141, B-142.
#[test]
fn pictures_of_results_follow_in_one_user_message() {
    let image = Content::image("QUJD", "image/png");
    check_messages(
        vec![
            Message::user_content(vec![Content::text("see"), Content::image_url("https://h/x.png")]),
            reply(vec![call("a", "{}"), call("b", "{}")]).into(),
            result("a", vec![image.clone()]),
            result("b", vec![Content::text("t"), image]),
        ],
        json!([
            {"role": "user", "content": [
                {"type": "text", "text": "see"},
                {"type": "image_url", "image_url": {"url": "https://h/x.png"}}]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                {"id": "b", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": "[see the attached image]"},
            {"role": "tool", "tool_call_id": "b", "content": "t"},
            {"role": "user", "content": [
                {"type": "text", "text": "The pictures that the tools above returned:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}]}
        ]),
    );
}

/// B-140.
#[test]
fn a_model_without_eyes_gets_text_in_place_of_pictures() {
    let request = with(
        model().with_images(false),
        history(vec![
            Message::user_content(vec![Content::image("QUJD", "image/png")]),
            reply(vec![call("a", "{}")]).into(),
            result("a", vec![Content::image("QUJD", "image/png")]),
        ]),
    );
    let text = json_of(&request)["messages"].to_string();
    assert!(!text.contains("image_url") && text.matches("image left out").count() == 2, "{text}");
}

/// B-139, B-143.
#[test]
fn failed_replies_notes_and_empty_messages_are_left_out() {
    let mut failed = reply(vec![Content::text("half")]);
    failed.stop_reason = StopReason::Aborted;
    let messages = vec![
        AgentMessage::user("a"),
        AgentMessage::extension("note", json!("for people")),
        Message::from(failed).into(),
        Message::from(reply(vec![Content::text("  ")])).into(),
        Message::user(" \n").into(),
        AgentMessage::user("b"),
    ];
    let (history, _) = History::repaired(messages);
    let sent = json_of(&with(model(), history));
    assert_eq!(sent["messages"], json!([{"role": "user", "content": "a\n\nb"}]));
}

/// The templates of many local models refuse two messages of one role in a row.
#[test]
fn consecutive_messages_of_the_user_are_one_for_servers_of_local_models() {
    let picture = || Content::image("QUJD", "image/png");
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}});
    let text = |text: &str| json!({"type": "text", "text": text});
    let shown = |content: Vec<Content>| Message::user_content(content);
    for (messages, expect) in [
        (vec![Message::user("a"), Message::user("\"b\"")], json!("a\n\n\"b\"")),
        (vec![Message::user("a"), shown(vec![picture()])], json!([text("a"), image])),
        (vec![shown(vec![picture()]), Message::user("b")], json!([image, text("b")])),
        (
            vec![shown(vec![picture()]), shown(vec!["x".into(), picture()]), Message::user("c")],
            json!([image, text("x"), image, text("c")]),
        ),
    ] {
        let sent = json_of(&with(model(), history(messages.clone())));
        assert_eq!(sent["messages"], json!([{"role": "user", "content": expect}]));
        // A vendor takes them one by one, and its cache knows the beginning of the conversation.
        let vendor = ModelConfig::openai("gpt-x", "GPT", "key");
        let sent = json_of(&with(vendor, history(messages.clone())));
        assert_eq!(sent["messages"].as_array().unwrap().len(), messages.len());
    }
    let after_result = json_of(&with(
        model(),
        history(vec![
            Message::user("go"),
            reply(vec![call("a", "{}")]).into(),
            result("a", vec![picture()]),
            Message::user("on"),
            reply(vec![Content::text("done")]).into(),
            Message::user("more"),
        ]),
    ));
    let roles: Vec<_> =
        after_result["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user", "assistant", "user"]);
    assert_eq!(after_result["messages"][3]["content"][2], text("on"));
}

/// OpenAI refuses a request with another name in it, also that of a call whose tool does not exist.
#[test]
fn names_of_calls_have_the_form_that_vendors_take() {
    let mut odd = call("a", "{}");
    if let Content::ToolCall(call) = &mut odd {
        call.name = "functions.look at it".into();
    }
    let sent = json_of(&with(
        model(),
        history(vec![Message::user("go"), reply(vec![odd]).into(), result("a", vec![Content::text("no")])]),
    ));
    assert_eq!(sent["messages"][1]["tool_calls"][0]["function"]["name"], "functions_look_at_it");
}

/// B-131, B-132.
#[test]
fn thinking_goes_back_to_its_model_in_the_field_it_came_in() {
    let thought = Content::thinking("hm", Some("reasoning_content".into()));
    let own = reply(vec![thought.clone(), Content::text("yes")]);
    let mut foreign = own.clone();
    foreign.model = "other".into();
    let sent = |model: ModelConfig, reply: &AssistantMessage| {
        json_of(&with(model, history(vec![Message::user("x"), reply.clone().into()])))["messages"][1].clone()
    };
    assert_eq!(
        sent(model(), &own),
        json!({"role": "assistant", "content": "yes", "reasoning_content": "hm"})
    );
    assert_eq!(sent(model(), &foreign), json!({"role": "assistant", "content": "yes"}));
    let mut set = model();
    set.dialect.reasoning_field = Some(agent_core::ReasoningField::Reasoning);
    assert_eq!(sent(set, &own)["reasoning"], "hm");
    let mut request = with(model(), history(vec![Message::user("x"), foreign.into()]));
    request.options.foreign_thinking_as_text = true;
    assert_eq!(json_of(&request)["messages"][1]["content"], "hm\n\nyes");
    let signed = reply(vec![Content::thinking("hm", Some("EqQBsecret".into())), Content::text("yes")]);
    assert_eq!(sent(model(), &signed).get("reasoning_content"), None, "an unknown field is not made up");
}

/// B-134, B-135.
#[test]
fn call_ids_are_rewritten_on_both_sides_to_what_the_server_takes() {
    for (model, max, fits) in [
        (
            ModelConfig::openai("m", "M", "k"),
            40,
            (|c: char| c.is_ascii_alphanumeric() || "_-".contains(c)) as fn(char) -> bool,
        ),
        (
            ModelConfig::new(agent_core::ApiProtocol::OpenAiCompletions, "mistral", "m").with_api_key("k"),
            9,
            |c: char| c.is_ascii_alphanumeric(),
        ),
    ] {
        let (a, b) = (format!("call|{}1", "x".repeat(450)), format!("call|{}2", "x".repeat(450)));
        let sent = json_of(&with(
            model,
            history(vec![
                Message::user("x"),
                reply(vec![call(&a, "{}"), call(&b, "{}"), call("abcDEF123", "{}")]).into(),
                result(&a, vec![]),
                result(&b, vec![]),
                result("abcDEF123", vec![]),
            ]),
        ));
        let messages = sent["messages"].as_array().unwrap();
        let ids: Vec<&str> = (0..3).map(|n| messages[1]["tool_calls"][n]["id"].as_str().unwrap()).collect();
        let results: Vec<&str> = (2..5).map(|n| messages[n]["tool_call_id"].as_str().unwrap()).collect();
        assert_eq!(ids, results);
        assert_ne!(ids[0], ids[1]);
        assert_eq!(ids[2], "abcDEF123");
        assert!(ids.iter().all(|id| id.len() <= max && id.chars().all(fits)), "{ids:?}");
    }
}

#[test]
fn a_server_that_wants_it_gets_tool_names_and_an_assistant_between_results_and_user() {
    let mut model = model();
    model.dialect.tool_result_name = Some(true);
    model.dialect.assistant_after_tool_result = Some(true);
    let exchange = |id: &str| vec![reply(vec![call(id, "{}")]).into(), result(id, vec![Content::text("r")])];
    let mut messages = vec![Message::user("a")];
    messages.extend(exchange("1"));
    messages.extend(exchange("2"));
    messages.push(Message::user("b"));
    let sent = json_of(&with(model, history(messages)));
    let roles: Vec<&str> =
        sent["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "tool", "assistant", "user"]);
    assert_eq!(sent["messages"][2]["name"], "look");
}

/// REQ-147.
#[test]
fn the_limit_goes_under_the_field_that_is_set() {
    let sent = |model: ModelConfig| json_of(&with(model, history(vec![Message::user("x")])));
    assert_eq!(sent(model().with_limits(9, 7))["max_tokens"], 7);
    let set = sent(model().with_limits(9, 7).with_max_tokens_field("max_completion_tokens"));
    assert_eq!((&set["max_completion_tokens"], set.get("max_tokens")), (&json!(7), None));
}

#[track_caller]
fn check_thinking(model: ModelConfig, level: ThinkingLevel, expect: Value) {
    let mut request = with(model, history(vec![Message::user("x")]));
    request.options.thinking_level = level;
    let sent = json_of(&request);
    let keys = ["reasoning_effort", "reasoning", "thinking", "enable_thinking", "chat_template_kwargs"];
    let got: serde_json::Map<String, Value> =
        keys.iter().filter_map(|k| Some(((*k).to_owned(), sent.get(*k)?.clone()))).collect();
    assert_eq!(Value::Object(got), expect, "{level:?}");
}

/// REQ-130.
#[test]
fn levels_become_words_for_models_that_take_an_effort() {
    let model = || ModelConfig::openai("gpt-5", "G", "k");
    check_thinking(model(), ThinkingLevel::Off, json!({}));
    check_thinking(model(), ThinkingLevel::Minimal, json!({"reasoning_effort": "low"}));
    check_thinking(model(), ThinkingLevel::Low, json!({"reasoning_effort": "low"}));
    check_thinking(model(), ThinkingLevel::Medium, json!({"reasoning_effort": "medium"}));
    check_thinking(model(), ThinkingLevel::High, json!({"reasoning_effort": "high"}));
    check_thinking(model(), ThinkingLevel::XHigh, json!({"reasoning_effort": "high"}));
    let all = [ThinkingLevel::Minimal, ThinkingLevel::High, ThinkingLevel::XHigh];
    let known = || model().with_thinking_form(ThinkingForm::Effort, all);
    check_thinking(known(), ThinkingLevel::Minimal, json!({"reasoning_effort": "minimal"}));
    check_thinking(known(), ThinkingLevel::Medium, json!({"reasoning_effort": "high"}));
    check_thinking(known(), ThinkingLevel::XHigh, json!({"reasoning_effort": "xhigh"}));
    check_thinking(known(), ThinkingLevel::Max, json!({"reasoning_effort": "xhigh"}));
    check_thinking(model(), ThinkingLevel::Max, json!({"reasoning_effort": "high"}));
    let newest = model().with_thinking_form(ThinkingForm::Effort, [ThinkingLevel::High, ThinkingLevel::Max]);
    check_thinking(newest, ThinkingLevel::Max, json!({"reasoning_effort": "max"}));
    let mut without = model();
    without.dialect.reasoning_effort = Some(false);
    check_thinking(without, ThinkingLevel::High, json!({}));
    check_thinking(model().with_thinking_form(ThinkingForm::None, []), ThinkingLevel::High, json!({}));
}

#[test]
fn other_servers_are_asked_to_think_in_their_own_way() {
    let model = |format| {
        let mut model = model().with_thinking_form(ThinkingForm::Toggle, []);
        model.dialect.thinking_format = Some(format);
        model
    };
    check_thinking(model(ThinkingFormat::Zai), ThinkingLevel::Low, json!({"thinking": {"type": "enabled"}}));
    check_thinking(model(ThinkingFormat::Zai), ThinkingLevel::Off, json!({"thinking": {"type": "disabled"}}));
    check_thinking(model(ThinkingFormat::Qwen), ThinkingLevel::Low, json!({"enable_thinking": true}));
    check_thinking(
        model(ThinkingFormat::QwenTemplate),
        ThinkingLevel::Off,
        json!({"chat_template_kwargs": {"enable_thinking": false}}),
    );
    let router = || ModelConfig::openrouter("x/y", "k");
    check_thinking(router(), ThinkingLevel::High, json!({"reasoning": {"effort": "high"}}));
    let budget = router().with_thinking_form(ThinkingForm::Budget, []);
    check_thinking(budget.clone(), ThinkingLevel::High, json!({"reasoning": {"max_tokens": 8_192}}));
    check_thinking(budget, ThinkingLevel::Minimal, json!({"reasoning": {"max_tokens": 1_024}}));
}

/// B-149.
#[test]
fn no_temperature_is_sent_to_a_model_that_thinks() {
    let mut request = with(ModelConfig::openai("gpt-5", "G", "k"), history(vec![Message::user("x")]));
    request.options.temperature = Some(0.25);
    assert_eq!(json_of(&request)["temperature"], 0.25);
    request.options.thinking_level = ThinkingLevel::Low;
    assert_eq!(json_of(&request).get("temperature"), None);
}

#[test]
fn form_of_the_answer_choice_of_tools_and_cache_key() {
    let mut request = with(ModelConfig::openai("gpt-5", "G", "k"), history(vec![Message::user("x")]));
    request.options.response_format =
        ResponseFormat::JsonSchema { name: "n".into(), schema: json!({"type": "object"}), strict: true };
    request.session_id = Some("s".repeat(100));
    request.options.tool_choice = ToolChoice::Tool("look".into());
    let sent = json_of(&request);
    assert_eq!(
        sent["response_format"],
        json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": true}})
    );
    assert_eq!(sent["prompt_cache_key"], "s".repeat(64));
    assert_eq!(sent.get("tool_choice"), None, "there is no tool to choose");
    request.tools = vec![ToolDefinition::new("look", "", json!({"type": "object"}))].into();
    request.options.response_format = ResponseFormat::JsonObject;
    let sent = json_of(&request);
    assert_eq!(sent["tool_choice"], json!({"type": "function", "function": {"name": "look"}}));
    assert_eq!(sent["response_format"], json!({"type": "json_object"}));
    request.options.tool_choice = ToolChoice::Required;
    assert_eq!(json_of(&request)["tool_choice"], "required");
    request.options.tool_choice = ToolChoice::None;
    assert_eq!(json_of(&request)["tool_choice"], "none");
}

/// REQ-147.
#[test]
fn the_system_prompt_goes_under_developer_only_where_that_is_known() {
    let role = |model: ModelConfig| {
        let mut request = with(model, history(vec![Message::user("x")]));
        request.system_prompt = "s".into();
        json_of(&request)["messages"][0]["role"].as_str().unwrap().to_owned()
    };
    assert_eq!(role(ModelConfig::openai("gpt-5", "G", "k")), "developer");
    assert_eq!(
        role(ModelConfig::openai("gpt-4", "G", "k").with_thinking_form(ThinkingForm::None, [])),
        "system"
    );
    assert_eq!(role(model()), "system");
    let mut set = model();
    set.dialect.developer_role = Some(true);
    assert_eq!(role(set), "developer");
}

fn long_history() -> (History, History) {
    let mut messages = vec![Message::user("start \u{1F389} \"quoted\"")];
    for n in 0..5 {
        let id = format!("c{n}");
        messages.push(reply(vec![Content::text("next"), call(&id, "{\"n\": 1}")]).into());
        messages.push(result(&id, vec![Content::text("done")]));
    }
    let shorter = history(messages.clone());
    let mut longer = shorter.clone();
    longer
        .push_exchange(
            Entry::from(AgentMessage::from(Message::from(reply(vec![call("z", "{}")])))),
            vec![Entry::from(AgentMessage::from(result("z", vec![Content::text("end")])))],
        )
        .unwrap();
    longer.push("more".into()).unwrap();
    (shorter, longer)
}

/// D14.
#[test]
fn a_later_request_begins_with_the_bytes_of_the_earlier_one() {
    let (shorter, longer) = long_history();
    let request = |history: &History| {
        let mut request = with(model(), history.clone());
        request.system_prompt = "system".into();
        request.tools = vec![ToolDefinition::new("look", "d", json!({"type": "object"}))].into();
        super::request(&request).unwrap().body
    };
    let (first, again, second) = (request(&shorter), request(&shorter), request(&longer));
    assert_eq!(first, again);
    let common = first.strip_suffix(b"]}").unwrap();
    assert!(second.starts_with(common));
}

/// A hundred exchanges and what stands before them.
fn very_long_history() -> History {
    let mut messages = vec![Message::user("start")];
    for n in 0..100 {
        let id = format!("c{n}");
        messages.push(reply(vec![Content::text("next"), call(&id, "{}")]).into());
        messages.push(result(&id, vec![Content::text("done")]));
        if n % 9 == 0 {
            messages.push(Message::user("and?"));
        }
    }
    history(messages)
}

/// D14: what is old is kept in pieces of many messages.
#[test]
fn a_long_conversation_has_the_same_bytes_however_often_it_is_sent() {
    let mut bridged = model();
    bridged.dialect.assistant_after_tool_result = Some(true);
    for model in [model(), ModelConfig::openrouter("anthropic/claude", "k"), bridged] {
        let history = very_long_history();
        let sent = |history: &History| super::request(&with(model.clone(), history.clone())).unwrap().body;
        let fresh = sent(&History::repaired(history.to_vec()).0);
        for _ in 0..4 {
            assert_eq!(sent(&history), fresh);
        }
        let mut longer = history.clone();
        for n in 0..40 {
            longer.push(AgentMessage::user(n.to_string())).unwrap();
            let alone = sent(&History::repaired(longer.to_vec()).0);
            assert_eq!(sent(&longer), alone, "{n}");
        }
    }
}

/// REQ-126: the marker goes where it does in a short conversation.
#[test]
fn the_marker_of_a_long_conversation_stays_behind_the_second_to_last_message_that_can_carry_one() {
    let history = very_long_history();
    let request = with(ModelConfig::openrouter("anthropic/claude", "k"), history.clone());
    let first = markers(&request);
    assert_eq!((first.len(), markers(&request), markers(&request)), (1, first.clone(), first.clone()));
    let users = history.llm_messages().enumerate().filter(|(_, message)| message.role() == "user");
    let places: Vec<usize> = users.map(|(place, _)| place).collect();
    assert_eq!(places.last(), Some(&(history.len() - 1)), "the last message is a user's, and is not marked");
    assert_eq!(first, [format!("user {}", places[places.len() - 2])]);
}

#[test]
fn a_unit_and_the_tools_are_encoded_once_for_a_target() {
    let (history, _) = long_history();
    let mut request = with(model(), history);
    request.tools = vec![ToolDefinition::new("look", "d", json!({"type": "object"}))].into();
    super::request(&request).unwrap();
    let dialect = Dialect::of(&request.model);
    let key = dialect.unit_key(&request);
    for unit in request.history.units() {
        unit.wire().with(key, || panic!("the unit is not kept"), |e| assert!(!e.bytes().is_empty()));
    }
    let key = wire_key(&request, &["chat tools", ""]);
    request.tools.wire().with(key, || panic!("the tools are not kept"), |e| assert!(!e.bytes().is_empty()));
}

#[test]
fn each_model_gets_its_own_bytes_from_the_same_history() {
    let own = reply(vec![Content::thinking("hm", Some("reasoning".into())), Content::text("yes")]);
    let history = history(vec![Message::user("x"), own.into()]);
    let mut other = model();
    other.id = "n".into();
    for _ in 0..2 {
        assert_eq!(json_of(&with(model(), history.clone()))["messages"][1]["reasoning"], "hm");
        assert_eq!(json_of(&with(other.clone(), history.clone()))["messages"][1].get("reasoning"), None);
    }
}

fn markers(request: &ModelRequest) -> Vec<String> {
    let sent = json_of(request);
    let mut found = Vec::new();
    let marked = |value: &Value| value.get("cache_control") == Some(&json!({"type": "ephemeral"}));
    for (n, message) in sent["messages"].as_array().unwrap().iter().enumerate() {
        if message["content"].as_array().is_some_and(|parts| parts.iter().any(marked)) {
            found.push(format!("{} {n}", message["role"].as_str().unwrap()));
        }
    }
    if sent["tools"].as_array().is_some_and(|tools| tools.iter().any(marked)) {
        found.push("tools".into());
    }
    assert_eq!(sent.to_string().matches("cache_control").count(), found.len());
    found
}

/// REQ-126, REQ-127, B-147.
#[test]
fn cache_markers_are_put_for_anthropic_behind_openrouter() {
    let messages = vec![
        Message::user("a"),
        reply(vec![Content::text("b")]).into(),
        Message::user("c"),
        Message::user("d"),
    ];
    let mut request = with(ModelConfig::openrouter("anthropic/claude", "k"), history(messages));
    request.system_prompt = "s".into();
    request.tools = vec![ToolDefinition::new("look", "d", json!({"type": "object"}))].into();
    assert_eq!(markers(&request), ["system 0", "user 3", "tools"]);
    let manual = |system, tools, messages| CacheConfig {
        strategy: CacheStrategy::Manual {
            cache_system: system,
            cache_tools: tools,
            cache_messages: messages,
        },
        ..CacheConfig::default()
    };
    request.options.cache_config = manual(true, false, false);
    assert_eq!(markers(&request), ["system 0"]);
    request.options.cache_config = manual(false, true, false);
    assert_eq!(markers(&request), ["tools"]);
    request.options.cache_config = manual(false, false, true);
    assert_eq!(markers(&request), ["user 3"]);
    request.options.cache_config = CacheConfig::disabled();
    assert_eq!(markers(&request), Vec::<String>::new());
}

#[test]
fn markers_for_anthropic_behind_openrouter_have_their_lifetime() {
    let messages = vec![Message::user("a"), reply(vec![Content::text("b")]).into(), Message::user("c")];
    let mut request = with(ModelConfig::openrouter("anthropic/claude", "k"), history(messages));
    request.system_prompt = "s".into();
    request.options.cache_config = CacheConfig::default().with_ttl(CacheTtl::OneHour);
    let sent = json_of(&request).to_string();
    assert_eq!(sent.matches(r#""cache_control":{"type":"ephemeral","ttl":"1h"}"#).count(), 2, "{sent}");
}

#[test]
fn explicit_breakpoints_stand_in_the_parts_of_messages() {
    let sent = |id: &str, config: CacheConfig| {
        let messages = vec![
            Message::user("a"),
            reply(vec![call("1", "{}")]).into(),
            result("1", vec![Content::text("b")]),
            Message::user("c"),
        ];
        let mut request = with(ModelConfig::openai(id, id, "k"), history(messages));
        request.system_prompt = "s".into();
        request.options.cache_config = config;
        json_of(&request)
    };
    let explicit = CacheConfig::default().with_explicit_breakpoints();
    let new = sent("gpt-5.6-sol", explicit);
    assert_eq!(new["prompt_cache_options"], json!({"mode": "explicit"}));
    let part = |text: &str| json!([{"type": "text", "text": text}]);
    let marked =
        |text: &str| json!([{"type": "text", "text": text, "prompt_cache_breakpoint": {"mode": "explicit"}}]);
    assert_eq!(new["messages"][0]["content"], marked("s"));
    assert_eq!(new["messages"][1]["content"], part("a"));
    assert_eq!(new["messages"][3], json!({"role": "tool", "tool_call_id": "1", "content": marked("b")}));
    assert_eq!(new["messages"][4]["content"], part("c"));
    // Nothing changes for a model that places its own, and Chat Completions has no longer lifetime.
    for (id, config) in [
        ("gpt-5.5", explicit),
        ("gpt-5.6-sol", CacheConfig::default()),
        ("gpt-5.6-sol", CacheConfig::default().with_ttl(CacheTtl::TwelveHours)),
    ] {
        let sent = sent(id, config);
        assert!(sent.get("prompt_cache_options").is_none(), "{sent}");
        assert_eq!(
            (&sent["messages"][1]["content"], &sent["messages"][3]["content"]),
            (&json!("a"), &json!("b"))
        );
    }
}

#[test]
fn a_call_of_a_custom_tool_goes_back_in_its_own_form() {
    let mut custom = call("a", "SELECT 1");
    if let Content::ToolCall(call) = &mut custom {
        call.signature = Some(crate::openai_chat::calls::CUSTOM.into());
    }
    let expect = json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "a", "type": "custom", "custom": {"name": "look", "input": "SELECT 1"}}
        ]},
        {"role": "tool", "tool_call_id": "a", "content": "1 row"},
    ]);
    let messages =
        vec![Message::user("hi"), reply(vec![custom]).into(), result("a", vec![Content::text("1 row")])];
    check_messages(messages, expect);
}

#[test]
fn documents_and_sounds_are_parts_where_a_server_takes_them() {
    let asked = |model: ModelConfig| {
        json_of(&with(model, history(vec![Message::user_content(crate::handoff::files())])))["messages"][0]
            ["content"]
            .take()
    };
    let text = |text: &str| json!({"type": "text", "text": text});
    let openai = ModelConfig::openai("gpt-test", "GPT", "sk-test");
    assert_eq!(
        asked(openai),
        json!([
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"}},
            text("notes\n\na text"),
            text("[document left out: this API does not take it]"),
            {"type": "file", "file": {"file_id": "file-1"}},
            text("A (https://a)\n\none\n\ntwo"),
            {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}},
            text("[film left out: this API does not take it]"),
        ])
    );
    let mut local = model();
    let plain = asked(local.clone());
    assert!(plain.as_array().unwrap().iter().all(|part| part["type"] == "text"), "{plain}");
    local.dialect.files = Some(true);
    assert_eq!(asked(local)[0]["type"], "file");
}
