//! Explanations of what happened besides messages: cache breaks, compactions, retries, questions, budgets.

use agent_core::event::{JournalWarning, RouteChange, TransportFallback, UnknownModel};
use agent_core::{
    Answer, BudgetEvent, BudgetNote, CacheBreak, CacheBreakCause, CompactionEnded, CompactionReason,
    CostConfig, Question, RetryNote, Spending,
};
use serde::Serialize;
use serde_json::Value;

use super::Item;
use crate::costs::Amount;

/// The kind of a note, by which the page marks and counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NoteKind {
    Cache,
    Compaction,
    Retry,
    Route,
    Question,
    Budget,
    Error,
    Other,
}

/// How a note is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tone {
    Info,
    Good,
    Warn,
    Bad,
}

/// An explanation at the place where something happened.
#[derive(Debug, Serialize)]
pub(crate) struct Note<'s> {
    pub(crate) kind: NoteKind,
    pub(crate) tone: Tone,
    pub(crate) title: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    facts: Vec<(&'static str, String)>,
    /// The call that a question is about: its tool and its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<(&'s str, &'s str)>,
    /// The messages that a compaction inserted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inserted: Vec<Item<'s>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'s Value>,
}

impl<'s> Note<'s> {
    pub(crate) fn new(kind: NoteKind, tone: Tone, title: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            kind,
            tone,
            title: title.into(),
            text: text.into(),
            facts: Vec::new(),
            call: None,
            inserted: Vec::new(),
            data: None,
        }
    }

    /// Returns the note of a run that a limit or a budget stopped. In the conversation it is a message, which the user did
    /// not write.
    pub(crate) fn stopped(reason: &str) -> Self {
        let text = format!("{reason}. The model reads this reason as a message in the conversation.");
        Self::new(NoteKind::Other, Tone::Warn, "The run was stopped", text)
    }

    /// Returns the note on one line.
    pub(crate) fn summary(&self) -> String {
        const LONGEST: usize = 200;
        let is_in_text = matches!(
            self.kind,
            NoteKind::Question | NoteKind::Retry | NoteKind::Route | NoteKind::Budget | NoteKind::Error
        );
        if !is_in_text || self.text.is_empty() {
            return self.title.clone();
        }
        let text: String = self.text.chars().take(LONGEST).collect();
        format!("{}: {}", self.title, text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    fn fact(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.facts.push((name, value.into()));
        self
    }

    /// Explains a cache break. `prices` are those of the model that was called.
    pub(crate) fn cache(broken: &CacheBreak, prices: Option<&CostConfig>) -> Self {
        let (title, text) = cause(&broken.cause);
        let tone = if broken.intended { Tone::Info } else { Tone::Warn };
        let tokens = broken.rebilled_tokens;
        let mut note = Self::new(NoteKind::Cache, tone, format!("Cache break: {title}"), text)
            .fact("billed again", format!("about {} tokens", grouped(tokens)));
        if let Some(extra) = prices.and_then(|prices| extra_cost(tokens, prices)) {
            note = note.fact("extra cost", format!("about {}", dollars(extra)));
        }
        if !broken.field.is_empty() {
            note = note.fact("first difference", broken.field.clone());
        }
        if let Some(byte) = broken.byte {
            note = note.fact("byte", grouped(byte));
        }
        if let Some(figures) = broken.reported {
            note = note.fact(
                "cache reported",
                format!(
                    "{} tokens read of {} expected, {} written",
                    grouped(figures.read),
                    grouped(figures.expected),
                    grouped(figures.written)
                ),
            );
        }
        if let Some(vendor) = &broken.vendor {
            note = note.fact("vendor's reason", vendor.reason.clone());
        }
        note.fact("intended", if broken.intended { "yes" } else { "no" })
    }

    pub(crate) fn compaction_begun(reason: CompactionReason, tokens: u64, messages: usize) -> Self {
        Self::new(NoteKind::Compaction, Tone::Warn, "Compaction did not end", reason_text(reason))
            .fact("context", format!("about {} tokens in {messages} messages", grouped(tokens)))
    }

    pub(crate) fn compaction(ended: &'s CompactionEnded) -> Self {
        let (before, after) = (ended.estimated_tokens_before, ended.estimated_tokens_after);
        let title = format!(
            "Compaction: {} messages became {}, about {} tokens became {}",
            ended.messages_before,
            ended.messages_after,
            grouped(before),
            grouped(after)
        );
        let mut note = Self::new(NoteKind::Compaction, Tone::Info, title, reason_text(ended.reason));
        for splice in &ended.splices {
            let range = match splice.to.saturating_sub(splice.from) {
                0 => format!("nothing before message {}", splice.from.saturating_add(1)),
                1 => format!("message {}", splice.from.saturating_add(1)),
                _ => format!("messages {} to {}", splice.from.saturating_add(1), splice.to),
            };
            let by = match splice.messages.len() {
                0 => "removed".to_owned(),
                1 => "replaced by 1 message".to_owned(),
                n => format!("replaced by {n} messages"),
            };
            note = note.fact("change", format!("{range}: {by}"));
            let inserted = splice.messages.iter();
            note.inserted
                .extend(inserted.filter_map(|entry| Item::of(entry.message(), Amount::default(), false)));
        }
        if !ended.usage.is_zero() {
            let (input, output) = (ended.usage.prompt_tokens(), ended.usage.output);
            note = note.fact(
                "tokens of the strategy",
                format!("{} in, {} out, not included in the turn", grouped(input), grouped(output)),
            );
        }
        if let Some(error) = &ended.fallback {
            note.tone = Tone::Warn;
            note = note.fact("the strategy failed, the default one was used", error.clone());
        }
        note
    }

    pub(crate) fn retry(retry: &RetryNote) -> Self {
        let title = format!("Retry {} of {}", retry.attempt, retry.max_attempts);
        Self::new(NoteKind::Retry, Tone::Warn, title, retry.error.clone().unwrap_or_default())
            .fact("delay", format!("{} ms", grouped(retry.delay_ms)))
    }

    pub(crate) fn route(change: &RouteChange) -> Self {
        let title = format!(
            "Fallback: {}/{} instead of {}/{}",
            change.to.provider, change.to.model, change.from.provider, change.from.model
        );
        Self::new(NoteKind::Route, Tone::Warn, title, change.error.clone())
            .fact("kind of the failure", format!("{:?}", change.kind))
    }

    pub(crate) fn transport(fallback: &TransportFallback) -> Self {
        let title = format!("Transport: {} instead of {}", fallback.to, fallback.from);
        Self::new(NoteKind::Route, Tone::Info, title, fallback.reason.clone())
    }

    pub(crate) fn continued(number: u32, max: u32) -> Self {
        let title = format!("The vendor paused the reply: request {number} of at most {max} continues it");
        Self::new(NoteKind::Other, Tone::Info, title, "")
    }

    pub(crate) fn asked(question: &'s Question) -> Self {
        let mut note =
            Self::new(NoteKind::Question, Tone::Warn, "Question to the user", question.text.clone());
        note.call = question.call.as_deref().map(|call| (call.name.as_str(), call.arguments.text()));
        if let Some(directory) = question.tool.as_deref().and_then(|tool| tool.directory.clone()) {
            note = note.fact("directory", directory);
        }
        if let Some(refusal) = &question.budget {
            note = note.fact("limit", refusal.to_string());
        }
        note.fact("id", question.id.as_str())
    }

    pub(crate) fn answered(id: &str, answer: &'s Answer) -> Self {
        let (tone, title, text) = match answer {
            Answer::Allow => (Tone::Good, "Allowed", String::new()),
            Answer::AllowWith(_) => (Tone::Good, "Allowed with other arguments", String::new()),
            Answer::Raise { by } => (Tone::Good, "The limit was raised", spending(by)),
            Answer::Deny { reason } => (Tone::Bad, "Denied", reason.clone()),
            _ => (Tone::Info, "Answered", String::new()),
        };
        let mut note = Self::new(NoteKind::Question, tone, title, text).fact("question", id);
        if let Answer::AllowWith(arguments) = answer {
            note.data = Some(arguments);
        }
        note
    }

    /// Explains a change of a budget; `None` for reservations and charges, which every call has.
    pub(crate) fn budget(event: &BudgetEvent) -> Option<Self> {
        match &event.note {
            BudgetNote::Refused { refusal } => {
                let note =
                    Self::new(NoteKind::Budget, Tone::Bad, "The budget denied a call", refusal.to_string());
                Some(note.fact("step", event.step.as_str()).fact("spent", spending(&event.spent)))
            }
            BudgetNote::Raised { by } => {
                let title = format!("The budget was raised by {}", spending(by));
                Some(Self::new(NoteKind::Budget, Tone::Good, title, ""))
            }
            _ => None,
        }
    }

    pub(crate) fn rejected(reason: &str) -> Self {
        Self::new(NoteKind::Error, Tone::Bad, "The prompt was rejected", reason)
    }

    pub(crate) fn warning(warning: &JournalWarning) -> Self {
        Self::new(NoteKind::Other, Tone::Warn, "Warning of the journal", warning.to_string())
    }

    pub(crate) fn unknown_model(unknown: &UnknownModel) -> Self {
        Self::new(NoteKind::Other, Tone::Info, "Facts about the model are unknown", unknown.to_string())
    }

    pub(crate) fn foreign(data: &'s Value) -> Self {
        let mut note = Self::new(
            NoteKind::Other,
            Tone::Info,
            "An event of another version",
            "This version does not know the kind of the event.",
        );
        note.data = Some(data);
        note
    }
}

fn reason_text(reason: CompactionReason) -> &'static str {
    match reason {
        CompactionReason::Budget => {
            "The conversation had become longer than the limit of its context, so older messages were replaced by something shorter."
        }
        CompactionReason::Overflow => {
            "The provider rejected the request as too long, so older messages were replaced by something shorter."
        }
        CompactionReason::RefusedFile => {
            "The provider refused a picture, a document or a recording, so a sentence replaced it."
        }
        _ => "Older messages were replaced by something shorter.",
    }
}

