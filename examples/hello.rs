//! The smallest agent: a question and its answer.
//!
//! `cargo run -p looptree-examples --example hello` answers from a script. `-- --model anthropic/claude-sonnet-5-5` asks a
//! model; `docs/examples.md` lists the names and keys of all providers.
#![expect(clippy::print_stdout, reason = "a program that talks to the user")]

use looptree::testing::ScriptedProvider;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let script = ScriptedProvider::texts(["Hello. A script wrote this answer."]);
    let agent = looptree_examples::agent(script)?.with_system_prompt("Answer in one sentence.");

    let answer = agent.chat("Say hello.").await?;
    println!("{answer}");

    // The conversation stays in the agent, and the next prompt continues it.
    for message in agent.messages() {
        println!("  {}: {}", message.role(), message.text());
    }
    Ok(())
}
