//! `cargo xtask weight [SET...]`: what each set of features costs: crates, CPU of a clean build, size of a small program.
//!
//! The program calls an agent once. It is built outside the workspace, with the workspace's lock file, in a target folder of its
//! own for each set, so that nothing is there already.

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};

use crate::cargo;
use crate::workspace::Workspace;

/// The sets that the table has.
const SETS: &[&str] = &[
    "ollama",
    "anthropic,tls-rustls",
    "openai-chat,tls-rustls",
    "openai-responses,tls-rustls",
    "azure,tls-rustls",
    "google,tls-rustls",
    "vertex,tls-rustls",
    "bedrock,tls-rustls",
    "anthropic,tls-native",
    "remote,tls-rustls",
    "default",
    "full",
];

/// A program with as little in it as one that calls a model can have.
const PROGRAM: &str = "\
fn main() {
    let model = looptree::ModelConfig::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let events = looptree::agent(model).prompt(\"hello\").unwrap();
        println!(\"{}\", events.collect().await.len());
    });
}
";

/// Prints a line of the table for each set.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    if let Some(unknown) = arguments.iter().find(|set| set.starts_with('-')) {
        bail!("there is no option {unknown}; sets of features are named, for example anthropic,tls-rustls");
    }
    let sets: Vec<&str> = match arguments {
        [] => SETS.to_vec(),
        some => some.iter().map(String::as_str).collect(),
    };
    say!("| features of looptree | crates | clean debug build, CPU s | small release program, MiB |");
    say!("|---|---:|---:|---:|");
    for set in sets {
        let folder = workspace.root.join("target/weight").join(set.replace(',', "-"));
        let line = measured(workspace, set, &folder).with_context(|| format!("the features {set}"))?;
        say!("{line}");
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(true)
}

fn measured(workspace: &Workspace, set: &str, folder: &Path) -> anyhow::Result<String> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder.join("src"))?;
    std::fs::copy(workspace.root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    std::fs::write(folder.join("Cargo.toml"), manifest(workspace, set))?;
    std::fs::write(folder.join("src/main.rs"), PROGRAM)?;
    let before = cpu_seconds()?;
    build(folder, &["build"])?;
    let debug = cpu_seconds()? - before;
    let crates = crates(folder)?;
    build(folder, &["build", "--release"])?;
    let size = std::fs::metadata(folder.join("target/release/weight"))?.len();
    #[expect(clippy::cast_precision_loss, reason = "a program is not larger than 2^52 bytes")]
    let mib = size as f64 / f64::from(1_u32 << 20);
    Ok(format!("| `{set}` | {crates} | {debug:.0} | {mib:.1} |"))
}

fn manifest(workspace: &Workspace, set: &str) -> String {
    let path = workspace.root.join("crates/looptree");
    let features: Vec<String> = set.split(',').map(|f| format!("{f:?}")).collect();
    format!(
        "[package]\nname = \"weight\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         looptree = {{ path = {path:?}, default-features = false, features = [{}] }}\n\
         tokio = {{ version = \"1\", default-features = false, features = [\"rt\", \"net\", \"time\"] }}\n\n\
         [profile.release]\nstrip = true\n",
        features.join(", ")
    )
}

fn build(folder: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let status = cargo::command(folder)
        .args(arguments)
        .args(["--quiet", "--offline"])
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("RUSTFLAGS")
        .status()
        .context("cargo cannot be started")?;
    ensure!(status.success(), "cargo {} failed", arguments.join(" "));
    Ok(())
}

/// Crates of the program and its build, each counted once, the program itself aside.
fn crates(folder: &Path) -> anyhow::Result<usize> {
    let arguments = ["tree", "--offline", "-e", "normal,build", "--prefix", "none", "--no-dedupe"];
    let tree = cargo::output(folder, &arguments)?;
    ensure!(tree.status.success(), "cargo tree failed: {}", String::from_utf8_lossy(&tree.stderr));
    let text = String::from_utf8(tree.stdout)?;
    let lines = text.lines().skip(1).map(|l| l.trim_end_matches(" (proc-macro)"));
    Ok(lines.filter(|l| !l.is_empty()).collect::<std::collections::BTreeSet<_>>().len())
}

/// User and system time of all children that have ended.
fn cpu_seconds() -> anyhow::Result<f64> {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |t: nix::sys::time::TimeVal| {
        let micros = i32::try_from(t.tv_usec()).unwrap_or_default();
        i32::try_from(t.tv_sec()).map_or(0.0, f64::from) + f64::from(micros) / 1e6
    };
    Ok(seconds(used.user_time()) + seconds(used.system_time()))
}
