//! Builds a session from events while it is being recorded.

mod groups;
mod released;
mod tree;

use std::collections::{BTreeMap, BTreeSet};

use agent_core::run::{Run, RunCheckpoint, RunSetup};
use agent_core::{
    AgentEnd, AgentEvent, AgentStart, ContinuationKind, Ended, LoopId, Message, MessageRef, SessionId,
    SessionOrigin, Timestamp, TurnId,
};

pub(crate) use released::Partial;
use released::Released;

use crate::model::event_messages::Places;
use crate::model::stored::Counts;
use crate::model::{
    ChildLoopRef, LoopEvent, LoopRecord, LoopStatus, OpenRun, RecordedEvent, Session, SessionFormation, Turn,
};

/// A session that is being recorded.
#[derive(Debug, Clone)]
pub(crate) struct Recording {
    pub(crate) session: Session,
    by_id: BTreeMap<LoopId, usize>,
    /// The positions of all open loops, and of some that have been closed since.
    open: BTreeSet<usize>,
    /// The loops whose parent the session does not have, by this parent.
    orphans: BTreeMap<LoopId, Vec<LoopId>>,
    places: BTreeMap<usize, Places>,
    /// What of loops only the store has.
    released: BTreeMap<usize, Released>,
}

impl Recording {
    pub(crate) fn new(session: Session) -> Self {
        let by_id: BTreeMap<LoopId, usize> =
            session.loops.iter().enumerate().map(|(i, r)| (r.loop_id.clone(), i)).collect();
        let open = session.loops.iter().enumerate().filter(|(_, r)| r.is_open()).map(|(i, _)| i).collect();
        let mut orphans: BTreeMap<LoopId, Vec<LoopId>> = BTreeMap::new();
        for record in &session.loops {
            if let Some(parent) = record.parent_loop_id.as_ref().filter(|p| !by_id.contains_key(*p)) {
                orphans.entry(parent.clone()).or_default().push(record.loop_id.clone());
            }
        }
        Self { session, by_id, open, orphans, places: BTreeMap::new(), released: BTreeMap::new() }
    }

    pub(crate) fn position(&self, loop_id: &LoopId) -> Option<usize> {
        self.by_id.get(loop_id).copied()
    }

    pub(crate) fn record(&self, at: usize) -> Option<&LoopRecord> {
        self.session.loops.get(at)
    }

    pub(crate) fn record_mut(&mut self, at: usize) -> Option<&mut LoopRecord> {
        self.session.loops.get_mut(at)
    }

    pub(crate) fn has_open_loop(&self) -> bool {
        self.open.iter().any(|at| self.record(*at).is_some_and(LoopRecord::is_open))
    }

    /// Adds a stored loop with its links, and returns its position.
    pub(crate) fn restore(&mut self, record: LoopRecord) -> usize {
        let at = self.session.loops.len();
        self.by_id.entry(record.loop_id.clone()).or_insert(at);
        self.session.loops.push(record);
        at
    }

    /// Adds a loop unless it exists, and returns its position.
    pub(crate) fn begin(&mut self, mut record: LoopRecord) -> usize {
        if let Some(at) = self.position(&record.loop_id) {
            return at;
        }
        let at = self.session.loops.len();
        self.by_id.insert(record.loop_id.clone(), at);
        self.touch(record.started_at);
        let parent = record.parent_loop_id.take();
        // A child may have been announced before its parent.
        record.children_loop_ids = self.orphans.remove(&record.loop_id).unwrap_or_default();
        self.session.loops.push(record);
        self.open.insert(at);
        if let Some(parent) = parent {
            self.link(at, parent);
        }
        at
    }

