//! Reads the event stream. No I/O, no clock: frames are pushed in.
//!
//! The vendor sends the output as items, each with its number, in pieces and then whole; several may be open at once.
//! What came in pieces is compared with the whole, so that a piece that never came is still passed on, and so is an item
//! that stands only in the last event. An item of a kind that is not known here is passed on whole, to be sent back to
//! the same model.

mod end;
mod item;

#[cfg(test)]
mod tests;

use agent_core::{Completion, EventSink, ProviderError, StreamConfig, StreamEvent};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::error;
use super::wire::{Event, Head, Part, Response, Spoken};
use crate::call_ids::CallIds;
use crate::protocol::{Decode, Flow, Frame};
use crate::shape::Shape;
use crate::surrogates::Surrogates;
use end::Ending;
use item::{Call, Item, Kind, List, Numbers, Said, Seal};

/// The most items, and the most blocks, that a reply may have.
const MAX_ITEMS: usize = 4_096;

/// The data of an event that some servers send at the end.
const DONE: &str = "[DONE]";

/// Events that say nothing beyond what others say.
const SILENT: &[&str] =
    &["response.content_part.added", "response.reasoning_summary_part.added", "keepalive", "ping"];

/// The state between two events of one reply.
#[derive(Debug)]
pub(super) struct Decoder {
    model: String,
    begun: bool,
    /// Every item so far. None is taken out, so that its place names it.
    items: Vec<Item>,
    numbers: Numbers,
    ids: CallIds,
    refusal: String,
    ending: Option<Ending>,
    surrogates: Surrogates,
    /// The usual delta: the place of its item, and of the block in it.
    shape: Shape<(usize, usize)>,
}

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wants {
    Message,
    Reasoning,
    Call,
}

impl Wants {
    fn is(self, kind: &Kind) -> bool {
        matches!(
            (self, kind),
            (Self::Message, Kind::Message { .. })
                | (Self::Reasoning, Kind::Reasoning { .. })
                | (Self::Call, Kind::Call(_))
        )
    }
}

impl Decoder {
    /// A decoder for the answer to `request`.
    pub(super) fn new(request: &StreamConfig) -> Self {
        Self {
            model: request.model.id.clone(),
            begun: false,
            items: Vec::new(),
            numbers: Numbers::default(),
            ids: CallIds::new(&request.history),
            refusal: String::new(),
            ending: None,
            surrogates: Surrogates::default(),
            shape: Shape::default(),
        }
    }

    /// Reads a delta that differs from an earlier one in a piece of text only. Whether it was one.
    fn usual(&mut self, json: &str, sink: &mut EventSink<'_>) -> bool {
        let Some(((item, block), text)) = self.shape.read(json) else { return false };
        let open = self.items.get_mut(item).filter(|i| !i.done);
        open.is_some_and(|item| item.more(block, &text, sink))
    }

