//! Calling the model: hooks, the request, the stream, the fold.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use futures_util::FutureExt;

use super::halt::Halt;
use super::shell::{Shell, contained, panic_text};
use crate::event::{AgentEvent, StreamDelta};
use crate::history::History;
use crate::hooks::{HookError, Transform};
use crate::identity::{LoopId, StepKey};
use crate::journal::Durability;
use crate::message::{AgentMessage, AssistantMessage, LlmMessage, Message, StopReason};
use crate::model::{ModelConfig, Secret};
use crate::prefix::Found;
use crate::provider::{
    Completion, ErrorContext, ErrorKind, EventSink, ModelRequest, ProviderError, ReplyLog, StreamEvent,
    StreamProvider,
};
use crate::run::{Failure, Input, PartialReply, Reply};

/// The most bytes of text, thinking and arguments that one reply may have: 64 MiB. A longer one is an error.
pub const MAX_REPLY_BYTES: usize = 64 << 20;

/// What one poll of the provider brought, besides deltas.
#[derive(Default)]
struct Inbox {
    begun: bool,
    events: Vec<AgentEvent>,
    /// Bytes of the reply so far.
    bytes: usize,
}

/// How the stream ended, or that there are deltas to pass on.
enum Polled {
    Some,
    End(Result<Result<Completion, ProviderError>, String>),
    Cancelled,
}

impl Shell {
    pub(super) async fn call_model(
        &mut self,
        history: History,
        key: StepKey,
        (attempt, route): (u32, u32),
        max_output: Option<u32>,
    ) -> Result<(), Halt> {
        let cancel = self.cancel.clone();
        let built = tokio::select! {
            biased;
            built = self.request(history, route) => built,
            () = cancel.cancelled() => return self.apply(Input::abort(None)).await,
        };
        let (provider, request) = match built {
            Ok((provider, mut request)) => {
                if max_output.is_some() {
                    request.max_tokens = max_output;
                }
                (provider, request)
            }
            Err(message) => {
                let failure = Failure::new(ErrorKind::Other, message);
                return self.apply(Input::ModelFailed { failure, partial: None }).await;
            }
        };
        if cancel.is_cancelled() {
            return self.apply(Input::abort(None)).await;
        }
        let broken = self.compare(&request, &*provider, &key);
        // Nothing is said by the run until the reply has begun: thousands may wait here.
        self.ledger.shrink();
        let mut log = ReplyLog::new();
        self.arriving = Some(log.shared());
        let end = self.stream(provider, &request, &mut log, key, attempt).await?;
        // What the handle queued while the reply arrived is applied before the reply is.
        self.check_mail().await?;
        self.arriving = None;
        let partial = || Box::new(PartialReply::of(&log));
        let input = match end {
            Polled::Cancelled | Polled::End(Ok(Err(ProviderError::Cancelled))) => {
                Input::Abort { partial: Some(partial()), interrupted: None }
            }
            // Whatever a call fails with after an abort, the abort is why it ended (B-061).
            Polled::End(Ok(Err(_))) if cancel.is_cancelled() => {
                Input::Abort { partial: Some(partial()), interrupted: None }
            }
            Polled::Some => Input::abort(None),
            Polled::End(Ok(Ok(completion))) => {
                let mut message = log.finish(&request.model.provider, &request.model.id, &completion);
                message.api = Some(request.model.api);
                let (tokens, message) = self.counted_reply(message);
                match Reply::new(message) {
                    Ok(reply) => Input::ModelReplied { reply: reply.counted(tokens) },
                    Err(error) => {
                        let failure = Failure::new(ErrorKind::Other, error.to_string());
                        Input::ModelFailed { failure, partial: Some(partial()) }
                    }
                }
            }
            Polled::End(Ok(Err(error))) => {
                let mut failure = Failure::from(&error);
                if let Some(key) = request.key() {
                    failure.message = key.redact(&failure.message);
                }
                Input::ModelFailed { failure, partial: Some(partial()) }
            }
            Polled::End(Err(panic)) => {
                let failure = Failure::new(ErrorKind::Other, format!("the provider panicked: {panic}"));
                Input::ModelFailed { failure, partial: Some(partial()) }
            }
        };
        if let Some(broken) = broken {
            let found = Box::new(broken.reported(&log.usage()));
            self.apply(Input::CacheBroke { found }).await?;
        }
        // A request that nobody answered is in nobody's cache.
        if self.config.watch_cache && (matches!(input, Input::ModelReplied { .. }) || !log.usage().is_zero())
        {
            self.prefixes.keep(request, log.usage());
        } else {
            // It holds the history, which is copied where it grows while somebody else has it.
            drop(request);
        }
        self.apply_soon(input, Durability::Buffered).await
    }

