//! The state of an agent, and how events change it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::AgentError;
use super::path::Left;
use crate::budget::BudgetSnapshot;
use crate::drive::CutOff;
use crate::evaluation::GroupSetup;
use crate::event::{AgentEvent, RunEnd};
use crate::history::{History, HistoryError, MessageRef, Splice};
use crate::identity::{LoopId, Part, SessionId, SessionOrigin, Timestamp, ToolCallId, joined};
use crate::message::{AssistantMessage, DeferredCall, Message, StopReason};
use crate::model::{ModelConfig, ThinkingLevel};
use crate::provider::MessageSnapshot;
use crate::run::{Queued, Run};
use crate::tool::AgentTool;

/// A snapshot of an agent's state. [`AgentHandle::state`](super::AgentHandle::state) returns it.
#[derive(Clone)]
#[non_exhaustive]
pub struct AgentState {
    /// The system prompt of the next run.
    pub system_prompt: Arc<str>,
    /// The model of the next run.
    pub model: Arc<ModelConfig>,
    /// How much the model thinks.
    pub thinking_level: ThinkingLevel,
    /// The tools of the next run.
    pub tools: Vec<Arc<dyn AgentTool>>,
    /// The messages, including those of an exchange that is still open.
    pub messages: Vec<MessageRef>,
    /// Whether a run is open. Still true while listeners are notified of its end.
    pub is_streaming: bool,
    /// Whether a run waits, for an answer or because it was interrupted.
    pub is_suspended: bool,
    /// The reply that is arriving.
    pub stream_message: Option<MessageSnapshot>,
    /// The calls that have started and not ended.
    pub pending_tool_calls: BTreeSet<ToolCallId>,
    /// The messages that are queued, steering before follow-ups.
    pub queued: Vec<Queued>,
    /// The error of the last run.
    pub error_message: Option<String>,
    /// The last loop that was started.
    pub last_loop_id: Option<LoopId>,
    /// When the last run started, or, once it has ended or waits for an answer, when that happened.
    pub last_active_at: Option<Timestamp>,
}

/// Shows figures and ids, without the conversation.
impl fmt::Debug for AgentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentState")
            .field("model", &self.model)
            .field("tools", &self.tools.len())
            .field("messages", &self.messages.len())
            .field("is_streaming", &self.is_streaming)
            .field("is_suspended", &self.is_suspended)
            .field("pending_tool_calls", &self.pending_tool_calls)
            .field("queued", &self.queued.len())
            .field("last_loop_id", &self.last_loop_id)
            .finish_non_exhaustive()
    }
}

/// Returns the key of a loop in the counters of groups.
fn place_of(parent: Option<&LoopId>) -> LoopId {
    parent.cloned().unwrap_or_else(|| "".into())
}

