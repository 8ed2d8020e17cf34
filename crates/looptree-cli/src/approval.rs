//! Asking before something changes, and what was allowed for the rest of the chat.

mod commands;
mod repository;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use looptree::Question;
use looptree::hooks::ToolCallInfo;
use looptree::prelude::*;
use looptree::tools::program::SearchPath;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::args::Approve;
use crate::screen::Styled;

/// Tools that run programs.
const COMMANDS: [&str; 1] = ["bash"];

/// Tools that change files of the workspace and do nothing else. The name of a tool of an MCP server begins with that of the server.
const EDITS: [&str; 3] = ["write_file", "edit_file", "apply_patch"];

/// What is allowed without a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Grant {
    /// Every call of a tool.
    Tool(String),
    /// Commands of `bash` that run nothing but this program with this subcommand and [listed](commands) arguments, such as `cargo test`.
    Command(String),
    /// This call, word for word.
    Call { tool: String, arguments: Value },
}

/// Whether an approver can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Approver {
    /// The user at the terminal, or another process later.
    Present,
    /// No approver: calls that need an approval are denied.
    Absent,
}

/// The tools that are not the program's own: those of MCP servers. A call of one can do anything, as a command can, and no
/// sandbox of this program confines it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Outside {
    /// The calls that need an approval; with `commands` all of these do.
    pub(crate) approve: Approve,
    /// The names of the program's own tools.
    pub(crate) own: BTreeSet<String>,
}

#[derive(Debug)]
struct Rules {
    approve: Approve,
    /// `None` without MCP servers.
    outside: Option<Outside>,
    plan_only: bool,
    grants: Vec<Grant>,
    /// Where commands run.
    directory: Option<PathBuf>,
}

/// The policy of a run. A clone is the same policy.
#[derive(Debug, Clone)]
pub(crate) struct Approvals {
    rules: Arc<Mutex<Rules>>,
    approver: Approver,
}

