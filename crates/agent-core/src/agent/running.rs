//! Starting runs, and waiting for their ends.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::resume::Left;
use super::{AgentError, BasicAgent, Inner, IntoPrompt, Settings};
use crate::drive::{
    AgentLoopConfig, Audience, EventReceiver, EventSender, ListenerPanicked, LoopIds, MergingReceiver,
    Output, Shell, ask_sources, counted, event_channel, merging_channel, run_setup, start_run,
};
use crate::environment::NoRuntime;
use crate::event::{AgentEvent, Answer, Ended, Question};
use crate::history::MessageRef;
use crate::identity::{ContinuationKind, QuestionId};
use crate::message::AgentMessage;
use crate::run::{Input, Run};
use crate::tool::Tools;

/// How the last run came back.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Finished {
    /// It ended.
    Ended {
        /// How.
        ended: Ended,
        /// Its messages.
        messages: Vec<MessageRef>,
    },
    /// It waits for answers.
    Suspended {
        /// What is asked.
        questions: Vec<Question>,
    },
    /// There was none.
    Idle,
}

/// The agent as its runs see it.
#[async_trait]
impl Audience for Inner {
    fn reduce(&self, event: &AgentEvent) {
        self.state().reduce(event);
    }

    fn has_listeners(&self) -> bool {
        !self.listeners.is_empty()
    }

    async fn notify(&self, event: &AgentEvent) -> Result<(), ListenerPanicked> {
        self.listeners.tell(event).await.map_err(ListenerPanicked)
    }

    fn notify_now(&self, event: &AgentEvent) {
        self.listeners.tell_now(event);
    }

    /// Takes over what a run left, and sends its last event. The agent is idle after it; no other run can begin in
    /// between, so that with a shared sender this run's end comes before the next one's start.
    fn settle(&self, mut run: Run, output: &Output) {
        if run.ended().is_some() {
            self.mailbox.close(run.take_queues());
        }
        {
            let mut state = self.state();
            state.finished = match run.ended() {
                Some(ended) => {
                    Finished::Ended { ended: ended.clone(), messages: run.new_messages().to_vec() }
                }
                None => Finished::Suspended { questions: run.questions() },
            };
            state.settle(run);
            output.release();
        }
        self.idle.notify_waiters();
    }
}

impl BasicAgent {
    /// Starts a run with a prompt and returns at once; the events come by the receiver. Dropping it does not stop the
    /// run, [`abort`](Self::abort) does.
    ///
    /// # Errors
    /// When a run is open or waits for an answer, when a message may not enter alone, and outside a runtime.
    pub fn prompt(&self, prompt: impl IntoPrompt) -> Result<EventReceiver, AgentError> {
        let (tx, rx) = event_channel();
        self.prompt_messages_with_sender(prompt.into_prompt(), tx)?;
        Ok(rx)
    }

    /// Like [`prompt`](Self::prompt), with a receiver that holds about `capacity` events and merges deltas when its reader
    /// lags.
    ///
    /// # Errors
    /// As [`prompt`](Self::prompt).
    pub fn prompt_merging(
        &self,
        prompt: impl IntoPrompt,
        capacity: usize,
    ) -> Result<MergingReceiver, AgentError> {
        let (tx, rx) = merging_channel(capacity);
        self.prompt_messages_with_sender(prompt.into_prompt(), tx)?;
        Ok(rx)
    }

    /// Like [`prompt`](Self::prompt), with a sender of the caller's, which may serve many prompts (REQ-144).
    ///
    /// # Errors
    /// As [`prompt`](Self::prompt).
    pub fn prompt_with_sender(
        &self,
        prompt: impl IntoPrompt,
        tx: impl Into<EventSender>,
    ) -> Result<(), AgentError> {
        self.prompt_messages_with_sender(prompt.into_prompt(), tx)
    }

    /// Like [`prompt_with_sender`](Self::prompt_with_sender), for a list of messages (REQ-035).
    ///
    /// # Errors
    /// As [`prompt`](Self::prompt).
    pub fn prompt_messages_with_sender(
        &self,
        messages: Vec<AgentMessage>,
        tx: impl Into<EventSender>,
    ) -> Result<(), AgentError> {
        self.start(messages, None, tx.into())
    }

