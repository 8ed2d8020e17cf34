use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_core::event::Ended;
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{Effects, ErrorKind, ModelConfig};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;
use crate::agent::DurableAgent;

/// The journal of an invocation, as the first release wrote it, with the events and the history that every later version must
/// replay from it.
const JOURNAL: &str = include_str!("journal-v1.json");

#[derive(Serialize, Deserialize)]
struct Recorded {
    records: Vec<String>,
    events: serde_json::Value,
    history: serde_json::Value,
}

/// An agent that reads, fails once, sends once, and is done. Counts what is sent.
fn agent(sent: &Arc<AtomicUsize>) -> Arc<Prepared> {
    let model = ScriptedProvider::new([
        ScriptedReply::call("c1", "look", json!({"at": 1})).and_call("c2", "look", json!({"at": 2})),
        ScriptedReply::new().failing(ErrorKind::Network, "gone"),
        ScriptedReply::call("c3", "send", json!({"to": "you"})).and_thinking("hm", Some("signature")),
        ScriptedReply::text("Sent."),
    ]);
    let look = ScriptedTool::saying("look", "seen").with_effects(Effects::ReadOnly);
    let send = ScriptedTool::new("send", {
        let sent = Arc::clone(sent);
        move |_, _| {
            sent.fetch_add(1, Ordering::SeqCst);
            async { Ok("sent".into()) }
        }
    });
    let agent = DurableAgent::new("tester")
        .model(ModelConfig::default())
        .provider(model)
        .system_prompt("Be brief.")
        .tools([Arc::new(look) as _, Arc::new(send.with_effects(Effects::Once)) as _])
        // The test decides that a delay is over.
        .engine_waits_from(Duration::ZERO);
    Arc::new(agent.prepare().unwrap())
}

fn first(driver: &Driver) -> Work {
    let setup = Box::new(driver.setup("s.tester.1".into()));
    Work::Start { setup, prompts: vec!["Send it".into()] }
}

/// Performs steps as a session does, until the flow satisfies `stop`. Returns the records and the last flow.
async fn perform_until(driver: &mut Driver, mut work: Work, stop: fn(&Flow) -> bool) -> (Vec<Bytes>, Flow) {
    let mut records = Vec::new();
    loop {
        let record = driver.perform(work, Vec::new()).await.unwrap();
        let flow = driver.accept(&record).unwrap().flow;
        records.push(record);
        work = match flow {
            flow if stop(&flow) => return (records, flow),
            Flow::Step => Work::Step,
            Flow::Began { nonce } => Work::Execute { nonce },
            Flow::Sleep { .. } => Work::Slept,
            flow => panic!("{flow:?}"),
        };
    }
}

fn events(driver: &Driver) -> Vec<NumberedEvent> {
    driver.events().lock().unwrap().clone()
}

fn driver(agent: &Arc<Prepared>) -> Driver {
    Driver::starting(Arc::clone(agent), "s".into(), History::new())
}

/// Another attempt that replays the records has an equal run and the same events, after every step.
#[tokio::test]
async fn records_replay_to_the_same_run() {
    let agent = agent(&Arc::default());
    let mut original = driver(&agent);
    let mut replays = driver(&agent);
    let mut work = first(&original);
    loop {
        assert_eq!(original.step_name(), replays.step_name());
        let record = original.perform(work, Vec::new()).await.unwrap();
        let flow = original.accept(&record).unwrap().flow;
        let replayed = replays.accept(&record).unwrap();
        assert_eq!((&replayed.flow, replays.run()), (&flow, original.run()));
        assert_eq!(events(&replays), events(&original));
        work = match flow {
            Flow::Step => Work::Step,
            Flow::Began { nonce } => Work::Execute { nonce },
            Flow::Sleep { .. } => Work::Slept,
            Flow::Ended => break,
            flow => panic!("{flow:?}"),
        };
    }
    assert_eq!(original.run().unwrap().ended(), Some(&Ended::Completed));
}

/// The attempt that recorded the start of a call executes it; the next attempt, which cannot know whether it was executed, asks.
#[tokio::test]
async fn a_call_that_must_run_once_is_executed_by_one_attempt() {
    let sent = Arc::new(AtomicUsize::new(0));
    let agent = agent(&sent);
    let mut cut_off = driver(&agent);
    let work = first(&cut_off);
    let (records, began) = perform_until(&mut cut_off, work, |flow| matches!(flow, Flow::Began { .. })).await;
    let Flow::Began { nonce } = began else { panic!("{began:?}") };
    assert_eq!(sent.load(Ordering::SeqCst), 0, "the start is recorded before the call is executed");

    let mut next = driver(&agent);
    for record in &records {
        next.accept(record).unwrap();
    }
    let record = next.perform(Work::Execute { nonce: nonce.clone() }, Vec::new()).await.unwrap();
    let flow = next.accept(&record).unwrap().flow;
    assert_eq!((flow, sent.load(Ordering::SeqCst)), (Flow::Step, 0));
    let record = next.perform(Work::Step, Vec::new()).await.unwrap();
    assert_eq!(next.accept(&record).unwrap().flow, Flow::Suspended);
    assert_eq!((next.run().unwrap().questions().len(), sent.load(Ordering::SeqCst)), (1, 0));

    perform_until(&mut cut_off, Work::Execute { nonce }, |flow| *flow == Flow::Ended).await;
    assert_eq!(sent.load(Ordering::SeqCst), 1);
}

/// The error of a record in another form tells the user which version to use.
#[tokio::test]
async fn a_record_in_another_form_is_refused() {
    let agent = agent(&Arc::default());
    let mut original = driver(&agent);
    let record = original.perform(first(&original), Vec::new()).await.unwrap();
    for (form, says) in [("99", "update looptree-restate"), ("0", "with the version that wrote it")] {
        let text = String::from_utf8(record.to_vec()).unwrap();
        let other = text.replacen("\"form\":1", &format!("\"form\":{form}"), 1);
        let error = driver(&agent).accept(&other.into()).unwrap_err();
        assert!(matches!(error, StepError::Form { .. }) && error.to_string().contains(says), "{error}");
    }
}

/// Every later version replays the journal that the first release wrote, to the same events and history.
#[test]
fn the_journal_of_the_first_release_replays() {
    let recorded: Recorded = serde_json::from_str(JOURNAL).unwrap();
    let mut driver = driver(&agent(&Arc::default()));
    for record in recorded.records {
        driver.accept(&Bytes::from(record)).unwrap();
    }
    assert_eq!(serde_json::to_value(events(&driver)).unwrap(), recorded.events);
    assert_eq!(serde_json::to_value(driver.run().unwrap().history()).unwrap(), recorded.history);
    assert_eq!(driver.run().unwrap().ended(), Some(&Ended::Completed));
}

/// Writes the journal anew, for a release that changes the form.
#[tokio::test]
#[ignore = "writes src/driver/journal-v1.json"]
async fn write_the_journal() {
    let agent = agent(&Arc::default());
    let mut driver = driver(&agent);
    let work = first(&driver);
    let (records, _) = perform_until(&mut driver, work, |flow| *flow == Flow::Ended).await;
    let recorded = Recorded {
        records: records.iter().map(|record| String::from_utf8(record.to_vec()).unwrap()).collect(),
        events: serde_json::to_value(events(&driver)).unwrap(),
        history: serde_json::to_value(driver.run().unwrap().history()).unwrap(),
    };
    let text = serde_json::to_string_pretty(&recorded).unwrap();
    std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/driver/journal-v1.json"), text).unwrap();
}
