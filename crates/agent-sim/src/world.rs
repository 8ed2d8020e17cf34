//! The simulated world of an agent: everything outside of its process.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_core::environment::Environment;
use agent_core::history::History;
use agent_core::journal::JournalEntry;
use agent_core::provider::ModelRequest;
use agent_core::{AgentEvent, AgentHandle, Answer, Question, Timestamp, ToolCallId, ToolContext, ToolResult};
use serde_json::Value;
use tokio::sync::Notify;

use crate::clock::{Clock, SimEnvironment};
use crate::disk::Disk;
use crate::log::{Execution, Log, LogEntry, What};
use crate::random::Random;
use crate::script::{Act, Action, Reply, ToolFault};
use crate::source::Source;

/// The outside world of the agent under test. It outlives the processes of the agent, as a database or a mail server does.
///
/// The function that builds the agent receives it. Simulated tools store what they did in [`outside`](Self::outside).
#[derive(Clone)]
pub struct World {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    clock: Arc<Clock>,
    killed: Notify,
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
    process: u32,
    calls: u32,
    dead: bool,
}

/// A kill, for the laws about messages.
#[derive(Debug, Clone)]
pub(crate) struct KillMark {
    /// The position in the log.
    pub(crate) at: usize,
    /// The texts that the surviving open run had in its queues.
    pub(crate) queued: Vec<String>,
}

impl World {
    pub(crate) fn new(source: Source) -> Self {
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
            calls: 0,
            dead: false,
        };
        let shared = Shared { state: Mutex::new(state), clock: Arc::default(), killed: Notify::new() };
        Self { shared: Arc::new(shared) }
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
        self.state().process
    }

    /// Adds a note to the log, about which an invariant can be stated. A process that was killed adds none.
    pub fn note(&self, name: impl Into<String>, value: impl Into<Value>) {
        let what = What::Noted { name: name.into(), value: value.into() };
        let mut state = self.state();
        if !state.dead {
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
        let (process, time) = (state.process, self.now());
        state.log.entries.push(LogEntry { process, time, lost: false, what });
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
            state.process += 1;
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

    /// One moment of the run: acts that are due happen. Does not return in a process that was killed.
    pub(crate) async fn moment(&self) {
        if !self.pass(1) {
            std::future::pending::<()>().await;
        }
    }

    /// Lets all acts happen that are still to come. Returns whether the process lives.
    pub(crate) fn rest(&self) -> bool {
        self.pass(u32::MAX)
    }

    fn pass(&self, moments: u32) -> bool {
        let due: Vec<Action> = {
            let mut state = self.state();
            if state.dead {
                return false;
            }
            if state.armed.is_empty() {
                return true;
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
        due.into_iter().all(|action| self.perform(action))
    }

    /// Performs an act. Returns whether the process lives.
    fn perform(&self, action: Action) -> bool {
        let Some(agent) = self.state().agent.clone() else { return true };
        if let Action::Complete(text) = &action {
            let open = self.open_deferred();
            let completed = open.map(|id| agent.complete(id, ToolResult::text(text.clone())));
            if !matches!(completed, Some(Ok(()))) {
                return true;
            }
        }
        {
            let mut state = self.state();
            self.push(&mut state, What::Acted(action.clone()));
        }
        match action {
            Action::Steer(text) => agent.steer(text),
            Action::FollowUp(text) => agent.follow_up(text),
            Action::Complete(_) => {}
            Action::Abort => agent.abort(),
            Action::Jump(by) => self.shared.clock.jump(by),
            Action::Kill => return self.kill(false),
            Action::Crash => return self.kill(true),
        }
        true
    }

    fn kill(&self, crash: bool) -> bool {
        let mut guard = self.state();
        let state = &mut *guard;
        state.dead = true;
        if crash {
            for entry in state.disk.crash() {
                state.log.entries.get_mut(entry).into_iter().for_each(|entry| entry.lost = true);
            }
        }
        let mark = KillMark { at: state.log.entries.len(), queued: state.disk.queued() };
        state.kills.push(mark);
        self.shared.killed.notify_one();
        false
    }

    /// Returns the oldest deferred call without a result.
    fn open_deferred(&self) -> Option<ToolCallId> {
        let state = self.state();
        let mut open = Vec::new();
        for event in state.log.events() {
            match event {
                AgentEvent::ToolExecutionEnd(end) if end.result.deferred.is_some() => {
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
        let (text, acts) = state.source.prompt()?;
        self.push(&mut state, What::Prompted(text.clone()));
        state.arm(acts);
        Some(text)
    }

    /// Returns the answer to a question. The caller reports it with [`answered`](Self::answered) when it was accepted.
    pub(crate) fn answer(&self, question: &Question) -> Answer {
        let mut state = self.state();
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
        let index = state.log.executions.len();
        let execution = Execution {
            tool: ctx.tool_name.to_string(),
            call_id: ctx.tool_call_id.clone(),
            loop_id: ctx.loop_id.clone(),
            idempotency_key: ctx.idempotency_key(),
            arguments: arguments.clone(),
            effects,
            asks,
            process: state.process,
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
        let mut guard = self.state();
        let state = &mut *guard;
        if state.dead {
            return;
        }
        let from = state.log.entries.len();
        for event in entry.run.numbered(entry.events.to_vec()) {
            self.push(state, What::Recorded(Box::new(event)));
        }
        let to = state.log.entries.len();
        state.disk.append(entry, from..to);
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
    fn arm(&mut self, acts: Vec<Act>) {
        self.armed.extend(acts.into_iter().map(|act| (act.after, act.what)));
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("process", &self.process()).finish_non_exhaustive()
    }
}
