//! Reports that a run calls a model of which facts are unknown.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::budget::UNKNOWN_OUTPUT;
use crate::drive::config::AgentLoopConfig;
use crate::drive::request::target;
use crate::event::{UnknownFact, UnknownModel};
use crate::identity::LoopId;

/// The routes whose model was reported as unknown: one bit for each of the first 63 routes, and one for all others.
#[derive(Debug, Default)]
pub(super) struct UnknownModels(AtomicU64);

impl UnknownModels {
    /// Adds a route. Returns whether it was absent.
    fn insert(&self, route: u32) -> bool {
        let bit = 1 << route.min(u64::BITS - 1);
        self.0.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }
}

/// Returns the event about the model of a route, if its context window or its output limit is unknown and the route is not
/// among those that were `reported`. Logs it as well.
pub(super) fn unknown_model(
    config: &AgentLoopConfig,
    reported: &UnknownModels,
    loop_id: &LoopId,
    route: u32,
) -> Option<Box<UnknownModel>> {
    let (_, model) = target(config, route).ok()?;
    let limit = config.request.max_tokens.or(model.max_tokens);
    let is_known = model.context_window.is_some() && limit.is_some();
    if is_known {
        return None;
    }
    if !reported.insert(route) {
        return None;
    }
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
