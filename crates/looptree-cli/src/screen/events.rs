//! Renders the events of a run.

use looptree::event::{CompactionReason, Ended, ToolExecutionEnd};
use looptree::message::{AssistantMessage, Message, StopReason};
use looptree::prelude::*;
use looptree::tools::file_change::changes_of;
use looptree::tools::plan::{Plan, StepState};
use serde_json::Value;

use super::{Screen, Style, Styled, brief, diff};
use crate::text::{more_lines, one_line, telling};

/// Lines of a result that are shown.
const RESULT_LINES: usize = 4;

/// Columns of a line in a log.
const LOGGED: usize = 300;

impl Screen {
    /// Shows an event of the run.
    pub(crate) fn show(&self, event: &AgentEvent) {
        match event {
            AgentEvent::MessageUpdate { delta: StreamDelta::Text { text }, .. } => self.text(text),
            AgentEvent::MessageUpdate { delta: StreamDelta::Thinking { text }, .. } => self.thinking(text),
            AgentEvent::MessageEnd { message, superseded, .. } => {
                {
                    let mut state = self.state();
                    self.end_reply(&mut state);
                }
                let note = match *superseded {
                    true => Some("this answer broke off; it begins again"),
                    false => message.as_llm().and_then(Message::as_assistant).and_then(defect),
                };
                if let Some(note) = note {
                    self.line(self.paint(Style::Dim, format!("  ({note})")));
                }
                self.doing("");
            }
            AgentEvent::ToolExecutionStart { tool_call_id, tool_name, args, .. } => {
                self.doing(tool_name.as_str());
                let arguments = serde_json::from_str(args.json_text()).unwrap_or(Value::Null);
                let line = self.call(tool_name.as_str(), &arguments);
                let id = tool_call_id.to_string();
                let mut state = self.state();
                state.calls.insert(id.clone(), line);
                state.last_call = Some(id);
            }
            AgentEvent::ToolExecutionUpdate { partial_result, .. } => {
                let text = partial_result.to_text();
                if let Some(last) = text.lines().rev().find(|line| !line.trim().is_empty()) {
                    self.doing(last);
                }
            }
            AgentEvent::ProgressMessage { text, .. } => self.doing(text),
            AgentEvent::ToolExecutionEnd(end) => {
                self.doing("");
                self.name_call(end.tool_call_id.as_str());
                self.ended(end);
            }
            AgentEvent::RetryStart(retry) => {
                let error = one_line(retry.error.as_deref().unwrap_or_default());
                let text = format!(
                    "{error}; trying again in {} ms ({}/{})",
                    retry.delay_ms, retry.attempt, retry.max_attempts
                );
                self.paragraph(Style::Dim, "", text);
            }
            AgentEvent::RouteChanged(change) => {
                let error = one_line(&change.error);
                self.paragraph(Style::Dim, "", format!("{error}; asking {} now", change.to.model));
            }
            AgentEvent::CompactionStarted { .. } => self.doing("summarizing the conversation"),
            AgentEvent::CompactionEnded(end) if end.reason == CompactionReason::RefusedFile => {
                let text = "the provider refused a file of the conversation; a sentence replaces it, and the model is called again";
                self.paragraph(Style::Dim, "", text.to_owned());
            }
            AgentEvent::CompactionEnded(end) => {
                let (before, after) = (end.estimated_tokens_before, end.estimated_tokens_after);
                let how = end.fallback.as_ref().map(|why| format!(" without a summary: {}", one_line(why)));
                let text =
                    format!("conversation shortened{}: {before} -> {after} tokens", how.unwrap_or_default());
                self.paragraph(Style::Dim, "", text);
            }
            AgentEvent::AgentEnd(end) => self.end(&end.ended),
            _ => {}
        }
    }

    fn text(&self, piece: &str) {
        if self.quiet {
            return;
        }
        let mut state = self.state();
        let gap = if state.in_reply { Styled::default() } else { self.gap() };
        state.in_reply = true;
        let mut markdown = std::mem::take(&mut state.markdown);
        let shown = gap + self.thinking_lines(&mut state, true) + markdown.push(piece, self);
        let unfinished = markdown.unfinished().to_owned();
        state.markdown = markdown;
        if let Some(status) = &mut state.status {
            status.doing = unfinished;
        }
        if !shown.is_empty() {
            self.above(&mut state, &shown);
        }
    }

    /// An empty line before a reply on a terminal.
    fn gap(&self) -> Styled {
        Styled::prose(if self.live { "\n" } else { "" })
    }

    fn thinking(&self, piece: &str) {
        if self.quiet {
            return;
        }
        let mut state = self.state();
        let gap = if state.in_reply { Styled::default() } else { self.gap() };
        state.in_reply = true;
        state.thinking.push_str(piece);
        let shown = gap + self.thinking_lines(&mut state, false);
        if let Some(status) = &mut state.status {
            "thinking".clone_into(&mut status.doing);
        }
        if !shown.is_empty() {
            self.above(&mut state, &shown);
        }
    }

