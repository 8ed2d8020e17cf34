//! Writes the vendor's own tools.

use agent_core::model::{
    CodeExecution, ComputerUse, Mcp, ServerTool, ToolSearch, ToolSearchVariant, WebFetch, WebSearch,
};
use agent_core::{ApiProtocol, ModelRequest, Secret, ToolCallers, WireKey};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use crate::json::{self, Members};
use crate::server_tools::{Definition, location, runs_code, tool_search};

const BETA: HeaderName = HeaderName::from_static("anthropic-beta");
const MCP_BETA: &str = "mcp-client-2025-11-20";
const COMPUTER_BETA: &str = "computer-use-2025-11-24";
/// Only Vertex AI requires it.
const SEARCH_BETA: &str = "web-search-2025-03-05";

/// The versions of the tool for code without and with calls of tools.
const CODE: &str = "code_execution_20250825";
const CODE_WITH_CALLS: &str = "code_execution_20260120";

/// How the tools of a request are written.
#[derive(Debug)]
pub(super) struct Plan<'r> {
    tools: &'r [ServerTool],
    request: &'r ModelRequest,
    /// The version of the code that may call tools, if there is such code and such a tool.
    code: Option<&'r str>,
}

impl<'r> Plan<'r> {
    /// Returns the plan of a request.
    pub(super) fn of(request: &'r ModelRequest) -> Self {
        let calls = request.tools.are_called_by_code() && runs_code(request);
        let version = |tool: &'r ServerTool| match tool {
            ServerTool::CodeExecution(code) => Some(code.version.as_deref().unwrap_or(CODE_WITH_CALLS)),
            _ => None,
        };
        let tools = &*request.options.server_tools;
        Self { tools, request, code: tools.iter().find_map(version).filter(|_| calls) }
    }

    /// Extends the key of the encoded tools by everything that this plan changes in them.
    pub(super) fn key(&self, mut key: WireKey) -> WireKey {
        if let Some(version) = self.code {
            key = key.and(&["callers", version]);
        }
        if self.searches() {
            key = key.and(&["with its own search"]);
        }
        for name in self.tools.iter().filter_map(ServerTool::local_name) {
            key = key.and(&["without", name]);
        }
        key
    }

    /// Returns whether the vendor's search of tools is among these tools.
    pub(super) fn searches(&self) -> bool {
        self.tools.iter().any(|tool| matches!(tool, ServerTool::ToolSearch(_)))
    }

    /// Returns whether the vendor's definition replaces that of the local tool with this name.
    pub(super) fn replaces(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.local_name() == Some(name))
    }

    /// Writes who may call a tool, at the end of its definition.
    pub(super) fn write_callers(&self, out: &mut Vec<u8>, callers: ToolCallers) {
        let Some(callers) = self.callers(callers) else { return };
        if out.pop_if(|last| *last == b'}').is_some() {
            out.extend_from_slice(br#","allowed_callers":"#);
            json::write(out, &callers);
            out.push(b'}');
        }
    }

    fn callers(&self, callers: ToolCallers) -> Option<Vec<String>> {
        let code = self.code?.to_owned();
        match callers {
            ToolCallers::Code => Some(vec![code]),
            ToolCallers::ModelAndCode => Some(vec!["direct".to_owned(), code]),
            _ => None,
        }
    }

    /// Writes the definitions of the vendor's tools.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        for tool in self.tools {
            if out.len() > start {
                out.push(b',');
            }
            json::write(out, &self.definition(tool));
        }
    }

    fn definition(&self, tool: &ServerTool) -> Value {
        let built = match tool {
            ServerTool::WebSearch(search) => web_search(search),
            ServerTool::WebFetch(fetch) => web_fetch(fetch),
            ServerTool::CodeExecution(code) => self.code_execution(code),
            ServerTool::Mcp(mcp) => toolset(mcp),
            ServerTool::ComputerUse(computer) => computer_use(computer),
            ServerTool::Bash => Definition::of("bash_20250124"),
            ServerTool::TextEditor(editor) => {
                Definition::of("text_editor_20250728").with("max_characters", editor.max_characters)
            }
            ServerTool::Memory => Definition::of("memory_20250818"),
            ServerTool::ToolSearch(_) => {
                return tool_search(self.request).map(search_definition).unwrap_or_default();
            }
            ServerTool::Vendor(definition) => return definition.clone(),
            _ => Definition::default(),
        };
        let Some(name) = tool.local_name() else { return built.build() };
        let definitions = self.request.tools.definitions();
        let local = definitions.iter().find(|definition| definition.name == name);
        let callers = local.and_then(|definition| self.callers(definition.callers));
        built.with("name", Some(name)).with("allowed_callers", callers).build()
    }

    fn code_execution(&self, code: &CodeExecution) -> Definition {
        let version = code.version.as_deref().or(self.code).unwrap_or(CODE);
        Definition::of(version).with("name", Some("code_execution"))
    }
}

