//! What the person at the terminal does: lines, Ctrl-C, the end of the input.

use std::thread;

use tokio::sync::mpsc::{Receiver, channel};

/// Lines that are kept while a run goes on.
const TYPED_AHEAD: usize = 16;

pub(crate) enum Pressed {
    Line(String),
    Interrupt,
    End,
}

pub(crate) struct Keyboard {
    lines: Option<Receiver<String>>,
    interrupts: Receiver<()>,
}

impl Keyboard {
    /// Takes Ctrl-C over from here on. The input is not read before the first line is wanted, so that a program in the
    /// background is not stopped for reading.
    pub(crate) fn open() -> Self {
        let (said, interrupts) = channel(1);
        tokio::spawn(async move {
            // One that nobody waits for is kept for the next who does.
            while tokio::signal::ctrl_c().await.is_ok() && said.send(()).await.is_ok() {}
        });
        Self { lines: None, interrupts }
    }

    pub(crate) async fn interrupt(&mut self) {
        if self.interrupts.recv().await.is_none() {
            std::future::pending().await
        }
    }

    pub(crate) async fn line(&mut self) -> Pressed {
        // A thread and not tokio's stdin: a read that blocks must not hold the end of the program.
        let lines = self.lines.get_or_insert_with(|| {
            let (typed, lines) = channel(TYPED_AHEAD);
            thread::spawn(move || {
                for line in std::io::stdin().lines().map_while(Result::ok) {
                    if typed.blocking_send(line).is_err() {
                        return;
                    }
                }
            });
            lines
        });
        tokio::select! {
            biased;
            Some(()) = self.interrupts.recv() => Pressed::Interrupt,
            line = lines.recv() => line.map_or(Pressed::End, Pressed::Line),
        }
    }
}
