//! What a client can do with a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_core::event::Ended;
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{AgentEvent, AgentTool, Answer, ContextConfig, Effects, ErrorKind, ModelConfig, ToolResult};
use agent_restate::{ClientError, DurableAgent, Refusal, TurnEnd};
use serde_json::json;

use crate::server::Server;
use crate::worker::Worker;

pub(crate) fn agent(name: &str, model: ScriptedProvider, tools: Vec<Arc<dyn AgentTool>>) -> DurableAgent {
    DurableAgent::new(name)
        .model(ModelConfig::default())
        .provider(model)
        .system_prompt("Be brief.")
        .tools(tools)
}

pub(crate) fn ended(end: TurnEnd) -> agent_restate::LoopEnd {
    match end {
        TurnEnd::Ended(end) => *end,
        other => panic!("the run has not ended: {other:?}"),
    }
}

/// A tool round and a second prompt, with all events once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_remembers_its_conversation() {
    let Some(server) = Server::start().await else { return };
    let model = ScriptedProvider::new([
        ScriptedReply::call("c1", "clock", json!({})),
        ScriptedReply::text("It is noon."),
        ScriptedReply::text("I said noon."),
    ]);
    let clock = ScriptedTool::saying("clock", "12:00").with_effects(Effects::ReadOnly);
    let worker = Worker::start(agent("talker", model, vec![Arc::new(clock)]));
    server.register(worker.address).await;
    let session = server.client().session("talker", "a user/1");
    let end = ended(session.prompt("What time is it?").send().await.unwrap().wait().await.unwrap());
    assert_eq!((end.ended, end.reply.unwrap().text()), (Ended::Completed, "It is noon.".to_owned()));
    assert_eq!(session.history().await.unwrap().len(), 4);
    let events = session.events_from(0).await.unwrap().collect().await.unwrap();
    let numbers: Vec<u64> = events.iter().map(|event| event.number).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    assert!(matches!(events.last().unwrap().event.event, AgentEvent::AgentEnd(_)));

    let end = ended(session.prompt("What did you say?").send().await.unwrap().wait().await.unwrap());
    assert_eq!(end.reply.unwrap().text(), "I said noon.");
    assert_eq!(session.history().await.unwrap().len(), 6);
    let later = session.events_from(events.len() as u64).await.unwrap().collect().await.unwrap();
    assert_eq!(later.first().unwrap().number, events.len() as u64);
    assert!(matches!(later.first().unwrap().event.event, AgentEvent::AgentStart(_)));
}

/// The worker's listener receives live events too, with their session, and recorded ones with their numbers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_hears_the_events_of_its_sessions() {
    let Some(server) = Server::start().await else { return };
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let model = ScriptedProvider::new([ScriptedReply::text("some words").in_pieces_of(3)]);
    let agent = agent("heard", model, Vec::new()).on_event({
        let heard = Arc::clone(&heard);
        move |live| {
            let of = (live.session.to_owned(), live.attempt.to_owned(), live.index);
            heard.lock().unwrap().push((of, live.event.clone()));
        }
    });
    let worker = Worker::start(agent);
    server.register(worker.address).await;
    let session = server.client().session("heard", "s");
    ended(session.prompt("go").send().await.unwrap().wait().await.unwrap());
    let recorded = session.events_from(0).await.unwrap().collect().await.unwrap();
    let heard = heard.lock().unwrap();
    let attempt = heard[0].0.1.clone();
    for (n, (of, _)) in heard.iter().enumerate() {
        assert_eq!(*of, ("s".to_owned(), attempt.clone(), n as u64));
    }
    let pieces = heard.iter().filter(|(_, e)| matches!(e.event, AgentEvent::MessageUpdate { .. })).count();
    assert!(pieces >= 4, "{pieces} pieces");
    let others: Vec<_> = heard.iter().map(|(_, e)| e).filter(|e| !e.is_live()).collect();
    assert_eq!(others, recorded.iter().map(|e| &e.event).collect::<Vec<_>>());
}

