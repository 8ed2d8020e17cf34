//! Sub-agents inside of a run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

use agent_core::compat::SeedSetters as _;
use std::sync::Arc;
use std::time::Duration;

use agent_core::testing::{Latch, ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed};
use agent_core::tool::{ToolSignal, ToolUpdates};
use agent_core::{
    AgentEvent, AgentTool, ApiProtocol, BasicAgent, Ended, ErrorKind, LoopId, Message, ModelConfig,
    ModelRequest, RetryConfig, StreamDelta, ToolContext, ToolExecutionEnd, Usage, Verdict,
};
use agent_tools::SubAgentTool;
use agent_tools::sub_agent::NO_TEXT;
use serde_json::json;

/// Far more than anything here takes.
const HANG: Duration = Duration::from_secs(30);

fn model(id: &str) -> ModelConfig {
    ModelConfig::new(ApiProtocol::AnthropicMessages, "p", id)
}

/// A world in which the caller's model is `boss` and the children's are others.
fn world(
    boss: impl Fn(&ModelRequest) -> ScriptedReply + Send + Sync + 'static,
    child: impl Fn(&ModelRequest) -> ScriptedReply + Send + Sync + 'static,
) -> ScriptedProvider {
    ScriptedProvider::responding(move |r| if r.model.id == "boss" { boss(r) } else { child(r) })
}

fn delegate(calls: usize) -> impl Fn(&ModelRequest) -> ScriptedReply + Send + Sync {
    move |request| {
        if request.messages().count() > 1 {
            return "done".into();
        }
        (0..calls).fold(ScriptedReply::new(), |reply, n| {
            reply.and_call(&format!("c{n}"), "helper", json!({"task": format!("task {n}")}))
        })
    }
}

fn agent(provider: &ScriptedProvider, child: SubAgentTool) -> BasicAgent {
    BasicAgent::new(model("boss"))
        .with_provider(provider.clone())
        .with_retry_config(RetryConfig::none())
        .with_tool(child)
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

/// The ends of the caller's own calls.
fn ends(events: &[AgentEvent]) -> Vec<ToolExecutionEnd> {
    let own = events.last().unwrap().loop_id();
    let ends = events.iter().filter_map(|e| match e {
        AgentEvent::ToolExecutionEnd(end) if end.loop_id == *own => Some((**end).clone()),
        _ => None,
    });
    ends.collect()
}

/// REQ-148, REQ-137, REQ-194.
#[tokio::test]
async fn a_task_is_done_by_another_model_and_its_answer_comes_back() {
    let provider = world(delegate(1), |_| ScriptedReply::text("42").using(Usage::new(5, 2, 0, 0)));
    let agent = agent(&provider, helper().with_system_prompt("Count."));
    let events = run(&agent).await;
    let end = ends(&events).remove(0);
    assert_eq!((end.result.to_text().as_str(), end.is_error), ("42", false));
    assert_eq!(end.result.details, json!({"sub_agent": "helper", "turns": 1}));
    let asked = provider.requests().into_iter().find(|r| r.model.id == "small").unwrap();
    assert_eq!(&*asked.system_prompt, "Count.");
    let shown: Vec<String> = asked.messages().map(Message::text).collect();
    assert_eq!(shown, ["task 0"], "the child knows its task and nothing else");
    let child = end.child_loop_id.unwrap();
    assert!(child.as_str().ends_with(".sub.1"), "{child}");
    match events.last() {
        Some(AgentEvent::AgentEnd(end)) => {
            assert_eq!((end.tool_usage.input, end.tool_usage.output), (5, 2), "its tokens are counted apart");
            assert_eq!(end.ended, Ended::Completed);
        }
        other => panic!("{other:?}"),
    }
}

/// REQ-150.
#[tokio::test]
async fn what_the_child_says_and_does_is_seen_while_it_runs() {
    let (latch, tools) =
        (Latch::new(), vec![Arc::new(ScriptedTool::saying("look", "seen")) as Arc<dyn AgentTool>]);
    let held = latch.clone();
    let provider = world(delegate(1), move |request| {
        if request.messages().count() == 1 {
            return ScriptedReply::text("I look").and_wait(&held).and_call("k", "look", json!({}));
        }
        "found".into()
    });
    let agent = agent(&provider, helper().with_tools(tools));
    let mut events = agent.prompt("go").unwrap();
    let mut seen = Vec::new();
    while let Some(event) = tokio::time::timeout(HANG, events.recv()).await.expect("it hangs") {
        match event {
            AgentEvent::MessageUpdate { loop_id, delta: StreamDelta::Text { text }, .. } => {
                seen.push(format!("{} {text}", level(&loop_id)));
                latch.open(); // the child goes on only when this was heard
            }
            AgentEvent::ToolExecutionStart { loop_id, tool_name, args, .. } => {
                seen.push(format!("{} calls {tool_name} {}", level(&loop_id), args.text()));
            }
            AgentEvent::ToolExecutionEnd(end) => {
                seen.push(format!("{} got {}", level(&end.loop_id), end.result.to_text()));
            }
            AgentEvent::ToolExecutionUpdate { .. } => panic!("a text is no partial result"),
            _ => {}
        }
    }
    assert_eq!(
        seen,
        [
            "boss calls helper {\"task\":\"task 0\"}",
            "child I look",
            "child calls look {}",
            "child got seen",
            "child found",
            "boss got found",
            "boss done",
        ]
    );
}

fn level(loop_id: &LoopId) -> &'static str {
    if loop_id.as_str().contains(".sub.") { "child" } else { "boss" }
}

