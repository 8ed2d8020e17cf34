//! The conversation of an agent: reading, saving, replacing.

use super::{AgentError, BasicAgent};
use crate::history::{Entry, History, MessageRef, Repair};
use crate::message::AgentMessage;

impl BasicAgent {
    /// The messages, those of an exchange that is still open included. O(n).
    #[must_use]
    pub fn messages(&self) -> Vec<MessageRef> {
        self.lock().messages()
    }

    /// The closed conversation, as of the last run that ended. O(1).
    #[must_use]
    pub fn history(&self) -> History {
        self.lock().history.clone()
    }

    /// Seed 003's name for [`messages`](Self::messages).
    #[must_use]
    pub fn get_context(&self) -> Vec<MessageRef> {
        self.messages()
    }

    /// The messages as a JSON array (REQ-063).
    ///
    /// # Errors
    /// When a note's data cannot be written as JSON.
    pub fn save_messages(&self) -> Result<String, AgentError> {
        Ok(serde_json::to_string(&self.messages())?)
    }

    /// Puts a saved conversation in the place of this one (REQ-064), and says what had to be repaired in it.
    ///
    /// # Errors
    /// When the text is not a list of messages, or a run is open. The conversation stays as it was.
    pub fn restore_messages(&self, json: &str) -> Result<Vec<Repair>, AgentError> {
        let messages: Vec<AgentMessage> = serde_json::from_str(json)?;
        self.replace_messages(messages)
    }

    /// Puts these messages in the place of the conversation, and says what had to be repaired in them.
    ///
    /// # Errors
    /// When a run is open.
    pub fn replace_messages(&self, messages: Vec<AgentMessage>) -> Result<Vec<Repair>, AgentError> {
        self.check_idle()?;
        let counter = self.settings().config.token_counter.clone();
        let counted = messages.into_iter().map(|m| {
            let tokens = counter.count_message(&m);
            Entry::new(MessageRef::new(m), tokens)
        });
        let (history, repairs) = History::repaired(counted);
        self.lock().history = history;
        Ok(repairs)
    }

    /// Appends a message.
    ///
    /// # Errors
    /// When it may not enter alone (a reply with calls, a bare result), or a run is open.
    pub fn append_message(&self, message: impl Into<AgentMessage>) -> Result<(), AgentError> {
        self.check_idle()?;
        let message = message.into();
        let counter = self.settings().config.token_counter.clone();
        let tokens = counter.count_message(&message);
        self.lock().history.push_entry(Entry::new(MessageRef::new(message), tokens))?;
        Ok(())
    }

    /// Forgets the conversation. Queues and error stay (B-080).
    ///
    /// # Errors
    /// When a run is open.
    pub fn clear_messages(&self) -> Result<(), AgentError> {
        self.check_idle()?;
        self.inner.prefixes.forget();
        let mut state = self.lock();
        state.history = History::new();
        state.rewound = false;
        drop(state);
        Ok(())
    }

    /// Seed 003's name for [`clear_messages`](Self::clear_messages).
    ///
    /// # Errors
    /// As [`clear_messages`](Self::clear_messages).
    pub fn clear_context(&self) -> Result<(), AgentError> {
        self.clear_messages()
    }
}
