//! The items of the output: assigns events to items and records which parts have been emitted.

mod whole;

pub(super) use whole::Cut;

use agent_core::provider::{MAX_REPLY_BLOCKS, ReplyLimit};
use agent_core::{ErrorKind, EventSink, ModelRequest, ProviderError, StreamEvent, TOOL_SEARCH};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::item::{Call, Item, Kind, Numbers, Seal};
use super::parts::{List, Parts, Said};
use super::read;
use crate::call_ids::CallIds;
use crate::openai_responses::local_tools::{LocalCall, LocalForm, LocalForms};
use crate::openai_responses::wire::{Event, Head, Part};
use crate::openai_responses::{error, search};
use crate::prompt_usage::Reply;
use crate::server_tools::ServerCalls;

/// The size of a refusal, in bytes, beyond which further pieces are dropped.
const MAX_REFUSAL: usize = 64 * 1_024;

/// The position of an item, and of a block in it.
pub(super) type Place = (usize, usize);

/// The part of the output that an event concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
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

/// The items of a reply so far.
#[derive(Debug)]
pub(super) struct Output {
    /// No item is removed, so that its position identifies it.
    items: Vec<Item>,
    numbers: Numbers,
    ids: CallIds,
    refusal: String,
    /// The kinds of calls that have a form of their own.
    local: LocalForms,
    /// The calls of the vendor's own tools.
    pub(super) calls: ServerCalls,
}

impl Output {
    /// Creates the output of the reply to `request`.
    pub(super) fn new(request: &ModelRequest) -> Self {
        Self {
            items: Vec::new(),
            numbers: Numbers::default(),
            ids: CallIds::new(&request.history),
            refusal: String::new(),
            local: LocalForms::of(request),
            calls: ServerCalls::default(),
        }
    }

    /// Returns whether an event reports the progress of an item whose last event will contain it completely.
    pub(super) fn is_progress(&self, event: &Event<'_>) -> bool {
        let of = |item: &&Item| match event.output_index {
            Some(at) => item.at == at.0,
            None => item.id == event.item_id.as_str(),
        };
        self.items.iter().rfind(of).is_some_and(|item| item.kind.is_whole_at_end())
    }

