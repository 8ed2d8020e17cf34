//! The search for the shortest script that still fails.

use crate::script::{Action, Reply, ReplyEnd, Script, Step, ToolFault};
use agent_core::Answer;

/// Removes and simplifies steps as long as the script still fails.
pub(crate) fn shortest(script: Script, mut fails: impl FnMut(&Script) -> bool) -> Script {
    let mut best = script;
    loop {
        let before = best.clone();
        best = fewer_steps(best, &mut fails);
        best = simpler_steps(best, &mut fails);
        if best == before {
            return best;
        }
    }
}

/// Removes ranges of steps: halves first, single steps last.
fn fewer_steps(mut best: Script, fails: &mut impl FnMut(&Script) -> bool) -> Script {
    let mut size = best.steps.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < best.steps.len() {
            let mut candidate = best.clone();
            let end = (at + size).min(candidate.steps.len());
            candidate.steps.drain(at..end);
            if fails(&candidate) {
                best = candidate;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    best
}

fn simpler_steps(mut best: Script, fails: &mut impl FnMut(&Script) -> bool) -> Script {
    let mut at = 0;
    while let Some(step) = best.steps.get(at).cloned() {
        let simpler = simpler(&step).into_iter().find_map(|step| {
            let mut candidate = best.clone();
            *candidate.steps.get_mut(at)? = step;
            fails(&candidate).then_some(candidate)
        });
        match simpler {
            Some(simpler) => best = simpler,
            None => at += 1,
        }
    }
    best
}

/// Returns the simpler forms of a step, the simplest first. Each is smaller in an order that has no cycle.
fn simpler(step: &Step) -> Vec<Step> {
    match step {
        Step::Prompt(_) => Vec::new(),
        Step::Reply(reply) => simpler_replies(reply).into_iter().map(Step::Reply).collect(),
        Step::Answer(Answer::AllowWith(_) | Answer::Raise { .. }) => vec![Step::Answer(Answer::Allow)],
        Step::Answer(_) => Vec::new(),
        Step::Act(act) => {
            let sooner = [0, act.after / 2, act.after.saturating_sub(1)];
            let mut acts: Vec<_> = sooner
                .into_iter()
                .filter(|after| *after < act.after)
                .map(|after| crate::script::Act { after, ..act.clone() })
                .collect();
            if matches!(act.what, Action::Crash | Action::Stop) {
                acts.push(crate::script::Act { what: Action::Kill, ..act.clone() });
            }
            acts.into_iter().map(Step::Act).collect()
        }
    }
}

fn simpler_replies(reply: &Reply) -> Vec<Reply> {
    let mut replies = Vec::new();
    let mut add = |change: &dyn Fn(&mut Reply)| {
        let mut simpler = reply.clone();
        change(&mut simpler);
        if simpler != *reply {
            replies.push(simpler);
        }
    };
    add(&|reply| *reply = Reply { tokens: (10, 1), ..Reply::default() });
    for at in 0..reply.calls.len() {
        add(&|reply| {
            reply.calls.remove(at);
        });
    }
    add(&|reply| reply.end = ReplyEnd::Complete);
    add(&|reply| reply.text.clear());
    add(&|reply| reply.delay_ms = 0);
    add(&|reply| reply.tokens = (10, 1));
    for at in 0..reply.calls.len() {
        add(&|reply| {
            if let Some(call) = reply.calls.get_mut(at) {
                call.fault = ToolFault::None;
            }
        });
    }
    replies
}
