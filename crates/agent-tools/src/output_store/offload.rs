//! Truncates the text of any tool's result and stores it completely.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_core::tool::{ChildRun, Confinement};
use agent_core::{
    AgentTool, BoxFuture, Content, Effects, ToolCallers, ToolConcurrency, ToolContext, ToolError,
    ToolLoading, ToolResult,
};
use async_trait::async_trait;
use serde_json::Value;

use super::OutputStore;
use crate::text;

impl OutputStore {
    /// Truncates the texts of a result that are longer than `max_shown` bytes in total. Stores them, joined by line
    /// feeds, and adds a note that explains how to read on. Images and details do not change. If the output cannot be
    /// stored, the text is truncated with a note.
    pub async fn offload(&self, mut result: ToolResult, max_shown: usize) -> ToolResult {
        let texts: Vec<&str> = result.content.iter().filter_map(text_of).collect();
        let total: usize = texts.iter().map(|text| text.len()).sum::<usize>() + texts.len().saturating_sub(1);
        if total <= max_shown {
            return result;
        }
        let whole = texts.join("\n");
        let shown = text::head(&whole, max_shown).to_owned();
        let note = match self.keep(whole).await {
            Ok(stored) => stored.note(shown.len() as u64),
            Err(error) => format!("[the rest is lost: {error}]"),
        };
        let place = result.content.iter().position(|block| text_of(block).is_some()).unwrap_or_default();
        result.content.retain(|block| text_of(block).is_none());
        let place = place.min(result.content.len());
        result.content.insert(place, Content::text(format!("{shown}\n... (output truncated)\n{note}")));
        result
    }
}

fn text_of(block: &Content) -> Option<&str> {
    match block {
        Content::Text(text) => Some(&text.text),
        _ => None,
    }
}

/// Wraps a tool and stores its large results.
#[derive(Clone)]
pub struct OffloadingTool {
    tool: Arc<dyn AgentTool>,
    store: OutputStore,
    max_shown: usize,
}

impl OffloadingTool {
    /// Wraps `tool`. A result with more than `max_shown` bytes of text is truncated, and its whole text is stored.
    #[must_use]
    pub fn new(tool: Arc<dyn AgentTool>, store: OutputStore, max_shown: usize) -> Self {
        Self { tool, store, max_shown }
    }
}

impl fmt::Debug for OffloadingTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OffloadingTool")
            .field("tool", &self.tool.name())
            .field("store", &self.store)
            .field("max_shown", &self.max_shown)
            .finish()
    }
}

#[async_trait]
impl AgentTool for OffloadingTool {
    fn name(&self) -> &str {
        self.tool.name()
    }

    fn label(&self) -> &str {
        self.tool.label()
    }

    fn description(&self) -> &str {
        self.tool.description()
    }

    fn parameters_schema(&self) -> Value {
        self.tool.parameters_schema()
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let result = self.tool.execute(arguments, ctx).await?;
        Ok(self.store.offload(result, self.max_shown).await)
    }

    fn effects(&self, arguments: &Value) -> Effects {
        self.tool.effects(arguments)
    }

    fn question(&self, arguments: &Value) -> Option<String> {
        self.tool.question(arguments)
    }

    fn working_directory(&self) -> Option<PathBuf> {
        self.tool.working_directory()
    }

    fn resolved_arguments(&self, arguments: &Value) -> Option<Value> {
        self.tool.resolved_arguments(arguments)
    }

    fn confinement(&self) -> Option<Confinement> {
        self.tool.confinement()
    }

    fn confined(&self, by: &[Confinement]) -> Option<Arc<dyn AgentTool>> {
        let tool = self.tool.confined(by)?;
        Some(Arc::new(Self { tool, ..self.clone() }))
    }

    fn timeout(&self) -> Option<Duration> {
        self.tool.timeout()
    }

    fn concurrency(&self) -> ToolConcurrency {
        self.tool.concurrency()
    }

    fn loading(&self) -> ToolLoading {
        self.tool.loading()
    }

    fn callers(&self) -> ToolCallers {
        self.tool.callers()
    }

    fn prepare_arguments(&self, arguments: Value) -> Value {
        self.tool.prepare_arguments(arguments)
    }

    fn delegate(&self, arguments: &Value) -> Option<ChildRun> {
        let (store, max_shown) = (self.store.clone(), self.max_shown);
        let offload = move |result| -> BoxFuture<'static, ToolResult> {
            let store = store.clone();
            Box::pin(async move { store.offload(result, max_shown).await })
        };
        Some(self.tool.delegate(arguments)?.map_result(offload))
    }
}
