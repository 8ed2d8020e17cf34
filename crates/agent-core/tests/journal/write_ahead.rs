//! What a run decides is written down before anything is done about it.

use agent_core::compat::SeedVerbs as _;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use agent_core::drive::{DriveError, drive};
use agent_core::fold::Fold;
use agent_core::journal::{Durability, Journal, JournalEntry, JournalError, JournalWarning};
use agent_core::run::{Run, RunSetup};
use agent_core::testing::{Latch, ScriptedProvider, ScriptedReply, ScriptedTool, transcript};
use agent_core::{AgentContext, AgentLoopConfig, ModelConfig};
use agent_core::{
    AgentEvent, BasicAgent, CancellationToken, Effects, ErrorKind, EventSender, History, Hooks, RunEnd,
    RunFailure, ToolResult, Verdict,
};
use serde_json::json;

use crate::keeping::Keeping;
use crate::room::{Notes, agent, boxed, run};

fn script() -> Vec<ScriptedReply> {
    vec![
        ScriptedReply::error(ErrorKind::Network, "gone"),
        ScriptedReply::call("a", "read", json!({})).and_call("b", "send", json!({})),
        "done".into(),
    ]
}

/// A model, two tools and an agent which note what is really done.
fn noting(notes: &Notes) -> BasicAgent {
    let called = notes.clone();
    let replies = std::sync::Mutex::new(script().into_iter());
    let model = ScriptedProvider::responding(move |_| {
        called.add("did:call");
        replies.lock().unwrap().next().unwrap()
    });
    let tool = |name: &'static str, effects| {
        let ran = notes.clone();
        ScriptedTool::new(name, move |_, _| {
            ran.add(format!("did:{name}"));
            async { Ok(ToolResult::text("ok")) }
        })
        .with_effects(effects)
    };
    agent(&model).with_tools(boxed([tool("read", Effects::ReadOnly), tool("send", Effects::Once)]))
}

/// The write is waited for: before a subscriber hears of it, before the next call of the model, before a tool runs.
#[tokio::test]
async fn every_entry_is_written_before_anybody_hears_of_it_and_before_the_next_step() {
    let notes = Notes::default();
    let journal = Keeping::noting(&notes);
    let agent = noting(&notes).with_journal(Arc::new(journal));
    let heard = notes.clone();
    agent.subscribe(move |e| {
        let word = transcript(std::slice::from_ref(e));
        if !word.is_empty() {
            heard.add(format!("heard:{word}"));
        }
    });
    run(&agent).await;
    let notes = notes.all();
    let mut written = BTreeSet::new();
    let mut heard = 0;
    for (at, note) in notes.iter().enumerate() {
        if let Some(word) = note.strip_prefix("written:") {
            written.insert(word.to_owned());
        } else if let Some(word) = note.strip_prefix("heard:") {
            heard += 1;
            assert!(written.contains(word), "{word} was heard before it was written: {notes:?}");
        } else if let Some(what) = note.strip_prefix("did:") {
            let before = notes[..at].iter().rev().find(|n| n.starts_with("written:")).unwrap();
            let begun = ["written:start", "written:slept", "written:queues_read", "written:tool_began"];
            assert!(begun.contains(&before.as_str()), "{what} was done after {before}");
        }
    }
    assert!(heard > 15);
    let send = notes.iter().position(|n| n == "did:send").unwrap();
    assert!(notes[..send].contains(&"written:tool+(b)".to_owned()));
}

