//! The results of hooks.

use serde_json::Value;

use crate::provider::error::BoxError;
use crate::run::ToolChange;

/// The decision of a hook that can deny an action.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// The action proceeds without a change.
    Allow,
    /// The tool call proceeds with these arguments instead. For other actions it is the same as [`Allow`](Self::Allow).
    AllowWith(Value),
    /// The action is denied for this reason. For a tool call, the model receives the reason as an error result.
    Deny(String),
    /// The tool call is denied for this reason. The loop ends after this turn if all its other calls also request the
    /// end.
    DenyAndEnd(String),
    /// The run is suspended and asks this question. It can be stored and resumed days later.
    Ask(String),
}

/// The error of a hook that failed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct HookError {
    /// A description of the failure.
    pub message: String,
    /// The underlying error, if there is one.
    #[source]
    pub source: Option<BoxError>,
}

impl HookError {
    /// Creates an error with this message and no cause.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), source: None }
    }

    /// Creates an error with this message and a cause.
    #[must_use]
    pub fn caused(message: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self { message: message.into(), source: Some(source.into()) }
    }
}

impl<T: Into<String>> From<T> for HookError {
    fn from(message: T) -> Self {
        Self::new(message)
    }
}

/// A value that converts into a [`Verdict`]: a verdict, a `bool`, or a `Result` of either.
pub trait IntoVerdict: Send {
    /// Converts the value into a verdict.
    ///
    /// # Errors
    /// Returns the error of the hook if it failed.
    fn into_verdict(self) -> Result<Verdict, HookError>;
}

impl IntoVerdict for Verdict {
    fn into_verdict(self) -> Result<Verdict, HookError> {
        Ok(self)
    }
}

/// `true` allows the action, and `false` denies it with an empty reason.
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

/// A value that converts into a [`ToolChange`]: a change, `()` for no change, or a `Result` of either.
pub trait IntoToolChange: Send {
    /// Converts the value into a change.
    ///
    /// # Errors
    /// Returns the error of the hook if it failed.
    fn into_tool_change(self) -> Result<ToolChange, HookError>;
}

impl IntoToolChange for ToolChange {
    fn into_tool_change(self) -> Result<ToolChange, HookError> {
        Ok(self)
    }
}

/// Leaves the result unchanged.
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
