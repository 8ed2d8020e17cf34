//! One call, one answer (seed 003).

use super::{AgentError, BasicAgent, Finished, IntoPrompt};
use crate::event::{AgentEvent, Ended, StreamDelta};
use crate::history::MessageRef;
use crate::identity::ToolName;
use crate::limits::ExecutionLimits;
use crate::message::{AssistantMessage, Message};
use crate::model::ModelConfig;

/// Turns of an agent that was built the legacy way (seed 003).
const LEGACY_TURNS: u32 = 10;

/// What arrives while an answer is on its way.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum ChatToken<'a> {
    /// More of the answer.
    Text(&'a str),
    /// A tool begins.
    ToolStarted(&'a ToolName),
    /// A tool ended.
    ToolEnded {
        /// Which.
        tool: &'a ToolName,
        /// Whether it failed.
        is_error: bool,
    },
}

impl BasicAgent {
    /// Asks, and waits for the answer: the text of the last reply.
    ///
    /// # Errors
    /// As [`prompt`](Self::prompt), and when the run ends without an answer: the error names the provider, the model
    /// and what to do. The conversation is kept.
    pub async fn chat(&self, prompt: impl IntoPrompt) -> Result<String, AgentError> {
        let mut events = self.prompt(prompt)?;
        while events.recv().await.is_some() {}
        self.answer_of_last_run().await
    }

    /// Like [`chat`](Self::chat), and passes on what arrives. The answer is all text of the run's replies.
    ///
    /// # Errors
    /// As [`chat`](Self::chat).
    pub async fn stream_chat(
        &self,
        prompt: impl IntoPrompt,
        mut on_token: impl FnMut(ChatToken<'_>),
    ) -> Result<String, AgentError> {
        let mut events = self.prompt(prompt)?;
        let mut text = String::new();
        while let Some(event) = events.recv().await {
            match &event {
                AgentEvent::MessageUpdate { delta: StreamDelta::Text { text: delta }, .. } => {
                    on_token(ChatToken::Text(delta));
                }
                AgentEvent::MessageEnd { message, superseded: false, .. }
                    if message.role() == "assistant" =>
                {
                    text.push_str(&message.text());
                }
                AgentEvent::ToolExecutionStart { tool_name, .. } => {
                    on_token(ChatToken::ToolStarted(tool_name))
                }
                AgentEvent::ToolExecutionEnd(end) => {
                    on_token(ChatToken::ToolEnded { tool: &end.tool_name, is_error: end.is_error });
                }
                _ => {}
            }
        }
        self.answer_of_last_run().await?;
        Ok(text)
    }

    async fn answer_of_last_run(&self) -> Result<String, AgentError> {
        let reply = self.last_reply().await?;
        Ok(reply.as_ref().and_then(reply_of).map(AssistantMessage::text).unwrap_or_default())
    }

    /// The last reply of the last run, if that ended well.
    pub(super) async fn last_reply(&self) -> Result<Option<MessageRef>, AgentError> {
        let (ended, messages) = match self.finish().await {
            Finished::Ended { ended, messages } => (ended, messages),
            Finished::Suspended { questions } => return Err(AgentError::Suspended { questions }),
            Finished::Idle => return Ok(None),
        };
        let message = match ended {
            Ended::Completed => {
                return Ok(messages.into_iter().rev().find(|m| reply_of(m).is_some()));
            }
            Ended::Error { kind, message } => return Err(AgentError::Run { kind: Some(kind), message }),
            Ended::Aborted => "the run was aborted".to_owned(),
            Ended::Limit { reason } => {
                format!("the run was stopped: {reason}; raise the limit with with_execution_limits")
            }
            Ended::Budget { refusal } => {
                format!("the run was stopped: {refusal}; raise the limit with Budget::raise")
            }
            Ended::Vetoed { reason } | Ended::TurnVetoed { reason } => {
                format!("a hook stopped the run: {reason}")
            }
            Ended::InputRejected { reason } => format!("an input filter refused the prompt: {reason}"),
            Ended::Interrupted { reason } => format!("the run was cut off: {reason}"),
        };
        Err(AgentError::Run { kind: None, message })
    }

    /// An agent as seed 003's first users built it: an Ollama model, its host, a system prompt, and ten turns at most.
    /// agent-session adds the file that its context is kept in.
    #[must_use]
    pub fn from_legacy(model: Option<&str>, host: Option<&str>, system_prompt: Option<&str>) -> Self {
        let mut config = model.map_or_else(ModelConfig::default, ModelConfig::ollama);
        if let Some(host) = host {
            config = config.with_base_url(host);
        }
        Self::new(config)
            .with_system_prompt(system_prompt.unwrap_or_default())
            .with_execution_limits(ExecutionLimits::default().with_max_turns(LEGACY_TURNS))
    }
}

/// The reply that a message is.
pub(super) fn reply_of(message: &MessageRef) -> Option<&AssistantMessage> {
    message.as_llm().and_then(Message::as_assistant)
}
