//! The outcome of a tool call: [`ToolResult`] and [`ToolError`].

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::validate::ArgumentErrors;
use crate::identity::{DeferredHandle, LoopId};
use crate::message::{Content, Usage};
use crate::shared::Shared;
use crate::value_depth;

/// The result of a tool call: content for the model, and structured details for programs.
///
/// [`text`](Self::text), [`content`](Self::content), [`error`](Self::error) and [`from_output`](Self::from_output)
/// create a result; [`to_text`](Self::to_text) reads the text of one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ToolResult {
    /// The content that the model receives. The events and messages of the call share it.
    pub content: Shared<Vec<Content>>,
    /// Structured facts for programs. The model does not receive them. Null if there are none.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub details: Value,
    /// Whether the call failed. The model still receives the content.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// Whether the loop may end after this call. It ends if every result of the reply is marked so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub terminate: bool,
    /// The loop that a sub-agent ran for this call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child_loop_id: Option<LoopId>,
    /// The tokens that the call itself used at models. They are counted in addition to those of the loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
    /// The handle of the work that continues after the call; see [`deferred`](Self::deferred).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deferred: Option<DeferredHandle>,
}

impl ToolResult {
    /// Creates a result with one text block. To read the text of a result, use [`to_text`](Self::to_text).
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::content(vec![Content::text(text)])
    }

    /// Creates a result with these content blocks.
    #[must_use]
    pub fn content(content: impl Into<Shared<Vec<Content>>>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }

    /// Creates a failed result with one text block.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Creates the result of a call whose work continues in the background under `handle`, an id that the tool chooses.
    ///
    /// The model receives a preliminary result. [`AgentHandle::complete`](crate::AgentHandle::complete) adds the final result
    /// to the conversation, and [`History::deferred`](crate::History::deferred) lists the calls that wait for one.
    #[must_use]
    pub fn deferred(handle: impl Into<DeferredHandle>) -> Self {
        let handle = handle.into();
        let text = format!(
            "This call is still running (handle `{handle}`). Its result will come in a later message."
        );
        Self { deferred: Some(handle), ..Self::text(text) }
    }

    /// Converts the output of a [`Tool`](super::Tool).
    ///
    /// A `ToolResult` is returned as it is, and [`Content`] or a `Vec<Content>` becomes the content. A value that
    /// serializes to a string becomes plain text, one that serializes to null (such as `()`) an empty result. Any other
    /// value becomes JSON text, with the same value as [`details`](Self::details).
    ///
    /// # Errors
    /// Returns an error if serializing the value fails, for example for a map whose keys are not strings.
    ///
    /// ```
    /// use agent_core::ToolResult;
    /// #[derive(serde::Serialize)]
    /// struct Found {
    ///     files: u32,
    /// }
    /// let result = ToolResult::from_output(Found { files: 3 }).map_err(|e| e.to_string())?;
    /// assert_eq!(result.to_text(), r#"{"files":3}"#);
    /// assert_eq!(result.details["files"], 3);
    /// # Ok::<(), String>(())
    /// ```
    pub fn from_output<T: Serialize + 'static>(output: T) -> Result<Self, ToolError> {
        let mut output = Some(output);
        if let Some(result) = taken_as::<Self, T>(&mut output) {
            return Ok(result);
        }
        if let Some(content) = taken_as::<Vec<Content>, T>(&mut output) {
            return Ok(Self::content(content));
        }
        if let Some(block) = taken_as::<Content, T>(&mut output) {
            return Ok(Self::content(vec![block]));
        }
        Ok(Self::from(serde_json::to_value(output)?))
    }

    /// Replaces values that are nested deeper than [`MAX_VALUE_DEPTH`](crate::MAX_VALUE_DEPTH) by a note. The tool may have
    /// taken effect, so its other content remains.
    pub(crate) fn limited(mut self) -> Self {
        value_depth::limit(&mut self.details);
        self.content.iter_mut().for_each(Content::limit_depth);
        self
    }

    /// Sets the details for programs.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    /// Marks the result as failed.
    #[must_use]
    pub fn failed(mut self) -> Self {
        self.is_error = true;
        self
    }

    /// Allows the loop to end after this call; see [`terminate`](Self::terminate).
    #[must_use]
    pub fn terminating(mut self) -> Self {
        self.terminate = true;
        self
    }

    /// Sets the loop that a sub-agent ran for this call.
    #[must_use]
    pub fn with_child_loop(mut self, loop_id: LoopId) -> Self {
        self.child_loop_id = Some(loop_id);
        self
    }

    /// Sets the tokens that the call itself used at models.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = Some(Box::new(usage));
        self
    }

    /// Returns the text blocks of the content, joined by line feeds. To create a result, use [`text`](Self::text).
    #[must_use]
    pub fn to_text(&self) -> String {
        crate::message::content::joined_text(&self.content, "\n")
    }
}

