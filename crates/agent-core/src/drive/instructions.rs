//! Records the system prompt and the tools of a loop in its prompts.

use super::config::AgentLoopConfig;
use crate::history::{Entry, History, MessageRef};
use crate::model::CacheChanges;
use crate::provider::instructions::note;
use crate::tool::Tools;

/// Adds a note about the system prompt and the tools to the prompts of a loop if changes are appended and the conversation
/// does not record them yet. A loop without a prompt continues a reply and records nothing.
pub(crate) fn record_instructions(
    config: &AgentLoopConfig,
    history: &History,
    system_prompt: &str,
    tools: &Tools,
    prompts: &mut Vec<Entry>,
) {
    if config.request.cache_config.changes != CacheChanges::Append || prompts.is_empty() {
        return;
    }
    // The instructions are counted as a part of the request, so the note has no tokens of its own.
    prompts
        .extend(note(history, system_prompt, tools.definitions()).map(|n| Entry::new(MessageRef::new(n), 0)));
}
