//! A recording as the fixture of a test.

use crate::recording::{Recording, Replay, Replayed};

/// Creates a strict replay of a recording, usually of `include_str!("fixture.json")`.
///
/// # Panics
/// If the text is not a recording.
#[track_caller]
#[must_use]
#[expect(clippy::panic, reason = "a test may fail loudly")]
pub fn replay(recording: &str) -> Replay {
    match Recording::from_json(recording) {
        Ok(recording) => Replay::new(recording),
        Err(error) => panic!("{error}"),
    }
}

/// Asserts that the agent followed the recording to its end.
///
/// # Panics
/// If the agent deviated; the message describes the first difference.
#[track_caller]
#[expect(clippy::panic, reason = "a test may fail loudly")]
pub fn assert_replayed(replay: &Replay) -> Replayed {
    match replay.finish() {
        Ok(replayed) => replayed,
        Err(divergence) => panic!("{divergence}"),
    }
}
