//! The same program gives the same run.

use agent_core::compat::SeedSetters as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_core::{Answer, ErrorKind, Question, RetryConfig, Route, ToolResult, Usage};

use super::*;

/// X2. Events, times, durations and ids are those of the cassette; parallel calls end in the order in which they ended.
#[tokio::test]
async fn a_replay_has_the_same_events_times_and_ids() {
    let tool = |name: &str, wait: u64| -> Arc<dyn AgentTool> {
        let (text, wait) = (format!("after {wait}"), Duration::from_millis(wait));
        Arc::new(ScriptedTool::new(name, move |_, ctx| {
            let text = text.clone();
            async move {
                ctx.on_progress("begun");
                ctx.on_update(ToolResult::text("half"));
                ctx.environment.sleep(wait).await;
                Ok(ToolResult::text(text))
            }
        }))
    };
    let model = ScriptedProvider::new([
        ScriptedReply::call("a", "slow", json!({"n": 1})).and_call("b", "quick", json!({})).and_call(
            "c",
            "slow",
            json!({"n": 2}),
        ),
        ScriptedReply::text("Half ").failing(ErrorKind::Network, "the line is gone"),
        ScriptedReply::text("Both are done.").in_pieces_of(3).using(Usage::new(9, 4, 0, 0)),
        ScriptedReply::text("You are welcome."),
    ]);
    let recorder = CassetteRecorder::new();
    let mut retry = RetryConfig::default();
    retry.initial_delay_ms = 30;
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(model)
        .with_retry_config(retry)
        .with_tools(vec![tool("slow", 60), tool("quick", 5)]);
    let agent = recorder.attach(agent);
    let then = [run(&agent, "Do both.").await, run(&agent, "Thanks.").await];

    let cassette = reread(&recorder);
    assert!(!format!("{cassette:?}").contains("You are welcome."), "the Debug text has figures only");
    let replay = Replay::new(cassette);
    let agent = BasicAgent::new(ModelConfig::default())
        .with_retry_config(retry)
        .with_tools(vec![tool("slow", 600_000), tool("quick", 600_000)]);
    let agent = replay.attach(agent);
    let now = [run(&agent, "Do both.").await, run(&agent, "Thanks.").await];
    assert_eq!(now, then);
    let came = replay.finish().unwrap();
    assert_eq!((came.model_calls, came.tool_calls), (4, 3));
}

/// X2. What a tool does is not done again, and what it asks of models and of the clock is its own.
#[tokio::test]
async fn a_tool_is_not_run_in_a_replay_and_its_inside_is_not_recorded() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let tool = || -> Arc<dyn AgentTool> {
        Arc::new(ScriptedTool::new("clock", |_, ctx| async move {
            RUNS.fetch_add(1, Ordering::Relaxed);
            ctx.environment.random_id();
            ctx.environment.sleep(Duration::from_millis(1)).await;
            Ok(ToolResult::text("12:00").with_details(json!({"zone": "CET"})))
        }))
    };
    let recorder = CassetteRecorder::new();
    let agent =
        BasicAgent::new(ModelConfig::default()).with_provider(call_and_text()).with_tools(vec![tool()]);
    let then = run(&recorder.attach(agent), "What time is it?").await;
    let cassette = reread(&recorder);
    assert!(cassette.clock.sleeps.is_empty() && cassette.clock.ids.is_empty(), "{:?}", cassette.clock);
    let replay = Replay::new(cassette);
    let agent = replay.attach(BasicAgent::new(ModelConfig::default()).with_tools(vec![tool()]));
    assert_eq!(run(&agent, "What time is it?").await, then);
    assert_eq!(RUNS.load(Ordering::Relaxed), 1);
}

