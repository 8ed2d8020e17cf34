//! Evaluates the hooks and input filters that run before a loop, before its prompts enter, and before a turn.

use tokio_util::sync::CancellationToken;

use super::panics::contained;
use crate::hooks::{self, FilterResult, Hooks, LoopInfo, TurnInfo, Verdict};
use crate::message::{Content, Message};
use crate::run::{Gate, GateVerdict, Input, InputVerdict, Run};

/// Calls the hooks of `gate` and returns their verdict as an input, or an abort if `cancel` is cancelled.
pub(super) async fn evaluate(gate: Gate, run: &Run, hooks: &Hooks, cancel: &CancellationToken) -> Input {
    let (loop_id, history) = (run.loop_id().clone(), run.history().clone());
    let evaluation = async {
        match gate {
            Gate::Loop => {
                let info = LoopInfo { loop_id, history };
                decided(verdict_of_all("before_loop", &hooks.run.before, &info).await)
            }
            Gate::Turn { turn } => {
                let info = TurnInfo { loop_id, history, index: turn };
                decided(verdict_of_all("before_turn", &hooks.turn.before, &info).await)
            }
            Gate::Input { prompts } => {
                let texts: Vec<String> = prompts
                    .iter()
                    .filter_map(|e| match e.message().as_llm() {
                        Some(Message::User(m)) => Some(&m.content),
                        _ => None,
                    })
                    .flat_map(|content| content.iter().filter_map(Content::as_text).map(str::to_owned))
                    .collect();
                let text = texts.join("\n");
                let mut warnings = Vec::new();
                for filter in &hooks.input_filters {
                    match contained(filter.filter(&text)).await {
                        Ok(FilterResult::Pass) => {}
                        Ok(FilterResult::Warn(warning)) => warnings.push(warning),
                        Ok(FilterResult::Reject(reason)) => {
                            return filtered(InputVerdict::Deny { reason });
                        }
                        // A filter that panics rejects the input.
                        Err(panic) => {
                            let reason = format!("an input filter panicked: {panic}");
                            return filtered(InputVerdict::Deny { reason });
                        }
                    }
                }
                filtered(InputVerdict::Allow { warnings })
            }
        }
    };
    tokio::select! {
        biased;
        input = evaluation => if cancel.is_cancelled() { Input::abort(None) } else { input },
        () = cancel.cancelled() => Input::abort(None),
    }
}

fn decided(verdict: GateVerdict) -> Input {
    Input::GateDecided { verdict }
}

fn filtered(verdict: InputVerdict) -> Input {
    Input::Filtered { verdict }
}

/// Runs the hooks of a gate in order. The first denial decides; otherwise the questions of all hooks are combined into
/// one.
async fn verdict_of_all<A: Clone>(name: &str, hooks: &[hooks::Gate<A>], info: &A) -> GateVerdict {
    let mut questions = Vec::new();
    for hook in hooks {
        match verdict(name, contained(async { hook(info.clone()).await }).await) {
            GateVerdict::Allow => {}
            GateVerdict::Ask(question) => questions.push(question),
            denied @ GateVerdict::Deny(_) => return denied,
        }
    }
    if questions.is_empty() { GateVerdict::Allow } else { GateVerdict::Ask(questions.join("\n")) }
}

fn verdict(hook: &str, answer: Result<Result<Verdict, crate::hooks::HookError>, String>) -> GateVerdict {
    match answer {
        Ok(Ok(Verdict::Allow | Verdict::AllowWith(_))) => GateVerdict::Allow,
        Ok(Ok(Verdict::Deny(reason) | Verdict::DenyAndEnd(reason))) if reason.is_empty() => {
            GateVerdict::Deny(format!("{hook} denied it without a reason"))
        }
        Ok(Ok(Verdict::Deny(reason) | Verdict::DenyAndEnd(reason))) => GateVerdict::Deny(reason),
        Ok(Ok(Verdict::Ask(question))) => GateVerdict::Ask(question),
        Ok(Err(error)) => GateVerdict::Deny(format!("{hook} failed: {error}")),
        Err(panic) => GateVerdict::Deny(format!("{hook} panicked: {panic}")),
    }
}
