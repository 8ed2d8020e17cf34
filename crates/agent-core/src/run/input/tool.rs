//! The inputs of a run that concern tool calls.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::budget::{BudgetRefusal, Spending};
use crate::event::ToolSnapshot;
use crate::message::Content;
use crate::tool::ToolResult;
use crate::value_depth;

/// The decision about a tool call before it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolVerdict {
    /// The call runs with the arguments that the model sent.
    #[serde(rename = "run")]
    Allow,
    /// The call runs with other arguments.
    #[serde(rename = "run_with")]
    AllowWith(Value),
    /// The call does not run; this is its error result.
    #[serde(rename = "refuse")]
    Deny(Box<ToolResult>),
    /// The user must answer this question before the call runs.
    Ask(ToolQuestion),
    /// A budget limit does not allow the call. A run that pauses at limits asks the user. Otherwise the call does not
    /// run, and the run ends after the other calls of the reply.
    OverBudget {
        /// The limit, with its figures.
        refusal: Box<BudgetRefusal>,
        /// The arguments to run with if the call is allowed, where they differ from those that the model sent.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "super::super::explicit_null::field"
        )]
        arguments: Option<Value>,
    },
}

impl ToolVerdict {
    /// Creates the verdict that the call does not run, with `text` as its error result.
    #[must_use]
    pub fn deny(text: impl Into<String>) -> Self {
        Self::Deny(Box::new(ToolResult::error(text)))
    }
}

/// A question about a call before it runs.
///
/// In JSON it is the text alone, or an object with `text` and the other members that are set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "QuestionForm", into = "QuestionForm")]
pub struct ToolQuestion {
    /// The text that the approver sees.
    pub text: String,
    /// The arguments that the question is about and that an approval runs, where they differ from the model's.
    pub arguments: Option<Value>,
    /// The tool to which an approval applies.
    pub tool: Option<Box<ToolSnapshot>>,
}

impl<T: Into<String>> From<T> for ToolQuestion {
    fn from(text: T) -> Self {
        Self { text: text.into(), arguments: None, tool: None }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum QuestionForm {
    Text(String),
    Whole {
        text: String,
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "super::super::explicit_null::field"
        )]
        arguments: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<Box<ToolSnapshot>>,
    },
}

impl From<QuestionForm> for ToolQuestion {
    fn from(form: QuestionForm) -> Self {
        match form {
            QuestionForm::Text(text) => text.into(),
            QuestionForm::Whole { text, arguments, tool } => Self { text, arguments, tool },
        }
    }
}

impl From<ToolQuestion> for QuestionForm {
    fn from(ToolQuestion { text, arguments, tool }: ToolQuestion) -> Self {
        match (arguments, tool) {
            (None, None) => Self::Text(text),
            (arguments, tool) => Self::Whole { text, arguments, tool },
        }
    }
}

/// The outcome of a call that ran.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolOutcome {
    /// The result that the tool returned.
    pub result: ToolResult,
    /// The execution time in milliseconds.
    pub duration_ms: Option<u64>,
    /// The token count of the result; `None` for the default estimate.
    pub tokens: Option<u64>,
    /// What the call itself spent of the run's budget, for example on model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Box<Spending>>,
}

impl ToolOutcome {
    /// Creates an outcome without token count and spending.
    #[must_use]
    pub fn new(result: ToolResult, duration_ms: Option<u64>) -> Self {
        Self { result, duration_ms, tokens: None, spent: None }
    }

    /// Sets the token count of the result.
    #[must_use]
    pub fn counted(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }
}

/// The changes of a hook to the result of a call. A field that is `None` leaves its part unchanged.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolChange {
    /// The content that replaces the whole content.
    pub content: Option<Vec<Content>>,
    /// The details that replace the whole details.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::super::explicit_null::field"
    )]
    pub details: Option<Value>,
    /// Whether the call counts as failed.
    pub is_error: Option<bool>,
    /// Whether the loop may end after this call.
    pub terminate: Option<bool>,
}

impl ToolChange {
    /// Creates a change that changes nothing.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Replaces values that are nested too deeply by a note.
    pub(crate) fn limited(mut self) -> Self {
        self.details.iter_mut().for_each(value_depth::limit);
        self.content.iter_mut().flatten().for_each(Content::limit_depth);
        self
    }

    /// Creates a change that replaces the content.
    #[must_use]
    pub fn content(content: Vec<Content>) -> Self {
        Self { content: Some(content), ..Self::default() }
    }

    /// Creates a change that sets whether the call failed.
    #[must_use]
    pub fn is_error(is_error: bool) -> Self {
        Self { is_error: Some(is_error), ..Self::default() }
    }

    /// Returns the change that has the effect of this one followed by `later`.
    #[must_use]
    pub fn then(self, later: Self) -> Self {
        Self {
            content: later.content.or(self.content),
            details: later.details.or(self.details),
            is_error: later.is_error.or(self.is_error),
            terminate: later.terminate.or(self.terminate),
        }
    }

    /// Applies the change to `result`. Returns whether it replaced the content.
    pub fn apply_to(self, result: &mut ToolResult) -> bool {
        let replaced = self.content.is_some();
        if let Some(content) = self.content {
            result.content = content.into();
        }
        if let Some(details) = self.details {
            result.details = details;
        }
        if let Some(is_error) = self.is_error {
            result.is_error = is_error;
        }
        if let Some(terminate) = self.terminate {
            result.terminate = terminate;
        }
        replaced
    }

    /// Sets whether the loop may end after this call.
    #[must_use]
    pub fn with_terminate(mut self, terminate: bool) -> Self {
        self.terminate = Some(terminate);
        self
    }

    /// Sets the details that replace the whole details.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}
