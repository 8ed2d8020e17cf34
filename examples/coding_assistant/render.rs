//! Events on a terminal.

use looptree::Question;
use looptree::event::{Ended, printable};
use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use looptree::prelude::*;
use tokio::task::JoinHandle;

const DIM: &str = "\x1b[2m";
const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[31m";
const RESET: &str = "\x1b[0m";
/// The silence after which the spinner shows the elapsed time.
const SILENT: Duration = Duration::from_secs(5);
const FRAMES: &[char] = &['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// Characters of arguments and results that one line shows.
const SHOWN: usize = 100;
/// Lines of a result that are shown.
const RESULT_LINES: usize = 4;

/// What is being written just now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// The cursor is at the start of a line.
    Nothing,
    Text,
    Thinking,
}

struct State {
    flow: Flow,
    /// Whether the spinner may be drawn.
    waiting: bool,
    spinner_drawn: bool,
    /// When something was last shown.
    shown: Instant,
}

/// The terminal. A clone writes to the same one.
#[derive(Clone)]
pub(crate) struct Screen {
    state: Arc<Mutex<State>>,
    gone: Arc<AtomicBool>,
    colours: bool,
    live: bool,
}

/// Stops the spinner when dropped.
pub(crate) struct Spinner(JoinHandle<()>, Screen);

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.abort();
        let mut state = self.1.state();
        state.waiting = false;
        self.1.clear_spinner(&mut state);
    }
}

impl Screen {
    pub(crate) fn new() -> Self {
        let terminal = std::io::stdout().is_terminal();
        let state =
            State { flow: Flow::Nothing, waiting: false, spinner_drawn: false, shown: Instant::now() };
        Self {
            state: Arc::new(Mutex::new(state)),
            gone: Arc::default(),
            colours: terminal && std::env::var_os("NO_COLOR").is_none(),
            live: terminal,
        }
    }