    /// Repeats the line of a call whose result does not follow it: other calls or messages were shown in between.
    fn name_call(&self, id: &str) {
        let (line, follows) = {
            let mut state = self.state();
            (state.calls.remove(id), state.last_call.as_deref() == Some(id))
        };
        if let Some(line) = line.filter(|_| !follows) {
            self.line(self.paint(Style::Dim, Styled::from("• ") + line + ":"));
        }
    }

    /// Shows a call in one line, and returns the line without its mark and styles.
    pub(crate) fn call(&self, name: &str, arguments: &Value) -> Styled {
        let arguments = match telling(arguments) {
            Some(text) => one_line(text),
            None if arguments.as_object().is_some_and(serde_json::Map::is_empty) => String::new(),
            None if name == "plan" => String::new(),
            None => arguments.to_string(),
        };
        let name = Styled::from(name);
        let room =
            if self.live { self.text_width().saturating_sub(name.width() + 3).max(12) } else { LOGGED };
        let arguments = Styled::from(arguments).cut(room);
        self.line((Styled::from("• ") + self.paint(Style::Bold, &name) + " " + &arguments).trim_end());
        (name + " " + arguments).trim_end()
    }

    fn ended(&self, end: &ToolExecutionEnd) {
        if let Some(plan) = Plan::of_details(&end.result.details) {
            return self.plan(&plan);
        }
        let changes = changes_of(&end.result.details);
        if end.is_error || changes.is_empty() {
            return self.result(&end.result.to_text(), end.is_error);
        }
        for change in changes {
            let counts = format!(": +{} -{}", change.added, change.removed);
            self.line(self.paint(Style::Dim, Styled::from("  ") + brief(&change.path) + counts));
            diff::lines(&change.diff, self, None).into_iter().for_each(|line| self.line(line));
        }
    }

    /// Shows the steps of a plan.
    pub(crate) fn plan(&self, plan: &Plan) {
        for step in &plan.steps {
            let (mark, style) = match step.status {
                StepState::Completed => ("[x]", Style::Dim),
                StepState::InProgress => ("[>]", Style::Bold),
                _ => ("[ ]", Style::Plain),
            };
            self.paragraph(style, &format!("  {mark} "), one_line(&step.step));
        }
    }

    /// Prints the first line of a result and its last ones, where most tools report the outcome.
    fn result(&self, text: &str, is_error: bool) {
        let style = if is_error { Style::Red } else { Style::Dim };
        // Of a line that was drawn several times, such as a progress bar, the last state counts.
        let lines: Vec<&str> = text
            .lines()
            .map(|line| line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default())
            .filter(|line| !line.trim().is_empty())
            .collect();
        let left_out = lines.len().saturating_sub(RESULT_LINES);
        // In a log, more of a line is shown than on a terminal.
        let room = if self.live { self.text_width().saturating_sub(2) } else { LOGGED };
        for (n, line) in lines.iter().enumerate() {
            if n == 0 || n > left_out {
                self.line(Styled::from("  ") + self.paint(style, Styled::row(line).cut(room)));
            } else if n == 1 {
                self.line(Styled::from("  ") + self.paint(Style::Dim, more_lines(left_out)));
            }
        }
    }

    /// Reports how a run ended, unless it completed.
    pub(crate) fn end(&self, ended: &Ended) {
        {
            let mut state = self.state();
            self.end_reply(&mut state);
        }
        match ended {
            Ended::Completed => {}
            Ended::Aborted => self.line("interrupted; the conversation so far is kept"),
            other => {
                for line in Styled::prose(&why(other)).lines() {
                    self.error_line(self.paint(Style::Red, line));
                }
            }
        }
    }
}

/// Describes what is wrong with a reply that the provider did not report as an error.
fn defect(reply: &AssistantMessage) -> Option<&'static str> {
    let is_empty = reply.text().trim().is_empty() && reply.tool_calls().next().is_none();
    match reply.stop_reason {
        StopReason::Length => Some("the answer was cut off at the output limit of the model"),
        StopReason::Stop if is_empty => Some("the answer is empty"),
        _ => None,
    }
}

/// Describes why a run ended before its task was done.
pub(crate) fn why(ended: &Ended) -> String {
    match ended {
        Ended::Completed => "completed".to_owned(),
        Ended::Aborted => "interrupted".to_owned(),
        Ended::Error { message, .. } => format!("error: {message}"),
        Ended::Limit { reason } => format!("stopped: {reason}"),
        Ended::Budget { refusal } => format!("stopped: {refusal}"),
        Ended::Interrupted { reason } => format!("interrupted: {reason}"),
        Ended::Vetoed { reason } | Ended::TurnVetoed { reason } | Ended::InputRejected { reason } => {
            format!("denied: {reason}")
        }
        _ => "the run ended before the task was done".to_owned(),
    }
}
