//! Which model is asked: the run's own, or one of its routes.

use super::Run;
use super::input::{Failure, PartialReply};
use crate::event::{AgentEvent, RouteChange};
use crate::route::{RouteName, RouteSetup};

impl Run {
    /// This route is not tried again now: another one is, or the turn fails with `message`.
    pub(super) fn give_up(
        &mut self,
        failure: &Failure,
        message: String,
        started: bool,
        partial: Option<PartialReply>,
        out: &mut Vec<AgentEvent>,
    ) {
        self.lost_routes.note(self.turn.route, failure.kind);
        match self.lost_routes.after(&self.setup.routes, self.turn.route, failure.kind) {
            Some(next) => self.take_route(next, started, partial, failure, out),
            None => self.fail_turn(failure.kind, message, partial, out),
        }
    }

    /// The next attempt goes to another route. What was shown of this one is closed.
    fn take_route(
        &mut self,
        next: u32,
        started: bool,
        partial: Option<PartialReply>,
        failure: &Failure,
        out: &mut Vec<AgentEvent>,
    ) {
        out.push(AgentEvent::RouteChanged(Box::new(RouteChange {
            loop_id: self.setup.loop_id.clone(),
            from: self.route_name(self.turn.route),
            to: self.route_name(next),
            kind: failure.kind,
            error: failure.message.clone(),
        })));
        self.supersede(started, partial, failure, out);
        self.turn.route = next;
        self.turn.attempt += 1;
        self.turn.retries = 0;
        // Another window: it may be answered by compaction once more.
        self.turn.overflow = None;
        self.await_call(None);
    }

    /// The route that is asked; `None` for the run's own model.
    pub(super) fn route(&self) -> Option<&RouteSetup> {
        let at = usize::try_from(self.turn.route.checked_sub(1)?).ok()?;
        self.setup.routes.get(at)
    }

    pub(super) fn route_name(&self, index: u32) -> RouteName {
        let config = &self.setup.config;
        let at = index.checked_sub(1).and_then(|n| usize::try_from(n).ok());
        match at.and_then(|at| self.setup.routes.get(at)) {
            Some(route) => RouteName { index, provider: route.provider.clone(), model: route.model.clone() },
            None => RouteName { index, provider: config.provider.clone(), model: config.model.clone() },
        }
    }

    /// How often a failed call is made again on this route.
    pub(super) fn max_retries(&self) -> u32 {
        self.route().and_then(|r| r.max_retries).unwrap_or(self.setup.policy.retry.max_retries)
    }
}
