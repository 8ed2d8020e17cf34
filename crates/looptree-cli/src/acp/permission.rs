//! The questions of a run, as requests for a permission.

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    ToolCallUpdate,
};
use agent_client_protocol::{Client, is_incoming_transport_closed};
use looptree::{Answer, Question};

use crate::approval::{Approvals, always_of, described, refused};

const ALLOW: &str = "allow";
const ALWAYS: &str = "always";
const REJECT: &str = "reject";

/// The result of a question.
pub(super) enum Asked {
    Answer(Answer),
    /// The editor has withdrawn the question, because the user interrupts the run.
    Withdrawn,
    /// The editor is gone: the question waits in the session.
    Left,
}

/// Asks the user about a call and waits for the answer.
pub(super) async fn ask(
    question: &Question,
    call: ToolCallUpdate,
    session: &str,
    approvals: &Approvals,
    to: &ConnectionTo<Client>,
) -> Asked {
    let grant = always_of(question);
    let option = |id: &'static str, name: String, kind| PermissionOption::new(id, name, kind);
    let mut options = vec![option(ALLOW, "Allow".to_owned(), PermissionOptionKind::AllowOnce)];
    if let Some(grant) = &grant {
        let name = format!("Always allow in this session: {}", described(grant).as_str());
        options.push(option(ALWAYS, name, PermissionOptionKind::AllowAlways));
    }
    options.push(option(REJECT, "Reject".to_owned(), PermissionOptionKind::RejectOnce));
    let request = RequestPermissionRequest::new(session.to_owned(), call, options);
    let outcome = match to.send_request(request).block_task().await {
        Ok(response) => response.outcome,
        Err(error) if is_incoming_transport_closed(&error) => return Asked::Left,
        Err(error) => {
            let why =
                format!("The editor could not ask the user, so this call was not run: {}", error.message);
            return Asked::Answer(Answer::deny(why));
        }
    };
    match outcome {
        RequestPermissionOutcome::Selected(selected) => {
            Asked::Answer(match (&*selected.option_id.0, grant) {
                (ALLOW, _) => Answer::Allow,
                (ALWAYS, Some(grant)) => {
                    approvals.grant(grant);
                    Answer::Allow
                }
                // What was not offered allows nothing.
                _ => Answer::deny(refused("")),
            })
        }
        _ => Asked::Withdrawn,
    }
}