/// REQ-150. A tool that is called without a driver, for example inside of another tool, reports the text so far.
#[tokio::test]
async fn a_child_without_a_driver_reports_its_text_so_far() {
    let provider = ScriptedProvider::responding(|request| match request.messages().count() {
        1 => ScriptedReply::text("I look").and_call("k", "look", json!({})),
        _ => "found".into(),
    });
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut ctx = ToolContext::detached("helper", Arc::new(agent_core::SystemEnvironment));
    let said = Arc::clone(&seen);
    ctx.updates = ToolUpdates::new(move |signal| {
        said.lock().unwrap().push(match signal {
            ToolSignal::Update(partial) => {
                assert_eq!(partial.details, json!({"sub_agent": "helper"}));
                partial.to_text()
            }
            ToolSignal::Progress(text) => text,
            other => panic!("{other:?}"),
        });
    });
    let tool = helper().with_provider(provider).with_tool(ScriptedTool::saying("look", "seen"));
    let result = tool.execute(json!({"task": "x"}), ctx).await.unwrap();
    assert_eq!(result.to_text(), "found");
    assert_eq!(*seen.lock().unwrap(), ["I look", "[sub-agent calling tool: look]", "I look\nfound"]);
}

/// REQ-141.
#[tokio::test]
async fn an_abort_of_the_caller_ends_its_children_at_once() {
    let provider = world(delegate(2), |_| ScriptedReply::text("hm").and_hang());
    let agent = agent(&provider, helper());
    let mut events = agent.prompt("go").unwrap();
    let mut heard = 0;
    while heard < 2 {
        let event = tokio::time::timeout(HANG, events.recv()).await.expect("it hangs").unwrap();
        heard += usize::from(matches!(event, AgentEvent::MessageUpdate { .. }));
    }
    agent.abort();
    let rest = tokio::time::timeout(HANG, events.collect()).await.expect("it hangs");
    match rest.last() {
        Some(AgentEvent::AgentEnd(end)) => assert_eq!(end.ended, Ended::Aborted),
        other => panic!("{other:?}"),
    }
    let ends = ends(&rest);
    assert!(ends.len() == 2 && ends.iter().all(|e| e.is_error), "{ends:?}");
}

#[tokio::test]
async fn a_time_limit_on_the_call_ends_the_child() {
    let provider = world(delegate(1), |_| ScriptedReply::text("hm").and_hang());
    let agent = agent(&provider, helper()).with_tool_timeout(Duration::from_millis(50));
    let end = ends(&run(&agent).await).remove(0);
    assert!(end.is_error && end.result.to_text().contains("timeout"), "{end:?}");
}

/// REQ-148.
#[tokio::test]
async fn children_of_one_reply_run_beside_each_other() {
    let (both, arrived) = (Latch::new(), Arc::new(std::sync::atomic::AtomicUsize::new(0)));
    let provider = world(delegate(2), move |_| {
        if arrived.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 1 {
            both.open();
            both.open();
        }
        ScriptedReply::new().and_wait(&both).and_text("both are here")
    });
    let ends = ends(&run(&agent(&provider, helper())).await);
    assert!(ends.iter().all(|e| e.result.to_text() == "both are here"), "{ends:?}");
    assert_ne!(ends[0].child_loop_id, ends[1].child_loop_id);
}

