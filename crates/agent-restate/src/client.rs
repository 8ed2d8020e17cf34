//! A client of sessions: prompts, answers, messages and events, from any process that reaches the engine.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent_core::event::{Answer, NumberedEvent, Question};
use agent_core::history::History;
use agent_core::identity::QuestionId;
use agent_core::message::AgentMessage;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::StatusCode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::ClientError;
use crate::handlers::{Handlers, MailboxHandler, SessionHandler};
use crate::record::{
    AnswerInput, BranchesEnd, EventsInput, EventsPage, LoopEnd, Mail, Progress, PromptInput, TurnInput,
};
use crate::serve::mailbox_name;

/// How long a client waits between two requests for new events of a running session.
const POLL: Duration = Duration::from_millis(100);

/// How often a client repeats a request for an output that is not there yet.
const OUTPUT_POLL: Duration = Duration::from_millis(50);

/// The longest message of the engine that an error shows, in characters.
const MAX_MESSAGE: usize = 2_000;

/// The characters of a path segment that are not escaped.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A client of the sessions at one Restate server. Clones share a connection pool.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    ingress: Arc<str>,
}

/// A session of an agent. It exists from its first prompt on.
#[derive(Debug, Clone)]
pub struct Session {
    client: Client,
    agent: Arc<str>,
    key: Arc<str>,
    /// The invocation of the last answer that this handle has sent.
    answered: Arc<Mutex<Option<String>>>,
}

/// A prompt that is about to be sent.
#[derive(Debug)]
#[must_use = "a prompt is sent by `send`"]
pub struct Prompt<'s> {
    session: &'s Session,
    handler: SessionHandler,
    messages: Vec<AgentMessage>,
    idempotency_key: Option<String>,
}

/// A run of a session that a prompt or an answer continues.
#[derive(Debug, Clone)]
pub struct Turn {
    session: Session,
    invocation: String,
}

/// Where a run stands when [`Turn::wait`] returns.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TurnEnd {
    /// The run has ended.
    Ended(Box<LoopEnd>),
    /// The run waits for answers. No process has to run meanwhile.
    Waiting(Vec<Question>),
    /// The branches have ended, and one of them was selected or none.
    Explored(Box<BranchesEnd>),
    /// There was no run to continue.
    Idle,
}

/// An event of a session with its number in the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionEvent {
    /// The number of the event in the session, from 0 without gaps.
    pub number: u64,
    /// The event with its number in its loop.
    pub event: NumberedEvent,
}

/// The recorded events of a session, each once and in order.
#[derive(Debug)]
pub struct Events {
    session: Session,
    next: u64,
    ready: VecDeque<NumberedEvent>,
}

impl Client {
    /// Creates a client for the ingress of a Restate server, for example `http://localhost:8080`. Opens no connection.
    ///
    /// # Errors
    /// Returns [`ClientError::Url`] if the address is not an `http` or `https` URL, and [`ClientError::Credentials`] if it
    /// contains a user name or a password.
    pub fn connect(ingress: impl AsRef<str>) -> Result<Self, ClientError> {
        let ingress = ingress.as_ref().trim_end_matches('/');
        let invalid = || ClientError::Url { url: ingress.to_owned() };
        let url = reqwest::Url::parse(ingress).map_err(|_| invalid())?;
        // Errors and logs show the address, so it must not contain a secret.
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ClientError::Credentials);
        }
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() || url.query().is_some() {
            return Err(invalid());
        }
        Ok(Self { http: reqwest::Client::builder().tcp_nodelay(true).build()?, ingress: ingress.into() })
    }

    /// Returns a handle to a session of the agent with this name. The id may be any text; the session is created by its
    /// first prompt.
    #[must_use]
    pub fn session(&self, agent: impl Into<Arc<str>>, id: impl Into<Arc<str>>) -> Session {
        Session { client: self.clone(), agent: agent.into(), key: id.into(), answered: Arc::default() }
    }

    /// Sends a request and returns the body of a successful response.
    async fn send(
        &self,
        request: reqwest::RequestBuilder,
        agent: &str,
    ) -> Result<(StatusCode, Vec<u8>), ClientError> {
        let response = request.send().await?;
        let status = response.status();
        let body = response.bytes().await?.to_vec();
        if status.is_success() {
            return Ok((status, body));
        }
        #[derive(Deserialize)]
        struct Failure {
            message: String,
        }
        let text = match serde_json::from_slice(&body) {
            Ok(Failure { message }) => message,
            Err(_) => String::from_utf8_lossy(&body).into_owned(),
        };
        if status == StatusCode::NOT_FOUND && text.contains("service") {
            return Err(ClientError::UnknownAgent { agent: agent.to_owned() });
        }
        let message = text.chars().take(MAX_MESSAGE).collect();
        Err(ClientError::Status { status: status.as_u16(), message })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("ingress", &self.ingress).finish_non_exhaustive()
    }
}

