//! Complete items: how each one ends, and the parts of the output that only the last event contains.

use agent_core::{EventSink, ProviderError, StreamEvent};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Output, member, object};
use crate::openai_responses::decode::item::{Item, Kind};
use crate::openai_responses::decode::parts::List;
use crate::openai_responses::decode::read;
use crate::openai_responses::wire::{Head, Spoken};

impl Output {
    /// Ends an item with its last event, which contains it completely.
    pub(in crate::openai_responses::decode) fn end(
        &mut self,
        at: Option<u64>,
        item: &RawValue,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let head: Head<'_> = read(item.get())?;
        let id = head.id.as_str();
        let at_place = |i: &Item| at.is_none_or(|at| i.at == at);
        let find = |items: &[Item], fits: &dyn Fn(&Item) -> bool| {
            items.iter().rposition(|i| !i.done && at_place(i) && fits(i))
        };
        let by_name = find(&self.items, &|i| !id.is_empty() && i.id == id);
        // An item that was opened by a delta has no id, and some servers change ids.
        let of_kind = |i: &Item| i.kind.is(head.kind.as_str());
        let place = by_name.or_else(|| at.and_then(|_| find(&self.items, &of_kind)));
        match place {
            Some(place) => self.finish_item(place, item.get(), sink),
            None => {
                let over = |i: &Item| i.done && at_place(i) && !id.is_empty() && i.id == id;
                if self.items.iter().any(over) { Ok(()) } else { self.append(at, item, sink) }
            }
        }
    }

    /// Emits an item of which nothing has arrived yet.
    fn append(
        &mut self,
        at: Option<u64>,
        item: &RawValue,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let place = self.items.len();
        self.begin(at, item, sink)?;
        self.finish_item(place, item.get(), sink)
    }

    fn finish_item(
        &mut self,
        place: usize,
        json: &str,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let whole = object(json);
        let Some(item) = self.items.get_mut(place) else { return Ok(()) };
        if item.id.is_empty() {
            member(&whole, "id").clone_into(&mut item.id);
        }
        let mut spoken = Spoken::default();
        match &mut item.kind {
            Kind::Message { .. } | Kind::Reasoning { .. } => {
                match serde_json::from_str(json) {
                    Ok(read) => spoken = read,
                    Err(_) => sink(StreamEvent::Unrecognised { name: "an item of an unknown form" }),
                }
                let parts = spoken.content.as_deref().unwrap_or_default();
                item.fill_parts(
                    List::Summary,
                    spoken.summary.as_deref().unwrap_or_default(),
                    &mut self.numbers,
                    sink,
                );
                item.fill_parts(List::Content, parts, &mut self.numbers, sink);
                let refusal = parts.iter().map(|p| p.refusal.as_str()).max_by_key(|r| r.len());
                self.refused(refusal.unwrap_or_default());
            }
            Kind::Call(call) => {
                let (id, name) = (member(&whole, "call_id"), member(&whole, "name"));
                let late =
                    (call.id.is_empty() && !id.is_empty()) || (call.name.is_empty() && !name.is_empty());
                if late {
                    id.clone_into(&mut call.id);
                    // An item in the vendor's own form does not name the tool.
                    if !name.is_empty() {
                        name.clone_into(&mut call.name);
                    }
                    sink(StreamEvent::ToolCallStart { index: call.index, id, name: &call.name });
                }
                if call.id.is_empty() {
                    call.id = self.ids.fresh();
                    sink(StreamEvent::ToolCallStart { index: call.index, id: &call.id, name: &call.name });
                }
                let local = call.local.as_ref().map(|local| local.form.arguments(&whole));
                let announced = call.announced.take().map(String::from).filter(|_| call.said.is_empty());
                let arguments = local.or_else(|| arguments(&whole)).or(announced).unwrap_or_default();
                call.awaits_arguments = call.said.is_empty() && arguments.is_empty();
                item.fill_call(&arguments, sink);
            }
            Kind::Opaque { .. } => {}
        }
        if let Some(item) = self.items.get_mut(place) {
            item.end(&spoken, whole, &mut self.numbers, sink);
        }
        Ok(())
    }

