//! The demo without a model: a recording repairs a small project. The loop, tools, files and session are real.

mod project;
mod recording;

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use looptree::BasicAgent;
use looptree::event::Ended;
use looptree::prelude::*;
use looptree::tools::program::{Program, SearchPath};

use crate::choose::three_ways;
use crate::exit::Exit;
use crate::programs::search_path;
use crate::screen::{Screen, Style, Styled};
use crate::servers::Servers;
use crate::settings::Settings;
use crate::setup::{SYSTEM_PROMPT, sessions_of};
use crate::work::{Events, Interrupts, Meter, watch};

/// The provider's name of the recording.
pub(crate) const RECORDING: &str = "recording";

const TASK: &str = "The tests of this project fail. Find out why, repair it, and check the repair.";

/// Plays the recording in a new directory.
pub(crate) async fn run(settings: &Settings, screen: &Screen) -> Result<Exit> {
    let cargo = match Cargo::find(settings).await {
        Ok(cargo) => cargo,
        Err(reason) => {
            screen.line(format!("The demo runs `cargo test` in a project that it writes, and {reason}."));
            screen.line(Styled::prose(&three_ways()));
            return Ok(Exit::Failed);
        }
    };
    screen.paragraph(
        Style::Plain,
        "",
        "This is a recorded demo, as no API key and no local model server were found: the model's replies are scripted; the tools, \
         the files, the tests and the session are real.",
    );
    let root = project::write()?;
    screen.line(format!("project: {}", root.display()));
    let before = cargo.test(&root).await?;
    screen.line(format!("`cargo test` there {} now", if before { "passes" } else { "fails" }));
    screen.line(format!("> {TASK}"));

    let workspace = Workspace::open(&root)?;
    let (shell, held) = crate::sandbox::shell(settings, &workspace).await?;
    screen.line(Styled::prose(&held));
    let shell = shell.with_env(TARGET, target_of(&root));
    let mut agent = BasicAgent::new(recording::model())
        .with_provider(recording::Recording)
        .with_system_prompt(SYSTEM_PROMPT)
        .with_tools(CodingTools::new(workspace).with_bash(shell).tools());
    let store = JsonStore::open(sessions_of(settings, &root)?)?;
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    let mut interrupts = Interrupts::open(Servers::default());
    let running = screen.running();
    let handle = agent.handle();
    let events = handle.prompt(TASK)?;
    let watched = watch(&handle, events, Events::Shown, screen, &mut interrupts, &mut Meter::default()).await;
    drop(running);
    screen.line("usage: 0 tokens, 0 dollars: a recording uses none");
    let sessions = recorder.save().await?;

    let repaired = cargo.test(&root).await?;
    screen.line(format!("`cargo test` there {} now", if repaired { "passes" } else { "still fails" }));
    for id in sessions {
        screen.line(format!("session: {}", store.path_of(&id)?.display()));
    }
    screen.line(Styled::prose(&three_ways()));
    if watched.interrupted {
        return Ok(if screen.is_gone() { Exit::Unread } else { Exit::Interrupted });
    }
    Ok(if watched.ended == Some(Ended::Completed) && repaired { Exit::Done } else { Exit::Failed })
}

/// The variable with the folder in which cargo builds. A folder that others use could be locked for a long time.
const TARGET: &str = "CARGO_TARGET_DIR";

fn target_of(root: &Path) -> std::path::PathBuf {
    root.join("target")
}

/// The compiler's `cargo`, which is found before the recording plays.
struct Cargo {
    program: Program,
    search: SearchPath,
}

impl Cargo {
    /// Finds cargo, and returns why it cannot be used.
    async fn find(settings: &Settings) -> Result<Self, String> {
        let here = std::env::current_dir().unwrap_or_default();
        let search = search_path(settings, &here);
        let program = search.find("cargo").map_err(|error| error.to_string())?;
        let cargo = Self { program, search };
        let asked = async { cargo.command()?.arg("--version").output().await };
        match asked.await {
            Ok(said) if said.status.success() => Ok(cargo),
            Ok(said) => {
                let reason = String::from_utf8_lossy(&said.stderr);
                let reason = reason.lines().next().unwrap_or("it prints no reason");
                Err(format!("`cargo --version` fails: {}", reason.trim_end_matches('.')))
            }
            Err(error) => Err(format!("cargo cannot be started: {error}")),
        }
    }

    fn command(&self) -> std::io::Result<tokio::process::Command> {
        let mut command = tokio::process::Command::from(self.program.command()?);
        command.env("PATH", self.search.variable()).stdin(Stdio::null());
        Ok(command)
    }

    /// Runs a project's tests, quietly. Returns whether they pass.
    async fn test(&self, root: &Path) -> Result<bool> {
        let mut command = self.command().context("cannot run cargo test")?;
        command.args(["test", "--offline", "--quiet"]).current_dir(root).env(TARGET, target_of(root));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command.status().await.context("cannot run cargo test")?.success())
    }
}
