//! What the protocols share by which Claude is called: Anthropic's own and Bedrock's.
//!
//! Nothing here writes a body. `thinking` plans how much the model thinks, `format` how an answer gets its form,
//! `choice` which tools are called, and `turns` lays blocks out.

pub(crate) mod choice;
pub(crate) mod format;
pub(crate) mod thinking;
pub(crate) mod turns;
