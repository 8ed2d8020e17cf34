//! The vendors' own tools: the checks before a request, the secrets in it, and the calls in a reply.
//!
//! Each protocol writes the definitions itself. The calls and results are stored as opaque blocks; this module reads them
//! only to display and to count them.

mod calls;

#[cfg(test)]
mod tests;

use agent_core::model::{ServerTool, ServerToolError, ToolSearch};
use agent_core::{ApiProtocol, ModelRequest, ProviderError, Secret, ToolCallers};
use serde_json::{Map, Value};

use crate::request::refuse_setting;

pub(crate) use calls::ServerCalls;

/// Checks the vendor's features of a request: its tools, whether code can call the tools that only code may call, and what
/// happens with long conversations.
///
/// # Errors
/// Returns an error whose source is a [`ServerToolError`] or a
/// [`VendorContextError`](agent_core::model::VendorContextError).
pub(crate) fn check(request: &ModelRequest) -> Result<(), ProviderError> {
    crate::vendor_context::check(request)?;
    let tools = &request.options.server_tools;
    if tools.is_empty() && !request.tools.are_called_by_code() {
        return Ok(());
    }
    let definitions = request.tools.definitions();
    let has_local = |name: &str| definitions.iter().any(|definition| definition.name == name);
    ServerTool::check_all(tools, &request.model, has_local).map_err(|error| refused(request, error))?;
    if runs_code(request) {
        return Ok(());
    }
    match definitions.iter().find(|definition| definition.callers == ToolCallers::Code) {
        Some(definition) => {
            let (name, protocol) = (definition.name.clone(), request.model.api);
            Err(refused(request, ServerToolError::NoCode { name, protocol }))
        }
        None => Ok(()),
    }
}

/// Returns whether code of the vendor can call tools of the program in this request.
pub(crate) fn runs_code(request: &ModelRequest) -> bool {
    match request.model.api {
        ApiProtocol::AnthropicMessages => {
            request.options.server_tools.iter().any(|tool| matches!(tool, ServerTool::CodeExecution(_)))
        }
        ApiProtocol::OpenAiResponses => true,
        _ => false,
    }
}

fn refused(request: &ModelRequest, error: ServerToolError) -> ProviderError {
    let advice = error.advice();
    refuse_setting(&request.model, error, advice)
}

/// Returns the access tokens in the definitions of a request.
pub(crate) fn secrets(request: &ModelRequest) -> impl Iterator<Item = &Secret> {
    request.options.server_tools.iter().filter_map(|tool| match tool {
        ServerTool::Mcp(mcp) => mcp.authorization.as_ref(),
        _ => None,
    })
}

/// Returns whether the model may be required to call a tool: the request has tools of the program or of the vendor.
pub(crate) fn has_tools(request: &ModelRequest) -> bool {
    !request.tools.is_empty() || !request.options.server_tools.is_empty()
}

/// Returns the search of tools in a request, if it has one.
#[cfg_attr(not(feature = "anthropic"), allow(dead_code, reason = "only some protocols search tools"))]
pub(crate) fn tool_search(request: &ModelRequest) -> Option<&ToolSearch> {
    request.options.server_tools.iter().find_map(|tool| match tool {
        ServerTool::ToolSearch(search) => Some(search),
        _ => None,
    })
}

/// Builds a definition member by member. Members without a value are left out.
#[derive(Debug)]
pub(crate) struct Definition(Map<String, Value>);

impl Definition {
    /// Creates a definition with this type.
    pub(crate) fn of(kind: &str) -> Self {
        Self::default().with("type", Some(kind))
    }

    /// Adds a member if there is a value.
    pub(crate) fn with(mut self, name: &str, value: Option<impl Into<Value>>) -> Self {
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value.into());
        }
        self
    }

    /// Adds a list unless it is empty.
    pub(crate) fn with_list(self, name: &str, list: &[String]) -> Self {
        let list = (!list.is_empty()).then(|| list.to_vec());
        self.with(name, list)
    }

    /// Returns the definition as JSON.
    pub(crate) fn build(self) -> Value {
        Value::Object(self.0)
    }
}

impl Default for Definition {
    fn default() -> Self {
        Self(Map::new())
    }
}

/// Returns the members of a location, of which the vendors have the same.
pub(crate) fn location(location: &agent_core::model::UserLocation) -> Definition {
    Definition::default()
        .with("city", location.city.clone())
        .with("region", location.region.clone())
        .with("country", location.country.clone())
        .with("timezone", location.timezone.clone())
}
