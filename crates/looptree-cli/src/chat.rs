//! The chat: prompts, slash commands and runs, until the user ends it.

mod ask;
mod commands;
mod editor;
mod keys;
mod pager;
mod past;
mod travel;
mod turn;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use looptree::compat::SeedVerbs as _;
use looptree::prelude::*;
use looptree::session::Point;

use crate::exit::Exit;
use crate::screen::{Screen, Style, Styled};
use crate::settings::Settings;
use crate::setup::Setup;
use crate::text::chain;
use crate::work::{Meter, told_to_end};
use editor::{Editor, Entered};
use pager::Pager;
use turn::Ending;

/// The time that a run and then the chat have to end by themselves after a signal.
const GRACE: Duration = Duration::from_secs(2);

/// A conversation at a terminal.
struct Chat<'a> {
    setup: Setup,
    settings: &'a Settings,
    screen: &'a Screen,
    pager: Pager,
    /// Tokens and cost of this chat.
    meter: Meter,
    /// The point to which the agent was rewound.
    here: RefCell<Option<Point>>,
    /// Text that was typed during the last run and was not sent.
    draft: String,
    /// Set by a signal that ends the program.
    ending: Arc<AtomicBool>,
}

/// Runs the chat. It begins with `task`, if there is one.
pub(crate) async fn run(
    setup: Setup,
    settings: &Settings,
    task: Option<&str>,
    screen: &Screen,
) -> Result<Exit> {
    let ending = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&ending);
    let handle = setup.agent.handle();
    let servers = setup.servers.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                // In the chat Ctrl-C is a key. As a signal it is meant for a pager.
                pressed = tokio::signal::ctrl_c() => if pressed.is_err() {
                    told_to_end().await;
                    break;
                },
                () = told_to_end() => break,
            }
        }
        told.store(true, Ordering::Relaxed);
        handle.abort();
        let _ = tokio::time::timeout(GRACE, handle.wait_for_idle()).await;
        // A thread that reads a terminal that is gone does not return, so the program does not wait for it. What was
        // recorded is journaled.
        tokio::join!(tokio::time::sleep(GRACE), servers.close());
        std::process::exit(130);
    });
    let pager = Pager::find(settings, &setup.root);
    let mut chat = Chat {
        setup,
        pager,
        settings,
        screen,
        meter: Meter::default(),
        here: RefCell::default(),
        draft: String::new(),
        ending: Arc::clone(&ending),
    };
    let ended = chat.talk(task).await;
    let closed = chat.close().await;
    chat.setup.servers.close().await;
    closed?;
    ended
}

impl Chat<'_> {
    /// Closes the session, and shows how to continue it.
    async fn close(&mut self) -> Result<()> {
        let Self { setup, settings, screen, .. } = self;
        let session = setup.agent.session_id();
        let was_used = !setup.agent.history().is_empty();
        let recording = setup.recording.take();
        setup.recorder.close().await?;
        if let Some(recording) = recording {
            recording.save(screen)?;
        }
        if was_used {
            let id = session.as_str();
            let short = id.get(..8).unwrap_or(id);
            screen.paragraph(Style::Dim, "", format!("{} continues this session", settings.resume(short)));
        }
        Ok(())
    }

    async fn talk(&mut self, task: Option<&str>) -> Result<Exit> {
        self.greet();
        if self.setup.continues {
            past::show(&self.setup.agent.history(), self.screen);
        }
        let mut last = Ending::Well;
        if self.setup.agent.is_suspended() {
            self.screen.paragraph(Style::Dim, "", "the open run of this session continues");
            let events = self.setup.agent.resume();
            last = self.attempt(events).await?;
        }
        let mut editor = Editor::new(self.screen, Arc::clone(&self.ending));
        if let Some(task) = task {
            self.screen.line(self.screen.paint(Style::Bold, ">") + " " + Styled::prose(task));
            last = self.prompt(task).await?;
        }
        // A task that is recorded is the whole conversation.
        if self.setup.recording.is_some() {
            return Ok(if last == Ending::Well { Exit::Done } else { Exit::Failed });
        }
        let mut warned = false;
        loop {
            if last == Ending::Exit {
                return Ok(Exit::Interrupted);
            }
            if self.ending.load(Ordering::Relaxed) || self.screen.is_gone() {
                return Ok(Exit::Interrupted);
            }
            let draft = std::mem::take(&mut self.draft);
            match tokio::task::block_in_place(|| editor.line(&draft)) {
                Entered::End if self.ending.load(Ordering::Relaxed) => return Ok(Exit::Interrupted),
                Entered::End => return Ok(Exit::Done),
                Entered::Interrupt if warned => return Ok(Exit::Interrupted),
                Entered::Interrupt => {
                    warned = true;
                    self.screen.paragraph(Style::Dim, "", "Ctrl-C again or Ctrl-D ends the chat");
                    continue;
                }
                Entered::Nothing => {}
                Entered::Text(text) => match commands::parse(&text) {
                    None => last = self.prompt(&text).await?,
                    Some(command) => match self.command(command, &mut editor).await {
                        Ok(true) => {}
                        Ok(false) => return Ok(Exit::Done),
                        // An error of a command ends neither the program nor the conversation.
                        Err(error) => self.screen.paragraph(Style::Red, "", Styled::prose(&chain(&error))),
                    },
                },
            }
            warned = false;
        }
    }

    /// Sends a prompt and works until the run ends.
    async fn prompt(&mut self, text: &str) -> Result<Ending> {
        self.here.replace(None);
        let events = self.setup.agent.prompt(text);
        self.attempt(events).await
    }

    /// Follows a run that was started. If it could not start, shows the error and continues the chat.
    async fn attempt(&mut self, events: Result<looptree::EventReceiver, AgentError>) -> Result<Ending> {
        match events {
            Ok(events) => self.work(events).await,
            Err(error) => {
                self.screen.paragraph(Style::Red, "", format!("error: {error}"));
                Ok(Ending::Badly)
            }
        }
    }

    fn greet(&self) {
        let model = self.setup.agent.model();
        let screen = self.screen;
        screen.line(screen.paint(Style::Bold, format!("looptree {}", env!("CARGO_PKG_VERSION"))));
        screen.paragraph(Style::Plain, "", format!("model: {} ({})", model.name, model.provider));
        screen.paragraph(Style::Plain, "", format!("directory: {}", self.setup.root.display()));
        for note in &self.setup.notes {
            screen.paragraph(Style::Dim, "", note);
        }
        for failure in self.setup.servers.failures() {
            screen.paragraph(Style::Red, "", format!("warning: {failure}"));
        }
        screen.paragraph(Style::Dim, "", commands::asked_about(&self.setup.approvals));
        screen.paragraph(Style::Dim, "", "Type a task. /help lists the commands, Ctrl-D ends the chat.");
    }
}
