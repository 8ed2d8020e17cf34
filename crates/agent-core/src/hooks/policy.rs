//! Policies for tool calls: rules, as data, that allow calls, deny them, or require an approval.
//!
//! If any denying rule matches a call, the call is denied. Otherwise the first matching rule decides, in the order in
//! which the rules were added. If no rule matches, the decision is that of [`ToolPolicy::new`]. A call that needs an
//! approval suspends the run, which can be stored and resumed days later.
//!
//! A pattern over the text of a shell command is not sufficient to decide which programs the command runs: `git *` also
//! matches `git status; rm -rf ~`. For `bash`, pass `agent_tools::bash::runs_only` to [`ToolRule::when`].
//!
//! ```
//! use agent_core::hooks::{Decision, Hooks, ToolPolicy, ToolRule};
//! use agent_core::Effects;
//! let policy = ToolPolicy::new(Decision::Ask)
//!     .deny(ToolRule::tool("write_file").argument("/path", "*.env"))
//!     .allow(ToolRule::any().effects(Effects::ReadOnly))
//!     .allow(ToolRule::tool("write_file").argument("/path", "docs/*"));
//! let hooks = Hooks::new().policy(policy);
//! assert_eq!(hooks.tool.before.len(), 1);
//! ```

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use super::{Hooks, ToolCallInfo, Verdict};
use crate::identity::ToolName;
use crate::tool::{Effects, FileAccess};

/// The tool whose rules also apply to files that another tool finds.
const READ_FILE: &str = "read_file";

/// The decision of a policy about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Decision {
    /// The call runs without an approval.
    Allow,
    /// The run is suspended until the call is approved or denied.
    Ask,
    /// The call does not run, and the model receives the reason as an error result.
    Deny,
}

/// A list of rules that decide about tool calls. The default policy asks about every call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolPolicy {
    /// The decision about a call that no rule matches.
    otherwise: Decision,
    #[serde(default)]
    rules: Vec<Ruling>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Ruling {
    decision: Decision,
    #[serde(flatten)]
    rule: ToolRule,
}

type Predicate = dyn Fn(&Value) -> bool + Send + Sync;

/// The conditions of a rule. The rule matches a call if all of its conditions are true.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolRule {
    /// A pattern for the tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effects: Option<Effects>,
    /// Patterns by JSON pointer into the arguments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    arguments: BTreeMap<String, String>,
    /// The question for the approver, or the reason of a denial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_deserializing, serialize_with = "refuse", skip_serializing_if = "Option::is_none")]
    when: Option<Arc<Predicate>>,
}

fn refuse<S: Serializer>(_: &Option<Arc<Predicate>>, _: S) -> Result<S::Ok, S::Error> {
    Err(serde::ser::Error::custom("a rule with a predicate cannot be serialized"))
}

impl ToolRule {
    /// Creates a rule that matches every call.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// Creates a rule for the tools whose names match `pattern`. In a pattern, `*` matches any number of characters and
    /// `?` matches one.
    #[must_use]
    pub fn tool(pattern: impl Into<String>) -> Self {
        Self { tool: Some(pattern.into()), ..Self::default() }
    }

    /// Restricts the rule to calls with these effects, which the tool declares for the arguments.
    #[must_use]
    pub fn effects(mut self, effects: Effects) -> Self {
        self.effects = Some(effects);
        self
    }

    /// Restricts the rule to calls with an argument at this JSON pointer, such as `/path`, that matches `pattern`. A
    /// value that is not a string is compared as JSON text.
    #[must_use]
    pub fn argument(mut self, pointer: impl Into<String>, pattern: impl Into<String>) -> Self {
        self.arguments.insert(pointer.into(), pattern.into());
        self
    }

    /// Restricts the rule to calls for whose arguments `predicate` returns true. A policy with a predicate cannot be
    /// serialized: without it, the deserialized rule would match more calls.
    #[must_use]
    pub fn when(mut self, predicate: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Arc::new(predicate));
        self
    }

    /// Sets the question for the approver, or the reason that the model receives for a denial.
    #[must_use]
    pub fn saying(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Returns whether the rule matches a call. An allowing rule must match the resolved arguments, for each of its files.
    /// Any other rule matches if it matches the arguments in either form, for one of its files.
    fn fits(&self, decision: Decision, call: &ToolCallInfo) -> bool {
        let matches = |arguments: &Value| self.matches(call.call.name.as_str(), call.effects, arguments);
        match (&call.resolved_arguments, decision) {
            (None, _) => matches(&call.arguments),
            (Some(resolved), Decision::Allow) => for_each_path(resolved).iter().all(matches),
            (Some(resolved), _) => for_each_path(resolved).iter().any(matches) || matches(&call.arguments),
        }
    }

    fn is_about_arguments(&self) -> bool {
        !self.arguments.is_empty() || self.when.is_some()
    }

    fn matches(&self, tool: &str, effects: Effects, arguments: &Value) -> bool {
        let argument = |(pointer, pattern): (&String, &String)| match arguments.pointer(pointer) {
            None => false,
            Some(Value::String(text)) => like(pattern, text),
            Some(other) => like(pattern, &other.to_string()),
        };
        self.tool.as_ref().is_none_or(|pattern| like(pattern, tool))
            && self.effects.is_none_or(|wanted| wanted == effects)
            && self.arguments.iter().all(argument)
            && self.when.as_ref().is_none_or(|predicate| predicate(arguments))
    }
}

/// Rules are equal if their conditions and texts are equal and neither has a predicate.
impl PartialEq for ToolRule {
    fn eq(&self, other: &Self) -> bool {
        (&self.tool, self.effects, &self.arguments, &self.text)
            == (&other.tool, other.effects, &other.arguments, &other.text)
            && self.when.is_none()
            && other.when.is_none()
    }
}

