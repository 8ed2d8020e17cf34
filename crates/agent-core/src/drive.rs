//! The asynchronous driver of a run: it calls hooks, the model and tools, waits, and leaves all decisions to the
//! [`Run`].
//!
//! [`agent_loop`] and [`agent_loop_continue`] run over an [`AgentContext`] and return the new messages.
//! [`agent_loop_stream`] returns the events as a stream with a result. [`drive`] is the lower-level form, which
//! returns a suspended run as data. [`BasicAgent`](crate::BasicAgent) is built on these.
//!
//! ```
//! use std::sync::Arc;
//!
//! use agent_core::testing::ScriptedProvider;
//! use agent_core::{AgentContext, AgentLoopConfig, CancellationToken, ModelConfig, agent_loop, event_channel};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), agent_core::LoopError> {
//! let model = Arc::new(ScriptedProvider::texts(["It is 4."]));
//! let config = AgentLoopConfig::system(model, ModelConfig::default());
//! let mut context = AgentContext::new("Be brief.");
//! let (tx, mut events) = event_channel();
//! let new =
//!     agent_loop(vec!["2 + 2?".into()], &mut context, &config, tx, CancellationToken::new()).await?;
//! assert_eq!(new.len(), 2);
//! assert_eq!(context.history.len(), 2);
//! assert!(events.recv().await.is_some());
//! # Ok(())
//! # }
//! ```

mod budget_meter;
mod channel;
mod child;
mod compaction;
mod config;
mod gates;
mod inherit;
mod instructions;
mod interrupt;
mod journaling;
mod mailbox;
mod member;
mod observers;
mod output;
mod panics;
mod patience;
pub mod perform;
mod request;
mod run_clock;
mod services;
mod shell;
mod spans;
mod stream;
mod telemetry;
mod tool_decision;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use crate::provider::{MAX_REPLY_BLOCKS, MAX_REPLY_BYTES, MAX_REPLY_CALLS};
pub use channel::{EventReceiver, EventSender, MAX_WAITING_EVENTS, event_channel, merging_channel};
pub use child::{ChildLoop, ChildStart, Delegation};
pub use config::{AgentContext, AgentLoopConfig, Services};
pub use inherit::Inheritance;
pub use member::GroupLoop;
pub use perform::Performer;
pub use services::RunServices;
pub(crate) use spans::group as group_span;
pub use stream::{AgentLoopResult, AgentLoopStream, StreamError, agent_loop_stream};
pub use telemetry::{SpanContent, Telemetry};

pub(crate) use config::{LoopIds, run_setup};
pub(crate) use instructions::record_instructions;
pub(crate) use interrupt::Interrupt;
pub(crate) use journaling::CutOff;
pub(crate) use mailbox::Mailbox;
pub(crate) use member::Driven;
pub(crate) use output::{Audience, ListenerPanicked, Output};
pub(crate) use panics::panic_text;
pub(crate) use patience::Patience;
pub(crate) use shell::{Shell, counted, poll_sources, start_run};

use crate::budget::BudgetError;
use crate::environment::NoRuntime;
use crate::event::{AgentEvent, Answer, Ended};
use crate::history::{HistoryError, MessageRef};
use crate::identity::QuestionId;
use crate::journal::JournalError;
use crate::message::AgentMessage;
use crate::run::{Input, NewMessages, ReadMessagesError, Run};

/// The state of a run when the driver returns it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The run has ended; [`Run::ended`] returns how.
    Ended(Box<Run>),
    /// The run waits for an answer; [`Run::questions`] returns the questions.
    Suspended(Box<Run>),
    /// There was no run.
    Nothing,
}

/// The error for which the driver interrupted a run. The run has been ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriveError {
    /// The journal could not write an entry.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// There is no runtime for the tasks of its tools.
    #[error(transparent)]
    NoRuntime(#[from] NoRuntime),
}

