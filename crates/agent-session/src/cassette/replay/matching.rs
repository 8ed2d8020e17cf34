//! Finds the recorded call that answers a call of the replay, or the difference if there is none.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Shared, Strictness};
use crate::cassette::error::Divergence;
use crate::cassette::form::{RecordedEffect, RecordedRequest};
use crate::cassette::{diff, request};
use agent_core::ModelRequest;

impl Shared {
    /// Takes the recorded model call that answers this request and returns its position.
    pub(super) fn take_model(&self, request: &ModelRequest) -> Result<usize, Divergence> {
        let setup = request::setup(request);
        let setup_place = self.setups.get(&setup);
        // Messages are compared by position; one that is not in the cassette has none.
        let mut places = Vec::new();
        request::each_message(request, |line| places.push(self.messages.get(line).copied()));
        let same = |then: &RecordedRequest| {
            let numbers = then.messages.iter().flat_map(|(first, count)| (0..*count).map(move |n| first + n));
            Some(&then.setup) == setup_place && numbers.map(Some).eq(places.iter().copied())
        };
        let is_model = |effect: &RecordedEffect| matches!(effect, RecordedEffect::Model { .. });
        let fits = |effect: &RecordedEffect| matches!(effect, RecordedEffect::Model { request, .. } if same(request));
        self.take(is_model, fits, |then| {
            let mut messages = Vec::new();
            request::each_message(request, |line| messages.push(parsed(line)));
            let now = json!({"setup": parsed(&setup), "messages": messages});
            let then = match then {
                Some(RecordedEffect::Model { request, .. }) => self.request_value(request),
                _ => Value::Null,
            };
            (then, now)
        })
    }

    /// Takes the recorded tool call that answers this call and returns its position.
    pub(super) fn take_tool(&self, name: &str, id: &str, arguments: &Value) -> Result<usize, Divergence> {
        let is_this =
            |effect: &RecordedEffect| matches!(effect, RecordedEffect::Tool { name: n, .. } if n == name);
        let fits = |effect: &RecordedEffect| matches!(effect, RecordedEffect::Tool { name: n, id: i, arguments: a, .. } if n == name && i == id && a == arguments);
        self.take(is_this, fits, |then| {
            let then = then.map_or(Value::Null, |effect| match effect {
                RecordedEffect::Tool { id, arguments, .. } => {
                    json!({"tool": name, "id": id, "arguments": arguments})
                }
                RecordedEffect::Model { .. } => Value::Null,
            });
            (then, json!({"tool": name, "id": id, "arguments": arguments}))
        })
    }

    fn take(
        &self,
        of_kind: impl Fn(&RecordedEffect) -> bool,
        fits: impl Fn(&RecordedEffect) -> bool,
        sides: impl FnOnce(Option<&RecordedEffect>) -> (Value, Value),
    ) -> Result<usize, Divergence> {
        let mut state = self.lock();
        if let (Strictness::Strict, Some(divergence)) = (state.strictness, &state.divergence) {
            return Err(divergence.clone());
        }
        let calls = self.cassette.calls.iter().map(|call| &call.effect).enumerate();
        let open = || {
            calls
                .clone()
                .filter(|(place, effect)| state.answered.get(*place) == Some(&false) && of_kind(effect))
        };
        // Concurrent calls can come in any order.
        let next = open().next();
        let found = open().find(|(_, effect)| fits(effect)).map(|(place, _)| place);
        let taken = match (found, next) {
            (Some(place), _) => place,
            (None, next) => {
                let (then, now) = sides(next.map(|(_, effect)| effect));
                let (field, diff) = match next {
                    Some(_) => diff::first(&then, &now).unwrap_or_default(),
                    None => (String::new(), diff::lines(None, Some(&now))),
                };
                let at = match next {
                    Some((place, _)) => self.place_of(place),
                    None => "a call that the cassette does not have".to_owned(),
                };
                let divergence = Divergence { at, field, diff };
                let strictness = state.strictness;
                state.divergence.get_or_insert_with(|| divergence.clone());
                match (strictness, next) {
                    (Strictness::Lenient, Some((place, _))) => place,
                    _ => {
                        drop(state);
                        // The recorded order no longer applies, so no call waits for it.
                        self.ends.send_modify(BTreeSet::clear);
                        return Err(divergence);
                    }
                }
            }
        };
        if let Some(answered) = state.answered.get_mut(taken) {
            *answered = true;
        }
        match self.cassette.calls.get(taken).map(|call| &call.effect) {
            Some(RecordedEffect::Model { .. }) => state.model_calls += 1,
            _ => state.tool_calls += 1,
        }
        Ok(taken)
    }

    fn request_value(&self, request: &RecordedRequest) -> Value {
        let messages: Vec<&Value> = self.cassette.messages_of(request).collect();
        json!({"setup": self.cassette.setups.get(request.setup as usize), "messages": messages})
    }
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_default()
}