/// Nothing that a journal could not write is done, wherever it fails; the run ends, says so, and the agent is idle.
#[tokio::test]
async fn a_journal_that_fails_ends_the_run_and_nothing_further_is_done() {
    let notes = Notes::default();
    let whole = Keeping::noting(&notes);
    run(&noting(&notes).with_journal(Arc::new(whole.clone()))).await;
    let entries = whole.kept().len();
    let sequence = notes.all();
    for full_after in 0..entries {
        let notes = Notes::default();
        let agent = noting(&notes).with_journal(Arc::new(Keeping::noting(&notes).full_after(full_after)));
        let events = run(&agent).await;
        match agent.finish().await.unwrap() {
            RunEnd::Failed(RunFailure::Interrupted { reason }) => {
                assert!(reason.contains("the disk is full"), "{reason}")
            }
            other => panic!("{other:?}"),
        }
        let done =
            |notes: &[String]| notes.iter().filter(|n| n.starts_with("did:")).cloned().collect::<Vec<_>>();
        let before_failure: Vec<String> = sequence
            .iter()
            .take_while({
                let mut seen = 0;
                move |note| {
                    if !note.contains('+') && !note.contains('(') && is_entry(note) {
                        seen += 1;
                    }
                    seen <= full_after
                }
            })
            .cloned()
            .collect();
        assert_eq!(
            done(&notes.all()),
            done(&before_failure),
            "after {full_after} entries: {}",
            transcript(&events)
        );
        assert!(!agent.is_streaming());
    }
}

fn is_entry(note: &str) -> bool {
    let names = [
        "start",
        "reply_started",
        "model_replied",
        "model_failed",
        "slept",
        "tool_began",
        "tool_ended",
        "tool_reviewed",
        "queues_read",
    ];
    note.strip_prefix("written:").is_some_and(|n| n.split(',').all(|n| names.contains(&n)))
}

/// Inputs between which nothing is done are one entry where nobody could tell; where somebody listens, each is written before
/// it is heard. The beginning of a reply is never one of its own.
#[tokio::test]
async fn a_reply_and_the_beginning_of_its_calls_are_one_entry_unless_somebody_listens() {
    async fn check(agent: BasicAgent, expect: &[&str]) {
        let journal = Keeping::default();
        run(&agent.with_journal(Arc::new(journal.clone()))).await;
        let names: Vec<String> = journal.kept().iter().map(crate::keeping::Kept::input_names).collect();
        assert_eq!(names, expect);
    }
    let begun = ["start", "model_failed", "slept"];
    let ended = ["tool_ended", "tool_ended,queues_read", "reply_started,model_replied,queues_read"];
    let ended_apart =
        ["tool_ended", "tool_ended", "queues_read", "reply_started,model_replied", "queues_read"];
    let apart = ["reply_started,model_replied", "tool_began", "tool_began"];
    let together = ["reply_started,model_replied,tool_began,tool_began"];
    let notes = Notes::default;
    check(noting(&notes()), &[&begun[..], &together, &ended].concat()).await;

    let heard = noting(&notes());
    heard.subscribe(|_| {});
    check(heard, &[&begun[..], &apart, &ended_apart].concat()).await;
    let asked = noting(&notes()).with_hooks(Hooks::new().before_tool(|_| async { true }));
    check(asked, &[&begun[..], &apart, &ended].concat()).await;
    let sources = [
        Hooks::new().steering_messages(Vec::new),
        Hooks::new().follow_up_messages(Vec::new),
        Hooks::new().on_error(|_| ()),
    ];
    for hooks in sources {
        let read = noting(&notes()).with_hooks(hooks);
        check(read, &[&begun[..], &apart, &ended_apart].concat()).await;
    }
}

/// That a reply begins is told at once, not when the reply is there and written.
#[tokio::test]
async fn the_beginning_of_a_reply_is_told_before_its_end_is_there() {
    let latch = Latch::new();
    let model = ScriptedProvider::new([ScriptedReply::text("one").and_wait(&latch).and_text("two")]);
    let agent = agent(&model).with_journal(Arc::new(Keeping::default()));
    let mut events = agent.prompt("go").unwrap();
    let begins = |e: &AgentEvent| matches!(e, AgentEvent::MessageStart { message, .. } if message.role() == "assistant");
    let told = async { while !begins(&events.recv().await.unwrap()) {} };
    tokio::time::timeout(std::time::Duration::from_secs(20), told).await.unwrap();
    latch.open();
    assert!(transcript(&events.collect().await).ends_with("agent_end(completed)"));
}

