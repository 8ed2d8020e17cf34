//! The simulated world of an agent: everything outside of its process.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_core::environment::Environment;
use agent_core::history::History;
use agent_core::journal::{Durability, JournalEntry};
use agent_core::provider::ModelRequest;
use agent_core::{
    AgentError, AgentEvent, AgentHandle, Answer, HistoryError, Question, SessionId, Timestamp, ToolCallId,
    ToolContext, ToolResult,
};
use agent_session::Session;
use serde_json::Value;
use tokio::sync::Notify;

use crate::clock::{Clock, SimEnvironment};
use crate::disk::{Disk, DiskEntry, is_root, queued_in};
use crate::log::{Execution, Log, LogEntry, What};
use crate::random::Random;
use crate::script::{Act, Action, Reply, StoreFault, ToolFault};
use crate::source::{Source, done};
use crate::writes::{Write, Writes};

/// The outside world of the agent under test. It outlives the processes of the agent, as a database or a mail server does.
///
/// The function that builds the agent receives it. Simulated tools store what they did in [`outside`](Self::outside).
#[derive(Clone)]
pub struct World {
    shared: Arc<Shared>,
    /// The process that uses this handle.
    process: u32,
}

struct Shared {
    /// The number of the simulation among those of this program.
    number: u64,
    state: Mutex<State>,
    clock: Arc<Clock>,
    killed: Notify,
    stopped: Notify,
    continued: Notify,
}

pub(crate) struct State {
    pub(crate) source: Source,
    pub(crate) log: Log,
    pub(crate) disk: Disk,
    /// What the processes that were killed had queued in a run that the journal has.
    pub(crate) kills: Vec<KillMark>,
    random: Random,
    /// Acts that have not happened, with the moments until they do.
    armed: Vec<(u32, Action)>,
    faults: BTreeMap<ToolCallId, ToolFault>,
    outside: BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>,
    agent: Option<AgentHandle>,
    /// The process that runs now. It is the only one that has an effect.
    process: u32,
    /// The number of processes that have begun.
    processes: u32,
    calls: u32,
    dead: bool,
    /// A process that is stopped, and its agent.
    stopped: Option<(u32, Option<AgentHandle>)>,
    /// The process whose session another one has taken over.
    pub(crate) replaced: Option<u32>,
    /// The state of the session store; `None` without one.
    pub(crate) writes: Option<Writes>,
    /// The prompt that the program under test performs.
    performing: Option<String>,
    /// What the agent refused although it had to accept it.
    pub(crate) refused: Vec<String>,
}

/// What happens to a process at a moment.
enum Moment {
    Lives,
    /// It works again when it is continued.
    Stopped,
    Dead,
}

/// A loss of the memory of a process, for the laws about messages.
#[derive(Debug, Clone)]
pub(crate) struct KillMark {
    /// The position in the log.
    pub(crate) at: usize,
    /// The texts that the surviving open run had in its queues.
    pub(crate) queued: Vec<String>,
}