    /// Returns whether the output has no reader left: the pipe was closed, or the disk is full.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    fn put(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            self.gone.store(true, Ordering::Relaxed);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn paint(&self, style: &str, text: &str) -> String {
        if self.colours { format!("{style}{text}{RESET}") } else { text.to_owned() }
    }

    /// A line of the program's own.
    pub(crate) fn line(&self, text: &str) {
        let mut state = self.state();
        self.break_flow(&mut state);
        self.put(&format!("{text}\n"));
    }

    /// The sign that a task may be typed.
    pub(crate) fn prompt(&self) {
        let mut state = self.state();
        self.break_flow(&mut state);
        self.put(&format!("{} ", self.paint(BOLD, ">")));
    }

    /// Asks yes or no, and shows a call whole.
    pub(crate) fn ask(&self, question: &Question) {
        let mut state = self.state();
        self.break_flow(&mut state);
        self.put(&format!("{}\n  Allow it? [y/N] ", self.paint(BOLD, &shown(question))));
    }

    /// Asks for more than yes or no.
    pub(crate) fn ask_for(&self, question: &str) {
        let mut state = self.state();
        self.break_flow(&mut state);
        self.put(&format!("  {}: ", self.paint(BOLD, &plain(question).replace('\n', "\\n"))));
    }

    /// Draws a spinner while nothing else is written, until what it gives is dropped.
    pub(crate) fn spin(&self) -> Spinner {
        let screen = self.clone();
        {
            let mut state = screen.state();
            (state.waiting, state.shown) = (true, Instant::now());
        }
        let task = tokio::spawn(async move {
            let mut beat = tokio::time::interval(Duration::from_millis(100));
            for frame in FRAMES.iter().cycle() {
                beat.tick().await;
                let mut state = screen.state();
                if screen.live && state.waiting && state.flow == Flow::Nothing {
                    let silent = state.shown.elapsed();
                    let words = if silent < SILENT {
                        String::new()
                    } else {
                        format!("{} s; Ctrl-C aborts ", silent.as_secs())
                    };
                    screen.put(&format!("\r{frame} {words}"));
                    state.spinner_drawn = true;
                }
            }
        });
        Spinner(task, self.clone())
    }

    fn clear_spinner(&self, state: &mut State) {
        if std::mem::take(&mut state.spinner_drawn) {
            self.put("\r\x1b[K");
        }
    }

    fn break_flow(&self, state: &mut State) {
        state.shown = Instant::now();
        self.clear_spinner(state);
        if state.flow != Flow::Nothing {
            self.put(if self.colours && state.flow == Flow::Thinking { "\x1b[0m\n" } else { "\n" });
            state.flow = Flow::Nothing;
        }
    }

    fn flow(&self, kind: Flow, text: &str) {
        let mut state = self.state();
        if state.flow != kind {
            self.break_flow(&mut state);
            if kind == Flow::Thinking && self.colours {
                self.put(DIM);
            }
            state.flow = kind;
        }
        self.put(&plain(text));
    }

    /// Shows an event.
    pub(crate) fn show(&self, event: &AgentEvent) {
        match event {
            AgentEvent::MessageUpdate { delta: StreamDelta::Text { text: delta }, .. } => {
                self.flow(Flow::Text, delta)
            }
            AgentEvent::MessageUpdate { delta: StreamDelta::Thinking { text: delta }, .. } => {
                self.flow(Flow::Thinking, delta)
            }
            AgentEvent::MessageEnd { .. } => {
                let mut state = self.state();
                self.break_flow(&mut state);
            }
            AgentEvent::ToolExecutionStart { tool_name, args, .. } => {
                let call = format!(
                    "{} {}",
                    self.paint(BOLD, &plain(tool_name.as_str())),
                    cut(&plain(&one_line(args.json_text())))
                );
                self.line(&format!("• {call}"));
            }
            AgentEvent::ToolExecutionEnd(end) => self.result(&end.result.to_text(), end.is_error),
            AgentEvent::RetryStart(retry) => {
                let error = cut(&one_line(&plain(retry.error.as_deref().unwrap_or_default())));
                let text = format!(
                    "{error}; trying again in {} ms ({}/{})",
                    retry.delay_ms, retry.attempt, retry.max_attempts
                );
                self.line(&self.paint(DIM, &text));
            }
            AgentEvent::RouteChanged(change) => {
                let error = cut(&one_line(&plain(&change.error)));
                self.line(&self.paint(DIM, &format!("{error}; asking {} now", plain(&change.to.model))));
            }
            AgentEvent::CompactionEnded(end) => {
                let (before, after) = (end.estimated_tokens_before, end.estimated_tokens_after);
                self.line(&self.paint(DIM, &format!("conversation shortened: {before} -> {after} tokens")));
            }
            AgentEvent::AgentEnd(end) => match &end.ended {
                Ended::Completed => {}
                Ended::Error { message, .. } => {
                    self.line(&self.paint(RED, &format!("error: {}", plain(message))))
                }
                Ended::Aborted => self.line("aborted; the conversation so far is kept"),
                Ended::Limit { reason } => self.line(&format!("stopped: {reason}")),
                Ended::Budget { refusal } => self.line(&format!("stopped: {refusal}")),
                Ended::Interrupted { reason } => self.line(&format!("interrupted: {}", plain(reason))),
                Ended::Vetoed { reason } | Ended::TurnVetoed { reason } | Ended::InputRejected { reason } => {
                    self.line(&format!("denied: {}", plain(reason)))
                }
                _ => self.line("the run ended before the task was complete"),
            },
            _ => {}
        }
    }

    /// Prints the first line of a result and its last ones, where most tools report the outcome.
    fn result(&self, text: &str, is_error: bool) {
        let style = if is_error { RED } else { DIM };
        let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
        let left_out = lines.len().saturating_sub(RESULT_LINES);
        for (n, line) in lines.iter().enumerate() {
            if n == 0 || n > left_out {
                self.line(&format!("  {}", self.paint(style, &cut(&plain(line)))));
            } else if n == 1 {
                self.line(&format!("  {}", self.paint(DIM, &format!("… {left_out} more lines"))));
            }
        }
    }
}

/// Escapes text of a model or a tool, which must not move the cursor or hide the question to the user.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if (c.is_control() && c != '\n' && c != '\t') || turns_or_hides(c) {
            plain.extend(c.escape_unicode());
        } else {
            plain.push(c);
        }
    }
    plain
}

/// Characters that change the order of others or take no room.
fn turns_or_hides(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Shortens a text of a model, a tool or the user to a part of a line.
/// Returns a question with the whole call that waits for the answer, and every invisible character escaped.
pub(crate) fn shown(question: &Question) -> String {
    let text = match question.approval() {
        Some(view) => view.to_string(),
        None => printable(&question.text).into_owned(),
    };
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

pub(crate) fn brief(text: &str) -> String {
    cut(&plain(&one_line(text)))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cut(text: &str) -> String {
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    let head: String = text.chars().take(SHOWN).collect();
    format!("{head}…")
}
