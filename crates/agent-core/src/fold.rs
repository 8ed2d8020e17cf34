//! Folds a log of events into the conversation.
//!
//! The events of a run without the live ones are sufficient: the fold produces the same history as the run that
//! emitted them. Sessions are loaded this way.
//!
//! ```
//! use agent_core::fold::Fold;
//! use agent_core::testing::ScriptedProvider;
//! use agent_core::{BasicAgent, History, ModelConfig};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let agent = BasicAgent::new(ModelConfig::default()).with_provider(ScriptedProvider::texts(["Hello."]));
//! let events = agent.prompt("Hi")?.collect().await;
//! let mut fold = Fold::new(History::new());
//! for event in &events {
//!     fold.push(event)?;
//! }
//! assert_eq!(*fold.history(), agent.history());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;

use crate::event::{AgentEvent, ToolExecutionEnd};
use crate::history::{Entry, History, HistoryError, MessageRef, SpliceError};
use crate::identity::{LoopId, ToolCallId, ToolName};
use crate::message::{AgentMessage, Message, ToolResultMessage};

/// The result of a call that had started when the log ended and was not resumed. The call may have had its effect.
pub const CUT_OFF_RESULT: &str =
    "This call was interrupted while it was running. Its outcome is unknown: check before you repeat it.";

/// A conversation that is being folded from events.
#[derive(Debug, Clone, Default)]
pub struct Fold {
    history: History,
    new_messages: Vec<MessageRef>,
    open: Option<OpenExchange>,
    /// The loop of the last event.
    of_loop: Option<LoopId>,
    /// The number of recorded events of that loop.
    events: u64,
}

/// A reply whose calls have no result messages yet.
#[derive(Debug, Clone)]
pub(crate) struct OpenExchange {
    pub(crate) reply: Entry,
    pub(crate) ends: BTreeMap<ToolCallId, ToolExecutionEnd>,
    calls: usize,
    results: Vec<Entry>,
    /// The calls that have started.
    begun: BTreeMap<ToolCallId, ToolName>,
}

/// The error of an event that does not fit the events before it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FoldError {
    /// A message cannot enter the conversation at this position.
    #[error("the log holds a message that does not fit those before it: {0}")]
    Message(#[from] HistoryError),
    /// A compaction does not fit the conversation.
    #[error("the log holds a compaction that does not fit the messages before it: {0}")]
    Splice(#[from] SpliceError),
}

impl Fold {
    /// Starts with the conversation before the events.
    #[must_use]
    pub fn new(history: History) -> Self {
        Self { history, ..Self::default() }
    }

    /// Applies the next event of the log. Live events, the events of groups, and the events of the sub-agents that an
    /// open call started change nothing.
    ///
    /// # Errors
    /// Returns an error if the event does not fit those before it. The fold is unchanged then.
    pub fn push(&mut self, event: &AgentEvent) -> Result<(), FoldError> {
        let of_group = matches!(event, AgentEvent::ParallelLoopStart(_) | AgentEvent::ParallelLoopEnd(_));
        let is_next_loop = self.of_loop.as_ref() != Some(event.loop_id());
        let delegated = self.open.as_ref().is_some_and(|open| !open.begun.is_empty());
        if of_group || event.is_live() || (is_next_loop && delegated) {
            return Ok(());
        }
        self.apply(event)?;
        if is_next_loop {
            self.of_loop = Some(event.loop_id().clone());
            self.events = 0;
        }
        self.events = self.events.saturating_add(1);
        Ok(())
    }

    fn apply(&mut self, event: &AgentEvent) -> Result<(), FoldError> {
        match event {
            AgentEvent::AgentStart(_) => self.new_messages.clear(),
            AgentEvent::MessageEnd { message, tokens, superseded: false, .. } => {
                self.message(Entry::new(message.clone(), *tokens))?;
                self.new_messages.push(message.clone());
            }
            AgentEvent::ToolExecutionStart { tool_call_id, tool_name, .. } => {
                if let Some(open) = &mut self.open {
                    open.begun.insert(tool_call_id.clone(), tool_name.clone());
                }
            }
            AgentEvent::ToolExecutionEnd(end) => {
                if let Some(open) = &mut self.open {
                    open.ends.insert(end.tool_call_id.clone(), (**end).clone());
                }
            }
            AgentEvent::CompactionEnded(ended) => self.history = self.history.spliced(&ended.splices)?,
            _ => {}
        }
        Ok(())
    }

    fn message(&mut self, entry: Entry) -> Result<(), FoldError> {
        match entry.message().as_llm() {
            Some(Message::Assistant(reply)) if reply.is_failed() => self.history.push_failed(entry)?,
            Some(Message::Assistant(reply)) if reply.tool_calls().next().is_some() => {
                let calls = reply.tool_calls().count();
                self.open = Some(OpenExchange {
                    reply: entry,
                    ends: BTreeMap::new(),
                    calls,
                    results: Vec::new(),
                    begun: BTreeMap::new(),
                });
            }
            Some(Message::ToolResult(result)) => {
                let Some(open) = &mut self.open else {
                    return Err(HistoryError::BareResult(result.tool_call_id.to_string()).into());
                };
                open.results.push(entry);
                if open.results.len() == open.calls
                    && let Some(open) = self.open.take()
                {
                    self.history.push_exchange(open.reply, open.results)?;
                }
            }
            _ => self.history.push_entry(entry)?,
        }
        Ok(())
    }

    /// Returns the conversation without an open exchange.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns whether the last reply has calls without results. The reply is not in the conversation then.
    #[must_use]
    pub fn has_open_exchange(&self) -> bool {
        self.open.is_some()
    }

    /// Returns the number of recorded events of the last loop, which is the number of its last event.
    #[must_use]
    pub fn event_count(&self) -> u64 {
        self.events
    }

    /// Returns the messages of the last loop.
    #[must_use]
    pub fn new_messages(&self) -> &[MessageRef] {
        &self.new_messages
    }

    /// Returns the conversation of a log that ended early. An open exchange is closed with the results that had
    /// arrived, with [`CUT_OFF_RESULT`] for calls that had started, and with
    /// [`ORPHAN_RESULT`](crate::history::ORPHAN_RESULT) for calls that had not.
    #[must_use]
    pub fn into_closed(mut self) -> History {
        if let Some(mut open) = self.open.take() {
            let mut list: Vec<Entry> = self.history.entries().cloned().collect();
            list.push(open.reply);
            list.extend(open.results);
            let answered: Vec<ToolCallId> = list
                .iter()
                .filter_map(|e| e.message().as_llm().and_then(Message::as_tool_result))
                .map(|r| r.tool_call_id.clone())
                .collect();
            for (id, end) in open.ends {
                if !answered.contains(&id) {
                    open.begun.remove(&id);
                    let mut result = ToolResultMessage::new(id, end.tool_name, end.result.content);
                    result.is_error = end.is_error;
                    result.deferred = end.result.deferred;
                    list.push(Entry::from(AgentMessage::from(Message::from(result))));
                }
            }
            for (id, name) in open.begun {
                if !answered.contains(&id) {
                    let result = ToolResultMessage::error(id, name, CUT_OFF_RESULT);
                    list.push(Entry::from(AgentMessage::from(Message::from(result))));
                }
            }
            return History::repaired(list).0;
        }
        self.history
    }

    pub(crate) fn open(&self) -> Option<&OpenExchange> {
        self.open.as_ref()
    }
}