    fn event(
        &mut self,
        frame: Frame<'_>,
        event: &Event<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<Flow, ProviderError> {
        let name = event.kind.filled().or(frame.event).unwrap_or_default();
        let delta = event.delta.as_str();
        match name {
            "response.output_text.delta" => {
                self.text(Wants::Message, List::Content, frame.data, event, delta, sink)?;
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_summary.delta" => {
                self.text(Wants::Reasoning, List::Summary, frame.data, event, delta, sink)?;
            }
            "response.reasoning_text.delta" | "response.reasoning.delta" => {
                self.text(Wants::Reasoning, List::Content, frame.data, event, delta, sink)?;
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                if let Some(place) = self.resolve(Wants::Call, event, sink)? {
                    self.pass(place, 0, delta, sink);
                    self.learn(frame.data, event, (place, 0));
                }
            }
            "response.refusal.delta" => self.refusal.push_str(delta),
            "response.refusal.done" => self.refused(event.refusal.as_str()),
            "response.output_text.done" => {
                self.whole_text(Wants::Message, List::Content, event, event.text.as_str(), sink)?;
            }
            "response.reasoning_summary_text.done" | "response.reasoning_summary.done" => {
                self.whole_text(Wants::Reasoning, List::Summary, event, event.text.as_str(), sink)?;
            }
            "response.reasoning_text.done" | "response.reasoning.done" => {
                self.whole_text(Wants::Reasoning, List::Content, event, event.text.as_str(), sink)?;
            }
            "response.content_part.done" | "response.reasoning_summary_part.done" => {
                self.whole_part(event, event.part.as_ref().unwrap_or(&Part::default()), sink)?;
            }
            "response.function_call_arguments.start" => self.bare_call(event, sink)?,
            "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => {
                let whole = event.arguments.filled().or(event.input.filled());
                if let Some(whole) = whole
                    && let Some(place) = self.resolve(Wants::Call, event, sink)?
                    && let Some(item) = self.items.get_mut(place)
                {
                    item.fill_call(whole, sink);
                }
            }
            "response.output_item.added" => match event.item {
                Some(item) => self.begin(event.output_index.map(|i| i.0), item, sink)?,
                None => sink(StreamEvent::Unrecognised { name }),
            },
            "response.output_item.done" => match event.item {
                Some(item) => self.end(event.output_index.map(|i| i.0), item, sink)?,
                None => sink(StreamEvent::Unrecognised { name }),
            },
            "response.created" | "response.in_progress" | "response.queued" => {
                self.start(event.response.as_ref().unwrap_or(&Response::default()), sink);
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled"
            | "response.done" => {
                self.terminal(name, event.response.as_ref().unwrap_or(&Response::default()), sink)?;
                return Ok(Flow::Done);
            }
            _ if name == "error" || (name.is_empty() && event.error.is_some()) => {
                return Err(error::event(frame.data));
            }
            _ if SILENT.contains(&name) || self.is_progress(event) => {}
            _ => sink(StreamEvent::Unrecognised { name }),
        }
        Ok(Flow::More)
    }

    fn start(&mut self, response: &Response<'_>, sink: &mut EventSink<'_>) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let model = response.model.filled().filter(|m| *m != self.model);
        sink(StreamEvent::Start { response_id: response.id.filled(), model });
    }

    /// Whether an event tells how an item gets on whose end will hold all of it.
    fn is_progress(&self, event: &Event<'_>) -> bool {
        let of = |item: &&Item| match event.output_index {
            Some(at) => item.at == at.0,
            None => item.id == event.item_id.as_str(),
        };
        self.items.iter().rfind(of).is_some_and(|item| matches!(item.kind, Kind::Opaque { .. }))
    }

