//! Calls the model and streams its reply.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use futures_util::FutureExt;

use super::Shell;
use crate::drive::interrupt::Interrupt;
use crate::drive::panics::panic_text;
use crate::drive::request::RequestParts;
use crate::event::{AgentEvent, StreamDelta};
use crate::history::History;
use crate::identity::{LoopId, StepKey};
use crate::journal::Durability;
use crate::message::{AgentMessage, AssistantMessage, LlmMessage, Message, StopReason};
use crate::prefix::Found;
use crate::provider::{
    Completion, ErrorKind, EventSink, ModelRequest, ProviderError, ReplyLimit, ReplyLog, StreamEvent,
    StreamProvider,
};
use crate::run::{Failure, Input, PartialReply, Reply};

/// What one poll of the provider delivered.
#[derive(Default)]
struct Inbox {
    begun: bool,
    events: Vec<AgentEvent>,
    exceeded: Option<ReplyLimit>,
}

/// The result of polling the provider.
enum Polled {
    /// Events wait to be delivered.
    Some,
    /// The call has ended; the outer error is the message of a panic.
    End(Result<Result<Completion, ProviderError>, String>),
    Cancelled,
}

impl Shell {
    /// Calls the model and applies its reply or its failure.
    pub(in crate::drive) async fn call_model(
        &mut self,
        history: History,
        key: StepKey,
        (attempt, route): (u32, u32),
        max_output: Option<u32>,
    ) -> Result<(), Interrupt> {
        let cancel = self.cancel.clone();
        let parts = RequestParts {
            config: &self.config,
            system_prompt: &self.system_prompt,
            tools: self.tools.definitions(),
            session_id: self.run.as_ref().map(|r| r.setup().session_id.as_str().to_owned()),
        };
        let built = tokio::select! {
            biased;
            built = parts.build(history, route) => built,
            () = cancel.cancelled() => return self.apply(Input::abort(None)).await,
        };
        let (provider, request) = match built {
            Ok((provider, mut request)) => {
                if max_output.is_some() {
                    request.options.max_tokens = max_output;
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
        let broken = self.compare_prefix(&request, &*provider, &key);
        // The run emits nothing until the reply begins, and thousands of runs may wait here.
        self.journaling.shrink();
        let mut log = ReplyLog::new();
        self.arriving = Some(log.shared());
        let end = self.stream(provider, &request, &mut log, key, attempt).await?;
        // Messages that were queued while the reply arrived are applied before the reply.
        self.check_mail().await?;
        self.arriving = None;
        let partial = || PartialReply::of(&log);
        let failed = |failure: Failure| Input::ModelFailed { failure, partial: Some(Box::new(partial())) };
        let input = match end {
            Polled::Cancelled | Polled::End(Ok(Err(ProviderError::Cancelled))) => {
                Input::abort(Some(partial()))
            }
            // An error after an abort is a consequence of the abort.
            Polled::End(Ok(Err(_))) if cancel.is_cancelled() => Input::abort(Some(partial())),
            Polled::Some => Input::abort(None),
            Polled::End(Ok(Ok(completion))) => {
                let mut message = log.finish(&request.model.provider, &request.model.id, &completion);
                message.api = Some(request.model.api);
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
        };
        if let Some(broken) = broken {
            let found = Box::new(broken.reported(&log.usage()));
            self.apply(Input::CacheBroke { found }).await?;
        }
        // Only a request that the provider answered can be in its cache.
        if self.config.policy.watch_cache
            && (matches!(input, Input::ModelReplied { .. }) || !log.usage().is_zero())
        {
            self.prefixes.remember(request, log.usage());
        } else {
            // The request shares the history, which would be copied when it grows.
            drop(request);
        }
        self.apply_deferred(input, Durability::Buffered).await
    }

    /// Compares the request with the last one to the same model and returns where they differ.
    fn compare_prefix(
        &self,
        request: &ModelRequest,
        provider: &dyn StreamProvider,
        key: &StepKey,
    ) -> Option<Box<Found>> {
        let run = self.run().filter(|_| self.config.policy.watch_cache)?;
        let hooks = &self.config.hooks.context;
        let hooked = !hooks.transform.is_empty() || !hooks.convert.is_empty();
        self.prefixes.compare(request, provider, (run.loop_id(), key), hooked)
    }

    /// Polls the provider and delivers the events of each poll before the next one.
    async fn stream(
        &mut self,
        provider: Arc<dyn StreamProvider>,
        request: &ModelRequest,
        log: &mut ReplyLog,
        key: StepKey,
        attempt: u32,
    ) -> Result<Polled, Interrupt> {
        let loop_id = self.run().map_or_else(|| LoopId::from(""), |r| r.loop_id().clone());
        let inbox = Mutex::new(Inbox::default());
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
        let cancel = self.cancel.clone();
        let sink: &mut EventSink<'_> = &mut sink;
        let mut call = pin!(AssertUnwindSafe(provider.stream(request, sink, &cancel)).catch_unwind());
        let mut cancelled = pin!(cancel.cancelled());
        // The waker that an abort wakes. It is registered again only when it changes.
        let mut woken: Option<Waker> = None;
        // A run that is resumed during a reply has already emitted its start; the call is made again.
        let mut started = self.run().is_some_and(crate::run::Run::reply_has_begun);
        let mut undelivered = Vec::new();
        loop {
            let output = &self.output;
            let polled = poll_fn(|cx| {
                let end = call.as_mut().poll(cx);
                let mut inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
                if started {
                    // Without listeners, events are delivered in the poll that produced them.
                    let mut arrived = inbox.events.drain(..);
                    undelivered.extend(arrived.by_ref().find_map(|event| output.try_emit(event)));
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
                    self.begin_reply().await?;
                }
            }
            for event in undelivered.drain(..) {
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
