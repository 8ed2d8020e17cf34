//! What one simulated run gives.

use crate::log::Log;
use crate::script::Script;

/// What one simulated run violated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: String,
    pub(crate) message: String,
}

/// One simulated run.
pub(crate) struct Outcome {
    pub(crate) script: Script,
    pub(crate) log: Log,
    pub(crate) violation: Option<Violation>,
    pub(crate) kills: usize,
}