    /// The item that an event is about; one is opened where the server has not said that it begins. `None` when the event
    /// is about an item that takes no such thing, which is counted.
    ///
    /// # Errors
    /// When the event does not say which of several items it is about (B-125).
    fn resolve(
        &mut self,
        wants: Wants,
        event: &Event<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<Option<usize>, ProviderError> {
        let id = event.item_id.as_str();
        let named = |item: &Item| !id.is_empty() && item.id == id;
        let found = match event.output_index {
            Some(at) => {
                let exact = self.items.iter().rposition(|i| i.at == at.0 && named(i));
                exact.or_else(|| self.items.iter().rposition(|i| i.at == at.0))
            }
            None => match self.items.iter().rposition(named) {
                Some(place) => Some(place),
                None => self.only_open(wants)?,
            },
        };
        let Some(place) = found else {
            let at = event.output_index.map_or_else(|| self.next_at(), |at| at.0);
            let kind = match wants {
                Wants::Message => Kind::Message { texts: Vec::new() },
                Wants::Reasoning => self.reasoning(),
                Wants::Call => self.call(event.call_id.as_str(), event.name.as_str(), sink),
            };
            return self.open(at, id, kind).map(Some);
        };
        let fits = self.items.get(place).is_some_and(|item| !item.done && wants.is(&item.kind));
        if !fits {
            sink(StreamEvent::Unrecognised { name: "an event of an item that does not take it" });
        }
        Ok(fits.then_some(place))
    }

    /// The one open item of a kind, for an event that names none.
    fn only_open(&self, wants: Wants) -> Result<Option<usize>, ProviderError> {
        let mut open = (0..).zip(&self.items).filter(|(_, i)| !i.done && wants.is(&i.kind)).map(|(at, _)| at);
        match (open.next(), open.next()) {
            (Some(_), Some(_)) => Err(error::fail(
                agent_core::ErrorKind::Network,
                "the stream holds an event that does not say which item of the output it is about",
                None,
            )),
            (only, _) => Ok(only),
        }
    }

    /// The number of an item that was given none.
    fn next_at(&self) -> u64 {
        self.items.iter().map(|i| i.at.saturating_add(1)).max().unwrap_or_default()
    }

    fn open(&mut self, at: u64, id: &str, kind: Kind) -> Result<usize, ProviderError> {
        let blocks = usize::try_from(self.numbers.count()).unwrap_or(usize::MAX);
        if self.items.len() >= MAX_ITEMS || blocks >= MAX_ITEMS {
            let message = format!("the reply has more than {MAX_ITEMS} items");
            return Err(error::fail(agent_core::ErrorKind::Network, &message, None));
        }
        self.items.push(Item { at, id: id.to_owned(), done: false, kind });
        Ok(self.items.len() - 1)
    }

    fn reasoning(&mut self) -> Kind {
        Kind::Reasoning { index: self.numbers.fresh(), texts: Vec::new(), seal: Seal::default() }
    }

    fn call(&mut self, id: &str, name: &str, sink: &mut EventSink<'_>) -> Kind {
        let index = self.numbers.fresh();
        sink(StreamEvent::ToolCallStart { index, id, name });
        Kind::Call(Call { index, id: id.to_owned(), name: name.to_owned(), said: Said::default() })
    }

    /// Some servers announce a call by an event of its own in place of an item.
    fn bare_call(&mut self, event: &Event<'_>, sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        let at = event.output_index.map_or_else(|| self.next_at(), |at| at.0);
        if self.items.iter().any(|i| i.at == at && !i.done) {
            return Ok(());
        }
        let kind = self.call(event.call_id.as_str(), event.name.as_str(), sink);
        self.open(at, event.item_id.as_str(), kind).map(|_| ())
    }

    fn text(
        &mut self,
        wants: Wants,
        list: List,
        json: &str,
        event: &Event<'_>,
        delta: &str,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let Some(place) = self.resolve(wants, event, sink)? else { return Ok(()) };
        self.check_blocks()?;
        let Some(item) = self.items.get_mut(place) else { return Ok(()) };
        let at = number(list, event);
        if let Some(block) = item.say(list, at, delta, &mut self.numbers, sink) {
            self.learn(json, event, (place, block));
        }
        Ok(())
    }

    fn check_blocks(&self) -> Result<(), ProviderError> {
        if usize::try_from(self.numbers.count()).is_ok_and(|count| count < MAX_ITEMS) {
            return Ok(());
        }
        let message = format!("the reply has more than {MAX_ITEMS} blocks");
        Err(error::fail(agent_core::ErrorKind::Network, &message, None))
    }

    fn pass(&mut self, place: usize, block: usize, delta: &str, sink: &mut EventSink<'_>) {
        if let Some(item) = self.items.get_mut(place) {
            item.more(block, delta, sink);
        }
    }

    fn learn(&mut self, json: &str, event: &Event<'_>, place: (usize, usize)) {
        if event.kind.filled().is_some() && event.output_index.is_some() {
            self.shape.learn(json, "delta", event.delta.as_str(), place);
        }
    }

    fn whole_text(
        &mut self,
        wants: Wants,
        list: List,
        event: &Event<'_>,
        whole: &str,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        if whole.is_empty() {
            return Ok(());
        }
        if let Some(place) = self.resolve(wants, event, sink)? {
            self.check_blocks()?;
            if let Some(item) = self.items.get_mut(place) {
                item.fill(list, number(list, event), whole, &mut self.numbers, sink);
            }
        }
        Ok(())
    }

    fn whole_part(
        &mut self,
        event: &Event<'_>,
        part: &Part<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let text = part.text.as_str();
        match part.kind.as_str() {
            "output_text" => self.whole_text(Wants::Message, List::Content, event, text, sink),
            "summary_text" => self.whole_text(Wants::Reasoning, List::Summary, event, text, sink),
            "reasoning_text" => self.whole_text(Wants::Reasoning, List::Content, event, text, sink),
            "refusal" => {
                self.refused(part.refusal.as_str());
                Ok(())
            }
            _ => {
                sink(StreamEvent::Unrecognised { name: "a part of an unknown kind" });
                Ok(())
            }
        }
    }

    fn refused(&mut self, whole: &str) {
        if whole.len() > self.refusal.len() {
            whole.clone_into(&mut self.refusal);
        }
    }

    fn begin(
        &mut self,
        at: Option<u64>,
        item: &RawValue,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let head: Head<'_> = read(item.get())?;
        let at = at.unwrap_or_else(|| self.next_at());
        let id = head.id.as_str();
        if self.items.iter().any(|i| !i.done && i.at == at && i.id == id) {
            return Ok(());
        }
        let kind = match head.kind.as_str() {
            "message" => Kind::Message { texts: Vec::new() },
            "reasoning" => self.reasoning(),
            "function_call" | "custom_tool_call" => {
                let item = object(item.get());
                self.call(member(&item, "call_id"), member(&item, "name"), sink)
            }
            _ => Kind::Opaque { index: self.numbers.fresh() },
        };
        self.open(at, id, kind).map(|_| ())
    }

    fn end(
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
        // An item that only its deltas had announced has no name, and some servers change names.
        let place = by_name.or_else(|| at.and_then(|_| find(&self.items, &|_| true)));
        let place = match place {
            Some(place) => place,
            None => {
                let over = |i: &Item| i.done && at_place(i) && !id.is_empty() && i.id == id;
                if self.items.iter().any(over) {
                    return Ok(());
                }
                self.begin(at, item, sink)?;
                let Some(place) = self.items.len().checked_sub(1) else { return Ok(()) };
                place
            }
        };
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
                spoken = read(json)?;
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
                    name.clone_into(&mut call.name);
                    sink(StreamEvent::ToolCallStart { index: call.index, id, name });
                }
                if call.id.is_empty() {
                    call.id = self.ids.fresh();
                    sink(StreamEvent::ToolCallStart { index: call.index, id: &call.id, name: &call.name });
                }
                let arguments = match whole.get("arguments").or_else(|| whole.get("input")) {
                    Some(Value::String(text)) => text.clone(),
                    Some(value @ (Value::Object(_) | Value::Array(_))) => value.to_string(),
                    _ => String::new(),
                };
                item.fill_call(&arguments, sink);
            }
            Kind::Opaque { .. } => {}
        }
        if let Some(item) = self.items.get_mut(place) {
            item.end(&spoken, whole, &mut self.numbers, sink);
        }
        Ok(())
    }

    /// Takes the last event: what of the output had not come yet, the tokens, and how it ended.
    fn terminal(
        &mut self,
        name: &str,
        response: &Response<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        self.start(response, sink);
        self.recover(response.output.as_deref().unwrap_or_default(), sink)?;
        self.seal(sink);
        if let Some(usage) = response.usage {
            sink(StreamEvent::Usage(usage.disjoint()));
        }
        self.ending = Some(Ending::of(name, response)?);
        Ok(())
    }

    fn seal(&mut self, sink: &mut EventSink<'_>) {
        for item in &mut self.items {
            item.seal(&mut self.numbers, sink);
        }
    }

    /// Passes on what of the output no event had brought. Some servers name the items anew here, so a list that is no
    /// longer than what has come is not looked at.
    fn recover(&mut self, output: &[&RawValue], sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        for (at, raw) in (0..).zip(output) {
            let head: Head<'_> = read(raw.get())?;
            let id = head.id.as_str();
            let known = self.items.iter().rposition(|i| !id.is_empty() && i.id == id);
            let known = known.or_else(|| self.items.iter().rposition(|i| i.at == at));
            match known {
                Some(place) if self.items.get(place).is_some_and(|i| !i.done) => {
                    self.finish_item(place, raw.get(), sink)?;
                }
                Some(place) => {
                    // An encrypted form belongs to the item of its name.
                    let same = |item: &&mut Item| head.kind.as_str() == "reasoning" && item.id == id;
                    if let Some(item) = self.items.get_mut(place).filter(same) {
                        item.reseal(read::<Spoken<'_>>(raw.get())?.encrypted_content.as_str());
                    }
                }
                None if self.items.len() >= output.len() => {}
                None => self.end(Some(at), raw, sink)?,
            }
        }
        Ok(())
    }

    /// Reads an event, mended where half a character stands in it.
    fn read_event(&mut self, frame: Frame<'_>, sink: &mut EventSink<'_>) -> Result<Flow, ProviderError> {
        let cause = match serde_json::from_str::<Event<'_>>(frame.data) {
            Ok(event) => return self.event(frame, &event, sink),
            Err(cause) => cause,
        };
        if Surrogates::suspected(frame.data) {
            let mended = self.surrogates.mend(frame.data);
            if let Ok(event) = serde_json::from_str::<Event<'_>>(&mended) {
                return self.event(Frame { data: &mended, ..frame }, &event, sink);
            }
        }
        Err(error::unreadable(cause))
    }
}

