//! A tool that repeats its recorded results.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::Shared;
use crate::cassette::form::{RecordedEffect, RecordedSignal, RecordedTool, RecordedToolEnd, RecordedView};
use agent_core::{
    AgentTool, Effects, ToolCallers, ToolConcurrency, ToolContext, ToolError, ToolLoading, ToolResult,
    ToolSignal,
};

/// Returns a tool with its recorded description.
pub(super) fn recorded(tool: RecordedTool, shared: &Arc<Shared>) -> Arc<dyn AgentTool> {
    Arc::new(Replayed { face: Arc::new(Recorded(tool)), shared: Arc::clone(shared) })
}

/// Returns a tool with the current description of `inner`.
pub(super) fn described(inner: Arc<dyn AgentTool>, shared: &Arc<Shared>) -> Arc<dyn AgentTool> {
    Arc::new(Replayed { face: inner, shared: Arc::clone(shared) })
}

/// The recorded description of a tool.
struct Recorded(RecordedTool);

impl Recorded {
    fn view(&self, arguments: &Value) -> Option<&RecordedView> {
        self.0.said.iter().find(|view| view.arguments == *arguments)
    }
}

#[async_trait]
impl AgentTool for Recorded {
    fn name(&self) -> &str {
        &self.0.definition.name
    }

    fn label(&self) -> &str {
        &self.0.label
    }

    fn description(&self) -> &str {
        &self.0.definition.description
    }

    fn parameters_schema(&self) -> Value {
        self.0.definition.parameters.clone()
    }

    /// Fails: a description is never executed, because [`Replayed`] answers the calls.
    async fn execute(&self, _arguments: Value, _ctx: ToolContext) -> Result<ToolResult, ToolError> {
        Err(ToolError::NotFound(self.0.definition.name.clone()))
    }

    fn effects(&self, arguments: &Value) -> Effects {
        self.view(arguments).and_then(|view| view.effects).unwrap_or_default()
    }

    fn question(&self, arguments: &Value) -> Option<String> {
        self.view(arguments).and_then(|view| view.question.clone())
    }

    fn working_directory(&self) -> Option<PathBuf> {
        self.0.working_directory.clone()
    }

    fn resolved_arguments(&self, arguments: &Value) -> Option<Value> {
        self.view(arguments).and_then(|view| view.resolved.clone())
    }

    fn timeout(&self) -> Option<Duration> {
        self.0.timeout_ms.map(Duration::from_millis)
    }

    fn concurrency(&self) -> ToolConcurrency {
        if self.0.sequential { ToolConcurrency::Sequential } else { ToolConcurrency::Parallel }
    }

    fn loading(&self) -> ToolLoading {
        self.0.definition.loading
    }

    fn callers(&self) -> ToolCallers {
        self.0.definition.callers
    }

    fn prepare_arguments(&self, arguments: Value) -> Value {
        self.view(&arguments).and_then(|view| view.prepared.clone()).unwrap_or(arguments)
    }
}

struct Replayed {
    face: Arc<dyn AgentTool>,
    shared: Arc<Shared>,
}

#[async_trait]
impl AgentTool for Replayed {
    fn name(&self) -> &str {
        self.face.name()
    }

    fn label(&self) -> &str {
        self.face.label()
    }

    fn description(&self) -> &str {
        self.face.description()
    }

    fn parameters_schema(&self) -> Value {
        self.face.parameters_schema()
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let name = ctx.tool_name.as_str();
        let place = self.shared.take_tool(name, ctx.tool_call_id.as_str(), &arguments);
        let place = place.map_err(ToolError::failed)?;
        let Some(call) = self.shared.cassette.calls.get(place) else { return Err(ToolError::Cancelled) };
        let RecordedEffect::Tool { said, end, .. } = &call.effect else { return Err(ToolError::Cancelled) };
        for signal in said {
            ctx.updates.send(match signal {
                RecordedSignal::Update(result) => ToolSignal::Update(result.clone()),
                RecordedSignal::Progress(text) => ToolSignal::Progress(text.clone()),
            });
        }
        if matches!(end, None | Some(RecordedToolEnd::Cancelled)) {
            self.shared.await_abort(place, &ctx.cancel).await.map_err(ToolError::failed)?;
        }
        self.shared.await_turn(call).await.map_err(ToolError::failed)?;
        self.shared.ended(call);
        match end.clone() {
            Some(RecordedToolEnd::Done(result)) => Ok(result),
            Some(RecordedToolEnd::Failed(text)) => Err(ToolError::Failed(text)),
            Some(RecordedToolEnd::NotFound(name)) => Err(ToolError::NotFound(name)),
            Some(RecordedToolEnd::InvalidArgs(text)) => Err(ToolError::InvalidArgs(text)),
            Some(RecordedToolEnd::TimedOut(ms)) => Err(ToolError::Timeout(Duration::from_millis(ms))),
            Some(RecordedToolEnd::Panicked(text)) => resume_unwind(Box::new(text)),
            None | Some(RecordedToolEnd::Cancelled) => Err(ToolError::Cancelled),
        }
    }

    fn effects(&self, arguments: &Value) -> Effects {
        self.face.effects(arguments)
    }

    fn question(&self, arguments: &Value) -> Option<String> {
        self.face.question(arguments)
    }

    fn working_directory(&self) -> Option<PathBuf> {
        self.face.working_directory()
    }

    fn resolved_arguments(&self, arguments: &Value) -> Option<Value> {
        self.face.resolved_arguments(arguments)
    }

    fn timeout(&self) -> Option<Duration> {
        self.face.timeout()
    }

    fn concurrency(&self) -> ToolConcurrency {
        self.face.concurrency()
    }

    fn loading(&self) -> ToolLoading {
        self.face.loading()
    }

    fn callers(&self) -> ToolCallers {
        self.face.callers()
    }

    fn prepare_arguments(&self, arguments: Value) -> Value {
        self.face.prepare_arguments(arguments)
    }
}
