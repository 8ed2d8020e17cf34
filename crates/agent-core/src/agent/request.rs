//! A run with options: where its events go, how it continues, and an answer of a Rust type.

use std::fmt;
use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::handle::reply;
#[cfg(feature = "partial-answers")]
use super::partial::{PartialReader, PartialValue};
use super::{AgentError, AgentHandle, Settings};
use crate::answer::{AnswerError, AnswerFault, AnswerForm};
use crate::drive::{EventReceiver, EventSender, event_channel, merging_channel};
use crate::event::{RunEnd, RunReply};
use crate::identity::ContinuationKind;
use crate::message::{AgentMessage, AssistantMessage, Content, StopReason};
use crate::model::{ApiProtocol, ToolChoice};

/// A run that has not started yet. [`AgentHandle::request`] creates it, and [`start`](Self::start) starts it.
///
/// ```
/// # use agent_core::testing::ScriptedProvider;
/// # use agent_core::{BasicAgent, ModelConfig};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let agent = BasicAgent::new(ModelConfig::default()).with_provider(ScriptedProvider::texts(["Done."]));
/// let mut events = agent.request("Tidy up").merging(256).start()?;
/// while let Some(event) = events.recv().await {
///     println!("{}", serde_json::to_string(&event)?);
/// }
/// assert!(events.end().await.is_completed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a request does nothing until it is started"]
pub struct Request {
    agent: AgentHandle,
    prompts: Vec<AgentMessage>,
    continuation: Option<ContinuationKind>,
    sender: Option<EventSender>,
    capacity: Option<usize>,
}

/// Shows the number of prompts, without their text.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("agent", &self.agent)
            .field("prompts", &self.prompts.len())
            .field("continuation", &self.continuation)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

impl Request {
    pub(super) fn new(agent: AgentHandle, prompts: Vec<AgentMessage>) -> Self {
        Self { agent, prompts, continuation: None, sender: None, capacity: None }
    }

    /// Sends the events to `tx`, which several runs can share. The receiver that `start` returns then gets only the
    /// end.
    pub fn events_to(mut self, tx: impl Into<EventSender>) -> Self {
        self.sender = Some(tx.into());
        self
    }

    /// Bounds the receiver: when about `capacity` events are waiting, deltas of the same block are merged. No text is
    /// lost.
    pub fn merging(mut self, capacity: usize) -> Self {
        self.capacity = Some(capacity);
        self
    }

    /// Records the run as a continuation of the last loop, of this kind. An empty tag is filled with the time.
    ///
    /// Without a prompt, the conversation must end with a message that needs a reply, as for
    /// [`AgentHandle::continue_run`].
    pub fn continuing(mut self, kind: ContinuationKind) -> Self {
        self.continuation = Some(kind);
        self
    }

    /// Requests an answer of type `T`.
    pub fn typed<T>(self) -> TypedRequest<T>
    where
        T: JsonSchema + DeserializeOwned + Send + 'static,
    {
        self.answering(AnswerForm::new())
    }

    /// Requests an answer of type `T` with a form that sets its name and how often an answer is requested again.
    pub fn answering<T>(self, form: AnswerForm<T>) -> TypedRequest<T>
    where
        T: JsonSchema + DeserializeOwned + Send + 'static,
    {
        TypedRequest { request: self, form }
    }

    /// Starts the run and returns at once.
    ///
    /// # Errors
    /// Returns the same errors as [`AgentHandle::prompt`], and those of [`AgentHandle::continue_run`] for a
    /// continuation without a prompt.
    pub fn start(self) -> Result<EventReceiver, AgentError> {
        let (tx, rx) = channels(self.sender, self.capacity);
        let Self { agent, prompts, continuation, .. } = self;
        let continuation = match continuation {
            Some(kind) => {
                if prompts.is_empty() {
                    agent.check_continues(&kind)?;
                }
                Some(agent.inner.tagged(kind))
            }
            None => None,
        };
        agent.start_run(agent.settings_of_run(), prompts, continuation, tx)?;
        Ok(rx)
    }
}

/// The sender of a run, and the receiver that its caller gets.
fn channels(sender: Option<EventSender>, capacity: Option<usize>) -> (EventSender, EventReceiver) {
    let (own, rx) = capacity.map_or_else(event_channel, merging_channel);
    (sender.map_or_else(|| own.clone(), |tx| tx.with_end_to(own.clone())), rx)
}

/// A request for an answer of type `T` that has not started yet.
#[must_use = "a request does nothing until it is started"]
pub struct TypedRequest<T> {
    request: Request,
    form: AnswerForm<T>,
}

impl<T> TypedRequest<T>
where
    T: JsonSchema + DeserializeOwned + Send + 'static,
{
    /// Sends the events of all runs that the answer takes to `tx`.
    pub fn events_to(mut self, tx: impl Into<EventSender>) -> Self {
        self.request = self.request.events_to(tx);
        self
    }

    /// Bounds the receiver, as [`Request::merging`].
    pub fn merging(mut self, capacity: usize) -> Self {
        self.request = self.request.merging(capacity);
        self
    }

    /// Starts the first run and returns at once. An answer that does not fit `T` starts another run that asks for it
    /// again.
    ///
    /// # Errors
    /// Returns the same errors as [`AgentHandle::prompt`].
    pub fn start(self) -> Result<TypedRun<T>, AgentError> {
        let Self { request: Request { agent, prompts, sender, capacity, .. }, form } = self;
        let (tx, events) = channels(sender, capacity);
        let environment = agent.config().services.environment;
        let ended = start_one(&agent, prompts, &form, 1, &tx)?;
        let (done, answer) = oneshot::channel();
        #[cfg(feature = "partial-answers")]
        let of = form.clone();
        environment.spawn(Box::pin(async move {
            let mut done = done;
            let result = tokio::select! {
                biased;
                result = answer_of(&agent, ended, &form, &tx) => result,
                // The caller has dropped the answer: the open run continues, but no further run is started.
                () = done.closed() => return,
            };
            drop(tx);
            let _ = done.send(result);
        }))?;
        Ok(TypedRun {
            #[cfg(feature = "partial-answers")]
            reader: PartialReader::new(&of),
            events,
            answer,
            of: PhantomData,
        })
    }
}

