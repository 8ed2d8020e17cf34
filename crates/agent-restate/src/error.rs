//! The errors of workers and clients.

use std::net::SocketAddr;
use std::time::Duration;

use agent_core::identity::QuestionId;
use serde::{Deserialize, Serialize};

/// A worker cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The name of the agent cannot be the name of a service.
    #[error(
        "`{name}` cannot be the name of a durable agent: use a letter, followed by letters, digits, `_` and `-`"
    )]
    Name {
        /// The name of the agent.
        name: String,
    },
    /// The agent has no model.
    #[error("the agent `{name}` has no model; call `DurableAgent::model`")]
    NoModel {
        /// The name of the agent.
        name: String,
    },
    /// The agent was given an empty list of branches.
    #[error(
        "the branches of the agent `{name}` are an empty list; return at least one from `DurableAgent::branches`"
    )]
    NoBranches {
        /// The name of the agent.
        name: String,
    },
    /// A tool may run for longer than the engine waits for a step.
    #[error(
        "the tool `{tool}` may run for {timeout:?}, but the engine gives up a step after {longest:?} and would run it \
         again without an end; raise `DurableAgent::longest_step` or lower the time limit of the tool"
    )]
    ToolTooSlow {
        /// The name of the tool.
        tool: String,
        /// The time limit of the tool.
        timeout: Duration,
        /// The longest step of the agent.
        longest: Duration,
    },
    /// The identity key of the engine cannot be read.
    #[error("the identity key of Restate cannot be read; expected `publickeyv1_...`: {reason}")]
    IdentityKey {
        /// The reason from the SDK.
        reason: String,
    },
    /// The SDK does not accept the description of a service.
    #[error("the service `{name}` cannot be described to Restate: {source}")]
    Description {
        /// The name of the service.
        name: String,
        /// The cause of the failure.
        source: serde_json::Error,
    },
    /// The address cannot be bound.
    #[error("the worker cannot listen on {address}; choose a free address: {source}")]
    Listen {
        /// The address of the worker.
        address: SocketAddr,
        /// The cause of the failure.
        source: std::io::Error,
    },
}

/// A request about a session failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The address of the engine is not an `http` or `https` URL.
    #[error("`{url}` is not the address of a Restate ingress; use a URL such as `http://localhost:8080`")]
    Url {
        /// The address as it was given.
        url: String,
    },
    /// The address of the engine contains a user name or a password.
    #[error("the address of Restate contains credentials, which errors would show; give it without them")]
    Credentials,
    /// The engine could not be reached, or the connection broke. The request may have arrived: repeat it with the same
    /// idempotency key.
    #[error("the request to Restate failed; repeat it with the same idempotency key: {source}")]
    Transport {
        /// The cause of the failure.
        #[from]
        source: reqwest::Error,
    },
    /// No worker with this agent is registered at the engine.
    #[error("no agent `{agent}` is registered at Restate; start a worker and register its address")]
    UnknownAgent {
        /// The name of the agent.
        agent: String,
    },
    /// The engine refused the request or ended it with an error.
    #[error("Restate answered with status {status}: {message}")]
    Status {
        /// The HTTP status of the response.
        status: u16,
        /// The message of the engine.
        message: String,
    },
    /// A response of the engine or of a worker cannot be read, for example because it is from a later version.
    #[error("a response cannot be read; update the client to the version of the workers: {source}")]
    Response {
        /// The cause of the failure.
        source: serde_json::Error,
    },
    /// A request cannot be written as JSON.
    #[error("a request cannot be written as JSON: {source}")]
    Request {
        /// The cause of the failure.
        source: serde_json::Error,
    },
    /// The session refused the request. Its state is unchanged.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// The reason for which a session refused a request. The state of the session is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "refusal", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refusal {
    /// A prompt arrived while the session waits for answers.
    #[error("the session waits for answers; answer its questions or abort it before the next prompt")]
    WaitsForAnswers,
    /// The answered question is not open: it was answered before, or the run has ended.
    #[error("the question {question} is not open; it was answered before, or its run has ended")]
    NotAsked {
        /// The id of the question.
        question: QuestionId,
    },
    /// The answer does not fit its question.
    #[error("the answer was refused: {reason}")]
    Answer {
        /// The reason from the run.
        reason: String,
    },
    /// A message of the prompt cannot enter the conversation alone.
    #[error("the prompt was refused: {reason}")]
    Prompt {
        /// The reason from the history.
        reason: String,
    },
    /// The agent has no branches.
    #[error("the agent has no branches to explore; define them on its workers with `DurableAgent::branches`")]
    NoBranches,
    /// The stored run or session has a form that this version does not read.
    #[error("{message}")]
    Form {
        /// What was found, and what to do.
        message: String,
    },
    /// The state of the session cannot be read.
    #[error("the state of the session cannot be read, and nothing was changed: {message}")]
    Damaged {
        /// The part and the cause.
        message: String,
    },
}
