//! A user's program that picks single crates under their library names.

use agent_core::testing::ScriptedProvider;
use agent_core::{BasicAgent, ModelConfig, RunEnd};
use agent_providers::ProviderRegistry;
use agent_session::{JsonStore, SessionRecorder};
use agent_tools::Workspace;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _registry = ProviderRegistry::default();
    let folder = std::env::temp_dir().join(format!("looptree-package-check-{}", std::process::id()));
    let store = JsonStore::open(&folder)?;
    let mut agent = BasicAgent::new(ModelConfig::default())
        .with_provider(ScriptedProvider::texts(["It works."]))
        .with_tools(Workspace::open(".")?.tools());
    let recorder = SessionRecorder::attach(&mut agent, store);
    agent.prompt("Does it work?")?.collect().await;
    let Some(RunEnd::Completed(reply)) = agent.finish().await else { return Err("the run did not complete".into()) };
    let answer = reply.text();
    assert_eq!(answer, "It works.");
    assert_eq!(recorder.close().await?.len(), 1);
    std::fs::remove_dir_all(folder)?;
    println!("single crates: {answer}");
    Ok(())
}
