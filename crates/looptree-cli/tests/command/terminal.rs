//! A pseudo-terminal with a program on it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tokio::process::{Child, Command};

use super::HANG;

/// A program on a terminal.
pub(crate) struct Terminal {
    keys: File,
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
    /// How much of what was shown has been looked at.
    seen: usize,
}

impl Terminal {
    /// Starts a program with the terminal as its input and output.
    pub(crate) fn start(command: &mut Command) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = File::options().read(true).write(true).open(name).unwrap();
        let end = || OwnedFd::from(theirs.try_clone().unwrap());
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        // The command keeps its ends of the terminal; they must go, so that ours sees when the program ends.
        command.stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null());
        command.stderr(std::process::Stdio::null());
        drop(theirs);
        let keys = File::from(ours);
        let mut screen = keys.try_clone().unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A terminal whose program is gone gives an error on some systems, and nothing on others.
            while let Ok(n @ 1..) = screen.read(&mut bytes) {
                heard.lock().unwrap().extend_from_slice(&bytes[..n]);
            }
        });
        Self { keys, child, shown, seen: 0 }
    }

    /// Types a line.
    pub(crate) fn types(&mut self, line: &str) {
        self.keys.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Waits until this is shown after what was seen before.
    pub(crate) async fn sees(&mut self, text: &str) {
        let found = tokio::time::timeout(HANG, async {
            loop {
                let at = self.unseen().windows(text.len()).position(|w| w == text.as_bytes());
                if let Some(at) = at {
                    return at;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        let Ok(at) = found.await else {
            let new = self.unseen();
            let new = String::from_utf8_lossy(&new);
            panic!("{text:?} is not shown; after what was seen there is:\n{new}");
        };
        self.seen += at + text.len();
    }

    /// What is shown after what was seen.
    fn unseen(&self) -> Vec<u8> {
        self.shown.lock().unwrap()[self.seen..].to_vec()
    }

    /// Waits for the end of the program.
    pub(crate) async fn ends(&mut self) -> i32 {
        let status = tokio::time::timeout(HANG, self.child.wait()).await;
        status.expect("it does not end").unwrap().code().unwrap_or(-1)
    }
}