/// The part of an agent that runs change.
pub(super) struct State {
    pub(super) session_id: SessionId,
    pub(super) loop_counters: BTreeMap<String, u64>,
    /// The number of groups that have started after each loop. The empty id stands for the beginning of the session.
    pub(super) group_counters: BTreeMap<LoopId, u64>,
    /// The groups whose start is recorded and whose end is not, and that are not being driven.
    pub(super) open_groups: Vec<GroupSetup>,
    /// The reason for the new session, until the first loop of the session has reported it.
    pub(super) session_origin: Option<SessionOrigin>,
    pub(super) last_loop_id: Option<LoopId>,
    pub(super) last_active_at: Option<Timestamp>,
    /// The closed conversation, as of the last run that ended.
    pub(super) history: History,
    /// Messages of the open run, in the order of their ends. After a compaction the whole conversation of the run.
    pub(super) tail: Vec<MessageRef>,
    /// Whether the run was compacted, so that `tail` contains what is left of `history`.
    pub(super) compacted: bool,
    pub(super) is_streaming: bool,
    pub(super) stream_message: Option<MessageSnapshot>,
    pub(super) pending: BTreeSet<ToolCallId>,
    /// The calls of the open run that have ended deferred.
    pub(super) deferred: Vec<DeferredCall>,
    /// The deferred calls whose result is queued and is not in the conversation yet.
    pub(super) completing: BTreeSet<ToolCallId>,
    pub(super) error: Option<String>,
    pub(super) cancel: Option<CancellationToken>,
    /// Cancels the branches that are being explored. `None` until the first exploration after an abort.
    pub(super) explorations: Option<CancellationToken>,
    pub(super) suspended: Option<Box<Run>>,
    /// The last run, if it was cut off while it was journaled. It can be resumed until the conversation changes.
    pub(super) cut_off: Option<Box<CutOff>>,
    /// The loop before the last one, until the start of the last one is journaled.
    earlier_loop_id: Option<LoopId>,
    /// The budget's state in the restored snapshot, until the next run applies it.
    pub(super) spent_before: Option<BudgetSnapshot>,
    /// How the last run ended.
    pub(super) finished: Option<RunEnd>,
    /// Whether the conversation comes from a recorded session, so that no run may start without a journal.
    pub(super) must_record: bool,
    /// The conversation and the prompt at the end of the last loop; `None` if they are unknown.
    pub(super) left: Option<Left>,
    /// Whether the conversation was set back to an earlier point, so that the next prompt starts a branch.
    pub(super) rewound: bool,
}

impl State {
    pub(super) fn new(session_id: SessionId) -> Self {
        Self {
            session_id,
            loop_counters: BTreeMap::new(),
            group_counters: BTreeMap::new(),
            open_groups: Vec::new(),
            session_origin: None,
            last_loop_id: None,
            last_active_at: None,
            history: History::new(),
            tail: Vec::new(),
            compacted: false,
            is_streaming: false,
            stream_message: None,
            pending: BTreeSet::new(),
            deferred: Vec::new(),
            completing: BTreeSet::new(),
            error: None,
            cancel: None,
            explorations: None,
            suspended: None,
            cut_off: None,
            earlier_loop_id: None,
            spent_before: None,
            finished: None,
            must_record: false,
            left: None,
            rewound: false,
        }
    }

    /// Checks that no run is open or waits.
    pub(super) fn check_idle(&self) -> Result<(), AgentError> {
        match &self.suspended {
            _ if self.is_streaming => Err(AgentError::Busy),
            Some(run) => Err(AgentError::waiting(run)),
            None => Ok(()),
        }
    }

    /// Clears the conversation and the error.
    pub(super) fn forget(&mut self) {
        self.history = History::new();
        self.open_groups.clear();
        self.rewound = false;
        self.tail.clear();
        self.compacted = false;
        self.error = None;
        self.pending.clear();
        self.deferred.clear();
        self.completing.clear();
        self.stream_message = None;
        self.suspended = None;
        self.cut_off = None;
    }

    /// Takes the suspended run to continue it. Its calls stay known, so that their results can come before the run tells of them.
    pub(super) fn take_suspended(&mut self) -> Option<Box<Run>> {
        let run = self.suspended.take()?;
        self.deferred = run.deferred();
        self.pending.extend(run.started_calls().cloned());
        Some(run)
    }

    /// Returns the last run if it was cut off and the conversation has not changed since.
    pub(super) fn resumable_cut_off(&self) -> Option<&CutOff> {
        let is_same = |left: &Left| {
            self.history.unit_count() == left.history.unit_count() && self.history.extends(&left.history)
        };
        self.cut_off.as_deref().filter(|_| self.left.as_ref().is_some_and(is_same))
    }

    /// Takes the run that was cut off to continue it. The conversation is again that of its last record.
    pub(super) fn take_cut_off(&mut self) -> Option<Box<CutOff>> {
        let cut_off = self.cut_off.take()?;
        let recorded = cut_off.recorded_run();
        self.history = recorded.history().clone();
        self.tail.extend(recorded.open_reply().cloned());
        self.deferred = recorded.deferred();
        self.pending.extend(recorded.started_calls().cloned());
        self.earlier_loop_id = self.last_loop_id.replace(recorded.loop_id().clone());
        self.error = None;
        Some(cut_off)
    }

