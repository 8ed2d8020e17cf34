//! The states of open runs while a journal is read.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::model::recording::Recording;
use crate::model::{LoopRecord, OpenRun};

/// The setup and the last state of each open loop, by its position. They are parsed after the last line, so that a state of
/// another version is preserved.
#[derive(Default)]
pub(super) struct OpenRunStates(BTreeMap<usize, (Value, Value)>);

impl OpenRunStates {
    /// Sets the state of a loop after a line; `None` if its run has ended. `setup` is present in the first line of a loop.
    pub(super) fn set(
        &mut self,
        recording: &mut Recording,
        at: usize,
        setup: Option<Value>,
        state: Option<Value>,
    ) {
        let Some(state) = state else {
            self.0.remove(&at);
            if let Some(record) = recording.record_mut(at) {
                record.open_run = None;
            }
            return;
        };
        let known = self.0.remove(&at).map(|(setup, _)| setup);
        let stored = || part_of(recording.record(at)?, "setup");
        let setup = setup.or(known).or_else(stored).unwrap_or_default();
        self.0.insert(at, (setup, state));
    }

    /// Completes the lists of a state with the items that it has in common with the state before.
    ///
    /// # Errors
    /// When the state before does not have these items.
    pub(super) fn complete(
        &mut self,
        recording: &Recording,
        at: usize,
        state: &mut Value,
        kept: &BTreeMap<String, (usize, usize)>,
    ) -> Result<(), String> {
        if kept.is_empty() {
            return Ok(());
        }
        if let std::collections::btree_map::Entry::Vacant(entry) = self.0.entry(at) {
            let record = recording.record(at);
            let before = |key| record.and_then(|record| part_of(record, key)).unwrap_or_default();
            entry.insert((before("setup"), before("light")));
        }
        let Some((_, earlier)) = self.0.get_mut(&at) else { return Ok(()) };
        for (list, (first, last)) in kept {
            let lacks = || format!("the state before it does not have the list {list}");
            let old = earlier.pointer_mut(list).and_then(Value::as_array_mut).ok_or_else(lacks)?;
            let new = state.pointer_mut(list).and_then(Value::as_array_mut).ok_or_else(lacks)?;
            let end = old.len().checked_sub(*last).filter(|end| first <= end).ok_or_else(lacks)?;
            let mut whole = std::mem::take(old);
            whole.splice(*first..end, new.drain(..));
            *new = whole;
        }
        Ok(())
    }

    /// Sets the open runs of the loops.
    pub(super) fn finish(self, recording: &mut Recording) {
        for (at, (setup, state)) in self.0 {
            if let Some(record) = recording.record_mut(at) {
                record.open_run = Some(open_run(&setup, &state));
            }
        }
    }
}

/// Returns the setup or the state of an open loop from the saved session.
fn part_of(record: &LoopRecord, key: &str) -> Option<Value> {
    match (record.open_run.as_ref()?, key) {
        (OpenRun::Known { setup, .. }, "setup") => serde_json::to_value(setup).ok(),
        (OpenRun::Known { light, .. }, _) => serde_json::to_value(light).ok(),
        (OpenRun::Foreign(value), key) => value.get(key).cloned(),
    }
}

/// Creates an open run from its parts, which are preserved unchanged if this version cannot read them.
fn open_run(setup: &Value, light: &Value) -> OpenRun {
    let both = json!({ "setup": setup, "light": light });
    serde_json::from_value(both.clone()).unwrap_or(OpenRun::Foreign(both))
}
