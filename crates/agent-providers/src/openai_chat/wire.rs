//! The members of a chunk that are read, under the vendors' names.
//!
//! Only members that are needed are declared, because serde compares each key with all of them. Strings borrow from the frame
//! if they contain no escapes. Rare members are boxed: serde moves a chunk several times, so its size matters.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::json::{Count, Text};
use crate::prompt_usage;

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
    pub(super) usage: Option<Box<Usage>>,
    #[serde(default)]
    pub(super) error: Option<Box<Value>>,
}

/// The choice that is read. If there are several, it is the one with index 0.
#[derive(Debug, Default)]
pub(super) struct Choices<'a> {
    pub(super) first: Option<Choice<'a>>,
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
    pub(super) usage: Option<Box<Usage>>,
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

/// The arguments: a piece of their text or, from some servers, the object itself.
#[derive(Debug, Default)]
pub(super) struct Arguments<'a>(pub(super) Cow<'a, str>);

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    pub(super) prompt_tokens: Count,
    pub(super) completion_tokens: Count,
    pub(super) total_tokens: Count,
    pub(super) prompt_tokens_details: Option<PromptDetails>,
    pub(super) completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek's name for cached tokens.
    pub(super) prompt_cache_hit_tokens: Count,
    /// Moonshot's name for cached tokens.
    pub(super) cached_tokens: Count,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
pub(super) struct PromptDetails {
    pub(super) cached_tokens: Count,
    pub(super) cache_write_tokens: Count,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
pub(super) struct CompletionDetails {
    pub(super) reasoning_tokens: Count,
}

impl Usage {
    /// Returns the counts in disjoint categories. `prompt_tokens` includes cached tokens.
    pub(super) fn disjoint(&self) -> agent_core::Usage {
        let prompt = self.prompt_tokens_details.unwrap_or_default();
        let read = [prompt.cached_tokens.0, self.prompt_cache_hit_tokens.0, self.cached_tokens.0];
        prompt_usage::disjoint(&prompt_usage::Said {
            prompt: self.prompt_tokens.0,
            output: self.completion_tokens.0,
            total: self.total_tokens.0,
            cache_read: read.into_iter().max().unwrap_or_default(),
            cache_write: prompt.cache_write_tokens.0,
            reasoning: self.completion_tokens_details.unwrap_or_default().reasoning_tokens.0,
        })
    }
}

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
        let mut choices = Choices { first: None, listed: true };
        while let Some(choice) = seq.next_element::<Choice<'de>>()? {
            if choice.index.0 == 0 && choices.first.is_none() {
                choices.first = Some(choice);
            }
        }
        Ok(choices)
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
