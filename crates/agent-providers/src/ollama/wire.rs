//! The members of a line that are read, under Ollama's names.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::Text;
use crate::token_count::Tokens;

#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    #[serde(borrow, default)]
    pub(super) message: Option<Message<'a>>,
    #[serde(default)]
    pub(super) done: bool,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// Further members of the first line.
#[derive(Debug, Deserialize)]
pub(super) struct Opening<'a> {
    #[serde(borrow, default)]
    pub(super) model: Text<'a>,
}

/// Further members of the last line.
#[derive(Debug, Deserialize)]
pub(super) struct Closing<'a> {
    #[serde(borrow, default)]
    pub(super) done_reason: Text<'a>,
    #[serde(default)]
    pub(super) prompt_eval_count: Tokens,
    #[serde(default)]
    pub(super) eval_count: Tokens,
}

#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    pub(super) content: Text<'a>,
    #[serde(borrow, default)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<Vec<Call<'a>>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Call<'a> {
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) function: Function<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    /// The unchanged JSON text of the object.
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
}