    /// Begins the loop of a run. Another loop that is still open was cut off, or, if it waited for an answer, aborted.
    pub(crate) fn begin_run(&mut self, record: LoopRecord) -> usize {
        if let Some(at) = self.position(&record.loop_id).filter(|at| self.is_announced(*at)) {
            let mut record = record;
            let parent = record.parent_loop_id.take();
            if let Some(announced) = self.session.loops.get_mut(at) {
                record.children_loop_ids = std::mem::take(&mut announced.children_loop_ids);
                record.parallel_group = announced.parallel_group.take();
                record.parent_loop_id = announced.parent_loop_id.take();
                *announced = record;
            }
            if let Some(parent) = parent
                && self.record(at).is_some_and(|r| r.parent_loop_id.is_none())
            {
                self.link(at, parent);
            }
            return at;
        }
        self.interrupt_others(record.parent_loop_id.as_ref());
        self.begin(record)
    }

    /// Returns whether the loop was announced and has not begun.
    pub(crate) fn is_announced(&self, at: usize) -> bool {
        self.record(at).is_some_and(|r| r.status == LoopStatus::Pending)
    }

    /// Adds messages to the lists of a loop.
    pub(crate) fn put_messages(&mut self, at: usize, own: &[MessageRef], other: &[MessageRef]) {
        self.fill_places(at);
        if let (Some(record), Some(places)) = (self.session.loops.get_mut(at), self.places.get_mut(&at)) {
            own.iter().for_each(|m| {
                places.own(record, m);
            });
            other.iter().for_each(|m| places.other(record, m));
        }
    }

    /// Stores the state of a loop's run, and returns the state before.
    pub(crate) fn stand(&mut self, at: usize, run: &Run) -> Option<RunCheckpoint> {
        let record = self.session.loops.get_mut(at)?;
        if run.ended().is_some() {
            record.open_run = None;
            return None;
        }
        match &mut record.open_run {
            Some(OpenRun::Known { light, .. }) => Some(std::mem::replace(&mut **light, run.checkpoint())),
            other => {
                let (setup, light) = (Box::new(run.setup().clone()), Box::new(run.checkpoint()));
                *other = Some(OpenRun::Known { setup, light });
                None
            }
        }
    }

    /// Returns the numbers of a loop's messages and events, with those that were released.
    pub(crate) fn counts(&self, at: usize) -> Counts {
        let record = self.record(at);
        let Counts(own, other, _) = record.map(Counts::of).unwrap_or_default();
        Counts(own, other, self.event_count(at))
    }

    fn touch(&mut self, now: Timestamp) {
        self.session.last_active_at = self.session.last_active_at.max(now);
    }

    /// Returns the session, a loop, the places of the loop's messages, and the number of its events that were released.
    pub(crate) fn view(&mut self, at: usize) -> Option<(&Session, &LoopRecord, &Places, usize)> {
        self.fill_places(at);
        Some((&self.session, self.session.loops.get(at)?, self.places.get(&at)?, self.released_events(at)))
    }

    /// Returns the number of a loop's events, with those that were released.
    pub(crate) fn event_count(&self, at: usize) -> usize {
        self.released_events(at) + self.record(at).map_or(0, |record| record.events.len())
    }

    fn released_events(&self, at: usize) -> usize {
        self.released.get(&at).map_or(0, |released| released.events)
    }

    /// Frees the index that is needed only while the loop runs.
    pub(crate) fn settle(&mut self, at: usize) {
        self.places.remove(&at);
        if self.record(at).is_some_and(|r| !r.is_open()) {
            self.open.remove(&at);
        }
    }

    fn fill_places(&mut self, at: usize) {
        if let Some(record) = self.session.loops.get(at) {
            self.places.entry(at).or_insert_with(|| Places::of(record));
        }
    }

    /// Applies an event to a loop.
    pub(crate) fn take(&mut self, at: usize, mut event: RecordedEvent) {
        self.fill_places(at);
        let (Some(record), Some(places)) = (self.session.loops.get_mut(at), self.places.get_mut(&at)) else {
            return;
        };
        let mut parent = None;
        let was_open = record.is_open();
        if let RecordedEvent::Known(event) = &mut event {
            if let AgentEvent::AgentStart(start) = &**event
                && record.parent_loop_id.is_none()
            {
                parent.clone_from(&start.parent_loop_id);
            }
            share_messages(record, places, event);
            let time = apply_event(record, places, event);
            // The run has released messages that the recording has.
            if let AgentEvent::AgentEnd(end) = &mut **event
                && end.messages.all().is_none()
                && !self.released.contains_key(&at)
            {
                end.messages = record.messages.clone().into();
            }
            if record.is_open() && !was_open {
                self.open.insert(at);
            }
            if let Some(time) = time {
                self.session.last_active_at = self.session.last_active_at.max(time);
            }
        }
        if let Some(record) = self.session.loops.get_mut(at) {
            let released = self.released.get(&at).map_or(0, |released| released.events as u64);
            let sequence = record.events.last().map_or(released, |e| e.sequence.saturating_add(1));
            record.events.push(LoopEvent { sequence, event });
        }
        // The start of a loop that was only announced names its parent.
        if let Some(parent) = parent {
            self.link(at, parent);
        }
    }
}

