//! The log of a simulated run, about which invariants are stated.

use std::fmt;

use agent_core::event::NumberedEvent;
use agent_core::history::History;
use agent_core::{AgentEvent, Answer, Effects, LoopId, Question, Timestamp, ToolCallId};
use serde_json::Value;

use crate::script::Action;

/// Everything that happened in one simulated run, in order, over all its processes.
#[derive(Debug, Clone, Default)]
pub struct Log {
    pub(crate) entries: Vec<LogEntry>,
    pub(crate) executions: Vec<Execution>,
}

/// One entry of a [`Log`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogEntry {
    /// The number of the process, from 0. Each kill begins another one.
    pub process: u32,
    /// The time of day of the simulated clock.
    pub time: Timestamp,
    /// The milliseconds that have passed since the run began, whatever the time of day is.
    pub elapsed_ms: u64,
    /// Whether the entry is an event whose record a crash of the machine destroyed.
    pub lost: bool,
    /// What happened at this time.
    pub what: What,
}

/// What an entry of the log reports.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum What {
    /// A process began. It has built the agent and continues what the journal has.
    Started,
    /// The user sent a prompt.
    Prompted(String),
    /// The journal recorded an event of a run or of a child loop.
    Recorded(Box<NumberedEvent>),
    /// The journal recorded an event of a group of parallel loops.
    GroupRecorded(Box<AgentEvent>),
    /// The agent under test panicked with this message.
    Panicked(String),
    /// The model was called with this conversation.
    ModelCalled(History),
    /// A tool began to execute: the position in [`Log::executions`].
    Executed(usize),
    /// The user, or the world, did something.
    Acted(Action),
    /// The user answered a question.
    Answered {
        /// The question that was answered.
        question: Box<Question>,
        /// The answer that the run accepted.
        answer: Answer,
    },
    /// The program under test reported something with [`World::note`](crate::World::note).
    Noted {
        /// The name of the note.
        name: String,
        /// The value of the note.
        value: Value,
    },
    /// A run was aborted because nothing happened in it for a day of the simulated clock.
    Stuck,
}

/// One execution of a tool. It happened in the outside world, so it survives kills and crashes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Execution {
    /// The name of the tool.
    pub tool: String,
    /// The id of the call.
    pub call_id: ToolCallId,
    /// The loop that made the call.
    pub loop_id: LoopId,
    /// The key that is the same when the call is executed again after a kill.
    pub idempotency_key: String,
    /// The arguments that the tool received.
    pub arguments: Value,
    /// The declared effects of the call.
    pub effects: Effects,
    /// Whether the tool asks the user before this call.
    pub asks: bool,
    /// The process that executed the call.
    pub process: u32,
    /// The position in [`Log::entries`] at which it began.
    pub began: usize,
    /// Whether the tool returned a result or an error, before a kill or a cancellation.
    pub finished: bool,
    /// The position in the log at which the agent made the call. What happens in the same moment comes later.
    pub(crate) called: usize,
    /// Whether the arguments fit the schema of the tool.
    pub(crate) fits: bool,
}

impl Log {
    /// Returns all entries in order.
    #[must_use]
    pub fn entries(&self) -> &[LogEntry] {
        &self.entries
    }

    /// Returns the recorded events in order, without those that a crash destroyed, and with those of child loops.
    pub fn events(&self) -> impl Iterator<Item = &AgentEvent> {
        self.entries.iter().filter(|entry| !entry.lost).filter_map(|entry| match &entry.what {
            What::Recorded(event) => Some(&event.event),
            What::GroupRecorded(event) => Some(&**event),
            _ => None,
        })
    }

    /// Returns the executions of a tool, in the order of their starts.
    pub fn executions_of(&self, tool: &str) -> impl Iterator<Item = &Execution> {
        let tool = tool.to_owned();
        self.executions.iter().filter(move |execution| execution.tool == tool)
    }

    /// Returns the executions of all tools, in the order of their starts.
    #[must_use]
    pub fn executions(&self) -> &[Execution] {
        &self.executions
    }

    /// Returns whether the user had allowed this execution since the call was executed before, if it was.
    #[must_use]
    pub fn approved(&self, execution: &Execution) -> bool {
        self.approval(execution).is_some()
    }

    /// Returns the question and the answer that allowed this execution.
    pub(crate) fn approval(&self, execution: &Execution) -> Option<(&Question, &Answer)> {
        let before = self.executions.iter().take_while(|other| other.began < execution.began);
        let since = before.filter(|other| other.idempotency_key == execution.idempotency_key).last();
        let since = since.map_or(0, |other| other.began);
        let between = self.entries.get(since..execution.began).unwrap_or_default();
        between.iter().rev().find_map(|entry| match &entry.what {
            What::Answered { question, answer }
                if question.call.as_ref().is_some_and(|call| call.id == execution.call_id) =>
            {
                matches!(answer, Answer::Allow | Answer::AllowWith(_)).then_some((&**question, answer))
            }
            _ => None,
        })
    }

    /// Returns the values of the notes with this name.
    pub fn notes(&self, name: &str) -> impl Iterator<Item = &Value> {
        let wanted = name.to_owned();
        self.entries.iter().filter_map(move |entry| match &entry.what {
            What::Noted { name, value } if *name == wanted => Some(value),
            _ => None,
        })
    }
}

/// Writes one line for each entry that is not a detail.
impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in &self.entries {
            let text = match &entry.what {
                What::Started if entry.process == 0 => continue,
                What::Started => format!("process {} continues", entry.process),
                What::Prompted(text) => format!("user: {text}"),
                What::Recorded(event) => match self::event(&event.event) {
                    Some(text) => text,
                    None => continue,
                },
                What::GroupRecorded(event) => match &**event {
                    AgentEvent::ParallelLoopStart(start) => {
                        format!("{} branches begin", start.loop_ids.len())
                    }
                    AgentEvent::ParallelLoopEnd(_) => "the branches ended".to_owned(),
                    _ => continue,
                },
                What::Panicked(text) => format!("panic: {text}"),
                What::ModelCalled(history) => format!("model called with {} messages", history.len()),
                What::Executed(index) => match self.executions.get(*index) {
                    Some(execution) => format!(
                        "{} executes {} with {}",
                        execution.tool, execution.call_id, execution.arguments
                    ),
                    None => continue,
                },
                What::Acted(action) => format!("outside: {action:?}"),
                What::Answered { question, answer } => format!("user answers {}: {answer:?}", question.id),
                What::Noted { name, value } => format!("note {name}: {value}"),
                What::Stuck => "nothing happens for a day".to_owned(),
            };
            let lost = if entry.lost { " (lost)" } else { "" };
            writeln!(f, "  {text}{lost}")?;
        }
        Ok(())
    }
}

fn event(event: &AgentEvent) -> Option<String> {
    Some(match event {
        AgentEvent::MessageEnd { message, .. } if message.role() == "assistant" => {
            format!("reply: {:?}", message.text())
        }
        AgentEvent::MessageEnd { message, .. } if message.role() == "user" => {
            format!("message: {:?}", message.text())
        }
        AgentEvent::ToolExecutionEnd(end) => {
            let error = if end.is_error { " with an error" } else { "" };
            format!("{} ended{error}", end.tool_call_id)
        }
        AgentEvent::QuestionAsked { question, .. } => format!("asked {}: {}", question.id, question.text),
        AgentEvent::AgentEnd(end) => format!("run ended: {}", end.ended.name()),
        _ => return None,
    })
}