impl fmt::Debug for ToolRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolRule")
            .field("tool", &self.tool)
            .field("effects", &self.effects)
            .field("arguments", &self.arguments)
            .field("when", &self.when.is_some())
            .finish_non_exhaustive()
    }
}

impl ToolPolicy {
    /// Creates a policy without rules. `otherwise` is the decision about a call that no rule matches.
    #[must_use]
    pub fn new(otherwise: Decision) -> Self {
        Self { otherwise, rules: Vec::new() }
    }

    /// Adds a rule for calls that run without an approval.
    #[must_use]
    pub fn allow(self, rule: ToolRule) -> Self {
        self.with(Decision::Allow, rule)
    }

    /// Adds a rule for calls that need an approval.
    #[must_use]
    pub fn ask(self, rule: ToolRule) -> Self {
        self.with(Decision::Ask, rule)
    }

    /// Adds a rule for calls that never run. It takes precedence over all other rules.
    #[must_use]
    pub fn deny(self, rule: ToolRule) -> Self {
        self.with(Decision::Deny, rule)
    }

    fn with(mut self, decision: Decision, rule: ToolRule) -> Self {
        self.rules.push(Ruling { decision, rule });
        self
    }

    /// Returns the decision about this call, with the question or the reason.
    #[must_use]
    pub fn decide(&self, call: &ToolCallInfo) -> Verdict {
        let mut fitting = self.rules.iter().filter(|ruling| ruling.rule.fits(ruling.decision, call));
        let denied = fitting.clone().find(|ruling| ruling.decision == Decision::Deny);
        let ruling = denied.or_else(|| fitting.next());
        let text = ruling.and_then(|r| r.rule.text.clone());
        match ruling.map_or(self.otherwise, |r| r.decision) {
            Decision::Allow => Verdict::Allow,
            Decision::Ask => {
                Verdict::Ask(text.unwrap_or_else(|| format!("Run this call of {}?", call.call.name)))
            }
            Decision::Deny => Verdict::Deny(text.unwrap_or_else(|| {
                format!(
                    "This call of {} is not allowed here. Continue without it, or state that it is needed.",
                    call.call.name
                )
            })),
        }
    }

    /// Returns the reason for which the policy denies that `tool` accesses the file at `path`. A rule that does not look at
    /// the arguments says nothing about a file.
    pub(crate) fn denies_file(&self, tool: &ToolName, path: &str, access: FileAccess) -> Option<String> {
        let arguments = json!({ "path": path });
        let is_reading = access != FileAccess::Write;
        let tools = [tool.as_str(), READ_FILE].into_iter().take(if is_reading { 2 } else { 1 });
        let ruling = tools.into_iter().find_map(|name| {
            // A question about a named file came before the call.
            let is_decided = access != FileAccess::Find && name == tool.as_str();
            let fits = |r: &&Ruling| match access {
                FileAccess::Write => [Effects::Once, Effects::Idempotent]
                    .iter()
                    .any(|effects| r.rule.matches(name, *effects, &arguments)),
                FileAccess::Read | FileAccess::Find => r.rule.matches(name, Effects::ReadOnly, &arguments),
            };
            let mut fitting = self.rules.iter().filter(fits);
            let denied =
                fitting.clone().find(|r| r.decision == Decision::Deny && r.rule.is_about_arguments());
            let asks =
                |r: &&Ruling| !is_decided && r.decision == Decision::Ask && r.rule.is_about_arguments();
            denied.or_else(|| fitting.next().filter(asks))
        })?;
        let text = ruling.rule.text.clone().filter(|_| ruling.decision == Decision::Deny);
        Some(text.unwrap_or_else(|| "A policy does not allow it without approval.".to_owned()))
    }
}

impl Default for ToolPolicy {
    fn default() -> Self {
        Self::new(Decision::Ask)
    }
}

impl Hooks {
    /// Adds a `before_tool` hook that decides about each tool call by these rules. Hooks that are already there also
    /// run: see the [documentation of hooks](crate::hooks) for how several decisions combine.
    #[must_use]
    pub fn policy(mut self, policy: ToolPolicy) -> Self {
        let policy = Arc::new(policy);
        self.tool.policies.push(Arc::clone(&policy));
        self.before_tool(move |call| {
            let policy = Arc::clone(&policy);
            async move { policy.decide(&call) }
        })
    }
}

/// Returns the resolved arguments once for each path of a call that accesses several files (`/paths`), with this path as
/// `/path`, and as they are if they have a `/path` or no such list. A model can add a `path` or `paths` of its own, so that
/// neither may hide the other.
fn for_each_path(resolved: &Value) -> Vec<Value> {
    let paths = resolved.get("paths").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let with_path = |path: &Value| {
        let mut arguments = resolved.clone();
        if let Some(fields) = arguments.as_object_mut() {
            fields.insert("path".to_owned(), path.clone());
        }
        arguments
    };
    let mut all: Vec<Value> = paths.iter().map(with_path).collect();
    if all.is_empty() || resolved.get("path").is_some() {
        all.push(resolved.clone());
    }
    all
}

/// Returns whether `text` matches a pattern with `*` (any number of characters) and `?` (one character).
fn like(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // The position of the last star, and the end of the text that it has matched.
    let mut star: Option<(usize, usize)> = None;
    while let Some(c) = text.get(t) {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(want) if *want == '?' || want == c => {
                p += 1;
                t += 1;
            }
            _ => match &mut star {
                Some((at, taken)) => {
                    *taken += 1;
                    (p, t) = (*at + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|c| *c == '*'))
}
