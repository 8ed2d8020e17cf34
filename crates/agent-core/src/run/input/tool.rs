//! What a shell tells a run of its calls.

use serde::{Deserialize, Serialize};
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
    /// Somebody is asked first.
    Ask(String),
    /// A limit of the budget does not allow it: it is asked about where the run pauses at limits, else it does not run, and
    /// the run ends after the other calls of the reply.
    OverBudget {
        /// Which limit, with the figures.
        refusal: Box<BudgetRefusal>,
        /// The arguments that it runs with when it is allowed, where they differ from what the model sent.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "super::super::explicit_null::field"
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
        deserialize_with = "super::super::explicit_null::field"
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