/// The end of a turn, and the beginning of a call that must not run twice, are on the disk before the run goes on.
#[tokio::test]
async fn the_end_of_a_turn_and_the_beginning_of_a_call_that_must_not_run_twice_are_flushed() {
    let notes = Notes::default();
    let journal = Keeping::noting(&notes);
    run(&noting(&notes).with_journal(Arc::new(journal.clone()))).await;
    for kept in journal.kept() {
        let ends =
            kept.events.iter().any(|e| matches!(e, AgentEvent::TurnEnd { .. } | AgentEvent::AgentEnd(_)));
        let once = kept
            .events
            .iter()
            .any(|e| matches!(e, AgentEvent::ToolExecutionStart { tool_name, .. } if *tool_name == *"send"));
        let expect = if ends || once { Durability::Flushed } else { Durability::Buffered };
        assert_eq!(kept.durability, expect, "{kept:?}");
    }
    let flushed = journal.kept().iter().filter(|k| k.durability == Durability::Flushed).count();
    assert_eq!(flushed, 3, "two turns and one call");
}

/// A person may take days to answer.
#[tokio::test]
async fn a_question_is_on_the_disk_before_it_is_asked() {
    let notes = Notes::default();
    let journal = Keeping::noting(&notes);
    let hooks = Hooks::new().before_turn(|_| async { Verdict::Ask("A turn?".into()) });
    run(&noting(&notes).with_hooks(hooks).with_journal(Arc::new(journal.clone()))).await;
    let asks: Vec<Durability> = journal
        .kept()
        .iter()
        .filter(|k| k.events.iter().any(|e| matches!(e, AgentEvent::QuestionAsked { .. })))
        .map(|k| k.durability)
        .collect();
    assert_eq!(asks, [Durability::Flushed]);
}

/// B-190.
#[tokio::test]
async fn the_journal_of_a_real_run_replays_to_the_same_events_and_its_checkpoints_give_the_run() {
    let notes = Notes::default();
    let journal = Keeping::noting(&notes);
    let agent = noting(&notes).with_journal(Arc::new(journal.clone()));
    let events = run(&agent).await;
    let kept = journal.kept();
    let logged: Vec<AgentEvent> = kept.iter().flat_map(|k| k.events.clone()).collect();
    let heard: Vec<AgentEvent> = events.into_iter().filter(|e| !e.is_live()).collect();
    assert_eq!(logged, heard, "the log is what was heard, live events aside");

    let mut replayed = kept[0].run();
    let mut fold = Fold::new(History::new());
    for (n, entry) in kept.iter().enumerate() {
        if n > 0 {
            let mut said = Vec::new();
            for applied in &entry.inputs {
                replayed.apply(applied.now, applied.input.clone(), &mut said).unwrap();
            }
            assert_eq!(said, entry.events);
        }
        assert_eq!(replayed, entry.run());
        for event in &entry.events {
            fold.push(event).unwrap();
        }
        let restored = Run::restore(replayed.setup().clone(), entry.checkpoint(), &fold).unwrap();
        assert_eq!(restored, replayed, "after {entry:?}");
    }
    assert_eq!(*replayed.history(), agent.history());
}

/// What is queued before a run begins is known to its journal, too.
#[tokio::test]
async fn a_message_that_waited_for_the_run_is_in_its_first_checkpoint() {
    let journal = Keeping::default();
    let agent = agent(&ScriptedProvider::texts(["one", "two"])).with_journal(Arc::new(journal.clone()));
    agent.follow_up("and then");
    run(&agent).await;
    let kept = journal.kept();
    let mut replayed = kept[0].run();
    for entry in &kept[1..] {
        for applied in &entry.inputs {
            replayed.apply(applied.now, applied.input.clone(), &mut Vec::new()).unwrap();
        }
    }
    assert_eq!(*replayed.history(), agent.history());
    assert_eq!(agent.history().len(), 4);
}

/// Below the handle the failure of a journal is an error of its own.
#[tokio::test]
async fn drive_says_that_the_journal_failed() {
    let mut events = Vec::new();
    let setup = RunSetup::new("s.demo.1");
    let run =
        Run::start(setup, History::new(), vec!["go".into()], agent_core::Timestamp(1), &mut events).unwrap();
    let mut config =
        AgentLoopConfig::system(Arc::new(ScriptedProvider::texts(["hello"])), ModelConfig::default());
    config.services.journal = Some(Arc::new(Keeping::default().full_after(0)));
    let context = AgentContext::new("");
    let driven = drive(run, &context, &config, EventSender::none(), CancellationToken::new()).await;
    assert!(matches!(driven, Err(DriveError::Journal(e)) if e.to_string().contains("the disk is full")));
}

