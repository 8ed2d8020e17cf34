//! A tool that records its calls.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use serde_json::Value;

use super::Shared;
use super::panic_text;
use crate::cassette::form::{RecordedEffect, RecordedSignal, RecordedTool, RecordedToolEnd, RecordedView};
use agent_core::tool::{ChildRun, Confinement};
use agent_core::{
    AgentTool, Effects, ToolCallers, ToolConcurrency, ToolContext, ToolDefinition, ToolError, ToolLoading,
    ToolResult, ToolSignal, ToolUpdates,
};

struct RecordingTool {
    inner: Arc<dyn AgentTool>,
    shared: Arc<Shared>,
}

pub(super) fn recording(inner: Arc<dyn AgentTool>, shared: &Arc<Shared>) -> Arc<dyn AgentTool> {
    let mut state = shared.lock();
    if state.tool(inner.name()).is_none() {
        let mut definition =
            ToolDefinition::new(inner.name(), inner.description(), inner.parameters_schema())
                .with_callers(inner.callers());
        definition.loading = inner.loading();
        state.cassette.tools.push(RecordedTool {
            definition,
            label: inner.label().to_owned(),
            sequential: inner.concurrency() == ToolConcurrency::Sequential,
            timeout_ms: inner.timeout().map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
            working_directory: inner.working_directory(),
            said: Vec::new(),
        });
    }
    drop(state);
    Arc::new(RecordingTool { inner, shared: Arc::clone(shared) })
}

impl RecordingTool {
    /// Records the properties that the tool reported for these arguments.
    fn view(&self, arguments: &Value, note: impl FnOnce(&mut RecordedView)) {
        let mut state = self.shared.lock();
        let Some(tool) = state.tool(self.inner.name()) else { return };
        if let Some(view) = tool.said.iter_mut().find(|view| view.arguments == *arguments) {
            return note(view);
        }
        let mut view = RecordedView::of(arguments.clone());
        let empty = view.clone();
        note(&mut view);
        if view != empty {
            tool.said.push(view);
        }
    }

    /// Returns the context for the wrapped tool: with the unwrapped environment and provider, because the tool's own waits
    /// and model calls are not part of the run, and with updates that are recorded.
    fn inside(&self, mut ctx: ToolContext, call: usize) -> ToolContext {
        let state = self.shared.lock();
        if let Some(environment) = &state.environment {
            ctx.environment = Arc::clone(environment);
        }
        if let Some(provider) = state.provider.clone().filter(|_| ctx.provider().is_some()) {
            ctx = ctx.with_provider(provider);
        }
        drop(state);
        let (shared, outside) = (Arc::clone(&self.shared), ctx.updates.clone());
        ctx.updates = ToolUpdates::new(move |signal| {
            let recorded = match &signal {
                ToolSignal::Update(result) => Some(RecordedSignal::Update(result.clone())),
                ToolSignal::Progress(text) => Some(RecordedSignal::Progress(text.clone())),
                // A cassette of this version has no form for a signal that a later one adds.
                _ => None,
            };
            if let Some(call) = shared.lock().cassette.calls.get_mut(call)
                && let RecordedEffect::Tool { said, end: None, .. } = &mut call.effect
            {
                said.extend(recorded);
            }
            outside.send(signal);
        });
        ctx
    }
}

#[async_trait]
impl AgentTool for RecordingTool {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn label(&self) -> &str {
        self.inner.label()
    }

    fn description(&self) -> &str {
        self.inner.description()
    }

    fn parameters_schema(&self) -> Value {
        self.inner.parameters_schema()
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let call = self.shared.lock().begin(RecordedEffect::Tool {
            name: ctx.tool_name.to_string(),
            id: ctx.tool_call_id.to_string(),
            arguments: arguments.clone(),
            said: Vec::new(),
            end: None,
        });
        let inside = self.inside(ctx, call);
        let result = AssertUnwindSafe(self.inner.execute(arguments, inside)).catch_unwind().await;
        let ended = match &result {
            Ok(Ok(result)) => RecordedToolEnd::Done(result.clone()),
            Ok(Err(ToolError::Failed(text))) => RecordedToolEnd::Failed(text.clone()),
            Ok(Err(ToolError::NotFound(name))) => RecordedToolEnd::NotFound(name.clone()),
            Ok(Err(ToolError::InvalidArgs(text))) => RecordedToolEnd::InvalidArgs(text.clone()),
            Ok(Err(ToolError::Cancelled)) => RecordedToolEnd::Cancelled,
            Ok(Err(ToolError::Timeout(limit))) => {
                RecordedToolEnd::TimedOut(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX))
            }
            Ok(Err(other)) => RecordedToolEnd::Failed(other.to_string()),
            Err(panic) => RecordedToolEnd::Panicked(panic_text(&**panic)),
        };
        self.shared.lock().end(call, |effect| {
            if let RecordedEffect::Tool { end, .. } = effect {
                *end = Some(ended);
            }
        });
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn effects(&self, arguments: &Value) -> Effects {
        let effects = self.inner.effects(arguments);
        if effects != Effects::default() {
            self.view(arguments, |view| view.effects = Some(effects));
        }
        effects
    }

    fn question(&self, arguments: &Value) -> Option<String> {
        let question = self.inner.question(arguments);
        if question.is_some() {
            self.view(arguments, |view| view.question.clone_from(&question));
        }
        question
    }

    fn working_directory(&self) -> Option<PathBuf> {
        self.inner.working_directory()
    }

    fn resolved_arguments(&self, arguments: &Value) -> Option<Value> {
        let resolved = self.inner.resolved_arguments(arguments);
        if resolved.is_some() {
            self.view(arguments, |view| view.resolved.clone_from(&resolved));
        }
        resolved
    }

    fn confinement(&self) -> Option<Confinement> {
        self.inner.confinement()
    }

    fn confined(&self, by: &[Confinement]) -> Option<Arc<dyn AgentTool>> {
        let inner = self.inner.confined(by)?;
        Some(Arc::new(Self { inner, shared: Arc::clone(&self.shared) }))
    }

    fn timeout(&self) -> Option<Duration> {
        self.inner.timeout()
    }

    fn concurrency(&self) -> ToolConcurrency {
        self.inner.concurrency()
    }

    fn loading(&self) -> ToolLoading {
        self.inner.loading()
    }

    fn callers(&self) -> ToolCallers {
        self.inner.callers()
    }

    fn prepare_arguments(&self, arguments: Value) -> Value {
        let prepared = self.inner.prepare_arguments(arguments.clone());
        if prepared != arguments {
            self.view(&arguments, |view| view.prepared = Some(prepared.clone()));
        }
        prepared
    }

    /// A cassette stores the result of a call and not the loop in it, so the tool executes the call itself.
    fn delegate(&self, _: &Value) -> Option<ChildRun> {
        None
    }
}
