//! What a sub-agent inherits from its caller: gates, sandbox and limits.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_core::compat::SeedSetters as _;
use agent_core::drive::Inheritance;
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed};
use agent_core::{
    AgentEvent, Answer, ApiProtocol, BasicAgent, Decision, ExecutionLimits, Hooks, ModelConfig, ModelRequest,
    RetryConfig, ToolPolicy, ToolRule, Verdict,
};
use agent_tools::{BashTool, DenyPattern, Sandbox, SandboxRules, SubAgentTool, Workspace};
use serde_json::{Value, json};

const HANG: Duration = Duration::from_secs(30);

fn model(id: &str) -> ModelConfig {
    ModelConfig::new(ApiProtocol::AnthropicMessages, "p", id)
}

/// The caller delegates one task; the child makes one call and ends.
fn delegating(tool: &str, arguments: Value) -> ScriptedProvider {
    let tool = tool.to_owned();
    ScriptedProvider::responding(move |request: &ModelRequest| {
        let first = request.messages().count() == 1;
        match (request.model.id.as_str(), first) {
            ("boss", true) => ScriptedReply::new().and_call("c0", "helper", json!({"task": "go"})),
            ("small", true) => ScriptedReply::new().and_call("k", &tool, arguments.clone()),
            _ => "done".into(),
        }
    })
}

fn agent(provider: &ScriptedProvider) -> BasicAgent {
    BasicAgent::new(model("boss")).with_provider(provider.clone()).with_retry_config(RetryConfig::none())
}

fn helper() -> SubAgentTool {
    SubAgentTool::new("helper", model("small")).configure(|c| c.policy.retry = RetryConfig::none())
}

async fn run(agent: &BasicAgent) -> Vec<AgentEvent> {
    let events = agent.prompt("go").unwrap().collect();
    let events = tokio::time::timeout(HANG, events).await.expect("it hangs");
    assert_well_formed(&events);
    events
}

/// The result text of the tool with this name.
fn result_of(events: &[AgentEvent], tool: &str) -> String {
    let ended = events.iter().find_map(|event| match event {
        AgentEvent::ToolExecutionEnd(end) if end.tool_name == *tool => Some(end.result.to_text()),
        AgentEvent::MessageEnd { message, .. } => {
            let result = message.as_llm().and_then(|m| m.as_tool_result())?;
            (result.tool_name == *tool)
                .then(|| message.as_llm().map(agent_core::Message::text).unwrap_or_default())
        }
        _ => None,
    });
    ended.unwrap_or_else(|| panic!("no result of {tool}: {events:#?}"))
}

fn deny_bash() -> ToolPolicy {
    ToolPolicy::new(Decision::Allow).deny(ToolRule::tool("bash").saying("No commands."))
}

fn ran() -> (Arc<Mutex<u32>>, ScriptedTool) {
    let count = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&count);
    let tool = ScriptedTool::new("bash", move |_, _| {
        *counted.lock().unwrap() += 1;
        Box::pin(async { Ok("ran".into()) })
    });
    (count, tool)
}

/// Attack 10, REQ-148.
#[tokio::test]
async fn a_call_that_the_caller_denies_is_denied_to_its_sub_agent() {
    let provider = delegating("bash", json!({}));
    let (count, bash) = ran();
    let agent =
        agent(&provider).with_hooks(Hooks::new().policy(deny_bash())).with_tool(helper().with_tool(bash));
    let events = run(&agent).await;
    assert_eq!(result_of(&events, "bash"), "No commands.");
    assert_eq!(*count.lock().unwrap(), 0);
}

