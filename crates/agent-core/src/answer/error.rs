//! The errors of typed answers.

use std::fmt;

use crate::message::MAX_ARGUMENTS_SHOWN;
use crate::tool::validate::{ArgumentError, MAX_ARGUMENT_ERRORS, shown};

/// What is wrong with an answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AnswerFault {
    /// The reply has no text.
    Empty,
    /// The output limit cut the answer off.
    CutOff,
    /// The answer is not JSON.
    NotJson {
        /// The message of the JSON parser.
        reason: String,
    },
    /// The JSON does not conform to the schema. At most [`MAX_ARGUMENT_ERRORS`] errors are reported.
    DoesNotFit {
        /// The errors with their positions.
        faults: Vec<ArgumentError>,
    },
    /// The JSON conforms to the schema, but the type does not accept it.
    Refused {
        /// The message of the type's deserializer.
        reason: String,
    },
}

impl fmt::Display for AnswerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there is no answer"),
            Self::CutOff => f.write_str("the answer was cut off at the limit of tokens"),
            Self::NotJson { reason } => write!(f, "the answer is not JSON: {reason}"),
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

/// The error of an answer that does not have the requested form.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "{fault} (requested {asked} time(s)). Describe the answer in the prompt, allow more retries, or use a model that enforces a schema. Received: {received}"
)]
#[non_exhaustive]
pub struct AnswerError {
    /// What is wrong with the answer.
    pub fault: AnswerFault,
    /// The received text, at most [`MAX_ARGUMENTS_SHOWN`] bytes of it.
    pub received: String,
    /// The number of requests for an answer, from 1.
    pub asked: u32,
}

impl AnswerError {
    pub(crate) fn new(fault: AnswerFault, received: &str) -> Self {
        let received = shown(received, MAX_ARGUMENTS_SHOWN);
        Self { fault, received, asked: 1 }
    }

    /// Returns the correction that is sent to the model.
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
