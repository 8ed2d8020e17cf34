//! The members of a chunk that are read, under the vendors' names.
//!
//! Only members that are needed are declared, because serde compares each key with all of them. Strings borrow from the frame
//! if they contain no escapes. Rare members are boxed: serde moves a chunk several times, so its size matters.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::usage::{Groq, Usage};
use crate::json::{Count, Text};
use crate::token_count::Counts;

/// The fields under which servers send thinking, the usual one first.
pub(super) const REASONING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

/// The kind of the opaque block that keeps a reply's `reasoning_details`.
pub(super) const REASONING_DETAILS: &str = "reasoning_details";

/// A chunk. Chunks that fit the shape of an earlier one bypass this type, see [`Shape`](crate::shape::Shape).
#[derive(Debug, Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) model: Text<'a>,
    #[serde(borrow, default)]
    pub(super) choices: Choices<'a>,
    #[serde(default)]
    pub(super) usage: Counts<Box<Usage>>,
    /// The usage, in the place in which Groq's older models send it.
    #[serde(default)]
    pub(super) x_groq: Counts<Box<Groq>>,
    #[serde(default)]
    pub(super) error: Option<Box<Value>>,
    /// The pages that Perplexity read, with their titles.
    #[serde(borrow, default)]
    pub(super) search_results: Option<&'a RawValue>,
    /// The addresses of the same pages.
    #[serde(borrow, default)]
    pub(super) citations: Option<&'a RawValue>,
}

/// The choices with index 0. GitHub Copilot sends the parts of one reply as several of them; choices with other indices are
/// other replies and are not read.
#[derive(Debug, Default)]
pub(super) struct Choices<'a> {
    pub(super) first: Option<Choice<'a>>,
    /// The others, almost always none.
    pub(super) more: Vec<Choice<'a>>,
    /// Whether there was a list of choices at all.
    pub(super) listed: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    pub(super) index: Count,
    #[serde(borrow, default)]
    pub(super) delta: Option<Box<Delta<'a>>>,
    /// Replaces `delta` in a response that is not a stream.
    #[serde(borrow, default)]
    pub(super) message: Option<Box<Delta<'a>>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Text<'a>,
    /// The usage, in the place in which Moonshot sends it.
    #[serde(default)]
    pub(super) usage: Counts<Box<Usage>>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub(super) content: Body<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_text: Text<'a>,
    #[serde(default)]
    pub(super) reasoning_details: Option<Vec<Value>>,
    #[serde(borrow, default)]
    pub(super) refusal: Text<'a>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<Vec<Call<'a>>>,
    /// The form of a call before `tool_calls`, which some servers still send. A reply has at most one.
    #[serde(borrow, default)]
    pub(super) function_call: Option<Box<Function<'a>>>,
    #[serde(borrow, default)]
    pub(super) annotations: Option<&'a RawValue>,
}

/// A text, or Mistral's list of parts. The thinking of a part has the same two forms.
#[derive(Debug)]
pub(super) enum Body<'a> {
    Text(Text<'a>),
    Parts(Vec<Part<'a>>),
}

#[derive(Debug, Deserialize)]
pub(super) struct Part<'a> {
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<Body<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Call<'a> {
    /// The number of the call in the reply.
    #[serde(default)]
    pub(super) index: Option<Count>,
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) function: Option<Function<'a>>,
    /// Replaces `function` in a call of a tool without a schema.
    #[serde(borrow, default)]
    pub(super) custom: Option<Box<Custom<'a>>>,
    #[serde(default)]
    pub(super) extra_content: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) arguments: Arguments<'a>,
}

/// A call of a tool that takes a text.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Custom<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) input: Text<'a>,
}

/// The arguments: a piece of their text or, from some servers, the object itself.
#[derive(Debug, Default)]
pub(super) struct Arguments<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Choices<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ChoicesVisitor)
    }
}

struct ChoicesVisitor;

impl<'de> Visitor<'de> for ChoicesVisitor {
    type Value = Choices<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of choices")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Choices::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut choices = Choices { first: None, more: Vec::new(), listed: true };
        while let Some(choice) = seq.next_element::<Choice<'de>>()? {
            match choice.index.0 {
                0 if choices.first.is_none() => choices.first = Some(choice),
                0 => choices.more.push(choice),
                _ => {}
            }
        }
        Ok(choices)
    }
}

impl Delta<'_> {
    /// Returns whether it contains nothing.
    pub(super) fn is_empty(&self) -> bool {
        let texts = [&self.reasoning_content, &self.reasoning, &self.reasoning_text, &self.refusal];
        let content = match &self.content {
            Body::Text(text) => text.filled().is_none(),
            Body::Parts(parts) => parts.is_empty(),
        };
        content
            && texts.iter().all(|text| text.filled().is_none())
            && self.reasoning_details.as_ref().is_none_or(Vec::is_empty)
            && self.tool_calls.as_ref().is_none_or(Vec::is_empty)
            && self.function_call.is_none()
            && self.annotations.is_none()
    }

    /// Removes the thinking.
    pub(super) fn forget_thinking(&mut self) {
        self.reasoning_content = Text::default();
        self.reasoning = Text::default();
        self.reasoning_text = Text::default();
        self.reasoning_details = None;
    }
}

impl Default for Body<'_> {
    fn default() -> Self {
        Self::Text(Text::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Body<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BodyVisitor)
    }
}

struct BodyVisitor;

impl<'de> Visitor<'de> for BodyVisitor {
    type Value = Body<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of parts")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Body::Text(Text(Cow::Borrowed(text))))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Body::Text(Text(Cow::Owned(text.to_owned()))))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Body::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = seq.next_element()? {
            parts.push(part);
        }
        Ok(Body::Parts(parts))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Arguments<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ArgumentsVisitor)
    }
}

struct ArgumentsVisitor;

impl<'de> Visitor<'de> for ArgumentsVisitor {
    type Value = Arguments<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("arguments as text or as an object")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Arguments(Cow::Borrowed(text)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Arguments(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Arguments::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let object = Value::deserialize(de::value::MapAccessDeserializer::new(map))?;
        Ok(Arguments(Cow::Owned(object.to_string())))
    }
}