/// X2. A limit of time that ended a call ends it again, without the wait.
#[tokio::test]
async fn a_call_that_took_too_long_takes_too_long_again() {
    let tool = || -> Arc<dyn AgentTool> {
        Arc::new(ScriptedTool::new("clock", |_, ctx| async move {
            ctx.cancel.cancelled().await;
            Ok(ToolResult::text("too late"))
        }))
    };
    let prepared =
        |agent: BasicAgent| agent.with_tool_timeout(Duration::from_millis(40)).with_tools(vec![tool()]);
    let recorder = CassetteRecorder::new();
    let agent = prepared(BasicAgent::new(ModelConfig::default()).with_provider(call_and_text()));
    let then = run(&recorder.attach(agent), "What time is it?").await;
    assert!(format!("{then:?}").contains("exceeded timeout"));
    let replay = Replay::new(reread(&recorder));
    let agent = replay.attach(prepared(BasicAgent::new(ModelConfig::default())));
    assert_eq!(run(&agent, "What time is it?").await, then);
    replay.finish().unwrap();
}

/// X2. An abort comes from outside: with it the replay ends as the run did.
#[tokio::test]
async fn an_aborted_run_replays_with_its_abort() {
    let recorder = CassetteRecorder::new();
    let model = ScriptedProvider::new([ScriptedReply::text("Let me see").and_hang()]);
    let agent = recorder.attach(BasicAgent::new(ModelConfig::default()).with_provider(model));
    let aborted = |agent: BasicAgent| async move {
        let mut events = agent.prompt("Hi").unwrap();
        let mut all = Vec::new();
        while let Some(event) = events.recv().await {
            if matches!(event, AgentEvent::MessageUpdate { .. }) {
                agent.abort();
            }
            all.push(event);
        }
        all
    };
    let then = aborted(agent).await;
    let replay = Replay::new(reread(&recorder));
    let now = aborted(replay.attach(BasicAgent::new(ModelConfig::default()))).await;
    assert_eq!(now, then);
    replay.finish().unwrap();
}

/// X2, X5. Questions of tools and the effects that they declare are of the cassette.
#[tokio::test]
async fn a_run_that_asked_asks_again() {
    let recorder = CassetteRecorder::new();
    let tool = ScriptedTool::saying("clock", "12:00").asking("may I look?");
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(call_and_text()).with_tool(tool);
    let both = |agent: BasicAgent| async move {
        let mut events = run(&agent, "What time is it?").await;
        let Some(AgentEvent::RunSuspended { questions, .. }) = events.last() else { panic!("{events:?}") };
        let Question { id, text, .. } = questions.first().unwrap().clone();
        assert_eq!(text, "may I look?");
        events.extend(agent.answer(id, Answer::Allow).unwrap().collect().await);
        events
    };
    let then = both(recorder.attach(agent)).await;
    let replay = Replay::new(reread(&recorder));
    let agent = BasicAgent::new(ModelConfig::default()).with_tools(replay.tools());
    assert_eq!(both(replay.attach(agent)).await, then);
    replay.finish().unwrap();
}

/// X2. The model of a route with a provider of its own is recorded, too.
#[tokio::test]
async fn a_run_over_a_route_replays() {
    let spare = ScriptedProvider::new([ScriptedReply::text("Here I am.")]);
    let model = || ModelConfig::anthropic("claude-haiku-4-5", "Haiku", "secret-of-the-route");
    let recorder = CassetteRecorder::new();
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(ScriptedProvider::new([ScriptedReply::error(ErrorKind::Auth, "who are you?")]))
        .with_route(Route::new(model()).with_provider(Arc::new(spare)));
    let then = run(&recorder.attach(agent), "Hi").await;
    let cassette = reread(&recorder);
    assert!(!cassette.to_json().unwrap().contains("secret-of-the-route"));
    let replay = Replay::new(cassette);
    let agent = BasicAgent::new(ModelConfig::default()).with_route(Route::new(model()));
    assert_eq!(run(&replay.attach(agent), "Hi").await, then);
    assert_eq!(replay.finish().unwrap().model_calls, 2);
}

