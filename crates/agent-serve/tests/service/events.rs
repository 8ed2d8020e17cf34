//! Events that a client can resume after any number, from the buffer, from the session, and from another process.

use std::time::Duration;

use agent_core::event::NumberedEvent;
use agent_core::testing::{Latch, ScriptedProvider, ScriptedReply};
use agent_serve::{ConversationRef, Limits, Service};
use agent_session::JsonStore;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{ALICE, Events, HANG, Running, agent, keys, numbers, quick, store};

async fn with(store: &JsonStore, provider: ScriptedProvider, limits: Limits) -> Running {
    let builder = Service::builder(store.clone())
        .agent("scripted", move |_: &ConversationRef| agent(&provider))
        .keys(keys())
        .limits(limits);
    Running::with(builder).await
}

/// Two runs, whose events are read as they happen.
async fn two_runs(running: &Running) -> (String, Vec<crate::support::Received>) {
    let path = running.conversation("scripted").await;
    let mut all = Vec::new();
    for text in ["one", "two"] {
        let after = running.prompt(&path, text).await;
        all.extend(running.until(&path, after, "agent_end").await);
        running.wait_for(&path, "idle").await;
    }
    (path, all)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_resumes_after_any_event_whatever_is_still_buffered() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    for buffered in [1_024, 2] {
        let mut limits = quick();
        limits.buffered_events = buffered;
        let provider = ScriptedProvider::texts(["first", "second"]);
        let running = with(&store, provider, limits).await;
        let path = running.conversation("scripted").await;
        for text in ["one", "two"] {
            running.prompt(&path, text).await;
            running.wait_for(&path, "idle").await;
        }
        let last = running.get(&path).await.1["last_event"].as_u64().unwrap();
        let whole = read_to(&running, &path, 0, last).await;
        let recorded: Vec<_> = whole.iter().filter(|event| event.number.is_some()).collect();
        for after in 0..last {
            let events = read_to(&running, &path, after, last).await;
            let rest: Vec<_> = events.iter().filter(|event| event.number.is_some()).collect();
            let expected: Vec<_> =
                recorded.iter().filter(|event| event.number > Some(after)).copied().collect();
            // The start of a reply has a number only when it is read from the session.
            let missing = expected.iter().filter(|event| !rest.contains(event));
            assert!(
                missing.clone().all(|event| event.kind == "message_start"),
                "{:?}",
                missing.collect::<Vec<_>>()
            );
            assert_eq!(rest.last().unwrap().number, Some(last));
        }
        running.stop().await;
    }
}

