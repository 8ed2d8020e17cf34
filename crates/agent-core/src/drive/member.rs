//! Drives one loop of a group: a branch, or the judge.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::child::ChildStart;
use super::{
    AgentContext, AgentLoopConfig, Audience, CutOff, EventSender, ListenerPanicked, LoopError, Output,
    Patience, Performer, Shell, panic_text, start_in,
};
use crate::event::{AgentEnd, AgentEvent, Ended, NumberedEvent};
use crate::journal::{JournalError, RecordedLoop};
use crate::message::{AgentMessage, Usage};
use crate::prefix::Prefixes;
use crate::run::{ChildAnswer, ChildEnd, Input, NewMessages, Run, RunSetup};

/// A loop that has not started: a branch or the judge of a group, or the child of a tool call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GroupLoop {
    /// The conversation and the ids of the loop. All ids are set.
    pub context: AgentContext,
    /// The configuration of the loop.
    pub config: Arc<AgentLoopConfig>,
    /// The prompts of the loop; none if it continues its conversation.
    pub prompts: Vec<AgentMessage>,
}

/// A loop that is being driven. Dropping it ends the loop with its closing events.
pub(crate) struct Driving {
    begun: Result<(Box<Shell>, Arc<RunSlot>), Driven>,
    /// The answers to apply when the loop waits again.
    answers: Vec<ChildAnswer>,
}

/// The result of driving a loop.
pub(crate) enum Driven {
    /// The run, which has ended or waits for an answer.
    Run(Box<Run>),
    /// The loop could not start, for this reason.
    NotBegun(String),
    /// Code of the caller panicked outside of the shell's containment; with the run as the shell left it.
    Panicked(String, Option<Box<Run>>),
    /// The loop had ended before, as its record says.
    Ended(Box<ChildEnd>),
}

/// Receives the run when the shell is finished with it, even if the run was interrupted.
#[derive(Default)]
pub(crate) struct RunSlot {
    left: Mutex<Option<Box<Run>>>,
}

impl RunSlot {
    fn take(&self) -> Option<Box<Run>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[async_trait]
impl Audience for RunSlot {
    fn reduce(&self, _event: &AgentEvent) {}

    fn has_listeners(&self) -> bool {
        false
    }

    async fn notify(&self, _event: &AgentEvent, _: &Patience<'_>) -> Result<(), ListenerPanicked> {
        Ok(())
    }

    fn notify_now(&self, _event: &AgentEvent) {}

    fn settle(&self, run: Run, _: Option<Box<CutOff>>, output: &Output) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(run));
        output.release();
    }
}

impl GroupLoop {
    /// Returns the setup with which a driver starts the loop, with the history and the prompts that it has here.
    #[must_use]
    pub fn setup(&self) -> RunSetup {
        self.context.setup(&self.config)
    }

    /// Creates a performer of the loop, whose run is aborted when `cancel` is cancelled.
    #[must_use]
    pub fn performer(&self, cancel: CancellationToken) -> Performer {
        let (tools, prompt) = (self.context.tools.clone(), Arc::clone(&self.context.system_prompt));
        Performer::new(Arc::clone(&self.config), tools, prompt).with_cancel(cancel)
    }

    /// Prepares the loop; no event is emitted before it is driven or dropped. A loop that cannot start emits its end
    /// at once, so that every announced loop has one. `cancel` is the loop's own token: a dropped shell cancels it.
    pub(crate) fn begin(&self, tx: &EventSender, cancel: &CancellationToken) -> Driving {
        let begun = match catch_unwind(AssertUnwindSafe(|| self.shell(tx, cancel))) {
            Ok(Ok(begun)) => Ok(begun),
            Ok(Err(error)) => Err(Driven::NotBegun(error.to_string())),
            Err(panic) => Err(Driven::Panicked(panic_text(&*panic), None)),
        };
        if let Err(Driven::NotBegun(reason) | Driven::Panicked(reason, _)) = &begun {
            tx.send_numbered(self.never_begun(reason.clone()));
        }
        Driving { begun, answers: Vec::new() }
    }

    /// Reads from the journal how a loop of a group that is resumed continues. `answers` are those to its open questions.
    ///
    /// # Errors
    /// Returns an error if the record cannot be read, or if the journal cannot be read back.
    pub(crate) async fn recorded_start(&self, answers: &[ChildAnswer]) -> Result<ChildStart, JournalError> {
        let (Some(session), Some(loop_id)) = (&self.context.session_id, &self.context.loop_id) else {
            return Ok(ChildStart::New);
        };
        let recorded = match &self.config.services.journal {
            Some(journal) => journal.recorded_loop(session, loop_id).await?,
            None => RecordedLoop::Unknown,
        };
        Ok(match recorded {
            RecordedLoop::Absent => ChildStart::New,
            RecordedLoop::Ended(end) => ChildStart::Ended(end),
            RecordedLoop::Open(run) => {
                let open = run.questions();
                let is_open = |answer: &&ChildAnswer| open.iter().any(|q| q.id == answer.question_id);
                let answers = answers.iter().filter(is_open).cloned().collect();
                ChildStart::Resume(run, answers)
            }
            RecordedLoop::Unknown => {
                let text = format!(
                    "the group of loop {loop_id} was cut off, and there is no journal that can be read back; restore the \
                     agent with restore_session, or end the group with agent::discard_branches"
                );
                return Err(JournalError::new(text, None));
            }
        })
    }

