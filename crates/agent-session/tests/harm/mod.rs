//! What the load of a damaged session may be.
#![allow(dead_code, reason = "each test file uses a part of it")]

use agent_session::{BlockingSessionStore, LoadedSession, SessionError};

/// Whether damage was noticed: a typed error, or the session as it was. Anything else fails the test.
#[track_caller]
pub(crate) fn is_noticed(
    store: Result<&dyn BlockingSessionStore, SessionError>,
    whole: &LoadedSession,
    what: &dyn Fn() -> String,
) -> bool {
    match store.and_then(|store| store.load_session("s-1")) {
        Ok(loaded) => {
            assert!(loaded.into_session() == whole.clone().into_session(), "{} changed it", what());
            false
        }
        Err(SessionError::Corrupt { .. } | SessionError::UnsupportedVersion { .. }) => true,
        Err(other) => panic!("{}: {other}", what()),
    }
}

/// The distance between the places that are damaged: 1 by hand, `usual` in other runs.
#[expect(clippy::disallowed_methods, reason = "an option of the test command")]
pub(crate) fn step(usual: usize) -> usize {
    std::env::var("LOOPTREE_DAMAGE_STEP").ok().and_then(|step| step.parse().ok()).unwrap_or(usual)
}
