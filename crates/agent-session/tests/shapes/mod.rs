//! Long sessions of given shapes, for tests of growth and for `examples/session_bench.rs`.
#![allow(dead_code, reason = "each program uses a part of it")]

use std::sync::Arc;

use agent_core::run::{CallStage, Input, Reply, Run, RunSetup, Step, ToolOutcome, ToolVerdict};
use agent_core::{
    AgentMessage, AssistantMessage, Content, ContinuationKind, GroupMember, GroupRole, History, LoopId,
    StopReason, Timestamp, ToolResult, Usage,
};
use agent_session::{BoxError, LoopBase, LoopRecord, ParallelGroupRecord, Session, SessionRecorder};
use serde_json::json;

/// The branches of each group of [`Shape::Groups`].
const BRANCHES: usize = 10;

/// How the turns of a session are distributed over loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One loop with a tool call in each turn.
    OneLoop,
    /// Loops of one turn, as a recorder with a store writes them.
    Loops,
    /// Loops of one turn without a base, as a recorder without a store has them.
    LoopsWithoutBase,
    /// Loops of one turn. Each continues from the place where the loop before it began.
    Rewinds,
    /// One group of parallel branches after one loop.
    OneGroup,
    /// Groups of ten branches. Each continues the selected branch of the group before it.
    Groups,
}

impl Shape {
    pub(crate) const ALL: [Self; 6] =
        [Self::OneLoop, Self::Loops, Self::LoopsWithoutBase, Self::Rewinds, Self::OneGroup, Self::Groups];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::OneLoop => "one loop",
            Self::Loops => "loops",
            Self::LoopsWithoutBase => "loops without base",
            Self::Rewinds => "rewinds",
            Self::OneGroup => "one group",
            Self::Groups => "groups of ten",
        }
    }

    /// Builds a session with this number of turns.
    pub(crate) fn session(self, turns: usize) -> Result<Session, BoxError> {
        let mut builder = Builder::default();
        match self {
            Self::OneLoop => {
                builder.add(turns, None)?;
            }
            Self::Loops => (0..turns).try_for_each(|_| builder.add(1, None))?,
            Self::LoopsWithoutBase => {
                (0..turns).try_for_each(|_| builder.add(1, None))?;
                builder.loops.iter_mut().for_each(|record| record.base = None);
            }
            Self::Rewinds => {
                builder.add(1, None)?;
                for _ in 1..turns {
                    let before = builder.history.clone();
                    builder.add(1, None)?;
                    builder.rewind(before);
                }
            }
            Self::OneGroup => {
                builder.add(1, None)?;
                builder.add_group(turns.saturating_sub(1))?;
            }
            Self::Groups => {
                builder.add(1, None)?;
                (0..turns / BRANCHES).try_for_each(|_| builder.add_group(BRANCHES))?;
            }
        }
        let mut session = Session::new("s-1".into(), "agent".into(), Timestamp(1));
        session.loops = builder.loops;
        Ok(session)
    }
}

#[derive(Default)]
struct Builder {
    loops: Vec<LoopRecord>,
    /// The conversation that the next loop begins with.
    history: History,
    /// The loop that the next one begins after, and the number of messages that it keeps.
    after: Option<(LoopId, usize)>,
    parent: Option<LoopId>,
}

impl Builder {
    fn next_id(&self) -> LoopId {
        LoopId::from(format!("s-1.m.{}", self.loops.len() + 1))
    }

    /// Adds a loop that continues the conversation.
    fn add(&mut self, turns: usize, group: Option<GroupMember>) -> Result<(), BoxError> {
        let mut setup = RunSetup::new(self.next_id());
        setup.session_id = "s-1".into();
        setup.agent_id = "agent".into();
        setup.policy.limits = None;
        setup.policy.context = None;
        setup.group = group;
        setup.parent_loop_id.clone_from(&self.parent);
        setup.continuation = self.parent.as_ref().map(|_| ContinuationKind::Default);
        let loop_id = setup.loop_id.clone();
        let (mut record, history) = record(setup, self.history.clone(), turns)?;
        let mut base = LoopBase::default();
        if let Some((after, keep)) = self.after.take() {
            base.after_loop = Some(after);
            base.keep = keep;
        }
        record.base = Some(base);
        // As a recorder links them: the child names its parent, and the parent its child.
        if let Some(parent) = self.parent.take()
            && let Some(parent) = self.loops.iter_mut().rev().find(|r| r.loop_id == parent)
        {
            parent.children_loop_ids.push(loop_id.clone());
        }
        self.loops.push(record);
        self.after = Some((loop_id.clone(), history.len()));
        self.parent = Some(loop_id);
        self.history = history;
        Ok(())
    }

