//! Turns: opens and closes them, and decides whether another one follows.

use super::{CompactionTask, GateAt, Intake, Phase, QueueKind, Queued, Refusal, Run, Turn, budget, repeats};
use crate::context::ContextConfig;
use crate::event::{AgentEvent, AgentStart, CompactionReason, Ended};
use crate::history::{Entry, MessageRef};
use crate::identity::{ContinuationKind, TurnTrigger};

impl Run {
    /// Emits `AgentStart` and enters the gate for the prompts, if there is one.
    pub(super) fn open_loop(&mut self, out: &mut Vec<AgentEvent>) {
        let setup = &self.setup;
        out.push(AgentEvent::AgentStart(Box::new(AgentStart {
            agent_id: setup.agent_id.clone(),
            session_id: setup.session_id.clone(),
            loop_id: setup.loop_id.clone(),
            parent_loop_id: setup.parent_loop_id.clone(),
            continuation_kind: setup.continuation.clone(),
            spawned_by: setup.spawned_by.clone(),
            group: setup.group.clone(),
            session_origin: setup.session_origin.clone(),
            timestamp: self.now,
            config: setup.config.clone(),
            metadata: setup.policy.metadata.clone(),
        })));
        if setup.gates.input && !self.prompts.is_empty() {
            self.phase = Phase::Gate(GateAt::Input);
        } else {
            self.begin_run(out);
        }
    }

    /// Starts the first turn. A continuation after a reply takes the queued messages.
    pub(super) fn begin_run(&mut self, out: &mut Vec<AgentEvent>) {
        if self.prompts.is_empty()
            && self.history.last().is_some_and(|m| m.role() == "assistant")
            && !self.queues.has_active_steering()
            && self.queues.has_follow_up()
        {
            self.turn.intake = Intake::FollowUp;
        }
        self.begin_turn(out);
    }

    /// Checks the limits, then enters the gate, then opens the turn.
    pub(super) fn begin_turn(&mut self, out: &mut Vec<AgentEvent>) {
        let limit = self.tracker.check_limits(self.now).or_else(|| repeats::reached_limit(self));
        if let Some(limit) = limit {
            let reason = limit.to_string();
            self.enter_prompts(out);
            budget::emit_stop(self, &reason, out);
            self.end(Ended::Limit { reason }, out);
        } else if self.setup.gates.before_turn {
            self.phase = Phase::Gate(GateAt::Turn);
        } else {
            self.open_turn(out);
        }
    }

    /// Moves the prompts into the history. An accepted prompt enters even if its turn does not start.
    pub(super) fn enter_prompts(&mut self, out: &mut Vec<AgentEvent>) {
        for prompt in std::mem::take(&mut self.prompts) {
            self.enter(prompt, out);
        }
    }

    /// Emits `TurnStart`, and adds the prompts and the queued messages.
    pub(super) fn open_turn(&mut self, out: &mut Vec<AgentEvent>) {
        out.push(AgentEvent::TurnStart {
            loop_id: self.setup.loop_id.clone(),
            turn_index: self.turn.index,
            timestamp: self.now,
            triggered_by: self.trigger(),
        });
        self.enter_prompts(out);
        let mut taken = self.queues.take_steering();
        // Passive steering has no turn of its own, so it enters together with the follow-up.
        let steered = taken.iter().any(|queued| queued.kind == QueueKind::Steering);
        if self.turn.intake == Intake::FollowUp && !steered {
            taken.extend(self.queues.take_follow_up());
        }
        for Queued { entry, .. } in taken {
            self.enter(entry, out);
        }
        self.prepare_call(out);
    }

    fn trigger(&self) -> TurnTrigger {
        match &self.setup.continuation {
            _ if self.turn.index > 0 => TurnTrigger::Continuation,
            Some(ContinuationKind::Branch { .. }) => TurnTrigger::Branch,
            Some(ContinuationKind::Initial) | None => self.setup.policy.first_turn_trigger,
            Some(_) => TurnTrigger::Continuation,
        }
    }

    /// Emits a message and adds it to the history. This cannot fail, because the message was checked when it was
    /// queued, and the result of a call that is not deferred becomes a plain message.
    pub(super) fn enter(&mut self, entry: Entry, out: &mut Vec<AgentEvent>) {
        let entry = self.history.linked(self.stamped(entry));
        if self.history.push_entry(entry.clone()).is_ok() {
            self.emit_message(&entry, out);
        }
    }

