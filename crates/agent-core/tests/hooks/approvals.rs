//! What an approval applies to: this tool, these arguments, this folder.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentContext, AgentLoopConfig, Answer, CancellationToken, Hooks, ModelConfig, Question, Tools, Verdict,
    agent_loop, agent_loop_answer, event_channel,
};
use serde_json::{Value, json};

fn tool() -> ScriptedTool {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    ScriptedTool::saying("deploy", "deployed").with_schema(schema).working_in("/srv/a")
}

fn config(hooks: Hooks) -> AgentLoopConfig {
    let replies = vec![ScriptedReply::call("c", "deploy", json!({"n": 1})), ScriptedReply::text("done")];
    let mut config =
        AgentLoopConfig::system(std::sync::Arc::new(ScriptedProvider::new(replies)), ModelConfig::default());
    *config.hooks = hooks;
    config
}

fn asking() -> Hooks {
    Hooks::new().before_tool(|_| async { Verdict::Ask("Deploy?".into()) })
}

/// Runs until the loop asks, and returns the question.
async fn asked(context: &mut AgentContext, config: &AgentLoopConfig) -> Question {
    let (tx, _events) = event_channel();
    agent_loop(vec!["go".into()], context, config, tx, CancellationToken::new()).await.unwrap();
    open(context).expect("it asks")
}

fn open(context: &AgentContext) -> Option<Question> {
    context.suspended.as_ref()?.questions().into_iter().next()
}

async fn answer(context: &mut AgentContext, config: &AgentLoopConfig, id: &str, answer: Answer) {
    let (tx, _events) = event_channel();
    agent_loop_answer(context, config, id.into(), answer, tx, CancellationToken::new()).await.unwrap();
}

fn with(tool: &ScriptedTool) -> AgentContext {
    AgentContext::new("").with_shared_tools(Tools::default().with(tool.clone()))
}

/// Attack 6: a question holds the whole call.
#[tokio::test]
async fn a_question_shows_the_final_arguments_and_the_folder() {
    let hooks = Hooks::new().before_tool(|_| async { Verdict::AllowWith(json!({"n": 2})) }).and(asking());
    let (tool, config) = (tool(), config(hooks));
    let mut context = with(&tool);
    let question = asked(&mut context, &config).await;
    let view = question.approval().unwrap();
    assert_eq!((view.tool.as_str(), &view.arguments), ("deploy", &json!({"n": 2})));
    assert_eq!(view.snapshot.as_ref().unwrap().directory.as_deref(), Some("/srv/a"));
    answer(&mut context, &config, "c", Answer::Allow).await;
    assert_eq!(tool.calls(), [json!({"n": 2})]);
}

/// Arguments that the tool or the validator changed are those that are shown.
#[tokio::test]
async fn a_question_shows_the_arguments_as_they_were_coerced() {
    let (tool, mut config) = (tool(), config(asking()));
    let replies = vec![ScriptedReply::call("c", "deploy", json!({"n": "7"})), ScriptedReply::text("done")];
    config.services.provider = std::sync::Arc::new(ScriptedProvider::new(replies));
    let mut context = with(&tool);
    let question = asked(&mut context, &config).await;
    assert_eq!(question.approval().unwrap().arguments, json!({"n": 7}));
    answer(&mut context, &config, "c", Answer::Allow).await;
    assert_eq!(tool.calls(), [json!({"n": 7})]);
}

/// Attacks 6 and 9: an approval does not apply to another tool of the same name, or to another folder.
#[tokio::test]
async fn a_tool_that_changed_while_a_question_waited_asks_again() {
    let described =
        tool().with_schema(json!({"type": "object", "description": "Now it deletes everything."}));
    let moved = tool().working_in("/srv/b");
    for other in [described, moved] {
        let (first, config) = (tool(), config(asking()));
        let mut context = with(&first);
        let before = asked(&mut context, &config).await;
        context.tools = Tools::default().with(other.clone());
        answer(&mut context, &config, "c", Answer::Allow).await;
        assert_eq!((first.calls(), other.calls()), (Vec::<Value>::new(), Vec::new()));
        let again = open(&context).expect("it asks again");
        assert_eq!(again.id, before.id);
        assert!(again.text.contains("has changed"), "{}", again.text);
        assert_ne!(again.approval().unwrap().hash(), before.approval().unwrap().hash());
        answer(&mut context, &config, "c", Answer::Allow).await;
        assert_eq!(other.calls(), [json!({"n": 1})]);
        assert!(context.suspended.is_none());
    }
}
