//! Asking before bash runs.

use std::io::IsTerminal as _;

use looptree::prelude::*;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::render::Screen;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Everything,
    AskForBash,
}

pub(crate) fn hooks(mode: Mode, screen: Screen) -> Hooks {
    if mode == Mode::Everything {
        return Hooks::new();
    }
    Hooks::new().before_tool(move |call| {
        let screen = screen.clone();
        async move {
            if call.call.name != "bash" {
                return Verdict::Go;
            }
            if !std::io::stdin().is_terminal() {
                return Verdict::Deny(
                    "There is nobody at a terminal to allow this command; it was not run.".to_owned(),
                );
            }
            let command =
                call.arguments.get("command").and_then(|c| c.as_str()).unwrap_or_default().to_owned();
            screen.ask(&command);
            let mut answer = String::new();
            let read = BufReader::new(tokio::io::stdin()).read_line(&mut answer).await;
            screen.answered();
            match (read, answer.trim().to_lowercase().as_str()) {
                (Ok(_), "y" | "yes") => Verdict::Go,
                _ => Verdict::Deny("The user did not allow this command.".to_owned()),
            }
        }
    })
}