impl Approvals {
    pub(crate) fn new(approve: Approve, plan_only: bool, approver: Approver) -> Self {
        let rules = Rules { approve, outside: None, plan_only, grants: Vec::new(), directory: None };
        Self { rules: Arc::new(Mutex::new(rules)), approver }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Rules) -> T) -> T {
        act(&mut self.rules.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Allows something for the rest of the process.
    pub(crate) fn grant(&self, grant: Grant) {
        self.with(|rules| {
            if !rules.grants.contains(&grant) {
                rules.grants.push(grant);
            }
        });
    }

    pub(crate) fn grants(&self) -> Vec<Grant> {
        self.with(|rules| rules.grants.clone())
    }

    /// Sets where commands run.
    pub(crate) fn set_directory(&self, directory: &Path) {
        self.with(|rules| rules.directory = Some(directory.to_owned()));
    }

    pub(crate) fn plan_only(&self) -> bool {
        self.with(|rules| rules.plan_only)
    }

    pub(crate) fn set_plan_only(&self, only: bool) {
        self.with(|rules| rules.plan_only = only);
    }

    /// Selects the calls that need an approval from now on.
    pub(crate) fn set_approve(&self, approve: Approve) {
        self.with(|rules| {
            rules.approve = approve;
            if let Some(outside) = &mut rules.outside {
                outside.approve = approve;
            }
        });
    }

    /// Sets which tools are not the program's own, and which of their calls need an approval.
    pub(crate) fn set_outside(&self, outside: Outside) {
        self.with(|rules| rules.outside = Some(outside));
    }

    pub(crate) fn outside(&self) -> Option<Outside> {
        self.with(|rules| rules.outside.clone())
    }

    pub(crate) fn approver(&self) -> Approver {
        self.approver
    }

    pub(crate) fn approve(&self) -> Approve {
        self.with(|rules| rules.approve)
    }

    /// The hooks that apply the policy. The run asks and waits as data.
    pub(crate) fn hooks(&self) -> Hooks {
        let this = self.clone();
        Hooks::new().before_tool(move |call| {
            let verdict = this.decide(&call);
            async move { verdict }
        })
    }

    fn decide(&self, call: &ToolCallInfo) -> Verdict {
        let tool = call.call.name.as_str();
        if call.effects == Effects::ReadOnly {
            return Verdict::Allow;
        }
        let is_command = COMMANDS.contains(&tool);
        let (ask, is_outside) = self.with(|rules| {
            let outside = rules.outside.as_ref().filter(|outside| !outside.own.contains(tool));
            let approve = outside.map_or(rules.approve, |outside| outside.approve);
            if rules.plan_only {
                let reason = if outside.is_some() {
                    "Only a plan is wanted: a tool of an MCP server may change something, so it was not run. Describe what you \
                     would do."
                } else {
                    "Only a plan is wanted: this tool changes something and was not run. Describe what you would do."
                };
                return (Err(reason), outside.is_some());
            }
            let directory = rules.directory.as_deref();
            let granted = rules.grants.iter().any(|grant| covers(grant, tool, &call.arguments, directory));
            let ask = match approve {
                Approve::Ask => true,
                Approve::Commands => is_command || outside.is_some(),
                Approve::None => false,
            };
            (Ok(ask && !granted), outside.is_some())
        });
        match (ask, self.approver) {
            (Err(reason), _) => Verdict::Deny(reason.to_owned()),
            (Ok(false), _) => Verdict::Allow,
            (Ok(true), Approver::Present) => {
                Verdict::Ask(if is_command { "Run this command?" } else { "Allow this call?" }.to_owned())
            }
            (Ok(true), Approver::Absent) => {
                // A sandbox does not confine the servers.
                let flags = if is_outside { "--yes" } else { "--yes or --sandbox" };
                Verdict::Deny(format!(
                    "No approver is available, so this call was not run. The user can allow such calls with {flags}."
                ))
            }
        }
    }
}

/// Returns whether a grant applies to a call.
fn covers(grant: &Grant, tool: &str, arguments: &Value, directory: Option<&Path>) -> bool {
    match grant {
        Grant::Tool(name) => name == tool,
        Grant::Command(prefix) => {
            COMMANDS.contains(&tool)
                && commands::covered(command(arguments)).as_ref() == Some(prefix)
                && runs_listed_programs(prefix, directory)
        }
        Grant::Call { tool: name, arguments: known } => name == tool && known == arguments,
    }
}

/// Returns whether a command that the list allows runs no other program in this directory. What git runs is in the settings of the
/// repository, too.
fn runs_listed_programs(prefix: &str, directory: Option<&Path>) -> bool {
    !prefix.starts_with("git ") || directory.is_some_and(repository::is_plain)
}

/// Returns the grant that "always" gives for a call: every call of a tool that edits files of the workspace; for a command of which it is
/// known with which arguments it runs no other program, its program and subcommand with these; and otherwise this call alone. The tool
/// of an MCP server, for example, can do whatever its arguments say.
pub(crate) fn always(tool: &str, arguments: &Value) -> Grant {
    if EDITS.contains(&tool) {
        return Grant::Tool(tool.to_owned());
    }
    let covered = if COMMANDS.contains(&tool) { commands::covered(command(arguments)) } else { None };
    match covered {
        Some(prefix) => Grant::Command(prefix),
        None => Grant::Call { tool: tool.to_owned(), arguments: arguments.clone() },
    }
}

fn command(arguments: &Value) -> &str {
    arguments.get("command").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the grant that "always" gives for the call of a question; `None` for a question about a budget, which is no approval.
pub(crate) fn always_of(question: &Question) -> Option<Grant> {
    let call = question.call.as_ref().filter(|_| question.budget.is_none())?;
    let view = question.approval();
    let directory = view.as_ref().and_then(|view| view.snapshot.as_ref()?.directory.clone());
    let arguments = view.map_or(Value::Null, |view| view.arguments);
    let grant = always(call.name.as_str(), &arguments);
    // A name says nothing where the model can put another program of this name.
    let is_closed = || directory.as_ref().is_some_and(|folder| SearchPath::outside([folder]).is_closed());
    let runs_listed = |prefix: &str| runs_listed_programs(prefix, directory.as_deref().map(Path::new));
    if matches!(&grant, Grant::Command(prefix) if !is_closed() || !runs_listed(prefix)) {
        return Some(Grant::Call { tool: call.name.to_string(), arguments });
    }
    Some(grant)
}

/// Returns what the model reads about a call that the user refused.
pub(crate) fn refused(reason: &str) -> String {
    if reason.trim().is_empty() {
        "The user did not allow this call.".to_owned()
    } else {
        format!("The user did not allow this call: {}", reason.trim())
    }
}

/// The longest command that a description of its grant repeats.
const MAX_DESCRIBED: usize = 80;

/// Describes a grant for the user.
pub(crate) fn described(grant: &Grant) -> Styled {
    let text = match grant {
        Grant::Tool(name) => format!("every call of {name}"),
        Grant::Command(prefix) if prefix.starts_with("git ") => {
            format!("commands that run only `{prefix} ...` with options that run no other program")
        }
        Grant::Command(prefix) => format!(
            "commands that run only `{prefix} ...` with options that run no other program but the project's own code"
        ),
        Grant::Call { tool, arguments } if COMMANDS.contains(&tool.as_str()) => match command(arguments) {
            // The question shows a longer one.
            line if line.contains('\n') || line.len() > MAX_DESCRIBED => "exactly this command".to_owned(),
            line => format!("exactly this command: {line}"),
        },
        Grant::Call { tool, .. } => format!("exactly this call of {tool}"),
    };
    Styled::from(text)
}

#[cfg(test)]
mod tests;
