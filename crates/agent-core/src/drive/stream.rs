//! The loop as a stream of events with a result.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{AgentContext, AgentLoopConfig, EventReceiver, LoopError, agent_loop, event_channel};
use crate::environment::NoRuntime;
use crate::event::{AgentEvent, NumberedEvent};
use crate::history::MessageRef;
use crate::message::AgentMessage;

/// The result of a loop that ran as a stream.
#[derive(Clone)]
#[non_exhaustive]
pub struct AgentLoopResult {
    /// The messages of the run.
    pub messages: Vec<MessageRef>,
    /// The last reply, if there was one.
    pub final_message: Option<MessageRef>,
    /// The number of replies of the model.
    pub iterations: usize,
    /// The context as the run left it.
    pub context: AgentContext,
}

/// Shows figures, without the messages.
impl fmt::Debug for AgentLoopResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentLoopResult")
            .field("messages", &self.messages.len())
            .field("iterations", &self.iterations)
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}

/// The events of a loop that runs in its own task. The result is available whether or not the events are read.
#[derive(Debug)]
pub struct AgentLoopStream {
    events: EventReceiver,
    result: oneshot::Receiver<Result<AgentLoopResult, LoopError>>,
}

/// Runs [`agent_loop`] in its own task.
///
/// # Errors
/// Returns [`NoRuntime`] if there is no runtime for the task.
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
    /// Waits for the next event; returns `None` when the stream has ended.
    pub async fn recv(&mut self) -> Option<AgentEvent> {
        self.events.recv().await
    }

    /// Waits for the next event and returns it with its number, the depth of its loop and its parent loop; returns
    /// `None` when the stream has ended.
    pub async fn recv_numbered(&mut self) -> Option<NumberedEvent> {
        self.events.recv_numbered().await
    }

    /// Waits for the end of the loop and returns its result.
    ///
    /// # Errors
    /// Returns an error if the loop could not start, or its task was aborted.
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

/// The error of a stream without a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The loop could not start.
    #[error(transparent)]
    Loop(#[from] LoopError),
    /// The task of the loop was aborted.
    #[error("the task of the loop was aborted before it had a result")]
    Lost,
}
