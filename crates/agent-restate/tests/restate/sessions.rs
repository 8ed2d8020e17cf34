//! What a client can do with a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent_core::event::Ended;
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{AgentEvent, AgentTool, Answer, Effects, ModelConfig, ToolResult};
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
