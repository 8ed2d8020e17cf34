//! A coding assistant in a terminal.
//!
//! `cargo run --example coding_assistant -- [--provider P] [--model M] [--base-url U] [--cwd DIR] [--sandbox S] [--budget MONEY] [--yes] ["task"]`
//!
//! The model is found in this order: the flags, keys in the environment, an Ollama server on this machine; else a
//! recording that is built in repairs a small project in a new directory, with the real loop, tools, files and session.
#![expect(
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a program that talks to a person and reads its own environment"
)]

mod approval;
mod args;
mod choose;
mod demo;
mod keyboard;
mod money;
mod ollama_server;
mod render;
mod sandbox;
mod talk;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use looptree::prelude::*;

use args::Args;
use choose::Chosen;
use keyboard::{Keyboard, Pressed};
use render::Screen;

const SYSTEM_PROMPT: &str = "You are a careful software engineer working in the user's directory through tools. Look before \
you change anything, make the smallest change that solves the task, and check it by running the project's own tests. \
Finish with a short report of what you changed and how you checked it.";

#[tokio::main]
async fn main() -> ExitCode {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let args = match Args::parse(words) {
        Ok(Some(args)) => args,
        Ok(None) => {
            Screen::new().line(args::HELP);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{error}\n\n{}", args::HELP);
            return ExitCode::from(2);
        }
    };
    match run(args).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<ExitCode> {
    let screen = Screen::new();
    match choose::choose(&args).await? {
        Chosen::Recording => demo::run(&args, &screen).await,
        Chosen::Model(model) => assist(&args, *model, &screen).await,
    }
}

/// Works with a real model: one task, or a prompt loop.
async fn assist(args: &Args, model: ModelConfig, screen: &Screen) -> Result<ExitCode> {
    let root = args
        .cwd
        .canonicalize()
        .with_context(|| format!("cannot open the directory {}", args.cwd.display()))?;
    screen.line(&format!("model: {} ({})", model.name, model.provider));
    screen.line(&format!("directory: {}", root.display()));
    let workspace = Workspace::open(&root)?;
    let (shell, held) = sandbox::shell(args, &workspace).await?;
    screen.line(&held);
    let approval = if args.yes { approval::Mode::Everything } else { approval::Mode::AskForBash };
    let agent = looptree::agent(model)
        .with_system_prompt(SYSTEM_PROMPT)
        .with_tools(Toolset::new(workspace).with_bash(shell).tools())
        .with_hooks(approval::hooks(approval));
    let agent = agent.with_budget(money::budget(args));
    let sessions = root.join(".looptree").join("sessions");
    let recorder = SessionRecorder::attach(&agent, JsonStore::open(&sessions)?);
    let mut keyboard = Keyboard::open();
    let mut code = ExitCode::SUCCESS;
    match &args.task {
        Some(task) => {
            if !talk::turn(&agent, task, screen, &mut keyboard).await? {
                code = ExitCode::FAILURE;
            }
        }
        None => prompt_loop(&agent, screen, &mut keyboard).await?,
    }
    for file in recorder.save()? {
        screen.line(&format!("session: {}", file.display()));
    }
    // As a program ends that writes into a closed pipe.
    Ok(if screen.is_gone() { ExitCode::from(141) } else { code })
}

async fn prompt_loop(agent: &BasicAgent, screen: &Screen, keyboard: &mut Keyboard) -> Result<()> {
    screen.line("Type a task. /clear forgets the conversation, /quit ends. Ctrl-C aborts a run.");
    loop {
        screen.prompt();
        let Pressed::Line(line) = keyboard.line().await else {
            screen.line("");
            return Ok(());
        };
        match line.trim() {
            "/quit" => return Ok(()),
            "" => {}
            "/clear" => agent.clear_messages()?,
            task => {
                talk::turn(agent, task, screen, keyboard).await?;
            }
        }
    }
}
