//! Replies that the vendor paused in the middle of its own tools' work.

use super::*;

const CALL: &str = "srvtoolu_01";

fn call() -> Content {
    call_named(CALL)
}

fn call_named(id: &str) -> Content {
    let block = json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "x"}});
    Content::opaque("server_tool_use", block)
}

fn found() -> Content {
    let block = json!({"type": "web_search_tool_result", "tool_use_id": CALL, "content": []});
    Content::opaque("web_search_tool_result", block)
}

fn paused(content: Vec<Content>) -> AgentMessage {
    let mut reply = reply(content);
    reply.stop_reason = StopReason::Paused;
    said(reply)
}

/// The roles of the messages, each with the types of its blocks.
fn outline(messages: Vec<AgentMessage>) -> Vec<String> {
    let written = super::messages(request(messages));
    let types = |message: &Value| {
        let blocks = message["content"].as_array().unwrap().iter();
        let types: Vec<_> = blocks.map(|block| block["type"].as_str().unwrap().to_owned()).collect();
        format!("{}: {}", message["role"].as_str().unwrap(), types.join(" "))
    };
    written.as_array().unwrap().iter().map(types).collect()
}

#[test]
fn a_request_that_continues_ends_with_the_reply_as_it_came() {
    let asked = AgentMessage::user("search");
    assert_eq!(
        outline(vec![asked.clone(), paused(vec!["I search.".into(), call()])]),
        ["user: text", "assistant: text server_tool_use"]
    );
    assert_eq!(
        outline(vec![
            asked.clone(),
            paused(vec!["I search.".into(), call()]),
            paused(vec![found(), "More.".into()]),
        ]),
        ["user: text", "assistant: text server_tool_use", "assistant: web_search_tool_result text"]
    );
}

#[test]
fn a_completed_reply_keeps_the_call_whose_result_is_in_its_next_part() {
    assert_eq!(
        outline(vec![
            AgentMessage::user("search"),
            paused(vec![call()]),
            said(reply(vec![found(), "Found.".into()])),
            AgentMessage::user("thanks"),
        ]),
        ["user: text", "assistant: server_tool_use", "assistant: web_search_tool_result text", "user: text"]
    );
}

#[test]
fn a_call_without_a_result_is_left_out_when_the_user_goes_on() {
    let asked = AgentMessage::user("search");
    assert_eq!(
        outline(vec![
            asked.clone(),
            paused(vec!["I search.".into(), call(), found(), call_named("srvtoolu_02")]),
            AgentMessage::user("stop"),
        ]),
        ["user: text", "assistant: text server_tool_use web_search_tool_result", "user: text"]
    );
    // Nothing else was in the reply.
    assert_eq!(
        outline(vec![asked, paused(vec![call()]), AgentMessage::user("stop")]),
        ["user: text", "user: text"]
    );
}

#[test]
fn a_request_that_continues_names_the_container_of_the_reply() {
    let container = Content::opaque("container", json!({"id": "container_1"}));
    let parts = vec![AgentMessage::user("compute"), paused(vec![call(), container])];
    assert_eq!(body(&request(parts.clone()))["container"], "container_1");
    let later = parts.into_iter().chain([AgentMessage::user("stop")]).collect();
    assert_eq!(body(&request(later)).get("container"), None);
}