/// Takes the value out of `output` if its type is `W`.
fn taken_as<W: 'static, T: 'static>(output: &mut Option<T>) -> Option<W> {
    (output as &mut dyn Any).downcast_mut::<Option<W>>()?.take()
}

impl From<String> for ToolResult {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for ToolResult {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// A string becomes plain text and null an empty result. Any other value becomes JSON text and details.
impl From<Value> for ToolResult {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::default(),
            Value::String(text) => Self::text(text),
            value => Self::text(value.to_string()).with_details(value),
        }
    }
}

impl From<Vec<Content>> for ToolResult {
    fn from(content: Vec<Content>) -> Self {
        Self::content(content)
    }
}

/// The reason why a tool call failed. The model receives its text, so that it can correct the call.
///
/// `?` converts any [`std::error::Error`] into a `ToolError`, which is why `ToolError` itself does not implement that
/// trait. An [`ArgumentErrors`] becomes [`InvalidArgs`](Self::InvalidArgs), every other error [`Error`](Self::Error).
/// [`failed`](Self::failed) creates an error from a text.
///
/// ```
/// use agent_core::ToolError;
/// fn port(text: &str) -> Result<u16, ToolError> {
///     let port: u16 = text.parse()?;
///     if port < 1024 {
///         return Err(ToolError::failed(format!("port {port} is reserved")));
///     }
///     Ok(port)
/// }
/// assert_eq!(port("x").unwrap_err().to_string(), "invalid digit found in string");
/// assert_eq!(port("80").unwrap_err().to_string(), "port 80 is reserved");
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ToolError {
    /// The call failed; the text says why.
    Failed(String),
    /// The call failed with an error. The text for the model is the error's, followed by those of its sources that it
    /// does not contain.
    Error(Arc<dyn Error + Send + Sync>),
    /// No tool has this name.
    NotFound(String),
    /// The arguments do not match the schema or are otherwise invalid.
    InvalidArgs(String),
    /// The run was aborted, or the call was cancelled.
    Cancelled,
    /// The call exceeded its time limit.
    Timeout(Duration),
}

impl ToolError {
    /// Creates an error with the text of `cause`, usually a message.
    #[must_use]
    pub fn failed(cause: impl fmt::Display) -> Self {
        Self::Failed(cause.to_string())
    }

    /// Returns the error that `?` converted, or `None` for every other variant than [`Error`](Self::Error).
    #[must_use]
    pub fn source(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        match self {
            Self::Error(error) => Some(&**error),
            _ => None,
        }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(text) | Self::InvalidArgs(text) => f.write_str(text),
            Self::Error(error) => f.write_str(&text_with_sources(&**error)),
            Self::NotFound(name) => write!(f, "Tool {name} not found"),
            Self::Cancelled => f.write_str("Operation aborted"),
            Self::Timeout(limit) => write!(f, "Tool exceeded timeout of {limit:?}"),
        }
    }
}

/// Returns the text of an error and of its sources, separated by `: `. A source whose text is already there is left out.
fn text_with_sources(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        source = error.source();
    }
    text
}

/// Errors are equal if they are the same variant and have the same text.
impl PartialEq for ToolError {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Timeout(a), Self::Timeout(b)) => a == b,
            (a, b) => {
                std::mem::discriminant(a) == std::mem::discriminant(b) && a.to_string() == b.to_string()
            }
        }
    }
}

impl Eq for ToolError {}

impl<E: Error + Send + Sync + 'static> From<E> for ToolError {
    fn from(error: E) -> Self {
        match (&error as &dyn Any).downcast_ref::<ArgumentErrors>() {
            Some(errors) => Self::InvalidArgs(errors.to_string()),
            None => Self::Error(Arc::new(error)),
        }
    }
}

/// Lets `?` return a `ToolError` from a function whose error type is a boxed error.
impl From<ToolError> for Box<dyn Error + Send + Sync> {
    fn from(error: ToolError) -> Self {
        error.to_string().into()
    }
}

/// Lets `?` return a `ToolError` from a function whose error type is a boxed error.
impl From<ToolError> for Box<dyn Error> {
    fn from(error: ToolError) -> Self {
        error.to_string().into()
    }
}

impl From<ToolError> for ToolResult {
    fn from(error: ToolError) -> Self {
        Self::error(error.to_string())
    }
}
