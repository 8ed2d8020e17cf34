//! The methods of an agent's handle: starting, steering, observing and ending runs, and reading the conversation.

use std::future::Future;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::listeners::{Call, Subscription};
use super::{AgentError, AgentHandle, AgentState, IntoPrompt, Request, WeakAgent};
use crate::drive::{AgentLoopConfig, EventReceiver};
use crate::event::{AgentEvent, Answer, Question, RunEnd, RunReply, StreamDelta};
use crate::history::{History, HistoryError, MessageRef, Repair};
use crate::identity::{AgentId, ContinuationKind, QuestionId, SessionId, ToolCallId, ToolName};
use crate::message::{AgentMessage, Message};
use crate::run::{Input, QueueKind};
use crate::tool::{AgentTool, ToolResult};

/// What [`AgentHandle::stream_chat`] passes to its callback.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum ChatToken<'a> {
    /// A part of the answer's text.
    Text(&'a str),
    /// A tool call starts.
    ToolStarted(&'a ToolName),
    /// A tool call ended.
    ToolEnded {
        /// The name of the tool.
        tool: &'a ToolName,
        /// Whether the call failed.
        is_error: bool,
    },
}

/// Methods that start or continue a run. Those that return a receiver start the run in a separate task and return at
/// once.
impl AgentHandle {
    /// Starts a run with a prompt and returns a receiver of its events.
    ///
    /// Dropping the receiver does not stop the run; [`abort`](Self::abort) does. [`EventReceiver::end`] waits for the
    /// end.
    ///
    /// # Errors
    /// Returns [`AgentError::Busy`] while a run is open, [`AgentError::Suspended`] or [`AgentError::Interrupted`]
    /// while one waits, [`AgentError::DuplicateTool`], [`AgentError::Unrecorded`], [`AgentError::Message`] when a
    /// message cannot enter the conversation alone, and [`AgentError::NoRuntime`] outside of a runtime.
    pub fn prompt(&self, prompt: impl IntoPrompt) -> Result<EventReceiver, AgentError> {
        self.request(prompt).start()
    }

    /// Continues the conversation without a new message: from a user message, a tool result, a reply that the vendor paused,
    /// or queued messages.
    ///
    /// # Errors
    /// Returns [`AgentError::EmptyTranscript`] and [`AgentError::AssistantTail`] when there is nothing to continue
    /// from, and otherwise the same errors as [`prompt`](Self::prompt).
    pub fn continue_run(&self) -> Result<EventReceiver, AgentError> {
        self.request(()).continuing(ContinuationKind::Default).start()
    }

    /// Resumes a run that was suspended or interrupted, with the messages queued since.
    ///
    /// A run whose record could not be written, or whose task was dropped while it was recorded, continues from its last
    /// record, until the conversation changes: what was not recorded is recorded first, and then delivered.
    ///
    /// A question that is still open suspends the run again; [`answer`](Self::answer) answers it. The run needs the
    /// tools, hooks and routes with which it started.
    ///
    /// # Errors
    /// Returns [`AgentError::NotSuspended`] when no run waits, [`AgentError::Lacks`] when this agent lacks something
    /// that the run needs, and [`AgentError::Unrecorded`] when the run was recorded and this agent records nothing.
    pub fn resume(&self) -> Result<EventReceiver, AgentError> {
        self.resume_run(None, None)
    }

    /// Resumes like [`resume`](Self::resume), but without a journal, and allows all later runs without one.
    ///
    /// Effects after this point are not recorded: if the process ends, a later resume from the session can repeat them.
    ///
    /// # Errors
    /// Returns the same errors as [`resume`](Self::resume), except for [`AgentError::Unrecorded`].
    pub fn resume_unrecorded(&self) -> Result<EventReceiver, AgentError> {
        self.inner.state().must_record = false;
        self.resume()
    }

    /// Sends a message, or continues without one, and selects the kind of continuation from the state of the
    /// conversation.
    ///
    /// | the conversation | what starts |
    /// |---|---|
    /// | is empty, or ends with a reply | a new loop, as by [`prompt`](Self::prompt) |
    /// | waits for a reply: it ends with a user message, a tool result, or a failed or aborted reply after one | a continuation, recorded as a branch |
    ///
    /// Without a message (`send(())`) the conversation continues as it is, also after an abort or an error: the model
    /// is called again and does not see the failed reply.
    ///
    /// # Errors
    /// Returns the same errors as [`prompt`](Self::prompt) and, without a message, those of
    /// [`continue_run`](Self::continue_run).
    pub fn send(&self, message: impl IntoPrompt) -> Result<EventReceiver, AgentError> {
        let messages = message.into_prompt();
        let kind = super::path::kind_of_send(self, &messages);
        let request = self.request(messages);
        match kind {
            Some(kind) => request.continuing(kind).start(),
            None => request.start(),
        }
    }

    /// Returns a request whose options can be set before it starts: a typed answer, another receiver of events.
    pub fn request(&self, prompt: impl IntoPrompt) -> Request {
        Request::new(self.clone(), prompt.into_prompt())
    }

    /// Sends a prompt and waits for the text of the last reply.
    ///
    /// # Errors
    /// Returns the same errors as [`prompt`](Self::prompt), and [`AgentError::Run`] with the [`RunEnd`] when the run
    /// does not complete.
    pub async fn chat(&self, prompt: impl IntoPrompt) -> Result<String, AgentError> {
        Ok(reply(self.prompt(prompt)?.end().await)?.text())
    }

    /// Sends a prompt, passes text and tool calls to `on_token` as they arrive, and returns the text of all replies.
    ///
    /// # Errors
    /// Returns the same errors as [`chat`](Self::chat).
    pub async fn stream_chat(
        &self,
        prompt: impl IntoPrompt,
        on_token: impl FnMut(ChatToken<'_>),
    ) -> Result<String, AgentError> {
        stream_tokens(self.prompt(prompt)?, on_token).await
    }

    /// Sends a prompt and waits for an answer of type `T`: `request(prompt).typed().start()?.answer()`.
    ///
    /// The model is constrained to the JSON schema of `T` as far as its protocol can. An answer that does not fit is
    /// requested again once, with a message that lists the errors. The agent's tools can be called before the answer.
    ///
    /// # Errors
    /// Returns the same errors as [`chat`](Self::chat), and [`AgentError::AnswerForm`] with the text when it is not a
    /// `T`.
    pub async fn prompt_typed<T>(&self, prompt: impl IntoPrompt) -> Result<T, AgentError>
    where
        T: JsonSchema + DeserializeOwned + Send + 'static,
    {
        self.request(prompt).typed().start()?.answer().await
    }

    /// Answers a question of a suspended run and resumes the run.
    ///
    /// # Errors
    /// Returns [`AgentError::NotSuspended`] when no run waits, [`AgentError::Answer`] when the answer does not fit
    /// (the run keeps waiting), and otherwise the same errors as [`resume`](Self::resume).
    pub fn answer(
        &self,
        question: impl Into<QuestionId>,
        answer: Answer,
    ) -> Result<EventReceiver, AgentError> {
        self.resume_run(Some(Input::Answer { question_id: question.into(), answer }), None)
    }

    /// Gives a [deferred](crate::ToolResult::deferred) call its result.
    ///
    /// An open run passes it to the model before the next model call, and continues with it if it would otherwise end. No
    /// call is skipped for it. Without an open run it waits for the next one, which [`continue_run`](Self::continue_run)
    /// starts. A run that is aborted or reaches a limit stores it in the conversation. The tool may still be running.
    ///
    /// # Errors
    /// Returns [`AgentError::Message`] with [`HistoryError::UnknownCall`](crate::HistoryError), `NotDeferred`,
    /// `AlreadyCompleted` or `DeferredAgain`.
    pub fn complete(&self, call: impl Into<ToolCallId>, result: ToolResult) -> Result<(), AgentError> {
        let id = call.into();
        if result.deferred.is_some() {
            return Err(HistoryError::DeferredAgain(id).into());
        }
        let call = self.inner.begin_completion(&id)?;
        let ToolResult { content, is_error, details, .. } = result;
        let message = Message::User(call.completed(content.into_inner(), is_error, details));
        self.inner.queue(QueueKind::Steering, message.into());
        Ok(())
    }
}

/// Methods that steer and end runs.
impl AgentHandle {
    /// Queues a message for the next model call. A run that would otherwise end continues with it. Depending on
    /// [`SteeringPolicy`](crate::SteeringPolicy), tool calls that have not started are skipped.
    pub fn steer(&self, message: impl Into<AgentMessage>) {
        self.inner.queue(QueueKind::Steering, message.into());
    }

    /// Queues a message that enters when the run would otherwise end. The run continues with it.
    pub fn follow_up(&self, message: impl Into<AgentMessage>) {
        self.inner.queue(QueueKind::FollowUp, message.into());
    }

    /// Aborts the open run: the model's reply is cut off and running tools are cancelled. What has arrived is retained.
    ///
    /// Also ends a suspended run and running branches. Has no effect if there is none of these.
    pub fn abort(&self) {
        let branches = {
            let mut state = self.inner.state();
            if let Some(cancel) = &state.cancel {
                cancel.cancel();
            }
            state.explorations.take()
        };
        if let Some(branches) = branches {
            branches.cancel();
        }
        self.abort_suspended();
    }

    /// Aborts the open run, waits for its end, and clears the conversation, the queues and the error. The settings are
    /// retained.
    pub async fn reset(&self) {
        self.abort();
        self.wait_for_idle().await;
        self.inner.mailbox.discard();
        self.inner.prefixes.forget();
        self.inner.state().forget();
    }

    /// Waits until no run is open and every listener has been notified of the end.
    pub async fn wait_for_idle(&self) {
        loop {
            // Registered before the check, so that a notification in between is not missed.
            let notified = self.inner.idle.notified();
            if !self.is_streaming() {
                return;
            }
            notified.await;
        }
    }

    /// Waits for the open run, if there is one, and returns how the last run ended; `None` if there was no run.
    pub async fn finish(&self) -> Option<RunEnd> {
        self.wait_for_idle().await;
        self.inner.state().finished.clone()
    }
}

/// Methods that observe the agent and its runs.
impl AgentHandle {
    /// Calls `listener` with every event of every run, after the agent's state has changed and before the run's
    /// receiver gets the event. Subscribing itself delivers no event.
    pub fn subscribe(&self, listener: impl Fn(&AgentEvent) + Send + Sync + 'static) -> Subscription {
        self.inner.listeners.subscribe(&self.inner, Call::Sync(Arc::new(listener)))
    }

    /// Subscribes an async listener. The run waits for it after each event, and ends after it has handled the last one.
    /// After an abort, the run waits for all listeners together no longer than [`LoopPolicy::grace`](crate::run::LoopPolicy).
    pub fn subscribe_async<F>(
        &self,
        listener: impl Fn(AgentEvent) -> F + Send + Sync + 'static,
    ) -> Subscription
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let call = Call::Async(Arc::new(move |event| Box::pin(listener(event))));
        self.inner.listeners.subscribe(&self.inner, call)
    }

    /// Returns a copy of the agent's current state. Can be called from a listener.
    #[must_use]
    pub fn state(&self) -> AgentState {
        let settings = self.inner.settings().clone();
        let queued = self.inner.mailbox.view().take_all();
        let state = self.inner.state();
        AgentState {
            system_prompt: settings.system_prompt,
            model: Arc::clone(&settings.config.model),
            thinking_level: settings.config.request.thinking_level,
            tools: settings.tools.tools().to_vec(),
            messages: state.messages(),
            is_streaming: state.is_streaming,
            is_suspended: state.suspended.is_some(),
            stream_message: state.stream_message.clone(),
            pending_tool_calls: state.pending.clone(),
            queued,
            error_message: state.error.clone(),
            last_loop_id: state.last_loop_id.clone(),
            last_active_at: state.last_active_at,
        }
    }

    /// Returns whether a run is open. A suspended run is not open.
    #[must_use]
    pub fn is_streaming(&self) -> bool {
        self.inner.state().is_streaming
    }

    /// Returns the questions that a suspended run waits for.
    #[must_use]
    pub fn questions(&self) -> Vec<Question> {
        self.inner.state().suspended.as_ref().map(|run| run.questions()).unwrap_or_default()
    }

    /// Returns the messages, including those of an exchange that is still open. Takes time linear in their number.
    #[must_use]
    pub fn messages(&self) -> Vec<MessageRef> {
        self.inner.state().messages()
    }

    /// Returns the conversation as of the end of the last run. Takes constant time.
    #[must_use]
    pub fn history(&self) -> History {
        self.inner.state().history.clone()
    }

    /// Returns a copy of the configuration of the next run.
    #[must_use]
    pub fn config(&self) -> AgentLoopConfig {
        AgentLoopConfig::clone(&self.inner.settings().config)
    }

    /// Returns the agent's id, which never changes.
    #[must_use]
    pub fn agent_id(&self) -> AgentId {
        self.inner.settings().agent_id.clone()
    }

    /// Returns the id of the session that the next run belongs to.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.inner.state().session_id.clone()
    }

    /// Returns a handle that does not keep the agent alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakAgent {
        WeakAgent { inner: Arc::downgrade(&self.inner) }
    }
}

