//! What comes of a call.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_core::compat::SeedSetters as _;
use agent_core::testing::{Latch, ManualEnvironment, ScriptedReply, ScriptedTool, transcript};
use agent_core::tool::FileAccess;
use agent_core::{
    AgentEvent, Effects, ExecutionLimits, Hooks, LoopId, ToolContext, ToolError, ToolResult, Verdict,
};
use serde_json::{Value, json};

use crate::room::{agent, agent_in, boxed, model, result, results, run, said, tool_ends};

fn calling(tool: &str) -> ScriptedReply {
    ScriptedReply::call("a", tool, json!({}))
}

async fn ended_with(error: ToolError) -> (String, bool, usize) {
    let model = model([calling("t"), "done".into()]);
    let tool = ScriptedTool::new("t", move |_, _| {
        let error = error.clone();
        async move { Err(error) }
    });
    let events = run(&agent(&model).with_tools(boxed([tool]))).await;
    let result = result(&events);
    (said(&result), result.is_error, model.requests().len())
}

/// REQ-078, REQ-080.
#[tokio::test]
async fn the_error_of_a_tool_goes_to_the_model_as_its_result() {
    let told = |text: &str| (text.to_owned(), true, 2);
    assert_eq!(ended_with(ToolError::Failed("no such file".into())).await, told("no such file"));
    assert_eq!(ended_with(ToolError::InvalidArgs("days < 0".into())).await, told("days < 0"));
    assert_eq!(ended_with(ToolError::NotFound("inner".into())).await, told("Tool inner not found"));
    assert_eq!(ended_with(ToolError::Cancelled).await, told("Operation aborted"));
}

/// B-105, B-106.
#[tokio::test]
async fn a_failed_result_keeps_its_details_and_no_content_is_an_empty_list() {
    let model = model([calling("t").and_call("b", "empty", json!({})), "done".into()]);
    let failed = ScriptedTool::new("t", |_, _| async {
        Ok(ToolResult::text("2 of 3").failed().with_details(json!({"left": 1})))
    });
    let empty = ScriptedTool::new("empty", |_, _| async { Ok(ToolResult::content(Vec::new())) });
    let events = run(&agent(&model).with_tools(boxed([failed, empty]))).await;
    let results = results(&events);
    assert!(results[0].is_error && results[0].details == json!({"left": 1}));
    assert!(results[1].content.is_empty() && !results[1].is_error);
    let sent = model.requests().pop().unwrap();
    let shown = sent.messages().filter_map(|m| m.as_tool_result()).map(|r| r.is_error).collect::<Vec<_>>();
    assert_eq!(shown, [true, false]);
}

/// B-107, REQ-046.
#[tokio::test]
async fn a_call_that_ran_says_how_long_and_one_that_did_not_says_nothing() {
    let env = ManualEnvironment::at(1_000);
    let clock = env.clone();
    let slow = ScriptedTool::new("slow", move |_, _| {
        clock.advance(Duration::from_millis(25));
        async { Ok("ok".into()) }
    });
    let model = model([calling("slow").and_call("b", "unknown", json!({})), "done".into()]);
    let events = run(&agent_in(&model, &env).with_tools(boxed([slow]))).await;
    let took: Vec<_> = results(&events).iter().map(|r| r.duration_ms).collect();
    assert_eq!(took, [Some(25), None]);
    let mut ends: Vec<_> =
        tool_ends(&events).into_iter().map(|e| (e.tool_call_id.to_string(), e.duration_ms)).collect();
    ends.sort();
    assert_eq!(ends, [("a".to_owned(), Some(25)), ("b".to_owned(), None)]);
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user assistant() tool+(a) tool+(b) tool-!(b) tool-(a) result(a) result!(b) turn_end \
         turn_start assistant(done) turn_end agent_end(completed)"
    );
}

/// REQ-046.
#[tokio::test]
async fn a_tool_knows_its_call_its_loop_and_a_key_and_speaks_to_nobody_after_its_end() {
    let seen: Arc<Mutex<Option<ToolContext>>> = Arc::default();
    let note = Arc::clone(&seen);
    let tool = ScriptedTool::new("t", move |_, ctx| {
        *note.lock().unwrap() = Some(ctx);
        async { Ok("ok".into()) }
    });
    let model = model([calling("t"), "done".into()]);
    let limits = ExecutionLimits::unlimited().with_max_turns(7);
    let agent = agent(&model).with_tools(boxed([tool])).with_session_id("s-1").with_config_id("c");
    run(&agent.with_limits(limits)).await;
    let ctx = seen.lock().unwrap().take().unwrap();
    assert_eq!(ctx.limits(), Some(limits));
    assert_eq!(ctx.denies_file("a.txt", FileAccess::Write), None, "the run has no policy");
    assert_eq!((ctx.tool_call_id.as_str(), ctx.tool_name.as_str()), ("a", "t"));
    assert_eq!(ctx.loop_id.as_str(), "s-1.c.1");
    assert_eq!(ctx.step_key.as_str(), "tool-0-a");
    assert!(ctx.provider().is_some());
    // The call is over: what it says now is heard by nobody, and does no harm.
    ctx.on_progress("late");
}

