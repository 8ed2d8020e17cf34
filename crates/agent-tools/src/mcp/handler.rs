//! What this side does when a server speaks first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::RoleClient;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, FormElicitationCapability, Implementation, UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext};
use tokio::sync::watch;

use super::elicitation::{Elicitation, ElicitationAnswer, ElicitationForm, ElicitationHandler, completed};

/// What the connections of one server share.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) server: Arc<str>,
    pub(super) elicitation: Option<ElicitationHandler>,
    /// Counted up when the server says that its tools are others, or may be.
    pub(super) changes: watch::Sender<u64>,
    /// How many questions wait for the user. Calls do not time out meanwhile.
    pub(super) questions: Arc<AtomicUsize>,
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
        ClientConfig::new(capabilities, Implementation::new("looptree", env!("CARGO_PKG_VERSION")))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
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
        match (handler(asked).await, schema) {
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

/// Counts a question while it is open.
struct OpenQuestion(Arc<AtomicUsize>);

impl OpenQuestion {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