/// A long conversation lies in pieces: events are found in each of them, a later prompt reads all, and a compaction
/// replaces them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_conversation_lies_in_pieces() {
    let Some(server) = Server::start().await else { return };
    let model = || {
        ScriptedProvider::responding(|request| {
            let replies = request.history.llm_messages().filter(|message| message.as_assistant().is_some());
            let prompt = request.history.llm_messages().last().unwrap().text();
            match replies.count() {
                count if count < 12 && prompt != "short" => {
                    ScriptedReply::call(&format!("c{count}"), "read", json!({}))
                }
                count => ScriptedReply::text(format!("{count} replies before")),
            }
        })
    };
    let read = || {
        let read = ScriptedTool::saying("read", "a line of the file\n".repeat(1_000));
        vec![Arc::new(read.with_effects(Effects::ReadOnly)) as Arc<dyn AgentTool>]
    };
    let whole = agent("long", model(), read()).configure(|config| config.policy.context = None);
    let worker = Worker::start(whole);
    server.register(worker.address).await;
    let session = server.client().session("long", "s");
    let end = ended(session.prompt("go").send().await.unwrap().wait().await.unwrap());
    assert_eq!(end.reply.unwrap().text(), "12 replies before");
    let pieces = async |of: &str| {
        let sql = format!("SELECT key FROM state WHERE service_name = 'long' AND key LIKE '{of}/%'");
        server.query(&sql).await.len()
    };
    let before = pieces("history").await;
    assert!(before >= 2 && pieces("events").await >= 2, "{before}");
    let all = session.events_from(0).await.unwrap().collect().await.unwrap();
    for first in (0..all.len()).step_by(23) {
        let some = session.events_from(first as u64).await.unwrap().collect().await.unwrap();
        assert!(some == all[first..], "events from {first}");
    }
    let end = ended(session.prompt("short").send().await.unwrap().wait().await.unwrap());
    assert_eq!(end.reply.unwrap().text(), "13 replies before");
    let history = session.history().await.unwrap();
    assert_eq!(history.len(), 1 + 2 * 12 + 1 + 2);

    let small = ContextConfig::default()
        .with_max_context_tokens(3_000)
        .with_system_prompt_tokens(0)
        .with_keep_recent(2);
    let next =
        agent("long", model(), read()).configure(move |config| config.policy.context = Some(small.clone()));
    let worker = Worker::start(next);
    server.register(worker.address).await;
    let end = ended(session.prompt("short").send().await.unwrap().wait().await.unwrap());
    assert_eq!(end.ended, Ended::Completed);
    let compacted = session.history().await.unwrap();
    assert!(compacted.tokens() < history.tokens() / 4, "{} and {}", compacted.tokens(), history.tokens());
    assert!(pieces("history").await < before);
    let end = ended(session.prompt("short").send().await.unwrap().wait().await.unwrap());
    assert_eq!(session.history().await.unwrap().len(), compacted.len() + 2, "{:?}", end.reply);
}

/// Two prompts with one key are one prompt, and a third with another key is a second one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_with_the_same_key_are_one() {
    let Some(server) = Server::start().await else { return };
    let calls = Arc::new(AtomicUsize::new(0));
    let model = ScriptedProvider::responding({
        let calls = Arc::clone(&calls);
        move |_| ScriptedReply::text(format!("reply {}", calls.fetch_add(1, Ordering::SeqCst)))
    });
    let worker = Worker::start(agent("keyed", model, Vec::new()));
    server.register(worker.address).await;
    let session = server.client().session("keyed", "s");
    let first = session.prompt("go").idempotency_key("k").send().await.unwrap();
    let second = session.prompt("go").idempotency_key("k").send().await.unwrap();
    assert_eq!(first.invocation_id(), second.invocation_id());
    assert_eq!(first.wait().await.unwrap(), second.wait().await.unwrap());
    assert_eq!((calls.load(Ordering::SeqCst), session.history().await.unwrap().len()), (1, 2));
    ended(session.prompt("go").idempotency_key("other").send().await.unwrap().wait().await.unwrap());
    assert_eq!((calls.load(Ordering::SeqCst), session.history().await.unwrap().len()), (2, 4));
}