    /// Continues from an earlier place of the last loop.
    fn rewind(&mut self, history: History) {
        if let Some((_, keep)) = &mut self.after {
            *keep = history.len();
        }
        self.history = history;
    }

    /// Adds branches that all continue the conversation, and selects the last of them.
    fn add_group(&mut self, branches: usize) -> Result<(), BoxError> {
        let (history, after, parent) = (self.history.clone(), self.after.clone(), self.parent.clone());
        let (first, group_id) = (self.loops.len(), LoopId::from(format!("s-1.g.{}", self.loops.len())));
        for index in 0..branches {
            self.history = history.clone();
            self.after.clone_from(&after);
            self.parent.clone_from(&parent);
            self.add(1, Some(GroupMember::new(group_id.clone(), GroupRole::Branch { index })))?;
        }
        let number = self.loops.len();
        let members = self.loops.iter_mut().skip(first);
        let ids: Arc<[LoopId]> = members.map(|r| r.loop_id.clone()).collect();
        for record in self.loops.iter_mut().skip(first) {
            let mut group = ParallelGroupRecord::of(Arc::clone(&ids));
            group.selected_loop_id = ids.last().cloned();
            group.selected_config_index = ids.len().checked_sub(1);
            group.selected_after_loops = Some(number);
            group.is_selected = ids.last() == Some(&record.loop_id);
            record.parallel_group = Some(group);
        }
        Ok(())
    }
}

/// Drives a run, and returns its record and the conversation after it.
fn record(setup: RunSetup, history: History, turns: usize) -> Result<(LoopRecord, History), BoxError> {
    let (recorder, mut events) = (SessionRecorder::new(), Vec::new());
    let id = setup.loop_id.clone();
    let prompt = vec![AgentMessage::user(format!("The prompt of {id}."))];
    let mut run = Run::start(setup, history, prompt, Timestamp(1_000), &mut events)?;
    let (mut turn, mut now) = (0, Timestamp(1_000));
    loop {
        now.0 += 1;
        let inputs = match run.next() {
            Step::Done(_) => break,
            Step::CallModel { .. } => {
                turn += 1;
                vec![Input::ReplyStarted, Input::ModelReplied { reply: Reply::new(reply(&id, turn, turns))? }]
            }
            Step::ReadQueues { .. } => vec![Input::QueuesRead],
            Step::RunTools { calls, .. } => {
                let call = calls.first().ok_or("a step without calls")?;
                let id = call.call.id.clone();
                match call.stage {
                    CallStage::New => vec![Input::ToolBegan { id, verdict: ToolVerdict::Allow }],
                    _ => {
                        let outcome = Box::new(ToolOutcome::new(ToolResult::text("A result."), Some(1)));
                        vec![Input::ToolEnded { id, outcome }]
                    }
                }
            }
            other => return Err(format!("an unexpected step: {other:?}").into()),
        };
        for input in inputs {
            run.apply(now, input, &mut events)?;
        }
        events.drain(..).for_each(|event| recorder.on_event(&event));
    }
    events.drain(..).for_each(|event| recorder.on_event(&event));
    let mut session = recorder.forget("s-1").ok_or("nothing was recorded")?;
    let record = session.loops.pop().ok_or("no loop was recorded")?;
    Ok((record, run.history().clone()))
}

/// The reply of a turn. All but the last turn of a loop call a tool.
fn reply(id: &LoopId, turn: usize, turns: usize) -> AssistantMessage {
    let stop = if turn < turns { StopReason::ToolUse } else { StopReason::Stop };
    let mut message = AssistantMessage::new("mock", "mock", stop);
    message.usage = Usage::new(10, 1, 0, 0);
    message.content.push(Content::text(format!("Reply {turn}.")));
    if turn < turns {
        message.content.push(Content::tool_call(format!("{id}-{turn}"), "tool", json!({ "turn": turn })));
    }
    message
}
