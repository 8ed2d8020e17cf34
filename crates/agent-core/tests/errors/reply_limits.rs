//! Replies at the limits of their blocks and calls, and beyond.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_core::drive::{MAX_REPLY_BLOCKS, MAX_REPLY_CALLS};
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed};
use agent_core::{
    AgentEvent, AssistantMessage, BasicAgent, Completion, Ended, ErrorKind, EventSink, History, ModelConfig,
    ModelRequest, ProviderError, StopReason, StreamEvent, StreamProvider, complete,
};
use async_trait::async_trait;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::room::{boxed, run};

fn texts(count: usize) -> ScriptedReply {
    (0..count).fold(ScriptedReply::new(), |reply, _| reply.and_text("x"))
}

fn calls(count: usize) -> ScriptedReply {
    (0..count).fold(ScriptedReply::new(), |reply, n| reply.and_call(&format!("c{n}"), "t", json!({})))
}

fn ended(events: &[AgentEvent]) -> &Ended {
    let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!("{:?}", events.last()) };
    &end.ended
}

/// Checks the end of a run whose reply had too much, and returns the reply.
fn failed(agent: &BasicAgent, events: &[AgentEvent], says: &str) -> AssistantMessage {
    assert_well_formed(events);
    let Ended::Error { kind: ErrorKind::Other, message } = ended(events) else {
        panic!("{:?}", ended(events))
    };
    assert!(message.contains(says) && message.contains("check the server"), "{message}");
    let reply = agent.history().last_reply().cloned().unwrap();
    assert_eq!((reply.stop_reason, reply.error_message.as_ref()), (StopReason::Error, Some(message)));
    reply
}

#[tokio::test]
async fn a_reply_with_too_many_blocks_fails_and_keeps_as_many_as_are_allowed() {
    for count in [MAX_REPLY_BLOCKS, MAX_REPLY_BLOCKS + 1, 50_000] {
        let model = ScriptedProvider::new([texts(count), "again".into()]).exhaustive();
        let agent = BasicAgent::new(ModelConfig::default()).with_provider(model.clone());
        let events = run(&agent).await;
        let updates = events.iter().filter(|e| matches!(e, AgentEvent::MessageUpdate { .. })).count();
        assert_eq!(updates, MAX_REPLY_BLOCKS, "a block that is not kept is not announced");
        if count == MAX_REPLY_BLOCKS {
            assert_eq!(*ended(&events), Ended::Completed);
            assert_eq!(agent.history().last_reply().unwrap().content.len(), count);
        } else {
            let reply = failed(&agent, &events, "more than 4096 blocks");
            assert_eq!(reply.content.len(), MAX_REPLY_BLOCKS);
        }
        assert_eq!(model.requests().len(), 1, "it is not tried again");
        assert_eq!(agent.chat("more").await.unwrap(), "again");
    }
}

#[tokio::test]
async fn a_reply_with_too_many_calls_fails_and_runs_none_of_them() {
    for count in [MAX_REPLY_CALLS, MAX_REPLY_CALLS + 1, 50_000] {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let tool = ScriptedTool::new("t", move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok("ok".into()) }
        });
        let model = ScriptedProvider::new([calls(count), "again".into()]).exhaustive();
        let agent =
            BasicAgent::new(ModelConfig::default()).with_provider(model.clone()).with_tools(boxed([tool]));
        let events = run(&agent).await;
        if count == MAX_REPLY_CALLS {
            assert_eq!(*ended(&events), Ended::Completed);
            assert_eq!((runs.load(Ordering::Relaxed), model.requests().len()), (count, 2));
        } else {
            let reply = failed(&agent, &events, "more than 1024 tool calls");
            assert_eq!(reply.tool_calls().count(), MAX_REPLY_CALLS);
            assert_eq!((runs.load(Ordering::Relaxed), model.requests().len()), (0, 1));
            assert_eq!(agent.chat("more").await.unwrap(), "again");
        }
    }
}

/// Sends this many texts in one poll and says that the reply is complete.
struct AtOnce(u32);

#[async_trait]
impl StreamProvider for AtOnce {
    fn provider_id(&self) -> &'static str {
        "at-once"
    }

    async fn stream(
        &self,
        _: &ModelRequest,
        sink: &mut EventSink<'_>,
        _: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        sink(StreamEvent::Start { response_id: None, model: None });
        for index in 0..self.0 {
            sink(StreamEvent::TextDelta { index, delta: "x" });
        }
        sink(StreamEvent::Usage(agent_core::Usage::new(3, 4, 0, 0)));
        Ok(Completion::new(StopReason::Stop))
    }
}

/// A reply whose events arrive together is not taken for complete because its provider says so.
#[tokio::test]
async fn a_reply_that_arrives_at_once_has_the_same_limits() {
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(AtOnce(5_000));
    let events = run(&agent).await;
    let reply = failed(&agent, &events, "more than 4096 blocks");
    assert_eq!((reply.content.len(), reply.usage.output), (MAX_REPLY_BLOCKS, 4));

    let request = ModelRequest::new(ModelConfig::default(), History::new());
    let end = complete(&AtOnce(5_000), &request, &CancellationToken::new()).await;
    assert_eq!(end.unwrap_err().kind(), ErrorKind::Other);
    let end = complete(&AtOnce(4_096), &request, &CancellationToken::new()).await;
    assert_eq!(end.unwrap().content.len(), 4_096);
}
