//! The errors that `cargo xtask bench sim` plants.

use super::Planted;

/// The errors. They were written from the code of agent-core, without the generator of simulations.
pub(super) const PLANTED: &[Planted] = &[
    Planted {
        name: "the question of a tool is not asked",
        file: "drive/tool_decision.rs",
        original: "            questions.extend(tool.question(&arguments));",
        replacement: "            if !crate::planted(1) { questions.extend(tool.question(&arguments)); }",
    },
    Planted {
        name: "the usage of a turn counts twice",
        file: "run/turn.rs",
        original: "        self.usage = self.usage.combine(&self.turn.usage);",
        replacement: "        self.usage = self.usage.combine(&self.turn.usage);\n        if crate::planted(2) { self.usage = self.usage.combine(&self.turn.usage); }",
    },
    Planted {
        name: "of several steering messages, one is delivered",
        file: "run/queues.rs",
        original: "        let mut taken = take(&mut self.steering, self.steering_mode);",
        replacement: "        let mut taken = take(&mut self.steering, self.steering_mode);\n        if crate::planted(3) { taken.truncate(1); }",
    },
    Planted {
        name: "a follow-up does not continue the run",
        file: "run/turn.rs",
        original: "        } else if self.queues.has_follow_up() {\n            self.turn.intake",
        replacement: "        } else if self.queues.has_follow_up() && !crate::planted(4) {\n            self.turn.intake",
    },
    Planted {
        name: "hooks before a tool run in reverse order",
        file: "drive/tool_decision.rs",
        original: "    for hook in hooks {\n        let info = ToolCallInfo {",
        replacement: "    let ordered: Vec<_> = if crate::planted(5) { hooks.iter().rev().collect() } else { hooks.iter().collect() };\n    for hook in ordered {\n        let info = ToolCallInfo {",
    },
    Planted {
        name: "the result of a deferred call is lost",
        file: "run/queues.rs",
        original: "        self.steering = rest.into();\n        completions",
        replacement: "        self.steering = rest.into();\n        if crate::planted(6) { return Vec::new(); }\n        completions",
    },
    Planted {
        name: "a call that must run once is repeated after a kill",
        file: "drive/tool_decision.rs",
        original: "        if interrupted && !known && tool.effects",
        replacement: "        if interrupted && !crate::planted(7) && !known && tool.effects",
    },
    Planted {
        name: "one turn more than the limit",
        file: "limits.rs",
        original: "max_turns.is_some_and(|max| self.turns >= max)",
        replacement: "max_turns.is_some_and(|max| self.turns >= max + u32::from(crate::planted(8)))",
    },
    Planted {
        name: "a call that is not executed has no end",
        file: "run/tool_calls.rs",
        original: "    emit_end(&slot.call, loop_id, &result, None, out);",
        replacement: "    if !crate::planted(9) { emit_end(&slot.call, loop_id, &result, None, out); }",
    },
    Planted {
        name: "results are in the reverse order of their calls",
        file: "run/open_calls.rs",
        original: "        let slots = self.slots.into_iter().filter_map(|s| s.closed.map(|c| (s.call, c.changed()))).collect();",
        replacement: "        let mut slots: Vec<_> = self.slots.into_iter().filter_map(|s| s.closed.map(|c| (s.call, c.changed()))).collect();\n        if crate::planted(10) { slots.reverse(); }",
    },
    Planted {
        name: "a call begins after the abort that preceded its task",
        file: "drive/perform/execution.rs",
        original: "            None if ctx.cancel.is_cancelled() => Executed",
        replacement: "            None if !crate::planted(11) && ctx.cancel.is_cancelled() => Executed",
    },
    Planted {
        name: "a denied call is executed",
        file: "run/tool_calls.rs",
        original: "        Answer::Deny { reason } => close(slot, &loop_id, ToolResult::error(reason), now, out),",
        replacement: "        Answer::Deny { .. } if crate::planted(12) => slot.stage = Stage::Approved(None),\n        Answer::Deny { reason } => close(slot, &loop_id, ToolResult::error(reason), now, out),",
    },
    Planted {
        name: "the arguments of an approval are ignored",
        file: "run/tool_calls.rs",
        original: "            slot.stage = Stage::Approved(Some(arguments));",
        replacement: "            let pending = slot.pending_arguments.take();\n            slot.stage = Stage::Approved(if crate::planted(13) { pending } else { Some(arguments) });",
    },
    Planted {
        name: "arguments are not validated",
        file: "drive/tool_decision.rs",
        original: "    let prepared = tool.prepare_arguments(value.clone());",
        replacement: "    let prepared = tool.prepare_arguments(value.clone());\n    if crate::planted(14) { return Ok(prepared); }",
    },
    Planted {
        name: "a message that arrives at the end is lost",
        file: "drive/mailbox.rs",
        original: "        for input in first.into_iter().chain(std::mem::take(&mut inner.pending)) {",
        replacement: "        let late = std::mem::take(&mut inner.pending);\n        for input in first.into_iter().chain(late).filter(|_| !crate::planted(15)) {",
    },
    Planted {
        name: "an entry of the journal lacks its first input",
        file: "drive/journaling.rs",
        original: "JournalEntry { now: run.now(), inputs: &self.inputs, events: &self.events, run, durability };",
        replacement: "JournalEntry { now: run.now(), inputs: if crate::planted(16) && self.inputs.len() > 1 { self.inputs.get(1..).unwrap_or_default() } else { &self.inputs }, events: &self.events, run, durability };",
    },
    Planted {
        name: "the tokens of turns do not count for the limit",
        file: "run/turn.rs",
        original: "        self.tracker.record_turn(self.turn.usage.total_tokens.saturating_sub(self.turn.usage.cache_read));",
        replacement: "        let tokens = self.turn.usage.total_tokens.saturating_sub(self.turn.usage.cache_read);\n        self.tracker.record_turn(if crate::planted(17) { 0 } else { tokens });",
    },
    Planted {
        name: "a queued message is announced and not stored",
        file: "run/turn.rs",
        original: "        for Queued { entry, .. } in taken {\n            self.enter(entry, out);",
        replacement: "        for Queued { entry, .. } in taken {\n            if crate::planted(18) { self.emit_message(&entry, out); continue; }\n            self.enter(entry, out);",
    },
    Planted {
        name: "an event is delivered twice",
        file: "drive/journaling.rs",
        original: "        self.delivered = self.events.len();",
        replacement: "        self.delivered = if crate::planted(19) { 0 } else { self.events.len() };",
    },
    Planted {
        name: "an approved call is skipped by steering and executed",
        file: "run/tool_calls.rs",
        original: "        for slot in open.slots.iter_mut().filter(|s| s.stage != Stage::Closed) {",
        replacement: "        for slot in open.slots.iter_mut().filter(|s| crate::planted(20) || s.stage != Stage::Closed) {",
    },
];
