//! Asking before bash runs.

use std::io::IsTerminal as _;

use looptree::prelude::*;

use crate::args::Args;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Everything,
    /// Asks the user before each command, or suspends the run until an answer arrives.
    AskForBash,
    /// Refuses commands, because no user can be asked.
    RefuseBash,
}

impl Mode {
    pub(crate) fn of(args: &Args) -> Self {
        match (args.yes, args.wait || std::io::stdin().is_terminal()) {
            (true, _) => Self::Everything,
            (false, true) => Self::AskForBash,
            (false, false) => Self::RefuseBash,
        }
    }

    /// Its name in a recording.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::AskForBash => "ask",
            Self::RefuseBash => "refuse",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Everything, Self::AskForBash, Self::RefuseBash].into_iter().find(|mode| mode.name() == name)
    }
}

/// The run asks and waits as data; [`talk::turn`](crate::talk::turn) shows the question and answers it.
pub(crate) fn hooks(mode: Mode) -> Hooks {
    if mode == Mode::Everything {
        return Hooks::new();
    }
    Hooks::new().before_tool(move |call| async move {
        if call.call.name != "bash" {
            Verdict::Allow
        } else if mode == Mode::AskForBash {
            Verdict::Ask("Run this command?".to_owned())
        } else {
            Verdict::Deny("There is nobody at a terminal to allow this command; it was not run.".to_owned())
        }
    })
}

/// Interprets the user's answer.
pub(crate) fn answer(words: &str) -> Answer {
    match words.trim().to_lowercase().as_str() {
        "y" | "yes" => Answer::Allow,
        _ => Answer::Deny { reason: "The user did not allow this command.".to_owned() },
    }
}