    /// Checks the context budget once per turn, and then calls the model.
    pub(super) fn prepare_call(&mut self, out: &mut Vec<AgentEvent>) {
        if !self.turn.compacted
            && let Some(task) = self.over_budget()
        {
            self.turn.compacted = true;
            self.start_compaction(task, out);
        } else {
            budget::await_call(self, None);
        }
    }

    /// Returns the goal of a compaction if the context exceeds its budget.
    fn over_budget(&self) -> Option<CompactionTask> {
        let config = self.context_limits()?;
        self.context.is_over_budget(&self.history, &config).then(|| CompactionTask {
            reason: CompactionReason::Budget,
            budget: self.context.compaction_budget(&self.history, &config),
        })
    }

    /// Returns the limits of the context for the model that is called; `None` if compaction is switched off.
    pub(super) fn context_limits(&self) -> Option<ContextConfig> {
        let config = self.setup.policy.context.as_ref()?;
        let (window, output) = match self.route() {
            Some(route) => (route.context_window, route.max_tokens),
            None => (self.setup.context_window, self.setup.config.max_tokens),
        };
        Some(config.for_window(window.unwrap_or_default(), output.unwrap_or_default()))
    }

    pub(super) fn start_compaction(&mut self, task: CompactionTask, out: &mut Vec<AgentEvent>) {
        out.push(AgentEvent::CompactionStarted {
            loop_id: self.setup.loop_id.clone(),
            reason: task.reason,
            estimated_tokens: self.context_tokens(),
            message_count: self.history.len(),
            timestamp: self.now,
        });
        self.phase = Phase::Compacting(task);
    }

    /// Emits `TurnEnd`. The run then ends or continues with another turn.
    pub(super) fn close_turn(
        &mut self,
        reply: Option<MessageRef>,
        tool_results: Vec<MessageRef>,
        out: &mut Vec<AgentEvent>,
    ) {
        self.tracker.record_turn(self.turn.usage.total_tokens.saturating_sub(self.turn.usage.cache_read));
        self.usage = self.usage.combine(&self.turn.usage);
        out.push(AgentEvent::TurnEnd {
            loop_id: self.setup.loop_id.clone(),
            message: reply,
            usage: self.turn.usage,
            timestamp: self.now,
            tool_results,
        });
        let route = self.lost_routes.first(&self.setup.routes);
        self.turn = Turn { index: self.turn.index + 1, route, ..Turn::default() };
    }

    /// Continues the turn after a paused reply, which is the last message of the next request. At a limit, the run ends, and
    /// a later run can continue from the reply.
    pub(super) fn continue_turn(&mut self, reply: MessageRef, out: &mut Vec<AgentEvent>) {
        let max_continuations = self.setup.policy.max_continuations;
        let reason = match self.tracker.check_limits(self.now) {
            Some(limit) => limit.to_string(),
            None if self.turn.continuations >= max_continuations => {
                format!("max continuations of a paused turn exceeded ({max_continuations})")
            }
            None => {
                self.turn.continuations += 1;
                self.turn.attempt += 1;
                self.turn.retries = 0;
                out.push(AgentEvent::TurnContinued {
                    loop_id: self.setup.loop_id.clone(),
                    continuation: self.turn.continuations,
                    max_continuations,
                });
                self.prepare_call(out);
                return;
            }
        };
        self.close_turn(Some(reply), Vec::new(), out);
        self.end(Ended::Limit { reason }, out);
    }

    /// Returns whether another turn follows: for steering, for tool results, or for follow-ups.
    pub(super) fn has_next_turn(&self, results_wanted: bool) -> bool {
        results_wanted || self.queues.has_active_steering() || self.queues.has_follow_up()
    }

    /// Decides whether another turn follows.
    fn after_turn(&mut self, results_wanted: bool, out: &mut Vec<AgentEvent>) {
        if self.queues.has_active_steering() || results_wanted {
            self.begin_turn(out);
        } else if self.queues.has_follow_up() {
            self.turn.intake = Intake::FollowUp;
            self.begin_turn(out);
        } else {
            self.end(Ended::Completed, out);
        }
    }
}

/// Continues after the end of a turn, with all messages that have been queued until now.
pub(super) fn queues_read(run: &mut Run, out: &mut Vec<AgentEvent>) -> Result<(), Refusal> {
    let Phase::BetweenTurns { results_wanted } = run.phase else {
        return Err("no turn has just ended".into());
    };
    run.after_turn(results_wanted, out);
    Ok(())
}