    /// Goes on from what is there: a user message, a tool result, or a reply with something queued.
    ///
    /// # Errors
    /// When there is nothing to go on from, and as [`prompt`](Self::prompt).
    pub fn continue_run(&self) -> Result<EventReceiver, AgentError> {
        self.continue_as(ContinuationKind::Default)
    }

    /// Seed 001's name for [`continue_run`](Self::continue_run).
    ///
    /// # Errors
    /// As [`continue_run`](Self::continue_run).
    pub fn continue_from_context(&self) -> Result<EventReceiver, AgentError> {
        self.continue_run()
    }

    /// Like [`continue_run`](Self::continue_run), noted as this kind. An empty tag is filled with the time; `Initial` counts
    /// as `Default`.
    ///
    /// # Errors
    /// As [`continue_run`](Self::continue_run).
    pub fn continue_as(&self, kind: ContinuationKind) -> Result<EventReceiver, AgentError> {
        let (tx, rx) = event_channel();
        self.continue_with_sender(kind, tx)?;
        Ok(rx)
    }

    /// Like [`continue_as`](Self::continue_as), with a sender of the caller's.
    ///
    /// # Errors
    /// As [`continue_run`](Self::continue_run).
    pub fn continue_with_sender(
        &self,
        kind: ContinuationKind,
        tx: impl Into<EventSender>,
    ) -> Result<(), AgentError> {
        self.check_idle()?;
        {
            let state = self.lock();
            match state.history.last() {
                None => return Err(AgentError::EmptyTranscript),
                Some(last) if last.role() == "assistant" => {
                    let queued = self.inner.mailbox.view();
                    if !queued.has_active_steering() && !queued.has_follow_up() {
                        return Err(AgentError::AssistantTail);
                    }
                }
                Some(_) => {}
            }
        }
        self.start(Vec::new(), Some(self.tagged(kind)), tx.into())
    }

    /// Answers a question and goes on with the run that waits for it.
    ///
    /// # Errors
    /// When no run waits, when the answer does not fit (the run goes on waiting), and outside a runtime.
    pub fn answer(
        &self,
        question: impl Into<QuestionId>,
        answer: Answer,
    ) -> Result<EventReceiver, AgentError> {
        let (tx, rx) = event_channel();
        let input = Input::Answer { question_id: question.into(), answer };
        self.resume_with(Some(input), tx)?;
        Ok(rx)
    }

    /// Goes on with a run that waits, with what was queued since: steering closes open questions where the policy says so.
    /// A question that is still open suspends the run again.
    ///
    /// # Errors
    /// When no run waits, and outside a runtime.
    pub fn resume(&self) -> Result<EventReceiver, AgentError> {
        let (tx, rx) = event_channel();
        self.resume_with(None, tx)?;
        Ok(rx)
    }

    /// Waits until no run is open, and its last listener has heard of the end.
    pub async fn wait_for_idle(&self) {
        loop {
            // Asked for before the look: what is told in between is not missed.
            let told = self.inner.idle.notified();
            if !self.is_streaming() {
                return;
            }
            told.await;
        }
    }

    /// Waits for the open run, if there is one, and says how the last one came back.
    pub async fn finish(&self) -> Finished {
        self.wait_for_idle().await;
        self.lock().finished.clone()
    }

    pub(super) fn check_idle(&self) -> Result<(), AgentError> {
        let state = self.lock();
        if state.is_streaming {
            return Err(AgentError::Busy);
        }
        match &state.suspended {
            Some(run) => Err(AgentError::Suspended { questions: run.questions() }),
            None => Ok(()),
        }
    }

    pub(super) fn start(
        &self,
        prompts: Vec<AgentMessage>,
        continuation: Option<ContinuationKind>,
        tx: EventSender,
    ) -> Result<(), AgentError> {
        self.start_with(self.for_a_run(), prompts, continuation, tx)
    }

