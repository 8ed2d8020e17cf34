//! Calls the model, streams its reply, and returns the result as inputs.

use std::convert::Infallible;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::Performer;
use super::unknown_model::unknown_model;
use crate::drive::config::AgentLoopConfig;
use crate::drive::panics::panic_text;
use crate::drive::request::RequestParts;
use crate::drive::spans;
use crate::event::{AgentEvent, StreamDelta, TransportFallback, UnknownModel};
use crate::history::History;
use crate::identity::{LoopId, StepKey, Timestamp, ToolName};
use crate::message::{AgentMessage, AssistantMessage, Content, LlmMessage, Message, StopReason};
use crate::model::{ApiProtocol, ToolChoice};
use crate::prefix::{CacheBreak, Call, Found, Prefixes};
use crate::provider::{
    Completion, ErrorKind, EventSink, ModelRequest, ProviderError, ReplyLimit, ReplyLog, SteeringFeed,
    StreamEvent, StreamProvider,
};
use crate::run::{Failure, Input, PartialReply, Reply, Run, Step};
use crate::tool::Tools;

/// What a reply delivers while it arrives.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Live {
    /// The reply has begun. Apply this input at once, so that `MessageStart` precedes the updates.
    Started(Input),
    /// A live event, which is not recorded: a piece of the reply (a `MessageUpdate`), a `TransportFallback`, or a
    /// `ModelUnknown` before the reply.
    Update(AgentEvent),
}

/// Receives the live part of a reply for the built-in driver.
pub(crate) trait LiveSink: Send {
    type Error: Send;