impl World {
    pub(crate) fn new(source: Source, has_store: bool) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let random = Random::new(source.script().seed.wrapping_add(1));
        let state = State {
            source,
            log: Log::default(),
            disk: Disk::default(),
            kills: Vec::new(),
            random,
            armed: Vec::new(),
            faults: BTreeMap::new(),
            outside: BTreeMap::new(),
            agent: None,
            process: 0,
            processes: 1,
            calls: 0,
            dead: false,
            stopped: None,
            replaced: None,
            writes: has_store.then(Writes::default),
            performing: None,
            refused: Vec::new(),
        };
        let shared = Shared {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            state: Mutex::new(state),
            clock: Arc::default(),
            killed: Notify::new(),
            stopped: Notify::new(),
            continued: Notify::new(),
        };
        Self { shared: Arc::new(shared), process: 0 }
    }

    /// Returns the handle of the next process, which is the only one that has an effect from now on.
    pub(crate) fn next(&self) -> Self {
        let mut state = self.state();
        state.process = state.processes;
        state.processes += 1;
        Self { shared: Arc::clone(&self.shared), process: state.process }
    }

    /// Returns a name of this process that no other simulated process of the program has.
    pub(crate) fn name(&self) -> String {
        format!("process {} of simulation {}", self.process, self.shared.number)
    }

    /// Returns the state of this type in the outside world, which survives kills of the process. Its first use creates it.
    #[must_use]
    pub fn outside<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let found = {
            let mut state = self.state();
            let entry = state.outside.entry(TypeId::of::<T>());
            Arc::clone(entry.or_insert_with(|| Arc::new(T::default())))
        };
        found.downcast().unwrap_or_default()
    }

    /// Returns a random number below `bound`, drawn from the seed of the run; 0 if `bound` is 0.
    #[must_use]
    pub fn draw(&self, bound: u64) -> u64 {
        self.state().random.below(bound)
    }

    /// Returns the number of this process of the agent, from 0. Each kill begins another one.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Adds a note to the log, about which an invariant can be stated. A process that was killed adds none.
    pub fn note(&self, name: impl Into<String>, value: impl Into<Value>) {
        let what = What::Noted { name: name.into(), value: value.into() };
        let mut state = self.state();
        if self.lives_in(&state) {
            self.push(&mut state, what);
        }
    }

    /// Returns the environment of the agent, with the simulated clock.
    #[must_use]
    pub fn environment(&self) -> Arc<dyn Environment> {
        Arc::new(SimEnvironment::new(Arc::clone(&self.shared.clock)))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    fn push(&self, state: &mut State, what: What) {
        // What a process does after another one has taken over its session is judged by the store alone.
        if state.replaced == Some(self.process) {
            return;
        }
        let (process, time, elapsed_ms) = (self.process, self.now(), self.shared.clock.elapsed());
        state.log.entries.push(LogEntry { process, time, elapsed_ms, lost: false, what });
    }

    fn lives_in(&self, state: &State) -> bool {
        state.process == self.process && !state.dead
    }

    /// Returns whether this process still has an effect.
    pub(crate) fn lives(&self) -> bool {
        self.lives_in(&self.state())
    }
}

/// The life of a process.
impl World {
    /// Begins a process. Its agent is not known yet.
    pub(crate) fn begin(&self) {
        self.shared.clock.begin();
        let mut state = self.state();
        state.dead = false;
        self.push(&mut state, What::Started);
    }

    /// Sets the agent of this process, to which the user talks.
    pub(crate) fn connect(&self, agent: AgentHandle) {
        self.state().agent = Some(agent);
    }

    /// Ends a process: nothing of it has an effect from now on.
    pub(crate) fn end(&self) {
        self.shared.clock.end();
        let agent = {
            let mut state = self.state();
            state.armed.clear();
            state.dead = true;
            state.agent.take()
        };
        drop(agent);
    }

    /// Waits until the process is killed.
    pub(crate) async fn killed(&self) {
        self.shared.killed.notified().await;
    }

    /// Waits until the process is stopped.
    pub(crate) async fn stopped(&self) {
        self.shared.stopped.notified().await;
    }

    /// One moment of the run: acts that are due happen. Does not return in a process that was killed, and in a stopped one
    /// when it is continued.
    pub(crate) async fn moment(&self) {
        self.wait(1).await;
    }

    /// Lets all acts happen that are still to come, as [`moment`](Self::moment).
    pub(crate) async fn rest(&self) {
        self.wait(u32::MAX).await;
    }

    async fn wait(&self, moments: u32) {
        loop {
            match self.pass(moments) {
                Moment::Lives => return,
                Moment::Stopped => self.shared.continued.notified().await,
                Moment::Dead => std::future::pending::<()>().await,
            }
        }
    }

    fn pass(&self, moments: u32) -> Moment {
        let due: Vec<Action> = {
            let mut state = self.state();
            if !self.lives_in(&state) {
                return match &state.stopped {
                    Some((process, _)) if *process == self.process => Moment::Stopped,
                    _ => Moment::Dead,
                };
            }
            if state.armed.is_empty() {
                return Moment::Lives;
            }
            let mut due = Vec::new();
            state.armed.retain_mut(|(left, action)| {
                if *left < moments {
                    due.push(action.clone());
                    return false;
                }
                *left -= moments;
                true
            });
            due
        };
        let mut left = due.into_iter();
        while let Some(action) = left.next() {
            match self.perform(action) {
                Moment::Lives => {}
                Moment::Stopped => {
                    // The acts that follow happen to the process that takes over.
                    self.state().armed.extend(left.map(|action| (0, action)));
                    return Moment::Stopped;
                }
                Moment::Dead => return Moment::Dead,
            }
        }
        Moment::Lives
    }

