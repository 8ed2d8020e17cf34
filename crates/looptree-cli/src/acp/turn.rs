//! One prompt: the run, its updates and questions, and why it stopped.

use std::sync::{MutexGuard, PoisonError};

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, Cost, PromptRequest, PromptResponse, SessionId, SessionNotification,
    SessionUpdate, StopReason, TextContent, UsageUpdate,
};
use agent_client_protocol::{Client, Error};
use looptree::compat::SeedVerbs as _;
use looptree::event::Ended;
use looptree::prelude::*;
use looptree::{Question, message};

use super::permission::{self, Asked};
use super::updates::Updates;
use super::{Session, failed, prompt};
use crate::preview::preview;
use crate::screen::{Styled, why};
use crate::served::{Front, Turn};
use crate::setup::context_of;

/// Works on a prompt until the run ends.
pub(super) async fn run(
    session: &Session,
    request: PromptRequest,
    turn: Turn,
    to: ConnectionTo<Client>,
) -> Result<PromptResponse, Error> {
    let prompt = prompt::message(request.prompt)?;
    let mut front = Editor { session, id: request.session_id, to, stop: turn.stop.clone(), cut_off: false };
    front.report_failures();
    let watched = session.work(Some(prompt), &turn, &mut front).await;
    let left = front.updates().left_open();
    front.send(left);
    let watched = watched.map_err(|error| failed(&error))?;
    let stopped = match watched.ended {
        _ if turn.stop.is_cancelled() => StopReason::Cancelled,
        Some(Ended::Completed) if front.cut_off => StopReason::MaxTokens,
        Some(Ended::Completed) => StopReason::EndTurn,
        Some(Ended::Aborted) => StopReason::Cancelled,
        Some(ended @ Ended::Limit { .. }) => {
            front.say(&why(&ended));
            StopReason::MaxTurnRequests
        }
        Some(ended @ Ended::Budget { .. }) => {
            front.say(&why(&ended));
            StopReason::MaxTokens
        }
        Some(ended) => return Err(failed(&anyhow::anyhow!("{}", why(&ended)))),
        None => {
            return Err(failed(&anyhow::anyhow!("the run waits for an answer that this editor cannot give")));
        }
    };
    Ok(PromptResponse::new(stopped))
}

/// Tells an editor about a run.
struct Editor<'a> {
    session: &'a Session,
    id: SessionId,
    to: ConnectionTo<Client>,
    stop: looptree::CancellationToken,
    /// Whether the last reply reached the limit of its length.
    cut_off: bool,
}

impl Editor<'_> {
    fn updates(&self) -> MutexGuard<'_, Updates> {
        self.session.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, updates: Vec<SessionUpdate>) {
        for update in updates {
            // An editor that is gone ends the connection, and that ends the run.
            let _ = self.to.send_notification(SessionNotification::new(self.id.clone(), update));
        }
    }

    /// Returns whether a call ends without running: the agent has no such tool, or the policy denies it.
    fn is_refused(&self, tool: &str, arguments: &str) -> bool {
        let tools = self.session.setup.agent.tools();
        let Some(tool) = tools.iter().find(|known| known.name() == tool) else { return true };
        let arguments = serde_json::from_str(arguments).unwrap_or_default();
        self.session.setup.approvals.plan_only() && tool.effects(&arguments) != Effects::ReadOnly
    }

    fn say(&self, text: &str) {
        let text = ContentBlock::Text(TextContent::new(format!("\n\n{}\n", Styled::prose(text).as_str())));
        self.send(vec![SessionUpdate::AgentMessageChunk(ContentChunk::new(text))]);
    }

    /// Tells once which MCP servers could not be used.
    fn report_failures(&self) {
        let failures = self.updates().once_told(&self.session.setup.servers.failures());
        for failure in failures {
            self.say(&format!("Warning: {failure}"));
        }
    }

    fn usage(&self, usage: &Usage) -> SessionUpdate {
        let model = self.session.setup.agent.config().model.clone();
        let window = context_of(&model).max_context_tokens;
        let cost = self.session.meter().cost;
        let mut update = UsageUpdate::new(usage.total_tokens, window);
        if let Some(dollars) = crate::money::as_dollars(&cost) {
            update = update.cost(Cost::new(dollars, "USD"));
        }
        SessionUpdate::UsageUpdate(update)
    }
}

impl Front for Editor<'_> {
    fn event(&mut self, event: &AgentEvent) {
        if let AgentEvent::ToolExecutionStart { tool_call_id, tool_name, args, .. } = event
            && self.is_refused(tool_name.as_str(), args.json_text())
        {
            self.updates().reject(tool_call_id.as_ref());
        }
        let updates = self.updates().event(event);
        self.send(updates);
        if let AgentEvent::MessageEnd { message, superseded: false, .. } = event
            && let Some(reply) = message.as_llm().and_then(looptree::Message::as_assistant)
        {
            self.send(vec![self.usage(&reply.usage)]);
            self.cut_off = reply.stop_reason == message::StopReason::Length;
        }
    }

    async fn ask(&mut self, question: &Question) -> Option<Answer> {
        let preview = preview(&self.session.setup.workspace, question).await;
        let (updates, call) = self.updates().question(question, preview);
        self.send(updates);
        let approvals = &self.session.setup.approvals;
        let answer = match permission::ask(question, call, &self.id.0, approvals, &self.to).await {
            Asked::Answer(answer) => answer,
            Asked::Left => return None,
            Asked::Withdrawn => {
                self.stop.cancel();
                Answer::deny("The user interrupted the run.")
            }
        };
        if let (Answer::Deny { .. }, Some(call)) = (&answer, &question.call) {
            self.updates().reject(call.id.as_ref());
        }
        Some(answer)
    }
}
