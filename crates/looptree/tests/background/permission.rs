//! Approvals, policies, deny patterns and sandboxes hold for commands in the background.

use looptree::hooks::{Decision, Hooks, ToolPolicy, ToolRule};
use looptree::prelude::*;
use looptree::testing::{ScriptedProvider, ScriptedReply};
use looptree::tools::background_work::BackgroundWork;
use looptree::tools::{BashTool, SandboxRules, bash};
use serde_json::json;

use crate::support::{MARK, Place, ask, ends_of, in_background, result_of, run, start, within};

fn policy() -> Hooks {
    let policy = ToolPolicy::new(Decision::Ask)
        .deny(ToolRule::tool("bash").argument("/command", "*secret*").saying("not that"))
        .allow(ToolRule::tool("bash").when(bash::runs_only(["echo"])));
    Hooks::new().policy(policy)
}

#[tokio::test]
async fn a_rule_about_a_command_decides_about_it_in_the_background_too() {
    let (place, work) = (Place::new(), BackgroundWork::new());
    let model = ScriptedProvider::new([
        start("c1", "echo allowed"),
        start("c2", "echo secret"),
        start("c3", "touch made"),
        "I wait.".into(),
        "Ended.".into(),
    ]);
    let agent = place.agent(&work, model).with_hooks(policy());
    let RunEnd::Suspended(questions) = run(&agent, "Start").await else { panic!("no question") };
    assert!(result_of(&agent, "c2").contains("not that"));
    let view = questions[0].approval().unwrap();
    assert_eq!(view.arguments, in_background("touch made"));
    let shown = view.to_string();
    assert!(shown.contains("background:\n      = true") && shown.contains("touch made"), "{shown}");
    assert!(!place.has("made") && work.list().len() == 1);
    let end = within(agent.answer(questions[0].id.clone(), Answer::Allow).unwrap().end()).await;
    assert!(end.is_completed(), "{end:?}");
    within(work.wait()).await;
    assert!(place.has("made"));
    ask(&agent, "And?").await;
    assert_eq!((ends_of(&agent, "c1").len(), ends_of(&agent, "c3").len()), (1, 1));
}

#[tokio::test]
async fn deny_patterns_and_the_confirmation_hold() {
    let (place, work) = (Place::new(), BackgroundWork::new());
    let bash = BashTool::new(Workspace::open(place.path()).unwrap())
        .with_background_work(work.clone())
        .with_confirm(std::sync::Arc::new(|command| Box::pin(async move { command != "touch made" })));
    let model = ScriptedProvider::new([start("c1", "rm -rf /"), start("c2", "touch made"), "No.".into()]);
    let agent = looptree::agent(ModelConfig::default()).with_provider(model).with_tool(bash);
    work.attach(&agent).unwrap();
    ask(&agent, "Start").await;
    assert!(result_of(&agent, "c1").contains("blocked by safety policy"));
    assert!(result_of(&agent, "c2").contains("not confirmed"));
    assert!(work.list().is_empty() && !place.has("made"));
}

#[tokio::test]
async fn the_sandbox_confines_a_command_in_the_background() {
    let (place, outside, work) = (Place::new(), Place::new(), BackgroundWork::new());
    let workspace = Workspace::open(place.path()).unwrap();
    for sandbox in [Sandbox::landlock, Sandbox::bwrap] {
        let sandbox = sandbox(SandboxRules::for_workspace(&workspace));
        if let Err(error) = sandbox.check().await {
            crate::skip::sandbox(sandbox.kind(), &error);
            continue;
        }
        let work = BackgroundWork::new();
        let bash = BashTool::new(workspace.clone()).with_env(MARK, &place.mark);
        let tools = CodingTools::new(workspace.clone())
            .with_bash(bash)
            .with_sandbox(sandbox)
            .with_background_work(work.clone());
        let command = format!("touch inside; touch {}/out; echo tried", outside.path().display());
        let model = ScriptedProvider::new([start("c1", &command), "I wait.".into(), "Ended.".into()]);
        let agent = looptree::agent(ModelConfig::default()).with_provider(model).with_tools(tools.tools());
        work.attach(&agent).unwrap();
        ask(&agent, "Start").await;
        within(work.wait()).await;
        ask(&agent, "And?").await;
        assert!(ends_of(&agent, "c1")[0].contains("tried"), "{:?}", ends_of(&agent, "c1"));
        assert!(place.has("inside") && !outside.has("out"));
        std::fs::remove_file(place.path().join("inside")).unwrap();
        place.all_gone().await;
    }
    // A sandbox that cannot be had is an error of the call, and nothing starts.
    let missing = SandboxRules::new().with_write_root("/does/not/exist");
    let bash =
        BashTool::new(workspace).with_sandbox(Sandbox::landlock(missing)).with_background_work(work.clone());
    let model = ScriptedProvider::new([start("c1", "touch made"), "No.".into()]);
    let agent = looptree::agent(ModelConfig::default()).with_provider(model).with_tool(bash);
    work.attach(&agent).unwrap();
    ask(&agent, "Start").await;
    assert!(result_of(&agent, "c1").contains("the command was not run"), "{}", result_of(&agent, "c1"));
    assert!(work.list().is_empty() && json!(place.has("made")) == json!(false));
}

#[tokio::test]
async fn a_rule_can_decide_about_the_background_alone() {
    let (place, work) = (Place::new(), BackgroundWork::new());
    let policy = ToolPolicy::new(Decision::Allow)
        .deny(ToolRule::tool("bash").argument("/background", "true").saying("only in the foreground"));
    let in_front = ScriptedReply::call("c2", "bash", json!({"command": "touch made", "background": false}));
    let model = ScriptedProvider::new([start("c1", "touch never"), in_front, "Done.".into()]);
    let agent = place.agent(&work, model).with_hooks(Hooks::new().policy(policy));
    ask(&agent, "Start").await;
    assert!(result_of(&agent, "c1").contains("only in the foreground"), "{}", result_of(&agent, "c1"));
    assert!(place.has("made") && !place.has("never") && work.list().is_empty());
}