/// A run is handed over after each few steps, and a prompt that arrives meanwhile runs after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_goes_through_many_invocations() {
    let Some(server) = Server::start().await else { return };
    let model = ScriptedProvider::responding(|request| {
        let prompts = request.history.llm_messages().filter(|message| message.text() == "second").count();
        let replies =
            request.history.llm_messages().filter(|message| message.as_assistant().is_some()).count();
        if prompts == 1 {
            ScriptedReply::text("The second.")
        } else if replies < 10 {
            ScriptedReply::call(&format!("c{replies}"), "look", json!({}))
        } else {
            ScriptedReply::text("The first.")
        }
    });
    let look = ScriptedTool::saying("look", "seen").with_effects(Effects::ReadOnly);
    let worker = Worker::start(agent("relay", model, vec![Arc::new(look)]).hand_over_after(3));
    server.register(worker.address).await;
    let session = server.client().session("relay", "s");
    let first = session.prompt("first").send().await.unwrap();
    let second = session.prompt("second").send().await.unwrap();
    assert_eq!(ended(first.wait().await.unwrap()).reply.unwrap().text(), "The first.");
    assert_eq!(ended(second.wait().await.unwrap()).reply.unwrap().text(), "The second.");
    let history = session.history().await.unwrap();
    assert_eq!(history.len(), 2 + 20 + 2);
    let events = session.events_from(0).await.unwrap().collect().await.unwrap();
    // Within each loop the events are numbered without gaps, over all invocations.
    let mut last = 0;
    for event in &events {
        last = if matches!(event.event.event, AgentEvent::AgentStart(_)) { 0 } else { last };
        last += 1;
        assert_eq!(event.event.number, last, "{event:?}");
    }
    let ends = events.iter().filter(|e| matches!(e.event.event, AgentEvent::AgentEnd(_))).count();
    assert_eq!(ends, 2);
    let sql = "SELECT id FROM sys_invocation WHERE target_handler_name = 'advance'";
    assert!(server.query(sql).await.len() >= 6);
}

/// A message to a running session reaches the model before its next call; one to an idle session waits for the next run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steering_and_follow_ups_reach_the_run() {
    let Some(server) = Server::start().await else { return };
    let seen = Arc::new(tokio::sync::Notify::new());
    let go_on = Arc::new(tokio::sync::Notify::new());
    let model = ScriptedProvider::responding(|request| {
        let replies =
            request.history.llm_messages().filter(|message| message.as_assistant().is_some()).count();
        if replies == 0 { ScriptedReply::call("c1", "wait", json!({})) } else { ScriptedReply::text("ok") }
    });
    let wait = ScriptedTool::new("wait", {
        let (seen, go_on) = (Arc::clone(&seen), Arc::clone(&go_on));
        move |_, _| {
            let (seen, go_on) = (Arc::clone(&seen), Arc::clone(&go_on));
            async move {
                seen.notify_one();
                go_on.notified().await;
                Ok(ToolResult::text("waited"))
            }
        }
    });
    let worker = Worker::start(agent("steered", model, vec![Arc::new(wait)]));
    server.register(worker.address).await;
    let session = server.client().session("steered", "s");
    let turn = session.prompt("go").send().await.unwrap();
    seen.notified().await;
    session.follow_up("afterwards").await.unwrap();
    session.steer("faster").await.unwrap();
    let sql = "SELECT id FROM sys_invocation WHERE target_handler_name = 'put' AND status = 'completed'";
    while server.query(sql).await.len() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    go_on.notify_one();
    ended(turn.wait().await.unwrap());
    let texts = |history: agent_core::History| {
        history.llm_messages().map(agent_core::message::Message::text).collect::<Vec<_>>()
    };
    let expected = ["go", "", "waited", "faster", "ok", "afterwards", "ok"];
    assert_eq!(texts(session.history().await.unwrap()), expected);

    session.follow_up("later").await.unwrap();
    while server.query(sql).await.len() < 3 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ended(session.prompt("again").send().await.unwrap().wait().await.unwrap());
    let history = texts(session.history().await.unwrap());
    assert_eq!(history[7..], ["again", "ok", "later", "ok"]);
}

