//! Ids for tool calls that a server gave none.
//!
//! They are made without randomness, so that the same answer to the same request gives the same ids, and never
//! repeat one of the history (B-145).

#[cfg(test)]
mod tests;

use agent_core::History;

/// Makes the ids of one reply.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallIds {
    history: History,
    made: usize,
}

impl CallIds {
    /// Ids for the reply to this conversation.
    pub(crate) fn new(history: &History) -> Self {
        Self { history: history.clone(), made: 0 }
    }

    /// The next id.
    pub(crate) fn fresh(&mut self) -> String {
        loop {
            let id = format!("call_{}_{}", self.history.len(), self.made);
            self.made += 1;
            if !self.history.has_call(&id) {
                return id;
            }
        }
    }
}
