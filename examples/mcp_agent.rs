//! An agent with the tools of an MCP server, which is a child process of this program.
//!
//! `cargo run -p looptree-examples --example mcp_agent` answers from a script. `-- --model anthropic/claude-sonnet-5-5` asks a
//! model; `docs/examples.md` lists the names and keys of all providers.
#![expect(clippy::print_stdout, reason = "a program that talks to the user")]

use looptree::prelude::*;
use looptree::testing::{ScriptedProvider, ScriptedReply};
use looptree::tools::mcp::McpServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, InitializeResult,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool as McpTool,
};
use rmcp::service::{RequestContext, serve_server};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};

/// The server, with one tool. A published server is a program of its own.
struct Notes;

impl ServerHandler for Notes {
    fn get_info(&self) -> ServerConfig {
        InitializeResult::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema =
            json!({"type": "object", "properties": {"about": {"type": "string"}}, "required": ["about"]});
        let schema = schema.as_object().cloned().unwrap_or_default();
        let find = McpTool::new("find", "Finds a note by a word.", schema);
        Ok(ListToolsResult::with_all_items(vec![find]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let text = match arguments.get("about").and_then(Value::as_str) {
            Some("door") => "The code of the door is 4711.",
            _ => "There is no such note.",
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if looptree_examples::arguments().first().is_some_and(|argument| argument == "server") {
        serve_server(Notes, (tokio::io::stdin(), tokio::io::stdout())).await?.waiting().await?;
        return Ok(());
    }
    let script = ScriptedProvider::new([
        ScriptedReply::call("call_1", "notes__find", json!({"about": "door"})),
        ScriptedReply::text("The door opens with 4711."),
    ]);
    // The child has a small environment and ends with the agent; `with_sandbox` confines it.
    let server = McpServer::stdio("notes", std::env::current_exe()?).with_arg("server").with_prefix("notes");
    let agent = looptree_examples::agent(script)?.with_mcp_server(server).await?;
    let _subscription = agent.subscribe(|event| match event {
        AgentEvent::ToolExecutionStart { tool_name, args, .. } => println!("[{tool_name} {args}]"),
        AgentEvent::ToolExecutionEnd(end) => println!("[-> {}]", end.result.to_text()),
        _ => {}
    });
    println!("{}", agent.chat("How do I open the door? Look into the notes.").await?);
    Ok(())
}