/// An abort cancels the open step of a running session, ends a suspended run, and does nothing to an idle session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_ends_running_and_suspended_runs() {
    let Some(server) = Server::start().await else { return };
    let seen = Arc::new(tokio::sync::Notify::new());
    let model = ScriptedProvider::responding(|request| {
        match request.history.llm_messages().last().unwrap().text().as_str() {
            "hang" => ScriptedReply::call("c1", "hang", json!({})),
            "ask" => ScriptedReply::call("c2", "ask", json!({})),
            _ => ScriptedReply::text("ok"),
        }
    });
    let hang = ScriptedTool::new("hang", {
        let seen = Arc::clone(&seen);
        move |_, ctx| {
            seen.notify_one();
            async move {
                ctx.cancel.cancelled().await;
                Err(agent_core::ToolError::Cancelled)
            }
        }
    });
    let ask = ScriptedTool::saying("ask", "done").asking("May it?");
    let worker = Worker::start(agent("aborted", model, vec![Arc::new(hang), Arc::new(ask)]));
    server.register(worker.address).await;
    let session = server.client().session("aborted", "s");

    session.abort().await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let end = ended(session.prompt("hello").send().await.unwrap().wait().await.unwrap());
    assert_eq!(end.ended, Ended::Completed);

    let turn = session.prompt("hang").send().await.unwrap();
    seen.notified().await;
    session.abort().await.unwrap();
    assert_eq!(ended(turn.wait().await.unwrap()).ended, Ended::Aborted);

    let turn = session.prompt("ask").send().await.unwrap();
    let TurnEnd::Waiting(questions) = turn.wait().await.unwrap() else { panic!("the session does not wait") };
    let refused = session.prompt("hello").send().await.unwrap().wait().await;
    assert!(matches!(refused, Err(ClientError::Refused(Refusal::WaitsForAnswers))), "{refused:?}");
    session.abort().await.unwrap();
    while !session.questions().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(ended(turn.wait().await.unwrap()).ended, Ended::Aborted);
    let late = session.answer(questions[0].id.clone(), Answer::Allow).await.unwrap().wait().await;
    assert!(matches!(late, Err(ClientError::Refused(Refusal::NotAsked { .. }))), "{late:?}");
    let end = ended(session.prompt("hello").send().await.unwrap().wait().await.unwrap());
    assert_eq!(end.ended, Ended::Completed);
}

/// The engine waits for a long delay before a retry, and an abort ends the delay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_waits_for_long_delays() {
    let Some(server) = Server::start().await else { return };
    let calls = Arc::new(AtomicUsize::new(0));
    let model = ScriptedProvider::responding({
        let calls = Arc::clone(&calls);
        move |request| {
            let delay = match request.history.llm_messages().last().unwrap().text().as_str() {
                "short" if calls.fetch_add(1, Ordering::SeqCst) == 0 => Duration::from_millis(20),
                "long" => Duration::from_secs(50),
                _ => return ScriptedReply::text("ok"),
            };
            ScriptedReply::new().failing(ErrorKind::RateLimited, "slow down").retry_after(delay)
        }
    });
    let agent = agent("patient", model, Vec::new()).engine_waits_from(Duration::from_millis(1));
    let worker = Worker::start(agent);
    server.register(worker.address).await;
    let session = server.client().session("patient", "s");
    let end = ended(session.prompt("short").send().await.unwrap().wait().await.unwrap());
    assert_eq!((end.ended, calls.load(Ordering::SeqCst)), (Ended::Completed, 2));
    let sleeps = "SELECT id FROM sys_journal WHERE entry_type = 'Command: Sleep'";
    // Each invocation has a timer of its own besides the delay.
    assert_eq!(server.query(sleeps).await.len(), 2);

    let turn = session.prompt("long").send().await.unwrap();
    while server.query(sleeps).await.len() < 4 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    session.abort().await.unwrap();
    assert_eq!(ended(turn.wait().await.unwrap()).ended, Ended::Aborted);
}

/// An address with a secret in it, or one that is none, is refused without showing the secret.
#[test]
fn addresses_are_checked() {
    let secret = agent_restate::Client::connect("http://user:hidden@localhost:8080").unwrap_err();
    assert!(matches!(secret, ClientError::Credentials) && !secret.to_string().contains("hidden"), "{secret}");
    for address in ["localhost:8080", "ftp://localhost", "", "http://localhost:8080/?key=1"] {
        let error = agent_restate::Client::connect(address).unwrap_err();
        assert!(matches!(error, ClientError::Url { .. }), "{address}: {error}");
    }
}

/// A group of calls that takes longer than the engine waits ends the run and is not repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_takes_too_long_ends_the_run() {
    let Some(server) = Server::start().await else { return };
    let model = ScriptedProvider::responding(|_| {
        let first = ScriptedReply::call("c0", "hang", json!({}));
        (1..6).fold(first, |reply, n| reply.and_call(&format!("c{n}"), "hang", json!({})))
    });
    let calls = Arc::new(AtomicUsize::new(0));
    let hang = ScriptedTool::new("hang", {
        let calls = Arc::clone(&calls);
        move |_, _| {
            calls.fetch_add(1, Ordering::SeqCst);
            std::future::pending()
        }
    });
    let hang = Arc::new(hang.with_effects(Effects::Idempotent));
    let agent = agent("slow", model, vec![hang]).longest_step(Duration::from_millis(100));
    let agent = agent.configure(|config| config.policy.max_concurrent_tools = Some(1));
    let worker = Worker::start(agent);
    server.register(worker.address).await;
    let session = server.client().session("slow", "s");
    let end = ended(session.prompt("go").send().await.unwrap().wait().await.unwrap());
    assert!(matches!(end.ended, Ended::Limit { .. }), "{:?}", end.ended);
    assert!((1..6).contains(&calls.load(Ordering::SeqCst)), "{calls:?}");
}