/// Attack 10: two levels deep, and by a plain hook.
#[tokio::test]
async fn a_hook_of_the_caller_decides_about_the_calls_of_a_grandchild() {
    let (count, bash) = ran();
    let provider = ScriptedProvider::responding(|request: &ModelRequest| {
        let first = request.messages().count() == 1;
        match (request.model.id.as_str(), first) {
            ("boss", true) => ScriptedReply::new().and_call("c0", "helper", json!({"task": "go"})),
            ("small", true) => ScriptedReply::new().and_call("c1", "deep", json!({"task": "go"})),
            ("tiny", true) => ScriptedReply::new().and_call("k", "bash", json!({})),
            _ => "done".into(),
        }
    });
    let deep = SubAgentTool::new("deep", model("tiny")).with_tool(bash);
    let hooks = Hooks::new().before_tool(|call| async move {
        if call.call.name == "bash" { Verdict::Deny("never".into()) } else { Verdict::Allow }
    });
    let events = run(&agent(&provider).with_hooks(hooks).with_tool(helper().with_tool(deep))).await;
    assert_eq!(result_of(&events, "bash"), "never");
    assert_eq!(*count.lock().unwrap(), 0);
}

/// Attack 10: an approval that the caller requires is required of the child, in the caller's own questions.
#[tokio::test]
async fn a_question_of_the_caller_is_asked_about_the_calls_of_its_sub_agent() {
    let provider = delegating("bash", json!({}));
    let (count, bash) = ran();
    let policy = ToolPolicy::new(Decision::Allow).ask(ToolRule::tool("bash"));
    let agent = agent(&provider).with_hooks(Hooks::new().policy(policy)).with_tool(helper().with_tool(bash));
    let events = run(&agent).await;
    let question = events.iter().find_map(|event| match event {
        AgentEvent::RunSuspended { questions, .. } => questions.first().cloned(),
        _ => None,
    });
    assert_eq!(*count.lock().unwrap(), 0);
    let question = question.expect("the caller asks");
    let events = agent.answer(question.id, Answer::Allow).unwrap().collect().await;
    assert_eq!(result_of(&events, "bash"), "ran");
    assert_eq!(*count.lock().unwrap(), 1);
}

/// Attack 10: what is not a tool gate is not inherited, and the gates can be loosened by name.
#[tokio::test]
async fn an_independent_sub_agent_has_only_its_own_hooks() {
    let provider = delegating("bash", json!({}));
    let (count, bash) = ran();
    let child = helper().with_tool(bash).with_inheritance(Inheritance::Independent);
    let turns = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&turns);
    let hooks = Hooks::new().policy(deny_bash()).before_turn(move |_| {
        *counted.lock().unwrap() += 1;
        async { true }
    });
    run(&agent(&provider).with_hooks(hooks).with_tool(child)).await;
    assert_eq!(*count.lock().unwrap(), 1);
    assert_eq!(*turns.lock().unwrap(), 2, "the turns of the caller");
}

