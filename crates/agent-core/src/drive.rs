//! The async shell around the step function: it asks hooks, calls the model, runs tools, waits, and decides nothing.
//!
//! [`agent_loop`] and [`agent_loop_continue`] run over an [`AgentContext`] and give the new messages;
//! [`agent_loop_stream`] gives the events as a stream with a result; [`drive`] is the form below them, which also
//! says when a run waits for an answer. [`BasicAgent`](crate::BasicAgent) is the handle on top.
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
mod compaction;
mod config;
mod gates;
mod interrupt;
mod journaling;
mod mailbox;
mod member;
mod observers;
mod output;
mod panics;
mod request;
mod services;
mod shell;
mod stream;
mod tool_decision;
mod tool_signals;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use channel::{EventReceiver, MergingReceiver, event_channel, merging_channel};
pub use config::{AgentContext, AgentLoopConfig, GRACE};
pub use output::EventSender;
pub use services::RunServices;
pub use shell::{DriveError, MAX_REPLY_BYTES, Outcome};
pub use stream::{AgentLoopResult, AgentLoopStream, StreamError, agent_loop_stream};

pub(crate) use config::{LoopIds, run_setup};
pub(crate) use interrupt::Interrupt;
pub(crate) use mailbox::{Mailbox, QueueView};
pub(crate) use member::{Driven, Driving, Member};
pub(crate) use output::{Audience, ListenerPanicked, Output};
pub(crate) use panics::panic_text;
pub(crate) use shell::{Shell, ask_sources, counted, start_run};

use crate::budget::BudgetError;
use crate::event::{Answer, Ended};
use crate::history::{HistoryError, MessageRef};
use crate::identity::QuestionId;
use crate::message::AgentMessage;
use crate::run::{Input, Run};

/// Why a loop did not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopError {
    /// There is nothing to continue (REQ-108).
    #[error("Cannot continue: no messages in context; call agent_loop with a prompt")]
    EmptyContext,
    /// The last message is a reply (REQ-108).
    #[error("Cannot continue from assistant message; queue a message or call agent_loop with a prompt")]
    AssistantTail,
    /// An id is missing (REQ-191).
    #[error("agent_loop_continue requires context.{0} to be set; run agent_loop first or set it")]
    MissingId(&'static str),
    /// A prompt may not enter alone.
    #[error("a prompt cannot enter the conversation: {0}")]
    Prompt(#[from] HistoryError),
    /// The context holds a run that waits for an answer.
    #[error(
        "the context holds a run that waits for an answer; answer it with agent_loop_answer, or clear context.suspended"
    )]
    Suspended,
    /// The context holds no run that waits for an answer.
    #[error("the context holds no run that waits for an answer")]
    NotSuspended,
    /// The answer does not fit.
    #[error("{0}")]
    Answer(#[from] crate::run::Misplaced),
    /// The budget cannot be kept.
    #[error(transparent)]
    Budget(#[from] BudgetError),
}

/// Runs the loop with these prompts and gives the messages of the run: the prompts, and all that followed (REQ-036).
///
/// Ids that the context lacks are made and written back (REQ-190). Everything that goes wrong in the run is in its
/// events and messages; the stream of events always ends.
///
/// # Errors
/// When the loop cannot begin. Nothing was sent then.
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
    config.check_budget()?;
    context.fill_ids(config);
    run_in(context, config, prompts, tx, cancel).await
}

/// Goes on from what the context holds, without a new prompt (REQ-037).
///
/// # Errors
/// When the context is empty, ends with a reply, or lacks an id. Nothing was sent then.
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
    match context.history.last() {
        None => return Err(LoopError::EmptyContext),
        Some(last) if last.role() == "assistant" => return Err(LoopError::AssistantTail),
        Some(_) => {}
    }
    config.check_budget()?;
    context.fill_ids(config);
    run_in(context, config, Vec::new(), tx, cancel).await
}

/// Answers a question of the run that the context holds, and goes on with it.
///
/// # Errors
/// When no run waits, the answer does not fit, or the budget cannot be kept. Nothing is changed then.
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
    let mut probe = (**run).clone();
    probe.apply(config.environment.now(), input.clone(), &mut Vec::new())?;
    config.check_budget()?;
    let Some(run) = context.suspended.take() else { return Err(LoopError::NotSuspended) };
    let shell = shell(context, config, tx, cancel).load(*run, Vec::new());
    Ok(settle(context, shell.resume(Some(Box::new(input))).await.0))
}

/// Drives a run until it ends or waits for an answer. The form below the handle: a suspended run comes back as data.
///
/// # Errors
/// When the journal fails; the run has been ended then.
pub async fn drive(
    run: Run,
    context: &AgentContext,
    config: &AgentLoopConfig,
    tx: EventSender,
    cancel: CancellationToken,
) -> Result<Outcome, DriveError> {
    let shell = shell(context, config, tx, cancel).load(run, Vec::new());
    match shell.resume(None).await {
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
    let setup = context.setup(config);
    let prompts = prompts.into_iter().map(|m| counted(config, m)).collect();
    let (run, events) = start_run(config, setup, context.history.clone(), prompts, ask_sources(config))?;
    let shell = shell(context, config, tx, cancel).load(run, events);
    Ok(settle(context, shell.begin().await.0))
}

/// What the run left is put into the context.
fn settle(context: &mut AgentContext, outcome: Outcome) -> Vec<MessageRef> {
    let run = match outcome {
        Outcome::Ended(run) => run,
        Outcome::Suspended(run) => {
            let messages = run.new_messages().to_vec();
            context.history = run.history().clone();
            context.suspended = Some(run);
            return messages;
        }
        Outcome::Nothing => return Vec::new(),
    };
    context.history = run.history().clone();
    match run.ended() {
        Some(Ended::InputRejected { .. } | Ended::Vetoed { .. }) => Vec::new(),
        _ => run.new_messages().to_vec(),
    }
}
