//! One call, one answer of a Rust type.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::chat::reply_of;
use super::{AgentError, BasicAgent, IntoPrompt};
use crate::answer::{AnswerError, AnswerFault, AnswerForm};
use crate::drive::{EventSender, event_channel};
use crate::message::{AgentMessage, AssistantMessage, Content, StopReason};
use crate::model::{ApiProtocol, ResponseFormat, ToolChoice};

impl BasicAgent {
    /// Asks, and waits for an answer that is a `T`: the model is held to the schema of the type as far as its protocol
    /// can, and an answer that does not fit is asked for again, once, as a message of the user that lists the faults.
    /// The agent's tools can be called on the way.
    ///
    /// The answer stays in the conversation, as the text that came.
    ///
    /// # Errors
    /// As [`chat`](Self::chat), and [`AgentError::AnswerForm`] with what came when that is no `T`.
    pub async fn prompt_typed<T>(&self, prompt: impl IntoPrompt) -> Result<T, AgentError>
    where
        T: JsonSchema + DeserializeOwned,
    {
        self.prompt_for(prompt, &AnswerForm::new()).await
    }

    /// Like [`prompt_typed`](Self::prompt_typed), with a form that says how often is asked again, and its name.
    ///
    /// # Errors
    /// As [`prompt_typed`](Self::prompt_typed).
    pub async fn prompt_for<T>(&self, prompt: impl IntoPrompt, form: &AnswerForm<T>) -> Result<T, AgentError>
    where
        T: JsonSchema + DeserializeOwned,
    {
        // Nobody looks at the events; a run goes on without.
        let (tx, _) = event_channel();
        self.prompt_for_with_sender(prompt, form, tx).await
    }

    /// Like [`prompt_for`](Self::prompt_for), and sends the events of every run that it takes.
    ///
    /// # Errors
    /// As [`prompt_typed`](Self::prompt_typed).
    pub async fn prompt_for_with_sender<T>(
        &self,
        prompt: impl IntoPrompt,
        form: &AnswerForm<T>,
        tx: impl Into<EventSender>,
    ) -> Result<T, AgentError>
    where
        T: JsonSchema + DeserializeOwned,
    {
        let tx = tx.into();
        let mut messages = prompt.into_prompt();
        for asked in 1.. {
            let last = asked > form.retries();
            // Where no tool may be called the model is held to the form, by servers too that let it call or be held, so the
            // last try is without calls. Bedrock has no word for that, and needs none.
            let again = last && asked > 1;
            let mut settings = self.for_a_run();
            settings.change(|config| {
                config.response_format = form.format();
                let forbids = config.model.api != ApiProtocol::BedrockConverseStream;
                if again && forbids && matches!(config.tool_choice, ToolChoice::Auto) {
                    config.tool_choice = ToolChoice::None;
                }
            });
            let validator = settings.config.validator.clone();
            self.start_with(settings, messages, None, tx.clone())?;
            let reply = self.last_reply().await?;
            let read = match reply.as_ref().and_then(reply_of) {
                Some(reply) => read(reply, |text| form.read_with(&*validator, text)),
                None => form.read_with(&*validator, ""),
            };
            match read {
                Ok(answer) => return Ok(answer),
                Err(mut error) if last => {
                    error.asked = asked;
                    return Err(Box::new(error).into());
                }
                Err(error) => messages = vec![AgentMessage::user(error.correction())],
            }
        }
        // The numbers do not end before the retries do.
        Err(Box::new(AnswerError::new(AnswerFault::Empty, "")).into())
    }

    /// The form that answers of this agent must have, as a Rust type. For one prompt, and with the answer read, there is
    /// [`prompt_typed`](Self::prompt_typed).
    #[must_use]
    pub fn with_answers_of<T>(self) -> Self
    where
        T: JsonSchema + DeserializeOwned,
    {
        self.with_response_format(ResponseFormat::of::<T>())
    }
}

/// Reads a reply. A model may say something beside its answer, or answer twice: then the last block that is an answer counts.
/// What was cut off is said to be so, whatever else is wrong with it.
fn read<T>(
    reply: &AssistantMessage,
    read: impl Fn(&str) -> Result<T, AnswerError>,
) -> Result<T, AnswerError> {
    let whole = read(&reply.text());
    let mut blocks = reply.content.iter().rev().filter_map(Content::as_text);
    let found = whole.or_else(|error| blocks.find_map(|text| read(text).ok()).ok_or(error));
    found.map_err(|mut error| {
        if reply.stop_reason == StopReason::Length {
            error.fault = AnswerFault::CutOff;
        }
        error
    })
}
