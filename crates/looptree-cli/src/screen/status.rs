//! The line at the bottom while a run works: elapsed time, tokens, cost, and what is being typed.

use std::time::{Duration, Instant};

use looptree::Usage;
use looptree::message::Cost;
use tokio::task::JoinHandle;

use super::{Screen, Style, Styled};
use crate::money;
use crate::text::{one_line, tokens};

const FRAMES: &[char] = &['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const BEAT: Duration = Duration::from_millis(120);

#[derive(Debug)]
pub(super) struct Status {
    began: Instant,
    frame: usize,
    /// Rows that are on the screen.
    rows: usize,
    pub(super) usage: Usage,
    pub(super) cost: Cost,
    /// What happens: a tool's name, or the line that the model writes.
    pub(super) doing: String,
    /// What the user types meanwhile.
    pub(super) typed: String,
    pub(super) interrupted: bool,
    /// The question that what is typed answers.
    pub(super) asking: Option<String>,
}

impl Status {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            frame: 0,
            rows: 0,
            usage: Usage::default(),
            cost: Cost::default(),
            doing: String::new(),
            typed: String::new(),
            interrupted: false,
            asking: None,
        }
    }

    /// Returns the text that removes the status from the screen and moves the cursor to its beginning.
    pub(super) fn erased(&mut self) -> String {
        match std::mem::take(&mut self.rows) {
            0 => String::new(),
            1 => "\r\x1b[J".to_owned(),
            rows => format!("\r\x1b[{}A\x1b[J", rows - 1),
        }
    }

    /// Returns the status as it is drawn, without a line end behind it.
    pub(super) fn drawn(&mut self, screen: &Screen) -> String {
        if !screen.live {
            return String::new();
        }
        if let Some(asking) = &self.asking {
            let columns = screen.width().saturating_sub(1).max(8);
            // A third of the row is for the answer, so that the row never wraps.
            let asking = Styled::from(format!("  {asking}")).cut(columns - columns / 3);
            let typed = self.typed().tail(columns.saturating_sub(asking.width()));
            self.rows = 1;
            return (screen.paint(Style::Bold, asking) + typed).as_str().to_owned();
        }
        // One column less than there are, so that nothing wraps.
        let columns = screen.width().saturating_sub(1).max(8);
        let frame = FRAMES.get(self.frame % FRAMES.len()).copied().unwrap_or('*');
        let mut parts = vec![format!("{} s", self.began.elapsed().as_secs())];
        if self.usage.total_tokens > 0 {
            parts.push(format!("{} tokens", tokens(self.usage.total_tokens)));
        }
        if self.cost.total > 0 {
            parts.push(money::dollars(self.cost.total));
        }
        parts.push(
            if self.interrupted { "stopping; Ctrl-C again ends" } else { "Ctrl-C interrupts" }.to_owned(),
        );
        let mut head = Styled::from(format!("{frame} {}", parts.join(" · "))).cut(columns);
        let room = columns.saturating_sub(head.width() + 3);
        let doing = Styled::from(one_line(&self.doing));
        if room >= 12 && !doing.is_empty() {
            head = head + " · " + doing.tail(room);
        }
        let mut shown = screen.paint(Style::Dim, head);
        self.rows = 1;
        if !self.typed.is_empty() {
            let typed = self.typed().tail(columns.saturating_sub(2));
            shown = shown + Styled::prose("\n") + screen.paint(Style::Bold, "»") + " " + typed;
            self.rows = 2;
        }
        shown.as_str().to_owned()
    }

    /// What the user types, in one line.
    fn typed(&self) -> Styled {
        Styled::from(self.typed.replace('\n', "⏎"))
    }
}

/// Shows the status line until it is dropped.
pub(crate) struct Running(JoinHandle<()>, Screen);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
        let mut state = self.1.state();
        self.1.end_reply(&mut state);
        if let Some(mut status) = state.status.take() {
            self.1.put(&status.erased());
        }
    }
}

impl Screen {
    /// Begins the status line.
    pub(crate) fn running(&self) -> Running {
        self.state().status = self.live.then(Status::new);
        let screen = self.clone();
        let task = tokio::spawn(async move {
            let mut beat = tokio::time::interval(BEAT);
            loop {
                beat.tick().await;
                screen.redraw(|status| status.frame += 1);
            }
        });
        Running(task, self.clone())
    }

    fn redraw(&self, change: impl FnOnce(&mut Status)) {
        let mut state = self.state();
        if let Some(status) = &mut state.status {
            let mut text = status.erased();
            change(status);
            text.push_str(&status.drawn(self));
            self.put(&text);
        }
    }

    /// Does something that writes to the terminal itself.
    pub(crate) fn without_status<T>(&self, act: impl FnOnce() -> T) -> T {
        let mut state = self.state();
        if let Some(status) = &mut state.status {
            self.put(&status.erased());
        }
        act()
    }

    /// Shows what the user types during a run.
    pub(crate) fn typing(&self, typed: &str) {
        self.redraw(|status| typed.clone_into(&mut status.typed));
    }

    /// Shows a question in the place of the status.
    pub(crate) fn asking(&self, question: Option<&str>) {
        self.redraw(|status| {
            status.asking = question.map(str::to_owned);
            status.typed.clear();
        });
    }

    /// Shows what the run does.
    pub(crate) fn doing(&self, doing: &str) {
        self.redraw(|status| doing.clone_into(&mut status.doing));
    }

    /// Shows that the run is being interrupted.
    pub(crate) fn stopping(&self) {
        self.redraw(|status| status.interrupted = true);
    }

    /// Shows what the run has used so far.
    pub(crate) fn used(&self, usage: &Usage, cost: &Cost) {
        self.redraw(|status| {
            status.usage = *usage;
            status.cost = *cost;
        });
    }
}
