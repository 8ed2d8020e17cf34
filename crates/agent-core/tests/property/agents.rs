//! Agents whose models, tools, hooks and callers do what they like.

use agent_core::compat::SeedSetters as _;
use agent_core::compat::SeedVerbs as _;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_core::fold::Fold;
use agent_core::journal::{AppliedInput, Journal, JournalEntry, JournalError};
use agent_core::run::{Recorded, Run};
use agent_core::testing::{
    ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed, transcript,
};
use agent_core::{
    AgentEvent, AgentTool, Answer, BasicAgent, ContextConfig, Effects, Ended, Entry, ErrorKind,
    ExecutionLimits, History, Hooks, ModelConfig, RetryConfig, RunEnd, SteeringPolicy, StopReason,
    ToolExecutionStrategy, ToolResult, Usage, Verdict,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::json;

use crate::choices::{Choices, choices};

pub(crate) type Shared = Arc<Mutex<Choices>>;

fn reply(c: &mut Choices) -> ScriptedReply {
    let mut reply = ScriptedReply::new();
    if c.once_in(4) {
        reply = reply.and_thinking("hm", Some("sig"));
    }
    if c.once_in(2) {
        reply = reply.and_text("some words").in_pieces_of(1 + c.below(6));
    }
    if c.is_used_up() {
        return reply;
    }
    for _ in 0..c.below(4) {
        let tool = c.one_of(&["ok", "ok", "fails", "panics", "hangs", "asks", "shows", "unknown"]);
        let id = c.one_of(&["", "x", "y", "z"]);
        let arguments = c.one_of(&["{}", "", "{\"n\":", "{\"n\":1}"]);
        reply = reply.and_call(id, tool, agent_core::ToolArguments::from_text(arguments));
    }
    if c.once_in(6) {
        reply = reply.without_start();
    }
    if c.once_in(4) {
        reply = reply.using(Usage::new(10 + c.below(300) as u64, c.below(40) as u64, 0, 0));
    }
    match c.below(16) {
        0 => reply.failing(ErrorKind::Network, "gone"),
        1 => reply.failing(ErrorKind::ContextOverflow, "prompt is too long"),
        2 => reply.failing(ErrorKind::Api, "bad"),
        3 => reply.and_hang(),
        4 => reply.and_panic("lost"),
        5 => reply.stopping(StopReason::Length),
        _ => reply,
    }
}

fn tools() -> Vec<Arc<dyn AgentTool>> {
    let hangs = ScriptedTool::new("hangs", |_, _| std::future::pending());
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
        hangs,
        panics,
        shows,
    ];
    list.into_iter().map(|t| Arc::new(t) as Arc<dyn AgentTool>).collect()
}

pub(crate) fn hooks(shared: &Shared) -> Hooks {
    let (tool, turn, update) = (Arc::clone(shared), Arc::clone(shared), Arc::clone(shared));
    Hooks::new()
        .before_tool(move |_| {
            let drawn = tool.lock().unwrap().below(10);
            let verdict = match drawn {
                9 => Verdict::Deny("no".into()),
                8 => Verdict::Ask("May it?".into()),
                7 => Verdict::AllowWith(json!({"n": 2})),
                6 => panic!("lost"),
                _ => Verdict::Allow,
            };
            async move { verdict }
        })
        .before_turn(move |_| {
            let go = !turn.lock().unwrap().once_in(12);
            async move { go }
        })
        .before_tool_update(move |_| {
            let go = !update.lock().unwrap().once_in(3);
            async move { go }
        })
}

