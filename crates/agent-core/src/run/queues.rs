//! The queues for steering and follow-up messages.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::history::Entry;
use crate::identity::ToolCallId;
use crate::message::{DeferredCall, DeferredState, Message};

/// How many messages are taken from a queue at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum QueueMode {
    /// Only the oldest message.
    #[default]
    OneAtATime,
    /// All messages of the queue.
    All,
}

/// What steering does to the calls of a reply that have not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum SteeringPolicy {
    /// The calls are skipped. Steering is checked after each call (sequential), each group (batched) or all calls
    /// (parallel).
    #[default]
    SkipRemaining,
    /// The calls run; the message enters after all results.
    AfterTurn,
}

/// The queue of a message, and whether the message keeps the run going.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum QueueKind {
    /// The message enters before the next model call and continues a run that would end.
    Steering,
    /// The message enters like steering, but does not continue a run that would end. If a follow-up opens the turn, both
    /// enter.
    PassiveSteering,
    /// The message enters when the run would otherwise end.
    FollowUp,
}

/// A message in a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Queued {
    /// The queue of the message.
    pub kind: QueueKind,
    /// The message with its token count.
    pub entry: Entry,
}

impl Queued {
    /// Creates a message for this queue.
    #[must_use]
    pub fn new(kind: QueueKind, entry: impl Into<Entry>) -> Self {
        Self { kind, entry: entry.into() }
    }

    /// Returns the deferred call of which the message is the result.
    pub(crate) fn completes(&self) -> Option<&DeferredCall> {
        let Some(Message::User(user)) = self.entry.message().as_llm() else { return None };
        user.deferred.as_deref().filter(|call| call.state != DeferredState::Running)
    }
}

impl QueueKind {
    /// Returns whether the message is in the steering queue. Active and passive steering share it, so that their
    /// order is preserved.
    fn is_steering(self) -> bool {
        matches!(self, Self::Steering | Self::PassiveSteering)
    }
}

/// The two queues of an open run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Queues {
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    steering: VecDeque<Queued>,
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    follow_up: VecDeque<Queued>,
    #[serde(skip_serializing_if = "QueueMode::is_default")]
    steering_mode: QueueMode,
    #[serde(skip_serializing_if = "QueueMode::is_default")]
    follow_up_mode: QueueMode,
}

impl QueueMode {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Queues {
    pub(crate) fn new(steering_mode: QueueMode, follow_up_mode: QueueMode) -> Self {
        Self { steering_mode, follow_up_mode, ..Self::default() }
    }

    /// Returns the number of messages in the longer queue.
    pub(super) fn len(&self) -> usize {
        self.steering.len().max(self.follow_up.len())
    }

    /// Returns the steering queue and the queue of follow-ups, each with that of `other`.
    pub(super) fn paired<'a>(
        &'a mut self,
        other: &'a Self,
    ) -> [(&'a mut VecDeque<Queued>, &'a VecDeque<Queued>); 2] {
        [(&mut self.steering, &other.steering), (&mut self.follow_up, &other.follow_up)]
    }

    pub(crate) fn push(&mut self, queued: Queued) {
        if queued.kind.is_steering() { &mut self.steering } else { &mut self.follow_up }.push_back(queued);
    }

    /// Returns whether a steering message waits that continues the run.
    pub(crate) fn has_active_steering(&self) -> bool {
        self.steering.iter().any(|q| q.kind == QueueKind::Steering)
    }

    /// Returns whether a steering message waits that skips the calls that have not started. The result of a deferred call
    /// does not.
    pub(crate) fn has_skipping_steering(&self) -> bool {
        self.steering.iter().any(|q| q.kind == QueueKind::Steering && q.completes().is_none())
    }

    /// Returns whether the result of this deferred call is queued.
    pub(crate) fn completes(&self, id: &ToolCallId) -> bool {
        let mut queued = self.steering.iter().chain(&self.follow_up);
        queued.any(|q| q.completes().is_some_and(|call| call.tool_call_id == *id))
    }

    pub(crate) fn has_follow_up(&self) -> bool {
        !self.follow_up.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.steering.is_empty() && self.follow_up.is_empty()
    }

    /// Returns whether the queues are empty and have the default modes.
    pub(crate) fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// Takes the next steering messages, and all results of deferred calls.
    pub(crate) fn take_steering(&mut self) -> Vec<Queued> {
        let mut taken = take(&mut self.steering, self.steering_mode);
        taken.extend(self.take_completions());
        taken
    }

    /// Takes the results of deferred calls from the steering queue.
    pub(crate) fn take_completions(&mut self) -> Vec<Queued> {
        if !self.steering.iter().any(|q| q.completes().is_some()) {
            return Vec::new();
        }
        let all = std::mem::take(&mut self.steering);
        let (completions, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|q| q.completes().is_some());
        self.steering = rest.into();
        completions
    }

    pub(crate) fn take_follow_up(&mut self) -> Vec<Queued> {
        take(&mut self.follow_up, self.follow_up_mode)
    }

    /// Returns the messages that would be taken next: steering first, else follow-ups.
    pub(crate) fn peek(&self) -> Vec<Queued> {
        let (queue, mode) = if self.steering.is_empty() {
            (&self.follow_up, self.follow_up_mode)
        } else {
            (&self.steering, self.steering_mode)
        };
        let count = if mode == QueueMode::All { queue.len() } else { 1 };
        queue.iter().take(count).cloned().collect()
    }

    /// Clears a queue except for the results of deferred calls, which nothing would deliver again.
    pub(crate) fn clear(&mut self, kind: QueueKind) {
        let stays = |q: &Queued| q.completes().is_some();
        match kind {
            QueueKind::FollowUp => self.follow_up.retain(stays),
            QueueKind::Steering => self.steering.retain(stays),
            QueueKind::PassiveSteering => self.steering.retain(|q| q.kind != kind || stays(q)),
        }
    }

    pub(crate) fn set_mode(&mut self, kind: QueueKind, mode: QueueMode) {
        if kind.is_steering() {
            self.steering_mode = mode;
        } else {
            self.follow_up_mode = mode;
        }
    }

    pub(crate) fn modes(&self) -> (QueueMode, QueueMode) {
        (self.steering_mode, self.follow_up_mode)
    }

    pub(crate) fn of(&self, kind: QueueKind) -> impl Iterator<Item = &Queued> {
        self.steering.iter().chain(&self.follow_up).filter(move |q| q.kind == kind)
    }

    pub(crate) fn take_all(&mut self) -> Vec<Queued> {
        self.steering.drain(..).chain(self.follow_up.drain(..)).collect()
    }
}

fn take(queue: &mut VecDeque<Queued>, mode: QueueMode) -> Vec<Queued> {
    match mode {
        QueueMode::OneAtATime => queue.pop_front().into_iter().collect(),
        QueueMode::All => queue.drain(..).collect(),
    }
}
