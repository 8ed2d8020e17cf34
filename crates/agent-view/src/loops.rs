//! Reads the events of a loop into turns.

use std::collections::BTreeSet;

use agent_core::{
    AgentEvent, AgentMessage, AssistantMessage, Ended, Message, Timestamp, ToolExecutionEnd, TurnTrigger,
    Usage,
};
use agent_session::{LoopRecord, RecordedEvent};
use serde::Serialize;

use crate::costs::{Amount, Prices, Tokens};
use crate::items::notes::{Note, NoteKind, Tone};
use crate::items::{Item, ToolResult};

/// A loop as the page shows it. It borrows the content of the session.
#[derive(Debug)]
pub(crate) struct LoopView<'s> {
    /// What happened before the first turn.
    pub(crate) before: Vec<Item<'s>>,
    pub(crate) turns: Vec<TurnView<'s>>,
    /// The tokens of the tools of the loop, such as sub-agents.
    pub(crate) tool_usage: Usage,
}

/// A turn with its figures.
#[derive(Debug, Serialize)]
pub(crate) struct TurnView<'s> {
    by: &'static str,
    #[serde(skip)]
    pub(crate) start: u64,
    #[serde(skip)]
    pub(crate) end: Option<u64>,
    #[serde(skip)]
    pub(crate) usage: Usage,
    #[serde(skip)]
    pub(crate) cost: Amount,
    #[serde(rename = "i")]
    pub(crate) items: Vec<Item<'s>>,
}

/// The figures of a turn in the index of the page.
#[derive(Debug, Serialize)]
pub(crate) struct TurnFigures {
    /// The start and the end.
    a: u64,
    z: Option<u64>,
    /// The time of the last reply, and that when the first tool began after it.
    m: Option<u64>,
    f: Option<u64>,
    u: Tokens,
    c: Amount,
    /// The number of tool calls, and of those that failed.
    k: usize,
    e: usize,
}

impl TurnView<'_> {
    fn new(start: Timestamp, trigger: TurnTrigger) -> Self {
        let by = match trigger {
            TurnTrigger::User => "user",
            TurnTrigger::SubAgent => "sub-agent",
            TurnTrigger::Continuation => "continuation",
            TurnTrigger::Branch => "branch",
            _ => "unknown",
        };
        Self {
            by,
            start: start.0,
            end: None,
            usage: Usage::default(),
            cost: Amount::default(),
            items: Vec::new(),
        }
    }

    pub(crate) fn results(&self) -> impl Iterator<Item = &ToolResult<'_>> {
        self.items.iter().filter_map(|item| match item {
            Item::Result(result) => Some(result),
            _ => None,
        })
    }

    /// Returns the time of the last reply that is in the conversation. The run sets it when the reply has ended.
    fn reply_time(&self) -> Option<u64> {
        self.items.iter().rev().find_map(|item| match item {
            Item::Reply(reply) if !reply.old => Some(reply.t).filter(|time| *time > 0),
            _ => None,
        })
    }

    pub(crate) fn figures(&self) -> TurnFigures {
        TurnFigures {
            a: self.start,
            z: self.end,
            m: self.reply_time(),
            f: self.results().filter_map(ToolResult::began).min(),
            u: Tokens(self.usage),
            c: self.cost,
            k: self.results().count(),
            e: self.results().filter(|result| result.err).count(),
        }
    }
}

impl<'s> LoopView<'s> {
    pub(crate) fn of(record: &'s LoopRecord, prices: &'s Prices) -> Self {
        let mut reader = Reader {
            record,
            prices,
            view: Self { before: Vec::new(), turns: Vec::new(), tool_usage: Usage::default() },
            ends: Vec::new(),
            model: record.config.model.as_str(),
        };
        let has_messages =
            record.events.iter().any(|e| matches!(e.known(), Some(AgentEvent::MessageEnd { .. })));
        if has_messages || record.messages.is_empty() {
            for event in &record.events {
                match &event.event {
                    RecordedEvent::Known(event) => reader.event(event),
                    RecordedEvent::Foreign(data) => reader.push(Item::Note(Note::foreign(data))),
                    _ => {}
                }
            }
        } else {
            reader.without_events();
        }
        reader.add_lost_results();
        reader.view
    }

