//! The sandbox of the commands that the model runs.

use looptree::tools::SandboxRules;
use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use looptree::prelude::*;
use looptree::tools::BashTool;
use looptree::tools::sandbox::{Network, SandboxKind};

use crate::args::SandboxChoice;
use crate::settings::Settings;
use crate::setup::user_paths;
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
    // In a home directory, a command could write where keys go.
    let roots: Vec<PathBuf> = rules.write_roots().filter_map(|root| root.canonicalize().ok()).collect();
    for path in user_paths(settings) {
        rules.check_way_to(&path).map_err(|error| unavailable(&error.into()))?;
        let path = std::path::absolute(&path)?;
        let above = path.ancestors().find_map(|above| above.canonicalize().ok());
        if above.is_none_or(|above| !roots.iter().any(|root| above.starts_with(root))) {
            continue;
        }
        // The folders come first: in them, no file is created afterwards.
        if path.file_name().is_some_and(|name| name == "looptree") {
            std::fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        }
        if let Ok(real) = path.canonicalize() {
            rules = rules.with_read_root(real);
        }
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
    let sandbox = choose(settings, workspace, rules, network).await.map_err(|error| unavailable(&error))?;
    let network = match (network, sandbox.kind()) {
        (true, SandboxKind::Bwrap) => "network access",
        (false, SandboxKind::Bwrap) => "no network",
        (true, _) => "network access without sockets of the file system",
        (false, _) => "no TCP and no sockets of the file system (UDP is not restricted)",
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

async fn choose(
    settings: &Settings,
    workspace: &Workspace,
    rules: SandboxRules,
    network: bool,
) -> Result<Sandbox> {
    let (off, no_tcp) = if network { (Network::Open, Network::Open) } else { (Network::Off, Network::NoTcp) };
    let choice = settings.sandbox.value.unwrap_or(SandboxChoice::None);
    let rules = rules.with_network(if choice == SandboxChoice::Landlock { no_tcp } else { off });
    let sandbox = match choice {
        SandboxChoice::None => return Ok(Sandbox::none()),
        SandboxChoice::Bwrap | SandboxChoice::Auto => Sandbox::bwrap(rules.clone()),
        SandboxChoice::Landlock => Sandbox::landlock(rules.clone()),
    };
    match (sandbox.check().await, choice) {
        (Ok(()), SandboxChoice::Landlock) => Ok(sandbox),
        (Ok(()), _) => Ok(Sandbox::bwrap(protect_settings(rules, workspace)?)),
        (Err(error), SandboxChoice::Auto) => Err(anyhow!("{error}. {ONLY_LANDLOCK}")),
        (Err(error), _) => Err(error.into()),
    }
}

/// What the user gives up by choosing Landlock. It is not chosen for the user.
const ONLY_LANDLOCK: &str = "--sandbox=landlock needs no program, but commands can then use UDP, change modes, owners and times \
    of your files elsewhere, see that they exist, read the arguments of other processes, and change .looptree and .git here";

/// Makes the settings of the project read-only. A missing folder is created, because only an existing one can be.
fn protect_settings(rules: SandboxRules, workspace: &Workspace) -> Result<SandboxRules> {
    let Some(folder) = workspace.root().map(|root| root.join(".looptree")) else { return Ok(rules) };
    match std::fs::symlink_metadata(&folder) {
        // Its target would become readable.
        Ok(found) if found.is_symlink() => Err(anyhow!(
            "{} is a symbolic link, which cannot be protected from commands; replace it by a directory",
            folder.display()
        )),
        Ok(_) => Ok(rules.with_read_root(folder)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            match std::fs::create_dir(&folder) {
                Ok(()) => Ok(rules.with_read_root(folder)),
                // A command cannot create it either.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
                    ) =>
                {
                    Ok(rules)
                }
                Err(error) => Err(error).with_context(|| format!("cannot create {}", folder.display())),
            }
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", folder.display())),
    }
}

/// Returns the folder that a variable names, or the folder with this name in the home.
fn home(variable: &str, name: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let usual = || Some(PathBuf::from(std::env::var_os("HOME")?).join(name));
    named.or_else(usual).filter(|folder| folder.is_absolute() && folder.is_dir())
}
