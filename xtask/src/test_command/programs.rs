//! Test programs that run beside each other, also with mutants in them.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::Context as _;
use serde_json::Value;

use super::Totals;
use crate::cargo;
use crate::workspace::Workspace;

/// The maximum number of programs at a time. Each runs as many tests at once as there are processors.
const AT_ONCE: usize = 4;

/// A test program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    executable: PathBuf,
    /// The file with its tests, below the folder of its package.
    source: String,
    package: PathBuf,
    name: String,
    version: String,
}

/// How a program ended.
struct Ended {
    output: String,
    success: bool,
}

/// Builds the test programs of a `cargo test` with these arguments. `None` if something does not compile.
pub(super) fn build(workspace: &Workspace, arguments: &[&str]) -> anyhow::Result<Option<Vec<Program>>> {
    let arguments = [arguments, &["--no-run", "--message-format", "json-render-diagnostics"]].concat();
    cargo::say(&arguments, &[]);
    let output = cargo::command(&workspace.root)
        .args(&arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo test")?;
    if !output.status.success() {
        return Ok(None);
    }
    let lines = String::from_utf8_lossy(&output.stdout);
    Ok(Some(lines.lines().filter_map(|line| program(&serde_json::from_str(line).ok()?)).collect()))
}

/// Returns the program of a message of cargo, if it is about one.
pub(crate) fn program(message: &Value) -> Option<Program> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let package = Path::new(message["manifest_path"].as_str()?).parent()?;
    let source = Path::new(message["target"]["src_path"].as_str()?);
    let source = source.strip_prefix(package).unwrap_or(source).display().to_string();
    let executable = PathBuf::from(message["executable"].as_str()?);
    // `path+file:///folder#name@version`, or `#version` if the folder has the name of the package.
    let (_, id) = message["package_id"].as_str()?.rsplit_once('#')?;
    let folder = package.file_name()?.to_str()?;
    let (name, version) = id.split_once('@').unwrap_or((folder, id));
    Some(Program {
        executable,
        source,
        package: package.to_owned(),
        name: name.to_owned(),
        version: version.to_owned(),
    })
}

/// Runs the programs, some at a time, and prints what each prints when it has ended. `false` if one failed.
pub(super) fn run(programs: &[Program], totals: &mut Totals) -> anyhow::Result<bool> {
    let totals = Mutex::new(totals);
    let work = |program: &Program| {
        let start = Instant::now();
        let ended = program.run()?;
        let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
        say!("\n     Ran {} ({:.1} s)", program.name(), start.elapsed().as_secs_f64());
        say!("{}", ended.output.trim_end());
        // A test can print such a line, too; the program's own is the last one.
        if let Some(line) = ended.output.lines().rfind(|line| line.starts_with("test result: ")) {
            totals.add(line);
        }
        Ok((!ended.success).then(|| program.name()))
    };
    let failed: Vec<String> = beside(programs, work)?.into_iter().flatten().collect();
    for name in &failed {
        say!("failed: {name}");
    }
    Ok(failed.is_empty())
}

/// Works on the items, some at a time, and returns the results in the order of the items. After an error, no further item
/// is begun.
pub(crate) fn beside<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    let waiting: Mutex<VecDeque<(usize, &T)>> = Mutex::new(items.iter().enumerate().collect());
    let results = Mutex::new(BTreeMap::new());
    let worker = || -> anyhow::Result<()> {
        loop {
            let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((index, item)) = next else { return Ok(()) };
            let result = work(item).inspect_err(|_| {
                waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
            })?;
            results.lock().unwrap_or_else(PoisonError::into_inner).insert(index, result);
        }
    };
    let at_once = thread::available_parallelism().map_or(1, std::num::NonZero::get).min(AT_ONCE);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(ended) => ended,
            Err(_) => anyhow::bail!("a thread that runs tests panicked"),
        })
    })?;
    Ok(results.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect())
}

impl Program {
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.name, self.source)
    }

    /// Whether it has the unit tests of a library or a command.
    pub(crate) fn has_unit_tests(&self) -> bool {
        self.source.starts_with("src/")
    }

    /// Returns the command that runs it in the folder and with the environment that cargo would give it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .current_dir(&self.package)
            .env("CARGO_MANIFEST_DIR", &self.package)
            .env("CARGO_MANIFEST_PATH", self.package.join("Cargo.toml"))
            .env("CARGO_PKG_NAME", &self.name)
            .env("CARGO_PKG_VERSION", &self.version);
        command
    }

    fn run(&self) -> anyhow::Result<Ended> {
        let cannot = || format!("cannot run {}", self.executable.display());
        // Both streams in their order. A file never fills up as a pipe does.
        let mut output = tempfile::tempfile().with_context(cannot)?;
        let stream = |file: &File| file.try_clone().map(Stdio::from).with_context(cannot);
        let status = self
            .command()
            .stdin(Stdio::null())
            .stdout(stream(&output)?)
            .stderr(stream(&output)?)
            .status()
            .with_context(cannot)?;
        let mut bytes = Vec::new();
        std::io::Seek::rewind(&mut output).with_context(cannot)?;
        output.read_to_end(&mut bytes).with_context(cannot)?;
        Ok(Ended { output: String::from_utf8_lossy(&bytes).into_owned(), success: status.success() })
    }
}

#[cfg(test)]
mod tests;