    /// Emits the encrypted forms of completed thinking and ends its blocks.
    pub(in crate::openai_responses::decode) fn seal(&mut self, sink: &mut EventSink<'_>) {
        for item in &mut self.items {
            item.seal(&mut self.numbers, sink);
        }
    }

    /// Emits the items of the output that no event contained. Some servers send new ids here, so a list that is not longer than
    /// the received one is ignored.
    pub(in crate::openai_responses::decode) fn recover(
        &mut self,
        output: &[&RawValue],
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        // Two items may have one id, so each received item stands for one of the list.
        let received = self.items.len();
        let mut claimed = vec![false; received];
        for (at, raw) in (0..).zip(output) {
            let head: Head<'_> = read(raw.get())?;
            let id = head.id.as_str();
            let find = |fits: &dyn Fn(&Item) -> bool| {
                let free = |place: usize| claimed.get(place) == Some(&false);
                self.items.iter().enumerate().position(|(place, item)| free(place) && fits(item))
            };
            let named = |item: &Item| !id.is_empty() && item.id == id;
            let known = find(&|item| item.at == at && named(item));
            let known = known
                .or_else(|| find(&named))
                .or_else(|| find(&|item| item.at == at && item.kind.is(head.kind.as_str())));
            if let Some(claimed) = known.and_then(|place| claimed.get_mut(place)) {
                *claimed = true;
            }
            match known {
                Some(place) if self.items.get(place).is_some_and(|i| !i.done) => {
                    self.finish_item(place, raw.get(), sink)?;
                }
                Some(place) => {
                    // An encrypted form belongs to the item with the same id.
                    let same = |item: &&mut Item| head.kind.as_str() == "reasoning" && item.id == id;
                    let Some(item) = self.items.get_mut(place) else { continue };
                    if item.end_waiting_call(&arguments(&object(raw.get())).unwrap_or_default(), sink) {
                        continue;
                    }
                    if let Some(item) = Some(item).filter(same) {
                        item.reseal(read::<Spoken<'_>>(raw.get())?.encrypted_content.as_str());
                    }
                }
                None if received >= output.len() => {}
                None => self.append(Some(at), raw, sink)?,
            }
        }
        Ok(())
    }

    /// Ends the blocks that are still open when the reply is complete, except calls in which a limit cut it.
    pub(in crate::openai_responses::decode) fn finish(&mut self, cut: Cut, sink: &mut EventSink<'_>) {
        for item in &mut self.items {
            item.end_waiting_call("", sink);
            if item.done {
                continue;
            }
            match &mut item.kind {
                Kind::Opaque { .. } => {
                    sink(StreamEvent::Unrecognised { name: "an item that never came whole" });
                    continue;
                }
                Kind::Call(_) if cut == Cut::ByLimit => continue,
                Kind::Call(call) => {
                    let announced = call.announced.take().filter(|_| call.said.is_empty());
                    item.fill_call(announced.as_deref().unwrap_or_default(), sink);
                }
                Kind::Message { .. } | Kind::Reasoning { .. } => {}
            }
            item.end(&Spoken::default(), Map::new(), &mut self.numbers, sink);
        }
        self.seal(sink);
    }
}

/// Whether a limit cut the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::openai_responses::decode) enum Cut {
    Nowhere,
    ByLimit,
}

/// Returns the arguments of a call's item, unless they are empty. The vendor calls those of a custom tool
/// `input`, and some servers send both members.
pub(super) fn arguments(item: &Map<String, Value>) -> Option<String> {
    ["arguments", "input"].into_iter().find_map(|name| match item.get(name)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        value @ (Value::Object(_) | Value::Array(_)) => Some(value.to_string()),
        _ => None,
    })
}
