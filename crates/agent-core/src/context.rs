//! How long the conversation is, and what is done when it gets too long.

mod tokens;

pub use tokens::{HeuristicTokenCounter, TokenCounter, content_tokens, estimate_tokens, message_tokens};
