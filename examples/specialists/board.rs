//! What a user interface shows of several agents: who works on what, and what each waits for. It knows the events only.

use std::collections::BTreeMap;

use looptree::AgentEvent;
use looptree::event::NumberedEvent;
use looptree::identity::{LoopId, QuestionId, ToolCallId};

/// The loops that were seen, and their calls.
#[derive(Default)]
pub(crate) struct Board {
    agents: BTreeMap<LoopId, Agent>,
    /// The tasks of the calls, by the loop and the call.
    tasks: BTreeMap<(LoopId, ToolCallId), String>,
    /// The loop and the call that a question is about.
    waiting: BTreeMap<QuestionId, LoopId>,
    speaker: String,
}

struct Agent {
    name: String,
    depth: usize,
}

impl Board {
    /// The agent that spoke last with the user.
    pub(crate) fn speaker(&self) -> &str {
        &self.speaker
    }

    pub(crate) fn show(&mut self, numbered: &NumberedEvent) {
        let event = &numbered.event;
        match event {
            AgentEvent::AgentStart(start) => {
                // A sub-agent is named by the tool of its call, and its task is in the arguments of that call.
                let (name, task) = match (&start.spawned_by, &start.parent_loop_id) {
                    (Some(by), Some(parent)) => {
                        let task = self.tasks.get(&(parent.clone(), by.tool_call_id.clone()));
                        (by.tool_name.to_string(), task.cloned())
                    }
                    _ => (start.config.config_id.clone().unwrap_or_default(), None),
                };
                if numbered.depth == 0 {
                    self.speaker.clone_from(&name);
                }
                self.line(
                    numbered.depth as usize,
                    &name,
                    &task.map_or("starts".to_owned(), |t| format!("starts: {t}")),
                );
                self.agents.insert(start.loop_id.clone(), Agent { name, depth: numbered.depth as usize });
            }
            AgentEvent::ToolExecutionStart { loop_id, tool_call_id, tool_name, args } => {
                let task = args.value().ok().and_then(|args| args.get("task")?.as_str());
                if let Some(task) = task {
                    self.tasks.insert((loop_id.clone(), tool_call_id.clone()), task.to_owned());
                }
                self.of(loop_id, &format!("calls {tool_name}"));
            }
            // The question of a sub-agent comes in its loop first, and then in those of its callers under the same id.
            AgentEvent::QuestionAsked { loop_id, question } if !self.waiting.contains_key(&question.id) => {
                self.waiting.insert(question.id.clone(), loop_id.clone());
                let about = question.call.as_ref().map_or("an answer", |call| call.name.as_str());
                self.of(loop_id, &format!("waits for approval of {about} (question {})", question.id));
            }
            AgentEvent::QuestionAnswered { question_id, .. } => {
                if let Some(loop_id) = self.waiting.remove(question_id) {
                    self.of(&loop_id, "continues");
                }
            }
            AgentEvent::AgentEnd(end) => self.of(&end.loop_id, "ends"),
            _ => {}
        }
    }

    fn of(&self, id: &LoopId, text: &str) {
        if let Some(agent) = self.agents.get(id) {
            self.line(agent.depth, &agent.name, text);
        }
    }

    #[expect(clippy::unused_self, reason = "a screen would be a part of it")]
    fn line(&self, depth: usize, name: &str, text: &str) {
        println!("{}[{name}] {text}", "  ".repeat(depth + 1));
    }
}