/// Returns what broke the cache, and what to do about it.
fn cause(cause: &CacheBreakCause) -> (String, String) {
    let (title, text): (String, String) = match cause {
        CacheBreakCause::SystemPrompt => (
            "the system prompt changed".into(),
            "Everything behind the change was billed again. Move dates, counters and changing lists from the system prompt to the message.".into(),
        ),
        CacheBreakCause::Tools { added, removed, changed, reordered } => {
            let list = |what: &str, names: &[String]| {
                (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
            };
            let parts = [list("added", added), list("removed", removed), list("changed", changed)];
            let mut parts: Vec<String> = parts.into_iter().flatten().collect();
            if *reordered {
                parts.push("in another order".to_owned());
            }
            (
                format!("the tools changed ({})", parts.join("; ")),
                "Tools precede the conversation in a request. Add tools at the end and keep their order, or append the changes.".into(),
            )
        }
        CacheBreakCause::Setting { name } => (
            format!("the setting {name} changed"),
            "The setting is a part of the prompt. Keep it the same within a conversation.".into(),
        ),
        CacheBreakCause::History => (
            "an old message changed".into(),
            "A past message was edited, removed or inserted, so everything behind it was billed again.".into(),
        ),
        CacheBreakCause::ContextHook => (
            "a hook changed past messages".into(),
            "transform_context or convert_to_llm returned another history. Append new messages, and return unchanged ones as they are.".into(),
        ),
        CacheBreakCause::Compaction => (
            "the conversation was compacted".into(),
            "The break is intended: a compaction changes the beginning of the conversation to make it shorter.".into(),
        ),
        CacheBreakCause::ModelSwitched { from, to } => (
            format!("the model changed from {from} to {to}"),
            "The cache of the new model does not contain this conversation.".into(),
        ),
        CacheBreakCause::Expired { lifetime_seconds, idle_seconds } => (
            format!("the cache expired after {} s", grouped(*lifetime_seconds)),
            format!(
                "The conversation paused for {} s, which is longer than the vendor keeps its cache. A longer lifetime helps if such pauses are common.",
                grouped(*idle_seconds)
            ),
        ),
        _ => ("for an unknown reason".into(), "The bytes of the requests differ, or only the vendor noticed the break.".into()),
    };
    (title, text)
}

/// Returns what the tokens cost above the price of a cache read; `None` if that is nothing.
fn extra_cost(tokens: u64, prices: &CostConfig) -> Option<u64> {
    let per_million = prices.input.checked_sub(prices.cache_read).filter(|price| *price > 0)?;
    let micros = u128::from(tokens) * u128::from(per_million) / 1_000_000;
    u64::try_from(micros).ok().filter(|micros| *micros > 0)
}

fn spending(amounts: &Spending) -> String {
    let mut parts = Vec::new();
    if amounts.tokens > 0 {
        parts.push(format!("{} tokens", grouped(amounts.tokens)));
    }
    if amounts.money != agent_core::Money::ZERO {
        parts.push(format!("${}", amounts.money));
    }
    if amounts.time_ms > 0 {
        parts.push(format!("{} ms", grouped(amounts.time_ms)));
    }
    if amounts.model_calls > 0 {
        parts.push(format!("{} model calls", amounts.model_calls));
    }
    if amounts.tool_calls > 0 {
        parts.push(format!("{} tool calls", amounts.tool_calls));
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

fn dollars(micros: u64) -> String {
    format!("${}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100)
}

/// Returns a number with commas between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests;
