//! The order in which hooks fire.

use agent_core::compat::SeedSetters as _;
use agent_core::testing::{Latch, ScriptedReply, ScriptedTool, assert_well_formed, transcript};
use agent_core::{
    AgentEvent, BasicAgent, ErrorKind, FilterResult, Hooks, ToolChange, ToolExecutionStrategy, ToolResult,
};
use serde_json::json;

use crate::room::{Notes, agent, boxed, model, run};

/// Every hook there is, each leaving its name.
fn noted(notes: &Notes) -> Hooks {
    let note = |name: &'static str| {
        let notes = notes.clone();
        move |detail: String| notes.add(format!("{name}{detail}"))
    };
    let (loop_before, loop_after) = (note("BEFORE_LOOP"), note("AFTER_LOOP"));
    let (turn_before, turn_after) = (note("BEFORE_TURN"), note("AFTER_TURN"));
    let (transform, convert, key) = (note("TRANSFORM"), note("CONVERT"), note("KEY"));
    let (tool_before, tool_after) = (note("BEFORE_TOOL"), note("AFTER_TOOL"));
    let (update_before, update_after) = (note("BEFORE_UPDATE"), note("AFTER_UPDATE"));
    let (error, filter) = (note("ON_ERROR"), note("FILTER"));
    Hooks::new()
        .before_loop(move |_| {
            loop_before(String::new());
            async { true }
        })
        .after_loop(move |end| loop_after(format!("({})", end.messages.len())))
        .input_filter(move |text: &str| {
            filter(format!("({text})"));
            FilterResult::Pass
        })
        .before_turn(move |turn| {
            turn_before(format!("({})", turn.index));
            async { true }
        })
        .after_turn(move |turn| turn_after(format!("({})", turn.usage.output)))
        .transform_context(move |history| {
            transform(String::new());
            async { Ok(history) }
        })
        .convert_to_llm(move |history| {
            convert(String::new());
            async { Ok(history) }
        })
        .api_key(move |_| {
            key(String::new());
            async { Ok(None) }
        })
        .before_tool(move |call| {
            tool_before(format!("({})", call.call.id));
            async { true }
        })
        .after_tool(move |ended| {
            tool_after(format!("({})", ended.call.id));
            async { ToolChange::none() }
        })
        .before_tool_update(move |update| {
            update_before(format!("({})", update.call.id));
            async { true }
        })
        .after_tool_update(move |update| update_after(format!("({})", update.call.id)))
        .on_error(move |_| error(String::new()))
}

/// Hooks in capitals, events as they are heard.
fn watched(agent: &BasicAgent, notes: &Notes) {
    let heard = notes.clone();
    agent.subscribe(move |event| match event {
        AgentEvent::ToolExecutionUpdate { tool_call_id, .. } => heard.add(format!("update({tool_call_id})")),
        AgentEvent::MessageUpdate { .. } | AgentEvent::MessageStart { .. } => {}
        other => heard.add(transcript(std::slice::from_ref(other))),
    });
}

fn tools() -> Vec<std::sync::Arc<dyn agent_core::AgentTool>> {
    let showing = ScriptedTool::new("showing", |_, ctx| async move {
        ctx.on_update(ToolResult::text("1"));
        ctx.on_update(ToolResult::text("2"));
        Ok("ok".into())
    });
    boxed([showing, ScriptedTool::saying("plain", "ok")])
}

