//! What a shell tells a run of its calls.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::budget::{BudgetRefusal, Spending};
use crate::message::Content;
use crate::tool::ToolResult;

/// What becomes of a call before it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolVerdict {
    /// It runs with what the model sent.
    #[serde(rename = "run")]
    Allow,
    /// It runs with other arguments.
    #[serde(rename = "run_with")]
    AllowWith(Value),
    /// It does not run; this is its error result.
    #[serde(rename = "refuse")]
    Deny(Box<ToolResult>),
    /// The approver is asked first.
    Ask(ToolQuestion),
    /// A limit of the budget does not allow it: it is asked about where the run pauses at limits, else it does not run, and
    /// the run ends after the other calls of the reply.
    OverBudget {
        /// Which limit, with the figures.
        refusal: Box<BudgetRefusal>,
        /// The arguments that it runs with when it is allowed, where they differ from what the model sent.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "super::super::present::field"
        )]
        arguments: Option<Value>,
    },
}

impl ToolVerdict {
    /// It does not run; the model is told `text`.
    #[must_use]
    pub fn deny(text: impl Into<String>) -> Self {
        Self::Deny(Box::new(ToolResult::error(text)))
    }
}

/// A question about a call before it runs.
///
/// In JSON it is the text alone, or an object with `text` and `arguments` where a hook replaced the arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolQuestion {
    /// The text that the approver sees.
    pub text: String,
    /// The arguments that the question is about and that an approval runs, where they differ from the model's.
    pub arguments: Option<Value>,
}

impl<T: Into<String>> From<T> for ToolQuestion {
    fn from(text: T) -> Self {
        Self { text: text.into(), arguments: None }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum QuestionForm {
    Text(String),
    WithArguments { text: String, arguments: Value },
}

impl Serialize for ToolQuestion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.arguments.clone() {
            None => serializer.serialize_str(&self.text),
            Some(arguments) => QuestionForm::WithArguments { text: self.text.clone(), arguments }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ToolQuestion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match QuestionForm::deserialize(deserializer)? {
            QuestionForm::Text(text) => Self { text, arguments: None },
            QuestionForm::WithArguments { text, arguments } => Self { text, arguments: Some(arguments) },
        })
    }
}

/// What came of a call that ran.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolOutcome {
    /// What the tool gave.
    pub result: ToolResult,
    /// How long it ran, in milliseconds.
    pub duration_ms: Option<u64>,
    /// The token count of the result, where the default estimate is not wanted.
    pub tokens: Option<u64>,
    /// What the call spent of the run's budget: models that it asked itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Box<Spending>>,
}

impl ToolOutcome {
    /// An outcome.
    #[must_use]
    pub fn new(result: ToolResult, duration_ms: Option<u64>) -> Self {
        Self { result, duration_ms, tokens: None, spent: None }
    }

    /// The same with a token count.
    #[must_use]
    pub fn counted(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }
}

/// What a hook changes in a result; what is absent stays (B-095).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolChange {
    /// Other content, whole.
    pub content: Option<Vec<Content>>,
    /// Other details, whole.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::super::present::field"
    )]
    pub details: Option<Value>,
    /// Whether it failed.
    pub is_error: Option<bool>,
    /// Whether the loop may end here.
    pub terminate: Option<bool>,
}

impl ToolChange {
    /// Nothing.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Other content.
    #[must_use]
    pub fn content(content: Vec<Content>) -> Self {
        Self { content: Some(content), ..Self::default() }
    }

    /// Whether the result counts as failed.
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
            result.content = content;
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

    /// The same change, with another word on whether the loop may end.
    #[must_use]
    pub fn with_terminate(mut self, terminate: bool) -> Self {
        self.terminate = Some(terminate);
        self
    }

    /// The same change, with other details.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}
