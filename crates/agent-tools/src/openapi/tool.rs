//! Wraps an operation of an API as a tool of an agent.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_core::{
    AgentTool, ArgumentValidator as _, Effects, SchemaValidator, ToolContext, ToolError, ToolResult,
};
use async_trait::async_trait;
use serde_json::Value;

use super::config::PathSlashes;
use super::operation::Operation;
use super::request::{self, Rules};
use super::reserved::Reserved;
use super::{response, send};
use crate::secrets::Secrets;

/// The settings that all operations of an API share.
pub(super) struct Api {
    pub(super) client: reqwest::Client,
    pub(super) reserved: Reserved,
    pub(super) secrets: Secrets,
    pub(super) slashes: PathSlashes,
    pub(super) timeout: Duration,
    pub(super) max_response_bytes: usize,
}

/// A tool that calls one operation of an API.
///
/// GET, HEAD and OPTIONS are `ReadOnly`, PUT and DELETE `Idempotent`, POST and PATCH `Once`.
#[derive(Clone)]
pub struct OpenApiToolAdapter {
    pub(super) api: Arc<Api>,
    pub(super) operation: Arc<Operation>,
    pub(super) name: Arc<str>,
}

impl OpenApiToolAdapter {
    /// Returns the `operationId` of the description.
    #[must_use]
    pub fn operation_id(&self) -> &str {
        &self.operation.id
    }

    /// Returns the HTTP method in capitals.
    #[must_use]
    pub fn method(&self) -> &str {
        self.operation.method.as_str()
    }

    /// Returns the path template of the description, for example `/pets/{petId}`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.operation.path
    }

    /// Returns the address to which the path is appended.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.operation.base.url().as_str().trim_end_matches('/')
    }

    async fn call(&self, arguments: Value) -> Result<ToolResult, ToolError> {
        let arguments = if arguments.is_null() { Value::Object(serde_json::Map::new()) } else { arguments };
        // A direct call without an agent gets the same checks.
        let arguments = SchemaValidator
            .validate(&self.operation.schema, arguments)
            .map_err(|errors| ToolError::InvalidArgs(errors.to_string()))?;
        let Value::Object(arguments) = arguments else {
            return Err(ToolError::InvalidArgs("the arguments must be an object".to_owned()));
        };
        let rules = Rules { reserved: &self.api.reserved, slashes: self.api.slashes };
        let wire = request::wire(&self.operation, &arguments, &rules)?;
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(ToolError::failed(
                "no tokio runtime is running here; call this tool from inside one",
            ));
        }
        let answer = send::send(&self.api.client, wire, &self.api.secrets).await?;
        Ok(response::tool_result(&answer, self.api.max_response_bytes, &self.api.secrets))
    }
}

#[async_trait]
impl AgentTool for OpenApiToolAdapter {
    fn name(&self) -> &str {
        &self.name
    }

    fn label(&self) -> &str {
        &self.operation.label
    }

    fn description(&self) -> &str {
        &self.operation.description
    }

    fn parameters_schema(&self) -> Value {
        self.operation.schema.clone()
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let limit = self.api.timeout;
        tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => Err(ToolError::Cancelled),
            done = self.call(arguments) => done,
            () = ctx.environment.sleep(limit) => Err(ToolError::Failed(format!(
                "{} {} was not answered within {limit:?}; whether it took effect is not known",
                self.operation.method, self.operation.path
            ))),
        }
    }

    fn effects(&self, _: &Value) -> Effects {
        self.operation.effects()
    }
}

impl fmt::Debug for OpenApiToolAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenApiToolAdapter")
            .field("name", &self.name)
            .field("operation_id", &self.operation.id)
            .field("method", &self.operation.method.as_str())
            .field("path", &self.operation.path)
            .field("base_url", &self.base_url())
            .finish_non_exhaustive()
    }
}
