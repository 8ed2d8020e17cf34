//! The command as users and scripts run it: real processes, a model server on loopback, an empty home.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

mod acp;
mod answers;
mod bounded_reading;
mod chat;
mod chat_safety;
mod config;
#[cfg(feature = "keyring")]
mod keyring;
mod man;
mod mcp;
mod mcp_servers;
mod mcp_servers_end;
mod model;
mod print;
mod provenance;
mod serve;
mod sessions;
mod terminal;
mod tiny_server;
mod view;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use model::Model;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Far more than anything here takes.
const HANG: Duration = Duration::from_secs(180);

/// A directory to work in, and beside it the home of a user who has nothing.
struct Project {
    folder: tempfile::TempDir,
    work: PathBuf,
}

/// What a process said.
#[derive(Debug)]
struct Said {
    code: i32,
    out: String,
    err: String,
}

impl Project {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let work = real.join("work");
        std::fs::create_dir(&work).unwrap();
        std::fs::create_dir(real.join("home")).unwrap();
        Self { folder, work }
    }

    fn path(&self) -> &Path {
        &self.work
    }

    fn home(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("home")
    }

    fn user_config(&self) -> PathBuf {
        self.home().join(".config/looptree/config.toml")
    }

    /// The program with an environment that holds nothing of this machine's user.
    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_looptree"));
        command.current_dir(&self.work).kill_on_drop(true);
        command.env_clear().envs(self.environment());
        command
    }

    /// The environment of a user who has nothing.
    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("HOME", self.home().display().to_string()),
            ("PATH", std::env::var("PATH").unwrap()),
            // A port where no Ollama server is.
            ("OLLAMA_HOST", "127.0.0.1:9".to_owned()),
        ]
    }

    async fn run(&self, words: &[&str]) -> Said {
        self.run_with("", words).await
    }

    /// Runs the program with this on its standard input.
    async fn run_with(&self, input: &str, words: &[&str]) -> Said {
        let mut command = self.command();
        command.args(words);
        finish(command, input).await
    }

    /// Runs the program with a model.
    async fn ask(&self, model: &Model, words: &[&str]) -> Said {
        let mut command = self.command();
        command.args(model.words()).args(words);
        finish(command, "").await
    }

    /// The folder with the sessions of the directory: the only one.
    fn sessions(&self) -> PathBuf {
        let all = std::fs::read_dir(self.home().join(".local/share/looptree/sessions")).unwrap();
        let all: Vec<_> = all.map(|folder| folder.unwrap().path()).collect();
        assert_eq!(all.len(), 1, "{all:?}");
        all.into_iter().next().unwrap()
    }

    /// The ids of the stored sessions.
    fn session_ids(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.sessions()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect()
    }
}

async fn finish(mut command: Command, input: &str) -> Said {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // The program may end without reading it.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let output = tokio::time::timeout(HANG, child.wait_with_output()).await.expect("it hangs").unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}
