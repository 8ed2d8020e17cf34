//! Replay of a cassette.

mod clock;
mod matching;
mod model;
mod tool;

use agent_core::compat::SeedSetters as _;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use agent_core::CancellationToken;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use super::diff;
use super::error::{CassetteError, Divergence};
use super::form::{Cassette, RecordedCall, RecordedEffect};
use agent_core::AgentTool;
use agent_core::BasicAgent;
use agent_core::Environment;
use agent_core::StreamProvider;

/// How long a replay waits for the next recorded happening: an abort, or the end of a concurrent call.
const PATIENCE: Duration = Duration::from_secs(5);

/// Answers an agent's calls from a cassette as long as they equal the recorded calls. Clones are handles to one replay.
#[derive(Clone)]
pub struct Replay {
    shared: Arc<Shared>,
}

/// The result of a complete replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replayed {
    /// The number of model calls that were answered.
    pub model_calls: usize,
    /// The number of tool calls that were answered.
    pub tool_calls: usize,
}

/// Whether a call must equal the recorded one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strictness {
    Strict,
    Lenient,
}

struct Shared {
    cassette: Cassette,
    /// The positions of messages and setups by their JSON, so that requests are compared by position.
    messages: BTreeMap<String, u32>,
    setups: BTreeMap<String, u32>,
    state: Mutex<State>,
    /// The recorded ends that have not happened yet. The smallest is next.
    ends: watch::Sender<BTreeSet<u32>>,
    environment: OnceLock<Arc<dyn Environment>>,
    /// Notified when a replayed call waits for the abort or the deadline that ended it in the recording.
    abort_awaited: Notify,
}

struct State {
    strictness: Strictness,
    /// For each recorded call, whether it was answered.
    answered: Vec<bool>,
    divergence: Option<Divergence>,
    clock: clock::Position,
    model_calls: usize,
    tool_calls: usize,
}

impl Replay {
    /// Creates a strict replay: the first call that differs from the recorded one fails, and so does every later call.
    #[must_use]
    pub fn new(cassette: Cassette) -> Self {
        let places = |values: &[Value]| -> BTreeMap<String, u32> {
            let numbered = values.iter().zip(0..);
            numbered.map(|(value, place)| (value.to_string(), place)).collect()
        };
        let state = State {
            strictness: Strictness::Strict,
            answered: vec![false; cassette.calls.len()],
            divergence: None,
            clock: clock::Position::default(),
            model_calls: 0,
            tool_calls: 0,
        };
        Self {
            shared: Arc::new(Shared {
                messages: places(&cassette.messages),
                setups: places(&cassette.setups),
                state: Mutex::new(state),
                ends: watch::channel(cassette.calls.iter().filter_map(|call| call.ended).collect()).0,
                abort_awaited: Notify::new(),
                environment: OnceLock::new(),
                cassette,
            }),
        }
    }

    /// Creates a strict replay of a cassette in JSON, for fixtures that are compiled in with `include_str!`.
    ///
    /// # Errors
    /// When the text is not a cassette.
    pub fn from_json(text: &str) -> Result<Self, CassetteError> {
        Cassette::from_json(text).map(Self::new)
    }

    /// Makes the replay record the first difference and continue: calls are answered in recorded order, whatever they
    /// contain.
    #[must_use]
    pub fn lenient(self) -> Self {
        self.shared.lock().strictness = Strictness::Lenient;
        self
    }

    /// Returns the cassette that is replayed.
    #[must_use]
    pub fn cassette(&self) -> &Cassette {
        &self.shared.cassette
    }

    /// Replaces the agent's provider, clock and tool executions by the replay and sets the recorded ids. The agent's own
    /// tools still provide their descriptions, so that a changed description is a difference; [`tools`](Self::tools)
    /// returns the recorded ones.
    #[must_use]
    pub fn attach(&self, mut agent: BasicAgent) -> BasicAgent {
        let tools: Vec<_> = agent.state().tools.into_iter().map(|tool| self.tool(tool)).collect();
        if let Some(id) = &self.shared.cassette.agent_id {
            agent = agent.with_agent_id(id.clone());
        }
        if let Some(id) = &self.shared.cassette.session_id {
            agent = agent.with_session_id(id.clone());
        }
        agent.set_tools(tools);
        agent.configure(|config| {
            config.services.provider = self.provider();
            config.services.environment = self.environment(Arc::clone(&config.services.environment));
            for route in &mut config.routes {
                route.provider = None;
            }
        })
    }

    /// Returns a provider that answers from the cassette.
    #[must_use]
    pub fn provider(&self) -> Arc<dyn StreamProvider> {
        Arc::new(model::ReplayProvider { shared: Arc::clone(&self.shared) })
    }

