//! What happens without any model: a recording repairs a small project. Loop, tools, files and session are real.

mod project;
mod recording;

use std::process::{ExitCode, Stdio};

use anyhow::{Context as _, Result};
use looptree::BasicAgent;
use looptree::prelude::*;

use crate::args::Args;
use crate::choose::three_ways;
use crate::keyboard::Keyboard;
use crate::render::Screen;
use crate::talk::{self, Asking, Ending};
use crate::travel::sessions_of;

/// The provider's name of the recording.
pub(crate) const RECORDING: &str = "recording";

const TASK: &str = "The tests of this project fail. Find out why, repair it, and check the repair.";

pub(crate) async fn run(args: &Args, screen: &Screen) -> Result<ExitCode> {
    if !has_cargo().await {
        screen.line(
            "The demonstration runs `cargo test` in a project that it writes, and there is no cargo on PATH.",
        );
        screen.line(&three_ways());
        return Ok(ExitCode::FAILURE);
    }
    screen.line("No API key and no local model server were found. This is a recorded demo: the model's replies are scripted;");
    screen.line("the tools, the files, the tests and the session are real.");
    let root = project::write()?;
    screen.line(&format!("project: {}", root.display()));
    let before = project::tests_pass(&root).await?;
    screen.line(&format!("`cargo test` there {} now", if before { "passes" } else { "fails" }));
    screen.line(&format!("> {TASK}"));

    let workspace = Workspace::open(&root)?;
    let (shell, held) = crate::sandbox::shell(args, &workspace).await?;
    screen.line(&held);
    let mut agent = BasicAgent::new(recording::model())
        .with_provider(recording::Recording)
        .with_system_prompt(crate::SYSTEM_PROMPT)
        .with_tools(CodingTools::new(workspace).with_bash(shell).tools());
    let store = JsonStore::open(sessions_of(args, &root)?)?;
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    let ending = talk::turn(&agent, TASK, Asking::Here, screen, &mut Keyboard::open()).await?;
    screen.line("usage: 0 tokens, 0 dollars: a recording uses none");
    let sessions = recorder.save().await?;

    let repaired = project::tests_pass(&root).await?;
    screen.line(&format!("`cargo test` there {} now", if repaired { "passes" } else { "still fails" }));
    for id in sessions {
        screen.line(&format!("session: {}", store.path_of(&id)?.display()));
    }
    screen.line(&three_ways());
    Ok(if ending == Ending::Well && repaired { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn has_cargo() -> bool {
    let asked = tokio::process::Command::new("cargo")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.await.is_ok_and(|status| status.success())
}

/// Runs a project's tests, quietly.
pub(crate) async fn cargo_test(root: &std::path::Path) -> Result<bool> {
    let mut command = tokio::process::Command::new("cargo");
    command.args(["test", "--offline", "--quiet"]).current_dir(root);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command.status().await.context("cannot run cargo test")?.success())
}
