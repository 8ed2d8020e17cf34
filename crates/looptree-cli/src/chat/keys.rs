//! The input during a run: a steering text, an answer, Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::{execute, terminal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::screen::Screen;

/// How often the thread looks whether it is still wanted.
const BEAT: Duration = Duration::from_millis(40);
/// How long the input must be silent until everything that was typed ahead is discarded.
const QUIET: Duration = Duration::from_millis(60);

/// What a key did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// The text has changed.
    Changed,
    /// Enter, with the text before it, and whether a part of it was pasted.
    Line(String, Source),
    /// Ctrl-C on an empty line.
    Interrupt,
    /// Esc on an empty line, which interrupts a run and never ends the program.
    Stop,
    Other,
}

/// How a line was entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// Key by key.
    Typed,
    /// A part of it was pasted, so that it may be what another program has put into the clipboard.
    Pasted,
}

/// The keyboard during a run. The terminal is in raw mode until this is dropped.
pub(super) struct Keys {
    events: UnboundedReceiver<Event>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    screen: Screen,
    pub(super) text: String,
    /// Whether a part of the text was pasted.
    pasted: bool,
}

impl Keys {
    pub(super) fn open(screen: &Screen) -> std::io::Result<Self> {
        let (_, events) = unbounded_channel();
        let mut this = Self {
            events,
            stop: Arc::default(),
            thread: None,
            screen: screen.clone(),
            text: String::new(),
            pasted: false,
        };
        this.start()?;
        Ok(this)
    }

    fn start(&mut self) -> std::io::Result<()> {
        terminal::enable_raw_mode()?;
        self.screen.set_raw(true);
        // A terminal without it pastes line by line.
        let _ = execute!(std::io::stdout(), event::EnableBracketedPaste);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (tell, events) = unbounded_channel();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                match event::poll(BEAT) {
                    Ok(false) => {}
                    Ok(true) => {
                        let Ok(event) = event::read() else { return };
                        if tell.send(event).is_err() {
                            return;
                        }
                    }
                    Err(_) => return,
                }
            }
        });
        (self.events, self.stop, self.thread) = (events, stop, Some(thread));
        Ok(())
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It must not read what another reader shall read.
            let _ = thread.join();
        }
        let _ = execute!(std::io::stdout(), event::DisableBracketedPaste);
        let _ = terminal::disable_raw_mode();
        self.screen.set_raw(false);
    }

    /// Ends, and returns what was typed and not sent.
    pub(super) fn finish(mut self) -> String {
        self.end();
        while let Ok(event) = self.events.try_recv() {
            if let Typed::Line(text, _) = self.apply(event) {
                self.text = text + "\n";
            }
        }
        std::mem::take(&mut self.text).trim_end_matches('\n').to_owned()
    }

    /// Gives the terminal to another program, such as a pager.
    pub(super) fn paused<T>(&mut self, act: impl FnOnce() -> T) -> std::io::Result<T> {
        self.end();
        let screen = self.screen.clone();
        let done = screen.without_status(act);
        self.start()?;
        Ok(done)
    }

    /// Waits for a key, and applies it to the text.
    pub(super) async fn next(&mut self) -> Typed {
        let Some(event) = self.events.recv().await else { return std::future::pending().await };
        self.apply(event)
    }

    /// Discards input that was typed before the question was visible, so that a pasted line does not answer it.
    pub(super) async fn forget(&mut self) {
        while let Ok(Some(_)) = tokio::time::timeout(QUIET, self.events.recv()).await {}
        self.clear();
    }

    fn clear(&mut self) {
        self.text.clear();
        self.pasted = false;
    }

    fn apply(&mut self, event: Event) -> Typed {
        match event {
            Event::Paste(text) => {
                self.pasted = true;
                self.text.push_str(&text.replace("\r\n", "\n").replace('\r', "\n"));
                Typed::Changed
            }
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(key),
            _ => Typed::Other,
        }
    }

    fn key(&mut self, key: KeyEvent) -> Typed {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control && self.text.is_empty() => Typed::Interrupt,
            KeyCode::Esc if self.text.is_empty() => Typed::Stop,
            KeyCode::Char('c' | 'u') if control => self.emptied(),
            KeyCode::Esc => self.emptied(),
            KeyCode::Char('w') if control => {
                let end = self.text.trim_end().rfind(char::is_whitespace).map_or(0, |at| at + 1);
                self.text.truncate(end);
                Typed::Changed
            }
            KeyCode::Char('j') if control => {
                self.text.push('\n');
                Typed::Changed
            }
            KeyCode::Char(_) if control => Typed::Other,
            KeyCode::Enter if key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT) => {
                self.text.push('\n');
                Typed::Changed
            }
            KeyCode::Enter => self.enter(),
            KeyCode::Backspace => {
                self.text.pop();
                Typed::Changed
            }
            KeyCode::Char(c) => {
                self.text.push(c);
                Typed::Changed
            }
            _ => Typed::Other,
        }
    }

    fn emptied(&mut self) -> Typed {
        self.clear();
        Typed::Changed
    }

    fn enter(&mut self) -> Typed {
        let source = if std::mem::take(&mut self.pasted) { Source::Pasted } else { Source::Typed };
        Typed::Line(std::mem::take(&mut self.text), source)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.end();
    }
}
