//! Questions to the user, and their answers.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::ToolSnapshot;
use crate::budget::{BudgetRefusal, Spending};
use crate::identity::QuestionId;

/// A question that suspends a run until it is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Question {
    /// The id of the question, which the answer repeats.
    pub id: QuestionId,
    /// The text of the question.
    pub text: String,
    /// The call that waits, with the arguments with which it runs if it is allowed; `None` if a gate waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Box<crate::message::ToolCall>>,
    /// The tool of the call at the moment of the question. If it differs when the call is about to run, the run asks again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Box<ToolSnapshot>>,
    /// The reached limit, if a budget asks: [`Answer::Raise`] raises it, `Allow` permits this call only, and `Deny`
    /// ends the run, or denies the call if it is a tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Box<BudgetRefusal>>,
    /// Whether the call had started when its process ended, so that its outcome is unknown. A group of branches selects none
    /// before such a question is answered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outcome_unknown: bool,
}

/// An answer to a [`Question`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Answer {
    /// The action may proceed.
    Allow,
    /// The call may proceed with these arguments. Valid only for tool calls.
    AllowWith(Value),
    /// The limit is raised by this amount, and the run continues. Valid only for budget questions.
    Raise {
        /// The amounts by which the limit is raised.
        by: Spending,
    },
    /// The action is denied.
    Deny {
        /// The reason, which the model receives.
        reason: String,
    },
}

impl Answer {
    /// Returns a denial with this reason, which the model reads.
    #[must_use]
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::Deny { reason: reason.into() }
    }
}

/// Reads the form of events, `{"type":"deny","reason":".."}`, and the form of session files, `{"deny":{"reason":".."}}`.
impl<'de> Deserialize<'de> for Answer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        enum InFiles {
            Allow,
            AllowWith(Value),
            Raise { by: Spending },
            Deny { reason: String },
        }

        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Event(#[serde(deserialize_with = "super::json::answer::deserialize")] Answer),
            File(InFiles),
        }

        Ok(match Either::deserialize(deserializer)? {
            Either::Event(answer) => answer,
            Either::File(InFiles::Allow) => Self::Allow,
            Either::File(InFiles::AllowWith(arguments)) => Self::AllowWith(arguments),
            Either::File(InFiles::Raise { by }) => Self::Raise { by },
            Either::File(InFiles::Deny { reason }) => Self::Deny { reason },
        })
    }
}
