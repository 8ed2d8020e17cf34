//! Writing down what passes between an agent and the world.

mod clock;
mod model;
mod tool;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::form::{CASSETTE_VERSION, Cassette, RecordedCall, RecordedEffect, RecordedRequest, RecordedTool};
use super::request;
use agent_core::AgentTool;
use agent_core::BasicAgent;
use agent_core::Environment;
use agent_core::{ModelRequest, StreamProvider};

/// Writes down what an agent asks of models, tools, clock and chance, and what it gets. A clone writes into the same
/// recording.
#[derive(Clone, Default)]
pub struct CassetteRecorder {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    cassette: Cassette,
    /// Tools that are run again in a replay.
    again: BTreeSet<String>,
    setups: BTreeMap<String, u32>,
    messages: BTreeMap<String, u32>,
    ended: u32,
    /// What tools are given: what they do inside is not of the run.
    environment: Option<Arc<dyn Environment>>,
    provider: Option<Arc<dyn StreamProvider>>,
}

impl CassetteRecorder {
    /// An empty cassette.
    #[must_use]
    pub fn new() -> Self {
        let recorder = Self::default();
        let mut state = recorder.shared.lock();
        state.cassette.version = CASSETTE_VERSION;
        state.cassette.made_by = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")).to_owned();
        drop(state);
        recorder
    }

    /// The same recorder, for which these tools are not replaced by what they gave: they are run again in a replay. For
    /// sub-agents, whose own calls of models are recorded instead.
    #[must_use]
    pub fn running_again(self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.shared.lock().again.extend(tools.into_iter().map(Into::into));
        self
    }

    /// Puts the recorder between the agent and its provider, its routes, its tools and its environment, for the runs that
    /// begin from now on. Tools that are added later are not recorded; [`tool`](Self::tool) wraps one.
    #[must_use]
    pub fn attach(&self, mut agent: BasicAgent) -> BasicAgent {
        let (agent_id, session_id) = (agent.agent_id(), agent.session_id());
        let tools: Vec<_> = agent.state().tools.into_iter().map(|tool| self.tool(tool)).collect();
        {
            let mut state = self.shared.lock();
            state.cassette.agent_id = Some(agent_id);
            state.cassette.session_id = Some(session_id);
        }
        agent.set_tools(tools);
        agent.configure(|config| {
            config.services.provider = self.provider(Arc::clone(&config.services.provider));
            config.services.environment = self.environment(Arc::clone(&config.services.environment));
            for route in &mut config.routes {
                if let Some(provider) = route.provider.take() {
                    route.provider = Some(self.route_provider(provider));
                }
            }
        })
    }

    /// A provider that writes down each call of this one.
    #[must_use]
    pub fn provider(&self, inner: Arc<dyn StreamProvider>) -> Arc<dyn StreamProvider> {
        self.shared.lock().provider = Some(Arc::clone(&inner));
        self.route_provider(inner)
    }

    fn route_provider(&self, inner: Arc<dyn StreamProvider>) -> Arc<dyn StreamProvider> {
        Arc::new(model::RecordingProvider { inner, shared: Arc::clone(&self.shared) })
    }

    /// A tool that writes down each call of this one; the tool itself when it is one of those that are
    /// [run again](Self::running_again).
    #[must_use]
    pub fn tool(&self, inner: Arc<dyn AgentTool>) -> Arc<dyn AgentTool> {
        if self.shared.lock().again.contains(inner.name()) {
            return inner;
        }
        tool::recording(inner, &self.shared)
    }

    /// An environment that writes down times, waits and ids of this one.
    #[must_use]
    pub fn environment(&self, inner: Arc<dyn Environment>) -> Arc<dyn Environment> {
        self.shared.lock().environment = Some(Arc::clone(&inner));
        Arc::new(clock::RecordingEnvironment { inner, shared: Arc::clone(&self.shared) })
    }

    /// Notes something under a name, for the program that replays.
    pub fn note(&self, name: impl Into<String>, value: impl Into<Value>) {
        self.shared.lock().cassette.notes.insert(name.into(), value.into());
    }

    /// What was recorded so far. A call that is still open is in it as one that was cut off.
    #[must_use]
    pub fn cassette(&self) -> Cassette {
        self.shared.lock().cassette.clone()
    }
}

impl fmt::Debug for CassetteRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CassetteRecorder")
            .field("calls", &self.shared.lock().cassette.calls.len())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Notes that a call began; gives its number.
    fn begin(&mut self, effect: RecordedEffect) -> usize {
        self.cassette.calls.push(RecordedCall { effect, ended: None });
        self.cassette.calls.len() - 1
    }

    /// Notes that a call ended.
    fn end(&mut self, call: usize, end: impl FnOnce(&mut RecordedEffect)) {
        let ended = self.ended;
        self.ended += 1;
        if let Some(call) = self.cassette.calls.get_mut(call) {
            end(&mut call.effect);
            call.ended = Some(ended);
        }
    }

    /// The request by numbers; what is new in it is added to the tables.
    fn request(&mut self, request: &ModelRequest) -> RecordedRequest {
        let setup = number(&mut self.setups, &mut self.cassette.setups, &request::setup(request));
        let mut runs: Vec<(u32, u32)> = Vec::new();
        request::each_message(request, |line| {
            let index = number(&mut self.messages, &mut self.cassette.messages, line);
            match runs.last_mut() {
                Some((first, count)) if *first + *count == index => *count += 1,
                _ => runs.push((index, 1)),
            }
        });
        RecordedRequest { setup, messages: runs }
    }

    fn tool(&mut self, name: &str) -> Option<&mut RecordedTool> {
        self.cassette.tools.iter_mut().find(|tool| tool.definition.name == name)
    }
}

/// The place of a value in its table, where it is put when it is new.
fn number(places: &mut BTreeMap<String, u32>, table: &mut Vec<Value>, line: &str) -> u32 {
    if let Some(place) = places.get(line) {
        return *place;
    }
    let place = u32::try_from(table.len()).unwrap_or(u32::MAX);
    table.push(serde_json::from_str(line).unwrap_or_default());
    places.insert(line.to_owned(), place);
    place
}

/// The message of a panic, as far as it is a text.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
