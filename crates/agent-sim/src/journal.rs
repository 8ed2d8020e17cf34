//! The journal of a simulated agent, which writes to the disk of the world.

use std::fmt;

use agent_core::journal::{Journal, JournalEntry, JournalError, RecordedLoop};
use agent_core::{LoopId, SessionId};
use async_trait::async_trait;

use crate::world::World;

/// The journal of a simulated agent.
pub(crate) struct SimJournal(pub(crate) World);

impl fmt::Debug for SimJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimJournal")
    }
}

#[async_trait]
impl Journal for SimJournal {
    async fn append(&self, entry: JournalEntry<'_>) -> Result<(), JournalError> {
        self.0.moment().await;
        self.0.record(&entry);
        self.0.moment().await;
        Ok(())
    }

    async fn recorded_loop(&self, _: &SessionId, loop_id: &LoopId) -> Result<RecordedLoop, JournalError> {
        self.0.state().disk.recorded(loop_id)
    }
}