    /// Performs an act.
    fn perform(&self, action: Action) -> Moment {
        let Some(agent) = self.state().agent.clone() else { return Moment::Lives };
        match &action {
            Action::Complete(text) => {
                let Some(id) = self.open_deferred() else { return Moment::Lives };
                match agent.complete(id.clone(), ToolResult::text(text.clone())) {
                    Ok(()) => {}
                    // An earlier result of the call waits in a queue.
                    Err(AgentError::Message(HistoryError::AlreadyCompleted(_))) => return Moment::Lives,
                    Err(error) => {
                        let refused = format!("the result of the deferred call {id} was refused: {error}");
                        self.state().refused.push(refused);
                        return Moment::Lives;
                    }
                }
            }
            Action::StoreFails(fault) => {
                let mut state = self.state();
                let Some(writes) = &mut state.writes else { return Moment::Lives };
                writes.next_fault = Some(*fault);
            }
            Action::Stop => {
                let state = self.state();
                // A process has its session from its first record on.
                let is_first = state.writes.is_some() && state.stopped.is_none() && state.replaced.is_none();
                if !is_first || state.disk.entries.is_empty() {
                    return Moment::Lives;
                }
            }
            _ => {}
        }
        {
            let mut state = self.state();
            self.push(&mut state, What::Acted(action.clone()));
        }
        match action {
            Action::Steer(text) => agent.steer(text),
            Action::FollowUp(text) => agent.follow_up(text),
            Action::Complete(_) | Action::StoreFails(_) => {}
            Action::Abort => agent.abort(),
            Action::Jump(by) => self.shared.clock.jump(by),
            Action::Kill => return self.kill(false),
            Action::Crash => return self.kill(true),
            Action::Stop => return self.stop(),
        }
        Moment::Lives
    }

    fn stop(&self) -> Moment {
        let mut state = self.state();
        let agent = state.agent.take();
        state.stopped = Some((self.process, agent));
        // No process runs until the next one begins.
        state.dead = true;
        drop(state);
        self.shared.clock.pause();
        self.shared.stopped.notify_one();
        Moment::Stopped
    }

    /// Continues this process, which was stopped. Returns whether another one has taken over its session.
    pub(crate) fn proceed(&self) -> bool {
        let mut state = self.state();
        state.process = self.process;
        state.agent = state.stopped.take().and_then(|(_, agent)| agent);
        state.dead = false;
        let replaced = state.replaced == Some(self.process);
        drop(state);
        self.shared.clock.begin();
        self.shared.continued.notify_waiters();
        replaced
    }

    /// Returns whether another process has taken over the session of this one.
    pub(crate) fn is_replaced(&self) -> bool {
        self.state().replaced == Some(self.process)
    }

    /// Returns whether a process waits that this one is to replace.
    pub(crate) fn is_taking_over(&self) -> bool {
        self.state().stopped.is_some()
    }

    /// Adds the panics of this process to the log.
    pub(crate) fn panicked(&self, messages: Vec<String>) {
        let mut state = self.state();
        messages.into_iter().for_each(|text| self.push(&mut state, What::Panicked(text)));
    }

    /// Notes that this process has opened the session of a process that is stopped.
    pub(crate) fn took_over(&self) {
        let mut state = self.state();
        if let Some((process, _)) = &state.stopped
            && state.replaced.is_none()
        {
            state.replaced = Some(*process);
            state.mark_kill();
        }
    }

    /// Notes that the process ends because a call of the store failed. Its memory is lost.
    pub(crate) fn give_up(&self) {
        self.state().mark_kill();
    }

    fn kill(&self, crash: bool) -> Moment {
        let mut guard = self.state();
        let state = &mut *guard;
        state.dead = true;
        // A session store has what it acknowledged, whatever ends.
        if crash && state.writes.is_none() {
            for entry in state.disk.crash() {
                state.log.entries.get_mut(entry).into_iter().for_each(|entry| entry.lost = true);
            }
        }
        state.mark_kill();
        drop(guard);
        self.shared.killed.notify_one();
        Moment::Dead
    }

    /// Returns the oldest deferred call without a result.
    fn open_deferred(&self) -> Option<ToolCallId> {
        let state = self.state();
        let mut open = Vec::new();
        for event in state.log.events() {
            match event {
                // Only the conversation of the agent itself receives results from outside.
                AgentEvent::ToolExecutionEnd(end)
                    if end.result.deferred.is_some() && state.disk.is_conversation(&end.loop_id) =>
                {
                    open.push(end.tool_call_id.clone());
                }
                AgentEvent::MessageEnd { message, .. } => {
                    if let Some(agent_core::Message::User(user)) = message.as_llm()
                        && let Some(deferred) = &user.deferred
                    {
                        open.retain(|id| *id != deferred.tool_call_id);
                    }
                }
                _ => {}
            }
        }
        open.into_iter().next()
    }
}

