//! The built-in tools of Looptree.
//!
//! Six tools that a coding agent needs, all with bounds: [`BashTool`], [`ReadFileTool`], [`WriteFileTool`],
//! [`EditFileTool`], [`ListFilesTool`], [`SearchTool`]. [`default_tools`] gives all six; [`Workspace::open`] keeps the
//! five file tools inside one folder and starts the shell there. A [`CodingTools`] adds a [sandbox] for commands and an
//! [`OutputStore`] that keeps big outputs whole, with [`ReadOutputTool`] to page through them.
//!
//! ```
//! use agent_tools::default_tools;
//! let names: Vec<_> = default_tools().iter().map(|tool| tool.name().to_owned()).collect();
//! assert_eq!(names, ["bash", "read_file", "write_file", "edit_file", "list_files", "search"]);
//! ```
//!
//! Every tool has a folder with the same file names: `args` (what the model sends, and the schema that it reads),
//! `error` (why a call gave nothing), `output` (what the model sees), `call` (the work).
//!
//! With the feature `mcp` the module `mcp` brings in the tools of servers that speak the Model Context Protocol; with the
//! feature `openapi` the module `openapi` makes tools of the operations of an OpenAPI description.
//!
//! No program needs to be installed for the file tools: listing and searching run in this process, on the libraries
//! of ripgrep. `bash` needs a `bash`.

mod arguments;
pub mod bash;
pub mod branch_workspace;
pub mod coding_tools;
pub mod edit_file;
mod glob;
pub mod list_files;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(any(feature = "mcp", feature = "openapi"))]
mod names;
mod offload;
#[cfg(feature = "openapi")]
pub mod openapi;
pub mod output_store;
pub mod read_file;
pub mod read_output;
pub mod sandbox;
pub mod search;
#[cfg(any(feature = "mcp", feature = "openapi"))]
mod secrets;
#[cfg(feature = "skills")]
pub mod skills;
pub mod sub_agent;
mod text;
mod walk;
pub mod workspace;
pub mod write_file;

#[doc(inline)]
pub use bash::{Background, BashTool, ConfirmFn, DenyPattern};
#[doc(inline)]
pub use branch_workspace::{
    BranchWorkspace, BranchWorkspaceError, BranchWorkspaces, Change, ChangeKind, Ignored, WorktreeStart,
};
#[doc(inline)]
pub use coding_tools::CodingTools;
#[doc(inline)]
pub use edit_file::EditFileTool;
#[doc(inline)]
pub use list_files::ListFilesTool;
#[doc(inline)]
pub use output_store::OutputStore;
#[doc(inline)]
pub use read_file::ReadFileTool;
#[doc(inline)]
pub use read_output::ReadOutputTool;
#[doc(inline)]
pub use sandbox::{Sandbox, SandboxError, SandboxRules};
#[doc(inline)]
pub use search::SearchTool;
#[cfg(feature = "skills")]
#[doc(inline)]
pub use skills::{SkillSet, WithSkills};
#[doc(inline)]
pub use sub_agent::SubAgentTool;
#[doc(inline)]
pub use workspace::{PathError, Workspace};
#[doc(inline)]
pub use write_file::WriteFileTool;

use std::sync::Arc;

use agent_core::AgentTool;

/// The six built-in tools with their usual bounds, in the folder that the process runs in and free to leave it
/// (REQ-053). [`Workspace::open`] confines them.
#[must_use]
pub fn default_tools() -> Vec<Arc<dyn AgentTool>> {
    Workspace::unconfined().tools()
}
