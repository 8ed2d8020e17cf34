//! Which calls may run, which are asked about, and which never run: rules as data, and one hook made of them (X5, X6).
//!
//! A call that any denial fits is denied. Else the first other rule that fits decides, in the order in which they were given, and
//! where none fits, [`ToolPolicy::new`] said what then. A call that is asked about stops the run as data: it may wait for days.
//!
//! A pattern over the text of a shell command does not say what the command runs: `git *` fits `git status; rm -rf ~`, too. For
//! `bash` there is `agent_tools::bash::runs_only`, to be used with [`ToolRule::when`].
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
use serde_json::Value;

use super::{Hooks, ToolCallInfo, Verdict};
use crate::tool::Effects;

/// What is done about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Decision {
    /// It runs.
    Allow,
    /// Somebody is asked.
    Ask,
    /// It does not run, and the model is told.
    Deny,
}

/// Rules for calls. The default asks about every call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolPolicy {
    /// What is done about a call that no rule fits.
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

/// Which calls a rule fits: those for which everything that it says is true.
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
    /// What the person is asked or the model is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_deserializing, serialize_with = "no_data", skip_serializing_if = "Option::is_none")]
    when: Option<Arc<Predicate>>,
}

fn no_data<S: Serializer>(_: &Option<Arc<Predicate>>, _: S) -> Result<S::Ok, S::Error> {
    Err(serde::ser::Error::custom("a rule with a predicate is no data and cannot be written down"))
}

impl ToolRule {
    /// A rule that fits every call.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// A rule for the tools whose names fit this pattern, in which `*` stands for any characters and `?` for one.
    #[must_use]
    pub fn tool(pattern: impl Into<String>) -> Self {
        Self { tool: Some(pattern.into()), ..Self::default() }
    }

    /// Only for calls that do this to the world, as the tool says of their arguments.
    #[must_use]
    pub fn effects(mut self, effects: Effects) -> Self {
        self.effects = Some(effects);
        self
    }

    /// Only where the argument at this JSON pointer, such as `/path`, is there and fits the pattern. A value that is no text is
    /// compared as JSON.
    #[must_use]
    pub fn argument(mut self, pointer: impl Into<String>, pattern: impl Into<String>) -> Self {
        self.arguments.insert(pointer.into(), pattern.into());
        self
    }

    /// Only where this is true of the arguments. It is no data: a policy with it cannot be written down, since what is read
    /// again would fit more calls.
    #[must_use]
    pub fn when(mut self, predicate: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Arc::new(predicate));
        self
    }

    /// What the person is asked, or why the model is refused.
    #[must_use]
    pub fn saying(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    fn fits(&self, call: &ToolCallInfo) -> bool {
        let argument = |(pointer, pattern): (&String, &String)| match call.arguments.pointer(pointer) {
            None => false,
            Some(Value::String(text)) => like(pattern, text),
            Some(other) => like(pattern, &other.to_string()),
        };
        self.tool.as_ref().is_none_or(|pattern| like(pattern, call.call.name.as_str()))
            && self.effects.is_none_or(|effects| effects == call.effects)
            && self.arguments.iter().all(argument)
            && self.when.as_ref().is_none_or(|predicate| predicate(&call.arguments))
    }
}

/// Two rules with the same data, of which neither has a predicate.
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
    /// A policy without rules yet, and what is done about a call that none fits.
    #[must_use]
    pub fn new(otherwise: Decision) -> Self {
        Self { otherwise, rules: Vec::new() }
    }

    /// Calls that run.
    #[must_use]
    pub fn allow(self, rule: ToolRule) -> Self {
        self.with(Decision::Allow, rule)
    }

    /// Calls that somebody is asked about.
    #[must_use]
    pub fn ask(self, rule: ToolRule) -> Self {
        self.with(Decision::Ask, rule)
    }

    /// Calls that never run, whatever else fits them.
    #[must_use]
    pub fn deny(self, rule: ToolRule) -> Self {
        self.with(Decision::Deny, rule)
    }

    fn with(mut self, decision: Decision, rule: ToolRule) -> Self {
        self.rules.push(Ruling { decision, rule });
        self
    }

    /// What is done about this call.
    #[must_use]
    pub fn decide(&self, call: &ToolCallInfo) -> Verdict {
        let mut fitting = self.rules.iter().filter(|ruling| ruling.rule.fits(call));
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
                    "This call of {} is not allowed here. Do without it, or say that it is needed.",
                    call.call.name
                )
            })),
        }
    }
}

impl Default for ToolPolicy {
    fn default() -> Self {
        Self::new(Decision::Ask)
    }
}

impl Hooks {
    /// Decides about each tool call by these rules. It takes the place of [`before_tool`](Self::before_tool).
    #[must_use]
    pub fn policy(self, policy: ToolPolicy) -> Self {
        let policy = Arc::new(policy);
        self.before_tool(move |call| {
            let policy = Arc::clone(&policy);
            async move { policy.decide(&call) }
        })
    }
}

/// Whether a text fits a pattern of `*` (any characters) and `?` (one).
fn like(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where the last star stood, and how much of the text it has taken.
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
