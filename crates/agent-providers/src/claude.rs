//! The parts that the protocols for Claude share: Anthropic's own and Bedrock's.
//!
//! `limit` has the output limit of a model, `thinking` sets the thinking level, `format` the format of a reply, `schema` converts its JSON Schema, and `choice`
//! selects the tools that may be called. `changes` appends changed instructions to the conversation. `writer` selects what is sent of a conversation, and `turns` arranges the
//! blocks. Each protocol writes its own blocks.

pub(crate) mod changes;
pub(crate) mod choice;
pub(crate) mod format;
pub(crate) mod limit;
mod schema;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod thinking;
pub(crate) mod turns;
pub(crate) mod usage;
pub(crate) mod writer;

/// The maximum number of blocks of a reply that may be open at once. Claude opens one after the other.
pub(crate) const MAX_OPEN_BLOCKS: usize = 256;
