//! What the protocols share by which Claude is called: Anthropic's own and Bedrock's.
//!
//! `thinking` plans how much the model thinks, `format` how an answer gets its form, `choice` which tools are called;
//! `writer` decides what of a conversation is sent, and `turns` lays the blocks out. How a block is written is the
//! protocol's own.

pub(crate) mod choice;
pub(crate) mod format;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod thinking;
pub(crate) mod turns;
pub(crate) mod writer;