    /// Returns the deferred call, for which no result has been queued, that this id names.
    pub(super) fn deferred_call(&self, id: &ToolCallId) -> Result<DeferredCall, HistoryError> {
        if self.completing.contains(id) {
            return Err(HistoryError::AlreadyCompleted(id.clone()));
        }
        let waiting = self.suspended.as_ref().map(|run| run.deferred());
        let waiting = waiting.into_iter().flatten().chain(self.deferred.iter().cloned());
        if let Some(call) = waiting.chain(self.history.deferred()).find(|call| call.tool_call_id == *id) {
            let ended = self.tail.iter().filter_map(|m| m.as_llm()).any(|m| match m {
                Message::User(user) => user.deferred.as_ref().is_some_and(|d| d.ends(id)),
                Message::Assistant(_) | Message::ToolResult(_) => false,
            });
            return if ended { Err(HistoryError::AlreadyCompleted(id.clone())) } else { Ok(call) };
        }
        let calls = self.tail.iter().filter_map(|m| m.as_assistant()).flat_map(AssistantMessage::tool_calls);
        match calls.filter(|call| call.id == *id).last() {
            // The work can end before its tool returns.
            Some(call) if self.pending.contains(id) => {
                Ok(DeferredCall::new(id.clone(), call.name.clone(), ""))
            }
            Some(_) => Err(HistoryError::NotDeferred(id.clone())),
            None => self.history.check_completion(id).and(Err(HistoryError::UnknownCall(id.clone()))),
        }
    }

    pub(super) fn message_count(&self) -> usize {
        self.shown_history().map_or(0, History::len) + self.tail.len()
    }

    /// Returns the conversation before the messages in `tail`.
    fn shown_history(&self) -> Option<&History> {
        (!self.compacted).then_some(&self.history)
    }

    /// Replaces the messages that a compaction of the open run replaced.
    fn compact(&mut self, splices: &[Splice]) {
        let all = self.messages();
        let (mut left, mut at) = (Vec::new(), 0);
        for splice in splices {
            left.extend_from_slice(all.get(at..splice.from).unwrap_or_default());
            left.extend(splice.messages.iter().map(|entry| entry.shared().clone()));
            at = splice.to;
            // The results of deferred calls remain known.
            for message in all.get(splice.from..splice.to).unwrap_or_default() {
                if let Some(Message::User(user)) = message.as_llm()
                    && let Some(call) = &user.deferred
                {
                    self.completing.insert(call.tool_call_id.clone());
                }
            }
        }
        left.extend_from_slice(all.get(at..).unwrap_or_default());
        (self.tail, self.compacted) = (left, true);
    }

    pub(super) fn messages(&self) -> Vec<MessageRef> {
        let before = self.shown_history().into_iter().flat_map(History::entries);
        before.map(|e| e.shared().clone()).chain(self.tail.iter().cloned()).collect()
    }

    /// Returns the id of the next loop of this configuration, without using it up.
    pub(super) fn peek_loop_id(&self, segment: &str) -> LoopId {
        let n = self.loop_counters.get(segment).copied().unwrap_or_default() + 1;
        let session = Part::Text(self.session_id.as_str());
        let dot = || Part::Text(".");
        LoopId::from(joined(&[session, dot(), Part::Text(segment), dot(), Part::Number(n)]))
    }

    /// Returns the first group that was cut off at this point of the conversation.
    pub(super) fn open_group(&self) -> Option<GroupSetup> {
        let is_here = |setup: &&GroupSetup| {
            setup.session_id == self.session_id && setup.parent_loop_id == self.last_loop_id
        };
        self.open_groups.iter().find(is_here).cloned()
    }

