//! A journal that keeps what it is given.

use std::sync::{Arc, Mutex};

use agent_core::AgentEvent;
use agent_core::journal::{AppliedInput, Durability, Journal, JournalEntry, JournalError};
use agent_core::run::{Run, RunCheckpoint};
use agent_core::testing::transcript;
use async_trait::async_trait;

use crate::room::Notes;

#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) inputs: Vec<AppliedInput>,
    pub(crate) events: Vec<AgentEvent>,
    /// The run as JSON.
    pub(crate) run: String,
    pub(crate) light: String,
    pub(crate) durability: Durability,
}

impl Kept {
    pub(crate) fn run(&self) -> Run {
        serde_json::from_str(&self.run).unwrap()
    }

    pub(crate) fn checkpoint(&self) -> RunCheckpoint {
        serde_json::from_str(&self.light).unwrap()
    }

    /// The names of its inputs.
    pub(crate) fn input_names(&self) -> String {
        let names: Vec<&str> = self.inputs.iter().map(|i| i.input.name()).collect();
        if names.is_empty() { "start".to_owned() } else { names.join(",") }
    }
}

/// Writes slowly, says when it has written, and fails from one entry on if it is told to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keeping {
    kept: Arc<Mutex<Vec<Kept>>>,
    notes: Notes,
    full_after: Option<usize>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.input_names())
    }
}

impl std::fmt::Debug for Notes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.joined())
    }
}

impl Keeping {
    pub(crate) fn noting(notes: &Notes) -> Self {
        Self { notes: notes.clone(), ..Self::default() }
    }

    pub(crate) fn full_after(mut self, entries: usize) -> Self {
        self.full_after = Some(entries);
        self
    }

    pub(crate) fn kept(&self) -> Vec<Kept> {
        self.kept.lock().unwrap().clone()
    }

    /// The first entry that has an input of this name.
    #[track_caller]
    pub(crate) fn first(&self, name: &str) -> Kept {
        self.kept().into_iter().find(|k| k.inputs.iter().any(|i| i.input.name() == name)).expect(name)
    }
}

#[async_trait]
impl Journal for Keeping {
    async fn append(&self, entry: JournalEntry<'_>) -> Result<(), JournalError> {
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        if self.full_after.is_some_and(|most| self.kept().len() >= most) {
            return Err(JournalError::new("the disk is full", None));
        }
        let kept = Kept {
            inputs: entry.inputs.to_vec(),
            events: entry.events.to_vec(),
            run: serde_json::to_string(entry.run).unwrap(),
            light: serde_json::to_string(&entry.run.checkpoint()).unwrap(),
            durability: entry.durability,
        };
        for event in &kept.events {
            let word = transcript(std::slice::from_ref(event));
            if !word.is_empty() {
                self.notes.add(format!("written:{word}"));
            }
        }
        self.notes.add(format!("written:{}", kept.input_names()));
        self.kept.lock().unwrap().push(kept);
        Ok(())
    }
}