/// The `bash` of a caller in each way of confining it, and a word of the refusal of `echo`.
fn confined(workspace: &Workspace) -> [(BashTool, &'static str); 3] {
    let nowhere = Sandbox::bwrap(SandboxRules::for_workspace(workspace)).with_program("/nonexistent/bwrap");
    let bash = || BashTool::new(workspace.clone());
    [
        (bash().with_sandbox(nowhere), "bwrap"),
        (bash().deny(DenyPattern::command("echo")), "echo"),
        (bash().with_confirm(Arc::new(|_| Box::pin(async { false }))), "not"),
    ]
}

/// Attack 10: the sandbox, the deny patterns and the confirmation of the caller's `bash` apply to that of the child.
#[tokio::test]
async fn the_bash_of_a_sub_agent_is_confined_as_that_of_its_caller() {
    let provider = delegating("bash", json!({"command": "echo out"}));
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(folder.path()).unwrap();
    for (of_caller, refusal) in confined(&workspace) {
        let child = helper().with_tool(BashTool::new(workspace.clone()));
        let events = run(&agent(&provider).with_tool(of_caller).with_tool(child)).await;
        let text = result_of(&events, "bash");
        assert!(text.contains(refusal) && !text.starts_with("out"), "{text}");
        let open =
            helper().with_tool(BashTool::new(workspace.clone())).with_inheritance(Inheritance::Independent);
        let events = run(&agent(&provider).with_tool(open)).await;
        assert!(result_of(&events, "bash").contains("out"));
    }
}

/// What confines the caller's `bash` confines that of a grandchild, also below a child that has no `bash`.
#[tokio::test]
async fn the_bash_of_a_grandchild_is_confined_below_a_child_without_one() {
    let provider = ScriptedProvider::responding(|request: &ModelRequest| {
        let first = request.messages().count() == 1;
        match (request.model.id.as_str(), first) {
            ("boss", true) => ScriptedReply::new().and_call("c0", "helper", json!({"task": "go"})),
            ("small", true) => ScriptedReply::new().and_call("c1", "deep", json!({"task": "go"})),
            ("tiny", true) => ScriptedReply::new().and_call("k", "bash", json!({"command": "echo out"})),
            _ => "done".into(),
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(folder.path()).unwrap();
    for (of_caller, refusal) in confined(&workspace) {
        for tools_between in [Vec::new(), workspace.read_only_tools()] {
            let deep = SubAgentTool::new("deep", model("tiny")).with_tool(BashTool::new(workspace.clone()));
            let between = helper().with_tools(tools_between).with_tool(deep);
            let events = run(&agent(&provider).with_tool(of_caller.clone()).with_tool(between)).await;
            let text = result_of(&events, "bash");
            assert!(text.contains(refusal) && !text.starts_with("out"), "{text}");
        }
    }
}

/// Models choose the ids of calls, so a call can have the id of a question of a child. The answer reaches the call that the
/// question shows, and no other.
#[tokio::test]
async fn an_id_that_imitates_a_question_of_a_child_does_not_receive_its_answer() {
    let ask = || Hooks::new().policy(ToolPolicy::new(Decision::Ask).allow(ToolRule::tool("helper")));
    for id in ["c0/k", "c0%2Fk", "budget-c0", "loop"] {
        let provider =
            ScriptedProvider::responding(move |request: &ModelRequest| {
                match (request.model.id.as_str(), request.messages().count()) {
                    ("boss", 1) => ScriptedReply::new()
                        .and_call("c0", "helper", json!({"task": "go"}))
                        .and_call(id, "note", json!({})),
                    ("small", 1) => ScriptedReply::new().and_call("k", "wipe", json!({})),
                    _ => "done".into(),
                }
            });
        let (note, wipe) = (ScriptedTool::saying("note", "ok"), ScriptedTool::saying("wipe", "wiped"));
        let child = helper().with_tool(wipe.clone());
        let agent = agent(&provider).with_hooks(ask()).with_tool(note.clone()).with_tool(child);
        run(&agent).await;
        let questions = agent.questions();
        assert_eq!(questions.len(), 2, "{questions:#?}");
        assert_ne!(questions[0].id, questions[1].id);
        let about_note =
            questions.iter().find(|question| question.approval().unwrap().tool == *"note").unwrap();
        agent.answer(about_note.id.clone(), Answer::Allow).unwrap().collect().await;
        assert_eq!((note.calls().len(), wipe.calls().len()), (1, 0), "{id}");
    }
}

/// Attack 10: a task has no more turns than its caller, unless it is configured so.
#[tokio::test]
async fn a_task_has_no_higher_limits_than_its_caller() {
    let endless = || {
        ScriptedProvider::responding(|request: &ModelRequest| {
            if request.model.id == "boss" && request.messages().count() > 1 {
                return "done".into();
            }
            let (tool, arguments) = if request.model.id == "boss" {
                ("helper", json!({"task": "go"}))
            } else {
                ("look", json!({}))
            };
            ScriptedReply::new().and_call(&format!("c{}", request.messages().count()), tool, arguments)
        })
    };
    for (child, turns) in
        [(helper(), 3), (helper().with_max_turns(5), 5), (helper().with_limits(limits(6)), 6)]
    {
        let provider = endless();
        let agent = agent(&provider)
            .with_execution_limits(limits(3))
            .with_tool(child.with_tool(ScriptedTool::saying("look", "seen")));
        run(&agent).await;
        let asked = provider.requests().iter().filter(|r| r.model.id == "small").count();
        assert_eq!(asked, turns);
    }
}

fn limits(turns: u32) -> ExecutionLimits {
    ExecutionLimits::default().with_max_turns(turns)
}