    /// Returns the notes of the loop, each with the number of its turn.
    pub(crate) fn notes(&self) -> impl Iterator<Item = (Option<usize>, &Note<'s>)> {
        let before = self.before.iter().map(|item| (None, item));
        let turns = self.turns.iter().enumerate();
        let inside = turns.flat_map(|(at, turn)| turn.items.iter().map(move |item| (Some(at), item)));
        before.chain(inside).filter_map(|(turn, item)| match item {
            Item::Note(note) => Some((turn, note)),
            _ => None,
        })
    }
}

/// The state while the events of a loop are read.
struct Reader<'s> {
    record: &'s LoopRecord,
    prices: &'s Prices,
    view: LoopView<'s>,
    /// The ends of calls in the current turn.
    ends: Vec<&'s ToolExecutionEnd>,
    /// The model of the last reply.
    model: &'s str,
}

impl<'s> Reader<'s> {
    fn push(&mut self, item: Item<'s>) {
        match self.view.turns.last_mut() {
            Some(turn) => turn.items.push(item),
            None => self.view.before.push(item),
        }
    }

    fn note(&mut self, note: Note<'s>) {
        self.push(Item::Note(note));
    }

    fn event(&mut self, event: &'s AgentEvent) {
        match event {
            AgentEvent::InputRejected { reason, .. } => self.note(Note::rejected(reason)),
            AgentEvent::TurnStart { timestamp, triggered_by, .. } => {
                self.add_lost_results();
                self.view.turns.push(TurnView::new(*timestamp, *triggered_by));
            }
            AgentEvent::MessageEnd { message, superseded, .. } => self.message(message, *superseded),
            AgentEvent::ToolExecutionEnd(end) => self.ends.push(end),
            AgentEvent::QuestionAsked { question, .. } => self.note(Note::asked(question)),
            AgentEvent::QuestionAnswered { question_id, answer, .. } => {
                self.note(Note::answered(question_id.as_str(), answer));
            }
            AgentEvent::RetryStart(retry) => self.note(Note::retry(retry)),
            AgentEvent::RouteChanged(change) => self.note(Note::route(change)),
            AgentEvent::TransportFallback(fallback) => self.note(Note::transport(fallback)),
            AgentEvent::TurnContinued { continuation, max_continuations, .. } => {
                self.note(Note::continued(*continuation, *max_continuations));
            }
            AgentEvent::Budget(event) => {
                if let Some(note) = Note::budget(event) {
                    self.note(note);
                }
            }
            AgentEvent::CacheBroken(broken) => {
                let prices = self.prices.of(self.model, &self.record.config);
                self.note(Note::cache(broken, prices));
            }
            AgentEvent::JournalWarning { warning, .. } => self.note(Note::warning(warning)),
            AgentEvent::ModelUnknown(unknown) => self.note(Note::unknown_model(unknown)),
            AgentEvent::CompactionStarted { reason, estimated_tokens, message_count, .. } => {
                self.note(Note::compaction_begun(*reason, *estimated_tokens, *message_count));
            }
            AgentEvent::CompactionEnded(ended) => self.compaction(ended),
            AgentEvent::TurnEnd { usage, timestamp, .. } => {
                self.add_lost_results();
                if let Some(turn) = self.view.turns.last_mut() {
                    turn.usage = *usage;
                    turn.end = Some(timestamp.0);
                }
            }
            AgentEvent::AgentEnd(end) => self.view.tool_usage = end.tool_usage,
            _ => {}
        }
    }

    /// Adds a compaction. It replaces the note of its start.
    fn compaction(&mut self, ended: &'s agent_core::CompactionEnded) {
        let items = match self.view.turns.last_mut() {
            Some(turn) => &mut turn.items,
            None => &mut self.view.before,
        };
        let begun = items.iter().rposition(
            |item| matches!(item, Item::Note(note) if note.kind == NoteKind::Compaction && note.tone == Tone::Warn),
        );
        if let Some(begun) = begun {
            items.remove(begun);
        }
        items.push(Item::Note(Note::compaction(ended)));
    }