async fn read_to(running: &Running, path: &str, after: u64, last: u64) -> Vec<crate::support::Received> {
    let mut events = running.events(path, after).await;
    let mut all = Vec::new();
    while all.last().is_none_or(|event: &crate::support::Received| event.number != Some(last)) {
        all.push(events.next().await.unwrap());
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_the_same_in_another_process_and_the_header_wins_over_the_query() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let running = with(&store, ScriptedProvider::texts(["first", "second"]), quick()).await;
    let (path, live) = two_runs(&running).await;
    running.stop().await;
    let last = live.iter().filter_map(|event| event.number).max().unwrap();
    let running = with(&store, ScriptedProvider::texts(["third"]), quick()).await;
    let stored = read_to(&running, &path, 0, last).await;
    assert_eq!(numbers(&stored), (1..=last).collect::<Vec<_>>());
    for event in live.iter().filter(|event| event.number.is_some()) {
        assert!(stored.contains(event), "{event:?}");
    }
    for event in &stored {
        let event: NumberedEvent = serde_json::from_value(event.data.clone()).unwrap();
        assert!(event.number > 0);
    }
    let request = running.request("GET", &format!("{path}/events?after=0")).header("last-event-id", last - 1);
    let mut events = Events::of(request.send().await.unwrap());
    assert_eq!(events.next().await.unwrap().number, Some(last));
    let after = running.prompt(&path, "three").await;
    assert_eq!(after, last);
    assert_eq!(events.next().await.unwrap().number, Some(last + 1));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_does_not_exist_yet_is_a_typed_error() {
    let folder = tempfile::tempdir().unwrap();
    let running = with(&store(folder.path()), ScriptedProvider::texts([""; 0]), quick()).await;
    let path = running.conversation("scripted").await;
    let (status, body) = running.get(&format!("{path}/events?after=7")).await;
    assert_eq!((status, body["error"]["code"].as_str()), (409, Some("unknown_event")));
    for query in ["after=x", "after=-1", "before=1"] {
        assert_eq!(running.get(&format!("{path}/events?{query}")).await.0, 400, "{query}");
    }
    let wrong = running.request("GET", &format!("{path}/events")).header("last-event-id", "seven");
    assert_eq!(crate::support::answer(wrong).await.0, 400);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_has_a_bounded_number_of_readers() {
    let folder = tempfile::tempdir().unwrap();
    let mut limits = quick();
    limits.readers = 2;
    let running = with(&store(folder.path()), ScriptedProvider::texts([""; 0]), limits).await;
    let path = running.conversation("scripted").await;
    let first = running.events(&path, 0).await;
    let _second = running.events(&path, 0).await;
    let (status, body) = running.get(&format!("{path}/events")).await;
    assert_eq!((status, body["error"]["code"].as_str()), (429, Some("too_many_readers")));
    drop(first);
    let waiting = async {
        while running.request("GET", &format!("{path}/events")).send().await.unwrap().status().as_u16() != 200
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(HANG, waiting).await.expect("the place of a reader that has gone stays taken");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_does_not_read_is_cut_and_resumes_without_a_loss() {
    let folder = tempfile::tempdir().unwrap();
    let mut limits = quick();
    limits.write_time = Duration::from_secs(1);
    limits.buffered_events = 64;
    limits.buffered_bytes = 64 << 10;
    let (begin, end) = (Latch::new(), Latch::new());
    // More than the buffers of both sockets hold.
    let text = "x".repeat(4 << 20);
    let reply = ScriptedReply::new()
        .and_wait(&begin)
        .in_pieces_of(16 << 10)
        .and_text(text)
        .and_wait(&end)
        .and_text("!");
    let running = with(&store(folder.path()), ScriptedProvider::new([reply]), limits).await;
    let path = running.conversation("scripted").await;
    running.prompt(&path, "go").await;
    begin.reached().await;
    let address = running.url.strip_prefix("http://").unwrap();
    let mut stalled = TcpStream::connect(address).await.unwrap();
    let head =
        format!("GET {path}/events?after=0 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ALICE}\r\n\r\n");
    stalled.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0; 64];
    stalled.read_exact(&mut first).await.unwrap();
    let mut steady = running.events(&path, 0).await;
    begin.open();
    end.reached().await;
    end.open();
    let read = steady.until("agent_end").await;
    assert!(read.last().unwrap().number.is_some());
    drop(steady);
    let cut = async {
        loop {
            let figures = running.request("GET", "/metrics").send().await.unwrap().text().await.unwrap();
            if figures.contains("looptree_event_readers 0")
                && figures.contains("looptree_connections_cut_total 1")
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(HANG, cut).await.expect("the reader is never cut");
    // What it resumes has everything that was recorded.
    running.wait_for(&path, "idle").await;
    let last = running.get(&path).await.1["last_event"].as_u64().unwrap();
    let again = read_to(&running, &path, 0, last).await;
    assert_eq!(numbers(&again), (1..=last).collect::<Vec<_>>());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_an_aborted_waiting_run_come_from_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::usual(&store(folder.path())).await;
    let path = running.conversation("deployer").await;
    let after = running.prompt(&path, "deploy it").await;
    let mut events = running.events(&path, after).await;
    let seen = events.until("run_suspended").await;
    running.wait_for(&path, "waiting").await;
    assert_eq!(running.post(&format!("{path}/abort"), serde_json::json!({})).await.0, 202);
    let rest = events.until("agent_end").await;
    let mut all = numbers(&seen);
    all.extend(numbers(&rest));
    let last = running.get(&path).await.1["last_event"].as_u64().unwrap();
    assert_eq!(all.last(), Some(&last));
    assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}");
    running.wait_for(&path, "idle").await;
    running.stop().await;
}
