//! The sandbox of the commands that the model runs.

use looptree::tools::SandboxRules;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use looptree::prelude::*;
use looptree::tools::BashTool;
use looptree::tools::sandbox::{Network, SandboxKind};

use crate::args::SandboxChoice;
use crate::settings::Settings;
use crate::text::chain;

/// What of Cargo's home commands may read: its credentials are not among it.
const CARGO: [&str; 5] = ["bin", "registry", "git", "env", "config.toml"];

/// Returns the `bash` tool and a line that describes its sandbox.
pub(crate) async fn shell(settings: &Settings, workspace: &Workspace) -> Result<(BashTool, String)> {
    let mut shell = BashTool::new(workspace.clone());
    let network = settings.sandbox_network.value == Some(true);
    if settings.sandbox.value.is_none_or(|choice| choice == SandboxChoice::None) {
        return Ok((
            shell,
            "sandbox: none (commands run with your full permissions; --sandbox restricts them)".to_owned(),
        ));
    }
    let mut rules = SandboxRules::for_workspace(workspace);
    for root in settings.sandbox_read.value.iter().flatten() {
        rules = rules.with_read_root(root);
    }
    for root in settings.sandbox_write.value.iter().flatten() {
        rules = rules.with_write_root(root);
    }
    // A home cannot be read, so the compiler there is named by hand.
    if let Some(cargo) = home("CARGO_HOME", ".cargo") {
        for part in CARGO.map(|part| cargo.join(part)) {
            if part.exists() {
                rules = rules.with_read_root(part);
            }
        }
        shell = shell.with_env("CARGO_HOME", cargo);
    }
    if let Some(rustup) = home("RUSTUP_HOME", ".rustup") {
        rules = rules.with_read_root(&rustup);
        shell = shell.with_env("RUSTUP_HOME", rustup);
    }
    let sandbox = choose(settings, rules, network).await.map_err(|error| unavailable(&error))?;
    let network = match (network, sandbox.kind()) {
        (true, _) => "network access",
        (false, SandboxKind::Bwrap) => "no network",
        (false, _) => "no TCP (UDP is not restricted)",
    };
    let line = format!("sandbox: {}; commands write below this directory only; {network}", sandbox.kind());
    Ok((shell.with_sandbox(sandbox), line))
}

/// Returns the error of a sandbox that does not work here. What to do about it comes last, as it gives up the protection.
fn unavailable(error: &anyhow::Error) -> anyhow::Error {
    anyhow!(
        "commands cannot be restricted: {}. Without --sandbox (or with --sandbox=none) they run with your full permissions, \
         and each needs your approval",
        chain(error).trim_end_matches('.')
    )
}

async fn choose(settings: &Settings, rules: SandboxRules, network: bool) -> Result<Sandbox> {
    let (off, no_tcp) = if network { (Network::Open, Network::Open) } else { (Network::Off, Network::NoTcp) };
    let bwrap = Sandbox::bwrap(rules.clone().with_network(off));
    let landlock = Sandbox::landlock(rules.clone().with_network(no_tcp));
    Ok(match settings.sandbox.value.unwrap_or(SandboxChoice::None) {
        SandboxChoice::None => Sandbox::none(),
        SandboxChoice::Bwrap => {
            bwrap.check().await?;
            bwrap
        }
        SandboxChoice::Landlock => {
            landlock.check().await?;
            landlock
        }
        SandboxChoice::Auto => Sandbox::best(rules.with_network(no_tcp)).await?,
    })
}

/// Returns the folder that a variable names, or the folder with this name in the home.
fn home(variable: &str, name: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let usual = || Some(PathBuf::from(std::env::var_os("HOME")?).join(name));
    named.or_else(usual).filter(|folder| folder.is_absolute() && folder.is_dir())
}