/// B-104, REQ-142, REQ-143.
#[tokio::test]
async fn what_a_tool_shows_comes_in_order_and_before_its_end_and_late_words_are_dropped() {
    let kept: Arc<Mutex<Option<ToolContext>>> = Arc::default();
    let keep = Arc::clone(&kept);
    let tool = ScriptedTool::new("t", move |_, ctx| {
        *keep.lock().unwrap() = Some(ctx.clone());
        async move {
            for n in 0..3 {
                ctx.on_update(ToolResult::text(format!("part {n}")));
                ctx.on_progress(format!("{n} of 3"));
            }
            Ok("whole".into())
        }
    });
    // The other call still runs when the first has ended, so that somebody could still hear it.
    let latch = Latch::new();
    let hold = latch.clone();
    let slow = ScriptedTool::new("slow", move |_, _| {
        let hold = hold.clone();
        async move {
            hold.wait().await;
            Ok("ok".into())
        }
    });
    let model = model([calling("t").and_call("b", "slow", json!({})), "done".into()]);
    let agent = agent(&model).with_tools(boxed([tool, slow]));
    let mut events = agent.prompt("go").unwrap();
    let mut shown = Vec::new();
    while let Some(event) = events.recv().await {
        match event {
            AgentEvent::ToolExecutionUpdate { tool_call_id, tool_name, partial_result, .. } => {
                assert_eq!((tool_call_id.as_str(), tool_name.as_str()), ("a", "t"));
                shown.push(partial_result.to_text());
            }
            AgentEvent::ProgressMessage { tool_call_id, text, .. } => {
                shown.push(format!("{tool_call_id}: {text}"));
            }
            AgentEvent::ToolExecutionEnd(end) if end.tool_call_id == *"b" => shown.push("end of b".into()),
            AgentEvent::ToolExecutionEnd(_) => {
                shown.push("end".into());
                let late = kept.lock().unwrap().clone().unwrap();
                late.on_update(ToolResult::text("late"));
                late.on_progress("late");
                latch.open();
            }
            _ => {}
        }
    }
    assert_eq!(
        shown,
        ["part 0", "a: 0 of 3", "part 1", "a: 1 of 3", "part 2", "a: 2 of 3", "end", "end of b"]
    );
}

/// REQ-194.
#[tokio::test]
async fn the_loop_of_a_sub_agent_is_named_in_the_end_and_in_the_result() {
    let child = ScriptedTool::new("child", |_, _| async {
        Ok(ToolResult::text("found").with_child_loop(LoopId::from("s.child.1")))
    });
    let plain = ScriptedTool::saying("plain", "ok");
    let model = model([calling("child").and_call("b", "plain", json!({})), "done".into()]);
    let events = run(&agent(&model).with_tools(boxed([child, plain]))).await;
    let of = |id: &str| tool_ends(&events).into_iter().find(|e| e.tool_call_id == *id).unwrap();
    assert_eq!(of("a").child_loop_id, Some(LoopId::from("s.child.1")));
    assert_eq!(of("b").child_loop_id, None);
    let messages: Vec<_> = results(&events).into_iter().map(|r| r.child_loop_id).collect();
    assert_eq!(messages, [Some(LoopId::from("s.child.1")), None]);
}

fn ending(name: &str) -> ScriptedTool {
    ScriptedTool::new(name, |_, _| async { Ok(ToolResult::text("sent").terminating()) })
}

/// B-101.
#[tokio::test]
async fn the_loop_ends_when_every_result_says_so_and_only_then() {
    let both = model([calling("end").and_call("b", "end", json!({}))]);
    let events = run(&agent(&both).with_tools(boxed([ending("end")]))).await;
    assert!(transcript(&events).ends_with("result(b) turn_end agent_end(completed)"));
    assert_eq!(both.requests().len(), 1);

    let one = model([calling("end").and_call("b", "go_on", json!({})), "done".into()]);
    let agent = agent(&one).with_tools(boxed([ending("end"), ScriptedTool::saying("go_on", "ok")]));
    run(&agent).await;
    assert_eq!(one.requests().len(), 2);
}

