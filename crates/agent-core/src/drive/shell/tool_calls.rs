//! Executes the calls of a group.

use super::Shell;
use crate::drive::interrupt::Interrupt;
use crate::drive::journaling::Journaled;
use crate::drive::perform::{CallProgress, Decision, ReadyCall};
use crate::run::PendingCall;

impl Shell {
    /// Decides about all calls in their order, then executes the allowed ones concurrently.
    pub(in crate::drive) async fn run_tools(&mut self, calls: Vec<PendingCall>) -> Result<(), Interrupt> {
        let mut ready = Vec::new();
        for pending in calls {
            let Some(run) = &self.run else { return Ok(()) };
            match self.performer.decide(run, &pending).await {
                None => break,
                Some(Decision::Apply(input)) => self.apply(input).await?,
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
                Some(CallProgress::Child(event)) => self.emit_child(*event).await?,
                Some(CallProgress::Ended(input, id)) => {
                    self.check_mail().await?;
                    self.apply(input).await?;
                    if let Some(run) = &self.run
                        && let Some(review) = self.performer.review(run, &id).await
                    {
                        self.apply(review).await?;
                    }
                }
                Some(CallProgress::Apply(input)) => self.apply(input).await?,
            }
        }
        Ok(())
    }
}
