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

/// The error of an agent's method. The agent's state is unchanged unless a variant states otherwise.
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
        /// The open questions of the run.
        questions: Vec<Question>,
    },
    /// A run was interrupted, for example by a crash, and has not ended.
    #[error("the last run was interrupted; continue it with resume(), or end it with abort()")]
    Interrupted,
    /// Two tools have the same name.
    #[error("two tools have the name {name}; rename one of them or remove it with set_tools")]
    DuplicateTool {
        /// The name that both tools have.
        name: ToolName,
    },
    /// The agent was restored from a recorded session, but has no journal.
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
        /// The missing tool, hook or route, as a text.
        what: String,
    },
    /// No run waits for an answer.
    #[error("the agent has no open question")]
    NotSuspended,
    /// The answer does not match an open question.
    #[error("{0}")]
    Answer(#[from] Misplaced),
    /// There is no message to continue from.
    #[error("Cannot continue: there are no messages; use prompt()")]
    EmptyTranscript,
    /// The last message is a reply, and no message is queued.
    #[error(
        "Cannot continue from an assistant message without queued messages; use steer() or follow_up() first, or prompt()"
    )]
    AssistantTail,
    /// The conversation has no result of this call.
    #[error("the conversation has no result of the call {call:?}")]
    NoResult {
        /// The id of the call.
        call: ToolCallId,
    },
    /// The run cannot be started because there is no async runtime.
    #[error(transparent)]
    NoRuntime(#[from] NoRuntime),
    /// The message cannot enter the conversation, for example a tool result without its call.
    #[error("the message cannot enter the conversation: {0}")]
    Message(#[from] HistoryError),
    /// The text is not a list of messages, or not a snapshot.
    #[error("the saved conversation cannot be read: {0}")]
    Restore(#[from] serde_json::Error),
    /// The snapshot was written by a later version.
    #[error("the snapshot has version {found}; this version reads up to {known}. Update looptree to read it")]
    SnapshotVersion {
        /// The version of the snapshot.
        found: u32,
        /// The newest version that this library reads.
        known: u32,
    },
    /// The budget cannot be enforced, for example because a model has no price.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// The provider cannot serve this model. The agent keeps its previous model.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The answer does not have the requested form. The conversation retains the reply.
    #[error(transparent)]
    AnswerForm(#[from] Box<AnswerError>),
    /// The branches could not start, or no branch was selected.
    #[error(transparent)]
    Branches(Box<ParallelError>),
    /// The conversation has changed since the branches started.
    #[error(
        "the conversation has changed since the branches started, so the selected branch was not adopted. adopt_branch adopts it in any case"
    )]
    ConversationWentOn,
    /// The action could not be journaled.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The run did not complete. The conversation is retained.
    #[error("{0}")]
    Run(Box<RunEnd>),
}

impl AgentError {
    /// Returns the error of starting another run while `run` waits.
    pub(super) fn waiting(run: &Run) -> Self {
        let questions = run.questions();
        if questions.is_empty() { Self::Interrupted } else { Self::Suspended { questions } }
    }
}
