//! Generates ids for tool calls without one.
//!
//! The ids are not random, so the same response to the same request gets the same ids. They never repeat an id of the
//! history.

#[cfg(test)]
mod tests;

use agent_core::{AgentMessage, History};

/// Generates the ids of one reply.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallIds {
    history: History,
    made: usize,
}

impl CallIds {
    /// Returns a generator for the reply to `history`.
    pub(crate) fn new(history: &History) -> Self {
        Self { history: history.clone(), made: 0 }
    }

    /// Returns the next id of the general form.
    pub(crate) fn fresh(&mut self) -> String {
        loop {
            let id = format!("call_{}_{}", self.history.len(), self.made);
            self.made += 1;
            if !self.history.has_call(&id) {
                return id;
            }
        }
    }

    /// Returns the next id with this prefix. Its number counts the calls of the whole conversation.
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

    /// Returns whether a call of the conversation has this id.
    pub(crate) fn is_taken(&self, id: &str) -> bool {
        self.history.has_call(id)
    }
}

/// Returns whether this library made an id: here, or in the loop for an id that the history has already.
pub(crate) fn is_made(id: &str) -> bool {
    const HASH: usize = 12;
    let Some(rest) = id.strip_prefix("call_") else { return false };
    let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let hash = rest.len() == HASH && rest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    hash || rest.split_once('_').is_some_and(|(before, made)| number(before) && number(made))
}

/// The prefix of numbered ids, which differs per API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// Gemini.
    Google,
    /// Vertex AI.
    Vertex,
}

impl Prefix {
    /// All prefixes.
    pub(crate) const ALL: [Self; 2] = [Self::Google, Self::Vertex];

    fn as_str(self) -> &'static str {
        match self {
            Self::Google => "google-fc-",
            Self::Vertex => "vertex-fc-",
        }
    }

    /// Returns whether an id consists of this prefix and a number.
    pub(crate) fn made(self, id: &str) -> bool {
        let number = id.strip_prefix(self.as_str()).unwrap_or_default();
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    }
}
