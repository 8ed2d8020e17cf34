//! Calls every operation of a description on a test server, with generated arguments, and reads the arguments back from
//! the requests.
//!
//! It parses descriptions and requests independently of the code that it checks, so an agreement means that two
//! implementations read the specification in the same way.
#![allow(unreachable_pub, dead_code, reason = "a program and a test use a part of it each")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a check is nobody's library"
)]

pub mod bodies;
pub mod plan;
pub mod read;
pub mod schemas;
pub mod server;
pub mod values;

use std::collections::BTreeSet;
use std::sync::Arc;

use agent_core::{AgentTool as _, ArgumentValidator as _, SchemaValidator, SystemEnvironment, ToolContext};
use agent_tools::openapi::{
    CookieParameters, MissingIds, OpenApiAdapter, OpenApiConfig, OpenApiCredential, OpenApiError,
    OperationFilter,
};
use serde_json::{Map, Value};

use plan::{Plan, Scheme};
use server::Server;

/// The result of checking a description.
pub struct Found {
    pub operations: usize,
    pub arguments: usize,
    /// The number of calls without generated arguments that conform to the schema, mostly because the schema
    /// contradicts itself.
    pub untried: usize,
    pub warnings: Vec<String>,
    pub differences: Vec<String>,
}

/// Checks a description.
///
/// # Errors
/// Returns an error if the description yields no tools.
pub async fn description(text: &str) -> Result<Found, OpenApiError> {
    let root: Value = if text.trim_start().starts_with(['{', '[']) {
        serde_json::from_str(text).unwrap_or(Value::Null)
    } else {
        yaml_serde::from_str(text).unwrap_or(Value::Null)
    };
    let server = Server::start().await;
    let mut config = OpenApiConfig::new()
        .with_base_url(format!("{}/base", server.url()))
        .with_cookie_parameters(CookieParameters::Offered)
        .with_missing_ids(MissingIds::FromPath);
    let schemes = plan::schemes(&root);
    for (name, scheme) in &schemes {
        config = match scheme {
            Scheme::Basic => config.with_credential(name, OpenApiCredential::basic("user", "pass-word-1")),
            Scheme::None => config,
            _ => config.with_credential(name, OpenApiCredential::token("token-of-caller")),
        };
    }
    let adapter = OpenApiAdapter::from_str(text, config, OperationFilter::All)?;
    let mut found = Found {
        operations: 0,
        arguments: 0,
        untried: 0,
        warnings: adapter.warnings().iter().map(ToString::to_string).collect(),
        differences: Vec::new(),
    };
    let mut expected = plan::operations(&root);
    let mut names = BTreeSet::new();
    for tool in adapter.tools() {
        let place = format!("{} {}", tool.method(), tool.path());
        let mut wrong = schemas::problems(&tool.parameters_schema());
        if !names.insert(tool.name().to_owned()) || !is_name(tool.name()) {
            wrong.push(format!("the name {}", tool.name()));
        }
        match expected.remove(&(tool.method().to_owned(), tool.path().to_owned())) {
            None => wrong.push("no such operation".to_owned()),
            Some(plan) if plan.is_undescribed => {}
            Some(plan) => {
                // Once with all arguments, and once with only the required ones.
                for measure in [values::Which::All, values::Which::Required] {
                    let arguments = plan.fitting(values::arguments(&tool.parameters_schema(), measure));
                    let schema = tool.parameters_schema();
                    // The loop's validation may change the arguments, for example from a value to a list of one.
                    let Ok(Value::Object(arguments)) =
                        SchemaValidator.validate(&schema, Value::Object(arguments))
                    else {
                        found.untried += 1;
                        continue;
                    };
                    found.arguments += arguments.len();
                    wrong.extend(call(tool, &plan, &root, &schemes, &arguments, &server).await);
                }
            }
        }
        found.operations += 1;
        found.differences.extend(wrong.into_iter().map(|what| format!("{place}: {what}")));
    }
    // An operation without a tool must have a warning.
    for (method, path) in expected.into_keys() {
        let place = format!("{method} {path}");
        if !found.warnings.iter().any(|warning| warning.starts_with(&place)) {
            found.differences.push(format!("{place}: there is neither a tool nor a warning"));
        }
    }
    Ok(found)
}

async fn call(
    tool: &agent_tools::openapi::OpenApiToolAdapter,
    plan: &Plan,
    root: &Value,
    schemes: &[(String, Scheme)],
    arguments: &Map<String, Value>,
    server: &Server,
) -> Vec<String> {
    let ctx = ToolContext::detached(tool.name(), Arc::new(SystemEnvironment));
    let result = match tool.execute(Value::Object(arguments.clone()), ctx).await {
        Ok(result) => result,
        Err(error) => return vec![format!("{error} with {}", Value::Object(arguments.clone()))],
    };
    let Some(request) = server.take() else { return vec!["nothing was sent".to_owned()] };
    let mut wrong = read::problems(plan, root, arguments, &request);
    wrong.extend(plan::credential_problems(plan, root, schemes, &request));
    if result.is_error || result.details["status"] != 200 {
        wrong.push(format!("the result is {}", result.to_text()));
    }
    let text = format!("{result:?}{tool:?}");
    if text.contains("token-of-caller") || text.contains("pass-word-1") {
        wrong.push("a credential is shown".to_owned());
    }
    wrong
}

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}