    /// Starts a run that works on these settings, which need not be the agent's own.
    pub(super) fn start_with(
        &self,
        settings: Settings,
        prompts: Vec<AgentMessage>,
        continuation: Option<ContinuationKind>,
        tx: EventSender,
    ) -> Result<(), AgentError> {
        let Settings { agent_id, system_prompt, tools, config } = settings;
        self.may_run(&config)?;
        let cancel = CancellationToken::new();
        self.check_idle()?;
        // The caller's own code runs before the state is locked: it may look at the agent.
        let prompts = prompts.into_iter().map(|m| counted(&config, m)).collect();
        let segment = config.config_segment();
        ask_sources(&config).into_iter().for_each(|queued| self.inner.mailbox.queue(queued));
        let (run, events) = {
            let mut state = self.lock();
            if state.is_streaming {
                return Err(AgentError::Busy);
            }
            if let Some(run) = &state.suspended {
                return Err(AgentError::Suspended { questions: run.questions() });
            }
            let continuation = match continuation {
                None if state.rewound && state.last_loop_id.is_some() => {
                    Some(ContinuationKind::Branch { tag: config.environment.now().to_rfc3339() })
                }
                other => other,
            };
            let loop_id = state.peek_loop_id(&segment);
            let ids = LoopIds {
                agent: agent_id,
                session: state.session_id.clone(),
                of_loop: loop_id.clone(),
                parent: continuation.as_ref().and_then(|_| state.last_loop_id.clone()),
                group: None,
            };
            let mut setup = run_setup(&config, &tools, ids, continuation);
            setup.session_origin.clone_from(&state.session_origin);
            (setup.steering_mode, setup.follow_up_mode) = self.inner.mailbox.modes();
            let waiting = self.inner.mailbox.open();
            let started = start_run(&config, setup, state.history.clone(), prompts, waiting.clone());
            let (run, events) = started.inspect_err(|_| self.inner.mailbox.close(waiting))?;
            self.inner.mailbox.publish(run.queues());
            state.left = Some(Left { system_prompt: Arc::clone(&system_prompt), ..Left::default() });
            state.session_origin = None;
            state.begin(loop_id, segment, config.environment.now(), cancel.clone());
            (run, events)
        };
        let environment = Arc::clone(&config.environment);
        let shell = self.shell(config, tools, system_prompt, tx, cancel).load(run, events);
        // A task that cannot be had after all drops the shell, which ends the run.
        environment.spawn(Box::pin(shell.begin_for_audience()))?;
        Ok(())
    }

    pub(super) fn resume_with(&self, input: Option<Input>, tx: EventSender) -> Result<(), AgentError> {
        let Settings { system_prompt, tools, config, .. } = self.for_a_run();
        self.may_run(&config)?;
        let cancel = CancellationToken::new();
        let run = {
            let mut state = self.lock();
            if state.is_streaming {
                return Err(AgentError::Busy);
            }
            let Some(run) = state.suspended.take() else { return Err(AgentError::NotSuspended) };
            if let Some(input) = &input {
                let mut probe = (*run).clone();
                if let Err(error) = probe.apply(config.environment.now(), input.clone(), &mut Vec::new()) {
                    state.suspended = Some(run);
                    return Err(error.into());
                }
            }
            state.is_streaming = true;
            state.cancel = Some(cancel.clone());
            run
        };
        let environment = Arc::clone(&config.environment);
        let shell = self.shell(config, tools, system_prompt, tx, cancel).load(*run, Vec::new());
        environment.spawn(Box::pin(shell.resume_for_audience(input.map(Box::new))))?;
        Ok(())
    }

    /// Whether there is somebody to drive a run, and its budget can be kept. Asked before anything changes; what a snapshot
    /// knew of the budget is taken over then.
    fn may_run(&self, config: &AgentLoopConfig) -> Result<(), AgentError> {
        if !config.environment.can_spawn() {
            return Err(NoRuntime.into());
        }
        config.check_budget()?;
        if let Some(budget) = &config.budget
            && let Some(known) = self.lock().spent_before.take()
        {
            budget.restore(&known);
        }
        Ok(())
    }

    /// What a run works on, taken now.
    pub(super) fn for_a_run(&self) -> Settings {
        let settings = self.settings().clone();
        // The tools' own code runs before the state is locked: it may look at the agent.
        let _ = settings.tools.definitions();
        settings
    }

    fn shell(
        &self,
        config: Arc<AgentLoopConfig>,
        tools: Tools,
        system_prompt: Arc<str>,
        tx: EventSender,
        cancel: CancellationToken,
    ) -> Box<Shell> {
        let output = Output::with_audience(tx, Arc::clone(&self.inner) as Arc<dyn Audience>);
        Shell::new(config, tools, system_prompt, output, cancel, self.inner.prefixes.shared())
            .with_mailbox(Arc::clone(&self.inner.mailbox))
    }
}
