//! A user's program that depends on `looptree` only.

use looptree::prelude::*;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let agent = looptree::agent(ModelConfig::anthropic("claude-sonnet-4-6", "Claude Sonnet", "no key"))
        .with_system_prompt("You are a careful engineer.")
        .with_tools(Workspace::open(".")?.tools());
    let toy = agent.with_model(ModelConfig::custom("toy", "acme", "toy-1")?);
    drop(toy);
    println!("looptree: built from its package");
    Ok(())
}
