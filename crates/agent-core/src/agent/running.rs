//! Starting and resuming runs.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::path::Left;
use super::{AgentError, AgentHandle, Inner, Settings};
use crate::drive::{
    AgentLoopConfig, Audience, CutOff, EventReceiver, EventSender, ListenerPanicked, LoopIds, Output,
    Patience, Shell, counted, event_channel, poll_sources, record_instructions, run_setup, start_run,
};
use crate::environment::NoRuntime;
use crate::event::{AgentEvent, RunEnd};
use crate::identity::ContinuationKind;
use crate::message::AgentMessage;
use crate::run::{Input, Run};
use crate::tool::Tools;

/// The output of a run, which updates the agent's state.
#[async_trait]
impl Audience for Inner {
    fn reduce(&self, event: &AgentEvent) {
        self.state().reduce(event);
    }

    fn has_listeners(&self) -> bool {
        !self.listeners.is_empty()
    }

    async fn notify(&self, event: &AgentEvent, patience: &Patience<'_>) -> Result<(), ListenerPanicked> {
        self.listeners.notify(event, patience).await.map_err(ListenerPanicked)
    }

    fn notify_now(&self, event: &AgentEvent) {
        self.listeners.notify_now(event);
    }

    /// Applies the result of a run to the agent and sends the run's last event. The agent is idle afterwards. No other
    /// run can start in between, so on a shared sender the end of this run precedes the start of the next one.
    fn settle(&self, mut run: Run, cut_off: Option<Box<CutOff>>, output: &Output) {
        if run.ended().is_some() {
            let mut left = run.take_queues();
            left.extend(cut_off.iter().flat_map(|cut_off| cut_off.queued().cloned()));
            self.mailbox.close(left);
        }
        {
            let mut state = self.state();
            state.finished = match run.ended() {
                Some(ended) => Some(RunEnd::new(ended, run.new_messages().clone(), run.usage())),
                None => Some(RunEnd::Suspended(run.questions())),
            };
            state.settle(run, cut_off);
            output.release();
        }
        self.idle.notify_waiters();
    }
}

impl AgentHandle {
    pub(crate) fn check_idle(&self) -> Result<(), AgentError> {
        self.inner.state().check_idle()
    }

