//! Reads an answer while it arrives.

use std::fmt;
use std::marker::PhantomData;

use jiter::{JsonValue, PartialMode};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

use crate::answer::{AnswerForm, fenced, is_wrapped};
use crate::event::{AgentEvent, StreamDelta};
use crate::identity::{LoopId, StepKey};

/// The text is parsed again when it has grown by this fraction, so that the work stays linear in its length.
const GROWTH: usize = 64;

/// An answer of type `T` as far as it has arrived. It is not validated, and each value replaces the one before it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PartialValue<T> {
    /// The JSON so far. Members and elements that have not arrived are absent, the last text may be incomplete, and a number
    /// is absent until the character after it has arrived.
    pub json: Value,
    /// The answer, if `T` can already be read from `json`. A type whose members are all optional is readable from the start.
    pub value: Option<T>,
}

impl<T> PartialValue<T> {
    /// Reads another type from the JSON so far, for example one whose members are all optional; `None` if that is not possible.
    #[must_use]
    pub fn read<P: DeserializeOwned>(&self) -> Option<P> {
        P::deserialize(&self.json).ok()
    }
}

/// Reads partial answers of type `T` from the events of a run. [`TypedRun::next_partial`](super::TypedRun::next_partial)
/// uses it; a program that runs loops itself calls [`apply`](Self::apply) with each event.
///
/// Only the loop whose start it receives first counts, until that loop ends: texts of sub-agents are ignored.
///
/// ```
/// use agent_core::agent::PartialReader;
/// use agent_core::answer::AnswerForm;
/// use agent_core::testing::ScriptedProvider;
/// use agent_core::{BasicAgent, ModelConfig};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct City {
///     name: Option<String>,
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let model = ScriptedProvider::texts([r#"{"name": "Oslo"}"#]);
/// let agent = BasicAgent::new(ModelConfig::default()).with_provider(model);
/// let mut events = agent.prompt("The capital of Norway?")?;
/// let mut reader = PartialReader::new(&AnswerForm::<City>::new());
/// let mut last = None;
/// while let Some(event) = events.recv().await {
///     last = reader.apply(&event).or(last);
/// }
/// let city = last.and_then(|partial| partial.value).and_then(|city: City| city.name);
/// assert_eq!(city.as_deref(), Some("Oslo"));
/// # Ok::<(), agent_core::AgentError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PartialReader<T> {
    wrapped: bool,
    /// The loop that is being read.
    own: Option<LoopId>,
    /// The call, its attempt and the content block of `text`.
    block: Option<(StepKey, u32, u32)>,
    text: String,
    /// The length of `text` from which on it is parsed again.
    next: usize,
    last: Option<Value>,
    of: PhantomData<fn() -> T>,
}

impl<T: JsonSchema + DeserializeOwned> PartialReader<T> {
    /// Creates a reader of answers in this form.
    #[must_use]
    pub fn new(form: &AnswerForm<T>) -> Self {
        Self {
            wrapped: form.is_wrapped(),
            own: None,
            block: None,
            text: String::new(),
            next: 0,
            last: None,
            of: PhantomData,
        }
    }

    /// Applies an event. Returns the answer so far if it has changed.
    pub fn apply(&mut self, event: &AgentEvent) -> Option<PartialValue<T>> {
        if let AgentEvent::AgentStart(start) = event {
            self.own.get_or_insert_with(|| start.loop_id.clone());
        }
        if self.own.as_ref() != Some(event.loop_id()) {
            return None;
        }
        match event {
            AgentEvent::MessageUpdate {
                step,
                attempt,
                content_index,
                delta: StreamDelta::Text { text },
                ..
            } => {
                let block = (step, *attempt, *content_index);
                if self.block.as_ref().is_none_or(|(step, attempt, index)| (step, *attempt, *index) != block)
                {
                    self.block = Some((step.clone(), *attempt, *content_index));
                    self.text.clear();
                    self.next = 0;
                }
                self.text.push_str(text);
                if self.text.len() < self.next {
                    return None;
                }
                self.next = self.text.len() + self.text.len() / GROWTH;
                self.read()
            }
            AgentEvent::MessageEnd { .. } => {
                let rest = self.read();
                self.block = None;
                self.text.clear();
                self.next = 0;
                rest
            }
            AgentEvent::AgentEnd(_) => {
                self.own = None;
                None
            }
            _ => None,
        }
    }

    fn read(&mut self) -> Option<PartialValue<T>> {
        let mut json = json_so_far(&self.text)?;
        if self.wrapped && is_wrapped(&json) {
            json = json.get_mut("value").map(Value::take)?;
        }
        if self.last.as_ref() == Some(&json) {
            return None;
        }
        self.last = Some(json.clone());
        let value = T::deserialize(&json).ok();
        Some(PartialValue { json, value })
    }
}

impl<T> fmt::Debug for PartialReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartialReader")
            .field("own", &self.own)
            .field("len", &self.text.len())
            .finish_non_exhaustive()
    }
}

/// Returns the JSON at the start of a text, in a code fence, or from the first bracket on, as far as it has arrived.
fn json_so_far(text: &str) -> Option<Value> {
    let text = text.trim_start();
    let begins = match text.starts_with(['{', '[']) {
        true => text,
        false => {
            let text = fenced(text).unwrap_or(text);
            text.find(['{', '[']).and_then(|at| text.get(at..))?
        }
    };
    let json = without_last_number(begins.trim_end()).as_bytes();
    let value = JsonValue::parse_with_config(json, false, PartialMode::TrailingStrings).ok()?;
    // An object or a list without content says nothing yet.
    let is_empty = matches!(&value, JsonValue::Object(members) if members.is_empty())
        || matches!(&value, JsonValue::Array(items) if items.is_empty());
    (!is_empty).then(|| owned(&value))
}

/// Returns the text without a number at its end, which may lack digits.
fn without_last_number(text: &str) -> &str {
    let before =
        text.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E'));
    let follows = before.trim_end().ends_with([':', ',', '[']);
    if follows { before } else { text }
}

/// Copies a parsed value. Its depth is at most 200, which the parser ensures.
fn owned(value: &JsonValue<'_>) -> Value {
    match value {
        JsonValue::Null => Value::Null,
        JsonValue::Bool(value) => Value::Bool(*value),
        JsonValue::Int(value) => Value::Number((*value).into()),
        JsonValue::Float(value) => Number::from_f64(*value).map_or(Value::Null, Value::Number),
        JsonValue::Str(text) => Value::String(text.clone().into_owned()),
        JsonValue::Array(items) => Value::Array(items.iter().map(owned).collect()),
        JsonValue::Object(members) => {
            let pairs = members.iter().map(|(name, value)| (name.clone().into_owned(), owned(value)));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
    }
}
