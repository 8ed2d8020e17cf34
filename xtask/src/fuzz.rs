//! `cargo xtask fuzz`: the fuzz targets, built and run for a while each, with the project's own recordings to begin from.
//!
//! `docs/fuzzing.md` describes what the targets assert and what they have found.

mod seeds;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

use crate::workspace::Workspace;

/// The targets, as `fuzz/Cargo.toml` has them.
const TARGETS: &[&str] = &[
    "sse",
    "lines",
    "frames",
    "anthropic",
    "openai_chat",
    "openai_responses",
    "google",
    "ollama",
    "bedrock",
    "arguments",
    "openapi",
    "session",
];

/// How long a target is run unless the command line says otherwise, in seconds.
const SECONDS: u32 = 60;

/// What one input may take: time in seconds, memory in MiB, and its length in bytes.
const BOUNDS: [&str; 3] = ["-timeout=10", "-rss_limit_mb=2048", "-max_len=20000"];

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    seconds: u32,
    targets: Vec<&'static str>,
}

/// Runs the targets; `false` when one found something.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    let options = options(arguments)?;
    if let Some(missing) = missing(&workspace.root) {
        say!("skipped: {missing}");
        return Ok(true);
    }
    let folder = workspace.root.join("target/fuzz");
    seeds::write(workspace, &folder)?;
    let mut lines = Vec::new();
    let mut good = true;
    for target in &options.targets {
        ensure!(
            cargo(&workspace.root, &["fuzz", "build", "--sanitizer", "none", target]).status()?.success(),
            "{target} cannot be built"
        );
        let found = folder.join("found").join(target);
        let corpus = folder.join("corpus").join(target);
        for place in [&found, &corpus] {
            std::fs::create_dir_all(place).with_context(|| format!("cannot make {}", place.display()))?;
        }
        let log = folder.join(format!("{target}.log"));
        let done = fuzz(&workspace.root, target, options.seconds, &folder, &log)?;
        let printed = std::fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
        let printed = String::from_utf8_lossy(&printed);
        let count = executions(&printed).unwrap_or_default();
        good &= done;
        lines.push(match done {
            true => format!("{target:<17} {count:>10} executions, nothing found"),
            false => format!(
                "{target:<17} {count:>10} executions, FOUND: see {} and {}",
                found.display(),
                log.display()
            ),
        });
        say!("{}", lines.last().map_or("", String::as_str));
    }
    Ok(good)
}

fn options(arguments: &[String]) -> anyhow::Result<Options> {
    let mut options = Options { seconds: SECONDS, targets: Vec::new() };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seconds" => {
                let seconds = words.next().context("--seconds needs a number")?;
                options.seconds =
                    seconds.parse().with_context(|| format!("{seconds:?} is no number of seconds"))?;
                // To libFuzzer 0 means without end.
                ensure!(options.seconds > 0, "--seconds needs a number above 0");
            }
            flag if flag.starts_with('-') => bail!("`cargo xtask fuzz` does not know `{flag}`"),
            name => match TARGETS.iter().find(|t| **t == name) {
                Some(target) => options.targets.push(target),
                None => bail!("there is no target `{name}`; there are {}", TARGETS.join(", ")),
            },
        }
    }
    if options.targets.is_empty() {
        options.targets.extend(TARGETS);
    }
    Ok(options)
}

/// What this machine lacks.
fn missing(root: &Path) -> Option<&'static str> {
    let answers = |arguments: &[&str]| {
        cargo(root, arguments).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    };
    if !answers(&["--version"]) {
        return Some("a nightly toolchain is missing (rustup toolchain install nightly)");
    }
    (!answers(&["fuzz", "--version"])).then_some("cargo-fuzz is missing (cargo install cargo-fuzz)")
}

/// A command for the cargo of the nightly toolchain. The one that runs this program is another one.
fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(root.join("fuzz")).stdin(Stdio::null());
    command.env("RUSTUP_TOOLCHAIN", "nightly");
    let of_this_build =
        |name: &str| name.starts_with("CARGO_") && !["CARGO_HOME", "CARGO_TARGET_DIR"].contains(&name);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|n| of_this_build(n) || ["CARGO", "RUSTC", "RUSTDOC"].contains(&n)) {
            command.env_remove(name);
        }
    }
    if std::env::var_os("CARGO_TARGET_DIR").is_none() {
        command.env("CARGO_TARGET_DIR", root.join("target/fuzz/build"));
    }
    command
}

/// Runs a target. `false` when it found something.
fn fuzz(root: &Path, target: &str, seconds: u32, folder: &Path, log: &Path) -> anyhow::Result<bool> {
    let text = |path: PathBuf| path.to_str().map(str::to_owned).context("a path that is not UTF-8");
    let mut command = cargo(root, &["fuzz", "run", "--sanitizer", "none", target]);
    command.arg(text(folder.join("corpus").join(target))?).arg(text(folder.join("seeds").join(target))?);
    command.arg("--").args(BOUNDS).args(["-print_final_stats=1", "-verbosity=0"]);
    command.arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-dict={}", text(folder.join(seeds::WORDS))?));
    command.arg(format!("-artifact_prefix={}/", text(folder.join("found").join(target))?));
    let file = std::fs::File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let too = file.try_clone().context("cannot write the log")?;
    let status = command.stdout(file).stderr(too).status().context("cannot start cargo fuzz")?;
    Ok(status.success())
}

/// How many inputs were tried, as libFuzzer says at its end.
fn executions(printed: &str) -> Option<u64> {
    let said = printed.lines().find_map(|l| l.strip_prefix("stat::number_of_executed_units:"))?;
    said.trim().parse().ok()
}

#[cfg(test)]
mod tests;
