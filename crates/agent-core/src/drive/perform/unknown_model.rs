//! Reports that a run calls a model of which facts are unknown.

use std::sync::{Mutex, PoisonError};

use crate::budget::UNKNOWN_OUTPUT;
use crate::drive::config::AgentLoopConfig;
use crate::drive::request::target;
use crate::event::{UnknownFact, UnknownModel};
use crate::identity::LoopId;

/// Returns the event about the model of a route, if its context window or its output limit is unknown and the route is not
/// among those that were `reported`. Logs it as well.
pub(super) fn unknown_model(
    config: &AgentLoopConfig,
    reported: &Mutex<Vec<u32>>,
    loop_id: &LoopId,
    route: u32,
) -> Option<Box<UnknownModel>> {
    let (_, model) = target(config, route).ok()?;
    let limit = config.request.max_tokens.or(model.max_tokens);
    let is_known = model.context_window.is_some() && limit.is_some();
    if is_known {
        return None;
    }
    let mut reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
    if reported.contains(&route) {
        return None;
    }
    reported.push(route);
    drop(reported);
    let unknown = [
        (UnknownFact::ContextWindow, model.context_window.is_none()),
        (UnknownFact::MaxTokens, limit.is_none()),
        (UnknownFact::Prices, !model.cost.is_known()),
    ];
    let budgeted = config.services.budget.is_some() && limit.is_none();
    let event = UnknownModel {
        loop_id: loop_id.clone(),
        provider: model.provider.clone(),
        model: model.id.clone(),
        unknown: unknown.into_iter().filter(|(_, lacks)| *lacks).map(|(fact, _)| fact).collect(),
        assumed_output: budgeted.then_some(UNKNOWN_OUTPUT),
    };
    tracing::warn!(loop_id = %event.loop_id, "{event}");
    Some(Box::new(event))
}
