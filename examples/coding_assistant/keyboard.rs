//! What the person at the terminal does: lines, Ctrl-C, the end of the input.

use std::collections::VecDeque;
use std::io::BufRead as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, channel};

/// The number of lines that are buffered during a run.
const TYPED_AHEAD: usize = 16;

/// How long nothing may come before what was typed ahead counts as read.
const QUIET: Duration = Duration::from_millis(50);

pub(crate) enum Pressed {
    Line(String),
    Interrupt,
    End,
}

pub(crate) struct Keyboard {
    /// What was typed in another life, in the place of what is typed here.
    script: Option<VecDeque<String>>,
    /// The lines that were wanted and came.
    came: Vec<String>,
    lines: Option<Receiver<String>>,
    interrupts: Receiver<()>,
    /// The terminal was closed, or the system shuts down: the run is aborted like by Ctrl-C, so that no command is left
    /// behind, and the program ends.
    ending: Arc<AtomicBool>,
}

impl Keyboard {
    /// Takes Ctrl-C over from here on. The input is not read before the first line is wanted, so that a program in the
    /// background is not stopped for reading.
    pub(crate) fn open() -> Self {
        let (said, interrupts) = channel(1);
        let ending = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ending);
        tokio::spawn(async move {
            // A line that no reader waits for is stored for the next reader.
            loop {
                tokio::select! {
                    pressed = tokio::signal::ctrl_c() => if pressed.is_err() { return },
                    () = told_to_end() => told.store(true, Ordering::Relaxed),
                }
                if said.send(()).await.is_err() {
                    return;
                }
            }
        });
        Self { script: None, came: Vec::new(), lines: None, interrupts, ending }
    }

    /// A keyboard on which these lines are typed, each when one is wanted.
    pub(crate) fn typing(lines: impl IntoIterator<Item = String>) -> Self {
        Self { script: Some(lines.into_iter().collect()), ..Self::open() }
    }

    /// The lines that were wanted and came, so far.
    pub(crate) fn came(&self) -> &[String] {
        &self.came
    }

    pub(crate) async fn interrupt(&mut self) {
        if self.interrupts.recv().await.is_none() {
            std::future::pending().await
        }
    }

    /// Drops what was typed before a question was to be seen: a line that was pasted must not answer it.
    pub(crate) async fn forget(&mut self) {
        while let Some(lines) = &mut self.lines
            && let Ok(Some(_)) = tokio::time::timeout(QUIET, lines.recv()).await
        {}
    }

    pub(crate) async fn line(&mut self) -> Pressed {
        if self.ending.load(Ordering::Relaxed) {
            return Pressed::End;
        }
        if let Some(script) = &mut self.script {
            return script.pop_front().map_or(Pressed::End, Pressed::Line);
        }
        // A thread and not tokio's stdin: a read that blocks must not hold the end of the program.
        let lines = self.lines.get_or_insert_with(|| {
            let (typed, lines) = channel(TYPED_AHEAD);
            thread::spawn(move || {
                let mut input = std::io::stdin().lock();
                loop {
                    let mut line = Vec::new();
                    match input.read_until(b'\n', &mut line) {
                        Ok(read) if read > 0 => {}
                        _ => return,
                    }
                    let line = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
                    if typed.blocking_send(line).is_err() {
                        return;
                    }
                }
            });
            lines
        });
        let line = tokio::select! {
            biased;
            Some(()) = self.interrupts.recv() => return Pressed::Interrupt,
            line = lines.recv() => line,
        };
        self.came.extend(line.clone());
        line.map_or(Pressed::End, Pressed::Line)
    }
}

#[cfg(unix)]
async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    if let (Ok(mut terminate), Ok(mut hang_up)) =
        (signal(SignalKind::terminate()), signal(SignalKind::hangup()))
    {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
    } else {
        std::future::pending().await
    }
}

#[cfg(not(unix))]
async fn told_to_end() {
    std::future::pending().await
}
