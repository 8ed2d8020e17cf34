//! What `docs/tools/skills.md` tells a newcomer to do.
#![cfg(feature = "skills")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails loudly")]

use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::{BasicAgent, Message, ModelConfig};
use agent_tools::{SkillSet, WithSkills as _, Workspace};
use serde_json::json;

/// REQ-176. The file of the page's first step is written, loaded, told of, and read by the model.
#[tokio::test]
async fn who_does_what_the_page_says_has_an_agent_that_uses_the_skill() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tools/skills.md");
    let page = std::fs::read_to_string(page).unwrap();
    let started = page.split_once("\n## Getting started\n").unwrap().1.split("\n## ").next().unwrap();
    let block = started.split_once("```console\n").unwrap().1.split_once("```").unwrap().0;
    let (command, file) = block.split_once('\n').unwrap();
    let path = command.rsplit_once("cat > ").unwrap().1;

    let home = tempfile::tempdir().unwrap();
    let place = home.path().join(path);
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::fs::write(&place, file).unwrap();

    let skills = SkillSet::load([home.path().join("skills"), home.path().join("not/there")]);
    assert!(skills.notes().is_empty(), "{:?}", skills.notes());
    let skill = skills.iter().next().unwrap();
    let model = ScriptedProvider::new([
        ScriptedReply::call("1", "skill", json!({"name": skill.name()})),
        ScriptedReply::text("Done."),
    ]);
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(model.clone())
        .with_tools(Workspace::open(home.path()).unwrap().tools())
        .with_skills(&skills);
    agent.prompt("Make a release.").unwrap().collect().await;
    let told = &model.requests()[0];
    assert!(told.system_prompt.contains(skill.description()), "{}", told.system_prompt);
    let instructions = file.rsplit_once("---\n").unwrap().1.trim();
    let read = agent.messages().iter().any(|message| {
        message.as_llm().is_some_and(|m| {
            matches!(m, Message::ToolResult(r) if !r.is_error) && m.text().contains(instructions)
        })
    });
    assert!(read, "{:?}", agent.messages());
}
