//! The built-in tools of Looptree.
//!
//! Six tools for coding agents, all with limits on time and output: [`BashTool`], [`ReadFileTool`], [`WriteFileTool`],
//! [`EditFileTool`], [`ListFilesTool`] and [`SearchTool`]. [`default_tools`] returns all six. [`Workspace::open`] confines
//! the five file tools to one folder, in which commands start. [`CodingTools`] adds a [sandbox] for commands and an
//! [`OutputStore`] for large outputs, which [`ReadOutputTool`] reads in parts.
//!
//! ```
//! use agent_tools::default_tools;
//! let names: Vec<_> = default_tools().iter().map(|tool| tool.name().to_owned()).collect();
//! assert_eq!(names, ["bash", "read_file", "write_file", "edit_file", "list_files", "search"]);
//! ```
//!
//! [`SubAgentTool`] delegates a task to another agent. The feature `skills` adds skills (folders with a `SKILL.md`), the
//! feature `mcp` the tools of Model Context Protocol servers, and the feature `openapi` the operations of an OpenAPI
//! description.
//!
//! The file tools need no other program: listing and searching use the libraries of ripgrep. `bash` needs a `bash`.
//!
//! The built-in tools are typed [`Tool`](agent_core::Tool)s. The arguments and errors of a tool are in its module.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod apply_patch;
mod arguments;
pub mod ask_user;
pub mod background_work;
pub mod bash;
mod blocking;
pub mod bounded;
pub mod branch_workspace;
pub mod coding_tools;
mod dir;
pub mod edit_file;
mod environment;
pub mod file_change;
pub mod glob;
mod ignore_rules;
#[cfg(unix)]
mod lifeline;
pub mod list_files;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod memory;
#[cfg(any(feature = "mcp", feature = "openapi"))]
mod names;
#[cfg(feature = "openapi")]
pub mod openapi;
pub mod output_store;
#[cfg(any(feature = "mcp", feature = "openapi"))]
mod pictures;
pub mod plan;
pub mod planned_change;
pub mod program;
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
#[cfg(feature = "web")]
pub mod web_fetch;
pub mod workspace;
pub mod write_file;
#[cfg(any(feature = "skills", feature = "openapi"))]
mod yaml;

#[doc(inline)]
pub use apply_patch::ApplyPatchTool;
#[doc(inline)]
pub use ask_user::AskUserTool;
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
pub use file_change::FileChange;
#[doc(inline)]
pub use glob::PatternError;
#[doc(inline)]
pub use list_files::ListFilesTool;
#[doc(inline)]
pub use memory::MemoryTool;
#[doc(inline)]
pub use output_store::OutputStore;
#[doc(inline)]
pub use plan::PlanTool;
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
#[cfg(feature = "web")]
#[doc(inline)]
pub use web_fetch::WebFetchTool;
#[doc(inline)]
pub use workspace::{PathError, Workspace};
#[doc(inline)]
pub use write_file::WriteFileTool;

use std::sync::Arc;

use agent_core::AgentTool;

/// Returns the six built-in tools with their default limits. They start in the current folder and can access every file;
/// [`Workspace::open`] confines them.
#[must_use]
pub fn default_tools() -> Vec<Arc<dyn AgentTool>> {
    Workspace::unconfined().tools()
}