    /// Starts a run with these settings, which need not be the agent's own.
    pub(super) fn start_run(
        &self,
        settings: Settings,
        prompts: Vec<AgentMessage>,
        continuation: Option<ContinuationKind>,
        tx: EventSender,
    ) -> Result<(), AgentError> {
        let Settings { agent_id, system_prompt, tools, config } = settings;
        self.check_idle()?;
        self.check_can_run(&config, &tools)?;
        let cancel = CancellationToken::new();
        // The caller's own code may read the agent, so it runs before the state is locked.
        let mut prompts = prompts.into_iter().map(|m| counted(&config, m)).collect();
        let segment = config.config_segment();
        poll_sources(&config).into_iter().for_each(|queued| self.inner.mailbox.queue(queued));
        let (run, events) = {
            let mut state = self.inner.state();
            state.check_idle()?;
            let continuation = match continuation {
                None if state.rewound && state.last_loop_id.is_some() => {
                    Some(ContinuationKind::Branch { tag: config.services.environment.now().to_rfc3339() })
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
            let modes = self.inner.mailbox.view().modes();
            if modes != (setup.policy.steering_mode, setup.policy.follow_up_mode) {
                (setup.policy.steering_mode, setup.policy.follow_up_mode) = modes;
            }
            record_instructions(&config, &state.history, &system_prompt, &tools, &mut prompts);
            let waiting = self.inner.mailbox.open();
            let started = start_run(&config, setup, state.history.clone(), prompts, waiting.clone());
            let (run, events) = started.inspect_err(|_| self.inner.mailbox.close(waiting))?;
            self.inner.mailbox.publish(run.queues());
            state.left = Some(Left { system_prompt: Arc::clone(&system_prompt), ..Left::default() });
            state.session_origin = None;
            state.begin(loop_id, segment, config.services.environment.now(), cancel.clone());
            (run, events)
        };
        let environment = Arc::clone(&config.services.environment);
        let shell = self.shell(config, tools, system_prompt, tx, cancel).begin(run, events);
        // If the task cannot be spawned, the shell is dropped, which ends the run.
        environment.spawn(Box::pin(shell.run_for_audience()))?;
        Ok(())
    }

    /// Resumes the suspended run and applies `input` first. The returned receiver gets the run's events.
    pub(super) fn resume_run(
        &self,
        input: Option<Input>,
        sender: Option<EventSender>,
    ) -> Result<EventReceiver, AgentError> {
        let (own, rx) = event_channel();
        let tx = sender.unwrap_or(own);
        let Settings { system_prompt, tools, config, .. } = self.settings_of_run();
        self.check_can_run(&config, &tools)?;
        let cancel = CancellationToken::new();
        let run = {
            let mut state = self.inner.state();
            if state.is_streaming {
                return Err(AgentError::Busy);
            }
            let cut_off = state.resumable_cut_off().filter(|_| input.is_none());
            let run = match (cut_off, &state.suspended) {
                (Some(cut_off), _) => cut_off.run(),
                (None, Some(run)) => run,
                (None, None) => return Err(AgentError::NotSuspended),
            };
            if let Some(what) = lacks(run, &config, &tools).filter(|_| !is_abort(input.as_ref())) {
                return Err(AgentError::Lacks { what });
            }
            if let Some(input) = &input {
                run.check(config.services.environment.now(), input)?;
            }
            let run = match cut_off.is_some() {
                true => state.take_cut_off().map(Err),
                false => state.take_suspended().map(|run| Ok(*run)),
            };
            let Some(run) = run else { return Err(AgentError::NotSuspended) };
            if let Err(cut_off) = &run {
                // The messages that were queued meanwhile enter the run.
                let queued = self.inner.mailbox.view().take_all();
                self.inner.mailbox.reopen(cut_off.run().queues(), queued);
            }
            state.is_streaming = true;
            state.cancel = Some(cancel.clone());
            run
        };
        let environment = Arc::clone(&config.services.environment);
        let shell = self.shell(config, tools, system_prompt, tx, cancel);
        let shell = match run {
            Ok(run) => shell.resume(run, input),
            Err(cut_off) => shell.resume_cut_off(*cut_off),
        };
        environment.spawn(Box::pin(shell.run_for_audience()))?;
        Ok(rx)
    }

    /// Checks that tasks can be spawned, that the tools have distinct names, that a recorded agent records, and that
    /// the budget can be enforced. Called before any state changes. Afterwards the budget includes the spending of a
    /// restored snapshot.
    fn check_can_run(&self, config: &AgentLoopConfig, tools: &Tools) -> Result<(), AgentError> {
        if let Some(name) = tools.duplicate_name() {
            return Err(AgentError::DuplicateTool { name: name.into() });
        }
        if config.services.journal.is_none() && self.inner.state().must_record {
            return Err(AgentError::Unrecorded);
        }
        if !config.services.environment.can_spawn() {
            return Err(NoRuntime.into());
        }
        config.check_budget()?;
        if let Some(budget) = &config.services.budget
            && let Some(known) = self.inner.state().spent_before.take()
        {
            budget.restore(&known);
        }
        Ok(())
    }

    /// Returns the settings of a run that starts now.
    pub(super) fn settings_of_run(&self) -> Settings {
        let settings = self.inner.settings().clone();
        // The code of the tools may read the agent, so it runs before the state is locked.
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

impl AgentHandle {
    /// Checks that the conversation can continue without a new message.
    pub(super) fn check_continues(&self, kind: &ContinuationKind) -> Result<(), AgentError> {
        self.check_idle()?;
        let state = self.inner.state();
        // A rerun or a branch calls the model again after a failed reply.
        if !matches!(kind, ContinuationKind::Default | ContinuationKind::Initial)
            && state.history.awaits_reply()
        {
            return Ok(());
        }
        match state.history.last() {
            None => Err(AgentError::EmptyTranscript),
            Some(last) if last.role() == "assistant" && state.history.paused_reply().is_none() => {
                let queued = self.inner.mailbox.view();
                let continues = queued.has_active_steering() || queued.has_follow_up();
                if continues { Ok(()) } else { Err(AgentError::AssistantTail) }
            }
            Some(_) => Ok(()),
        }
    }

    /// Ends a suspended run. The driver runs it to its end, with journal and hooks. Without a runtime, the end is
    /// applied here.
    pub(super) fn abort_suspended(&self) {
        let waits = self.inner.state().suspended.is_some();
        if !waits || self.resume_run(Some(Input::abort(None)), Some(EventSender::none())).is_ok() {
            return;
        }
        let now = self.inner.settings().config.services.environment.now();
        let suspended = self.inner.state().take_suspended();
        let Some(mut run) = suspended else { return };
        let mut events = Vec::new();
        // A run that another process left may wait for calls that no task executes; the second abort ends these.
        for _ in 0..2 {
            if run.ended().is_none() {
                let _ = run.apply(now, Input::abort(None), &mut events);
            }
        }
        for event in &events {
            self.inner.state().reduce(event);
            self.inner.listeners.notify_now(event);
        }
        self.inner.settle(*run, None, &Output::to(EventSender::none()));
    }
}

fn is_abort(input: Option<&Input>) -> bool {
    matches!(input, Some(Input::Abort { .. }))
}

/// Returns the first tool, hook or route that a run needs to continue and that the agent does not have.
fn lacks(run: &Run, config: &AgentLoopConfig, tools: &Tools) -> Option<String> {
    let setup = run.setup();
    if config.routes.len() < setup.routes.len() {
        return Some(format!("route {} of {}", config.routes.len() + 1, setup.routes.len()));
    }
    let hooks = &config.hooks;
    let gates = [
        ("before_loop", setup.gates.before_loop, hooks.run.before.is_empty()),
        ("input_filter", setup.gates.input, hooks.input_filters.is_empty()),
        ("before_turn", setup.gates.before_turn, hooks.turn.before.is_empty()),
        ("after_tool", setup.gates.after_tool, hooks.tool.after.is_empty()),
    ];
    if let Some((name, ..)) = gates.iter().find(|(_, needed, missing)| *needed && *missing) {
        return Some(format!("the hook {name}"));
    }
    let known = |name: &str| tools.find(name).is_some();
    run.needed_tools().into_iter().find(|name| !known(name.as_str())).map(|name| format!("the tool {name}"))
}