/// REQ-163.
#[tokio::test]
async fn however_the_child_ends_the_caller_is_told() {
    async fn check(
        child: impl Fn(&ModelRequest) -> ScriptedReply + Send + Sync + 'static,
        tool: fn(SubAgentTool) -> SubAgentTool,
        words: &'static [&'static str],
        is_error: bool,
    ) {
        let provider = world(delegate(1), child);
        let end = ends(&run(&agent(&provider, tool(helper()))).await).remove(0);
        let text = end.result.to_text();
        assert_eq!(end.is_error, is_error, "{text}");
        assert!(words.iter().all(|w| text.contains(w)), "{text}");
    }
    let fails =
        |_: &ModelRequest| ScriptedReply::text("so far").failing(ErrorKind::Quota, "credit is used up");
    check(fails, |t| t, &["so far", "the sub-agent failed", "credit is used up"], true).await;
    let dead = |_: &ModelRequest| ScriptedReply::error(ErrorKind::Auth, "wrong key");
    check(dead, |t| t, &[NO_TEXT, "wrong key"], true).await;
    check(|_| ScriptedReply::new().and_thinking("hm", None), |t| t, &[NO_TEXT], false).await;
    let endless = |_: &ModelRequest| ScriptedReply::text("more").and_call("", "nothing", json!({}));
    check(endless, |t| t.with_max_turns(3), &["more", "the sub-agent was stopped: max turns"], false).await;
    check(|_| panic!("broken"), |t| t, &["panicked"], true).await;
}

/// REQ-195.
#[tokio::test]
async fn the_child_names_its_caller_or_who_it_is_told_to_name() {
    #[derive(Debug, Default)]
    struct Starts(std::sync::Mutex<Vec<(String, Option<String>)>>);
    #[async_trait::async_trait]
    impl agent_core::journal::Journal for Starts {
        async fn append(
            &self,
            entry: agent_core::journal::JournalEntry<'_>,
        ) -> Result<(), agent_core::journal::JournalError> {
            for event in entry.events {
                if let AgentEvent::AgentStart(start) = event {
                    let parent = start.parent_loop_id.as_ref().map(ToString::to_string);
                    self.0.lock().unwrap().push((start.loop_id.to_string(), parent));
                }
            }
            Ok(())
        }
    }
    for (told, tool) in
        [(None, helper()), (Some("parent.loop.1"), helper().with_parent_loop_id("parent.loop.1"))]
    {
        let provider = world(delegate(1), |_| "ok".into());
        let starts = Arc::new(Starts::default());
        let agent = agent(&provider, tool).with_journal(starts.clone());
        run(&agent).await;
        let starts = starts.0.lock().unwrap();
        assert_eq!(starts.len(), 2, "the child is written down where its caller is");
        assert_eq!(starts[1].1.as_deref(), told.or(Some(starts[0].0.as_str())));
    }
}

#[tokio::test]
async fn nobody_can_be_asked_inside_of_a_child_without_a_driver() {
    let tools = || vec![Arc::new(ScriptedTool::saying("look", "seen")) as Arc<dyn AgentTool>];
    let provider = world(delegate(1), |request| {
        let last = request.messages().last().map(Message::text).unwrap_or_default();
        if request.messages().count() == 1 {
            return ScriptedReply::call("k", "look", json!({}));
        }
        ScriptedReply::text(last)
    });
    let child = helper().with_tools(tools()).configure(|c| {
        *c.hooks = agent_core::Hooks::new().before_tool(|_| async move { Verdict::Ask("may I?".into()) });
    });
    // Without a driver; with one, the question suspends the caller.
    let ctx = ToolContext::detached("helper", Arc::new(agent_core::SystemEnvironment));
    let result = child.with_provider(provider).execute(json!({"task": "x"}), ctx).await.unwrap();
    assert!(result.to_text().contains("nobody can be asked"), "{result:?}");
}

#[tokio::test]
async fn a_child_without_a_provider_or_a_task_is_an_error_that_says_so() {
    let environment = Arc::new(agent_core::SystemEnvironment);
    let ctx = || ToolContext::detached("helper", environment.clone());
    let alone = helper().execute(json!({"task": "x"}), ctx()).await.unwrap_err();
    assert!(alone.to_string().contains("with_provider"), "{alone}");
    let blank = helper().execute(json!({"task": " "}), ctx()).await.unwrap_err();
    assert!(blank.to_string().contains("blank"), "{blank}");
}

/// REQ-151.
#[tokio::test]
async fn a_child_may_have_children_and_their_tokens_are_counted_with_it() {
    let provider = ScriptedProvider::responding(|r| match (r.model.id.as_str(), r.messages().count()) {
        ("boss", 1) => ScriptedReply::call("a", "helper", json!({"task": "x"})),
        ("small", 1) => ScriptedReply::call("b", "tiny", json!({"task": "y"})).using(Usage::new(10, 0, 0, 0)),
        ("tiny", _) => ScriptedReply::text("leaf").using(Usage::new(100, 0, 0, 0)),
        _ => ScriptedReply::text("done").using(Usage::new(1, 0, 0, 0)),
    });
    let child = helper().with_tool(SubAgentTool::new("tiny", model("tiny")));
    let agent = agent(&provider, child);
    match run(&agent).await.last() {
        Some(AgentEvent::AgentEnd(end)) => assert_eq!((end.usage.input, end.tool_usage.input), (1, 111)),
        other => panic!("{other:?}"),
    }
}
