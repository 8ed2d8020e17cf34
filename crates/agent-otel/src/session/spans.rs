//! The spans of recorded loops.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use agent_core::event::{SpawningCall, ToolExecutionEnd};
use agent_core::trace::names;
use agent_core::{
    AgentEvent, AssistantMessage, Ended, GroupRole, Message, MessageRef, StopReason, Timestamp, Usage,
};
use agent_session::{LoopRecord, Session};
use opentelemetry::trace::{SpanId, SpanKind, Status, TraceId};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use super::ids;
use super::places::{Place, places};
use crate::content::{self, Content};

/// Returns the spans of these sessions.
pub(super) fn of_sessions(sessions: &[&Session], content: Content) -> Vec<SpanData> {
    let places = places(sessions);
    let mut spans = Vec::new();
    let mut groups: BTreeMap<&str, SpanData> = BTreeMap::new();
    for session in sessions {
        for record in &session.loops {
            let Some(place) = places.get(record.loop_id.as_str()) else { continue };
            let own = LoopSpans::of(record, session, *place, content);
            if let Some(member) = &record.group {
                let group = member.group_id.as_str();
                let (start, end) = (own.start, own.end);
                let span =
                    groups.entry(group).or_insert_with(|| group_span(group, record, place.trace, start));
                span.start_time = span.start_time.min(at(start));
                span.end_time = span.end_time.max(at(end));
            }
            spans.extend(own.spans);
        }
    }
    spans.extend(groups.into_values());
    spans
}

fn group_span(group: &str, record: &LoopRecord, trace: TraceId, start: Timestamp) -> SpanData {
    let attributes = vec![
        KeyValue::new(names::OPERATION, names::INVOKE_WORKFLOW),
        KeyValue::new(names::CONVERSATION, record.session_id.to_string()),
        KeyValue::new(names::GROUP, group.to_owned()),
    ];
    let id = ids::span(group, "group");
    span(Place { trace, above: SpanId::INVALID }, id, names::INVOKE_WORKFLOW, (start, start), attributes)
}

/// The spans of one loop while its events are read.
struct LoopSpans<'a> {
    record: &'a LoopRecord,
    place: Place,
    content: Content,
    start: Timestamp,
    end: Timestamp,
    /// The end of each call whose tool ran, by its id.
    tool_ends: BTreeMap<&'a str, Timestamp>,
    /// The span of the loop is the first one.
    spans: Vec<SpanData>,
    turn: Option<OpenTurn>,
    compaction: Option<(Timestamp, String)>,
}

struct OpenTurn {
    index: u32,
    id: SpanId,
    start: Timestamp,
    attempt: u32,
    /// The time from which the next model call can have been made.
    calls_from: Timestamp,
    /// Whether a retry was announced whose failed reply may follow.
    is_retrying: bool,
    /// The position of the last chat, whose end is that of the turn if no tool ran after it.
    open_chat: Option<usize>,
}

impl<'a> LoopSpans<'a> {
    fn of(record: &'a LoopRecord, session: &Session, place: Place, content: Content) -> Self {
        let messages = record.messages.iter().filter_map(|message| message.as_llm());
        let tool_ends = messages.filter_map(|message| match message {
            Message::ToolResult(result) => Some((result.tool_call_id.as_str(), result.timestamp)),
            _ => None,
        });
        let end = record.ended_at.unwrap_or(session.last_active_at).max(record.started_at);
        let mut own = Self {
            record,
            place,
            content,
            start: record.started_at,
            end,
            tool_ends: tool_ends.collect(),
            spans: Vec::new(),
            turn: None,
            compaction: None,
        };
        let id = ids::span(record.loop_id.as_str(), "loop");
        let attributes = own.loop_attributes(session);
        own.spans.push(span(place, id, &own.loop_name(session), (own.start, end), attributes));
        for event in record.events.iter().filter_map(|event| event.known()) {
            own.follow(event);
        }
        own.close_turn(None, end);
        own
    }

    fn spawned_by(&self, session: &Session) -> Option<String> {
        let started = self.record.events.iter().find_map(|event| match event.known() {
            Some(AgentEvent::AgentStart(start)) => start.spawned_by.as_deref(),
            _ => None,
        });
        let name = |call: &SpawningCall| call.tool_name.to_string();
        let linked = session.parent_spawn_ref.as_ref().map(|link| link.tool_name.to_string());
        started.map(name).or(linked).filter(|name| !name.is_empty())
    }