/// A run that a listener cut off has its end in the log like any other.
#[tokio::test]
async fn the_end_of_a_run_that_a_listener_cut_off_is_written_down() {
    let notes = Notes::default();
    let journal = Keeping::noting(&notes);
    let agent = noting(&notes).with_journal(Arc::new(journal.clone()));
    agent.subscribe(|e| {
        if matches!(e, AgentEvent::ToolExecutionStart { .. }) {
            panic!("out of ink");
        }
    });
    let heard: Vec<AgentEvent> = run(&agent).await.into_iter().filter(|e| !e.is_live()).collect();
    assert!(transcript(&heard).ends_with("agent_end(interrupted)"));
    let logged: Vec<AgentEvent> = journal.kept().iter().flat_map(|k| k.events.clone()).collect();
    assert_eq!(logged, heard);
}

/// A run that waits for an answer and is aborted has its end in the log, and the hooks hear of it.
#[tokio::test]
async fn the_end_of_a_run_that_was_aborted_while_it_waited_is_written_down() {
    let (journal, told) = (Keeping::default(), Notes::default());
    let (turn, end) = (told.clone(), told.clone());
    let hooks = agent_core::Hooks::new()
        .after_turn(move |_| turn.add("after_turn"))
        .after_loop(move |_| end.add("after_loop"));
    let model = ScriptedProvider::new([ScriptedReply::call("a", "t", json!({}))]);
    let agent = agent(&model)
        .with_tools(boxed([ScriptedTool::saying("t", "ok").asking("May it?")]))
        .with_hooks(hooks)
        .with_journal(Arc::new(journal.clone()));
    run(&agent).await;
    assert!(agent.is_suspended());
    agent.abort();
    agent.wait_for_idle().await;
    assert!(!agent.is_suspended());
    let logged: Vec<AgentEvent> = journal.kept().iter().flat_map(|k| k.events.clone()).collect();
    assert!(
        transcript(&logged).ends_with("suspended tool+(a) tool-!(a) result!(a) turn_end agent_end(aborted)")
    );
    assert_eq!(told.joined(), "after_turn after_loop");
}

/// A journal that warns once.
#[derive(Debug)]
struct Warning {
    inner: Keeping,
    warning: Mutex<Option<JournalWarning>>,
}

#[async_trait::async_trait]
impl Journal for Warning {
    async fn append(&self, entry: JournalEntry<'_>) -> Result<(), JournalError> {
        self.inner.append(entry).await
    }

    fn warning(&self, _: &Run) -> Option<JournalWarning> {
        self.warning.lock().unwrap().take()
    }
}

/// A warning of the journal is a live event before the end of the turn, and is not journaled.
#[tokio::test]
async fn a_warning_of_the_journal_is_an_event_of_the_run() {
    let (notes, inner) = (Notes::default(), Keeping::default());
    let warning = JournalWarning::NearlyFull { bytes: 7, limit: 8 };
    let journal = Warning { inner: inner.clone(), warning: Mutex::new(Some(warning.clone())) };
    let agent = noting(&notes).with_journal(Arc::new(journal));
    let events = agent.prompt("go").unwrap().collect().await;
    let is_warning = |e: &&AgentEvent| matches!(e, AgentEvent::JournalWarning { .. });
    let found: Vec<_> = events.iter().filter(is_warning).collect();
    let [AgentEvent::JournalWarning { warning: found, loop_id }] = found[..] else { panic!("{found:?}") };
    assert_eq!((found, loop_id), (&warning, events[0].loop_id()));
    let at = events.iter().position(|e| is_warning(&e)).unwrap();
    let end = events.iter().position(|e| matches!(e, AgentEvent::TurnEnd { .. })).unwrap();
    assert!(at < end, "the first turn has not ended: {at}, {end}");
    assert!(matches!(events.last(), Some(AgentEvent::AgentEnd(_))));
    assert!(!inner.kept().iter().flat_map(|kept| &kept.events).any(|e| is_warning(&e)));
    assert!(found.to_string().contains("7 of at most 8 bytes"), "{found}");
}
