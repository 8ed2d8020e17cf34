//! A front desk with two specialists: tasks that are delegated to both at once, an approval that one of them needs, and a
//! hand-off of the conversation to one of them.
//!
//! `cargo run -p looptree-examples --example specialists` answers from a script. `-- --model anthropic/claude-sonnet-5-5` asks
//! a model; `docs/examples.md` lists the names and keys of all providers. The guide `docs/guides/multi-agent.md` explains it.
#![expect(clippy::print_stdout, reason = "a program that talks to the user")]

mod board;
mod roles;
mod script;

use anyhow::{Context as _, Result, bail};
use looptree::prelude::*;
use looptree::session::JsonStore;

use board::Board;
use roles::Role;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let sessions = tempfile::tempdir()?;
    let mut desk = Role::Desk.play(looptree_examples::agent(script::provider())?);
    let recorder = SessionRecorder::attach(&mut desk, JsonStore::open(sessions.path())?);
    let mut board = Board::default();

    for prompt in
        ["Invoice 17 was charged twice, and where is my parcel?", "I want to talk to billing.", "Thank you."]
    {
        println!("user: {prompt}");
        let mut events = desk.prompt(prompt)?;
        loop {
            let mut next = None;
            while let Some(event) = events.recv_numbered().await {
                board.show(&event);
                next = next.or(roles::handed_over(&event.event));
            }
            match (events.end().await, next) {
                // An agent of the tree waits for an approval. This program approves everything.
                (RunEnd::Suspended(questions), _) => {
                    let question = questions.first().context("a suspended run has a question")?;
                    println!("approved: {}", question.text);
                    events = desk.answer(question.id.clone(), Answer::Allow)?;
                }
                // The other agent continues the same conversation.
                (_, Some(role)) => {
                    role.take_over(&mut desk);
                    events = desk.continue_run()?;
                }
                (RunEnd::Completed(reply), None) => {
                    println!("{}: {}", board.speaker(), reply.text());
                    break;
                }
                (end, None) => bail!("the run ended otherwise: {end:?}"),
            }
        }
    }
    recorder.close().await?;
    Ok(())
}
