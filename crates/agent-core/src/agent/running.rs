//! Starting runs, and waiting for their ends.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::resume::Left;
use super::{AgentError, BasicAgent, Inner, IntoPrompt, Settings};
use crate::drive::{
    AgentContext, AgentLoopConfig, Audience, EventReceiver, EventSender, ListenerPanicked, MergingReceiver,
    Outcome, Output, Shell, ask_sources, counted, event_channel, merging_channel, start_run,
};
use crate::environment::BoxFuture;
use crate::event::{AgentEvent, Answer, Ended, Question};
use crate::history::MessageRef;
use crate::identity::{ContinuationKind, QuestionId};
use crate::message::AgentMessage;
use crate::run::{Input, Run};

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
struct Room {
    inner: Arc<Inner>,
}

#[async_trait]
impl Audience for Room {
    fn reduce(&self, event: &AgentEvent) {
        self.inner.state().reduce(event);
    }

    fn is_heard(&self) -> bool {
        !self.inner.listeners.is_empty()
    }

    async fn tell(&self, event: &AgentEvent) -> Result<(), ListenerPanicked> {
        self.inner.listeners.tell(event).await.map_err(ListenerPanicked)
    }

    fn tell_now(&self, event: &AgentEvent) {
        self.inner.listeners.tell_now(event);
    }

    fn settle(&self, run: Box<Run>, output: &Output) {
        self.inner.settle(run, output);
    }
}

impl Inner {
    /// Takes over what a run left, and sends its last event. The agent is idle after it; no other run can begin in
    /// between, so that with a shared sender this run's end comes before the next one's start.
    pub(super) fn settle(&self, mut run: Box<Run>, output: &Output) {
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
            self.open_runs.send_replace(0);
        }
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
                    if !queued.wakes() && !queued.has_follow_up() {
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
        let mut runs = self.inner.open_runs.subscribe();
        // The sender lives as long as the agent, so this waits for a value and never fails.
        let _ = runs.wait_for(|open| *open == 0).await;
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
        self.ready_budget(&config)?;
        let task = self.task(&config)?;
        let cancel = CancellationToken::new();
        let mut context = AgentContext::new(system_prompt).with_toolkit(tools);
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
            context.history = state.history.clone();
            context.agent_id = Some(agent_id);
            context.session_id = Some(state.session_id.clone());
            let continuation = match continuation {
                None if state.rewound && state.last_loop_id.is_some() => {
                    Some(ContinuationKind::Branch { tag: config.environment.now().to_rfc3339() })
                }
                other => other,
            };
            context.parent_loop_id = continuation.as_ref().and_then(|_| state.last_loop_id.clone());
            context.continuation_kind = continuation;
            let loop_id = state.peek_loop_id(&segment);
            context.loop_id = Some(loop_id.clone());
            let mut setup = context.setup(&config);
            (setup.steering_mode, setup.follow_up_mode) = self.inner.mailbox.modes();
            let waiting = self.inner.mailbox.open();
            let started = start_run(&config, setup, context.history.clone(), prompts, waiting.clone());
            let (run, events) = started.inspect_err(|_| self.inner.mailbox.close(waiting))?;
            self.inner.mailbox.publish(run.queues());
            let prompt = Arc::clone(&context.system_prompt);
            state.left = Some(Left { system_prompt: prompt, ..Left::default() });
            state.begin(loop_id, segment, config.environment.now(), cancel.clone());
            self.inner.open_runs.send_replace(1);
            (run, events)
        };
        let shell = self.shell(&context, &config, tx, cancel).load(run, events);
        task.run(shell, Start::Begin);
        Ok(())
    }

    pub(super) fn resume_with(&self, input: Option<Input>, tx: EventSender) -> Result<(), AgentError> {
        let Settings { system_prompt, tools, config, .. } = self.for_a_run();
        self.ready_budget(&config)?;
        let task = self.task(&config)?;
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
            self.inner.open_runs.send_replace(1);
            run
        };
        let context = AgentContext::new(system_prompt).with_toolkit(tools);
        let shell = self.shell(&context, &config, tx, cancel).load(*run, Vec::new());
        task.run(shell, Start::GoOn(input.map(Box::new)));
        Ok(())
    }

    /// Whether the budget can be kept; what a snapshot knew of it is taken over first.
    fn ready_budget(&self, config: &AgentLoopConfig) -> Result<(), AgentError> {
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
        context: &AgentContext,
        config: &Arc<AgentLoopConfig>,
        tx: EventSender,
        cancel: CancellationToken,
    ) -> Shell {
        let room = Arc::new(Room { inner: Arc::clone(&self.inner) });
        let output = Output::with_audience(tx, room);
        let (tools, prompt) = (context.tools.clone(), Arc::clone(&context.system_prompt));
        Shell::new(Arc::clone(config), tools, prompt, output, cancel)
            .with_mailbox(Arc::clone(&self.inner.mailbox))
            .with_prefixes(self.inner.prefixes.shared())
    }

    /// A task that will drive a run. It is asked for before anything changes, so that without a runtime nothing does.
    fn task(&self, config: &AgentLoopConfig) -> Result<RunTask, AgentError> {
        let (give, take) = oneshot::channel::<BoxFuture<'static, ()>>();
        config.environment.spawn(Box::pin(async move {
            if let Ok(work) = take.await {
                work.await;
            }
        }))?;
        Ok(RunTask { inner: Arc::clone(&self.inner), give })
    }
}

/// A task that waits for the run that it is to drive; dropped, it ends.
struct RunTask {
    inner: Arc<Inner>,
    give: oneshot::Sender<BoxFuture<'static, ()>>,
}

/// What a shell does first.
enum Start {
    Begin,
    GoOn(Option<Box<Input>>),
}

impl RunTask {
    fn run(self, shell: Box<Shell>, start: Start) {
        let (inner, output) = (self.inner, shell.output());
        // A task that has gone in the meantime drops the work, and the shell in it ends the run.
        let _ = self.give.send(Box::pin(async move {
            let (outcome, _) = match start {
                Start::Begin => shell.begin().await,
                Start::GoOn(input) => shell.go_on(input).await,
            };
            if let Outcome::Ended(run) | Outcome::Suspended(run) = outcome {
                inner.settle(run, &output);
            }
            output.release();
        }));
    }
}