    fn loop_name(&self, session: &Session) -> String {
        let kind = match self.record.group.as_ref().map(|member| member.role) {
            Some(GroupRole::Branch { .. }) => "branch",
            Some(GroupRole::Judge) => "judge",
            _ => names::INVOKE_AGENT,
        };
        self.spawned_by(session).map_or_else(|| kind.to_owned(), |agent| format!("{kind} {agent}"))
    }

    fn loop_attributes(&self, session: &Session) -> Vec<KeyValue> {
        let (record, config) = (self.record, &self.record.config);
        let mut attributes = vec![
            KeyValue::new(names::OPERATION, names::INVOKE_AGENT),
            KeyValue::new(names::PROVIDER, names::provider(&config.provider).to_owned()),
            KeyValue::new(names::REQUEST_MODEL, config.model.clone()),
            KeyValue::new(names::CONVERSATION, record.session_id.to_string()),
            KeyValue::new(names::AGENT_ID, record.agent_id.to_string()),
            KeyValue::new(names::LOOP, record.loop_id.to_string()),
        ];
        let parent = record.parent_loop_id.as_ref().map(|id| (names::LOOP_PARENT, id.to_string()));
        let agent = self.spawned_by(session).map(|name| (names::AGENT_NAME, name));
        let ended = record.ended.as_ref().map(|ended| (names::LOOP_END, ended.name().to_owned()));
        let failed =
            record.ended.as_ref().filter(|e| matches!(e, Ended::Error { .. } | Ended::Interrupted { .. }));
        let error = failed.map(|ended| (names::ERROR_TYPE, ended.name().to_owned()));
        let more = [parent, agent, ended, error];
        attributes.extend(more.into_iter().flatten().map(|(name, value)| KeyValue::new(name, value)));
        if record.ended_at.is_some() {
            push_usage(&mut attributes, &record.usage);
        }
        attributes
    }

    fn follow(&mut self, event: &'a AgentEvent) {
        match event {
            AgentEvent::TurnStart { turn_index, timestamp, .. } => {
                let id = ids::span(self.record.loop_id.as_str(), &format!("turn-{turn_index}"));
                self.turn = Some(OpenTurn {
                    index: *turn_index,
                    id,
                    start: *timestamp,
                    attempt: 0,
                    calls_from: *timestamp,
                    is_retrying: false,
                    open_chat: None,
                });
            }
            AgentEvent::RetryStart(_) => self.retry(),
            AgentEvent::MessageEnd { message, superseded, .. } => self.reply(message, *superseded),
            AgentEvent::TurnContinued { .. } => {
                if let Some(turn) = &mut self.turn {
                    turn.attempt += 1;
                }
            }
            AgentEvent::ToolExecutionEnd(end) => self.tool(end),
            AgentEvent::CompactionStarted { reason, timestamp, .. } => {
                self.compaction = Some((*timestamp, format!("{reason:?}")));
            }
            AgentEvent::CompactionEnded(ended) => self.compacted(ended.timestamp),
            AgentEvent::TurnEnd { usage, timestamp, .. } => self.close_turn(Some(usage), *timestamp),
            _ => {}
        }
    }

    /// Returns the place below the open turn, or below the loop between turns.
    fn below(&self) -> Place {
        let of_loop = || ids::span(self.record.loop_id.as_str(), "loop");
        Place { above: self.turn.as_ref().map_or_else(of_loop, |turn| turn.id), ..self.place }
    }

    /// Adds the span of a failed call. What arrived of its reply follows, if anything did.
    fn retry(&mut self) {
        let config = &self.record.config;
        let mut attributes = vec![
            KeyValue::new(names::PROVIDER, names::provider(&config.provider).to_owned()),
            KeyValue::new(names::REQUEST_MODEL, config.model.clone()),
            KeyValue::new(names::ERROR_TYPE, names::OTHER_ERROR),
        ];
        self.push_spending(&mut attributes, &Usage::default(), &config.model);
        self.chat(&config.model, attributes);
        if let Some(turn) = &mut self.turn {
            turn.attempt += 1;
            turn.is_retrying = true;
            turn.open_chat = None;
        }
    }

