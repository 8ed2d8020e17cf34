//! The tools of model vendors: which there are and their options.

mod check;
mod mcp;
mod options;
mod web;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use check::ServerToolError;
pub use mcp::{Mcp, McpApproval};
pub use options::{
    CodeExecution, ComputerEnvironment, ComputerUse, FileSearch, ImageGeneration, TextEditor, ToolSearch,
    ToolSearchVariant,
};
pub use web::{SearchContext, UserLocation, WebFetch, WebSearch};

/// A tool that a model's vendor defines.
///
/// The vendor executes most of these tools on its own servers during the reply: the calls and results are part of the
/// reply, and the program does nothing. The vendor only defines the form of [`ComputerUse`](Self::ComputerUse),
/// [`Bash`](Self::Bash), [`ApplyPatch`](Self::ApplyPatch), [`TextEditor`](Self::TextEditor) and [`Memory`](Self::Memory);
/// an [`AgentTool`](crate::AgentTool) of the agent executes them, and its name is [`local_name`](Self::local_name).
///
/// Add it to [`RequestOptions::server_tools`](crate::RequestOptions::server_tools). A tool or an option that the protocol
/// of the model does not have is an error before the request is sent; [`check`](Self::check) returns the same error.
///
/// ```
/// use agent_core::model::{ServerTool, WebSearch};
/// use agent_core::{BasicAgent, ModelConfig};
/// let search = WebSearch::new().with_max_uses(3).with_allowed_domains(["docs.rs"]);
/// let model = ModelConfig::anthropic("claude-sonnet-4-6", "Sonnet", "key");
/// assert!(ServerTool::from(search.clone()).check(&model).is_ok());
/// assert!(ServerTool::from(search.clone()).check(&ModelConfig::ollama("qwen3")).is_err());
/// let agent = BasicAgent::new(model).configure(|c| c.request.server_tools.push(search.into()));
/// assert_eq!(agent.config().request.server_tools.len(), 1);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "options", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ServerTool {
    /// Searches the web for pages.
    WebSearch(WebSearch),
    /// Reads pages and documents at addresses that are part of the conversation.
    WebFetch(WebFetch),
    /// Runs code in a container of the vendor.
    CodeExecution(CodeExecution),
    /// Searches files that were uploaded to the vendor.
    FileSearch(FileSearch),
    /// Generates images as a part of the reply.
    ImageGeneration(ImageGeneration),
    /// Controls a computer by its screen. A local tool executes it.
    ComputerUse(ComputerUse),
    /// Calls the tools of an MCP server, to which the vendor connects.
    Mcp(Mcp),
    /// Runs commands in a shell. A local tool executes it.
    Bash,
    /// Creates, changes and deletes files by patches. A local tool executes it.
    ApplyPatch,
    /// Views and edits text files. A local tool executes it.
    TextEditor(TextEditor),
    /// Stores notes in files that outlast the conversation. A local tool executes it.
    Memory,
    /// Searches the tools whose definitions the vendor loads only when they are found.
    ToolSearch(ToolSearch),
    /// A definition in the vendor's own form, which is added to the tools of the request unchanged. It must not contain a
    /// credential, because its `Debug` output shows it.
    Vendor(Value),
}

impl ServerTool {
    /// Returns the name of the tool in errors and in JSON, for example `web_search`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::WebSearch(_) => "web_search",
            Self::WebFetch(_) => "web_fetch",
            Self::CodeExecution(_) => "code_execution",
            Self::FileSearch(_) => "file_search",
            Self::ImageGeneration(_) => "image_generation",
            Self::ComputerUse(_) => "computer_use",
            Self::Mcp(_) => "mcp",
            Self::Bash => "bash",
            Self::ApplyPatch => "apply_patch",
            Self::TextEditor(_) => "text_editor",
            Self::Memory => "memory",
            Self::ToolSearch(_) => "tool_search",
            Self::Vendor(_) => "vendor",
        }
    }

    /// Returns the name of the local tool that executes the calls; `None` if the vendor executes them.
    #[must_use]
    pub fn local_name(&self) -> Option<&'static str> {
        match self {
            Self::ComputerUse(_) => Some("computer"),
            Self::Bash => Some("bash"),
            Self::ApplyPatch => Some("apply_patch"),
            Self::TextEditor(_) => Some("str_replace_based_edit_tool"),
            Self::Memory => Some("memory"),
            _ => None,
        }
    }
}

macro_rules! from {
    ($($kind:ident),*) => {
        $(impl From<$kind> for ServerTool {
            fn from(options: $kind) -> Self {
                Self::$kind(options)
            }
        })*
    };
}

from!(
    WebSearch,
    WebFetch,
    CodeExecution,
    FileSearch,
    ImageGeneration,
    ComputerUse,
    Mcp,
    TextEditor,
    ToolSearch
);

fn list<T: Into<String>>(items: impl IntoIterator<Item = T>) -> Vec<String> {
    items.into_iter().map(Into::into).collect()
}