impl Decode for Decoder {
    fn push(&mut self, frame: Frame<'_>, sink: &mut EventSink<'_>) -> Result<Flow, ProviderError> {
        if self.usual(frame.data, sink) {
            return Ok(Flow::More);
        }
        let data = frame.data.trim();
        if data.is_empty() || data == DONE {
            return Ok(Flow::More);
        }
        self.read_event(Frame { data, ..frame }, sink)
    }

    fn whole(&mut self, body: &str, sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        let body = &*self.surrogates.mend_whole(body);
        let response: Response<'_> = read(body)?;
        if response.output.is_none() {
            return Err(match response.error {
                Some(_) => error::event(body),
                None => error::no_output(),
            });
        }
        self.terminal("", &response, sink)
    }

    fn finish(&mut self, sink: &mut EventSink<'_>) -> Result<Completion, ProviderError> {
        let Some(ending) = self.ending.take() else {
            self.seal(sink);
            return Err(error::cut());
        };
        for item in &mut self.items {
            if !item.done {
                if matches!(item.kind, Kind::Opaque { .. }) {
                    sink(StreamEvent::Unrecognised { name: "an item that never came whole" });
                } else {
                    item.end(&Spoken::default(), Map::new(), &mut self.numbers, sink);
                }
            }
        }
        self.seal(sink);
        let called = self.items.iter().any(|item| matches!(item.kind, Kind::Call(_)));
        ending.completion(&self.refusal, called)
    }
}

/// The place in the list that a text belongs to.
fn number(list: List, event: &Event<'_>) -> u64 {
    match list {
        List::Summary => event.summary_index.0,
        List::Content => event.content_index.0,
    }
}

fn read<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, ProviderError> {
    serde_json::from_str(json).map_err(error::unreadable)
}

/// The members of an item; none of what is no object.
fn object(json: &str) -> Map<String, Value> {
    serde_json::from_str(json).unwrap_or_default()
}

fn member<'m>(item: &'m Map<String, Value>, name: &str) -> &'m str {
    item.get(name).and_then(Value::as_str).unwrap_or_default()
}
