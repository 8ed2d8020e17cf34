//! What a person is asked, and answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::budget::{BudgetRefusal, Spending};
use crate::identity::QuestionId;

/// Something a run waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Question {
    /// Its name, for the answer.
    pub id: QuestionId,
    /// What is asked.
    pub text: String,
    /// The call that waits; absent when a gate does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Box<crate::message::ToolCall>>,
    /// The limit that is reached, where a budget asks: [`Answer::Raise`] raises it, `Allow` lets this one call be made
    /// although it is reached, and `Deny` ends the run (a call of a tool: refuses the call).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Box<BudgetRefusal>>,
}

/// An answer to a [`Question`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Answer {
    /// Go on.
    Allow,
    /// Go on with other arguments. For calls only.
    AllowWith(Value),
    /// Raise the limit of the budget that asks by this much, and go on. For budgets only.
    Raise {
        /// By how much.
        by: Spending,
    },
    /// Do not.
    Deny {
        /// What the model is told.
        reason: String,
    },
}
