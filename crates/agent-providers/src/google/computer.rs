//! Converts the vendor's actions on a computer to calls of the local tool `computer`, and back.
//!
//! Each action is a function that the vendor defines, and not the request. Its name becomes the argument `action`. With the
//! tool in a request, every call of a function that the request does not have is such an action: the vendor has other
//! actions for each environment and generation of models.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use agent_core::model::{ComputerEnvironment, ComputerUse, ServerTool};
use agent_core::{ApiProtocol, AssistantMessage, ModelRequest, ToolCall, ToolDefinition, ToolResultMessage};
use serde_json::{Map, Value, json};

use crate::json::Members;
use crate::server_tools::Definition;

/// The name of the tool that executes the actions.
pub(super) const TOOL: &str = "computer";

/// The argument with the name of the action.
const ACTION: &str = "action";

/// The argument in which the vendor demands that the user confirms the action.
const SAFETY: &str = "safety_decision";

/// The member of the details of a result with the address of the page.
const URL: &str = "url";

/// The functions of a request that has the tool.
#[derive(Debug)]
pub(super) struct Functions(BTreeSet<String>);

/// An action in the vendor's form.
#[derive(Debug, PartialEq)]
pub(super) struct Action<'c> {
    pub(super) name: &'c str,
    pub(super) arguments: Map<String, Value>,
}

/// Returns the tool of a request.
fn tool(request: &ModelRequest) -> Option<&ComputerUse> {
    request.options.server_tools.iter().find_map(|tool| match tool {
        ServerTool::ComputerUse(computer) => Some(computer),
        _ => None,
    })
}

/// Returns whether a request has the tool. The vendor's definition then replaces that of the local tool.
pub(super) fn is_in(request: &ModelRequest) -> bool {
    tool(request).is_some()
}

/// Returns the functions that a request declares.
pub(super) fn declared(request: &ModelRequest) -> impl Iterator<Item = &ToolDefinition> {
    let is_replaced = is_in(request);
    request.tools.definitions().iter().filter(move |definition| !(is_replaced && definition.name == TOOL))
}

/// Returns the definition of the tool.
pub(super) fn definition(computer: &ComputerUse) -> Value {
    let environment = match computer.environment {
        None | Some(ComputerEnvironment::Browser) => "ENVIRONMENT_BROWSER",
        Some(ComputerEnvironment::Mobile) => "ENVIRONMENT_MOBILE",
        Some(_) => "ENVIRONMENT_DESKTOP",
    };
    let definition = Definition::default()
        .with("environment", Some(environment))
        .with_list("excludedPredefinedFunctions", &computer.excluded_actions);
    json!({"computerUse": definition.build()})
}

impl Functions {
    /// Returns the functions of a request; `None` if it does not have the tool.
    pub(super) fn of(request: &ModelRequest) -> Option<Self> {
        is_in(request).then(|| {
            let names = request.tools.definitions().iter().map(|definition| definition.name.clone());
            Self(names.collect())
        })
    }

    /// Returns whether a call with this name and these arguments is an action.
    pub(super) fn is_action(&self, name: &str, arguments: Option<&str>) -> bool {
        // Such arguments would hide the name.
        let named = || {
            let arguments: Option<Map<String, Value>> = serde_json::from_str(arguments?).ok();
            Some(arguments?.contains_key(ACTION))
        };
        !self.0.contains(name) && !named().unwrap_or_default()
    }
}

/// Returns the arguments of the local tool as JSON: the name of the action, and the action's own arguments.
pub(super) fn arguments(name: &str, own: Option<&str>) -> String {
    let mut arguments = Map::new();
    arguments.insert(ACTION.to_owned(), name.into());
    arguments.extend(own.and_then(|own| serde_json::from_str::<Map<_, _>>(own).ok()).unwrap_or_default());
    Value::Object(arguments).to_string()
}

/// Returns the action of a call that a model of this vendor made.
pub(super) fn of_call<'c>(reply: &AssistantMessage, call: &'c ToolCall) -> Option<Action<'c>> {
    let by_gemini = matches!(reply.api, Some(ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex));
    if !by_gemini || call.name.as_str() != TOOL {
        return None;
    }
    let given = call.arguments.value().ok()?.as_object()?;
    let name = given.get(ACTION)?.as_str().filter(|name| !name.is_empty())?;
    let own = given.iter().filter(|(member, _)| *member != ACTION);
    let arguments = own.map(|(member, value)| (member.clone(), value.clone())).collect();
    Some(Action { name, arguments })
}

impl Action<'_> {
    /// Writes the response to the action. Only an action that was executed confirms the vendor's demand.
    pub(super) fn write_response(&self, response: &mut Members<'_>, result: &ToolResultMessage, text: &str) {
        if let Some(url) = result.details.get(URL).and_then(Value::as_str) {
            response.field("url", url);
        }
        if result.is_error {
            response.field("error", text);
            return;
        }
        // The vendor reads nothing but `output` if there is one.
        if !text.is_empty() {
            response.field("result", text);
        }
        if self.needs_confirmation() {
            response.field("safety_acknowledgement", "true");
        }
    }

    fn needs_confirmation(&self) -> bool {
        let decision = self.arguments.get(SAFETY).and_then(|safety| safety.get("decision"));
        decision.is_some_and(|decision| decision == "require_confirmation")
    }
}
