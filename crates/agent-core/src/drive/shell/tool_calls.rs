//! Executes the calls of a group.

use super::Shell;
use crate::drive::interrupt::Interrupt;
use crate::drive::journaling::Journaled;
use crate::drive::perform::{CallProgress, Decision, ReadyCall};
use crate::identity::ToolCallId;
use crate::run::{CallStage, Input, PendingCall};

impl Shell {
    /// Decides about all calls in their order, then executes the allowed ones concurrently.
    pub(in crate::drive) async fn run_tools(&mut self, calls: Vec<PendingCall>) -> Result<(), Interrupt> {
        let mut ready = Vec::new();
        for pending in calls {
            if pending.stage == CallStage::Ended {
                self.review(&pending.call.id).await?;
                continue;
            }
            let Some(run) = &self.run else { return Ok(()) };
            match self.performer.decide(run, &pending).await {
                None => break,
                Some(Decision::Refuse(input)) => self.apply(input).await?,
                Some(Decision::Execute(input, call)) => {
                    self.apply_deferred(input, call.durability()).await?;
                    ready.push(*call);
                }
            }
        }
        let journaled = self.settle().await?;
        self.execute(ready, journaled).await
    }

    /// Executes the calls and applies each result as it arrives, after the messages that were queued. Requires the
    /// proof that the start of each call is journaled.
    async fn execute(&mut self, ready: Vec<ReadyCall>, _: Journaled) -> Result<(), Interrupt> {
        let mut calls = self.performer.calls(ready);
        while let Some(run) = &self.run {
            match calls.next(run).await {
                None => break,
                Some(CallProgress::Update(event)) => self.emit(event).await?,
                Some(CallProgress::Apply(Input::ToolEnded { id, outcome })) => {
                    self.check_mail().await?;
                    self.apply(Input::ToolEnded { id: id.clone(), outcome }).await?;
                    self.review(&id).await?;
                }
                Some(CallProgress::Apply(input)) => self.apply(input).await?,
            }
        }
        Ok(())
    }

    async fn review(&mut self, id: &ToolCallId) -> Result<(), Interrupt> {
        let Some(run) = &self.run else { return Ok(()) };
        match self.performer.review(run, id).await {
            Some(input) => self.apply(input).await,
            None => Ok(()),
        }
    }
}