    /// Adds the tokens of a model call, and their cost if the prices of the model are recorded.
    fn push_spending(&self, attributes: &mut Vec<KeyValue>, usage: &Usage, model: &str) {
        push_usage(attributes, usage);
        let prices = self.record.config.prices.as_ref().filter(|_| model == self.record.config.model);
        let dollars = prices.and_then(|prices| names::dollars(usage, prices));
        attributes.extend(dollars.map(|dollars| KeyValue::new(names::COST, dollars)));
    }

    fn reply(&mut self, message: &'a MessageRef, superseded: bool) {
        let Some(reply) = message.as_llm().and_then(Message::as_assistant) else { return };
        let Some(turn) = &mut self.turn else { return };
        let announced = std::mem::take(&mut turn.is_retrying);
        turn.calls_from = turn.calls_from.max(turn.start);
        if superseded && announced {
            // The call has its span already, without what arrived of its reply.
            let mut attributes = Vec::new();
            self.push_spending(&mut attributes, &reply.usage, &reply.model);
            if let Some(span) = self.spans.last_mut() {
                span.attributes.retain(|known| attributes.iter().all(|new| new.key != known.key));
                span.attributes.extend(attributes);
            }
            return;
        }
        let attributes = self.reply_attributes(reply);
        self.chat(&reply.model, attributes);
        if superseded && let Some(turn) = &mut self.turn {
            turn.attempt += 1;
            turn.open_chat = None;
        }
    }

    fn reply_attributes(&self, reply: &AssistantMessage) -> Vec<KeyValue> {
        let mut attributes = vec![
            KeyValue::new(names::PROVIDER, names::provider(&reply.provider).to_owned()),
            KeyValue::new(names::REQUEST_MODEL, reply.model.clone()),
        ];
        self.push_spending(&mut attributes, &reply.usage, &reply.model);
        match reply.stop_reason {
            StopReason::Aborted => attributes.push(KeyValue::new(names::ERROR_TYPE, "aborted")),
            StopReason::Error => attributes.push(KeyValue::new(names::ERROR_TYPE, names::OTHER_ERROR)),
            other => attributes.push(KeyValue::new(names::FINISH_REASONS, names::finish_reason(other))),
        }
        if let Some(id) = &reply.response_id {
            attributes.push(KeyValue::new(names::RESPONSE_ID, id.clone()));
        }
        if self.content == Content::Included {
            let all = self.record.messages.iter().filter_map(|message| message.as_llm());
            let before = all.take_while(|message| message.as_assistant().is_none_or(|other| other != reply));
            attributes.push(KeyValue::new(names::INPUT_MESSAGES, content::messages(before)));
            attributes.push(KeyValue::new(names::OUTPUT_MESSAGES, content::reply(reply)));
        }
        attributes
    }

    /// Adds the span of a model call. Its end becomes known with its tools or the end of the turn.
    fn chat(&mut self, model: &str, more: Vec<KeyValue>) {
        let Some(turn) = &self.turn else { return };
        let step = format!("model-{}.{}", turn.index, turn.attempt);
        let mut attributes = vec![
            KeyValue::new(names::OPERATION, names::CHAT),
            KeyValue::new(names::CONVERSATION, self.record.session_id.to_string()),
            KeyValue::new(names::LOOP, self.record.loop_id.to_string()),
            KeyValue::new(names::STEP, step.clone()),
            KeyValue::new(names::ATTEMPT, i64::from(turn.attempt)),
        ];
        attributes.extend(
            self.record.config.max_tokens.map(|max| KeyValue::new(names::REQUEST_MAX_TOKENS, i64::from(max))),
        );
        attributes.extend(more);
        let id = ids::span(self.record.loop_id.as_str(), &step);
        let times = (turn.calls_from, turn.calls_from);
        let mut chat = span(self.below(), id, &format!("chat {model}"), times, attributes);
        chat.span_kind = SpanKind::Client;
        self.spans.push(chat);
        let position = self.spans.len() - 1;
        if let Some(turn) = &mut self.turn {
            turn.open_chat = Some(position);
        }
    }

