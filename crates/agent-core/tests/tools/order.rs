//! Which calls run beside each other, and what steering skips.

use agent_core::compat::SeedSetters as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_core::testing::{
    Latch, ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed, transcript,
};
use agent_core::{AgentEvent, BasicAgent, SteeringPolicy, ToolExecutionStrategy, ToolResult};
use serde_json::json;

use crate::room::{Notes, agent, boxed, model, results, run, said};

fn calling(count: usize, tool: &str) -> ScriptedReply {
    (0..count).fold(ScriptedReply::new(), |r, n| r.and_call(&format!("c{n}"), tool, json!({"n": n})))
}

/// B-097, REQ-045.
#[tokio::test]
async fn calls_run_beside_each_other_after_all_of_them_were_let_in() {
    let latch = Latch::new();
    let (hold, notes) = (latch.clone(), Notes::default());
    let ran = notes.clone();
    let tool = ScriptedTool::new("t", move |_, _| {
        ran.add("ran");
        let hold = hold.clone();
        async move {
            hold.wait().await;
            Ok("ok".into())
        }
    });
    let asked = notes.clone();
    let hooks = agent_core::Hooks::new().before_tool(move |call| {
        let asked = asked.clone();
        async move {
            asked.add(format!("ask({})", call.call.id));
            tokio::task::yield_now().await;
            asked.add(format!("asked({})", call.call.id));
            true
        }
    });
    let model = model([calling(3, "t"), "done".into()]);
    let agent = agent(&model).with_tools(boxed([tool])).with_hooks(hooks);
    let events = agent.prompt("go").unwrap();
    for _ in 0..3 {
        latch.reached().await;
    }
    for _ in 0..3 {
        latch.open();
    }
    assert_well_formed(&events.collect().await);
    assert_eq!(notes.joined(), "ask(c0) asked(c0) ask(c1) asked(c1) ask(c2) asked(c2) ran ran ran");
}

/// B-098.
#[tokio::test]
async fn ends_come_as_they_come_and_results_in_the_order_of_the_calls() {
    let latch = Latch::new();
    let hold = latch.clone();
    let slow = ScriptedTool::new("slow", move |_, _| {
        let hold = hold.clone();
        async move {
            hold.wait().await;
            Ok("slow".into())
        }
    });
    let model =
        model([ScriptedReply::call("a", "slow", json!({})).and_call("b", "fast", json!({})), "done".into()]);
    let agent = agent(&model).with_tools(boxed([slow, ScriptedTool::saying("fast", "fast")]));
    let mut stream = agent.prompt("go").unwrap();
    let mut events = Vec::new();
    while let Some(event) = stream.recv().await {
        if let AgentEvent::ToolExecutionEnd(end) = &event
            && end.tool_call_id == *"b"
        {
            latch.open();
        }
        events.push(event);
    }
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user assistant() tool+(a) tool+(b) tool-(b) tool-(a) result(a) result(b) turn_end \
         turn_start assistant(done) turn_end agent_end(completed)"
    );
    let turn = events.iter().find_map(|e| match e {
        AgentEvent::TurnEnd { tool_results, .. } => {
            Some(tool_results.iter().map(|r| r.text()).collect::<Vec<_>>())
        }
        _ => None,
    });
    assert_eq!(turn.unwrap(), ["slow", "fast"]);
}

const ONE_BY_ONE: &str = "tool+(c0) tool-(c0) tool+(c1) tool-(c1) tool+(c2) tool-(c2)";

/// B-100, REQ-084.
#[tokio::test]
async fn one_after_the_other_means_that_a_call_begins_when_the_one_before_has_ended() {
    let model = model([calling(3, "t"), "done".into()]);
    let agent = agent(&model)
        .with_tools(boxed([ScriptedTool::saying("t", "ok")]))
        .with_tool_execution(ToolExecutionStrategy::Sequential);
    assert!(transcript(&run(&agent).await).contains(ONE_BY_ONE));
}

/// B-099.
#[tokio::test]
async fn one_sequential_tool_makes_the_whole_reply_sequential() {
    let model = model([calling(2, "t").and_call("c2", "alone", json!({})), "done".into()]);
    let agent = agent(&model).with_tools(boxed([
        ScriptedTool::saying("t", "ok"),
        ScriptedTool::saying("alone", "ok").sequential(),
    ]));
    assert!(transcript(&run(&agent).await).contains(ONE_BY_ONE));
}

