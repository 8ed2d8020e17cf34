//! Asking before bash runs.

use std::io::IsTerminal as _;

use looptree::prelude::*;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Everything,
    AskForBash,
    /// Ask, and let the question wait where nobody is there.
    Wait,
}

/// The run asks and waits as data; [`talk::turn`](crate::talk::turn) shows the question and answers it.
pub(crate) fn hooks(mode: Mode) -> Hooks {
    if mode == Mode::Everything {
        return Hooks::new();
    }
    Hooks::new().before_tool(move |call| async move {
        if call.call.name != "bash" {
            Verdict::Go
        } else if mode == Mode::Wait || std::io::stdin().is_terminal() {
            let command = call.arguments.get("command").and_then(|c| c.as_str()).unwrap_or_default();
            Verdict::Ask(format!("run {command}"))
        } else {
            Verdict::Deny("There is nobody at a terminal to allow this command; it was not run.".to_owned())
        }
    })
}

/// What a person's words mean.
pub(crate) fn answer(words: &str) -> Answer {
    match words.trim().to_lowercase().as_str() {
        "y" | "yes" => Answer::Allow,
        _ => Answer::Deny { reason: "The user did not allow this command.".to_owned() },
    }
}