    /// Applies the start of the reply and delivers its event.
    fn started(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Delivers an update, or returns it if it has to be awaited with [`update`](Self::update).
    fn try_update(&mut self, event: AgentEvent) -> Option<AgentEvent>;

    /// Delivers an update and waits for its listeners.
    fn update(&mut self, event: AgentEvent) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// A model call that is ready to be made. It borrows neither the run nor the performer.
pub struct ModelCall {
    config: Arc<AgentLoopConfig>,
    system_prompt: Arc<str>,
    tools: Tools,
    prefixes: Prefixes,
    cancel: CancellationToken,
    loop_id: LoopId,
    /// The time of the last input before the call.
    now: Timestamp,
    session_id: String,
    key: StepKey,
    attempt: u32,
    route: u32,
    history: History,
    max_output: Option<u32>,
    started: bool,
    /// What is unknown about the model, if it was not reported yet.
    unknown: Option<Box<UnknownModel>>,
    log: ReplyLog,
    span: Span,
    /// Reports steering while the reply arrives.
    pub(crate) steering: Option<SteeringFeed>,
}

/// What one poll of the provider delivered.
#[derive(Default)]
struct Inbox {
    begun: bool,
    events: Vec<AgentEvent>,
    exceeded: Option<ReplyLimit>,
}

/// Returns whether a call in the text of the reply is a call: the protocol is one of local models, and calls are allowed.
fn writes_calls_as_text(request: &ModelRequest) -> bool {
    let is_local = matches!(request.model.api, ApiProtocol::OpenAiCompletions | ApiProtocol::OllamaChat);
    is_local && request.options.tool_choice != ToolChoice::None
}

/// Delivers the events of a reply in order.
async fn deliver<L: LiveSink>(live: &mut L, events: Vec<AgentEvent>) -> Result<(), L::Error> {
    for event in events {
        if let Some(event) = live.try_update(event) {
            live.update(event).await?;
        }
    }
    Ok(())
}

/// The result of polling the provider.
enum Polled {
    /// Events wait to be delivered.
    Some,
    /// The call has ended; the outer error is the message of a panic.
    End(Result<Result<Completion, ProviderError>, String>),
    Cancelled,
}

impl ModelCall {
    /// Returns the call of `step`, which is the next step of the run; `None` if it is not a model call.
    pub(super) fn of(performer: &Performer, run: &Run, step: Step) -> Option<Self> {
        let Step::CallModel { key, attempt, route, history, max_output, .. } = step else { return None };
        let config = &performer.config;
        let index = usize::try_from(route).unwrap_or_default().checked_sub(1);
        let spare = index.and_then(|index| config.routes.get(index)).map(|route| &route.model);
        let model = spare.unwrap_or(&config.model);
        let span = spans::model_call(performer.spans.as_deref(), run, model, &key, attempt);
        Some(Self {
            config: Arc::clone(config),
            system_prompt: Arc::clone(&performer.system_prompt),
            tools: performer.tools.clone(),
            prefixes: performer.prefixes.shared(),
            cancel: performer.cancel.clone(),
            loop_id: run.loop_id().clone(),
            now: run.now(),
            session_id: run.setup().session_id.as_str().to_owned(),
            key,
            attempt,
            route,
            history,
            max_output,
            // A run that is resumed during a reply has already emitted its start; the call is made again.
            started: run.reply_has_begun(),
            unknown: unknown_model(config, &performer.unknown_models, run.loop_id(), route),
            log: ReplyLog::new(),
            span,
            steering: None,
        })
    }

    /// Returns the part of the reply that has arrived so far. A driver that is stopped while the reply arrives applies
    /// it with [`Input::Abort`].
    #[must_use]
    pub fn partial(&self) -> PartialReply {
        PartialReply::of(&self.log)
    }

    /// Returns another handle to the reply that arrives.
    pub(crate) fn arriving(&self) -> ReplyLog {
        self.log.shared()
    }

    /// Calls the model and returns the inputs to apply, in order. `live` receives the parts of the reply while it
    /// arrives. An abort, a failed hook and a panic of the provider are inputs, too.
    pub async fn perform(mut self, live: impl FnMut(Live) + Send) -> Vec<Input> {
        let mut sink = Closure(live);
        match self.perform_to(&mut sink).await {
            Ok(inputs) => inputs,
            Err(never) => match never {},
        }
    }

    /// Calls the model, delivers the live part of the reply to `sink`, and returns the other inputs.
    pub(crate) async fn perform_to<S: LiveSink>(&mut self, sink: &mut S) -> Result<Vec<Input>, S::Error> {
        if let Some(unknown) = self.unknown.take() {
            sink.update(AgentEvent::ModelUnknown(unknown)).await?;
        }
        let parts = RequestParts {
            config: &self.config,
            system_prompt: &self.system_prompt,
            tools: &self.tools,
            prefixes: &self.prefixes,
            session_id: Some(std::mem::take(&mut self.session_id)),
        };
        let history = std::mem::take(&mut self.history);
        let built = tokio::select! {
            biased;
            built = parts.build(history, self.route) => built,
            () = self.cancel.cancelled() => return Ok(vec![Input::abort(None)]),
        };
        let (provider, request) = match built {
            Ok((provider, mut request)) => {
                if self.max_output.is_some() {
                    request.options.max_tokens = self.max_output;
                }
                request.steering = self.steering.take();
                spans::connect_request(&self.config.services, &self.span, &mut request);
                (provider, request)
            }
            Err(message) => {
                let failure = Failure::new(ErrorKind::Other, message);
                return Ok(vec![Input::ModelFailed { failure, partial: None }]);
            }
        };
        if self.cancel.is_cancelled() {
            return Ok(vec![Input::abort(None)]);
        }
        let broken = self.compare_prefix(&request, &*provider);
        let span = self.span.clone();
        let end = self.stream(provider, &request, sink).instrument(span).await?;
        let miss = match &end {
            Polled::End(Ok(Ok(completion))) => completion.cache_miss.clone(),
            _ => None,
        };
        let input = self.result(end, &request);
        spans::record_reply(&self.config.services, &self.span, &input, &request.model);
        let found = match broken {
            Some(broken) => broken.reported(&self.log.usage(), miss),
            None if self.config.policy.watch_cache => {
                miss.and_then(|miss| CacheBreak::by_vendor(self.call(), miss))
            }
            None => None,
        };
        let found = found.map(|found| Input::CacheBroke { found: Box::new(found) });
        // Only a request that the provider answered can be in its cache.
        if self.config.policy.watch_cache
            && (matches!(input, Input::ModelReplied { .. }) || !self.log.usage().is_zero())
        {
            self.prefixes.remember(request, self.log.usage(), self.now);
        }
        Ok(found.into_iter().chain(std::iter::once(input)).collect())
    }

    /// Returns the end of a call as an input.
    fn result(&self, end: Polled, request: &ModelRequest) -> Input {
        let partial = || self.partial();
        let failed = |failure| Input::ModelFailed { failure, partial: Some(Box::new(partial())) };
        match end {
            Polled::Cancelled | Polled::End(Ok(Err(ProviderError::Cancelled))) => {
                Input::abort(Some(partial()))
            }
            // An error after an abort is a consequence of the abort.
            Polled::End(Ok(Err(_))) if self.cancel.is_cancelled() => Input::abort(Some(partial())),
            Polled::Some => Input::abort(None),
            Polled::End(Ok(Ok(completion))) => {
                let mut message = self.log.finish(&request.model.provider, &request.model.id, &completion);
                message.api = Some(request.model.api);
                if writes_calls_as_text(request) {
                    let tools = request.tools.definitions();
                    message.take_calls_in_text(|name| tools.iter().any(|tool| tool.name == name));
                }
                self.name_tools(&mut message);
                let (tokens, message) = self.counted_reply(message);
                match Reply::new(message) {
                    Ok(reply) => Input::ModelReplied { reply: reply.counted(tokens) },
                    Err(error) => failed(Failure::new(ErrorKind::Other, error.to_string())),
                }
            }
            Polled::End(Ok(Err(error))) => {
                let mut failure = Failure::from(&error);
                if let Some(key) = request.key() {
                    failure.message = key.redact(&failure.message);
                }
                failed(failure)
            }
            Polled::End(Err(panic)) => {
                failed(Failure::new(ErrorKind::Other, format!("the provider panicked: {panic}")))
            }
        }
    }

    /// Compares the request with the last one to the same model and returns where they differ.
    fn compare_prefix(&self, request: &ModelRequest, provider: &dyn StreamProvider) -> Option<Box<Found>> {
        if !self.config.policy.watch_cache {
            return None;
        }
        let hooks = &self.config.hooks.context;
        let hooked = !hooks.transform.is_empty() || !hooks.convert.is_empty();
        self.prefixes.compare(request, provider, self.call(), hooked)
    }

    fn call(&self) -> Call<'_> {
        Call { loop_id: &self.loop_id, step: &self.key, now: self.now }
    }

    /// Polls the provider and delivers the events of each poll before the next one.
    async fn stream<S: LiveSink>(
        &mut self,
        provider: Arc<dyn StreamProvider>,
        request: &ModelRequest,
        live: &mut S,
    ) -> Result<Polled, S::Error> {
        let inbox = Mutex::new(Inbox::default());
        let (span, environment) = (&self.span, &self.config.services.environment);
        let sent = (!span.is_disabled()).then(|| environment.monotonic_ms());
        let (log, loop_id, key, attempt) = (&mut self.log, &self.loop_id, &self.key, self.attempt);
        let mut sink = |event: StreamEvent<'_>| {
            let pushed = log.try_push(&event);
            let mut inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(limit) = pushed {
                inbox.exceeded = Some(limit);
                return;
            }
            let (content_index, delta) = match event {
                StreamEvent::Start { .. } => {
                    inbox.begun = true;
                    if let Some(sent) = sent {
                        spans::record_first_chunk(span, environment.monotonic_ms().saturating_sub(sent));
                    }
                    return;
                }
                StreamEvent::TextDelta { index, delta } => {
                    (index, StreamDelta::Text { text: delta.to_owned() })
                }
                StreamEvent::ThinkingDelta { index, delta } => {
                    (index, StreamDelta::Thinking { text: delta.to_owned() })
                }
                StreamEvent::ToolCallDelta { index, delta } => {
                    (index, StreamDelta::ToolCallDelta { text: delta.to_owned() })
                }
                StreamEvent::Citation { index, citation } => {
                    (index, StreamDelta::Citation { citation: Box::new(citation.clone()) })
                }
                StreamEvent::Fallback { from, to, reason } => {
                    let (loop_id, step) = (loop_id.clone(), key.clone());
                    let (from, to, reason) = (from.to_owned(), to.to_owned(), reason.to_owned());
                    let fallback = TransportFallback { loop_id, step, from, to, reason };
                    inbox.events.push(AgentEvent::TransportFallback(Box::new(fallback)));
                    return;
                }
                StreamEvent::ServerTool { index, call } => {
                    (index, StreamDelta::ServerTool { call: Box::new(call.clone()) })
                }
                _ => return,
            };
            // Deltas before the start of the reply are logged but not delivered.
            if inbox.begun {
                inbox.events.push(AgentEvent::MessageUpdate {
                    loop_id: loop_id.clone(),
                    step: key.clone(),
                    attempt,
                    message: log.snapshot(),
                    content_index,
                    delta,
                });
            }
        };
        let cancel = &self.cancel;
        let sink: &mut EventSink<'_> = &mut sink;
        let mut call = pin!(AssertUnwindSafe(provider.stream(request, sink, cancel)).catch_unwind());
        let mut cancelled = pin!(cancel.cancelled());
        // The waker that an abort wakes. It is registered again only when it changes.
        let mut woken: Option<Waker> = None;
        let mut started = self.started;
        let mut undelivered = Vec::new();
        loop {
            let receiver = &mut *live;
            let polled = poll_fn(|cx| {
                let end = call.as_mut().poll(cx);
                let mut inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
                if started {
                    // Without listeners, events are delivered in the poll that produced them.
                    let mut arrived = inbox.events.drain(..);
                    undelivered.extend(arrived.by_ref().find_map(|event| receiver.try_update(event)));
                    undelivered.extend(arrived);
                }
                let waiting = !undelivered.is_empty() || (inbox.begun && !started);
                let exceeded = inbox.exceeded;
                drop(inbox);
                match end {
                    Poll::Pending | Poll::Ready(Ok(Ok(_))) if let Some(limit) = exceeded => {
                        Poll::Ready(Polled::End(Ok(Err(limit.error_of(&request.model)))))
                    }
                    Poll::Ready(end) => Poll::Ready(Polled::End(end.map_err(|p| panic_text(&*p)))),
                    Poll::Pending if waiting => Poll::Ready(Polled::Some),
                    Poll::Pending if cancel.is_cancelled() => Poll::Ready(Polled::Cancelled),
                    Poll::Pending if woken.as_ref().is_some_and(|w| w.will_wake(cx.waker())) => Poll::Pending,
                    Poll::Pending => {
                        woken = Some(cx.waker().clone());
                        cancelled.as_mut().poll(cx).map(|()| Polled::Cancelled)
                    }
                }
            })
            .await;
            if !started {
                let begun = {
                    let mut inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
                    undelivered.append(&mut inbox.events);
                    inbox.begun
                };
                if begun {
                    started = true;
                    live.started().await?;
                }
            }
            if !undelivered.is_empty() {
                // Boxed, so that a run reserves no memory for it while it waits for the model.
                Box::pin(deliver(live, std::mem::take(&mut undelivered))).await?;
            }
            match polled {
                Polled::Some if cancel.is_cancelled() => return Ok(Polled::Cancelled),
                Polled::Some => {}
                end => return Ok(end),
            }
        }
    }