pub(crate) fn agent(c: &mut Choices, shared: &Shared) -> BasicAgent {
    let script = Arc::clone(shared);
    let model = ScriptedProvider::responding(move |_| reply(&mut script.lock().unwrap()));
    let context = ContextConfig::default()
        .with_max_context_tokens(150 + c.below(2_000) as u64)
        .with_system_prompt_tokens(0)
        .with_keep_recent(2);
    let strategy = match c.below(3) {
        0 => ToolExecutionStrategy::Parallel,
        1 => ToolExecutionStrategy::Sequential,
        _ => ToolExecutionStrategy::Batched { size: 2 },
    };
    BasicAgent::new(ModelConfig::default())
        .with_provider(model)
        .with_environment(Arc::new(ManualEnvironment::skipping(1_000)))
        .with_tools(tools())
        .with_hooks(if c.once_in(2) { hooks(shared) } else { Hooks::new() })
        .with_context_config(if c.once_in(2) { Some(context) } else { None })
        .with_tool_execution(strategy)
        .with_steering_policy(c.one_of(&[SteeringPolicy::SkipRemaining, SteeringPolicy::AfterTurn]))
        .with_max_concurrent_tools(1 + c.below(3))
        .with_retry_config(RetryConfig::default().with_max_retries(c.below(3) as u32))
        .with_execution_limits(ExecutionLimits::default().with_max_turns(1 + c.below(12) as u32))
}

/// A caller who says things at odd moments, and aborts when nothing happens any more.
async fn read(
    events: agent_core::EventReceiver,
    agent: &BasicAgent,
    shared: &Shared,
    into: &mut Vec<AgentEvent>,
) {
    let (mut events, begun) = (events, into.len());
    let abort_after = shared.lock().unwrap().below(60);
    loop {
        // The clock of the runtime goes on by itself when nothing else does.
        match tokio::time::timeout(Duration::from_secs(3_600), events.recv()).await {
            Ok(Some(event)) => into.push(event),
            Ok(None) => break,
            Err(_) => agent.abort(),
        }
        let what = shared.lock().unwrap().below(40);
        match what {
            1 => agent.steer("wait"),
            2 => agent.steer_passively("by the way"),
            3 => agent.follow_up("and then"),
            4 => agent.clear_all_queues(),
            _ => {}
        }
        if into.len() == abort_after {
            agent.abort();
        }
    }
    let terminal = into[begun..].iter().filter(|e| e.is_terminal()).count();
    assert_eq!(terminal, 1, "{}", transcript(&into[begun..]));
}

/// Keeps the runs, which costs little: a clone shares what grows.
#[derive(Debug, Default)]
struct Keeping(Mutex<Vec<Kept>>);

#[derive(Debug)]
struct Kept {
    inputs: Vec<AppliedInput>,
    events: Vec<AgentEvent>,
    run: Run,
}

#[async_trait::async_trait]
impl Journal for Keeping {
    async fn append(&self, entry: JournalEntry<'_>) -> Result<(), JournalError> {
        let kept = Kept {
            inputs: Recorded::from(&entry).inputs,
            events: entry.events.to_vec(),
            run: entry.run.clone(),
        };
        self.0.lock().unwrap().push(kept);
        Ok(())
    }
}

/// The journal of one run replays, and is the log that was heard.
fn check_journal(journal: &Keeping, all: &[AgentEvent], before: History, after: &History) {
    let kept = std::mem::take(&mut *journal.0.lock().unwrap());
    let mut replayed = kept[0].run.clone();
    let mut said = kept[0].events.clone();
    let mut fold = Fold::new(before);
    for Kept { inputs, events, run } in &kept {
        for AppliedInput { now, input } in inputs {
            replayed.apply(*now, input.clone(), &mut said).unwrap();
        }
        assert_eq!(replayed, *run);
        for event in events {
            fold.push(event).unwrap();
        }
    }
    // An abort at the last moment replaces a suspension on the stream; the log has both.
    let logged = |e: &&AgentEvent| !e.is_live() && !matches!(e, AgentEvent::RunSuspended { .. });
    let (said_of, heard_of): (Vec<_>, Vec<_>) =
        (said.iter().filter(logged).collect(), all.iter().filter(logged).collect());
    // The end of a run that was aborted while it waited is on no stream of the caller's.
    let waited = all.last().is_some_and(|e| matches!(e, AgentEvent::RunSuspended { .. }));
    let same = if waited { said_of.starts_with(&heard_of) } else { said_of == heard_of };
    assert!(same, "log: {}\nheard: {}", transcript(&said), transcript(all));
    assert_well_formed(&said);
    assert_eq!(fold.history(), after);
}

