//! The members of a response that are read, under the vendor's names.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json::{Count, Text};
use crate::prompt_usage::{self, Basis, Place, Reply, Said};
use crate::token_count::{self, Counts, Tokens};

/// Metadata of a reply beside its parts: sources, citations and pages that were read, and the token with which a further
/// request continues a paused reply. Stored with the reply and never sent back as a part.
pub(super) const ABOUT_REPLY: [&str; 4] = [GROUNDING, CITATIONS, PAGES, CONTINUATION];
pub(super) const CONTINUATION: &str = "continuationToken";
pub(super) const GROUNDING: &str = "groundingMetadata";
pub(super) const CITATIONS: &str = "citationMetadata";
pub(super) const PAGES: &str = "urlContextMetadata";

/// A chunk of a streamed response, or a whole response.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) candidates: Option<Vec<Candidate<'a>>>,
    pub(super) usage_metadata: Counts<Usage>,
    #[serde(borrow)]
    pub(super) prompt_feedback: Option<PromptFeedback<'a>>,
    #[serde(borrow)]
    pub(super) model_version: Text<'a>,
    #[serde(borrow)]
    pub(super) response_id: Text<'a>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Candidate<'a> {
    pub(super) index: Count,
    #[serde(borrow)]
    pub(super) content: Option<Content<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) finish_message: Text<'a>,
    #[serde(borrow)]
    pub(super) safety_ratings: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) grounding_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) citation_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) url_context_metadata: Option<&'a RawValue>,
    /// Opaque. It may also come without a finish reason, as a point from which a stream that broke off can continue.
    #[serde(borrow)]
    pub(super) continuation_token: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Content<'a> {
    #[serde(borrow)]
    pub(super) parts: Option<Vec<Part<'a>>>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Usage {
    /// The cached tokens are in it.
    prompt_token_count: Tokens,
    cached_content_token_count: Tokens,
    /// Thinking is not in it.
    candidates_token_count: Tokens,
    thoughts_token_count: Tokens,
    /// The tokens that the vendor's own tools added to the prompt. The prompt's count does not include them.
    tool_use_prompt_token_count: Tokens,
    total_token_count: Tokens,
}

impl Usage {
    /// Returns the counts in disjoint categories, or `None` if no count is present.
    pub(super) fn disjoint(&self) -> Option<agent_core::Usage> {
        let prompt = self.prompt_token_count.known();
        let output = match self.candidates_token_count {
            // The vendor leaves out counts of 0.
            Tokens::Absent => prompt.map(|_| 0),
            candidates => candidates.known(),
        };
        prompt.or(output).or(self.total_token_count.known())?;
        let tools = self.tool_use_prompt_token_count.or_zero();
        Some(prompt_usage::disjoint(&Said {
            prompt: prompt.map(|prompt| prompt.saturating_add(tools)).or(Some(tools).filter(|t| *t > 0)),
            output,
            total: self.total_token_count.known(),
            cache_read: self.cached_content_token_count.known(),
            cache_write: None,
            audio: None,
            reasoning: self.thoughts_token_count.known(),
            cache: Place::Inside,
            thinking: Place::Beside,
            reply: Reply::Visible,
            basis: Basis::Stated,
        }))
    }

    /// Returns how many counts are unreadable.
    pub(super) fn unreadable(&self) -> usize {
        token_count::unreadable(&[
            self.prompt_token_count,
            self.cached_content_token_count,
            self.candidates_token_count,
            self.thoughts_token_count,
            self.tool_use_prompt_token_count,
            self.total_token_count,
        ])
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PromptFeedback<'a> {
    #[serde(borrow)]
    pub(super) block_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) block_reason_message: Text<'a>,
}

/// A safety rating of a candidate.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SafetyRating<'a> {
    #[serde(borrow)]
    pub(super) category: Text<'a>,
    pub(super) blocked: bool,
}

/// A part of the content. The member that is present determines its kind.
#[derive(Debug, Default)]
pub(super) struct Part<'a> {
    pub(super) text: Option<Text<'a>>,
    pub(super) thought: bool,
    pub(super) signature: Text<'a>,
    pub(super) call: Option<FunctionCall<'a>>,
    /// The member of a kind that is carried without being understood.
    pub(super) other: Option<Cow<'a, str>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct FunctionCall<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    /// The unchanged JSON text of the object.
    #[serde(borrow)]
    pub(super) args: Option<&'a RawValue>,
    /// Pieces of the arguments, if the request enables them.
    #[serde(borrow)]
    pub(super) partial_args: Option<Vec<PartialArg<'a>>>,
    /// Whether more of this call follows.
    pub(super) will_continue: Option<bool>,
}

/// A value or a piece of a text, with its path in the arguments.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PartialArg<'a> {
    #[serde(borrow)]
    pub(super) json_path: Text<'a>,
    #[serde(borrow)]
    pub(super) string_value: Option<Text<'a>>,
    pub(super) number_value: Option<Value>,
    pub(super) bool_value: Option<bool>,
    /// Whether more of this text follows.
    pub(super) will_continue: bool,
}

/// Members that describe a part and do not determine its kind.
const ABOUT_PART: &[&str] = &["videoMetadata", "partMetadata", "mediaResolution"];

impl<'de: 'a, 'a> Deserialize<'de> for Part<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PartVisitor)
    }
}

struct PartVisitor;

impl<'de> Visitor<'de> for PartVisitor {
    type Value = Part<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part of the content")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut part = Part::default();
        while let Some(Text(key)) = map.next_key::<Text<'de>>()? {
            match &*key {
                "text" => part.text = Some(map.next_value()?),
                "thought" => part.thought = map.next_value::<Option<bool>>()?.unwrap_or_default(),
                "thoughtSignature" | "thought_signature" => part.signature = map.next_value()?,
                "functionCall" => part.call = map.next_value()?,
                about if ABOUT_PART.contains(&about) => {
                    map.next_value::<IgnoredAny>()?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    part.other = Some(key);
                }
            }
        }
        Ok(part)
    }
}

/// The unchanged JSON text of the parts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawChunk {
    pub(super) candidates: Vec<RawCandidate>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawCandidate {
    pub(super) content: RawContent,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawContent {
    pub(super) parts: Vec<Value>,
}

/// An error, at any place of a response.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorBody {
    #[serde(deserialize_with = "lenient")]
    pub(super) details: Vec<Detail>,
}

/// A detail of an error. Each kind has its own members.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Detail {
    pub(super) reason: Option<String>,
    pub(super) retry_delay: Option<String>,
    pub(super) violations: Vec<Violation>,
    pub(super) metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Violation {
    pub(super) quota_id: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    pub(super) quota_limit: Option<String>,
}

/// Reads the entries of the expected form and skips others.
fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Detail>, D::Error> {
    let entries = match Value::deserialize(deserializer).map_err(de::Error::custom)? {
        Value::Array(entries) => entries,
        _ => Vec::new(),
    };
    Ok(entries.into_iter().filter_map(|entry| serde_json::from_value(entry).ok()).collect())
}
