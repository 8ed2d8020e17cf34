use agent_core::{AgentMessage, AssistantMessage, Content, Message, MessageRef, StopReason};
use serde_json::json;

use super::{NO_TEXT, args, extract_final_text};

fn reply(blocks: Vec<Content>) -> MessageRef {
    let mut reply = AssistantMessage::new("p", "m", StopReason::Stop);
    reply.content = blocks;
    MessageRef::new(AgentMessage::from(Message::from(reply)))
}

fn call() -> Content {
    Content::tool_call("c1", "look", json!({}))
}

/// REQ-149, REQ-163.
#[test]
fn the_answer_is_the_text_of_the_last_reply_that_has_any() {
    #[track_caller]
    fn check(messages: &[MessageRef], expect: &str) {
        assert_eq!(extract_final_text(messages), expect);
    }
    let user = || MessageRef::new(AgentMessage::user("not this"));
    check(&[], NO_TEXT);
    check(&[user()], NO_TEXT);
    check(&[reply(vec![call()])], NO_TEXT);
    check(&[reply(vec![Content::text("  ")])], NO_TEXT);
    check(&[user(), reply(vec![Content::text("a"), call(), Content::text("b")]), user()], "a\nb");
    check(&[reply(vec![Content::text("first")]), reply(vec![Content::text("last")])], "last");
    check(&[reply(vec![Content::text("first")]), reply(vec![call()])], "first");
    check(&[reply(vec![Content::thinking("hm", None)])], NO_TEXT);
}

/// REQ-148.
#[test]
fn a_task_must_be_there_and_say_something() {
    #[track_caller]
    fn check(arguments: &serde_json::Value, expect: Result<&str, &str>) {
        let found = args::task(arguments).map_err(|e| e.to_string());
        match expect {
            Ok(task) => assert_eq!(found.as_deref(), Ok(task)),
            Err(words) => assert!(found.unwrap_err().contains(words)),
        }
    }
    check(&json!({}), Err("Missing required 'task'"));
    check(&json!({"task": 3}), Err("Missing required 'task'"));
    check(&json!({"task": " \n"}), Err("blank"));
    check(&json!({"task": "Count."}), Ok("Count."));
}
