//! Notes in the conversation that contain the system prompt and the tools of a loop, from which requests append changes.
//!
//! With [`CacheChanges::Append`], a loop whose system prompt or tools differ from the recorded ones adds a note to its
//! prompts. Each note contains both in full, so that a conversation from which notes were removed is still consistent: the
//! first remaining note has what requests begin with, and each later one is a change.

#[cfg(test)]
mod tests;

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::request::ModelRequest;
use crate::history::History;
use crate::message::{AgentMessage, INSTRUCTIONS_NOTE};
use crate::model::CacheChanges;
use crate::tool::{ToolCallers, ToolDefinition, ToolDefinitions, ToolLoading};

/// The system prompt and the tools that one note of a conversation records.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Instructions<'h> {
    /// The position of the note among the units of the history.
    pub unit: usize,
    /// The system prompt from here on; empty for none.
    pub system_prompt: &'h str,
    tools: &'h [Value],
}

/// A tool in a note. Tools are equal if their definitions are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordedTool<'h> {
    /// The name of the tool.
    pub name: &'h str,
    /// The description of the tool.
    pub description: &'h str,
    /// The JSON schema of the arguments.
    pub parameters: &'h Value,
    /// Who may call the tool.
    pub callers: ToolCallers,
    loading: ToolLoading,
}

impl<'h> RecordedTool<'h> {
    fn read(value: &'h Value) -> Option<Self> {
        let callers = value.get("callers").map(ToolCallers::deserialize);
        let loading = value.get("loading").map(ToolLoading::deserialize);
        Some(Self {
            name: value.get("name")?.as_str()?,
            description: value.get("description")?.as_str()?,
            parameters: value.get("parameters")?,
            callers: callers.transpose().ok()?.unwrap_or_default(),
            loading: loading.transpose().ok()?.unwrap_or_default(),
        })
    }

    fn is(&self, tool: &ToolDefinition) -> bool {
        self.name == tool.name
            && self.description == tool.description
            && self.callers == tool.callers
            && self.loading == tool.loading
            && *self.parameters == tool.parameters
    }

    /// Returns the definition of the tool.
    #[must_use]
    pub fn definition(&self) -> ToolDefinition {
        let mut definition = ToolDefinition::new(self.name, self.description, self.parameters.clone())
            .with_callers(self.callers);
        definition.loading = self.loading;
        definition
    }
}

impl<'h> Instructions<'h> {
    /// Returns the tools in the order in which the model receives them.
    pub fn tools(&self) -> impl Iterator<Item = RecordedTool<'h>> + use<'h> {
        self.tools.iter().filter_map(RecordedTool::read)
    }

    /// Reads a note; `None` for any other message, and for a note that was not written by this library.
    fn read(unit: usize, message: &'h AgentMessage) -> Option<Self> {
        let AgentMessage::Extension(note) = message else { return None };
        if note.kind != INSTRUCTIONS_NOTE {
            return None;
        }
        let system_prompt = note.data.get("system_prompt")?.as_str()?;
        let tools = note.data.get("tools")?.as_array()?;
        tools.iter().all(|tool| RecordedTool::read(tool).is_some()).then_some(Self {
            unit,
            system_prompt,
            tools,
        })
    }

    fn is(&self, system_prompt: &str, tools: &ToolDefinitions) -> bool {
        let defined = tools.definitions();
        self.system_prompt == system_prompt
            && self.tools.len() == defined.len()
            && self.tools().zip(defined).all(|(recorded, defined)| recorded.is(defined))
    }
}

/// Returns the notes of a conversation, oldest first.
fn notes(history: &History) -> impl Iterator<Item = Instructions<'_>> {
    let units = history.units().enumerate();
    units.filter_map(|(at, unit)| Instructions::read(at, unit.first()?))
}

/// Returns the note with which a loop begins; `None` if the conversation records the same already, or the definitions are
/// nested too deeply for a message.
pub(crate) fn note(history: &History, system_prompt: &str, tools: &ToolDefinitions) -> Option<AgentMessage> {
    if notes(history).last().is_some_and(|last| last.is(system_prompt, tools)) {
        return None;
    }
    let data = json!({"system_prompt": system_prompt, "tools": tools.definitions()});
    let note = AgentMessage::extension(INSTRUCTIONS_NOTE, data);
    (!note.is_too_deep()).then_some(note)
}

impl ModelRequest {
    /// Returns the system prompts and tools that the conversation records, oldest first. The last one is that of the request.
    ///
    /// Empty if changes are [not appended](CacheChanges::Resend), or the conversation does not describe this request, for
    /// example because a hook removed the notes or some tools are [deferred](crate::Tools::deferred). The request is then
    /// sent as it is.
    #[must_use]
    pub fn recorded_instructions(&self) -> Vec<Instructions<'_>> {
        if self.options.cache_config.changes != CacheChanges::Append {
            return Vec::new();
        }
        let found: Vec<Instructions<'_>> = notes(&self.history).collect();
        let describes = found.last().is_some_and(|last| last.is(&self.system_prompt, &self.tools));
        if describes { found } else { Vec::new() }
    }
}
