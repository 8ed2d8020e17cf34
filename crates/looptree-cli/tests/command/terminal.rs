//! A program on a pseudo-terminal, and the text on its screen.

use std::io::{Read as _, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use super::{HANG, Project};

/// Lines that scrolled away and are kept.
const SCROLLBACK: usize = 2_000;

/// A program on a terminal.
pub(crate) struct Terminal {
    keys: Arc<Mutex<Box<dyn std::io::Write + Send>>>,
    child: Box<dyn Child + Send + Sync>,
    screen: Arc<Mutex<vt100::Parser>>,
    bytes: Arc<Mutex<Vec<u8>>>,
    _master: Box<dyn MasterPty + Send>,
    /// Ends when everything that the program wrote is on the screen.
    reader: std::thread::JoinHandle<()>,
    /// How much of the text has been checked.
    seen: usize,
}

impl Terminal {
    /// Starts the program in a project, on a terminal of this size.
    pub(crate) fn start(dir: &Project, columns: u16, variables: &[(&str, &str)], words: &[String]) -> Self {
        const ROWS: u16 = 40;
        let size = PtySize { rows: ROWS, cols: columns, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_looptree"));
        command.cwd(dir.path());
        command.env_clear();
        for (name, value) in dir.environment() {
            command.env(name, value);
        }
        command.env("TERM", "xterm-256color");
        command.env("PAGER", "cat");
        for (name, value) in variables {
            command.env(name, value);
        }
        command.args(words);
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut output = pair.master.try_clone_reader().unwrap();
        let keys = Arc::new(Mutex::new(pair.master.take_writer().unwrap()));
        let screen = Arc::new(Mutex::new(vt100::Parser::new(
            ROWS.try_into().unwrap(),
            columns.try_into().unwrap(),
            SCROLLBACK,
        )));
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (shown, heard, answer) = (Arc::clone(&screen), Arc::clone(&bytes), Arc::clone(&keys));
        let reader = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            // A terminal whose program is gone gives an error on some systems, and nothing on others.
            while let Ok(n @ 1..) = output.read(&mut piece) {
                let piece = &piece[..n];
                let mut screen = shown.lock().unwrap();
                screen.process(piece);
                heard.lock().unwrap().extend_from_slice(piece);
                // A terminal answers this request with the position of its cursor.
                if piece.windows(4).any(|w| w == b"\x1b[6n") {
                    let (row, column) = screen.screen().cursor_position();
                    let _ = answer
                        .lock()
                        .unwrap()
                        .write_all(format!("\x1b[{};{}R", row + 1, column + 1).as_bytes());
                }
            }
        });
        Self { keys, child, screen, bytes, _master: pair.master, reader, seen: 0 }
    }

    /// Sends a signal to the program.
    pub(crate) fn signals(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.process_id().unwrap()).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Sends bytes as they are.
    pub(crate) fn keys(&mut self, keys: &str) {
        let mut to = self.keys.lock().unwrap();
        to.write_all(keys.as_bytes()).unwrap();
        to.flush().unwrap();
    }

    /// Types a line and Enter.
    pub(crate) fn types(&mut self, line: &str) {
        self.keys(&format!("{line}\r"));
    }

    /// Pastes a text, as a terminal does.
    pub(crate) fn pastes(&mut self, text: &str) {
        self.keys(&format!("\x1b[200~{}\x1b[201~", text.replace('\n', "\r")));
    }

    /// The rows of the screen and what scrolled away, without blanks at the ends.
    pub(crate) fn text(&self) -> String {
        let mut parser = self.screen.lock().unwrap();
        let (height, width) = parser.screen().size();
        let (height, width) = (u16::from(height), u16::from(width));
        parser.screen_mut().set_scrollback(usize::MAX);
        let above = parser.screen().scrollback();
        let mut rows: Vec<String> = Vec::new();
        let mut back = above;
        loop {
            parser.screen_mut().set_scrollback(back);
            let page: Vec<String> = parser.screen().rows(0, width).collect();
            let new = if back == 0 { page.len() } else { back.min(usize::from(height)) };
            rows.extend(page.into_iter().take(new));
            if back == 0 {
                break;
            }
            back -= new;
        }
        parser.screen_mut().set_scrollback(0);
        let rows: Vec<&str> = rows.iter().map(|row| row.trim_end()).collect();
        rows.join("\n").trim_end().to_owned()
    }

    /// All bytes that the program wrote.
    pub(crate) fn bytes(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    /// Waits until this is on the screen behind what was seen before.
    pub(crate) async fn sees(&mut self, text: &str) {
        let found = tokio::time::timeout(HANG, async {
            loop {
                let shown = self.text();
                let from = self.seen.min(shown.len());
                let from = (0..=from).rev().find(|at| shown.is_char_boundary(*at)).unwrap_or(0);
                if let Some(at) = shown[from..].find(text) {
                    return from + at + text.len();
                }
                tokio::time::sleep(Duration::from_millis(15)).await;
            }
        });
        match found.await {
            Ok(seen) => self.seen = seen,
            Err(_) => panic!("{text:?} is not shown. The screen:\n{}", self.text()),
        }
    }

    /// Waits until the screen shows this anywhere, for example in a line that is being typed.
    pub(crate) async fn shows(&self, text: &str) {
        let waited = tokio::time::timeout(HANG, async {
            while !self.text().contains(text) {
                tokio::time::sleep(Duration::from_millis(15)).await;
            }
        });
        assert!(waited.await.is_ok(), "{text:?} is not shown. The screen:\n{}", self.text());
    }

    /// The colors and styles that the program set, without resets.
    pub(crate) fn styles(&self) -> Vec<String> {
        let bytes = self.bytes();
        let codes = bytes.split("\x1b[").skip(1).filter_map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';')?;
            rest[end..].starts_with('m').then(|| rest[..end].to_owned())
        });
        codes.filter(|code| !code.is_empty() && code != "0").collect()
    }

    /// Waits for the prompt, where a line can be typed.
    pub(crate) async fn prompts(&mut self) {
        let waited = tokio::time::timeout(HANG, async {
            while self.text().lines().last().is_none_or(|line| line.trim_end() != ">") {
                tokio::time::sleep(Duration::from_millis(15)).await;
            }
        });
        assert!(waited.await.is_ok(), "there is no prompt. The screen:\n{}", self.text());
        self.seen = self.text().len();
    }

    /// Waits for the end of the program.
    pub(crate) async fn ends(&mut self) -> u32 {
        let waited = tokio::time::timeout(HANG, async {
            loop {
                if let Some(status) = self.child.try_wait().unwrap() {
                    // What it wrote last may still be on its way. A process that it left behind can hold the terminal open.
                    for _ in 0..200 {
                        if self.reader.is_finished() {
                            break;
                        }
                        tokio::time::sleep(Duration::from_millis(15)).await;
                    }
                    return status.exit_code();
                }
                tokio::time::sleep(Duration::from_millis(15)).await;
            }
        });
        let Ok(code) = waited.await else { panic!("it does not end. The screen:\n{}", self.text()) };
        code
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}
