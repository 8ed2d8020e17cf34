//! Writes the vendor's own tools. Each is a tool of its own beside the one with the functions.

use agent_core::model::{FileSearch, Mcp, ServerTool, WebSearch};
use agent_core::{ApiProtocol, ModelRequest};
use serde_json::{Value, json};

use crate::google::computer;
use crate::json;
use crate::server_tools::Definition;

/// Writes the definitions, each after a comma if something precedes it.
pub(super) fn write(out: &mut Vec<u8>, request: &ModelRequest, follows: bool) {
    let mut follows = follows;
    for tool in &request.options.server_tools {
        if std::mem::replace(&mut follows, true) {
            out.push(b',');
        }
        json::write(out, &definition(tool));
    }
}

/// Returns whether the reply is to contain the calls of the vendor's tools as parts. The Gemini API requires it where the
/// tools that the vendor executes and functions are combined; Vertex AI does not have it.
pub(super) fn shows_calls(request: &ModelRequest) -> bool {
    let is_gemini = request.model.api == ApiProtocol::GoogleGenerativeAi;
    let is_executed = |tool: &ServerTool| tool.local_name().is_none();
    is_gemini
        && computer::declared(request).next().is_some()
        && request.options.server_tools.iter().any(is_executed)
}

fn definition(tool: &ServerTool) -> Value {
    match tool {
        ServerTool::WebSearch(search) => json!({"googleSearch": google_search(search)}),
        ServerTool::WebFetch(_) => json!({"urlContext": {}}),
        ServerTool::CodeExecution(_) => json!({"codeExecution": {}}),
        ServerTool::FileSearch(search) => json!({"fileSearch": file_search(search)}),
        ServerTool::Mcp(mcp) => json!({"mcpServers": [server(mcp)]}),
        ServerTool::ComputerUse(options) => computer::definition(options),
        ServerTool::Vendor(definition) => definition.clone(),
        _ => json!({}),
    }
}

fn google_search(search: &WebSearch) -> Value {
    Definition::default().with_list("excludeDomains", &search.blocked_domains).build()
}

fn file_search(search: &FileSearch) -> Value {
    Definition::default()
        .with_list("fileSearchStoreNames", &search.stores)
        .with("topK", search.max_results)
        .build()
}

fn server(mcp: &Mcp) -> Value {
    let token = mcp.authorization.as_ref();
    let headers = token.map(|token| json!({"Authorization": format!("Bearer {}", token.expose())}));
    let transport = Definition::default().with("url", Some(&*mcp.url)).with("headers", headers).build();
    Definition::default()
        .with("name", Some(&*mcp.label))
        .with("streamableHttpTransport", Some(transport))
        .build()
}