    /// Returns the number of the next group after the last loop, without using it up.
    pub(super) fn peek_group(&self) -> u64 {
        self.group_counters.get(&place_of(self.last_loop_id.as_ref())).copied().unwrap_or_default()
    }

    /// Updates the state for a group that is driven from now on: an open one, or one that has this number.
    pub(super) fn take_group(&mut self, setup: &GroupSetup, number: u64) {
        let before = self.open_groups.len();
        self.open_groups.retain(|open| open.group_id != setup.group_id);
        if self.open_groups.len() == before {
            self.group_counters.insert(place_of(setup.parent_loop_id.as_ref()), number.saturating_add(1));
        }
    }

    /// Frees the number of a group that was not recorded, unless a later group has started.
    pub(super) fn release_group(&mut self, parent: Option<&LoopId>, number: u64) {
        if let Some(counter) = self.group_counters.get_mut(&place_of(parent))
            && *counter == number.saturating_add(1)
        {
            *counter = number;
        }
    }

    /// Updates the state for a run that starts.
    pub(super) fn begin(&mut self, id: LoopId, segment: String, now: Timestamp, cancel: CancellationToken) {
        *self.loop_counters.entry(segment).or_default() += 1;
        self.earlier_loop_id = self.last_loop_id.replace(id);
        self.cut_off = None;
        self.last_active_at = Some(now);
        self.is_streaming = true;
        self.error = None;
        self.rewound = false;
        self.cancel = Some(cancel);
    }

    /// Applies an event to the state. The driver calls this before it notifies the listeners.
    pub(super) fn reduce(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::MessageUpdate { message, .. } => self.stream_message = Some(message.clone()),
            AgentEvent::MessageStart { message, .. } if message.role() == "assistant" => {
                self.stream_message = Some(MessageSnapshot::default());
            }
            AgentEvent::MessageEnd { message, superseded, .. } => {
                self.stream_message = None;
                if *superseded {
                    return;
                }
                if let Some(Message::User(user)) = message.as_llm()
                    && let Some(call) = &user.deferred
                {
                    self.completing.remove(&call.tool_call_id);
                }
                if let Some(Message::Assistant(reply)) = message.as_llm()
                    && matches!(reply.stop_reason, StopReason::Error | StopReason::Aborted)
                {
                    self.error.clone_from(&reply.error_message);
                }
                self.tail.push(message.clone());
            }
            AgentEvent::ToolExecutionStart { tool_call_id, .. } => {
                self.pending.insert(tool_call_id.clone());
            }
            AgentEvent::ToolExecutionEnd(end) => {
                self.pending.remove(&end.tool_call_id);
                if let Some(handle) = &end.result.deferred {
                    let (id, name) = (end.tool_call_id.clone(), end.tool_name.clone());
                    self.deferred.push(DeferredCall::new(id, name, handle.clone()));
                }
            }
            AgentEvent::CompactionEnded(ended) => self.compact(&ended.splices),
            AgentEvent::AgentEnd(_) => {
                self.stream_message = None;
                self.pending.clear();
            }
            _ => {}
        }
    }

    /// Updates the state for a run that has ended or waits for an answer.
    pub(super) fn settle(&mut self, run: Run, cut_off: Option<Box<CutOff>>) {
        if cut_off.as_ref().is_some_and(|cut_off| !cut_off.has_begun()) {
            // Nothing knows of the loop.
            self.last_loop_id = self.earlier_loop_id.take();
            self.session_origin.clone_from(&run.setup().session_origin);
        }
        self.cut_off = cut_off;
        self.last_active_at = Some(run.now());
        self.history = run.history().clone();
        if let Some(left) = &mut self.left {
            left.history = self.history.clone();
        }
        self.tail.clear();
        self.compacted = false;
        self.is_streaming = false;
        self.stream_message = None;
        self.pending.clear();
        self.deferred.clear();
        self.cancel = None;
        self.suspended = None;
        if run.ended().is_none() {
            self.tail.extend(run.open_reply().cloned());
            self.suspended = Some(Box::new(run));
        }
    }
}
