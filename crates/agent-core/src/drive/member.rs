//! Drives one loop of a group: a branch, or the judge.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::{
    AgentContext, AgentLoopConfig, Audience, EventSender, ListenerPanicked, LoopError, Output, Patience,
    Shell, panic_text, start_in,
};
use crate::event::{AgentEnd, AgentEvent, Answer, Ended};
use crate::identity::{QuestionId, Timestamp};
use crate::message::{AgentMessage, Usage};
use crate::prefix::Prefixes;
use crate::run::{Input, Run};

/// A loop of a group that has not started.
pub(crate) struct Member {
    pub(crate) context: AgentContext,
    pub(crate) config: Arc<AgentLoopConfig>,
    pub(crate) prompts: Vec<AgentMessage>,
    pub(crate) tx: EventSender,
    /// The loop's own token. A dropped shell cancels its token, which must not affect the other loops.
    pub(crate) cancel: CancellationToken,
}

/// A loop that is being driven. Dropping it ends the loop with its closing events.
pub(crate) struct Driving {
    begun: Result<(Box<Shell>, Arc<RunSlot>), Driven>,
}

/// The result of driving a loop.
pub(crate) enum Driven {
    /// The run, which has ended or waits for an answer.
    Run(Box<Run>),
    /// The loop could not start, for this reason.
    NotBegun(String),
    /// Code of the caller panicked outside of the shell's containment; with the run as the shell left it.
    Panicked(String, Option<Box<Run>>),
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

    fn settle(&self, run: Run, output: &Output) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(run));
        output.release();
    }
}

impl Member {
    /// Prepares the loop; no event is emitted before it is driven or dropped. A loop that cannot start emits its end
    /// at once, so that every announced loop has one.
    pub(crate) fn begin(&self) -> Driving {
        let begun = match catch_unwind(AssertUnwindSafe(|| self.shell())) {
            Ok(Ok(begun)) => Ok(begun),
            Ok(Err(error)) => Err(Driven::NotBegun(error.to_string())),
            Err(panic) => Err(Driven::Panicked(panic_text(&*panic), None)),
        };
        if let Err(Driven::NotBegun(reason) | Driven::Panicked(reason, _)) = &begun {
            self.tx.send(self.never_begun(reason.clone()));
        }
        Driving { begun }
    }

    fn shell(&self) -> Result<(Box<Shell>, Arc<RunSlot>), LoopError> {
        let (run, events) = start_in(&self.context, &self.config, self.prompts.clone())?;
        let slot = Arc::new(RunSlot::default());
        Ok((self.new_shell(&slot).begin(run, events), slot))
    }

    fn new_shell(&self, slot: &Arc<RunSlot>) -> Box<Shell> {
        Shell::new(
            Arc::clone(&self.config),
            self.context.tools.clone(),
            Arc::clone(&self.context.system_prompt),
            Output::with_audience(self.tx.clone(), Arc::clone(slot) as Arc<dyn Audience>),
            self.cancel.clone(),
            Prefixes::default(),
        )
    }

    fn never_begun(&self, reason: String) -> AgentEvent {
        AgentEvent::AgentEnd(Box::new(AgentEnd {
            loop_id: self.context.loop_id.clone().unwrap_or_else(|| "".into()),
            messages: Vec::new(),
            usage: Usage::default(),
            tool_usage: Usage::default(),
            ended: Ended::Interrupted { reason },
            spent: None,
            timestamp: self.now(),
        }))
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.config.services.environment.now()
    }

    /// Answers a question of the loop and resumes it.
    pub(crate) async fn answer(&self, run: Box<Run>, question_id: QuestionId, answer: Answer) -> Driven {
        let slot = Arc::new(RunSlot::default());
        let shell = self.new_shell(&slot).resume(*run, Some(Input::Answer { question_id, answer }));
        let driven = AssertUnwindSafe(shell.run_for_audience()).catch_unwind().await;
        result_of(driven, &slot)
    }
}

impl Driving {
    /// Drives the loop until it ends or waits for an answer.
    pub(crate) async fn drive(self) -> Driven {
        let (shell, slot) = match self.begun {
            Ok(begun) => begun,
            Err(driven) => return driven,
        };
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
