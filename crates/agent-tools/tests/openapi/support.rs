//! An API on loopback, and calls of its tools.

use std::sync::Arc;

use agent_core::{AgentTool as _, SystemEnvironment, ToolContext, ToolError, ToolResult};
use agent_tools::openapi::{
    CookieParameters, OpenApiAdapter, OpenApiConfig, OpenApiToolAdapter, OperationFilter,
};
use serde_json::{Value, json};

pub use super::check::server::{Request, Server};

pub const CONSTRUCTS: &str = include_str!("specs/constructs.yaml");
pub const MODERN: &str = include_str!("specs/modern.json");

/// The tools of a description whose server is somewhere.
pub fn adapter(spec: &str) -> OpenApiAdapter {
    let config = OpenApiConfig::new().with_base_url("https://api.example.com/base");
    OpenApiAdapter::from_str(spec, config, OperationFilter::All).unwrap()
}

#[track_caller]
pub fn tool(adapter: &OpenApiAdapter, id: &str) -> OpenApiToolAdapter {
    adapter.tools().iter().find(|tool| tool.operation_id() == id).unwrap_or_else(|| panic!("no {id}")).clone()
}

pub async fn execute(tool: &OpenApiToolAdapter, arguments: Value) -> Result<ToolResult, ToolError> {
    tool.execute(arguments, ToolContext::detached(tool.name(), Arc::new(SystemEnvironment))).await
}

/// A server and the tools of a description for it.
pub struct Api {
    pub server: Server,
    pub adapter: OpenApiAdapter,
}

impl Api {
    pub async fn of(spec: &str) -> Self {
        Self::with(Server::start().await, spec, |config| config)
    }

    pub fn with(server: Server, spec: &str, change: impl FnOnce(OpenApiConfig) -> OpenApiConfig) -> Self {
        let config = OpenApiConfig::new()
            .with_base_url(format!("{}/base/", server.url()))
            .with_cookie_parameters(CookieParameters::Offered);
        let adapter = OpenApiAdapter::from_str(spec, change(config), OperationFilter::All).unwrap();
        Self { server, adapter }
    }

    /// Calls an operation that must answer.
    pub async fn call(&self, id: &str, arguments: Value) -> ToolResult {
        execute(&tool(&self.adapter, id), arguments).await.unwrap()
    }

    /// What a call puts on the wire.
    pub async fn request(&self, id: &str, arguments: Value) -> Request {
        self.call(id, arguments).await;
        self.server.take().unwrap()
    }

    /// Why a call is refused. Nothing may be sent.
    pub async fn refusal(&self, id: &str, arguments: Value) -> String {
        let shown = arguments.to_string();
        let error = match execute(&tool(&self.adapter, id), arguments).await {
            Ok(result) => panic!("{shown} was sent: {}", result.to_text()),
            Err(error) => error.to_string(),
        };
        assert!(self.server.take().is_none(), "{shown} was sent");
        error
    }
}

/// A description with one operation `call`: `GET /things` with these parameters, or with another path and method.
pub fn one(path: &str, method: &str, operation: Value) -> String {
    let mut operation = operation;
    operation["operationId"] = json!("call");
    json!({"openapi": "3.0.0", "paths": {path: {method: operation}}}).to_string()
}

pub fn one_parameter(parameter: Value) -> String {
    let path = if parameter["in"] == "path" { "/p/{v}/q" } else { "/things" };
    one(path, "get", json!({"parameters": [parameter]}))
}