/// What the user and the model do.
impl World {
    /// Returns the next prompt of the script.
    pub(crate) fn prompt(&self) -> Option<String> {
        let mut state = self.state();
        if state.replaced == Some(self.process) {
            return None;
        }
        let (text, acts) = state.source.prompt()?;
        self.push(&mut state, What::Prompted(text.clone()));
        state.performing = Some(text.clone());
        state.arm(acts);
        Some(text)
    }

    /// Returns the prompt that a killed process had not finished.
    pub(crate) fn unfinished(&self) -> Option<String> {
        self.state().performing.clone()
    }

    /// Notes that the program under test has performed its prompt.
    pub(crate) fn finished(&self) {
        self.state().performing = None;
    }

    /// Returns the answer to a question. The caller reports it with [`answered`](Self::answered) when it was accepted.
    pub(crate) fn answer(&self, question: &Question) -> Answer {
        let mut state = self.state();
        if state.replaced == Some(self.process) {
            return Answer::deny("the session has another writer");
        }
        let (answer, acts) = state.source.answer(question);
        state.arm(acts);
        answer
    }

    pub(crate) fn answered(&self, question: Question, answer: Answer) {
        let what = What::Answered { question: Box::new(question), answer };
        self.push(&mut self.state(), what);
    }

    pub(crate) fn stuck(&self) {
        self.push(&mut self.state(), What::Stuck);
    }

    /// Records that the model was called.
    pub(crate) fn called(&self, history: &History) {
        self.push(&mut self.state(), What::ModelCalled(history.clone()));
    }

    /// Returns the reply to a request, with the ids of its calls.
    pub(crate) fn reply(&self, request: &ModelRequest) -> (Reply, Vec<ToolCallId>) {
        let mut state = self.state();
        if state.replaced == Some(self.process) {
            return (done(), Vec::new());
        }
        let (reply, acts) = state.source.reply(request);
        let mut ids = Vec::new();
        for call in &reply.calls {
            state.calls += 1;
            let id = ToolCallId::from(format!("call_{}", state.calls));
            state.faults.insert(id.clone(), call.fault);
            ids.push(id);
        }
        state.arm(acts);
        (reply, ids)
    }
}

/// What tools do.
impl World {
    /// Returns what happens to this call. A call that is executed again after a kill has no fault.
    pub(crate) fn fault(&self, call: &ToolCallId) -> ToolFault {
        self.state().faults.remove(call).unwrap_or_default()
    }

    /// Records that a tool begins to execute and returns the position of the execution.
    pub(crate) fn executing(&self, execution: &Executing<'_>) -> usize {
        let Executing { ctx, arguments, effects, asks, fits, called } = *execution;
        let mut state = self.state();
        if state.replaced == Some(self.process) {
            return usize::MAX;
        }
        let index = state.log.executions.len();
        let execution = Execution {
            tool: ctx.tool_name.to_string(),
            call_id: ctx.tool_call_id.clone(),
            loop_id: ctx.loop_id.clone(),
            idempotency_key: ctx.idempotency_key(),
            arguments: arguments.clone(),
            effects,
            asks,
            process: self.process,
            began: state.log.entries.len(),
            finished: false,
            fits,
            called,
        };
        state.log.executions.push(execution);
        self.push(&mut state, What::Executed(index));
        index
    }

    /// Returns the number of entries in the log.
    pub(crate) fn position(&self) -> usize {
        self.state().log.entries.len()
    }

    /// Records that an execution returned.
    pub(crate) fn executed(&self, index: usize) {
        let mut state = self.state();
        if let Some(execution) = state.log.executions.get_mut(index) {
            execution.finished = true;
        }
    }

    /// Records an entry of the journal.
    pub(crate) fn record(&self, entry: &JournalEntry<'_>) {
        let mut state = self.state();
        if self.lives_in(&state) {
            self.note_written(&mut state, Write::of(entry));
        }
    }

    fn note_written(&self, state: &mut State, write: Write) {
        let Write { run, inputs, events, durability } = write;
        let from = state.log.entries.len();
        for event in events {
            self.push(state, What::Recorded(Box::new(event)));
        }
        let events = from..state.log.entries.len();
        let flushed = durability == Durability::Flushed;
        state.disk.entries.push(DiskEntry { run, inputs, flushed, events });
    }

