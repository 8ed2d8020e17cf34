use agent_core::{CacheConfig, CacheStrategy, ErrorKind, ToolChoice};

use super::super::Named;
use super::*;

#[test]
fn a_small_request_is_these_bytes() {
    let mut asked = asking("Hi \"you\"\n\u{1F30A}");
    asked.system_prompt = "Be brief.".into();
    asked.tools = tools(&["read"]).into();
    assert_eq!(
        text(&asked),
        concat!(
            r#"{"model":"claude-test","max_tokens":128000,"stream":true,"#,
            r#""tools":[{"name":"read","description":"Does read.","input_schema":{"type":"object","#,
            r#""properties":{"path":{"type":"string"}},"required":["path"]},"cache_control":{"type":"ephemeral"}}],"#,
            r#""system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"#,
            "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Hi \\\"you\\\"\\n\u{1F30A}\"}]}]}",
        )
    );
}

#[test]
fn limits_stops_and_temperature_are_sent_when_given() {
    let mut asked = asking("hi");
    asked.options.max_tokens = Some(77);
    asked.options.temperature = Some(0.5);
    asked.options.stop_sequences = vec!["END".into(), " ".into(), String::new()];
    let sent = body(&asked);
    assert_eq!((&sent["max_tokens"], &sent["temperature"]), (&json!(77), &json!(0.5)));
    assert_eq!(sent["stop_sequences"], json!(["END"]));
    assert_eq!(
        body(&asking("hi")).as_object().unwrap().keys().collect::<Vec<_>>(),
        ["model", "max_tokens", "stream", "messages"]
    );
    asked.options.temperature = Some(f32::NAN);
    assert!(body(&asked).get("temperature").is_none());
}

#[track_caller]
fn check_choice(choice: ToolChoice, named: &[&str], expect: Value) {
    let mut asked = asking("hi");
    asked.tools = tools(named).into();
    asked.options.tool_choice = choice;
    assert_eq!(body(&asked).get("tool_choice").cloned().unwrap_or_default(), expect);
}

#[test]
fn the_choice_of_tools_is_said_in_the_vendors_words() {
    check_choice(ToolChoice::Auto, &["read"], Value::Null);
    check_choice(ToolChoice::None, &["read"], json!({"type": "none"}));
    check_choice(ToolChoice::Required, &["read"], json!({"type": "any"}));
    check_choice(ToolChoice::Tool("read".into()), &["read"], json!({"type": "tool", "name": "read"}));
    check_choice(ToolChoice::None, &[], Value::Null);
}

#[test]
fn a_demand_that_cannot_be_met_is_an_error_before_anything_is_sent() {
    let mut asked = asking("hi");
    asked.options.tool_choice = ToolChoice::Required;
    let error = super::super::body(&asked, Named::InBody).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other);
    assert!(error.to_string().contains("names no tools"), "{error}");

    let mut asked = with_model(asking("hi"), |m| m.id = "claude-opus-5-5".into());
    asked.tools = tools(&["read"]).into();
    asked.options.tool_choice = ToolChoice::Required;
    let error = super::super::body(&asked, Named::InBody).unwrap_err();
    assert!(error.to_string().contains("does not take a demand"), "{error}");
}

#[test]
fn a_schema_without_a_type_gets_the_one_that_the_api_demands() {
    let mut asked = asking("hi");
    asked.tools = vec![
        ToolDefinition::new("a", " ", json!({"properties": {"x": {}}})),
        ToolDefinition::new("b", "B", Value::Null),
    ]
    .into();
    asked.options.cache_config = CacheConfig::disabled();
    assert_eq!(
        body(&asked)["tools"],
        json!([
            {"name": "a", "input_schema": {"type": "object", "properties": {"x": {}}}},
            {"name": "b", "description": "B", "input_schema": {"type": "object", "properties": {}}},
        ])
    );
}

/// Where the markers are: system, tools, and the index of a message.
fn marks(request: &ModelRequest) -> (bool, Vec<usize>, Vec<usize>) {
    let sent = body(request);
    let marked = |v: &Value| v.get("cache_control").is_some_and(|c| *c == json!({"type": "ephemeral"}));
    let places = |key: &str, inner: fn(&Value) -> &Value| {
        let list = sent[key].as_array().cloned().unwrap_or_default();
        list.iter().enumerate().filter(|(_, v)| marked(inner(v))).map(|(i, _)| i).collect::<Vec<_>>()
    };
    let last_block = |m: &Value| -> bool { m["content"].as_array().unwrap().last().is_some_and(marked) };
    let messages = sent["messages"].as_array().unwrap();
    let in_messages: Vec<usize> = (0..messages.len()).filter(|i| last_block(&messages[*i])).collect();
    let total = text(request).matches("cache_control").count();
    let found = (!places("system", |v| v).is_empty(), places("tools", |v| v), in_messages);
    assert_eq!(total, usize::from(found.0) + found.1.len() + found.2.len(), "no marker is anywhere else");
    assert!(total <= 4);
    found
}

fn long() -> ModelRequest {
    let mut asked = asking("go");
    exchange(&mut asked.history, "a", vec!["first".into()], "one");
    exchange(&mut asked.history, "b", vec![], "two");
    asked.system_prompt = "Be brief.".into();
    asked.tools = tools(&["read", "write"]).into();
    asked
}

/// REQ-126, B-148.
#[test]
fn markers_stand_on_system_last_tool_and_second_to_last_message() {
    assert_eq!(marks(&long()), (true, vec![1], vec![3]));
    let mut short = asking("hi");
    short.system_prompt = "Be brief.".into();
    assert_eq!(marks(&short), (true, vec![], vec![]));
}

/// REQ-127, B-147.
#[test]
fn each_marker_has_its_switch_and_all_can_be_off() {
    let cases = [
        ((true, false, false), (true, vec![], vec![])),
        ((false, true, false), (false, vec![1], vec![])),
        ((false, false, true), (false, vec![], vec![3])),
        ((false, false, false), (false, vec![], vec![])),
    ];
    for ((cache_system, cache_tools, cache_messages), expect) in cases {
        let mut asked = long();
        let strategy = CacheStrategy::Manual { cache_system, cache_tools, cache_messages };
        asked.options.cache_config = CacheConfig { strategy, ..CacheConfig::default() };
        assert_eq!(marks(&asked), expect);
        asked.options.cache_config.enabled = false;
        assert_eq!(marks(&asked), (false, vec![], vec![]));
    }
    let mut disabled = long();
    disabled.options.cache_config =
        CacheConfig { strategy: CacheStrategy::Disabled, ..CacheConfig::default() };
    assert_eq!(marks(&disabled), (false, vec![], vec![]));
    let unknowing = with_model(long(), |m| m.prompt_cache = false);
    assert_eq!(marks(&unknowing), (false, vec![], vec![]));
}

#[test]
fn a_message_that_can_carry_no_marker_leaves_it_to_the_one_before() {
    let mut asked = asking("go");
    let searched = json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}});
    asked.history.push(said(reply(vec![Content::opaque("server_tool_use", searched)]))).unwrap();
    asked.history.push(AgentMessage::user("and?")).unwrap();
    assert_eq!(marks(&asked), (false, vec![], vec![0]));
}
