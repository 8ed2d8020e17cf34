//! What a simulation may do to an agent.

use std::collections::BTreeSet;

/// A kind of trouble that a simulation can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fault {
    /// Calls with arguments that do not fit the schema or are not JSON, and calls of unknown tools.
    InvalidCall,
    /// Model calls that fail before the reply, or are cut off inside of it.
    ModelFailure,
    /// Replies that reach the token limit, that the vendor pauses, or that do not arrive until the call is cancelled.
    ModelPause,
    /// Tools that fail before or after their effect, or panic.
    ToolFailure,
    /// Tools that are slow, or do not end until they are cancelled.
    ToolDelay,
    /// Messages that the user sends while the agent works: steering and follow-ups.
    Message,
    /// Aborts by the user, at any moment.
    Abort,
    /// Approvals that are denied, or given with other arguments.
    Denial,
    /// Ends of the process, after which another process continues from the journal.
    Kill,
    /// Ends of the machine: as a kill, and entries of the journal that were not flushed are lost.
    Crash,
    /// Jumps of the time of day, forwards and backwards. The monotonic clock does not jump.
    ClockJump,
    /// Calls of the session store that fail: before anything was stored, or after it was stored, as when a reply is lost.
    /// Needs [`Sim::store`](crate::Sim::store).
    StoreFailure,
    /// Processes that are stopped while another one takes over the session, and that continue afterwards. Needs
    /// [`Sim::store`](crate::Sim::store).
    Takeover,
}

impl Fault {
    const ALL: [Self; 13] = [
        Self::InvalidCall,
        Self::ModelFailure,
        Self::ModelPause,
        Self::ToolFailure,
        Self::ToolDelay,
        Self::Message,
        Self::Abort,
        Self::Denial,
        Self::Kill,
        Self::Crash,
        Self::ClockJump,
        Self::StoreFailure,
        Self::Takeover,
    ];
}

/// The kinds of trouble of a simulation. The default is [`Faults::all`].
///
/// ```
/// use agent_sim::{Fault, Faults};
/// let faults = Faults::all().without(Fault::Crash);
/// assert!(faults.contains(Fault::Kill) && !faults.contains(Fault::Crash));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(BTreeSet<Fault>);

impl Faults {
    /// Returns every kind of trouble.
    #[must_use]
    pub fn all() -> Self {
        Self(Fault::ALL.into())
    }

    /// Returns no trouble: models reply, tools work, and every question is allowed.
    #[must_use]
    pub fn none() -> Self {
        Self(BTreeSet::new())
    }

    /// Adds a kind of trouble.
    #[must_use]
    pub fn with(mut self, fault: Fault) -> Self {
        self.0.insert(fault);
        self
    }

    /// Removes a kind of trouble.
    #[must_use]
    pub fn without(mut self, fault: Fault) -> Self {
        self.0.remove(&fault);
        self
    }

    /// Returns whether the simulation makes this kind of trouble.
    #[must_use]
    pub fn contains(&self, fault: Fault) -> bool {
        self.0.contains(&fault)
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self::all()
    }
}