/// REQ-185, REQ-182, REQ-184.
#[tokio::test]
async fn hooks_and_events_come_in_one_fixed_order_over_turns_and_tools() {
    let notes = Notes::default();
    let model = model([
        ScriptedReply::call("a", "showing", json!({})).and_call("b", "plain", json!({})),
        ScriptedReply::call("c", "plain", json!({})),
        "done".into(),
    ]);
    let agent = agent(&model)
        .with_tools(tools())
        .with_tool_execution(ToolExecutionStrategy::Sequential)
        .with_hooks(noted(&notes));
    watched(&agent, &notes);
    run(&agent).await;
    let expect = "BEFORE_LOOP agent_start FILTER(go) \
        BEFORE_TURN(0) turn_start user TRANSFORM CONVERT KEY assistant() \
        BEFORE_TOOL(a) tool+(a) BEFORE_UPDATE(a) update(a) AFTER_UPDATE(a) BEFORE_UPDATE(a) update(a) AFTER_UPDATE(a) \
        tool-(a) AFTER_TOOL(a) BEFORE_TOOL(b) tool+(b) tool-(b) AFTER_TOOL(b) result(a) result(b) \
        turn_end AFTER_TURN(0) \
        BEFORE_TURN(1) turn_start TRANSFORM CONVERT KEY assistant() \
        BEFORE_TOOL(c) tool+(c) tool-(c) AFTER_TOOL(c) result(c) turn_end AFTER_TURN(0) \
        BEFORE_TURN(2) turn_start TRANSFORM CONVERT KEY assistant(done) turn_end AFTER_TURN(0) \
        agent_end(completed) AFTER_LOOP(7)";
    assert_eq!(notes.joined(), expect);
}

/// REQ-183, REQ-185.
#[tokio::test]
async fn side_by_side_each_hook_comes_before_the_start_of_its_call_and_all_starts_before_any_end() {
    let notes = Notes::default();
    let model = model([
        ScriptedReply::call("a", "plain", json!({})).and_call("b", "plain", json!({})),
        "done".into(),
    ]);
    let agent = agent(&model).with_tools(tools()).with_hooks(noted(&notes));
    watched(&agent, &notes);
    run(&agent).await;
    let calls: Vec<String> =
        notes.all().into_iter().filter(|n| n.contains("(a)") || n.contains("(b)")).collect();
    let words = calls.join(" ");
    assert!(words.starts_with("BEFORE_TOOL(a) tool+(a) BEFORE_TOOL(b) tool+(b) tool-("), "{words}");
    assert!(words.ends_with("result(a) result(b)"), "{words}");
    for id in ["a", "b"] {
        let end = calls.iter().position(|n| *n == format!("tool-({id})")).unwrap();
        let after = calls.iter().position(|n| *n == format!("AFTER_TOOL({id})")).unwrap();
        assert!(end < after);
    }
}

/// REQ-185, REQ-093.
#[tokio::test]
async fn an_error_is_told_between_its_message_and_the_end_of_the_turn_also_after_a_retry() {
    let notes = Notes::default();
    let model = model([
        ScriptedReply::error(ErrorKind::Network, "gone"),
        ScriptedReply::error(ErrorKind::Api, "it broke"),
    ]);
    let agent = agent(&model).with_hooks(noted(&notes));
    watched(&agent, &notes);
    run(&agent).await;
    assert_eq!(
        notes.joined(),
        "BEFORE_LOOP agent_start FILTER(go) BEFORE_TURN(0) turn_start user TRANSFORM CONVERT KEY retry+1 \
         TRANSFORM CONVERT KEY retry-!1 assistant!() ON_ERROR turn_end AFTER_TURN(0) agent_end(error) AFTER_LOOP(2)"
    );
}

/// REQ-092, REQ-185.
#[tokio::test]
async fn after_an_abort_the_turn_and_the_loop_are_closed_in_their_order() {
    let notes = Notes::default();
    let latch = Latch::new();
    let model = model([ScriptedReply::new().and_wait(&latch)]);
    let agent = agent(&model).with_hooks(noted(&notes));
    watched(&agent, &notes);
    let events = agent.prompt("go").unwrap();
    latch.reached().await;
    agent.abort();
    assert_well_formed(&events.collect().await);
    assert!(notes.joined().ends_with("assistant!() turn_end AFTER_TURN(0) agent_end(aborted) AFTER_LOOP(2)"));
}

/// An observer cannot stop anything.
#[tokio::test]
async fn an_observing_hook_that_panics_stops_nothing() {
    let hooks = Hooks::new()
        .after_turn(|_| panic!("after_turn"))
        .after_loop(|_| panic!("after_loop"))
        .after_tool_update(|_| panic!("after_tool_update"));
    let model = model([ScriptedReply::call("a", "showing", json!({})), "done".into()]);
    let agent = agent(&model).with_tools(tools()).with_hooks(hooks);
    assert!(transcript(&run(&agent).await).ends_with("agent_end(completed)"));
}