impl Session {
    /// Returns the id of the session.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.key
    }

    /// Prepares a prompt. A prompt to a running session is started after the run.
    pub fn prompt(&self, message: impl Into<AgentMessage>) -> Prompt<'_> {
        self.prompt_to(SessionHandler::Prompt, message.into())
    }

    /// Prepares a prompt to all branches of the agent, which run concurrently. [`Turn::wait`] returns
    /// [`TurnEnd::Explored`], and the conversation continues with the selected branch.
    ///
    /// The branches and the strategy are those of [`DurableAgent::branches`](crate::DurableAgent::branches) on the workers.
    /// [`abort`](Self::abort) ends all branches. Other messages wait for the next run.
    pub fn explore(&self, message: impl Into<AgentMessage>) -> Prompt<'_> {
        self.prompt_to(SessionHandler::Explore, message.into())
    }

    fn prompt_to(&self, handler: SessionHandler, message: AgentMessage) -> Prompt<'_> {
        Prompt { session: self, handler, messages: vec![message], idempotency_key: None }
    }

    /// Returns the open questions of the session. Empty while it runs, and when nothing waits.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the engine or a worker cannot be reached.
    pub async fn questions(&self) -> Result<Vec<Question>, ClientError> {
        self.call(SessionHandler::Questions, None::<&()>).await
    }

    /// Sends an answer to a question and returns the turn that continues. The engine keeps the answer also if no worker
    /// is alive. Only the first answer to a question has an effect.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the engine cannot be reached. [`Turn::wait`] returns the error of a refused answer.
    pub async fn answer(&self, question: QuestionId, answer: Answer) -> Result<Turn, ClientError> {
        // A refused answer may be repeated, so its key is not that of the question.
        let key = uuid::Uuid::new_v4().simple().to_string();
        let invocation = self.start(SessionHandler::Answer, &AnswerInput { question, answer }, &key).await?;
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = Some(invocation.clone());
        Ok(Turn { session: self.clone(), invocation })
    }

    /// Sends a message to the running session, which the run takes before its next model call. If the session does not
    /// run, its next run takes it. The engine refuses a message while 1,000 others wait, and its list of invocations shows
    /// that; this method returns before.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the engine cannot be reached.
    pub async fn steer(&self, message: impl Into<AgentMessage>) -> Result<(), ClientError> {
        self.mail(Mail::Steer(message.into())).await
    }

    /// Sends a message that the run takes when it would otherwise end. If the session does not run, its next run takes
    /// it. The number of waiting messages is bounded as for [`steer`](Self::steer).
    ///
    /// # Errors
    /// Returns [`ClientError`] if the engine cannot be reached.
    pub async fn follow_up(&self, message: impl Into<AgentMessage>) -> Result<(), ClientError> {
        self.mail(Mail::FollowUp(message.into())).await
    }

    /// Aborts the running or suspended run. An open step is cancelled at once if the worker that performs it receives the
    /// request; otherwise the run ends after the open step. Without an open run this has no effect.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the engine cannot be reached.
    pub async fn abort(&self) -> Result<(), ClientError> {
        self.mail(Mail::Abort).await
    }

    /// Returns the conversation after the last run that ended.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the engine or a worker cannot be reached, or the session has another form.
    pub async fn history(&self) -> Result<History, ClientError> {
        self.call(SessionHandler::History, None::<&()>).await
    }

    /// Returns the recorded events from a number on, each once. The stream ends when the session does not run and all its
    /// events are delivered; a program that was cut off continues with the number after the last event that it has seen.
    ///
    /// Events of a running step are visible when the engine has recorded it, if the request reaches the worker that
    /// drives the session; otherwise when the run is suspended, handed over or ends.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the engine or a worker cannot be reached.
    pub async fn events_from(&self, number: u64) -> Result<Events, ClientError> {
        let mut events = Events { session: self.clone(), next: number, ready: VecDeque::new() };
        events.read().await?;
        Ok(events)
    }

    async fn mail(&self, mail: Mail) -> Result<(), ClientError> {
        let key = uuid::Uuid::new_v4().simple().to_string();
        let target = self.path(&mailbox_name(&self.agent), MailboxHandler::Put);
        self.post(&format!("{target}/send"), Some(&mail), Some(&key)).await?;
        Ok(())
    }

    fn path(&self, service: &str, handler: impl Handlers) -> String {
        let key = utf8_percent_encode(&self.key, SEGMENT);
        format!("{}/{service}/{key}/{}", self.client.ingress, handler.name())
    }

    async fn post<T: Serialize>(
        &self,
        url: &str,
        input: Option<&T>,
        idempotency_key: Option<&str>,
    ) -> Result<Vec<u8>, ClientError> {
        let mut request = self.client.http.post(url);
        if let Some(key) = idempotency_key {
            request = request.header("idempotency-key", key);
        }
        if let Some(input) = input {
            let body = serde_json::to_vec(input).map_err(|source| ClientError::Request { source })?;
            request = request.header("content-type", "application/json").body(body);
        }
        Ok(self.client.send(request, &self.agent).await?.1)
    }

    /// Calls a handler and waits for its output.
    async fn call<T: DeserializeOwned>(
        &self,
        handler: SessionHandler,
        input: Option<&impl Serialize>,
    ) -> Result<T, ClientError> {
        let body = self.post(&self.path(&self.agent, handler), input, None).await?;
        serde_json::from_slice(&body).map_err(|source| ClientError::Response { source })
    }

    /// Starts a handler and returns its invocation, which exists once even if the request is repeated with its key.
    async fn start(
        &self,
        handler: SessionHandler,
        input: &impl Serialize,
        key: &str,
    ) -> Result<String, ClientError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Sent {
            invocation_id: String,
        }
        let url = format!("{}/send", self.path(&self.agent, handler));
        let body = self.post(&url, Some(input), Some(key)).await?;
        let sent: Sent = serde_json::from_slice(&body).map_err(|source| ClientError::Response { source })?;
        Ok(sent.invocation_id)
    }

    /// Waits for the output of an invocation.
    async fn output(&self, invocation: &str) -> Result<Progress, ClientError> {
        let id = utf8_percent_encode(invocation, SEGMENT);
        let url = format!("{}/restate/invocation/{id}/attach", self.client.ingress);
        loop {
            match self.client.send(self.client.http.get(&url), &self.agent).await {
                Ok((status, body)) if status == StatusCode::OK => {
                    return serde_json::from_slice(&body).map_err(|source| ClientError::Response { source });
                }
                Ok(_) => tokio::time::sleep(OUTPUT_POLL).await,
                Err(error) => return Err(error),
            }
        }
    }
}