    /// Prepares the loop, as [`begin`](Self::begin), at this start.
    pub(crate) fn begin_from(
        &self,
        start: ChildStart,
        tx: &EventSender,
        cancel: &CancellationToken,
    ) -> Driving {
        let (run, answers) = match start {
            ChildStart::New => return self.begin(tx, cancel),
            ChildStart::Ended(end) => {
                return Driving { begun: Err(Driven::Ended(end)), answers: Vec::new() };
            }
            ChildStart::Resume(run, answers) if run.is_suspended() && answers.is_empty() => {
                return Driving { begun: Err(Driven::Run(run)), answers };
            }
            ChildStart::Resume(run, answers) => (run, answers),
        };
        let mut answers = answers.into_iter();
        let slot = Arc::new(RunSlot::default());
        let shell = self.new_shell(&slot, tx, cancel).resume(*run, answers.next().map(Input::from));
        Driving { begun: Ok((shell, slot)), answers: answers.collect() }
    }

    /// Drives a prepared loop until it ends or waits for an answer that it does not have.
    pub(crate) async fn drive(
        &self,
        driving: Driving,
        tx: &EventSender,
        cancel: &CancellationToken,
    ) -> Driven {
        let Driving { begun, answers } = driving;
        let mut driven = match begun {
            Ok((shell, slot)) => {
                let driven = AssertUnwindSafe(shell.run_for_audience()).catch_unwind().await;
                result_of(driven, &slot)
            }
            Err(driven) => driven,
        };
        for answer in answers {
            driven = match driven {
                Driven::Run(run) if run.questions().iter().any(|q| q.id == answer.question_id) => {
                    self.resume(run, Some(Input::from(answer)), tx, cancel).await
                }
                other => other,
            };
        }
        driven
    }

    fn shell(
        &self,
        tx: &EventSender,
        cancel: &CancellationToken,
    ) -> Result<(Box<Shell>, Arc<RunSlot>), LoopError> {
        let (run, events) = start_in(&self.context, &self.config, self.prompts.clone())?;
        let slot = Arc::new(RunSlot::default());
        Ok((self.new_shell(&slot, tx, cancel).begin(run, events), slot))
    }

    fn new_shell(&self, slot: &Arc<RunSlot>, tx: &EventSender, cancel: &CancellationToken) -> Box<Shell> {
        Shell::new(
            Arc::clone(&self.config),
            self.context.tools.clone(),
            Arc::clone(&self.context.system_prompt),
            Output::with_audience(tx.clone(), Arc::clone(slot) as Arc<dyn Audience>),
            cancel.clone(),
            Prefixes::default(),
        )
    }

    fn never_begun(&self, reason: String) -> NumberedEvent {
        let event = AgentEvent::AgentEnd(Box::new(AgentEnd {
            loop_id: self.context.loop_id.clone().unwrap_or_else(|| "".into()),
            messages: NewMessages::default(),
            usage: Usage::default(),
            tool_usage: Usage::default(),
            ended: Ended::Interrupted { reason },
            spent: None,
            timestamp: self.config.services.environment.now(),
        }));
        NumberedEvent {
            depth: self.context.spawned.as_ref().map_or(0, |spawned| spawned.depth),
            parent_loop_id: self.context.parent_loop_id.clone(),
            ..NumberedEvent::new(1, event)
        }
    }

    /// Resumes the loop, after applying the input if there is one.
    pub(crate) async fn resume(
        &self,
        run: Box<Run>,
        input: Option<Input>,
        tx: &EventSender,
        cancel: &CancellationToken,
    ) -> Driven {
        let slot = Arc::new(RunSlot::default());
        let shell = self.new_shell(&slot, tx, cancel).resume(*run, input);
        let driven = AssertUnwindSafe(shell.run_for_audience()).catch_unwind().await;
        result_of(driven, &slot)
    }
}

fn result_of(driven: Result<(), Box<dyn Any + Send>>, slot: &RunSlot) -> Driven {
    match (driven, slot.take()) {
        (Ok(()), Some(run)) => Driven::Run(run),
        (Ok(()), None) => Driven::NotBegun("there was no run".to_owned()),
        (Err(panic), run) => Driven::Panicked(panic_text(&*panic), run),
    }
}
