//! Whatever happened in a run, its replay is the same run.

use agent_core::compat::SeedSetters as _;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use agent_core::{
    Effects, ErrorKind, Hooks, RetryConfig, SystemEnvironment, ToolExecutionStrategy, ToolResult, Usage,
    Verdict,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;

/// A row of numbers from which a test draws what happens. A row that is used up gives 0.
type Row = Arc<Mutex<VecDeque<u16>>>;

fn draw(row: &Row, below: usize) -> usize {
    row.lock().unwrap().pop_front().map_or(0, usize::from) % below
}

fn row(numbers: &[u16]) -> Row {
    Arc::new(Mutex::new(numbers.iter().copied().collect()))
}

fn reply(row: &Row) -> ScriptedReply {
    let mut reply = ScriptedReply::new();
    if draw(row, 4) == 3 {
        reply = reply.and_thinking("hm", Some("sig"));
    }
    if draw(row, 2) == 1 {
        reply = reply.and_text("some words").in_pieces_of(1 + draw(row, 6));
    }
    if row.lock().unwrap().is_empty() {
        return reply;
    }
    for _ in 0..draw(row, 4) {
        let tools = ["ok", "ok", "fails", "panics", "asks", "shows", "unknown"];
        let ids = ["", "x", "y", "z"];
        let arguments = ["{}", "", "{\"n\":", "{\"n\":1}"];
        let (tool, id) = (tools[draw(row, 7)], ids[draw(row, 4)]);
        reply = reply.and_call(id, tool, agent_core::ToolArguments::from_text(arguments[draw(row, 4)]));
    }
    if draw(row, 4) == 3 {
        reply = reply.using(Usage::new(10 + draw(row, 300) as u64, 4, 0, 0));
    }
    match draw(row, 12) {
        1 => reply.failing(ErrorKind::Network, "gone"),
        2 => reply.failing(ErrorKind::ContextOverflow, "prompt is too long"),
        3 => reply.failing(ErrorKind::Api, "bad"),
        4 => reply.and_panic("lost"),
        _ => reply,
    }
}

fn tools() -> Vec<Arc<dyn AgentTool>> {
    let panics = ScriptedTool::new("panics", |_, _| async { panic!("lost") });
    let shows = ScriptedTool::new("shows", |_, ctx| async move {
        ctx.on_progress("half");
        tokio::task::yield_now().await;
        ctx.on_update(ToolResult::text("half"));
        Ok("whole".into())
    });
    let list = [
        ScriptedTool::saying("ok", "line\n".repeat(20)),
        ScriptedTool::failing("fails", "no"),
        ScriptedTool::saying("asks", "sent").asking("May it?").with_effects(Effects::Once),
        panics,
        shows,
    ];
    list.into_iter().map(|tool| Arc::new(tool) as Arc<dyn AgentTool>).collect()
}

/// An agent whose settings, hooks and model draw from rows of their own, so that a replay needs no row for the model.
fn made(settings: &[u16], verdicts: &[u16], model: &[u16]) -> BasicAgent {
    let (settings, verdicts, model) = (row(settings), row(verdicts), row(model));
    let strategy = match draw(&settings, 3) {
        0 => ToolExecutionStrategy::Parallel,
        1 => ToolExecutionStrategy::Sequential,
        _ => ToolExecutionStrategy::Batched { size: 2 },
    };
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(ScriptedProvider::responding(move |_| reply(&model)))
        .with_environment(Arc::new(SystemEnvironment))
        .with_tools(tools())
        .with_tool_execution(strategy)
        .with_max_concurrent_tools(1 + draw(&settings, 3))
        .with_retry_config(RetryConfig::default().with_max_retries(draw(&settings, 3) as u32));
    if draw(&settings, 2) == 0 {
        return agent;
    }
    agent.with_hooks(Hooks::new().before_tool(move |_| {
        let verdict = match draw(&verdicts, 10) {
            9 => Verdict::Deny("no".into()),
            8 => Verdict::Ask("May it?".into()),
            7 => Verdict::AllowWith(json!({"n": 2})),
            6 => panic!("lost"),
            _ => Verdict::Allow,
        };
        async move { verdict }
    }))
}

async fn all(agent: &BasicAgent) -> Vec<AgentEvent> {
    let events = agent.prompt("go").unwrap();
    tokio::time::timeout(Duration::from_secs(3_600), events.collect()).await.expect("it hangs")
}

async fn law(settings: &[u16], verdicts: &[u16], model: &[u16]) -> usize {
    let recorder = CassetteRecorder::new();
    let then = all(&recorder.attach(made(settings, verdicts, model))).await;
    let replay = Replay::new(reread(&recorder));
    let now = all(&replay.attach(made(settings, verdicts, &[]))).await;
    replay.finish().unwrap();
    // Live events of parallel calls may come in another order.
    let parts = |events: Vec<AgentEvent>| events.into_iter().partition::<Vec<_>, _>(AgentEvent::is_live);
    let ((live_now, now), (live_then, then)) = (parts(now), parts(then));
    assert_eq!(now, then);
    assert_eq!(live_now.len(), live_then.len());
    recorder.cassette().calls.len()
}

/// X2.
#[test]
fn a_replay_is_the_run_that_was_recorded() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.to_string().contains("lost") {
            quiet(info);
        }
    }));
    let config = ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() };
    let counted = Mutex::new(0);
    let rows = (vec(any::<u16>(), 8..40), vec(any::<u16>(), 8..60), vec(any::<u16>(), 8..200));
    let tested = TestRunner::new(config).run(&rows, |(settings, verdicts, model)| {
        *counted.lock().unwrap() += runtime.block_on(law(&settings, &verdicts, &model));
        Ok(())
    });
    if let Err(error) = tested {
        panic!("{error}");
    }
    let calls = counted.into_inner().unwrap();
    assert!(calls >= 1_000, "the scripts are too tame: {calls} calls");
}
