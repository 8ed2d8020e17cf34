//! `ask_user`: asks the user a question, with choices if there are any, and waits for the answer.
//!
//! The question suspends the run like an [approval](agent_core::Question). It is part of the session, so it can be answered
//! days later by another process. [`answer`] and [`choose`] make the answer.
//!
//! ```
//! use agent_core::AgentTool;
//! use agent_tools::AskUserTool;
//! let tool: &dyn AgentTool = &AskUserTool::new();
//! let arguments = serde_json::json!({"question": "Which database?", "choices": [{"label": "SQLite"}, {"label": "Postgres"}]});
//! assert_eq!(tool.question(&arguments).as_deref(), Some("Which database?\n  1. SQLite\n  2. Postgres"));
//! ```

#[cfg(test)]
mod tests;

use agent_core::{Answer, Effects, Question, Tool, ToolContext, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The maximum number of choices of a question.
pub const MAX_CHOICES: usize = 20;

/// The maximum size of a question with its choices: 8 KiB.
pub const MAX_QUESTION_BYTES: usize = 8 * 1024;

/// The maximum size of an answer: 32 KiB.
pub const MAX_ANSWER_BYTES: usize = 32 * 1024;

/// The name of the argument that contains the answer. The model cannot set it.
const ANSWER: &str = "answer";

/// The `ask_user` tool, which suspends the run until the user has answered.
#[derive(Debug, Clone, Copy, Default)]
pub struct AskUserTool {
    _private: (),
}

impl AskUserTool {
    /// Creates the tool, which has no settings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// The arguments of `ask_user`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::arguments::plain)]
#[non_exhaustive]
pub struct AskUserArgs {
    /// The question, with everything that the user must know to answer it
    pub question: String,
    /// The choices that the user has. The user can also answer in other words
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choices: Option<Vec<Choice>>,
    /// Whether several choices can be selected. Default: false
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiple: Option<bool>,
    /// The answer of the user, which the answer to the question adds.
    #[schemars(skip)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// One choice of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::arguments::plain)]
#[non_exhaustive]
pub struct Choice {
    /// The choice in a few words
    pub label: String,
    /// What the choice means
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl AskUserArgs {
    /// Returns the choices, an empty list if there are none.
    #[must_use]
    pub fn choices(&self) -> &[Choice] {
        self.choices.as_deref().unwrap_or_default()
    }

    /// Returns the question as a text with numbered choices.
    fn text(&self) -> String {
        let mut text = self.question.clone();
        for (number, choice) in (1..).zip(self.choices()) {
            text.push_str(&format!("\n  {number}. {}", choice.label));
            if let Some(description) = &choice.description {
                text.push_str(&format!(": {description}"));
            }
        }
        if self.multiple == Some(true) && !self.choices().is_empty() {
            text.push_str("\n(several can be selected)");
        }
        text
    }

    /// Returns the error of a question that cannot be asked.
    fn check(&self) -> Result<(), AskUserError> {
        if self.question.trim().is_empty() {
            return Err(AskUserError::Empty);
        }
        if self.choices().len() > MAX_CHOICES {
            return Err(AskUserError::TooManyChoices);
        }
        let bytes = self.text().len();
        if bytes > MAX_QUESTION_BYTES { Err(AskUserError::TooLong { bytes }) } else { Ok(()) }
    }
}

/// The reason why a question was not asked or an answer was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskUserError {
    /// The question is empty.
    #[error("the question is empty; ask one")]
    Empty,
    /// The question has more than [`MAX_CHOICES`] choices.
    #[error("the question has too many choices (max {MAX_CHOICES}); offer fewer")]
    TooManyChoices,
    /// The question is too long.
    #[error("the question is too long ({bytes} bytes, max {MAX_QUESTION_BYTES}); shorten it")]
    TooLong {
        /// The size of the question with its choices.
        bytes: usize,
    },
    /// The call was allowed, but the answer is missing.
    #[error("the user gave no answer; continue without one, or ask again")]
    NoAnswer,
    /// The question is that of another tool.
    #[error(
        "the question {id} is not a question of ask_user; answer it with `Answer::Allow` or `Answer::deny`"
    )]
    OtherQuestion {
        /// The id of the question.
        id: String,
    },
    /// A choice does not exist.
    #[error("there is no choice {number}; choose a number from 1 to {choices}")]
    NoSuchChoice {
        /// The number, counted from 1.
        number: usize,
        /// The number of choices.
        choices: usize,
    },
    /// Several choices were selected although the question permits one.
    #[error("the question permits one choice; select one")]
    OneChoice,
    /// The answer is empty or too long.
    #[error("an answer has 1 to {MAX_ANSWER_BYTES} bytes, and this one has {bytes}")]
    AnswerSize {
        /// The size of the answer.
        bytes: usize,
    },
}

/// Returns the question of the model with its choices; `None` if the question is not of this tool.
#[must_use]
pub fn asked(question: &Question) -> Option<AskUserArgs> {
    let call = question.call.as_deref().filter(|call| call.name.as_str() == AskUserTool::NAME)?;
    AskUserArgs::deserialize(call.arguments.value().ok()?).ok()
}

/// Returns the answer with this text. A question with choices can also be answered in other words.
///
/// # Errors
/// Returns [`AskUserError::OtherQuestion`] and [`AskUserError::AnswerSize`].
pub fn answer(question: &Question, text: impl Into<String>) -> Result<Answer, AskUserError> {
    let text = text.into();
    if text.trim().is_empty() || text.len() > MAX_ANSWER_BYTES {
        return Err(AskUserError::AnswerSize { bytes: text.len() });
    }
    let other = || AskUserError::OtherQuestion { id: question.id.to_string() };
    let args = asked(question).ok_or_else(other)?;
    let arguments = serde_json::to_value(AskUserArgs { answer: Some(text), ..args }).map_err(|_| other())?;
    Ok(Answer::AllowWith(arguments))
}

/// Returns the answer that selects choices by their numbers, counted from 1.
///
/// # Errors
/// Returns [`AskUserError::NoSuchChoice`] and [`AskUserError::OneChoice`], and the errors of [`answer`].
pub fn choose(question: &Question, numbers: &[usize]) -> Result<Answer, AskUserError> {
    let other = || AskUserError::OtherQuestion { id: question.id.to_string() };
    let args = asked(question).ok_or_else(other)?;
    if numbers.len() > 1 && args.multiple != Some(true) {
        return Err(AskUserError::OneChoice);
    }
    let choices = args.choices();
    let label = |number: &usize| {
        let found = number.checked_sub(1).and_then(|index| choices.get(index));
        let missing = AskUserError::NoSuchChoice { number: *number, choices: choices.len() };
        found.map(|choice| choice.label.as_str()).ok_or(missing)
    };
    let labels = numbers.iter().map(label).collect::<Result<Vec<_>, _>>()?;
    answer(question, labels.join("\n"))
}

impl Tool for AskUserTool {
    const NAME: &'static str = "ask_user";
    type Args = AskUserArgs;
    type Output = ToolResult;

    fn label(&self) -> &str {
        "Ask User"
    }

    fn description(&self) -> &str {
        "Ask the user a question and wait for the answer. Use it if a decision is the user's and you cannot find it out by \
         yourself. Offer choices where there are some."
    }

    fn effects(&self, _: &AskUserArgs) -> Effects {
        Effects::ReadOnly
    }

    /// A question that cannot be asked is not shown to the user; the call then fails.
    fn question(&self, args: &AskUserArgs) -> Option<String> {
        (args.check().is_ok() && args.answer.is_none()).then(|| args.text())
    }

    /// Removes an answer that the model gave itself, and accepts choices without an object.
    fn prepare_arguments(&self, mut arguments: Value) -> Value {
        let Some(fields) = arguments.as_object_mut() else { return arguments };
        fields.remove(ANSWER);
        if let Some(Value::Array(choices)) = fields.get_mut("choices") {
            for choice in choices.iter_mut() {
                if let Value::String(label) = choice {
                    *choice = json!({ "label": label.clone() });
                }
            }
        }
        arguments
    }

    async fn call(&self, args: AskUserArgs, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
        ctx.check_cancelled()?;
        args.check()?;
        let answer = args.answer.ok_or(AskUserError::NoAnswer)?;
        Ok(ToolResult::text(format!("The user answered: {answer}")).with_details(json!({ "answer": answer })))
    }
}
