//! What a hook may answer.

use serde_json::Value;

use crate::provider::error::BoxError;
use crate::run::ToolChange;

/// The answer of a hook that may stop what it is asked about.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// Continue.
    Allow,
    /// Continue with these arguments instead. Applies to tool calls; elsewhere it is the same as [`Allow`](Self::Allow).
    AllowWith(Value),
    /// Do not, for this reason; for a tool call the model is told.
    Deny(String),
    /// Do not run this call, and let the loop end if its other calls say so, too (B-103).
    DenyAndEnd(String),
    /// Ask somebody; the run may wait for days.
    Ask(String),
}

/// A hook failed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct HookError {
    /// What went wrong.
    pub message: String,
    /// The cause.
    #[source]
    pub source: Option<BoxError>,
}

impl HookError {
    /// A failure that says `message`.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), source: None }
    }

    /// A failure with a cause.
    #[must_use]
    pub fn caused(message: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self { message: message.into(), source: Some(source.into()) }
    }
}

impl From<String> for HookError {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<&str> for HookError {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

/// What may stand for a verdict.
pub trait IntoVerdict: Send {
    /// The verdict.
    ///
    /// # Errors
    /// When the hook failed.
    fn into_verdict(self) -> Result<Verdict, HookError>;
}

impl IntoVerdict for Verdict {
    fn into_verdict(self) -> Result<Verdict, HookError> {
        Ok(self)
    }
}

/// `false` is a denial without a reason of its own.
impl IntoVerdict for bool {
    fn into_verdict(self) -> Result<Verdict, HookError> {
        Ok(if self { Verdict::Allow } else { Verdict::Deny(String::new()) })
    }
}

impl<V: IntoVerdict, E: Into<HookError> + Send> IntoVerdict for Result<V, E> {
    fn into_verdict(self) -> Result<Verdict, HookError> {
        self.map_err(Into::into).and_then(V::into_verdict)
    }
}

/// What may stand for a change of a result.
pub trait IntoToolChange: Send {
    /// The change.
    ///
    /// # Errors
    /// When the hook failed.
    fn into_tool_change(self) -> Result<ToolChange, HookError>;
}

impl IntoToolChange for ToolChange {
    fn into_tool_change(self) -> Result<ToolChange, HookError> {
        Ok(self)
    }
}

/// No change.
impl IntoToolChange for () {
    fn into_tool_change(self) -> Result<ToolChange, HookError> {
        Ok(ToolChange::none())
    }
}

impl<C: IntoToolChange, E: Into<HookError> + Send> IntoToolChange for Result<C, E> {
    fn into_tool_change(self) -> Result<ToolChange, HookError> {
        self.map_err(Into::into).and_then(C::into_tool_change)
    }
}
