//! The journal of a simulated agent: it writes to the disk of the world, or to the recorder of a session store.

use std::fmt;
use std::sync::Arc;

use agent_core::journal::{GroupEntry, Journal, JournalEntry, JournalError, JournalWarning, RecordedLoop};
use agent_core::run::Run;
use agent_core::{LoopId, SessionId};
use async_trait::async_trait;

use crate::world::World;

/// The journal of a simulated agent.
pub(crate) struct SimJournal {
    pub(crate) world: World,
    /// The journal of the recorder, if the simulation has a session store. Runs keep their messages, which the laws compare.
    pub(crate) recorder: Option<Arc<dyn Journal>>,
}

impl fmt::Debug for SimJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimJournal")
    }
}

#[async_trait]
impl Journal for SimJournal {
    async fn append(&self, entry: JournalEntry<'_>) -> Result<(), JournalError> {
        self.world.moment().await;
        match &self.recorder {
            None => self.world.record(&entry),
            Some(recorder) => {
                let write = self.world.begin_write(&entry);
                let written = recorder.append(entry).await;
                self.world.end_write(write, written.is_ok());
                written?;
            }
        }
        self.world.moment().await;
        Ok(())
    }

    async fn append_group(&self, entry: GroupEntry<'_>) -> Result<(), JournalError> {
        self.world.moment().await;
        let event = entry.event.clone();
        if let Some(recorder) = &self.recorder {
            let written = recorder.append_group(entry).await;
            if written.is_err() {
                self.world.store_failed();
            }
            written?;
        }
        self.world.record_group(event);
        self.world.moment().await;
        Ok(())
    }

    async fn recorded_loop(
        &self,
        session: &SessionId,
        loop_id: &LoopId,
    ) -> Result<RecordedLoop, JournalError> {
        match &self.recorder {
            Some(recorder) => recorder.recorded_loop(session, loop_id).await,
            None => self.world.state().disk.recorded(loop_id),
        }
    }

    fn warning(&self, run: &Run) -> Option<JournalWarning> {
        self.recorder.as_ref()?.warning(run)
    }
}