impl Prompt<'_> {
    /// Adds a message to the prompt.
    pub fn message(mut self, message: impl Into<AgentMessage>) -> Self {
        self.messages.push(message.into());
        self
    }

    /// Sets the key of the prompt. Two prompts to a session with the same key are one prompt, also if the first request was
    /// thought to have failed. Default: a random key.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Sends the prompt. The engine keeps it from now on, also if no worker is alive.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the engine cannot be reached or does not know the agent. [`Turn::wait`] returns the error
    /// of a refused prompt.
    pub async fn send(self) -> Result<Turn, ClientError> {
        let key = self.idempotency_key.unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string());
        let input = PromptInput { messages: self.messages };
        let invocation = self.session.start(self.handler, &input, &key).await?;
        Ok(Turn { session: self.session.clone(), invocation })
    }
}

impl Turn {
    /// Returns the id of the invocation at the engine.
    #[must_use]
    pub fn invocation_id(&self) -> &str {
        &self.invocation
    }

    /// Waits until the run ends or waits for answers, through any number of invocations.
    ///
    /// # Errors
    /// Returns [`ClientError::Refused`] if the session refused the prompt or the answer, and other variants if the engine
    /// cannot be reached. Waiting again is safe.
    pub async fn wait(&self) -> Result<TurnEnd, ClientError> {
        let session = &self.session;
        let mut invocation = self.invocation.clone();
        let mut seen = Vec::new();
        loop {
            let progress = session.output(&invocation).await?;
            seen.push(invocation);
            let (loop_id, questions) = match progress {
                Progress::Ended { end } => return Ok(TurnEnd::Ended(end)),
                Progress::Explored { end } => return Ok(TurnEnd::Explored(end)),
                Progress::Refused { refusal } => return Err(refusal.into()),
                Progress::Idle => return Ok(TurnEnd::Idle),
                Progress::Continues { invocation: next } => {
                    invocation = next;
                    continue;
                }
                Progress::Suspended { loop_id, questions } => (loop_id, questions),
            };
            let answered = session.answered.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(answer) = answered.filter(|answer| !seen.contains(answer)) {
                invocation = answer;
                continue;
            }
            // Another client may have answered.
            match session.call::<Progress>(SessionHandler::Turn, Some(&TurnInput { loop_id })).await? {
                Progress::Ended { end } => return Ok(TurnEnd::Ended(end)),
                Progress::Continues { invocation: next } if !seen.contains(&next) => invocation = next,
                Progress::Suspended { questions, .. } => return Ok(TurnEnd::Waiting(questions)),
                _ => return Ok(TurnEnd::Waiting(questions)),
            }
        }
    }
}