/// X2. Each message is in the file once, however many requests carry it.
#[tokio::test]
async fn a_cassette_grows_with_what_is_new() {
    let rounds = 60;
    let calls = (0..rounds).map(|n| ScriptedReply::call(&format!("c{n}"), "clock", json!({"n": n})));
    let model = ScriptedProvider::new(calls.chain([ScriptedReply::text("done")]));
    let recorder = CassetteRecorder::new();
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(model)
        .with_execution_limits(None)
        .with_context_config(None)
        .with_tools(vec![clock()]);
    run(&recorder.attach(agent), "Again and again.").await;
    let cassette = recorder.cassette();
    assert_eq!(cassette.model_calls(), rounds + 1);
    assert_eq!(cassette.messages.len(), 1 + 2 * rounds);
    assert_eq!(cassette.setups.len(), 1);
}

/// A run that its maximum duration ended, in a tool or in a model call, ends the same in the replay and without the wait.
#[tokio::test(start_paused = true)]
async fn a_run_that_reached_its_maximum_duration_is_replayed_without_the_wait() {
    const MAX: Duration = Duration::from_secs(10);
    let limits = agent_core::ExecutionLimits::unlimited().with_max_duration(MAX);
    let stuck = || ScriptedTool::new("clock", |_, _| std::future::pending());
    for (model, name) in [
        (call_and_text(), "a tool"),
        (ScriptedProvider::new([ScriptedReply::text("It is").and_hang()]), "a model call"),
    ] {
        let recorder = CassetteRecorder::new();
        let agent = BasicAgent::new(ModelConfig::default()).with_provider(model).with_tool(stuck());
        let agent = agent.with_system_prompt("Be short.\nBe kind.").with_limits(limits);
        let recorded = run(&recorder.attach(agent), "What time is it?").await;
        let cassette = reread(&recorder);
        assert_eq!(cassette.clock.deadlines, [10_000], "{name}");

        let replay = Replay::new(cassette);
        let begun = tokio::time::Instant::now();
        let events = run(&replaying(&replay).with_limits(limits), "What time is it?").await;
        assert!(begun.elapsed() < MAX, "{name}: {:?}", begun.elapsed());
        replay.finish().unwrap();
        let ends = |events: &[AgentEvent]| agent_core::testing::transcript(events);
        assert_eq!(ends(&events), ends(&recorded), "{name}");
        assert!(ends(&events).ends_with("agent_end(limit)"), "{name}: {}", ends(&events));
    }
}

/// A cassette has every event of a reply: also citations, calls of the vendor's tools, and a change of the transport.
#[tokio::test]
async fn each_event_of_a_reply_is_recorded_and_replayed() {
    let event = |json: serde_json::Value| serde_json::from_value(json).unwrap();
    let reply = ScriptedReply::text("It rains.")
        .and_event(event(json!({"type": "citation", "index": 0, "citation": {"source": {"type": "url", "url": "https://a"}}})))
        .and_event(event(json!({"type": "server_tool", "index": 1,
            "call": {"id": "s1", "tool": "web_search", "state": "started", "input": {"query": "rain"}}})))
        .and_event(event(json!({"type": "fallback", "from": "websocket", "to": "http", "reason": "refused"})))
        .and_event(event(json!({"type": "unrecognised", "name": "ping"})));
    let recorder = CassetteRecorder::new();
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(ScriptedProvider::new([reply]));
    let expected = run(&recorder.attach(agent), "Does it rain?").await;
    let replay = Replay::new(reread(&recorder));
    let events = run(&replay.attach(BasicAgent::new(ModelConfig::default())), "Does it rain?").await;
    assert_eq!(events.len(), expected.len());
    let citations = |events: &[AgentEvent]| format!("{events:?}").matches("https://a").count();
    assert!(citations(&expected) > 0);
    assert_eq!(citations(&events), citations(&expected));
}