/// Methods that change the conversation, the session and the tools.
impl AgentHandle {
    /// Replaces the conversation and returns the repairs that the new one needed, for example for missing tool results.
    ///
    /// # Errors
    /// Returns [`AgentError::Busy`], [`AgentError::Suspended`] or [`AgentError::Interrupted`] while a run is open or
    /// waits.
    pub fn replace_messages(&self, messages: Vec<AgentMessage>) -> Result<Vec<Repair>, AgentError> {
        self.check_idle()?;
        if messages.is_empty() {
            self.inner.prefixes.forget();
            self.inner.state().rewound = false;
        }
        let entries = messages.into_iter().map(|m| self.inner.counted(m));
        let (history, repairs) = History::repaired(entries);
        self.inner.state().history = history;
        Ok(repairs)
    }

    /// Appends a message to the conversation.
    ///
    /// # Errors
    /// Returns [`AgentError::Message`] for a message that cannot enter alone (a reply with calls, a result without its
    /// call), and the same errors as [`replace_messages`](Self::replace_messages).
    pub(crate) fn append(&self, message: impl Into<AgentMessage>) -> Result<(), AgentError> {
        self.check_idle()?;
        let entry = self.inner.counted(message.into());
        self.inner.state().history.push_entry(entry)?;
        Ok(())
    }