impl Events {
    /// Returns the next event; `None` if the session does not run and all its events were returned.
    ///
    /// # Errors
    /// Returns [`ClientError`] if the engine or a worker cannot be reached. The next call continues with the same event.
    pub async fn next(&mut self) -> Result<Option<SessionEvent>, ClientError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                let number = self.next;
                self.next += 1;
                return Ok(Some(SessionEvent { number, event }));
            }
            let running = self.read().await?;
            if self.ready.is_empty() {
                if !running {
                    return Ok(None);
                }
                tokio::time::sleep(POLL).await;
            }
        }
    }

    /// Returns the remaining events until the session does not run.
    ///
    /// # Errors
    /// Returns the same errors as [`next`](Self::next).
    pub async fn collect(mut self) -> Result<Vec<SessionEvent>, ClientError> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await? {
            events.push(event);
        }
        Ok(events)
    }

    /// Reads a page, and returns whether more events may follow.
    async fn read(&mut self) -> Result<bool, ClientError> {
        let from = self.next + self.ready.len() as u64;
        let page: EventsPage = self.session.call(SessionHandler::Events, Some(&EventsInput { from })).await?;
        let more = page.running || from + (page.events.len() as u64) < page.known;
        self.ready.extend(page.events);
        Ok(more)
    }
}
