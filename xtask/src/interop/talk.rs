//! A run of an agent over the real providers, and everything that was seen of it.

use agent_core::compat::SeedSetters as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent_core::{
    AgentEvent, AssistantMessage, BasicAgent, CancellationToken, CompactionReason, Completion, Ended,
    ErrorKind, EventSink, IntoPrompt, Message, ModelConfig, ModelRequest, ProviderError, RetryConfig,
    StreamProvider, ToolResultMessage, Usage,
};
use agent_providers::ProviderRegistry;
use anyhow::{Context as _, ensure};
use async_trait::async_trait;
use serde_json::Value;

use super::scene::Called;

/// A call of a model that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) kind: ErrorKind,
    pub(super) status: Option<u16>,
    pub(super) retry_after: Option<Duration>,
    pub(super) text: String,
}

/// Every provider that is built in, and what failed in it.
#[derive(Default)]
struct Watched {
    registry: ProviderRegistry,
    failures: Mutex<Vec<Failure>>,
}

#[async_trait]
impl StreamProvider for Watched {
    fn provider_id(&self) -> &str {
        self.registry.provider_id()
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        let end = self.registry.stream(request, sink, cancel).await;
        if let Err(error) = &end {
            let failure = Failure {
                kind: error.kind(),
                status: error.status(),
                retry_after: error.retry_after(),
                text: error.to_string(),
            };
            self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
        }
        end
    }

    fn provider_id_for(&self, model: &ModelConfig) -> String {
        self.registry.provider_id_for(model)
    }

    fn check(&self, model: &ModelConfig) -> Result<(), ProviderError> {
        self.registry.check(model)
    }
}

/// An agent, and who looks over its shoulder.
pub(super) struct Caller {
    pub(super) agent: BasicAgent,
    watched: Arc<Watched>,
    pub(super) called: Called,
}

/// What was seen of a run.
#[derive(Debug, Default)]
pub(super) struct Talk {
    /// The replies that entered the conversation.
    pub(super) replies: Vec<AssistantMessage>,
    pub(super) results: Vec<ToolResultMessage>,
    /// The pieces in which replies arrived.
    pub(super) pieces: usize,
    /// The waits before further attempts.
    pub(super) waits: Vec<Duration>,
    /// Replies of attempts that were made again.
    pub(super) superseded: usize,
    pub(super) compactions: Vec<CompactionReason>,
    pub(super) usage: Usage,
    pub(super) ended: Option<Ended>,
    /// The calls of the model that failed.
    pub(super) failures: Vec<Failure>,
    /// What the tools were called with.
    pub(super) called: Vec<(String, Value)>,
}

impl Caller {
    /// An agent for this model, with few and short waits.
    pub(super) fn new(model: ModelConfig) -> Self {
        let watched = Arc::new(Watched::default());
        let retry = RetryConfig::default()
            .with_max_retries(2)
            .with_delays(Duration::from_millis(20), Duration::from_millis(100));
        let agent = BasicAgent::new(model)
            .with_provider_override(Arc::clone(&watched) as Arc<dyn StreamProvider>)
            .with_system_prompt("You know the harbours of the North Sea.")
            .with_retry_config(retry);
        Self { agent, watched, called: Called::default() }
    }

    /// The same, changed as wished.
    pub(super) fn with(self, change: impl FnOnce(BasicAgent, &Called) -> BasicAgent) -> Self {
        Self { agent: change(self.agent, &self.called), ..self }
    }

    /// Asks, waits for the end, and tells what was seen.
    pub(super) async fn ask(&self, prompt: impl IntoPrompt) -> anyhow::Result<Talk> {
        let mut talk = Talk::default();
        let mut events = self.agent.prompt(prompt)?.without_sub_agents();
        while let Some(event) = events.recv().await {
            talk.take(event);
        }
        talk.failures = std::mem::take(&mut *lock(&self.watched.failures));
        talk.called = std::mem::take(&mut *lock(&self.called));
        ensure!(talk.ended.is_some(), "the run has no end");
        Ok(talk)
    }
}

impl Talk {
    fn take(&mut self, event: AgentEvent) {
        match event {
            AgentEvent::MessageUpdate { .. } => self.pieces += 1,
            AgentEvent::MessageEnd { superseded: true, .. } => self.superseded += 1,
            AgentEvent::MessageEnd { message, .. } => match message.as_llm() {
                Some(Message::Assistant(reply)) => self.replies.push(reply.clone()),
                Some(Message::ToolResult(result)) => self.results.push(result.clone()),
                _ => {}
            },
            AgentEvent::RetryStart(note) => self.waits.push(Duration::from_millis(note.delay_ms)),
            AgentEvent::CompactionEnded(end) => self.compactions.push(end.reason),
            AgentEvent::AgentEnd(end) => {
                self.usage = end.usage;
                self.ended = Some(end.ended);
            }
            _ => {}
        }
    }

    /// The reply that ended a run which was completed.
    pub(super) fn last(&self) -> anyhow::Result<&AssistantMessage> {
        ensure!(
            self.ended == Some(Ended::Completed),
            "the run ended {:?} after {:?}",
            self.ended,
            self.failures
        );
        self.replies.last().context("the run has no reply")
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
