//! What lists of open runs and of deferred calls need of a session, stored beside its summary.

use std::sync::Arc;

use agent_core::run::Run;
use agent_core::{AgentMessage, LoopId, Message, Question};
use serde::{Deserialize, Serialize};

use super::super::SessionRecord;
use super::SessionSummary;
use crate::loaded::open_run_at;
use crate::model::{LoopRecord, LoopStatus, Session};
use crate::unfinished::{Unfinished, is_shown, last_prompt, prompt_of_base};

/// What waits in a session. Where it is not known, the session is loaded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::store) struct Waits {
    /// The open run of the head; `None` if there is none, or if it is the child of a tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<OpenEntry>,
    /// Whether a call of the session was deferred. It can have its result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::store) has_deferred: bool,
}

/// The members of an [`Unfinished`] that the summary of its session does not have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct OpenEntry {
    loop_id: LoopId,
    status: LoopStatus,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    prompt: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    model: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    questions: Vec<Question>,
}

impl Waits {
    /// Returns what waits in a session; `None` if it has groups of loops, or if its open run cannot be read.
    pub(in crate::store) fn of(session: &Session) -> Option<Self> {
        if has_groups(session) {
            return None;
        }
        let head = session.head_position();
        let run = head.map(|at| open_run_at(session, at)).transpose().ok()?.flatten();
        let record = head.and_then(|at| session.loops.get(at));
        let entry = run.as_ref().zip(record).and_then(|(run, record)| {
            let prompt = last_prompt(&record.messages).or_else(|| prompt_of_base(record.base.as_ref()));
            OpenEntry::of(record, run, &prompt.unwrap_or_default())
        });
        let has_deferred = session.loops.iter().any(|record| {
            let before =
                record.base.iter().flat_map(|base| base.added.iter().map(agent_core::Entry::message));
            record.messages.iter().map(|message| &**message).chain(before).any(is_deferred)
        });
        let in_run = run.is_some_and(|run| !run.deferred().is_empty());
        Some(Self { run: entry, has_deferred: has_deferred || in_run })
    }

    /// Returns the open run as an entry of a list. `is_written` returns whether a writer has the session.
    pub(in crate::store) fn unfinished(
        self,
        summary: SessionSummary,
        is_written: impl FnOnce() -> bool,
    ) -> Option<Unfinished> {
        let OpenEntry { loop_id, mut status, prompt, model, questions } = self.run?;
        if matches!(status, LoopStatus::Running | LoopStatus::Pending) && !is_written() {
            status = LoopStatus::Interrupted;
        }
        let SessionSummary { session_id, agent_id, last_active_at: since, .. } = summary;
        Some(Unfinished { session_id, agent_id, loop_id, status, since, prompt, model, questions })
    }
}

impl OpenEntry {
    fn of(record: &LoopRecord, run: &Run, prompt: &str) -> Option<Self> {
        is_shown(run).then(|| Self {
            loop_id: record.loop_id.clone(),
            status: record.status,
            prompt: prompt.to_owned(),
            model: record.config.model.clone(),
            questions: run.questions(),
        })
    }

    fn is_of(&self, record: &LoopRecord, run: &Run, prompt: &str) -> bool {
        self.loop_id == record.loop_id
            && self.status == record.status
            && self.prompt == prompt
            && self.model == record.config.model
            && self.questions == run.questions()
    }
}

/// What waits in a session that is being written. A record updates it without a look at the earlier messages.
#[derive(Debug)]
pub(super) struct LiveWaits {
    has_groups: bool,
    has_deferred: bool,
    /// The last loop, and the beginning of its last user message.
    prompt: Option<(LoopId, String)>,
    current: Option<Arc<Waits>>,
}

impl LiveWaits {
    pub(super) fn of(session: &Session) -> Self {
        let current = Waits::of(session).map(Arc::new);
        let prompt = session.loops.last().map(|record| {
            let prompt = last_prompt(&record.messages).or_else(|| prompt_of_base(record.base.as_ref()));
            (record.loop_id.clone(), prompt.unwrap_or_default())
        });
        Self {
            has_groups: has_groups(session),
            has_deferred: current.as_ref().is_some_and(|waits| waits.has_deferred),
            prompt,
            current,
        }
    }

    pub(super) fn current(&self) -> Option<&Arc<Waits>> {
        self.current.as_ref()
    }

    pub(super) fn update(&mut self, record: &SessionRecord<'_>) {
        if !self.apply(record) {
            self.current = None;
        }
    }

    /// Returns whether it is known what waits after the record.
    fn apply(&mut self, record: &SessionRecord<'_>) -> bool {
        let (Some(at), Some(loop_record), Some(run)) = (record.position, record.record(), record.run) else {
            self.has_groups = true;
            return false;
        };
        self.has_groups |= loop_record.group.is_some();
        let new = loop_record.messages.get(record.own_before..).unwrap_or_default();
        let mut prompt = last_prompt(new);
        if prompt.is_none() && record.begins_loop() {
            prompt = Some(prompt_of_base(loop_record.base.as_ref()).unwrap_or_default());
        }
        self.has_deferred = self.has_deferred || !run.deferred().is_empty();
        if self.has_groups || at + 1 != record.session.loops.len() {
            return false;
        }
        match (prompt, &mut self.prompt) {
            (Some(prompt), slot) => *slot = Some((loop_record.loop_id.clone(), prompt)),
            (None, Some((of, _))) if *of == loop_record.loop_id => {}
            (None, _) => return false,
        }
        let Some((_, prompt)) = &self.prompt else { return false };
        let is_open = loop_record.open_run.is_some();
        if let Some(current) = &self.current
            && current.has_deferred == self.has_deferred
            && match &current.run {
                Some(entry) => is_open && entry.is_of(loop_record, run, prompt),
                None => !is_open || !is_shown(run),
            }
        {
            return true;
        }
        let entry = if is_open { OpenEntry::of(loop_record, run, prompt) } else { None };
        self.current = Some(Arc::new(Waits { run: entry, has_deferred: self.has_deferred }));
        true
    }
}

fn has_groups(session: &Session) -> bool {
    session.loops.iter().any(|record| record.group.is_some())
}

fn is_deferred(message: &AgentMessage) -> bool {
    match message.as_llm() {
        Some(Message::ToolResult(result)) => result.deferred.is_some(),
        _ => false,
    }
}
