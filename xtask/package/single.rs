//! A user's program that picks single crates under their library names.

use agent_core::testing::ScriptedProvider;
use agent_core::{BasicAgent, ModelConfig};
use agent_providers::ProviderRegistry;
use agent_session::JsonStore;
use agent_tools::Workspace;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _registry = ProviderRegistry::default();
    let _store = JsonStore::open(std::env::temp_dir().join("looptree-package-check"))?;
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(ScriptedProvider::texts(["It works."]))
        .with_tools(Workspace::open(".")?.tools());
    let answer = agent.chat("Does it work?").await?;
    assert_eq!(answer, "It works.");
    println!("single crates: {answer}");
    Ok(())
}
