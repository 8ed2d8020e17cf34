//! The loop from end to end.

use agent_core::compat::SeedSetters as _;
use agent_core::compat::SeedVerbs as _;
use agent_core::testing::{Latch, ScriptedReply, ScriptedTool, assert_well_formed, transcript};
use agent_core::{
    AgentEvent, ContextConfig, ExecutionLimits, FilterResult, Message, RunEnd, StopCause, ToolResult,
};
use serde_json::json;

use crate::room::{agent, boxed, model, run};

/// REQ-169.
#[tokio::test]
async fn a_text_is_answered_in_one_turn() {
    let model = model(["hello".into()]);
    let agent = agent(&model).with_system_prompt("be kind");
    assert_eq!(
        transcript(&run(&agent).await),
        "agent_start turn_start user assistant(hello) turn_end agent_end(completed)"
    );
    assert_eq!(&*model.requests()[0].system_prompt, "be kind");
}

/// REQ-169.
#[tokio::test]
async fn tools_are_called_over_several_turns_and_the_model_sees_their_results() {
    let model = model([
        ScriptedReply::call("a", "add", json!({"x": 1, "y": 2})),
        ScriptedReply::call("b", "add", json!({"x": 3, "y": 4})),
        "seven".into(),
    ]);
    let add = ScriptedTool::new("add", |args, _| async move {
        Ok(ToolResult::text((args["x"].as_i64().unwrap() + args["y"].as_i64().unwrap()).to_string()))
    });
    let events = run(&agent(&model).with_tools(boxed([add]))).await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user assistant() tool+(a) tool-(a) result(a) turn_end turn_start assistant() tool+(b) \
         tool-(b) result(b) turn_end turn_start assistant(seven) turn_end agent_end(completed)"
    );
    let seen = |n: usize| model.requests()[n].messages().filter_map(Message::as_tool_result).count();
    assert_eq!([seen(0), seen(1), seen(2)], [0, 1, 2]);
    assert_eq!(model.requests()[2].messages().last().unwrap().text(), "7");
}

/// REQ-169.
#[tokio::test]
async fn a_steering_message_in_mid_run_is_answered() {
    let latch = Latch::new();
    let model = model([ScriptedReply::text("working").and_wait(&latch), "as you wish".into()]);
    let agent = agent(&model);
    let events = agent.prompt("go").unwrap();
    latch.reached().await;
    agent.steer("rather not");
    latch.open();
    let events = events.collect().await;
    assert_well_formed(&events);
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user assistant(working) turn_end turn_start user assistant(as you wish) turn_end \
         agent_end(completed)"
    );
}

/// REQ-169.
#[tokio::test]
async fn follow_ups_are_taken_one_by_one_when_nothing_else_is_left() {
    let model = model(["one".into(), "two".into(), "three".into()]);
    let agent = agent(&model);
    agent.follow_up("second");
    agent.follow_up("third");
    let events = run(&agent).await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user assistant(one) turn_end turn_start user assistant(two) turn_end turn_start user \
         assistant(three) turn_end agent_end(completed)"
    );
    assert!(!agent.has_queued_messages());
}

/// REQ-169.
#[tokio::test]
async fn a_limit_ends_a_run_that_would_go_on() {
    let calls = (0..10).map(|n| ScriptedReply::call(&format!("c{n}"), "t", json!({})));
    let model = model(calls);
    let agent = agent(&model)
        .with_tools(boxed([ScriptedTool::saying("t", "ok")]))
        .with_execution_limits(ExecutionLimits::default().with_max_turns(3));
    let events = run(&agent).await;
    assert!(transcript(&events).ends_with("turn_end user agent_end(limit)"), "{}", transcript(&events));
    assert_eq!(model.requests().len(), 3);
    let Some(RunEnd::Stopped(StopCause::Limit { reason })) = agent.finish().await else { panic!() };
    assert_eq!(reason, "max turns exceeded");
}

/// REQ-169.
#[tokio::test]
async fn a_long_conversation_is_compacted_before_the_call() {
    let calls = (0..12).map(|n| ScriptedReply::call(&format!("c{n}"), "t", json!({})));
    let model = model(calls.chain(["done".into()]));
    let config = ContextConfig::default()
        .with_max_context_tokens(600)
        .with_system_prompt_tokens(0)
        .with_keep_recent(4);
    let agent = agent(&model)
        .with_tools(boxed([ScriptedTool::saying("t", "line of output\n".repeat(20))]))
        .with_context_config(config);
    let events = run(&agent).await;
    let compactions = events.iter().filter(|e| matches!(e, AgentEvent::CompactionEnded(_))).count();
    assert!(compactions > 0);
    for request in model.requests() {
        assert!(request.history.tokens() <= 600);
    }
    assert!(transcript(&events).ends_with("assistant(done) turn_end agent_end(completed)"));
}

/// REQ-169.
#[tokio::test]
async fn a_prompt_that_a_filter_refuses_reaches_no_model() {
    let model = model([]);
    let agent = agent(&model).with_input_filter(|text: &str| {
        if text.contains("go") { FilterResult::Reject("no going".into()) } else { FilterResult::Pass }
    });
    let events = run(&agent).await;
    assert_eq!(transcript(&events), "agent_start input_rejected agent_end(input_rejected)");
    assert!(model.requests().is_empty() && agent.messages().is_empty());
}
