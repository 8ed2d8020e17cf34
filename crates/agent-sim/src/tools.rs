//! Tools with simulated faults around them.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_core::tool::{
    ChildRun, Confinement, Effects, ToolCallers, ToolConcurrency, ToolContext, ToolError, ToolLoading,
    ToolResult, Tools,
};
use agent_core::{AgentTool, ArgumentValidator as _, SchemaValidator};
use async_trait::async_trait;
use serde_json::Value;

use crate::script::ToolFault;
use crate::world::{Executing, World};

/// How a tool is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Execute {
    /// By the tool itself.
    Real,
    /// By the simulation, which returns a text.
    Simulated,
}

/// A tool of the agent whose executions are logged and can fail.
#[derive(Clone)]
pub(crate) struct SimTool {
    pub(crate) inner: Arc<dyn AgentTool>,
    pub(crate) world: World,
    pub(crate) execute: Execute,
}

impl SimTool {
    fn wrapped(&self, inner: Arc<dyn AgentTool>) -> Arc<dyn AgentTool> {
        Arc::new(Self { inner, ..self.clone() })
    }
}

#[async_trait]
impl AgentTool for SimTool {
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
        let called = self.world.position();
        self.world.moment().await;
        let fault = self.world.fault(&ctx.tool_call_id);
        match fault {
            ToolFault::Fails => return Err(ToolError::Failed("a simulated failure".to_owned())),
            // Without the panic hook, which would print each of them.
            ToolFault::Panics => resume_unwind(Box::new("a simulated panic")),
            ToolFault::Hangs => {
                ctx.cancel.cancelled().await;
                return Err(ToolError::Cancelled);
            }
            ToolFault::Slow(ms) => {
                tokio::select! {
                    biased;
                    () = ctx.cancel.cancelled() => return Err(ToolError::Cancelled),
                    () = ctx.environment.sleep(Duration::from_millis(ms)) => {}
                }
            }
            ToolFault::None | ToolFault::FailsAfter => {}
        }
        let effects = self.inner.effects(&arguments);
        let asks = self.inner.question(&arguments).is_some();
        let fits = SchemaValidator.validate(&self.inner.parameters_schema(), arguments.clone()).is_ok();
        let index = self.world.executing(&Executing {
            ctx: &ctx,
            arguments: &arguments,
            effects,
            asks,
            fits,
            called,
        });
        let result = match self.execute {
            Execute::Real => self.inner.execute(arguments, ctx).await,
            Execute::Simulated => {
                Ok(ToolResult::text(format!("a simulated result of {}", self.inner.name())))
            }
        };
        self.world.executed(index);
        self.world.moment().await;
        match fault {
            ToolFault::FailsAfter => {
                Err(ToolError::Failed("a simulated failure after the effect".to_owned()))
            }
            _ => result,
        }
    }

    fn effects(&self, arguments: &Value) -> Effects {
        self.inner.effects(arguments)
    }

    fn question(&self, arguments: &Value) -> Option<String> {
        self.inner.question(arguments)
    }

    fn working_directory(&self) -> Option<PathBuf> {
        self.inner.working_directory()
    }

    fn resolved_arguments(&self, arguments: &Value) -> Option<Value> {
        self.inner.resolved_arguments(arguments)
    }

    fn confinement(&self) -> Option<Confinement> {
        self.inner.confinement()
    }

    fn confined(&self, by: &[Confinement]) -> Option<Arc<dyn AgentTool>> {
        self.inner.confined(by).map(|inner| self.wrapped(inner))
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
        self.inner.prepare_arguments(arguments)
    }

    /// The tools of the child are simulated like this one.
    fn delegate(&self, arguments: &Value) -> Option<ChildRun> {
        let child = self.inner.delegate(arguments)?;
        let tools: Vec<_> = child.tools.tools().iter().map(|tool| self.wrapped(Arc::clone(tool))).collect();
        Some(child.with_tools(Tools::from(tools)))
    }
}