/// Creates the record of a loop from the setup of its run.
pub(crate) fn record_of_setup(setup: &RunSetup, now: Timestamp) -> LoopRecord {
    let mut record =
        LoopRecord::new(setup.loop_id.clone(), setup.session_id.clone(), setup.agent_id.clone(), now);
    record.parent_loop_id.clone_from(&setup.parent_loop_id);
    record.group.clone_from(&setup.group);
    record.continuation_kind = setup.continuation.clone().unwrap_or(ContinuationKind::Initial);
    record.config = (*setup.config).clone();
    record.metadata = setup.policy.metadata.clone();
    record
}

/// Creates the record of a loop from its `AgentStart`.
pub(crate) fn record_of_start(start: &AgentStart) -> LoopRecord {
    let mut record = LoopRecord::new(
        start.loop_id.clone(),
        start.session_id.clone(),
        start.agent_id.clone(),
        start.timestamp,
    );
    record.parent_loop_id.clone_from(&start.parent_loop_id);
    fill_from_start(&mut record, start);
    record
}

fn fill_from_start(record: &mut LoopRecord, start: &AgentStart) {
    record.group.clone_from(&start.group);
    record.continuation_kind = start.continuation_kind.clone().unwrap_or(ContinuationKind::Initial);
    record.config = (*start.config).clone();
    record.metadata = start.metadata.clone();
    record.started_at = start.timestamp;
}

/// Creates the session of a new loop, with the reason of its creation.
pub(crate) fn session_of_loop(
    record: &LoopRecord,
    id: &SessionId,
    origin: Option<&SessionOrigin>,
) -> Session {
    let mut session = Session::new(id.clone(), record.agent_id.clone(), record.started_at);
    if let Some(formation) = origin.and_then(|origin| SessionFormation::of(origin, record.started_at)) {
        session.formation = formation;
    }
    session
}

/// Replaces messages of an event by equal messages of the loop. After a restart, the run and the recording were read
/// separately and do not share the earlier messages of a turn and of a loop.
fn share_messages(record: &LoopRecord, places: &Places, event: &mut AgentEvent) {
    let share = |message: &mut MessageRef, at: Option<usize>| {
        if places.get(message).is_none()
            && let Some(own) = at.and_then(|at| record.messages.get(at))
            && **own == **message
        {
            *message = own.clone();
        }
    };
    match event {
        AgentEvent::TurnEnd { message, tool_results, .. } => {
            let Some(turn) = record.turns.last() else { return };
            if let Some(message) = message {
                share(message, turn.output_message);
            }
            for (at, result) in tool_results.iter_mut().enumerate() {
                share(result, turn.tool_results.get(at).copied());
            }
        }
        AgentEvent::AgentEnd(end) => {
            let is_shared = |messages: &[MessageRef]| messages.iter().all(|m| places.get(m).is_some());
            let same = end.messages.all().is_some_and(|all| !is_shared(all) && all == record.messages);
            if same {
                end.messages = record.messages.clone().into();
            }
        }
        _ => {}
    }
}

