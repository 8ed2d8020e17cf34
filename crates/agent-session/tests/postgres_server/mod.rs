//! A server of Postgres for tests and for `cargo xtask postgres`, in a directory of its own and on a free port.
//!
//! The server is the child of a shell that reads a pipe. When the process that started it ends, also by a signal, the pipe is
//! closed, and the shell stops the server and removes the directory.
#![allow(dead_code, reason = "each user needs a part of it")]
#![allow(clippy::disallowed_methods, reason = "it starts the programs of Postgres, which are found in PATH")]

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the server may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The line that the shell reads before it starts the server again.
const RESTART: &[u8] = b"start\n";

/// What the shell does: runs the server again for each line, and ends it with the pipe.
const SCRIPT: &str = r#"
    run() { "$@" >> "$LOOPTREE_PG_DIR/log" 2>&1 < /dev/null & server=$!; }
    run "$@"
    while read -r _; do wait "$server"; run "$@"; done
    kill -QUIT "$server" 2> /dev/null
    wait "$server"
    [ -n "$LOOPTREE_PG_KEEP" ] || rm -rf "$LOOPTREE_PG_DIR"
"#;

/// A running server. It ends with this process, or when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    directory: PathBuf,
    port: u16,
    shell: Child,
}

/// What happens to the directory of a server when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Data {
    Removed,
    Kept,
}

/// Returns the directory with the programs of the server, the latest version first.
///
/// # Errors
/// The reason why they cannot be used, as a sentence fragment.
pub(crate) fn programs() -> Result<PathBuf, String> {
    let mut folders: Vec<PathBuf> =
        std::env::var_os("LOOPTREE_POSTGRES_BIN").map(PathBuf::from).into_iter().collect();
    let mut versions: Vec<PathBuf> = Vec::new();
    for parent in ["/usr/lib/postgresql", "/opt/homebrew/opt", "/usr/local/opt"] {
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        versions.extend(entries.map(|entry| entry.path().join("bin")));
    }
    versions.sort();
    folders.extend(versions.into_iter().rev());
    folders.push("/usr/local/pgsql/bin".into());
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&path));
    let found =
        folders.into_iter().find(|dir| dir.join("initdb").is_file() && dir.join("postgres").is_file());
    found.ok_or_else(|| "there is no Postgres server; install the package postgresql".to_owned())
}

/// The prefix of commands that must not run as root.
fn as_user() -> Result<Vec<String>, String> {
    let number = |user: &[&str]| -> Option<u32> {
        let out = Command::new("id").arg("-u").args(user).output().ok()?;
        String::from_utf8_lossy(&out.stdout).trim().parse().ok()
    };
    if number(&[]) != Some(0) {
        return Ok(Vec::new());
    }
    let user = ["postgres", "nobody"].into_iter().find(|user| number(&[user]).is_some());
    let user = user.ok_or("the server does not run as root, and there is no user postgres or nobody")?;
    let words = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"];
    let group =
        Command::new("id").args(["-g", user]).output().map_err(|e| format!("id does not run: {e}"))?;
    let group = String::from_utf8_lossy(&group.stdout).trim().to_owned();
    let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    if let Some(word) = words.get_mut(4) {
        *word = group;
    }
    Ok(words)
}

fn run(words: &[String]) -> Result<(), String> {
    let (program, arguments) = words.split_first().ok_or("there is no command")?;
    let done = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let done = done.map_err(|e| format!("{program} does not run: {e}"))?;
    let text = String::from_utf8_lossy(&done.stderr);
    if done.status.success() { Ok(()) } else { Err(format!("{program} failed: {}", text.trim())) }
}

impl Server {
    /// Starts a server in this directory, which is created unless it has a database, with more settings as `NAME=VALUE`.
    ///
    /// # Errors
    /// The reason, as a sentence fragment.
    pub(crate) fn start(directory: &Path, data: Data, settings: &[&str]) -> Result<Self, String> {
        Self::start_with(&programs()?, directory, data, settings)
    }