    /// Where the request parts from the last one to its model.
    fn compare(
        &self,
        request: &ModelRequest,
        provider: &dyn StreamProvider,
        key: &StepKey,
    ) -> Option<Box<Found>> {
        let run = self.run().filter(|_| self.config.watch_cache)?;
        let hooks = &self.config.hooks.context;
        let hooked = hooks.transform.is_some() || hooks.convert.is_some();
        self.prefixes.compare(request, provider, (run.loop_id(), key), hooked)
    }

    /// Polls the provider and passes on what each poll brought before the next one.
    async fn stream(
        &mut self,
        provider: Arc<dyn StreamProvider>,
        request: &ModelRequest,
        log: &mut ReplyLog,
        key: StepKey,
        attempt: u32,
    ) -> Result<Polled, Halt> {
        let loop_id = self.run().map_or_else(|| LoopId::from(""), |r| r.loop_id().clone());
        let inbox = Mutex::new(Inbox::default());
        let mut sink = |event: StreamEvent<'_>| {
            log.push(&event);
            let mut inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
            let (content_index, delta) = match event {
                StreamEvent::Start { .. } => {
                    inbox.begun = true;
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
                _ => return,
            };
            let (StreamDelta::Text { text }
            | StreamDelta::Thinking { text }
            | StreamDelta::ToolCallDelta { text }) = &delta;
            inbox.bytes = inbox.bytes.saturating_add(text.len());
            // Before the start nothing is shown; the text is in the log all the same (B-011).
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
        let cancel = self.cancel.clone();
        let sink: &mut EventSink<'_> = &mut sink;
        let mut call = pin!(AssertUnwindSafe(provider.stream(request, sink, &cancel)).catch_unwind());
        let mut cancelled = pin!(cancel.cancelled());
        // Who is woken by an abort. It is asked for anew only when that changes.
        let mut woken: Option<Waker> = None;
        // A run that was resumed in the middle of a reply has said its start; the call is made again.
        let mut started = self.run().is_some_and(crate::run::Run::reply_has_begun);
        let mut unheard = Vec::new();
        loop {
            let output = &self.output;
            let polled = poll_fn(|cx| {
                let end = call.as_mut().poll(cx);
                let mut inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
                if started {
                    // Where nobody has to be waited for, events go out in the poll that brought them.
                    let mut arrived = inbox.events.drain(..);
                    unheard.extend(arrived.by_ref().find_map(|event| output.try_emit(event)));
                    unheard.extend(arrived);
                }
                let waiting = !unheard.is_empty() || (inbox.begun && !started);
                let too_long = inbox.bytes > MAX_REPLY_BYTES;
                drop(inbox);
                match end {
                    Poll::Pending if too_long => Poll::Ready(Polled::End(Ok(Err(endless(request))))),
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
                    unheard.append(&mut inbox.events);
                    inbox.begun
                };
                if begun {
                    started = true;
                    self.begin_reply().await?;
                }
            }
            for event in unheard.drain(..) {
                if let Some(event) = self.output.try_emit(event) {
                    Box::pin(self.emit(event)).await?;
                }
            }
            match polled {
                Polled::Some if cancel.is_cancelled() => return Ok(Polled::Cancelled),
                Polled::Some => {}
                end => return Ok(end),
            }
        }
    }

    /// The tokens of a reply by the caller's counter.
    fn counted_reply(&self, reply: AssistantMessage) -> (u64, AssistantMessage) {
        let message = AgentMessage::from(Message::from(reply));
        let tokens = self.config.token_counter.count_message(&message);
        match message {
            AgentMessage::Llm(LlmMessage { message: Message::Assistant(reply), .. }) => (tokens, reply),
            AgentMessage::Llm(_) | AgentMessage::Extension(_) => {
                (tokens, AssistantMessage::new("", "", StopReason::Stop))
            }
        }
    }

    /// Who is called on this route, and which model.
    pub(super) fn target(&self, route: u32) -> Result<(Arc<dyn StreamProvider>, Arc<ModelConfig>), String> {
        let config = &self.config;
        let Some(at) = route.checked_sub(1) else {
            return Ok((config.provider.clone(), config.model.clone()));
        };
        let found = usize::try_from(at).ok().and_then(|at| config.routes.get(at));
        // A run that was begun elsewhere may know more routes than this agent.
        let route = found.ok_or_else(|| {
            format!("the run goes on with its route {route}, which this agent does not have; give it the same routes")
        })?;
        Ok((route.provider.as_ref().unwrap_or(&config.provider).clone(), route.model.clone()))
    }

    async fn request(
        &self,
        history: History,
        route: u32,
    ) -> Result<(Arc<dyn StreamProvider>, Box<ModelRequest>), String> {
        let config = &self.config;
        let (provider, model) = self.target(route)?;
        let hooks = &config.hooks.context;
        let history = changed("transform_context", hooks.transform.as_ref(), history).await?;
        let history = changed("convert_to_llm", hooks.convert.as_ref(), history).await?;
        let api_key = match &hooks.api_key {
            None => None,
            Some(source) => {
                let asked = async { source(model.provider.clone()).await };
                contained(asked)
                    .await
                    .map_err(|panic| HookError::new(format!("it panicked: {panic}")))
                    .and_then(|answer| answer)
                    .map_err(|e| format!("api_key failed: {e}"))?
            }
        };
        Ok((provider, Box::new(self.written(model, history, api_key))))
    }

    /// The request, as everything but its model and its conversation was set when the run began.
    fn written(&self, model: Arc<ModelConfig>, history: History, api_key: Option<Secret>) -> ModelRequest {
        let config = &self.config;
        ModelRequest {
            system_prompt: self.system_prompt.clone(),
            tools: self.tools.definitions().clone(),
            thinking_level: config.thinking_level.clamp_to(&model.thinking_levels),
            thinking_budgets: config.thinking_budgets,
            api_key,
            max_tokens: config.max_tokens,
            temperature: config.temperature,
            cache_config: config.cache_config,
            session_id: self.run().map(|r| r.setup().session_id.as_str().to_owned()),
            tool_choice: config.tool_choice.clone(),
            response_format: config.response_format.clone(),
            stop_sequences: config.stop_sequences.clone(),
            headers: config.headers.clone(),
            foreign_thinking_as_text: config.foreign_thinking_as_text,
            request_hook: config.request_hook.clone(),
            wire_hooks: config.wire_hooks.clone(),
            model,
            history,
        }
    }
}

async fn changed(name: &str, hook: Option<&Transform>, history: History) -> Result<History, String> {
    let Some(hook) = hook else { return Ok(history) };
    match contained(async { hook(history).await }).await {
        Ok(Ok(history)) => Ok(history),
        Ok(Err(error)) => Err(format!("{name} failed: {error}")),
        Err(panic) => Err(format!("{name} panicked: {panic}")),
    }
}

fn endless(request: &ModelRequest) -> ProviderError {
    let context = ErrorContext::new(format!("the reply is longer than {} MiB", MAX_REPLY_BYTES >> 20))
        .with_target(&request.model.provider, &request.model.id)
        .with_advice("ask for less at once, or see what server is at the other end");
    ProviderError::new(ErrorKind::Other, context)
}
