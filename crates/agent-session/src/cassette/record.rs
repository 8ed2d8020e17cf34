//! Recording of a run to a cassette.

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

/// Records the calls of models, tools, clock and random ids of an agent, with their results. Clones record to the same
/// cassette.
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
    /// Names of tools that a replay executes again.
    again: BTreeSet<String>,
    setups: BTreeMap<String, u32>,
    messages: BTreeMap<String, u32>,
    ended: u32,
    /// The unwrapped environment and provider, which tools receive: their inner calls are not part of the run.
    environment: Option<Arc<dyn Environment>>,
    provider: Option<Arc<dyn StreamProvider>>,
}

impl CassetteRecorder {
    /// Creates a recorder with an empty cassette.
    #[must_use]
    pub fn new() -> Self {
        let recorder = Self::default();
        let mut state = recorder.shared.lock();
        state.cassette.version = CASSETTE_VERSION;
        state.cassette.made_by = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")).to_owned();
        drop(state);
        recorder
    }

    /// Excludes tools from the recording, so that a replay executes them again. Use it for sub-agents: their own model
    /// calls are recorded instead.
    #[must_use]
    pub fn running_again(self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.shared.lock().again.extend(tools.into_iter().map(Into::into));
        self
    }

    /// Wraps the agent's provider, routes, tools and environment, so that the runs that start from now on are recorded.
    /// Tools that are added later are not; wrap them with [`tool`](Self::tool).
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

    /// Wraps a provider and records its calls.
    #[must_use]
    pub fn provider(&self, inner: Arc<dyn StreamProvider>) -> Arc<dyn StreamProvider> {
        self.shared.lock().provider = Some(Arc::clone(&inner));
        self.route_provider(inner)
    }

    fn route_provider(&self, inner: Arc<dyn StreamProvider>) -> Arc<dyn StreamProvider> {
        Arc::new(model::RecordingProvider { inner, shared: Arc::clone(&self.shared) })
    }

    /// Wraps a tool and records its calls. A tool that is [run again](Self::running_again) is returned unchanged.
    #[must_use]
    pub fn tool(&self, inner: Arc<dyn AgentTool>) -> Arc<dyn AgentTool> {
        if self.shared.lock().again.contains(inner.name()) {
            return inner;
        }
        tool::recording(inner, &self.shared)
    }

    /// Wraps an environment and records its times, waits and ids.
    #[must_use]
    pub fn environment(&self, inner: Arc<dyn Environment>) -> Arc<dyn Environment> {
        self.shared.lock().environment = Some(Arc::clone(&inner));
        Arc::new(clock::RecordingEnvironment { inner, shared: Arc::clone(&self.shared) })
    }

    /// Stores a value under a name, for the program that replays the cassette.
    pub fn note(&self, name: impl Into<String>, value: impl Into<Value>) {
        self.shared.lock().cassette.notes.insert(name.into(), value.into());
    }

    /// Returns the recording so far. A call that has not ended appears as one that was cut off.
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
    /// Records that a call began and returns its position.
    fn begin(&mut self, effect: RecordedEffect) -> usize {
        self.cassette.calls.push(RecordedCall { effect, ended: None });
        self.cassette.calls.len() - 1
    }

    /// Records that a call ended; `end` sets its result.
    fn end(&mut self, call: usize, end: impl FnOnce(&mut RecordedEffect)) {
        let ended = self.ended;
        self.ended += 1;
        if let Some(call) = self.cassette.calls.get_mut(call) {
            end(&mut call.effect);
            call.ended = Some(ended);
        }
    }

    /// Returns the request as positions in the tables. Adds missing entries to the tables.
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

/// Returns the position of a value in its table. Adds a new value at the end.
fn number(places: &mut BTreeMap<String, u32>, table: &mut Vec<Value>, line: &str) -> u32 {
    if let Some(place) = places.get(line) {
        return *place;
    }
    let place = u32::try_from(table.len()).unwrap_or(u32::MAX);
    table.push(serde_json::from_str(line).unwrap_or_default());
    places.insert(line.to_owned(), place);
    place
}

/// Returns the message of a panic if it is a text.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