/// B-108.
#[tokio::test]
async fn of_a_thousand_calls_at_most_so_many_run_at_once() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (running, peak) = (Arc::clone(&now), Arc::clone(&most));
    let tool = ScriptedTool::new("t", move |args, _| {
        let (running, peak) = (Arc::clone(&running), Arc::clone(&peak));
        async move {
            peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(ToolResult::text(args["n"].to_string()))
        }
    });
    let model = model([calling(1_000, "t"), "done".into()]);
    let agent = agent(&model).with_tools(boxed([tool])).with_max_concurrent_tools(7);
    let events = run(&agent).await;
    assert_eq!(most.load(Ordering::SeqCst), 7);
    let said: Vec<String> = results(&events).iter().map(said).collect();
    assert_eq!(said, (0..1_000).map(|n| n.to_string()).collect::<Vec<_>>());
}

/// Five calls, and a message that comes when the first begins.
async fn steered(strategy: ToolExecutionStrategy, policy: SteeringPolicy) -> (String, ScriptedProvider) {
    let model = model([calling(5, "t"), "done".into()]);
    let agent = agent(&model)
        .with_tools(boxed([ScriptedTool::saying("t", "ok")]))
        .with_tool_execution(strategy)
        .with_steering_policy(policy);
    steer_at_first_start(&agent);
    let events = run(&agent).await;
    for result in results(&events).iter().filter(|r| r.is_error) {
        assert_eq!(said(result), "Skipped due to queued user message.");
    }
    (transcript(&events), model)
}

fn steer_at_first_start(agent: &BasicAgent) {
    let handle = agent.handle();
    agent.subscribe(move |event| {
        if matches!(event, AgentEvent::ToolExecutionStart { tool_call_id, .. } if *tool_call_id == *"c0") {
            handle.steer("wait");
        }
    });
}

#[track_caller]
fn skipped(words: &str) -> Vec<&str> {
    words.split(' ').filter_map(|w| w.strip_prefix("result!(")).collect()
}

/// REQ-084, REQ-080.
#[tokio::test]
async fn steering_skips_what_has_not_begun_when_calls_run_one_after_the_other() {
    let (words, model) = steered(ToolExecutionStrategy::Sequential, SteeringPolicy::SkipRemaining).await;
    assert_eq!(skipped(&words), ["c1)", "c2)", "c3)", "c4)"]);
    assert!(words.ends_with("turn_end turn_start user assistant(done) turn_end agent_end(completed)"));
    assert_eq!(model.requests()[1].messages().last().unwrap().text(), "wait");
}

/// REQ-085.
#[tokio::test]
async fn steering_is_looked_for_once_after_calls_that_run_all_at_once() {
    let (words, _) = steered(ToolExecutionStrategy::Parallel, SteeringPolicy::SkipRemaining).await;
    assert_eq!(skipped(&words), Vec::<&str>::new());
    assert!(words.ends_with("turn_end turn_start user assistant(done) turn_end agent_end(completed)"));
}

/// REQ-086.
#[tokio::test]
async fn steering_is_looked_for_between_groups() {
    let (words, _) = steered(ToolExecutionStrategy::Batched { size: 2 }, SteeringPolicy::SkipRemaining).await;
    assert_eq!(skipped(&words), ["c2)", "c3)", "c4)"]);
}

/// REQ-086.
#[tokio::test]
async fn groups_run_one_after_the_other() {
    let model = model([calling(3, "t"), "done".into()]);
    let agent = agent(&model)
        .with_tools(boxed([ScriptedTool::saying("t", "ok")]))
        .with_tool_execution(ToolExecutionStrategy::Batched { size: 2 });
    let words = transcript(&run(&agent).await);
    assert!(words.contains("tool+(c0) tool+(c1) tool-(c0) tool-(c1) tool+(c2) tool-(c2)"), "{words}");
}

/// A caller who wants no call skipped says so.
#[tokio::test]
async fn steering_after_the_turn_skips_nothing() {
    for strategy in [ToolExecutionStrategy::Sequential, ToolExecutionStrategy::Batched { size: 2 }] {
        let (words, _) = steered(strategy, SteeringPolicy::AfterTurn).await;
        assert_eq!(skipped(&words), Vec::<&str>::new());
        assert!(words.ends_with("turn_end turn_start user assistant(done) turn_end agent_end(completed)"));
    }
}