    /// Returns the recorded tools with their recorded descriptions.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<dyn AgentTool>> {
        let tools = self.shared.cassette.tools.iter();
        tools.map(|tool| tool::recorded(tool.clone(), &self.shared)).collect()
    }

    /// Returns a tool with the description of `inner` and the recorded results. A tool that is not in the cassette is
    /// returned unchanged.
    #[must_use]
    pub fn tool(&self, inner: Arc<dyn AgentTool>) -> Arc<dyn AgentTool> {
        let known = self.shared.cassette.tools.iter().any(|tool| tool.definition.name == inner.name());
        if known { tool::described(inner, &self.shared) } else { inner }
    }

    /// Returns an environment with the recorded times, waits and ids. Tasks run on `inner`.
    #[must_use]
    pub fn environment(&self, inner: Arc<dyn Environment>) -> Arc<dyn Environment> {
        let _ = self.shared.environment.set(Arc::clone(&inner));
        Arc::new(clock::ReplayEnvironment { inner, shared: Arc::clone(&self.shared) })
    }

    /// Returns the first divergence so far.
    #[must_use]
    pub fn divergence(&self) -> Option<Divergence> {
        self.shared.lock().divergence.clone()
    }

    /// Checks that every call of the cassette was made and that none differed.
    ///
    /// # Errors
    /// The first divergence; also when a recorded call was not made.
    pub fn finish(&self) -> Result<Replayed, Divergence> {
        let state = self.shared.lock();
        if let Some(divergence) = &state.divergence {
            return Err(divergence.clone());
        }
        if let Some(missing) = state.answered.iter().position(|answered| !answered) {
            let then = self.shared.cassette.calls.get(missing).map(|call| self.shared.call_value(call));
            return Err(Divergence {
                at: self.shared.place_of(missing),
                field: String::new(),
                diff: diff::lines(then.as_ref(), None),
            });
        }
        Ok(Replayed { model_calls: state.model_calls, tool_calls: state.tool_calls })
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Replay")
            .field("calls", &state.answered.len())
            .field("answered", &state.answered.iter().filter(|answered| **answered).count())
            .field("divergence", &state.divergence)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the calls that ended before this one have ended.
    async fn await_turn(&self, call: &RecordedCall) -> Result<(), Divergence> {
        let Some(turn) = call.ended else { return Ok(()) };
        if self.lock().strictness == Strictness::Lenient {
            return Ok(());
        }
        let mut ends = self.ends.subscribe();
        let came = self.in_time(async {
            let _ = ends.wait_for(|left| left.first().is_none_or(|next| *next >= turn)).await;
        });
        if came.await {
            return Ok(());
        }
        let late = self.ends.borrow().first().copied();
        let late = self.cassette.calls.iter().position(|call| call.ended == late && late.is_some());
        Err(self.diverge(
            late.map_or_else(String::new, |place| self.place_of(place)),
            "ended here",
            "did not come",
        ))
    }

    /// Marks a call as ended, so that the next one can end.
    fn ended(&self, call: &RecordedCall) {
        if let Some(end) = call.ended {
            self.ends.send_if_modified(|left| left.remove(&end));
        }
    }

    /// Waits for the abort that the cassette has at this call.
    async fn await_abort(&self, place: usize, cancel: &CancellationToken) -> Result<(), Divergence> {
        self.abort_awaited.notify_one();
        if self.in_time(cancel.cancelled()).await {
            return Ok(());
        }
        Err(self.diverge(
            self.place_of(place),
            "was cut off here by an abort or a limit of time",
            "was not cut off",
        ))
    }

    /// Records a difference that is described in words.
    fn diverge(&self, at: String, then: &str, now: &str) -> Divergence {
        let found = Divergence { at, field: String::new(), diff: format!("- {then}\n+ {now}") };
        self.ends.send_modify(BTreeSet::clear);
        self.lock().divergence.get_or_insert(found).clone()
    }

    /// Returns whether `wait` completes within [`PATIENCE`].
    async fn in_time(&self, wait: impl Future<Output = ()>) -> bool {
        let patience = self.environment.get().map(|environment| environment.sleep(PATIENCE));
        let over = async {
            match patience {
                Some(sleep) => sleep.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = wait => true,
            () = over => false,
        }
    }

    /// Describes a call by its number among the calls of its kind, for messages.
    fn place_of(&self, place: usize) -> String {
        let before = self.cassette.calls.iter().take(place + 1).map(|call| &call.effect);
        match self.cassette.calls.get(place).map(|call| &call.effect) {
            Some(RecordedEffect::Tool { name, .. }) => {
                let count =
                    before.filter(|e| matches!(e, RecordedEffect::Tool { name: n, .. } if n == name)).count();
                format!("call {count} of the tool {name}")
            }
            _ => {
                let count = before.filter(|effect| matches!(effect, RecordedEffect::Model { .. })).count();
                format!("model call {count}")
            }
        }
    }

    /// Returns the input of a call, for messages.
    fn call_value(&self, call: &RecordedCall) -> Value {
        match &call.effect {
            RecordedEffect::Model { request, .. } => {
                json!({"last message": self.cassette.messages_of(request).last()})
            }
            RecordedEffect::Tool { name, id, arguments, .. } => {
                json!({"tool": name, "id": id, "arguments": arguments})
            }
        }
    }
}