    /// Returns the position of the item that an event concerns. Opens an item that the server has not announced.
    /// Returns `None` if the item does not accept such an event, which is reported as unrecognised.
    ///
    /// # Errors
    /// Returns an error if the event does not identify one of several open items.
    fn resolve(
        &mut self,
        wants: Wants,
        event: &Event<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<Option<usize>, ProviderError> {
        let found = match self.find(event, |item| !item.done && wants.is(&item.kind)) {
            Some(place) => Some(place),
            None if event.output_index.is_none() && self.find(event, |_| true).is_none() => {
                self.only_open(wants)?
            }
            None => None,
        };
        if found.is_some() {
            return Ok(found);
        }
        let id = event.item_id.as_str();
        // Some servers give two items one number. An item of another kind and name under this number is another item.
        let taken = |item: &Item| id.is_empty() || item.id == id || wants.is(&item.kind);
        if self.find(event, taken).is_some() {
            sink(StreamEvent::Unrecognised { name: "an event of an item that does not take it" });
            return Ok(None);
        }
        let at = event.output_index.map_or_else(|| self.next_at(), |at| at.0);
        let kind = match wants {
            Wants::Message => Kind::Message { texts: Parts::default() },
            Wants::Reasoning => self.reasoning(),
            Wants::Call => self.call(event.call_id.as_str(), event.name.as_str(), sink),
        };
        self.open(at, id, kind).map(Some)
    }

    /// Returns the item that an event names and that fits: by number and name, otherwise by name, otherwise by number.
    fn find(&self, event: &Event<'_>, fits: impl Fn(&Item) -> bool) -> Option<usize> {
        let id = event.item_id.as_str();
        let named = |item: &Item| !id.is_empty() && item.id == id;
        let place = |of: &dyn Fn(&Item) -> bool| self.items.iter().rposition(|item| of(item) && fits(item));
        match event.output_index {
            Some(at) => place(&|item| item.at == at.0 && named(item))
                .or_else(|| place(&named))
                .or_else(|| place(&|item| item.at == at.0)),
            None => place(&named),
        }
    }

    /// Records that the server has announced a part of an item.
    pub(super) fn announce(&mut self, list: List, event: &Event<'_>) {
        // A refusal is no text.
        if event.part.as_ref().is_some_and(|part| part.kind.as_str() == "refusal") {
            return;
        }
        if let Some(item) = self.find(event, |item| !item.done).and_then(|place| self.items.get_mut(place)) {
            item.announce(list);
        }
    }

    /// Returns the only open item of a kind, for an event that does not name one.
    fn only_open(&self, wants: Wants) -> Result<Option<usize>, ProviderError> {
        let mut open = (0..).zip(&self.items).filter(|(_, i)| !i.done && wants.is(&i.kind)).map(|(at, _)| at);
        match (open.next(), open.next()) {
            (Some(_), Some(_)) => Err(error::fail(
                ErrorKind::Network,
                "the stream holds an event that does not say which item of the output it is about",
                None,
            )),
            (only, _) => Ok(only),
        }
    }

    /// Returns the number of an item that the server did not number.
    fn next_at(&self) -> u64 {
        self.items.iter().map(|i| i.at.saturating_add(1)).max().unwrap_or_default()
    }

    fn open(&mut self, at: u64, id: &str, kind: Kind) -> Result<usize, ProviderError> {
        self.check_blocks()?;
        if self.items.len() >= MAX_REPLY_BLOCKS {
            return Err(ReplyLimit::Blocks.into());
        }
        self.items.push(Item { at, id: id.to_owned(), done: false, kind });
        Ok(self.items.len() - 1)
    }

    fn reasoning(&mut self) -> Kind {
        Kind::Reasoning { index: self.numbers.fresh(), texts: Parts::default(), seal: Seal::default() }
    }

    fn call(&mut self, id: &str, name: &str, sink: &mut EventSink<'_>) -> Kind {
        let index = self.numbers.fresh();
        sink(StreamEvent::ToolCallStart { index, id, name });
        Kind::Call(Call {
            index,
            id: id.to_owned(),
            name: name.to_owned(),
            said: Said::default(),
            announced: None,
            awaits_arguments: false,
            local: None,
        })
    }

    /// Opens a call that the agent executes and that has a form of its own.
    fn local_call(&mut self, form: LocalForm, item: &Map<String, Value>, sink: &mut EventSink<'_>) -> Kind {
        let mut kind = self.call(member(item, "call_id"), form.tool_name(), sink);
        if let Kind::Call(call) = &mut kind {
            call.local = Some(LocalCall::new(form, item));
        }
        kind
    }

    /// Emits a piece of a call that has a form of its own. Returns whether the event belongs to one.
    pub(super) fn local_piece(&mut self, event: &Event<'_>, sink: &mut EventSink<'_>) -> bool {
        let item = self.find(event, |item| !item.done).and_then(|place| self.items.get_mut(place));
        item.is_some_and(|item| item.local_piece(event.command_index.0, event.delta.as_str(), sink))
    }

    /// Opens a call that the server announces by a separate event instead of an item.
    pub(super) fn bare_call(
        &mut self,
        event: &Event<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let at = event.output_index.map_or_else(|| self.next_at(), |at| at.0);
        if self.items.iter().any(|i| i.at == at && !i.done) {
            return Ok(());
        }
        let kind = self.call(event.call_id.as_str(), event.name.as_str(), sink);
        self.open(at, event.item_id.as_str(), kind).map(|_| ())
    }

    /// Emits a piece of text and returns its position in the output.
    pub(super) fn text(
        &mut self,
        wants: Wants,
        list: List,
        event: &Event<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<Option<Place>, ProviderError> {
        let Some(place) = self.resolve(wants, event, sink)? else { return Ok(None) };
        self.check_blocks()?;
        let Some(item) = self.items.get_mut(place) else { return Ok(None) };
        let block = item.say(list, number(list, event), event.delta.as_str(), &mut self.numbers, sink);
        Ok(block.map(|block| (place, block)))
    }

    /// Emits a piece of arguments and returns its position in the output.
    pub(super) fn arguments(
        &mut self,
        event: &Event<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<Option<Place>, ProviderError> {
        let Some(place) = self.resolve(Wants::Call, event, sink)? else { return Ok(None) };
        self.more((place, 0), event.delta.as_str(), sink);
        Ok(Some((place, 0)))
    }

    /// Emits the part of the whole arguments that did not arrive in pieces.
    pub(super) fn whole_arguments(
        &mut self,
        event: &Event<'_>,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let whole = event.arguments.filled().or(event.input.filled());
        if let Some(whole) = whole
            && let Some(place) = self.resolve(Wants::Call, event, sink)?
            && let Some(item) = self.items.get_mut(place)
        {
            item.fill_call(whole, sink);
        }
        Ok(())
    }

    /// Emits a piece of text of an open item. Returns whether the item is open.
    pub(super) fn more(&mut self, (item, block): Place, delta: &str, sink: &mut EventSink<'_>) -> bool {
        let open = self.items.get_mut(item).filter(|item| !item.done);
        open.is_some_and(|item| item.more(block, delta, sink))
    }

    fn check_blocks(&self) -> Result<(), ProviderError> {
        let blocks = usize::try_from(self.numbers.count()).unwrap_or(usize::MAX);
        if blocks < MAX_REPLY_BLOCKS { Ok(()) } else { Err(ReplyLimit::Blocks.into()) }
    }

    /// Emits the part of a whole text that did not arrive in pieces.
    pub(super) fn whole_text(
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

    /// Emits the rest of a whole part of a message or of reasoning.
    pub(super) fn whole_part(
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

    /// Stores a piece of a refusal.
    pub(super) fn refuse(&mut self, delta: &str) {
        if self.refusal.len() < MAX_REFUSAL {
            self.refusal.push_str(delta);
        }
    }

    /// Stores a whole refusal.
    pub(super) fn refused(&mut self, whole: &str) {
        if whole.len() > self.refusal.len() {
            whole.clone_into(&mut self.refusal);
        }
    }

    /// Returns the refusal of the model. It is empty if the model did not refuse.
    pub(super) fn refusal(&self) -> &str {
        &self.refusal
    }

    /// Returns what the reply contains.
    pub(super) fn reply(&self) -> Reply {
        let thinks = |item: &Item| match &item.kind {
            Kind::Reasoning { .. } => true,
            Kind::Message { texts } => texts.is_empty(),
            Kind::Call(_) | Kind::Opaque { .. } => false,
        };
        if self.items.iter().all(thinks) { Reply::OnlyThinking } else { Reply::Visible }
    }

    /// Returns whether the reply contains calls and all of them have ended.
    pub(super) fn called_whole(&self) -> bool {
        let mut calls = self.items.iter().filter(|item| matches!(item.kind, Kind::Call(_))).peekable();
        calls.peek().is_some() && calls.all(|item| item.done)
    }

    /// Returns whether the reply contains a call.
    pub(super) fn called(&self) -> bool {
        self.items.iter().any(|item| matches!(item.kind, Kind::Call(_)))
    }

    /// Opens an item at its first event.
    pub(super) fn begin(
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
            "message" => Kind::Message { texts: Parts::default() },
            "reasoning" => self.reasoning(),
            "function_call" | "custom_tool_call" => {
                let item = object(item.get());
                let mut kind = self.call(member(&item, "call_id"), member(&item, "name"), sink);
                if let Kind::Call(call) = &mut kind {
                    call.announced = whole::arguments(&item).map(String::into_boxed_str);
                }
                kind
            }
            search::CALL if member(&object(item.get()), "execution") == "client" => {
                self.call(member(&object(item.get()), "call_id"), TOOL_SEARCH, sink)
            }
            _ => {
                let item = object(item.get());
                match self.local.of_item(&item) {
                    Some(form) => self.local_call(form, &item, sink),
                    None => {
                        let index = self.numbers.fresh();
                        self.calls.begin_item(index, &Value::Object(item), sink);
                        Kind::Opaque { index }
                    }
                }
            }
        };
        self.open(at, id, kind).map(|_| ())
    }
}

/// Returns the position of a text in its list.
fn number(list: List, event: &Event<'_>) -> u64 {
    match list {
        List::Summary => event.summary_index.0,
        List::Content => event.content_index.0,
    }
}

/// Returns the members of an item, or none if it is not an object.
fn object(json: &str) -> Map<String, Value> {
    serde_json::from_str(json).unwrap_or_default()
}

fn member<'m>(item: &'m Map<String, Value>, name: &str) -> &'m str {
    item.get(name).and_then(Value::as_str).unwrap_or_default()
}
