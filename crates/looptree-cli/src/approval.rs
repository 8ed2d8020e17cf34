//! Asking before something changes, and what was allowed for the rest of the chat.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use looptree::Question;
use looptree::hooks::ToolCallInfo;
use looptree::prelude::*;
use looptree::tools::bash;
use serde::{Deserialize, Serialize};

use crate::args::Approve;

/// Tools that run programs.
const COMMANDS: [&str; 1] = ["bash"];

/// What is allowed without a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Grant {
    /// Every call of a tool.
    Tool(String),
    /// Commands of `bash` that run nothing but this program with this first argument, such as `cargo test`.
    Command(String),
    /// This command of `bash`, letter by letter.
    Line(String),
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
}

/// The policy of a run. A clone is the same policy.
#[derive(Debug, Clone)]
pub(crate) struct Approvals {
    rules: Arc<Mutex<Rules>>,
    approver: Approver,
}

impl Approvals {
    pub(crate) fn new(approve: Approve, plan_only: bool, approver: Approver) -> Self {
        let rules = Rules { approve, outside: None, plan_only, grants: Vec::new() };
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
            let granted = rules.grants.iter().any(|grant| covers(grant, tool, &call.arguments));
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
fn covers(grant: &Grant, tool: &str, arguments: &serde_json::Value) -> bool {
    match grant {
        Grant::Tool(name) => name == tool,
        Grant::Command(prefix) => COMMANDS.contains(&tool) && bash::runs_only([prefix.as_str()])(arguments),
        Grant::Line(line) => COMMANDS.contains(&tool) && command(arguments) == line,
    }
}

/// Programs whose first word after the name is a subcommand. Of every other program, it can be a file, a host or a further program.
const HAVE_SUBCOMMANDS: [&str; 17] = [
    "bazel", "bun", "cargo", "deno", "dotnet", "gh", "git", "go", "gradle", "mvn", "npm", "pip", "pnpm",
    "poetry", "rustup", "uv", "yarn",
];

/// Returns the grant that "always" gives for a call: every call for a tool that is no command, and for a command the program with
/// its subcommand if it runs nothing else, such as `cargo test`. For a program that is not known to have subcommands it is this
/// command alone: a program such as `rm` or `python` does whatever its arguments say.
pub(crate) fn always(tool: &str, arguments: &serde_json::Value) -> Grant {
    if !COMMANDS.contains(&tool) {
        return Grant::Tool(tool.to_owned());
    }
    let line = command(arguments);
    let mut words = line.split_whitespace();
    let is_name = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let program = words.next().filter(|program| HAVE_SUBCOMMANDS.contains(program));
    let pair = program.zip(words.next().filter(is_name));
    let prefix = pair.map(|(program, second)| Grant::Command(format!("{program} {second}")));
    prefix.filter(|grant| covers(grant, tool, arguments)).unwrap_or_else(|| Grant::Line(line.to_owned()))
}

fn command(arguments: &serde_json::Value) -> &str {
    arguments.get("command").and_then(serde_json::Value::as_str).unwrap_or_default()
}

/// Returns the grant that "always" gives for the call of a question; `None` for a question about a budget, which is no approval.
pub(crate) fn always_of(question: &Question) -> Option<Grant> {
    let call = question.call.as_ref().filter(|_| question.budget.is_none())?;
    let arguments = question.approval().map_or(serde_json::Value::Null, |view| view.arguments);
    Some(always(call.name.as_str(), &arguments))
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
pub(crate) fn described(grant: &Grant) -> String {
    match grant {
        Grant::Tool(name) => format!("every call of {name}"),
        Grant::Command(prefix) => format!("commands that run only `{prefix} ...`"),
        // The question shows a longer one.
        Grant::Line(line) if line.contains('\n') || line.len() > MAX_DESCRIBED => {
            "exactly this command".to_owned()
        }
        Grant::Line(line) => format!("exactly this command: {}", looptree::event::printable(line)),
    }
}

#[cfg(test)]
mod tests;