/// The error of a loop that could not start, or whose messages could not be read back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopError {
    /// The context has no messages to continue from.
    #[error("Cannot continue: no messages in context; call agent_loop with a prompt")]
    EmptyContext,
    /// The last message of the context is a reply.
    #[error("Cannot continue from assistant message; queue a message or call agent_loop with a prompt")]
    AssistantTail,
    /// The context lacks an id that a continuation needs.
    #[error("agent_loop_continue requires context.{0} to be set; run agent_loop first or set it")]
    MissingId(&'static str),
    /// A prompt cannot enter the conversation alone.
    #[error("a prompt cannot enter the conversation: {0}")]
    Prompt(#[from] HistoryError),
    /// The context contains a run that waits for an answer.
    #[error(
        "the context holds a run that waits for an answer; answer it with agent_loop_answer, or clear context.suspended"
    )]
    Suspended,
    /// The context contains no run that waits for an answer.
    #[error("the context holds no run that waits for an answer")]
    NotSuspended,
    /// The answer does not match an open question.
    #[error("{0}")]
    Answer(#[from] crate::run::Misplaced),
    /// The budget cannot count the cost of the model.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// The run has ended or waits for an answer, as the context shows, but its messages could not be read back from the
    /// store of its journal.
    #[error(transparent)]
    Messages(#[from] ReadMessagesError),
}

/// Runs the loop with these prompts and returns the messages of the run: the prompts and everything after them.
///
/// Missing ids are created and stored in the context. Errors during the run are reported in its events and messages;
/// the stream of events always ends. Messages that a compaction removed are read back from the store of the journal.
///
/// # Errors
/// Returns an error if the loop cannot start; no event has been sent then. Returns [`LoopError::Messages`] if the run's
/// messages cannot be read back; the context has the result of the run then.
pub async fn agent_loop(
    prompts: Vec<AgentMessage>,
    context: &mut AgentContext,
    config: &AgentLoopConfig,
    tx: EventSender,
    cancel: CancellationToken,
) -> Result<Vec<MessageRef>, LoopError> {
    if context.suspended.is_some() {
        return Err(LoopError::Suspended);
    }
    run_in(context, config, prompts, tx, cancel).await
}

/// Continues from the messages of the context, without a new prompt.
///
/// # Errors
/// Returns an error if the context is empty, ends with a reply, or lacks an id. No event has been sent then.
pub async fn agent_loop_continue(
    context: &mut AgentContext,
    config: &AgentLoopConfig,
    tx: EventSender,
    cancel: CancellationToken,
) -> Result<Vec<MessageRef>, LoopError> {
    if context.suspended.is_some() {
        return Err(LoopError::Suspended);
    }
    if context.agent_id.is_none() {
        return Err(LoopError::MissingId("agent_id"));
    }
    if context.session_id.is_none() {
        return Err(LoopError::MissingId("session_id"));
    }
    context.check_continues()?;
    run_in(context, config, Vec::new(), tx, cancel).await
}

/// Answers a question of the suspended run in the context and resumes the run.
///
/// # Errors
/// Returns an error if no run waits, the answer does not match, or the budget cannot count the model's cost. The
/// context is unchanged then.
pub async fn agent_loop_answer(
    context: &mut AgentContext,
    config: &AgentLoopConfig,
    question_id: QuestionId,
    answer: Answer,
    tx: EventSender,
    cancel: CancellationToken,
) -> Result<Vec<MessageRef>, LoopError> {
    let Some(run) = &context.suspended else { return Err(LoopError::NotSuspended) };
    let input = Input::Answer { question_id, answer };
    run.check(config.services.environment.now(), &input)?;
    config.check_budget()?;
    let Some(run) = context.suspended.take() else { return Err(LoopError::NotSuspended) };
    let shell = shell(context, config, tx, cancel).resume(*run, Some(input));
    Ok(settle(context, shell.run_to_outcome().await.0).read().await?)
}

/// Drives a run until it ends or waits for an answer. A suspended run is returned as data.
///
/// # Errors
/// Returns an error if the journal fails. The run has been ended then.
pub async fn drive(
    run: Run,
    context: &AgentContext,
    config: &AgentLoopConfig,
    tx: EventSender,
    cancel: CancellationToken,
) -> Result<Outcome, DriveError> {
    match shell(context, config, tx, cancel).resume(run, None).run_to_outcome().await {
        (_, Some(Interrupt::Journal(error))) => Err(error.into()),
        (outcome, _) => Ok(outcome),
    }
}

fn shell(
    context: &AgentContext,
    config: &AgentLoopConfig,
    tx: EventSender,
    cancel: CancellationToken,
) -> Box<Shell> {
    Shell::new(
        Arc::new(config.clone()),
        context.tools.clone(),
        context.system_prompt.clone(),
        Output::to(tx),
        cancel,
        context.prefixes.shared(),
    )
}

async fn run_in(
    context: &mut AgentContext,
    config: &AgentLoopConfig,
    prompts: Vec<AgentMessage>,
    tx: EventSender,
    cancel: CancellationToken,
) -> Result<Vec<MessageRef>, LoopError> {
    config.check_budget()?;
    context.fill_ids(config);
    let (run, events) = start_in(context, config, prompts)?;
    context.started.clone_from(&context.loop_id);
    let shell = shell(context, config, tx, cancel).begin(run, events);
    Ok(settle(context, shell.run_to_outcome().await.0).read().await?)
}

/// Starts a run over the context and returns it with its first events.
pub(crate) fn start_in(
    context: &AgentContext,
    config: &AgentLoopConfig,
    prompts: Vec<AgentMessage>,
) -> Result<(Run, Vec<AgentEvent>), HistoryError> {
    let mut prompts = prompts.into_iter().map(|m| counted(config, m)).collect();
    let AgentContext { history, system_prompt, tools, .. } = context;
    record_instructions(config, history, system_prompt, tools, &mut prompts);
    start_run(config, context.setup(config), context.history.clone(), prompts, poll_sources(config))
}

/// Stores the result of a run in the context.
fn settle(context: &mut AgentContext, outcome: Outcome) -> NewMessages {
    let (Outcome::Ended(run) | Outcome::Suspended(run)) = outcome else { return NewMessages::default() };
    context.history = run.history().clone();
    let messages = messages_of(&run);
    if run.ended().is_none() {
        context.suspended = Some(run);
    }
    messages
}

/// Returns the messages of a run for its caller; none if its prompts were rejected.
pub(crate) fn messages_of(run: &Run) -> NewMessages {
    match run.ended() {
        Some(Ended::InputRejected { .. } | Ended::Vetoed { .. }) => NewMessages::default(),
        _ => run.new_messages().clone(),
    }
}
