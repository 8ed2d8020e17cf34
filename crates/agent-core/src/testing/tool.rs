//! A scripted tool for tests.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::environment::BoxFuture;
use crate::tool::{AgentTool, Effects, ToolConcurrency, ToolContext, ToolError, ToolResult};

type Body = dyn Fn(Value, ToolContext) -> BoxFuture<'static, Result<ToolResult, ToolError>> + Send + Sync;

/// A tool with a closure as its body, which records its calls. A clone shares the records.
#[derive(Clone)]
pub struct ScriptedTool {
    name: String,
    schema: Value,
    effects: Effects,
    concurrency: ToolConcurrency,
    timeout: Option<Duration>,
    question: Option<String>,
    directory: Option<PathBuf>,
    body: Arc<Body>,
    calls: Arc<Mutex<Vec<Value>>>,
}

impl ScriptedTool {
    /// Creates a tool that runs `body`.
    #[must_use]
    pub fn new<F>(
        name: impl Into<String>,
        body: impl Fn(Value, ToolContext) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<ToolResult, ToolError>> + Send + 'static,
    {
        Self {
            name: name.into(),
            schema: json!({"type": "object"}),
            effects: Effects::ReadOnly,
            concurrency: ToolConcurrency::Parallel,
            timeout: None,
            question: None,
            directory: None,
            body: Arc::new(move |arguments, ctx| Box::pin(body(arguments, ctx))),
            calls: Arc::default(),
        }
    }

    /// Creates a tool that always returns `text`.
    #[must_use]
    pub fn saying(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::new(name, move |_, _| {
            let result = ToolResult::text(text.clone());
            async move { Ok(result) }
        })
    }

    /// Creates a tool that always fails with `text`.
    #[must_use]
    pub fn failing(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::new(name, move |_, _| {
            let error = ToolError::Failed(text.clone());
            async move { Err(error) }
        })
    }

    /// Sets the schema of the arguments.
    #[must_use]
    pub fn with_schema(mut self, schema: Value) -> Self {
        self.schema = schema;
        self
    }

    /// Sets the effects of the tool.
    #[must_use]
    pub fn with_effects(mut self, effects: Effects) -> Self {
        self.effects = effects;
        self
    }

    /// Prevents the tool from running concurrently with others.
    #[must_use]
    pub fn sequential(mut self) -> Self {
        self.concurrency = ToolConcurrency::Sequential;
        self
    }

    /// Sets the time limit of the tool.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Makes the tool ask the user before each call.
    #[must_use]
    pub fn asking(mut self, question: impl Into<String>) -> Self {
        self.question = Some(question.into());
        self
    }

    /// Sets the working directory that the tool reports to an approver.
    #[must_use]
    pub fn working_in(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Returns the arguments of the calls that ran, in the order of their starts.
    #[must_use]
    pub fn calls(&self) -> Vec<Value> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl AgentTool for ScriptedTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &'static str {
        "A tool for a test"
    }

    fn parameters_schema(&self) -> Value {
        self.schema.clone()
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(arguments.clone());
        (self.body)(arguments, ctx).await
    }

    fn effects(&self, _arguments: &Value) -> Effects {
        self.effects
    }

    fn question(&self, _arguments: &Value) -> Option<String> {
        self.question.clone()
    }

    fn working_directory(&self) -> Option<PathBuf> {
        self.directory.clone()
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    fn concurrency(&self) -> ToolConcurrency {
        self.concurrency
    }
}

impl std::fmt::Debug for ScriptedTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptedTool").field("name", &self.name).finish_non_exhaustive()
    }
}