fn web_search(search: &WebSearch) -> Definition {
    let place = search.user_location.as_ref();
    let place = place.map(|place| location(place).with("type", Some("approximate")).build());
    Definition::of(search.version.as_deref().unwrap_or("web_search_20250305"))
        .with("name", Some("web_search"))
        .with("max_uses", search.max_uses)
        .with_list("allowed_domains", &search.allowed_domains)
        .with_list("blocked_domains", &search.blocked_domains)
        .with("user_location", place)
}

fn web_fetch(fetch: &WebFetch) -> Definition {
    Definition::of(fetch.version.as_deref().unwrap_or("web_fetch_20250910"))
        .with("name", Some("web_fetch"))
        .with("max_uses", fetch.max_uses)
        .with_list("allowed_domains", &fetch.allowed_domains)
        .with_list("blocked_domains", &fetch.blocked_domains)
        .with("citations", fetch.citations.then(|| json!({"enabled": true})))
        .with("max_content_tokens", fetch.max_content_tokens)
}

fn computer_use(computer: &ComputerUse) -> Definition {
    Definition::of("computer_20251124")
        .with("display_width_px", Some(computer.width))
        .with("display_height_px", Some(computer.height))
        .with("display_number", computer.display)
        .with("enable_zoom", computer.zoom.then_some(true))
}

/// Returns the definition of the search of tools.
pub(super) fn search_definition(search: &ToolSearch) -> Value {
    let (kind, name) = match search.variant {
        ToolSearchVariant::Regex => ("tool_search_tool_regex_20251119", "tool_search_tool_regex"),
        _ => ("tool_search_tool_bm25_20251119", "tool_search_tool_bm25"),
    };
    Definition::of(kind).with("name", Some(name)).build()
}

/// Returns the tools of an MCP server, whose address is a member of the request.
fn toolset(mcp: &Mcp) -> Definition {
    let is_limited = !mcp.allowed_tools.is_empty();
    let enabled = |name: &String| (name.clone(), json!({"enabled": true}));
    let configs: Map<String, Value> = mcp.allowed_tools.iter().map(enabled).collect();
    Definition::of("mcp_toolset")
        .with("mcp_server_name", Some(&*mcp.label))
        .with("default_config", is_limited.then(|| json!({"enabled": false})))
        .with("configs", is_limited.then_some(configs))
}

/// Writes the addresses of the MCP servers.
pub(super) fn write_servers(body: &mut Members<'_>, request: &ModelRequest) {
    let servers = request.options.server_tools.iter().filter_map(|tool| match tool {
        ServerTool::Mcp(mcp) => Some(
            Definition::of("url")
                .with("name", Some(&*mcp.label))
                .with("url", Some(&*mcp.url))
                .with("authorization_token", mcp.authorization.as_ref().map(Secret::expose))
                .build(),
        ),
        _ => None,
    });
    let servers: Vec<Value> = servers.collect();
    if !servers.is_empty() {
        body.field("mcp_servers", &servers);
    }
}

/// Returns the container that the caller named.
pub(super) fn container(request: &ModelRequest) -> Option<&str> {
    request.options.server_tools.iter().find_map(|tool| match tool {
        ServerTool::CodeExecution(code) => code.container.as_deref(),
        _ => None,
    })
}

/// Adds the betas that the tools of a request need. A header of the caller replaces them.
pub(crate) fn add_betas(headers: &mut HeaderMap, request: &ModelRequest) {
    let tools = &request.options.server_tools;
    if tools.is_empty() {
        return;
    }
    let on_vertex = request.model.api == ApiProtocol::AnthropicVertex;
    for (beta, needs) in [
        (SEARCH_BETA, on_vertex && tools.iter().any(|tool| matches!(tool, ServerTool::WebSearch(_)))),
        (MCP_BETA, tools.iter().any(|tool| matches!(tool, ServerTool::Mcp(_)))),
        (COMPUTER_BETA, tools.iter().any(|tool| matches!(tool, ServerTool::ComputerUse(_)))),
    ] {
        if needs {
            headers.append(BETA, HeaderValue::from_static(beta));
        }
    }
}