    fn tool(&mut self, ended: &ToolExecutionEnd) {
        // A call that was denied or skipped did not run.
        let Some(ran) = ended.duration_ms else { return };
        let id = ended.tool_call_id.as_str();
        let end = self.tool_ends.get(id).copied().unwrap_or(self.end);
        let start = Timestamp(end.0.saturating_sub(ran));
        self.close_chat(start);
        let index = self.turn.as_ref().map_or(0, |turn| turn.index);
        let mut attributes = vec![
            KeyValue::new(names::OPERATION, names::EXECUTE_TOOL),
            KeyValue::new(names::TOOL_NAME, ended.tool_name.to_string()),
            KeyValue::new(names::TOOL_CALL, id.to_owned()),
            KeyValue::new(names::TOOL_TYPE, names::FUNCTION),
            KeyValue::new(names::STEP, format!("tool-{index}-{id}")),
        ];
        if ended.is_error {
            attributes.push(KeyValue::new(names::ERROR_TYPE, names::TOOL_ERROR));
        }
        if self.content == Content::Included {
            attributes.extend(self.arguments(id).map(|text| KeyValue::new(names::TOOL_ARGUMENTS, text)));
            attributes.push(KeyValue::new(names::TOOL_RESULT, content::blocks(&ended.result.content)));
        }
        let own = ids::span(self.record.loop_id.as_str(), id);
        let name = format!("execute_tool {}", ended.tool_name);
        self.spans.push(span(self.below(), own, &name, (start, end), attributes));
    }

    fn arguments(&self, call: &str) -> Option<String> {
        let replies = self.record.messages.iter().filter_map(|m| m.as_llm().and_then(Message::as_assistant));
        let call = replies.flat_map(AssistantMessage::tool_calls).find(|other| other.id.as_str() == call)?;
        call.arguments.value().ok().map(content::value)
    }

    fn compacted(&mut self, end: Timestamp) {
        let Some((start, reason)) = self.compaction.take() else { return };
        let attributes = vec![KeyValue::new(names::COMPACTION_REASON, reason)];
        let id = ids::span(self.record.loop_id.as_str(), &format!("compaction-{}", self.spans.len()));
        self.spans.push(span(self.below(), id, "compaction", (start, end), attributes));
        if let Some(turn) = &mut self.turn {
            turn.calls_from = turn.calls_from.max(end);
        }
    }

    fn close_chat(&mut self, end: Timestamp) {
        let open = self.turn.as_ref().and_then(|turn| turn.open_chat);
        if let Some(chat) = open.and_then(|position| self.spans.get_mut(position)) {
            let first = chat.end_time == chat.start_time;
            let end = at(end).max(chat.start_time);
            chat.end_time = if first { end } else { chat.end_time.min(end) };
        }
    }

    fn close_turn(&mut self, usage: Option<&Usage>, end: Timestamp) {
        let Some(turn) = &self.turn else { return };
        let is_open = |chat: &SpanData| chat.end_time == chat.start_time;
        if turn.open_chat.and_then(|position| self.spans.get(position)).is_some_and(is_open) {
            self.close_chat(end);
        }
        let Some(turn) = self.turn.take() else { return };
        let mut attributes = vec![KeyValue::new(names::TURN, i64::from(turn.index))];
        if let Some(usage) = usage {
            push_usage(&mut attributes, usage);
        }
        let place = self.below();
        self.spans.push(span(place, turn.id, "turn", (turn.start, end.max(turn.start)), attributes));
    }
}

fn push_usage(attributes: &mut Vec<KeyValue>, usage: &Usage) {
    let counts = [
        (names::INPUT_TOKENS, usage.prompt_tokens()),
        (names::OUTPUT_TOKENS, usage.output),
        (names::CACHE_READ, usage.cache_read),
        (names::CACHE_WRITE, usage.cache_write),
        (names::REASONING, usage.reasoning),
    ];
    let signed = |count: u64| Value::I64(i64::try_from(count).unwrap_or(i64::MAX));
    attributes.extend(counts.map(|(name, count)| KeyValue::new(name, signed(count))));
}

fn at(time: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(time.0)
}

fn span(
    place: Place,
    id: SpanId,
    name: &str,
    (start, end): (Timestamp, Timestamp),
    attributes: Vec<KeyValue>,
) -> SpanData {
    SpanData {
        span_context: ids::context(place.trace, id),
        parent_span_id: place.above,
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: Cow::Owned(name.to_owned()),
        start_time: at(start),
        end_time: at(end),
        attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::builder("looptree")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build(),
    }
}
