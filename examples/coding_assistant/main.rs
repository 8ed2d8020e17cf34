//! A coding assistant in a terminal.
//!
//! `cargo run --example coding_assistant -- [--provider P] [--model M] [--base-url U] [--cwd DIR] [--sandbox S] [--budget MONEY]
//! [--yes | --wait] [--resume SESSION] [--record FILE] ["task"]`, `coding_assistant --pending`,
//! `coding_assistant --answer SESSION yes|no` and `coding_assistant --replay FILE`
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
mod pending;
mod render;
mod sandbox;
mod talk;
mod tape;
mod travel;

use looptree::compat::SeedVerbs as _;
use std::cell::RefCell;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use looptree::prelude::*;

use args::Args;
use choose::Chosen;
use keyboard::{Keyboard, Pressed};
use looptree::session::FileWatch;
use render::Screen;
use talk::{Asking, Ending};
use tape::Tape;
use travel::{Travel, sessions_of};

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
            eprintln!("error: {}", chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// Joins the messages of an error and its causes. A cause whose text the message already ends with is not repeated.
fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

async fn run(args: Args) -> Result<ExitCode> {
    let screen = Screen::new();
    if args.pending {
        return pending::list(&args, &directory(&args)?, &screen).await;
    }
    if let Some((session, words)) = &args.answer {
        return pending::answer(&args, &directory(&args)?, session, words, &screen).await;
    }
    if let Some(file) = &args.replay {
        return tape::replay(file, &screen).await;
    }
    match choose::choose(&args).await? {
        Chosen::Recording => demo::run(&args, &screen).await,
        Chosen::Model(model) => assist(&args, *model, &screen).await,
    }
}

fn directory(args: &Args) -> Result<PathBuf> {
    args.cwd.canonicalize().with_context(|| format!("cannot open the directory {}", args.cwd.display()))
}

/// Works with a real model: one task, or a prompt loop.
async fn assist(args: &Args, model: ModelConfig, screen: &Screen) -> Result<ExitCode> {
    let root = directory(args)?;
    screen.line(&format!("model: {} ({})", model.name, model.provider));
    screen.line(&format!("directory: {}", root.display()));
    let workspace = Workspace::open(&root)?;
    let (shell, held) = sandbox::shell(args, &workspace).await?;
    screen.line(&held);
    let mode = approval::Mode::of(args);
    let asking = if args.wait { Asking::Later } else { Asking::Here };
    let watch = FileWatch::new(&root);
    let mut agent = looptree::agent(model)
        .with_system_prompt(SYSTEM_PROMPT)
        .with_tools(CodingTools::new(workspace).with_bash(shell).tools())
        .with_hooks(watch.hooks(approval::hooks(mode)))
        .with_budget(money::budget(args, money::at_limit()));
    let tape = Tape::of(args, mode, &agent.model());
    if let Some(tape) = &tape {
        agent = tape.attach(agent);
    }
    let store = JsonStore::open(sessions_of(args, &root)?)?;
    let recorder = if let Some(id) = &args.resume {
        let session =
            store.load_session(id.as_str()).with_context(|| format!("cannot resume the session {id}"))?;
        if let Some(end) = session.end_point() {
            watch.adopt(&session.files_at(&end)?);
        }
        let recorder;
        (agent, recorder) = agent.restore_session(store.clone(), id.as_str()).await?;
        screen.line(&format!("session: {id}, {} messages", agent.messages().len()));
        recorder
    } else {
        SessionRecorder::attach(&mut agent, store.clone())
    };
    let mut keyboard = Keyboard::open();
    let mut ending = Ending::Well;
    if agent.is_suspended() {
        ending = talk::go_on(&agent, agent.resume()?, asking, screen, &mut keyboard).await?;
    }
    if ending != Ending::Waits {
        match &args.task {
            Some(task) => ending = talk::turn(&agent, task, asking, screen, &mut keyboard).await?,
            // Without a terminal and a task, a resumed session ends with its open run.
            None if args.resume.is_some() && !std::io::stdin().is_terminal() => {}
            None => {
                let travel = Travel {
                    agent: &agent,
                    recorder: &recorder,
                    store: &store,
                    watch: &watch,
                    root,
                    screen,
                    here: RefCell::default(),
                };
                ending = prompt_loop(&travel, asking, &mut keyboard).await?;
            }
        }
    }
    for id in recorder.close().await? {
        screen.line(&format!("session: {}", store.path_of(&id)?.display()));
    }
    if let Some(tape) = tape {
        tape.save(&keyboard, screen)?;
    }
    if ending == Ending::Waits
        && let Some(run) = store.load_session(agent.session_id().as_str())?.unfinished()?
    {
        pending::show(&run, screen);
    }
    // As a program ends that writes into a closed pipe.
    if screen.is_gone() {
        return Ok(ExitCode::from(141));
    }
    Ok(match ending {
        Ending::Well => ExitCode::SUCCESS,
        Ending::Badly => ExitCode::FAILURE,
        Ending::Waits => ExitCode::from(pending::WAITS),
    })
}

async fn prompt_loop(travel: &Travel<'_>, asking: Asking, keyboard: &mut Keyboard) -> Result<Ending> {
    let (agent, screen) = (travel.agent, travel.screen);
    screen.line("Type a task. /help names the commands, /quit ends. Ctrl-C aborts a run.");
    loop {
        screen.prompt();
        let Pressed::Line(line) = keyboard.line().await else {
            screen.line("");
            return Ok(Ending::Well);
        };
        match line.trim() {
            "/quit" => return Ok(Ending::Well),
            "" => {}
            "/clear" => agent.clear_messages()?,
            line => match travel.command(line).await {
                Ok(true) => {}
                // What went wrong with a command ends neither the program nor the conversation.
                Err(error) => screen.line(&format!("{error:#}")),
                Ok(false) => {
                    travel.arrive_at_the_end();
                    if talk::turn(agent, line, asking, screen, keyboard).await? == Ending::Waits {
                        return Ok(Ending::Waits);
                    }
                }
            },
        }
    }
}
