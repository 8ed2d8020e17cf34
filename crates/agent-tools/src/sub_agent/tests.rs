use std::sync::Arc;

use agent_core::testing::ScriptedProvider;
use agent_core::{
    AgentMessage, AgentTool, AssistantMessage, Content, Message, MessageRef, ModelConfig, StopReason,
    StreamProvider, SystemEnvironment, ToolContext, Tools, tool_fn,
};
use serde_json::json;

use super::{NO_TEXT, SubAgentTool, extract_final_text, run};

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
        let found = run::task(arguments).map_err(|e| e.to_string());
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

#[test]
fn settings_add_up() {
    let named = |name: &str| tool_fn(name, "", |(): (), _| async { Ok("x") });
    let provider: Arc<dyn StreamProvider> = Arc::new(ScriptedProvider::texts([]));
    let tool = SubAgentTool::new("helper", ModelConfig::default())
        .with_tool(named("a"))
        .with_tools(vec![Arc::new(named("b")) as Arc<dyn AgentTool>])
        .with_tools(Tools::default().with(named("c")))
        .with_provider(provider)
        .configure(|config| config.request.max_tokens = Some(7))
        .configure(|config| config.request.max_tokens = config.request.max_tokens.map(|tokens| tokens * 2));
    assert_eq!(format!("{:?}", tool.tools), r#"["a", "b", "c"]"#);
    let ctx = ToolContext::detached("helper", Arc::new(SystemEnvironment));
    assert_eq!(run::config(&tool, &ctx).unwrap().request.max_tokens, Some(14));
}
