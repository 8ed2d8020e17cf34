//! The errors of an agent.

use crate::answer::AnswerError;
use crate::budget::BudgetError;
use crate::environment::NoRuntime;
use crate::event::{Question, RunEnd};
use crate::history::HistoryError;
use crate::identity::{ToolCallId, ToolName};
use crate::journal::JournalError;
use crate::parallel::ParallelError;
use crate::provider::ProviderError;
use crate::run::{Misplaced, Run};

/// The error of an agent's method. The agent's state is unchanged, unless a variant says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// A run is open. Queue the message with `steer` or `follow_up`, or wait for the end.
    #[error(
        "the agent is already running; queue the message with steer() or follow_up(), or wait for finish()"
    )]
    Busy,
    /// A run waits for answers to questions.
    #[error("the agent waits for an answer to {} question(s); answer them with answer(), or abort()", .questions.len())]
    Suspended {
        /// The open questions.
        questions: Vec<Question>,
    },
    /// A run was interrupted, by a crash for example, and has not ended.
    #[error("the last run was interrupted; continue it with resume(), or end it with abort()")]
    Interrupted,
    /// Two tools have the same name.
    #[error("two tools have the name {name}; rename one of them or remove it with set_tools")]
    DuplicateTool {
        /// The name.
        name: ToolName,
    },
    /// The agent was restored from a recorded session and records nothing.
    #[error(
        "this agent was restored from a recorded session, but has no journal: its effects would not be recorded. Restore it \
         with restore_session(store), which records, or call resume_unrecorded()"
    )]
    Unrecorded,
    /// The run needs something that this agent does not have.
    #[error(
        "the run needs {what}, which this agent does not have; build the agent with it, then call resume()"
    )]
    Lacks {
        /// What is missing: a tool, a hook or a route.
        what: String,
    },
    /// No run waits for an answer.
    #[error("the agent waits for no answer")]
    NotSuspended,
    /// The answer does not fit a question that is open.
    #[error("{0}")]
    Answer(#[from] Misplaced),
    /// There is no message to continue from.
    #[error("Cannot continue: there are no messages; use prompt()")]
    EmptyTranscript,
    /// The last message is a reply and nothing is queued.
    #[error(
        "Cannot continue from an assistant message without queued messages; use steer() or follow_up() first, or prompt()"
    )]
    AssistantTail,
    /// The conversation has no result of this call.
    #[error("the conversation has no result of the call {call:?}")]
    NoResult {
        /// The call.
        call: ToolCallId,
    },
    /// There is nobody to run it.
    #[error(transparent)]
    NoRuntime(#[from] NoRuntime),
    /// A message may not enter alone.
    #[error("the message cannot enter the conversation: {0}")]
    Message(#[from] HistoryError),
    /// The text is not a list of messages, or not a snapshot.
    #[error("the saved conversation cannot be read: {0}")]
    Restore(#[from] serde_json::Error),
    /// The snapshot was written by a later version.
    #[error("the snapshot has version {found}; this version reads up to {known}. Update looptree to read it")]
    SnapshotVersion {
        /// The snapshot's version.
        found: u32,
        /// The newest that is known.
        known: u32,
    },
    /// The budget cannot be kept.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// The provider cannot serve this model. The agent keeps the one it had.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The answer has not the form that was asked for. The conversation is kept, with what came.
    #[error(transparent)]
    AnswerForm(#[from] Box<AnswerError>),
    /// Branches could not begin, or none was selected.
    #[error(transparent)]
    Branches(Box<ParallelError>),
    /// The conversation is not what the branches began with.
    #[error(
        "the conversation has gone on since the branches began; the selected one was not taken over. adopt_branch does it in any case"
    )]
    ConversationWentOn,
    /// What was asked for could not be written down.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The run did not complete. The conversation is retained.
    #[error("{0}")]
    Run(Box<RunEnd>),
}

impl AgentError {
    /// Why nothing else can start while this run waits.
    pub(super) fn waiting(run: &Run) -> Self {
        let questions = run.questions();
        if questions.is_empty() { Self::Interrupted } else { Self::Suspended { questions } }
    }
}