    /// Records an event of a group of parallel loops.
    pub(crate) fn record_group(&self, event: AgentEvent) {
        let mut state = self.state();
        if self.lives_in(&state) {
            self.push(&mut state, What::GroupRecorded(Box::new(event)));
        }
    }
}

/// What the session store does.
impl World {
    /// Returns how the call of the store that begins now fails.
    pub(crate) fn store_fault(&self) -> Option<StoreFault> {
        let mut state = self.state();
        let lives = self.lives_in(&state);
        let writes = state.writes.as_mut().filter(|_| lives)?;
        let fault = writes.next_fault.take();
        writes.failed |= fault.is_some();
        fault
    }

    /// Notes that a record is being written. Until it is acknowledged, the store can have it or not.
    pub(crate) fn begin_write(&self, entry: &JournalEntry<'_>) -> u64 {
        let mut state = self.state();
        state.writes.as_mut().map_or(0, |writes| writes.begin(Write::of(entry)))
    }

    /// Notes that the write of a record has ended. After an error, the store can have it or not.
    pub(crate) fn end_write(&self, number: u64, acknowledged: bool) {
        let mut state = self.state();
        if !self.lives_in(&state) {
            return;
        }
        let replaced = state.replaced == Some(self.process);
        let Some(writes) = &mut state.writes else { return };
        if !acknowledged {
            writes.failed = true;
            return;
        }
        let Some(write) = writes.open.remove(&number) else { return };
        let setup = write.run.setup();
        let last = writes.writers.insert(setup.session_id.clone(), self.process);
        // Nothing keeps a process from continuing a sub-agent in a session that no other process has.
        if replaced && (setup.depth == 0 || last.is_some_and(|last| last != self.process)) {
            let id = &setup.loop_id;
            writes
                .problems
                .push(format!("a record of {id} was acknowledged to a process that had lost the session"));
            return;
        }
        self.note_written(&mut state, write);
    }

    /// Notes that a call of the store failed, so that the program opens the session again.
    pub(crate) fn store_failed(&self) {
        if let Some(writes) = &mut self.state().writes {
            writes.failed = true;
        }
    }

    /// Returns whether a call of the store has failed.
    pub(crate) fn has_store_failure(&self) -> bool {
        self.state().writes.as_ref().is_some_and(|writes| writes.failed)
    }

    /// Returns the ids of the sessions of which a record was written.
    pub(crate) fn sessions(&self) -> BTreeSet<SessionId> {
        let state = self.state();
        let open = state.writes.iter().flat_map(|writes| writes.open.values().map(|write| &write.run));
        let runs = state.disk.entries.iter().map(|entry| &entry.run).chain(open);
        runs.map(|run| run.setup().session_id.clone()).collect()
    }

    /// Returns whether a call of the store has failed since the last call.
    pub(crate) fn take_store_failure(&self) -> bool {
        let mut state = self.state();
        state.writes.as_mut().is_some_and(|writes| std::mem::take(&mut writes.failed))
    }

    /// Compares what the store has with what it acknowledged. A record whose outcome was unknown is recorded if the store has it.
    pub(crate) fn compare(&self, sessions: &[Session]) {
        let mut guard = self.state();
        let state = &mut *guard;
        let Some(writes) = &mut state.writes else { return };
        let found: Vec<Write> = writes.found_in(sessions);
        for write in found {
            self.note_written(state, write);
        }
        let problems = crate::writes::differences(&state.disk, &state.log, sessions);
        if let Some(writes) = &mut state.writes {
            writes.problems.extend(problems);
        }
    }
}

/// A call that begins to execute.
pub(crate) struct Executing<'a> {
    pub(crate) ctx: &'a ToolContext,
    pub(crate) arguments: &'a Value,
    pub(crate) effects: agent_core::Effects,
    pub(crate) asks: bool,
    pub(crate) fits: bool,
    pub(crate) called: usize,
}

impl State {
    /// Notes that the memory of a process is lost.
    fn mark_kill(&mut self) {
        let mut queued = self.disk.queued();
        // A record that was not acknowledged can have taken a message out of its queue, or ended the run.
        for write in self.writes.iter().flat_map(|writes| writes.open.values()) {
            if is_root(&write.run) {
                let left = queued_in(&write.run);
                queued.retain(|text| left.contains(text));
            }
        }
        self.kills.push(KillMark { at: self.log.entries.len(), queued });
    }

    fn arm(&mut self, acts: Vec<Act>) {
        self.armed.extend(acts.into_iter().map(|act| (act.after, act.what)));
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("process", &self.process()).finish_non_exhaustive()
    }
}
