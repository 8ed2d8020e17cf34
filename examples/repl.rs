//! A chat in the terminal: `/model NAME`, `/clear` and `/quit`; Ctrl-C interrupts an answer.
//! `cargo run -p looptree-examples --example repl` answers from a script. `-- --model anthropic/claude-sonnet-5-5` asks a
//! model, as `/model` does; `docs/examples.md` lists the names and keys of all providers.
#![expect(clippy::print_stdout, reason = "a program that talks to the user")]

use looptree::prelude::*;
use looptree::testing::{ScriptedProvider, ScriptedReply};
use std::io::Write as _;
use tokio::io::{AsyncBufReadExt as _, BufReader, stdin};

/// Counts the messages that it received. `wait` waits until it is interrupted.
fn script() -> ScriptedProvider {
    ScriptedProvider::responding(|request| match request.messages().last().map(looptree::Message::text) {
        Some(text) if text == "wait" => ScriptedReply::text("I wait").and_hang(),
        _ => ScriptedReply::text(format!("I received {} messages.", request.messages().count())),
    })
}

fn show(text: &str) {
    print!("{text}");
    let _ = std::io::stdout().flush(); // a terminal that is gone ends the program at the next read
}

async fn answer(agent: &BasicAgent, prompt: &str) -> anyhow::Result<()> {
    let mut events = agent.prompt(prompt)?;
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => show(event.text_delta().unwrap_or_default()),
                None => break,
            },
            _ = tokio::signal::ctrl_c() => agent.abort(),
        }
    }
    if let Err(end) = events.end().await.into_reply() {
        print!("\n[{end}]"); // the conversation stays, and the next prompt continues it
    }
    println!();
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut agent = looptree_examples::agent(script())?;
    let mut lines = BufReader::new(stdin()).lines();
    loop {
        show("> ");
        let Some(line) = lines.next_line().await? else { return Ok(()) };
        match line.trim().split_once(' ').unwrap_or((line.trim(), "")) {
            ("", _) => {}
            ("/quit", _) => return Ok(()),
            ("/clear", _) => agent.reset().await,
            ("/model", name) => match looptree_examples::named(name) {
                Ok(model) => agent.set_model(model),
                Err(error) => println!("{error:#}"),
            },
            _ => answer(&agent, line.trim()).await?,
        }
    }
}