    /// Changes the list of tools in one step, for tools that are not always available, such as those of an MCP server.
    ///
    /// Takes effect with the next run. `change` must not use this agent.
    pub fn update_tools(&self, change: impl FnOnce(&mut Vec<Arc<dyn AgentTool>>)) {
        let mut settings = self.inner.settings();
        let mut tools = settings.tools.tools().to_vec();
        change(&mut tools);
        settings.tools = tools.into();
    }
}

/// Returns the reply of a completed run, and an error for every other end.
pub(super) fn reply(end: RunEnd) -> Result<RunReply, AgentError> {
    end.into_reply().map_err(|end| AgentError::Run(Box::new(end)))
}

/// Passes the tokens of a run to `on_token`, without those of sub-agents, and returns the text of all its replies.
pub(super) async fn stream_tokens(
    events: EventReceiver,
    mut on_token: impl FnMut(ChatToken<'_>),
) -> Result<String, AgentError> {
    let mut events = events.without_sub_agents();
    let mut text = String::new();
    while let Some(event) = events.recv().await {
        match &event {
            AgentEvent::MessageUpdate { delta: StreamDelta::Text { text }, .. } => {
                on_token(ChatToken::Text(text));
            }
            AgentEvent::MessageEnd { message, superseded: false, .. } if message.role() == "assistant" => {
                text.push_str(&message.text());
            }
            AgentEvent::ToolExecutionStart { tool_name, .. } => on_token(ChatToken::ToolStarted(tool_name)),
            AgentEvent::ToolExecutionEnd(end) => {
                on_token(ChatToken::ToolEnded { tool: &end.tool_name, is_error: end.is_error });
            }
            _ => {}
        }
    }
    reply(events.end().await)?;
    Ok(text)
}
