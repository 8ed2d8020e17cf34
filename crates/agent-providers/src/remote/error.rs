//! Reads refusals of the server itself.

use agent_core::{ErrorKind, ModelRequest, ProviderError};

use crate::protocol::Rejection;
use crate::rejection;

pub(super) fn rejected(request: &ModelRequest, rejected: &Rejection<'_>) -> ProviderError {
    let error = rejection::read(request, rejected);
    let kind = error.kind();
    error.map_context(|context| {
        // The advice of a vendor's refusal would send people to look for a key that they do not hold.
        context.advice = match kind {
            ErrorKind::Auth => Some("check the token for the Looptree server".to_owned()),
            ErrorKind::ModelNotFound => Some(format!(
                "see that the server has the model {:?} of {:?}",
                request.model.id, request.model.provider
            )),
            _ => context.advice.take(),
        };
    })
}