/// How often runs ended how, so that tame scripts are noticed.
type Tally = Mutex<BTreeMap<&'static str, usize>>;

fn count(tally: &Tally, what: &'static str) {
    *tally.lock().unwrap().entry(what).or_default() += 1;
}

async fn live(c: Choices, tally: &Tally) {
    let shared: Shared = Arc::new(Mutex::new(c));
    let mut agent = {
        let mut c = shared.lock().unwrap();
        agent(&mut c, &shared)
    };
    let journal = Arc::new(Keeping::default());
    agent.set_journal(Some(journal.clone()));
    for prompt in ["one", "two"] {
        let (mut events, before) = (Vec::new(), agent.history());
        let stream = agent.prompt(prompt).unwrap();
        read(stream, &agent, &shared, &mut events).await;
        assert!(events.last().is_some_and(AgentEvent::is_terminal), "the stream ends with a word");
        for round in 0.. {
            let Some(RunEnd::Suspended(questions)) = agent.finish().await else { break };
            count(tally, "suspended");
            if round > 5 {
                agent.abort();
                agent.wait_for_idle().await;
                break;
            }
            let answer = match shared.lock().unwrap().below(3) {
                0 => Answer::Allow,
                1 => Answer::AllowWith(json!({"n": 3})),
                _ => Answer::Deny { reason: "no".into() },
            };
            let stream = agent.answer(questions[0].id.clone(), answer).unwrap();
            read(stream, &agent, &shared, &mut events).await;
            assert!(events.last().is_some_and(AgentEvent::is_terminal), "the stream ends with a word");
        }
        assert_well_formed(&events);
        check_journal(&journal, &events, before, &agent.history());
        let calls = events.iter().filter(|e| matches!(e, AgentEvent::ToolExecutionEnd(_))).count();
        (0..calls).for_each(|_| count(tally, "call"));
        if let Some(AgentEvent::AgentEnd(end)) = events.last() {
            count(
                tally,
                match &end.ended {
                    Ended::Completed => "completed",
                    Ended::Aborted => "aborted",
                    Ended::Limit { .. } => "limit",
                    Ended::Error { message, .. } => {
                        assert!(!message.contains("answered 400"), "a real API would refuse this: {message}");
                        "error"
                    }
                    Ended::TurnVetoed { .. } => "vetoed",
                    other => panic!("{other:?}"),
                },
            );
        }
        let state = agent.state();
        assert!(!state.is_streaming && state.pending_tool_calls.is_empty() && state.stream_message.is_none());
        let (_, repairs) = History::repaired(agent.history().entries().cloned().collect::<Vec<Entry>>());
        assert!(repairs.is_empty(), "{repairs:?}");
    }
    agent.clear_all_queues();
    let mut agent = agent.with_provider(ScriptedProvider::texts(["fine"]));
    agent.set_hooks(Hooks::new());
    let agent = agent.with_execution_limits(None).with_context_config(None);
    assert_eq!(agent.chat("again").await.unwrap(), "fine", "the agent can be used again");
}

/// B-064, B-083.
#[test]
fn every_stream_ends_and_the_agent_can_be_used_again_whatever_happens() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    // The panics of tools and hooks are meant; their reports are not to fill the screen.
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.to_string().contains("lost") {
            quiet(info);
        }
    }));
    let tally = Tally::default();
    let config = ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() };
    let tested = TestRunner::new(config).run(&choices(300), |c| {
        runtime.block_on(live(c, &tally));
        Ok(())
    });
    if let Err(error) = tested {
        panic!("{error}");
    }
    let tally = tally.into_inner().unwrap();
    for (what, least) in [
        ("completed", 200),
        ("aborted", 200),
        ("error", 200),
        ("limit", 40),
        ("vetoed", 40),
        ("suspended", 80),
        ("call", 2_000),
    ] {
        assert!(tally.get(what).is_some_and(|n| *n >= least), "the scripts are too tame: {tally:?}");
    }
    println!("{tally:?}");
}
