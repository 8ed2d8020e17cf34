//! Handles the requests and notifications that a server sends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::RoleClient;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, FormElicitationCapability, Implementation, ProtocolVersion,
    UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext};
use tokio::sync::watch;

use super::elicitation::{Elicitation, ElicitationAnswer, ElicitationForm, ElicitationHandler, completed};

/// The state that the connections of one server share.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) server: Arc<str>,
    pub(super) elicitation: Option<ElicitationHandler>,
    /// Increased when the tools of the server have changed or may have changed.
    pub(super) changes: watch::Sender<u64>,
    pub(super) questions: Arc<QuestionCount>,
}

impl Handler {
    pub(super) fn tools_may_differ(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = self.elicitation.is_some().then(|| {
            ElicitationCapability::new()
                .with_form(FormElicitationCapability::new().with_schema_validation(true))
                .with_url(UrlElicitationCapability::new())
        });
        // The SDK's default is its newest version, which is initialized in a different way.
        ClientConfig::new(capabilities, Implementation::new("looptree", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some(handler) = &self.elicitation else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        let (message, form) = match request {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                let schema = serde_json::to_value(requested_schema)
                    .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
                (message, ElicitationForm::Fields { schema })
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
                (message, ElicitationForm::Page { url })
            }
            _ => return Ok(ElicitResult::new(ElicitationAction::Decline)),
        };
        let schema = match &form {
            ElicitationForm::Fields { schema } => Some(schema.clone()),
            ElicitationForm::Page { .. } => None,
        };
        let _open = OpenQuestion::new(&self.questions);
        let asked = Elicitation { server: self.server.to_string(), message, form };
        let answer = tokio::select! {
            answer = handler(asked) => answer,
            // The server has withdrawn the question or has ended.
            () = context.ct.cancelled() => ElicitationAnswer::Cancel,
        };
        match (answer, schema) {
            (ElicitationAnswer::Accept(values), Some(schema)) => match completed(&schema, values) {
                Ok(values) => Ok(ElicitResult::new(ElicitationAction::Accept).with_content(values)),
                Err(misfit) => Err(ErrorData::internal_error(misfit.to_string(), None)),
            },
            (ElicitationAnswer::Accept(_), None) => Ok(ElicitResult::new(ElicitationAction::Accept)),
            (ElicitationAnswer::Decline, _) => Ok(ElicitResult::new(ElicitationAction::Decline)),
            (ElicitationAnswer::Cancel, _) => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tools_may_differ();
    }
}

/// Counts the questions to the user. Calls do not time out while one is open.
#[derive(Debug, Default)]
pub(super) struct QuestionCount {
    open: AtomicUsize,
    closed: AtomicUsize,
}

impl QuestionCount {
    /// Returns the number of questions that are open or were closed since `seen`, and updates `seen`.
    pub(super) fn since(&self, seen: &mut usize) -> usize {
        let closed = self.closed.load(Ordering::Acquire);
        let news = self.open.load(Ordering::Acquire) + closed.wrapping_sub(*seen);
        *seen = closed;
        news
    }

    /// Returns the current state, for a later call of [`since`](Self::since).
    pub(super) fn now(&self) -> usize {
        self.closed.load(Ordering::Acquire)
    }
}

/// Counts a question as open until it is dropped.
struct OpenQuestion(Arc<QuestionCount>);

impl OpenQuestion {
    fn new(questions: &Arc<QuestionCount>) -> Self {
        questions.open.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(questions))
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        // In this order, so that the question counts as open or closed at every moment.
        self.0.closed.fetch_add(1, Ordering::AcqRel);
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}
