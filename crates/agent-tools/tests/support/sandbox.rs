//! The sandboxes that work on this machine, and who runs on it.

use agent_tools::sandbox::{Network, Sandbox, SandboxRules};

use super::{Folder, skip};

/// Makes a sandbox for a folder.
pub type Make = Box<dyn Fn(&Folder) -> Sandbox>;

/// Rules that every kind of sandbox can keep.
pub fn no_tcp(rules: SandboxRules) -> SandboxRules {
    rules.with_network(Network::NoTcp)
}

/// Each kind that works here; for the others a line says why not.
pub async fn each_sandbox(change: fn(SandboxRules) -> SandboxRules) -> Vec<Make> {
    let mut found: Vec<Make> = Vec::new();
    for kind in [Sandbox::landlock as fn(SandboxRules) -> Sandbox, Sandbox::bwrap] {
        let sandbox = kind(change(SandboxRules::new()));
        match sandbox.check().await {
            Ok(()) => found
                .push(Box::new(move |folder| kind(change(SandboxRules::for_workspace(&folder.workspace))))),
            Err(error) => skip::sandbox(sandbox.kind(), &error),
        }
    }
    found
}

/// The same, and no sandbox before them.
pub async fn none_and_each_sandbox(change: fn(SandboxRules) -> SandboxRules) -> Vec<Make> {
    let mut all: Vec<Make> = vec![Box::new(|_| Sandbox::none())];
    all.extend(each_sandbox(change).await);
    all
}

/// The processes with this text in their environment.
pub fn marked(mark: &str) -> Vec<u32> {
    processes_with("environ", mark)
}

/// The processes with this text among their arguments.
pub fn with_argument(argument: &str) -> Vec<u32> {
    processes_with("cmdline", argument)
}

fn processes_with(file: &str, text: &str) -> Vec<u32> {
    let own = std::process::id();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own && super::runs(*pid))
        .filter(|pid| {
            let held = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            held.windows(text.len()).any(|part| part == text.as_bytes())
        })
        .collect()
}

/// Whether the kernel is at least of this release.
pub fn kernel_at_least(major: u32, minor: u32) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default()) >= (major, minor)
}
