//! Ids for tool calls that a server gave none.
//!
//! They are made without randomness, so that the same answer to the same request gives the same ids, and never
//! repeat one of the history (B-145).

#[cfg(test)]
mod tests;

use agent_core::{AgentMessage, History};

/// Makes the ids of one reply.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallIds {
    history: History,
    made: usize,
}

impl CallIds {
    /// Ids for the reply to this conversation.
    pub(crate) fn new(history: &History) -> Self {
        Self { history: history.clone(), made: 0 }
    }

    /// The next id.
    pub(crate) fn fresh(&mut self) -> String {
        loop {
            let id = format!("call_{}_{}", self.history.len(), self.made);
            self.made += 1;
            if !self.history.has_call(&id) {
                return id;
            }
        }
    }

    /// The next id of this form: it counts the calls of the conversation.
    pub(crate) fn numbered(&mut self, prefix: Prefix) -> String {
        if self.made == 0 {
            let replies = self.history.units().filter_map(|unit| unit.first().and_then(AgentMessage::as_llm));
            self.made = replies.map(|m| m.as_assistant().map_or(0, |r| r.tool_calls().count())).sum();
        }
        loop {
            let id = format!("{}{}", prefix.as_str(), self.made);
            self.made += 1;
            if !self.history.has_call(&id) {
                return id;
            }
        }
    }

    /// Whether a call of the conversation has this id.
    pub(crate) fn is_taken(&self, id: &str) -> bool {
        self.history.has_call(id)
    }
}

/// What numbered ids begin with (REQ-120, REQ-121).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// Gemini.
    Google,
    /// Vertex AI.
    Vertex,
}

impl Prefix {
    /// All of them.
    pub(crate) const ALL: [Self; 2] = [Self::Google, Self::Vertex];

    fn as_str(self) -> &'static str {
        match self {
            Self::Google => "google-fc-",
            Self::Vertex => "vertex-fc-",
        }
    }

    /// Whether an id was made by this.
    pub(crate) fn made(self, id: &str) -> bool {
        let number = id.strip_prefix(self.as_str()).unwrap_or_default();
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    }
}
