//! What a client sees of a run and decides: progress, and questions as elicitation.

use anyhow::Result;
use looptree::Question;
use looptree::prelude::*;
use rmcp::model::{
    ClientCapabilities, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationSchema, InputRequest, InputRequests, InputRequiredResult, InputResponses,
    ProgressNotificationParam,
};
use rmcp::service::{Peer, RequestContext, RoleServer};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::asks_by_result;
use super::tools::Decision;
use crate::approval::{Approvals, always_of, described, refused};
use crate::screen::{Styled, brief, question as whole};
use crate::served::Front;
use crate::text::{one_line, telling};

/// The key of the question in a result that requires input.
const KEY: &str = "decision";

/// How a question reaches the user of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    /// By a request to the client.
    ByRequest,
    /// By a result that requires input, in versions of the protocol that have no requests to the client.
    ByResult,
    /// Not at all: the question is in the result, and `answer` answers it.
    Never,
}

/// The client of a call.
pub(super) struct Caller {
    peer: Peer<RoleServer>,
    asks: Asks,
    approvals: Approvals,
    progress: Option<(UnboundedSender<String>, JoinHandle<()>)>,
}

/// A decision about a call.
pub(super) struct Decided {
    pub(super) decision: Decision,
    pub(super) reason: Option<String>,
}

impl Decided {
    /// Returns the answer, and remembers what is allowed from now on.
    pub(super) fn answer(&self, question: &Question, approvals: &Approvals) -> Answer {
        if self.decision == Decision::Deny {
            return Answer::deny(refused(self.reason.as_deref().unwrap_or_default()));
        }
        if self.decision == Decision::Always
            && let Some(grant) = always_of(question)
        {
            approvals.grant(grant);
        }
        Answer::Allow
    }

    fn of_result(result: &ElicitResult) -> Self {
        let field = |name: &str| result.content.as_ref()?.get(name).cloned();
        let decision = field("decision").and_then(|value| serde_json::from_value(value).ok());
        let reason = field("reason").and_then(|value| value.as_str().map(str::to_owned));
        match (&result.action, decision) {
            (ElicitationAction::Accept, Some(decision)) => Self { decision, reason },
            // A question that was closed or filled in wrongly allows nothing.
            _ => Self { decision: Decision::Deny, reason },
        }
    }
}

/// Returns the decision in the client's responses to a result that required input.
pub(super) fn of_responses(responses: Option<&InputResponses>) -> Decided {
    let response = responses.and_then(|all| all.get(KEY)).cloned();
    let result = response.and_then(|response| serde_json::from_value::<ElicitResult>(response).ok());
    result.map_or(Decided { decision: Decision::Deny, reason: None }, |result| Decided::of_result(&result))
}

/// Returns the result that asks the user of the client.
pub(super) fn as_result(question: &Question, state: String) -> Result<InputRequiredResult> {
    let request = InputRequest::Elicitation(ElicitRequest::new(form(question)?));
    let requests = InputRequests::from([(KEY.to_owned(), request)]);
    Ok(InputRequiredResult::new(Some(requests), Some(state)))
}

/// Returns the id of a question for the client. It contains the hash of the call, so that an answer is for the call that was shown.
pub(super) fn id_of(question: &Question) -> String {
    match question.approval() {
        Some(view) => format!("{}.{}", question.id, view.hash().prefix()),
        None => question.id.to_string(),
    }
}

/// Returns the question as a form.
fn form(question: &Question) -> Result<ElicitRequestParams> {
    let grant = always_of(question).map(|grant| described(&grant));
    let always = grant
        .map_or_else(String::new, |grant| format!("; always allows in this session: {}", grant.as_str()));
    let schema = json!({
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "title": "Decision",
                "description": format!("Whether the call may be executed{always}"),
                "enum": ["allow", "always", "deny"],
            },
            "reason": { "type": "string", "title": "Reason", "description": "Why not, for the agent" },
        },
        "required": ["decision"],
    });
    Ok(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: whole(question).as_str().to_owned(),
        requested_schema: serde_json::from_value::<ElicitationSchema>(schema)?,
    })
}

fn has_forms(capabilities: Option<&ClientCapabilities>) -> bool {
    let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation.as_ref());
    // A client that names no mode has forms.
    elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

impl Caller {
    pub(super) fn new(context: &RequestContext<RoleServer>, approvals: Approvals) -> Self {
        let has_forms = has_forms(context.client_capabilities().as_ref());
        let asks = match (has_forms, asks_by_result(context.protocol_version().as_ref())) {
            (false, _) => Asks::Never,
            (true, true) => Asks::ByResult,
            (true, false) => Asks::ByRequest,
        };
        let progress = context.meta.get_progress_token().map(|token| {
            let (tell, mut told) = unbounded_channel::<String>();
            let peer = context.peer.clone();
            let telling = tokio::spawn(async move {
                let mut step = 0_u32;
                while let Some(message) = told.recv().await {
                    step = step.saturating_add(1);
                    let progress = ProgressNotificationParam::new(token.clone(), f64::from(step));
                    // A client that is gone needs no progress.
                    let _ = peer.notify_progress(progress.with_message(message)).await;
                }
            });
            (tell, telling)
        });
        Self { peer: context.peer.clone(), asks, approvals, progress }
    }

    fn tell(&self, message: &Styled) {
        if let Some((tell, _)) = &self.progress {
            let _ = tell.send(message.as_str().to_owned());
        }
    }

    /// Sends the rest of the progress. Returns how a question that is left reaches the user.
    pub(super) async fn finish(self) -> Asks {
        if let Some((tell, telling)) = self.progress {
            drop(tell);
            let _ = telling.await;
        }
        self.asks
    }
}

impl Front for Caller {
    fn event(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::TurnStart { turn_index, .. } => {
                self.tell(&Styled::from(format!("turn {}", turn_index.saturating_add(1))))
            }
            AgentEvent::ToolExecutionStart { tool_name, args, .. } => {
                let arguments: Value = serde_json::from_str(args.json_text()).unwrap_or(Value::Null);
                let what = telling(&arguments).map(one_line).unwrap_or_default();
                self.tell(&brief(&format!("{tool_name} {what}")));
            }
            AgentEvent::RetryStart(retry) => {
                self.tell(&brief(retry.error.as_deref().unwrap_or("the model call is repeated")));
            }
            _ => {}
        }
    }

    async fn ask(&mut self, question: &Question) -> Option<Answer> {
        if self.asks != Asks::ByRequest {
            return None;
        }
        let form = form(question).ok()?;
        // Without an answer of the client the question waits for `answer`.
        let result = self.peer.create_elicitation(form).await.ok()?;
        Some(Decided::of_result(&result).answer(question, &self.approvals))
    }
}
