//! What is wrong with an answer.

use std::fmt;

use crate::message::MAX_ARGUMENTS_SHOWN;
use crate::tool::validate::{ArgumentError, MAX_ARGUMENT_ERRORS};

/// What is wrong with an answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AnswerFault {
    /// There is none: the reply has no text.
    Empty,
    /// It was cut off at the limit of tokens.
    CutOff,
    /// It is no JSON.
    NotJson {
        /// What the reader says.
        reason: String,
    },
    /// It is JSON that does not fit the schema: each place, at most [`MAX_ARGUMENT_ERRORS`] of them.
    DoesNotFit {
        /// What is wrong, and where.
        faults: Vec<ArgumentError>,
    },
    /// It fits the schema, and the type does not take it all the same.
    Refused {
        /// What the type says.
        reason: String,
    },
}

impl fmt::Display for AnswerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there is no answer"),
            Self::CutOff => f.write_str("the answer was cut off at the limit of tokens"),
            Self::NotJson { reason } => write!(f, "the answer is no JSON: {reason}"),
            Self::DoesNotFit { faults } => {
                f.write_str("the answer does not fit the schema: ")?;
                for (n, fault) in faults.iter().take(MAX_ARGUMENT_ERRORS).enumerate() {
                    write!(f, "{}{fault}", if n == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
            Self::Refused { reason } => write!(f, "the answer does not fit its type: {reason}"),
        }
    }
}

/// An answer that is not of the form that was asked for.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "{fault} (asked {asked} time(s)). Received: {received}. Say more in the prompt, allow more retries, or take a model that can be held to a schema"
)]
#[non_exhaustive]
pub struct AnswerError {
    /// What is wrong.
    pub fault: AnswerFault,
    /// The text that came, at most [`MAX_ARGUMENTS_SHOWN`] bytes of it.
    pub received: String,
    /// How often the model was asked.
    pub asked: u32,
}

impl AnswerError {
    pub(crate) fn new(fault: AnswerFault, received: &str) -> Self {
        let cut = received.get(..received.floor_char_boundary(MAX_ARGUMENTS_SHOWN)).unwrap_or_default();
        let received = if cut.len() < received.len() {
            format!("{cut}… ({} bytes)", received.len())
        } else {
            received.to_owned()
        };
        Self { fault, received, asked: 1 }
    }

    /// What the model is told, so that it does better.
    #[must_use]
    pub fn correction(&self) -> String {
        let mut text = String::from("Your answer could not be used.\n");
        match &self.fault {
            AnswerFault::DoesNotFit { faults } => {
                for fault in faults.iter().take(MAX_ARGUMENT_ERRORS) {
                    text.push_str(&format!("- {fault}\n"));
                }
            }
            AnswerFault::CutOff => text.push_str("- it was cut off at the limit of tokens; be shorter\n"),
            other => text.push_str(&format!("- {other}\n")),
        }
        text.push_str(
            "Answer again: the whole answer, as one JSON value that fits the schema, and nothing else.",
        );
        text
    }
}
