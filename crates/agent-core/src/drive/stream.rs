//! The loop as a stream of events with a result (seed 001).

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{AgentContext, AgentLoopConfig, EventReceiver, LoopError, agent_loop, event_channel};
use crate::environment::NoRuntime;
use crate::event::AgentEvent;
use crate::history::MessageRef;
use crate::message::AgentMessage;

/// What a loop gave.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AgentLoopResult {
    /// The messages of the run.
    pub messages: Vec<MessageRef>,
    /// The last reply, if there was one.
    pub final_message: Option<MessageRef>,
    /// Turns.
    pub iterations: usize,
    /// The context as the run left it.
    pub context: AgentContext,
}

/// The events of a loop that runs in a task of its own. The result can be had with or without reading them (B-118).
pub struct AgentLoopStream {
    events: EventReceiver,
    result: oneshot::Receiver<Result<AgentLoopResult, LoopError>>,
}

/// Runs [`agent_loop`] in a task of its own.
///
/// # Errors
/// When there is no runtime for the task.
pub fn agent_loop_stream(
    prompts: Vec<AgentMessage>,
    mut context: AgentContext,
    config: AgentLoopConfig,
    cancel: CancellationToken,
) -> Result<AgentLoopStream, NoRuntime> {
    let (tx, events) = event_channel();
    let (done, result) = oneshot::channel();
    let env = Arc::clone(&config.services.environment);
    env.spawn(Box::pin(async move {
        let ran = agent_loop(prompts, &mut context, &config, tx, cancel).await;
        let outcome = ran.map(|messages| {
            let is_reply = |m: &&MessageRef| m.role() == "assistant";
            AgentLoopResult {
                final_message: messages.iter().rev().find(is_reply).cloned(),
                iterations: messages.iter().filter(is_reply).count(),
                messages,
                context,
            }
        });
        let _ = done.send(outcome);
    }))?;
    Ok(AgentLoopStream { events, result })
}

impl AgentLoopStream {
    /// The next event; `None` when the stream has ended.
    pub async fn recv(&mut self) -> Option<AgentEvent> {
        self.events.recv().await
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// When the loop could not begin, or its task was ended from outside.
    pub async fn result(self) -> Result<AgentLoopResult, StreamError> {
        drop(self.events);
        Ok(self.result.await.map_err(|_| StreamError::Lost)??)
    }
}

impl Stream for AgentLoopStream {
    type Item = AgentEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
        Pin::new(&mut self.events).poll_next(cx)
    }
}

impl fmt::Debug for AgentLoopStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentLoopStream")
    }
}

/// Why a stream has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The loop did not begin.
    #[error(transparent)]
    Loop(#[from] LoopError),
    /// Its task is gone.
    #[error("the loop's task was ended from outside before it had a result")]
    Lost,
}