    /// Starts a server with the programs in this directory, as [`start`](Self::start) does.
    ///
    /// # Errors
    /// The reason, as a sentence fragment.
    pub(crate) fn start_with(
        programs: &Path,
        directory: &Path,
        data: Data,
        settings: &[&str],
    ) -> Result<Self, String> {
        let user = as_user()?;
        let with = |words: &[&str]| -> Vec<String> {
            user.iter().cloned().chain(words.iter().map(|word| (*word).to_owned())).collect()
        };
        let database = directory.join("data");
        let text = |path: &Path| path.display().to_string();
        let is_new = !database.join("PG_VERSION").exists();
        std::fs::create_dir_all(directory).map_err(|e| format!("{} cannot be made: {e}", text(directory)))?;
        if let Some(name) = user.get(2) {
            run(&["chown", "-R", name, &text(directory)].map(str::to_owned))?;
        }
        if is_new {
            let initdb = text(&programs.join("initdb"));
            let words =
                ["-D", &text(&database), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-k"];
            run(&with(&[&[initdb.as_str()][..], &words[..], &["--no-sync"][..]].concat()))?;
        }
        let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        let port = port.map_err(|e| format!("there is no free port: {e}"))?.port();
        let mut words =
            with(&[&text(&programs.join("postgres")), "-D", &text(&database), "-p", &port.to_string()]);
        let usual = ["listen_addresses=127.0.0.1", "max_connections=300", "shared_buffers=64MB"];
        let sockets = format!("unix_socket_directories={}", text(directory));
        for setting in usual.iter().chain(settings).chain([&sockets.as_str()]) {
            words.extend(["-c".to_owned(), (*setting).to_owned()]);
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT, "sh"]).args(&words).env("LOOPTREE_PG_DIR", directory).stdin(Stdio::piped());
        shell.stdout(Stdio::null()).stderr(Stdio::null());
        if data == Data::Kept {
            shell.env("LOOPTREE_PG_KEEP", "yes");
        }
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        let shell = shell.spawn().map_err(|e| format!("sh does not run: {e}"))?;
        let server = Self { directory: directory.to_owned(), port, shell };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&self) -> Result<(), String> {
        let begun = Instant::now();
        // Its second last line tells when it accepts connections.
        let is_ready = || {
            let file =
                std::fs::read_to_string(self.directory.join("data/postmaster.pid")).unwrap_or_default();
            file.lines().any(|line| line.trim() == "ready")
                && TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        };
        while !is_ready() {
            if begun.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(self.directory.join("log")).unwrap_or_default();
                return Err(format!("the server does not start: {log}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// The URL of the server's first database.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// The directory of the server.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The number of the server's first process.
    pub(crate) fn process(&self) -> Option<String> {
        let file = std::fs::read_to_string(self.directory.join("data/postmaster.pid")).ok()?;
        Some(file.lines().next()?.trim().to_owned())
    }

    /// Kills the server and all of its processes with SIGKILL.
    ///
    /// # Errors
    /// The reason, as a sentence fragment.
    pub(crate) fn kill(&self) -> Result<(), String> {
        let server = self.process().ok_or("the server does not run")?;
        let children = Command::new("ps").args(["-o", "pid=", "--ppid", &server]).output();
        let children = children.map_err(|e| format!("ps does not run: {e}"))?;
        let mut words = vec!["kill".to_owned(), "-9".to_owned(), server];
        words.extend(String::from_utf8_lossy(&children.stdout).split_whitespace().map(str::to_owned));
        // A child can have ended by itself.
        let _ = run(&words);
        std::fs::remove_file(self.directory.join("data/postmaster.pid")).map_err(|e| e.to_string())
    }

    /// Starts the server again after a kill.
    ///
    /// # Errors
    /// The reason, as a sentence fragment.
    pub(crate) fn start_again(&mut self) -> Result<(), String> {
        let pipe = self.shell.stdin.as_mut().ok_or("the shell has no pipe")?;
        pipe.write_all(RESTART)
            .and_then(|()| pipe.flush())
            .map_err(|e| format!("the shell has ended: {e}"))?;
        self.wait_until_ready()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The end of the pipe ends the shell.
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
