//! Token counting without a tokenizer.

use std::fmt;

use super::{AgentMessage, Content, FileSource, INSTRUCTIONS_NOTE, ImageContent, Message};
use crate::value_depth;

/// Counts tokens. An implementation provides [`count_text`](Self::count_text); the other methods have defaults.
pub trait TokenCounter: Send + Sync + fmt::Debug {
    /// Returns the number of tokens of a text.
    fn count_text(&self, text: &str) -> u64;

    /// Returns the number of tokens of a content block. The default adds 8 tokens per tool call and estimates images
    /// by size.
    fn count_content(&self, content: &Content) -> u64 {
        match content {
            Content::Text(t) => self.count_text(&t.text),
            Content::Thinking(t) => self.count_text(&t.thinking),
            Content::Image(ImageContent::Base64 { data, .. }) => image_tokens(data.len()),
            Content::Image(ImageContent::Url { .. }) => URL_IMAGE_TOKENS,
            Content::Document(document) => {
                let about = [&document.title, &document.context].into_iter().flatten();
                about.fold(self.count_file(&document.source), |sum, text| sum + self.count_text(text))
            }
            Content::SearchResult(result) => {
                let texts = [&result.source, &result.title].into_iter().chain(&result.parts);
                texts.map(|text| self.count_text(text)).sum()
            }
            Content::Audio(media) | Content::Video(media) => self.count_file(&media.source),
            Content::ToolCall(call) => {
                self.count_text(call.name.as_str())
                    + self.count_text(call.arguments.json_text())
                    + TOOL_CALL_OVERHEAD
            }
            Content::Opaque(block) => self.count_text(&value_depth::text(&block.data)),
        }
    }

    /// Returns the number of tokens of a file. The default counts a text, estimates one token for 8 bytes of other data, and
    /// 4,000 for a file that the vendor fetches or stores.
    fn count_file(&self, source: &FileSource) -> u64 {
        match source {
            FileSource::Text { text } => self.count_text(text),
            FileSource::Base64 { data, .. } => u64::try_from(data.len().div_ceil(8)).unwrap_or(u64::MAX),
            FileSource::Url { .. } | FileSource::Uploaded { .. } => REMOTE_FILE_TOKENS,
        }
    }

    /// Returns the number of tokens of a message. The default adds 4 tokens per message, or 8 for a tool result.
    fn count_message(&self, message: &AgentMessage) -> u64 {
        let blocks = |content: &[Content]| content.iter().map(|c| self.count_content(c)).sum::<u64>();
        match message {
            // The request itself contains what the note records.
            AgentMessage::Extension(note) if note.kind == INSTRUCTIONS_NOTE => 0,
            AgentMessage::Extension(note) => {
                self.count_text(&value_depth::text(&note.data)) + MESSAGE_OVERHEAD
            }
            AgentMessage::Llm(m) => match &m.message {
                Message::User(m) => blocks(&m.content) + MESSAGE_OVERHEAD,
                Message::Assistant(m) => blocks(&m.content) + MESSAGE_OVERHEAD,
                Message::ToolResult(m) => {
                    blocks(&m.content) + self.count_text(m.tool_name.as_str()) + TOOL_RESULT_OVERHEAD
                }
            },
        }
    }
}

const MESSAGE_OVERHEAD: u64 = 4;
const TOOL_RESULT_OVERHEAD: u64 = 8;
const TOOL_CALL_OVERHEAD: u64 = 8;
/// The estimate for an image that is given as an address, whose size is unknown.
const URL_IMAGE_TOKENS: u64 = 1_500;

/// The estimate for a file whose size is unknown.
const REMOTE_FILE_TOKENS: u64 = 4_000;

/// Estimates one token per four bytes, rounded up.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeuristicTokenCounter;

impl TokenCounter for HeuristicTokenCounter {
    fn count_text(&self, text: &str) -> u64 {
        estimate_tokens(text)
    }
}

/// Estimates the tokens of a text: one per four bytes, rounded up.
///
/// ```
/// assert_eq!(agent_core::estimate_tokens("hello"), 2);
/// ```
#[must_use]
pub fn estimate_tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(4)
}

/// Estimates the tokens of content blocks with [`HeuristicTokenCounter`].
#[must_use]
pub fn content_tokens(content: &[Content]) -> u64 {
    content.iter().map(|c| HeuristicTokenCounter.count_content(c)).sum()
}

/// Estimates the tokens of a message with [`HeuristicTokenCounter`].
#[must_use]
pub fn message_tokens(message: &AgentMessage) -> u64 {
    HeuristicTokenCounter.count_message(message)
}

fn image_tokens(base64_bytes: usize) -> u64 {
    let raw = (base64_bytes as u64) * 3 / 4;
    (raw / 750).clamp(85, 16_000)
}
