//! Calls the model and delivers its reply while it arrives.

use super::Shell;
use crate::drive::interrupt::Interrupt;
use crate::drive::perform::{LiveSink, ModelCall};
use crate::event::{AgentEvent, NumberedEvent};
use crate::journal::Durability;

impl Shell {
    /// Calls the model and applies its reply or its failure.
    pub(in crate::drive) async fn call_model(&mut self, call: &mut ModelCall) -> Result<(), Interrupt> {
        // The run emits nothing until the reply begins, and thousands of runs may wait here.
        self.journaling.shrink();
        self.arriving = Some(call.arriving());
        let mut inputs = call.perform_to(self).await?;
        // Messages that were queued while the reply arrived are applied before the reply.
        self.check_mail().await?;
        self.arriving = None;
        let last = inputs.pop();
        for input in inputs {
            self.apply(input).await?;
        }
        match last {
            Some(input) => self.apply_deferred(input, Durability::Buffered).await,
            None => Ok(()),
        }
    }
}

impl LiveSink for Shell {
    type Error = Interrupt;

    async fn started(&mut self) -> Result<(), Interrupt> {
        self.begin_reply().await
    }

    fn try_update(&mut self, event: AgentEvent) -> Option<AgentEvent> {
        self.output.try_emit(self.numbered_live(event)).map(NumberedEvent::into_event)
    }

    async fn update(&mut self, event: AgentEvent) -> Result<(), Interrupt> {
        // Boxed, so that a run without listeners reserves no memory for it while it waits for the model.
        Box::pin(self.emit(event)).await
    }
}
