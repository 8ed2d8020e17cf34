//! Two branches in folders of their own, a judge, and the winner's files.
//!
//! `cargo run -p looptree-examples --example branches` answers from a script. `-- --model anthropic/claude-sonnet-5-5` asks a
//! model; `docs/examples.md` lists the names and keys of all providers.
#![expect(clippy::print_stdout, reason = "a program that talks to a person")]

mod script;

use looptree::evaluation::LlmJudgeEvaluation;
use looptree::tools::BranchWorkspaces;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use looptree::prelude::*;
use looptree::session::JsonStore;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let project = tempfile::tempdir()?;
    std::fs::write(project.path().join("greeting.txt"), "Hello\n")?;
    let sessions = tempfile::tempdir()?;
    let store = JsonStore::open(sessions.path())?;

    let model = looptree_examples::model()?;
    let is_scripted = model.is_none();
    let mut agent =
        looptree::agent(model.unwrap_or_default()).with_system_prompt("You are a careful editor.");
    let recorder = SessionRecorder::attach(&mut agent, store.clone());

    // Each branch has a folder, tools that stay in it, and a model.
    let folders = BranchWorkspaces::copies_of(project.path())?.open_many(2).await?;
    let texts = ["Hello.\n", "Hello, world!\n"];
    let branches: Vec<BranchSpec> = folders
        .iter()
        .zip(texts)
        .map(|(folder, text)| {
            let script = Arc::new(script::Editor::new(text));
            BranchSpec::asking("Make the greeting in greeting.txt friendlier.")
                .with_tools(folder.tools(Workspace::tools))
                .configure(move |config| {
                    if is_scripted {
                        config.services.provider = script;
                    }
                })
        })
        .collect();

    // A model compares the two answers.
    let mut judge = agent.config();
    if is_scripted {
        judge.services.provider = Arc::new(script::Judge);
    }

    let (tx, mut events) = looptree::event_channel();
    let watch = async {
        while let Some(event) = events.recv().await {
            show(&event);
        }
    };
    let run = agent.explore_and_adopt(branches, LlmJudgeEvaluation::new(judge), tx);
    let (result, ()) = tokio::join!(run, watch);
    let result = result?;

    let folder = folders.get(result.selected_index()).context("the selected branch has a folder")?;
    for change in folder.take_over().await? {
        println!("taken over: {:?} {}", change.kind, change.path.display());
    }
    println!("greeting.txt: {}", std::fs::read_to_string(project.path().join("greeting.txt"))?.trim_end());
    println!(
        "tokens: {} in branches, {} for the judge",
        result.usage.branches.total_tokens, result.usage.evaluation.total_tokens
    );

    recorder.close().await?;
    for record in &store.load_session(agent.session_id())?.loops {
        let selected = record.parallel_group.as_ref().is_some_and(|g| g.is_selected);
        println!("{:?}{} {}", record.status, if selected { ", selected" } else { "" }, record.loop_id);
    }
    Ok(())
}

/// One line for what matters.
fn show(event: &AgentEvent) {
    match event {
        AgentEvent::ParallelLoopStart(start) => println!("{} branches begin", start.loop_ids.len()),
        AgentEvent::ToolExecutionEnd(end) => println!("{}: {} ended", end.loop_id, end.tool_name),
        AgentEvent::AgentEnd(end) => println!("{}: {:?}", end.loop_id, end.ended),
        AgentEvent::ParallelLoopEnd(end) => println!("selected: {:?}", end.selected_config_index),
        _ => {}
    }
}