/// Updates a loop by an event, and returns the time of the event. The event itself is not added.
pub(crate) fn apply_event(
    record: &mut LoopRecord,
    places: &mut Places,
    event: &AgentEvent,
) -> Option<Timestamp> {
    if record.status != LoopStatus::Running && record.ended.is_none() {
        // It was announced, waited, or was marked as interrupted; now it continues.
        record.status = LoopStatus::Running;
    }
    match event {
        AgentEvent::AgentStart(start) => {
            fill_from_start(record, start);
            Some(start.timestamp)
        }
        AgentEvent::TurnStart { loop_id, turn_index, timestamp, triggered_by } => {
            record.turns.push(Turn {
                turn_id: TurnId { loop_id: loop_id.clone(), turn_index: *turn_index },
                triggered_by: *triggered_by,
                usage: agent_core::Usage::default(),
                input_messages: Vec::new(),
                output_message: None,
                tool_results: Vec::new(),
                started_at: *timestamp,
                ended_at: None,
            });
            Some(*timestamp)
        }
        AgentEvent::MessageEnd { message, superseded: true, .. } => {
            places.other(record, message);
            None
        }
        AgentEvent::MessageEnd { message, .. } => {
            let at = places.own(record, message);
            note_in_turn(record, message, at);
            None
        }
        AgentEvent::CompactionEnded(ended) => {
            for entry in ended.splices.iter().flat_map(|s| &s.messages) {
                places.other(record, entry.shared());
            }
            Some(ended.timestamp)
        }
        AgentEvent::TurnEnd { usage, timestamp, .. } => {
            if let Some(turn) = record.turns.last_mut() {
                turn.usage = *usage;
                turn.ended_at = Some(*timestamp);
                record.usage = record.usage.combine(usage);
            }
            Some(*timestamp)
        }
        AgentEvent::ToolExecutionEnd(end) => {
            if let Some(child) = &end.child_loop_id {
                let link = ChildLoopRef {
                    tool_call_id: end.tool_call_id.clone(),
                    tool_name: end.tool_name.clone(),
                    child_loop_id: child.clone(),
                    child_session_id: session_of_id(child),
                };
                if !record.child_loop_refs.iter().any(|r| r.tool_call_id == link.tool_call_id) {
                    record.child_loop_refs.push(link);
                }
            }
            None
        }
        AgentEvent::RunSuspended { .. } => {
            record.status = LoopStatus::Suspended;
            None
        }
        AgentEvent::AgentEnd(end) => {
            close(record, places, end);
            Some(end.timestamp)
        }
        _ => None,
    }
}

fn note_in_turn(record: &mut LoopRecord, message: &MessageRef, at: usize) {
    let Some(turn) = record.turns.last_mut() else { return };
    match message.as_llm() {
        Some(Message::Assistant(_)) => turn.output_message = Some(at),
        Some(Message::ToolResult(_)) => turn.tool_results.push(at),
        _ => turn.input_messages.push(at),
    }
}

fn close(record: &mut LoopRecord, places: &mut Places, end: &AgentEnd) {
    // Messages that the run released are among the loop's own already.
    for message in end.messages.in_memory() {
        places.own(record, message);
    }
    record.usage = end.usage;
    record.ended_at = Some(end.timestamp);
    record.ended = Some(end.ended.clone());
    record.status = status_of(&end.ended);
    record.rejection = match &end.ended {
        Ended::Vetoed { reason } | Ended::InputRejected { reason } => Some(reason.clone()),
        _ => None,
    };
    record.open_run = None;
}

/// Returns the status of a loop that ended like this.
fn status_of(ended: &Ended) -> LoopStatus {
    match ended {
        Ended::Completed => LoopStatus::Completed,
        Ended::Vetoed { .. } | Ended::InputRejected { .. } => LoopStatus::Rejected,
        Ended::TurnVetoed { .. } | Ended::Limit { .. } | Ended::Budget { .. } => LoopStatus::Stopped,
        Ended::Aborted => LoopStatus::Aborted,
        Ended::Error { .. } => LoopStatus::Failed,
        // An end that this version does not know counts as interrupted; `ended` contains it in full.
        _ => LoopStatus::Interrupted,
    }
}

/// Returns the session that a loop id names: the text before the first dot. Used when no other source has it.
pub(crate) fn session_of_id(loop_id: &LoopId) -> SessionId {
    SessionId::from(loop_id.as_str().split('.').next().unwrap_or_default())
}