impl<T> fmt::Debug for TypedRequest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedRequest").field(&self.request).finish()
    }
}

/// A run whose answer is a `T`. Dropping it does not stop the run.
pub struct TypedRun<T> {
    /// The events of all runs that the answer takes.
    pub events: EventReceiver,
    #[cfg(feature = "partial-answers")]
    reader: PartialReader<T>,
    answer: oneshot::Receiver<Result<T, AgentError>>,
    of: PhantomData<T>,
}

impl<T> TypedRun<T> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// Returns [`AgentError::Run`] when a run does not complete, and [`AgentError::AnswerForm`] when no answer fits.
    pub async fn answer(self) -> Result<T, AgentError> {
        drop(self.events);
        match self.answer.await {
            Ok(answer) => answer,
            Err(_) => {
                let reason = "the task that reads the answer was dropped".to_owned();
                let failure = crate::event::RunFailure::Interrupted { reason };
                Err(AgentError::Run(Box::new(RunEnd::Failed(failure))))
            }
        }
    }
}

#[cfg(feature = "partial-answers")]
#[cfg_attr(docsrs, doc(cfg(feature = "partial-answers")))]
impl<T: JsonSchema + DeserializeOwned> TypedRun<T> {
    /// Waits for the next change of the answer and returns what has arrived; `None` after the end of the last run. Reads
    /// [`events`](Self::events), so a program that needs the other events, too, applies each event to a
    /// [`PartialReader`] of its own instead. After an answer that does not fit, the values of the next one follow.
    ///
    /// ```
    /// use agent_core::testing::ScriptedProvider;
    /// use agent_core::{BasicAgent, ModelConfig};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Plan {
    ///     steps: Vec<String>,
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let model = ScriptedProvider::texts([r#"{"steps": ["read", "write"]}"#]);
    /// let agent = BasicAgent::new(ModelConfig::default()).with_provider(model);
    /// let mut run = agent.request("Make a plan.").typed::<Plan>().start()?;
    /// while let Some(partial) = run.next_partial().await {
    ///     println!("{}", partial.json);
    /// }
    /// assert_eq!(run.answer().await?.steps.len(), 2);
    /// # Ok::<(), agent_core::AgentError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn next_partial(&mut self) -> Option<PartialValue<T>> {
        loop {
            let event = self.events.recv().await?;
            if let Some(partial) = self.reader.apply(&event) {
                return Some(partial);
            }
        }
    }
}

impl<T> fmt::Debug for TypedRun<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedRun").field("events", &self.events).finish_non_exhaustive()
    }
}

/// Starts the `asked`th run for an answer. The receiver gets its end.
fn start_one<T>(
    agent: &AgentHandle,
    prompts: Vec<AgentMessage>,
    form: &AnswerForm<T>,
    asked: u32,
    tx: &EventSender,
) -> Result<EventReceiver, AgentError>
where
    T: JsonSchema + DeserializeOwned,
{
    let mut settings: Settings = agent.settings_of_run();
    let last = asked > form.retries();
    settings.change(|config| {
        config.request.response_format = form.format();
        // Where no tool may be called, even servers that offer either calls or a form apply the form, so the last try
        // is without calls. Bedrock cannot forbid calls, and does not need it.
        let can_forbid = config.model.api != ApiProtocol::BedrockConverseStream;
        if last && asked > 1 && can_forbid && matches!(config.request.tool_choice, ToolChoice::Auto) {
            config.request.tool_choice = ToolChoice::None;
        }
    });
    let (end_tx, end_rx) = event_channel();
    agent.start_run(settings, prompts, None, tx.clone().with_end_to(end_tx))?;
    Ok(end_rx)
}

async fn answer_of<T>(
    agent: &AgentHandle,
    mut ended: EventReceiver,
    form: &AnswerForm<T>,
    tx: &EventSender,
) -> Result<T, AgentError>
where
    T: JsonSchema + DeserializeOwned,
{
    for asked in 1.. {
        let end = reply(ended.end().await)?;
        let validator = agent.config().services.validator;
        let mut error = match read(&end, |text| form.read_with(&*validator, text)) {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        if asked > form.retries() {
            error.asked = asked;
            return Err(Box::new(error).into());
        }
        agent.wait_for_idle().await;
        let correction = vec![AgentMessage::user(error.correction())];
        ended = start_one(agent, correction, form, asked + 1, tx)?;
    }
    // The numbers do not end before the retries do.
    Err(Box::new(AnswerError::new(AnswerFault::Empty, "")).into())
}

/// Reads a reply. If the whole text is not an answer, the last text block that is one counts. An answer that the
/// output limit cut off is reported as such, regardless of other errors.
fn read<T>(end: &RunReply, read: impl Fn(&str) -> Result<T, AnswerError>) -> Result<T, AnswerError> {
    let Some(reply): Option<&AssistantMessage> = end.message() else { return read("") };
    let whole = read(&end.text());
    let mut blocks = reply.content.iter().rev().filter_map(Content::as_text);
    let found = whole.or_else(|error| blocks.find_map(|text| read(text).ok()).ok_or(error));
    found.map_err(|mut error| {
        if reply.stop_reason == StopReason::Length {
            error.fault = AnswerFault::CutOff;
        }
        error
    })
}
