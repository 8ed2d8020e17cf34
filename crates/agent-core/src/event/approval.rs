//! What an approver decides about: the whole call, in a form that can be shown, and a hash that identifies it.

mod layout;
mod printable;

#[cfg(test)]
mod tests;

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub use printable::Printable;

use super::Question;
use crate::identity::{QuestionId, ToolName};
use crate::tool::AgentTool;

/// The tool of a call at the moment of the question: the definition that the model received, and the place where it works.
///
/// An approval applies to the tool as it was then. If its description, its schema, its working directory or the files to
/// which paths lead differ when the call is about to run, for example after a resume in another folder, the run asks again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolSnapshot {
    /// The SHA-256 hash of the tool's name, description and schema, as 64 hexadecimal digits.
    pub definition: String,
    /// The folder in which the call runs, as the [tool reports it](AgentTool::working_directory).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// The arguments with resolved paths, as the [tool reports them](AgentTool::resolved_arguments), where they differ from
    /// the arguments of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<Value>,
}

impl ToolSnapshot {
    /// Returns the snapshot of a tool for a call with these arguments.
    #[must_use]
    pub fn of(tool: &dyn AgentTool, arguments: &Value) -> Self {
        let mut hash = Fields::new("looptree tool 1");
        hash.add(tool.name()).add(tool.description()).add(&tool.parameters_schema().to_string());
        let directory = tool.working_directory().map(|folder| match folder.to_str() {
            Some(text) => text.to_owned(),
            // Two folders whose names are not UTF-8 have different escapes.
            None => format!("{folder:?}"),
        });
        let resolved = tool.resolved_arguments(arguments).filter(|resolved| resolved != arguments);
        Self { definition: hash.finish(), directory, resolved }
    }
}

/// The SHA-256 hash over a tool, the final arguments of a call and its working directory.
///
/// `Display` writes 64 hexadecimal digits. [`matches`](Self::matches) also accepts a prefix, for people who type it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApprovalHash(String);

impl ApprovalHash {
    /// The minimum length of a prefix that identifies a hash, in hexadecimal digits.
    pub const MIN_PREFIX: usize = 12;

    /// Returns whether `text` is this hash or a prefix of it with at least [`MIN_PREFIX`](Self::MIN_PREFIX) digits.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        text.len() >= Self::MIN_PREFIX && self.0.starts_with(text)
    }

    /// Returns the first [`MIN_PREFIX`](Self::MIN_PREFIX) digits.
    #[must_use]
    pub fn prefix(&self) -> &str {
        self.0.get(..Self::MIN_PREFIX).unwrap_or(&self.0)
    }
}

impl fmt::Display for ApprovalHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is not an [`ApprovalHash`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an approval hash is 64 hexadecimal digits in lower case; copy it from the question")]
#[non_exhaustive]
pub struct ApprovalHashError;

impl FromStr for ApprovalHash {
    type Err = ApprovalHashError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        if text.len() == 64 && text.bytes().all(is_digit) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ApprovalHashError)
        }
    }
}

/// A call that waits for an approval, as the approver sees it: whole, with every invisible character escaped.
///
/// `Display` writes the question, the tool, the working directory, every argument and the hash. Texts are written line by
/// line behind a `|`, and other values as JSON behind a `=`. Lines are broken after 64 columns and continue behind a `+`, so
/// that no part of a value can look like a line of the view. Where characters are escaped, the name is followed by
/// `(escaped)`, and backslashes are doubled.
///
/// ```
/// use agent_core::Question;
/// # let json = serde_json::json!({"id": "q", "text": "Run this command?", "call": {
/// #     "id": "c1", "name": "bash", "arguments": {"command": "ls\ntouch x\u{202e}"}}});
/// # let question: Question = serde_json::from_value(json)?;
/// let view = question.approval().ok_or("the question is not about a call")?;
/// assert_eq!(
///     view.to_string(),
///     format!(
///         "Run this command?\n  tool: bash\n  arguments:\n    command (escaped):\n      | ls\n      | touch x\\u{{202e}}\n  hash: {}",
///         view.hash(),
///     )
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ApprovalView {
    /// The id of the question.
    pub question_id: QuestionId,
    /// The question of the hook, the policy or the tool.
    pub text: String,
    /// The name of the tool.
    pub tool: ToolName,
    /// The arguments with which the call runs if it is allowed.
    pub arguments: Value,
    /// The tool at the moment of the question; `None` for a question of an older session.
    pub snapshot: Option<ToolSnapshot>,
}

impl ApprovalView {
    /// Returns the hash over the tool, the final arguments and the working directory. The text of the question is not
    /// included.
    #[must_use]
    pub fn hash(&self) -> ApprovalHash {
        let mut hash = Fields::new("looptree approval 1");
        hash.add(self.tool.as_str()).add(&canonical(&self.arguments));
        match &self.snapshot {
            None => hash.add("no snapshot"),
            Some(snapshot) => hash
                .add(&snapshot.definition)
                .add(if snapshot.directory.is_some() { "folder" } else { "no folder" })
                .add(snapshot.directory.as_deref().unwrap_or_default())
                .add(&snapshot.resolved.as_ref().map(canonical).unwrap_or_default()),
        };
        ApprovalHash(hash.finish())
    }
}

impl fmt::Display for ApprovalView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        layout::question(f, &self.text)?;
        layout::fact(f, "tool", self.tool.as_str())?;
        let snapshot = self.snapshot.as_ref();
        if let Some(folder) = snapshot.and_then(|snapshot| snapshot.directory.as_deref()) {
            layout::fact(f, "directory", folder)?;
        }
        f.write_str("\n  arguments:")?;
        match &self.arguments {
            Value::Object(fields) => {
                for (name, value) in fields {
                    layout::argument(f, name, value)?;
                }
            }
            other => layout::value(f, other)?,
        }
        if let Some(Value::Object(resolved)) = snapshot.and_then(|snapshot| snapshot.resolved.as_ref()) {
            f.write_str("\n  resolved:")?;
            for (name, value) in resolved {
                if self.arguments.get(name) != Some(value) {
                    layout::argument(f, name, value)?;
                }
            }
        }
        write!(f, "\n  hash: {}", self.hash())
    }
}

impl Question {
    /// Returns the call that waits, as an approver must see it; `None` for a question that is not about a call.
    #[must_use]
    pub fn approval(&self) -> Option<ApprovalView> {
        let call = self.call.as_ref()?;
        let text_of = |text: &str| Value::String(text.to_owned());
        let arguments = call.arguments.value().cloned().unwrap_or_else(|_| text_of(call.arguments.text()));
        Some(ApprovalView {
            question_id: self.id.clone(),
            text: self.text.clone(),
            tool: call.name.clone(),
            arguments,
            snapshot: self.tool.as_deref().cloned(),
        })
    }
}

/// A hash over texts, each preceded by its length, so that no two lists of texts have the same input.
struct Fields(Sha256);

impl Fields {
    fn new(purpose: &str) -> Self {
        let mut fields = Self(Sha256::new());
        fields.add(purpose);
        fields
    }

    fn add(&mut self, text: &str) -> &mut Self {
        self.0.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes());
        self.0.update(text.as_bytes());
        self
    }

    fn finish(self) -> String {
        self.0.finalize().iter().fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a string does not fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

/// Writes JSON with the members of each object in the order of their names, whatever order the map has.
fn canonical(value: &Value) -> String {
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    sorted.to_string()
}