    fn message(&mut self, message: &'s AgentMessage, superseded: bool) {
        let mut cost = Amount::default();
        if let Some(reply) = reply(message) {
            self.model = &reply.model;
            cost.add_reply(reply, self.prices.of(&reply.model, &self.record.config));
            if let Some(turn) = self.view.turns.last_mut() {
                turn.cost.add(cost);
            }
        }
        if let Some(item) = Item::of(message, cost, superseded) {
            self.push(item);
        }
    }

    /// Adds the results of ended calls that have no message: the run was cut off before all calls of the reply had ended.
    fn add_lost_results(&mut self) {
        let ends = std::mem::take(&mut self.ends);
        let Some(turn) = self.view.turns.last_mut() else { return };
        let known: BTreeSet<String> = turn.results().map(|result| result.id.to_owned()).collect();
        let lost = ends.into_iter().filter(|end| !known.contains(end.tool_call_id.as_str()));
        turn.items.extend(lost.map(|end| Item::Result(ToolResult::of_end(end))));
    }

    /// Reads the turns of a record that has messages and no events.
    fn without_events(&mut self) {
        let record = self.record;
        let mut seen = BTreeSet::new();
        for turn in &record.turns {
            let mut view = TurnView::new(turn.started_at, turn.triggered_by);
            view.end = turn.ended_at.map(|time| time.0);
            view.usage = turn.usage;
            self.view.turns.push(view);
            let places =
                turn.input_messages.iter().chain(turn.output_message.iter()).chain(&turn.tool_results);
            for at in places {
                if let Some(message) = record.messages.get(*at)
                    && seen.insert(*at)
                {
                    self.message(message, false);
                }
            }
        }
        for (at, message) in record.messages.iter().enumerate() {
            if !seen.contains(&at)
                && let Some(item) = Item::of(message, Amount::default(), false)
            {
                self.view.before.push(item);
            }
        }
    }
}

fn reply(message: &AgentMessage) -> Option<&AssistantMessage> {
    message.as_llm().and_then(Message::as_assistant)
}

/// Returns why a loop ended, for every end but a completed run.
pub(crate) fn end_text(record: &LoopRecord) -> Option<String> {
    match record.ended.as_ref()? {
        Ended::Completed => None,
        Ended::Vetoed { reason } | Ended::TurnVetoed { reason } => {
            Some(format!("A hook stopped the run: {reason}"))
        }
        Ended::InputRejected { reason } => Some(format!("An input filter rejected the prompt: {reason}")),
        Ended::Limit { reason } => Some(format!("A limit stopped the run: {reason}")),
        Ended::Budget { refusal } => Some(format!("The budget stopped the run: {refusal}")),
        Ended::Aborted => Some("The caller aborted the run.".to_owned()),
        Ended::Error { kind, message } => Some(format!("The model call failed ({kind:?}): {message}")),
        Ended::Interrupted { reason } => Some(format!("The run was interrupted: {reason}")),
        _ => Some("The run ended in a way that this version does not know.".to_owned()),
    }
}

/// Returns the beginning of the first user message on one line.
pub(crate) fn title(record: &LoopRecord) -> String {
    const LONGEST: usize = 120;
    let user = |message: &&agent_core::MessageRef| {
        matches!(message.as_llm(), Some(Message::User(_))) && message.stopped_run_reason().is_none()
    };
    let mut title = String::new();
    let mut length = 0;
    let text = record.messages.iter().find(user).map(|message| message.text()).unwrap_or_default();
    for word in text.split_whitespace() {
        if length > 0 {
            title.push(' ');
        }
        for c in word.chars() {
            if length >= LONGEST {
                title.push('…');
                return title;
            }
            title.push(c);
            length += 1;
        }
    }
    title
}