/// B-102.
#[tokio::test]
async fn a_follow_up_is_taken_after_calls_that_end_the_loop() {
    let model = model([calling("end"), "done".into()]);
    let agent = agent(&model).with_tools(boxed([ending("end")]));
    agent.follow_up("and then");
    let events = run(&agent).await;
    assert!(
        transcript(&events)
            .ends_with("turn_end turn_start user assistant(done) turn_end agent_end(completed)")
    );
}

/// B-103.
#[tokio::test]
async fn a_hook_may_end_the_loop_by_its_change_or_by_its_denial() {
    use agent_core::ToolChange;
    let changed = model([calling("t")]);
    let hooks = Hooks::new().after_tool(|_| async { ToolChange::none().with_terminate(true) });
    let tool = ScriptedTool::saying("t", "ok");
    run(&agent(&changed).with_tools(boxed([tool.clone()])).with_hooks(hooks)).await;
    assert_eq!(changed.requests().len(), 1);

    let denied = model([calling("t")]);
    let hooks = Hooks::new().before_tool(|_| async { Verdict::DenyAndEnd("enough".into()) });
    let events = run(&agent(&denied).with_tools(boxed([tool.clone()])).with_hooks(hooks)).await;
    assert_eq!(denied.requests().len(), 1);
    assert_eq!(said(&result(&events)), "enough");
}

/// B-083.
#[tokio::test]
async fn a_panicking_tool_gives_an_error_result_and_the_loop_goes_on() {
    let model = model([calling("t").and_call("b", "fine", json!({})), "done".into()]);
    let bad = ScriptedTool::new("t", |_, _| async { panic!("index out of range") });
    let agent = agent(&model).with_tools(boxed([bad, ScriptedTool::saying("fine", "ok")]));
    let events = run(&agent).await;
    let results = results(&events);
    assert!(results[0].is_error && said(&results[0]).contains("index out of range"), "{results:?}");
    assert_eq!(said(&results[1]), "ok");
    assert!(transcript(&events).ends_with("agent_end(completed)"));
}

struct Careless(&'static str);

#[async_trait::async_trait]
impl agent_core::AgentTool for Careless {
    fn name(&self) -> &'static str {
        "careless"
    }

    fn description(&self) -> &'static str {
        "Panics outside its execution"
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }

    async fn execute(&self, _: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        Ok("ran".into())
    }

    fn effects(&self, _: &Value) -> Effects {
        assert!(self.0 != "effects", "lost in effects");
        Effects::ReadOnly
    }

    fn question(&self, _: &Value) -> Option<String> {
        assert!(self.0 != "question", "lost in question");
        None
    }

    fn timeout(&self) -> Option<Duration> {
        assert!(self.0 != "timeout", "lost in timeout");
        None
    }

    fn prepare_arguments(&self, arguments: Value) -> Value {
        assert!(self.0 != "prepare_arguments", "lost in prepare_arguments");
        arguments
    }
}

/// B-083.
#[tokio::test]
async fn a_tool_that_panics_before_it_runs_gives_an_error_result_too() {
    for place in ["effects", "question", "timeout", "prepare_arguments"] {
        let model = model([calling("careless"), "done".into()]);
        let events = run(&agent(&model).with_tool(Careless(place))).await;
        let result = result(&events);
        assert!(result.is_error && said(&result).contains(place), "{place}: {result:?}");
        assert!(transcript(&events).ends_with("agent_end(completed)"), "{place}: {}", transcript(&events));
    }
}

/// A tool that takes too long is cancelled, given its grace, and answered for.
#[tokio::test]
async fn a_tool_that_takes_too_long_is_cancelled_and_the_loop_goes_on() {
    let env = ManualEnvironment::at(0);
    let latch = Latch::new();
    let hold = latch.clone();
    let tool = ScriptedTool::new("t", move |_, _| {
        let hold = hold.clone();
        async move {
            hold.wait().await;
            Ok("never".into())
        }
    })
    .with_timeout(Duration::from_secs(5));
    let model = model([calling("t"), "done".into()]);
    let agent = agent_in(&model, &env).with_tools(boxed([tool]));
    let events = agent.prompt("go").unwrap();
    latch.reached().await;
    env.sleeps_begun(1).await;
    env.advance(Duration::from_secs(5));
    env.sleeps_begun(2).await;
    env.advance(Duration::from_secs(1));
    let events = events.collect().await;
    assert_eq!(said(&result(&events)), "Tool exceeded timeout of 5s");
    assert!(transcript(&events).ends_with("agent_end(completed)"));
}