/// The engine's own cancellation ends an invocation without its result, and the session remains usable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_invocation_leaves_the_session_usable() {
    let Some(server) = Server::start().await else { return };
    let model = ScriptedProvider::responding(|request| {
        match request.history.llm_messages().last().unwrap().text().as_str() {
            "fail" => ScriptedReply::new()
                .failing(ErrorKind::RateLimited, "slow down")
                .retry_after(Duration::from_secs(50)),
            _ => ScriptedReply::text("ok"),
        }
    });
    let worker = Worker::start(agent("cancelled", model, Vec::new()));
    server.register(worker.address).await;
    let session = server.client().session("cancelled", "s");
    let turn = session.prompt("fail").send().await.unwrap();
    let sleeps = "SELECT id FROM sys_journal WHERE entry_type = 'Command: Sleep'";
    while server.query(sleeps).await.len() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.cancel(turn.invocation_id()).await;
    let cancelled = turn.wait().await;
    assert!(matches!(cancelled, Err(ClientError::Status { status: 409, .. })), "{cancelled:?}");
    assert!(session.events_from(0).await.unwrap().collect().await.unwrap().is_empty());
    let end = ended(session.prompt("hello").send().await.unwrap().wait().await.unwrap());
    assert_eq!((end.ended, session.history().await.unwrap().len()), (Ended::Completed, 2));
}

/// A worker with the key of another server answers no request of this one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_refuses_the_requests_of_other_servers() {
    let Some(server) = Server::start().await else { return };
    let agent = |name| agent(name, ScriptedProvider::texts(["ok"]), Vec::new());
    let key = "publickeyv1_w7YHemBctH5Ck2nQRQ47iBBqhNHy4FV7t2Usbye2A6f";
    let (open, locked) = (Worker::start(agent("open")), Worker::start(agent("locked").identity_key(key)));
    server.register(open.address).await;
    let request = || json!({"uri": format!("http://{}", locked.address)}).to_string();
    let mut refused = server.admin("deployments", request()).await.unwrap_err();
    // The worker may not listen yet.
    while !refused.contains("401") {
        assert!(refused.contains("onnect"), "{refused}");
        tokio::time::sleep(Duration::from_millis(50)).await;
        refused = server.admin("deployments", request()).await.unwrap_err();
    }
    let unknown = server.client().session("locked", "s").prompt("go").send().await;
    assert!(matches!(unknown, Err(ClientError::UnknownAgent { .. })), "{unknown:?}");
}

/// A definition that cannot be served is refused before the worker listens, and an unknown agent has its own error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_work_is_refused_early() {
    use agent_restate::{ServeError, serve};
    let address = ([127, 0, 0, 1], 0).into();
    let slow = || {
        let slow = ScriptedTool::saying("slow", "done").with_timeout(Duration::from_secs(61));
        agent("slow", ScriptedProvider::texts(["ok"]), vec![Arc::new(slow)])
    };
    let refused = serve(slow().longest_step(Duration::from_secs(60)), address).await;
    assert!(matches!(&refused, Err(ServeError::ToolTooSlow { tool, .. }) if tool == "slow"), "{refused:?}");
    let refused = serve(agent("no/name", ScriptedProvider::texts(["ok"]), Vec::new()), address).await;
    assert!(matches!(refused, Err(ServeError::Name { .. })), "{refused:?}");
    assert!(matches!(serve(DurableAgent::new("empty"), address).await, Err(ServeError::NoModel { .. })));
    let refused = serve(slow().longest_step(Duration::from_secs(61)).identity_key("secret"), address).await;
    assert!(matches!(refused, Err(ServeError::IdentityKey { .. })), "{refused:?}");

    let Some(server) = Server::start().await else { return };
    let unknown = server.client().session("nobody", "s").prompt("go").send().await;
    assert!(matches!(&unknown, Err(ClientError::UnknownAgent { agent }) if agent == "nobody"), "{unknown:?}");
}