    /// Gives the calls of unknown tools the name of the tool that the model can only have meant, before anything decides by it.
    fn name_tools(&self, reply: &mut AssistantMessage) {
        for block in &mut reply.content {
            if let Content::ToolCall(call) = block
                && self.tools.find(call.name.as_str()).is_none()
                && let Some(name) = self.tools.only_match(call.name.as_str())
            {
                call.name = ToolName::from(name);
            }
        }
    }

    /// Counts the tokens of a reply with the configured counter.
    fn counted_reply(&self, reply: AssistantMessage) -> (u64, AssistantMessage) {
        let message = AgentMessage::from(Message::from(reply));
        let tokens = self.config.services.token_counter.count_message(&message);
        match message {
            AgentMessage::Llm(LlmMessage { message: Message::Assistant(reply), .. }) => (tokens, reply),
            AgentMessage::Llm(_) | AgentMessage::Extension(_) => {
                (tokens, AssistantMessage::new("", "", StopReason::Stop))
            }
        }
    }
}

impl std::fmt::Debug for ModelCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelCall")
            .field("loop_id", &self.loop_id)
            .field("key", &self.key)
            .field("attempt", &self.attempt)
            .field("route", &self.route)
            .finish_non_exhaustive()
    }
}

/// Passes the live part of a reply to a closure.
struct Closure<F>(F);

impl<F: FnMut(Live) + Send> LiveSink for Closure<F> {
    type Error = Infallible;

    async fn started(&mut self) -> Result<(), Infallible> {
        (self.0)(Live::Started(Input::ReplyStarted));
        Ok(())
    }

    fn try_update(&mut self, event: AgentEvent) -> Option<AgentEvent> {
        (self.0)(Live::Update(event));
        None
    }

    async fn update(&mut self, event: AgentEvent) -> Result<(), Infallible> {
        (self.0)(Live::Update(event));
        Ok(())
    }
}
