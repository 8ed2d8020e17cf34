//! Applies Landlock and the filter of system calls to the calling thread and the processes that it starts.

use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::plan::{Grant, Plan};
use super::seccomp::{self, Beside};
use super::{Network, SandboxError};

/// The oldest Landlock version with sufficient file rules (Linux 6.2). Earlier versions allow truncating a file outside
/// of the roots.
const FILES: ABI = ABI::V3;

/// The newest version whose rules are used if the kernel has it: devices, signals and abstract sockets.
const NEWEST: ABI = ABI::V9;

/// Paths that programs expect to read and write on every system.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Paths that are readable in addition to the roots. Landlock itself protects the memory and the environment of
/// processes outside of the sandbox.
const PROCESSES: &str = "/proc";

/// Restricts the calling thread permanently. Other threads of this process are not affected.
pub(super) fn restrict(plan: &Plan) -> Result<(), SandboxError> {
    if let Some((read, write)) = plan.read_inside_write() {
        return Err(SandboxError::ReadOnlyInside { read: read.to_path_buf(), write: write.to_path_buf() });
    }
    let mut rules = rules(plan.network)?;
    for (path, grant) in &plan.grants {
        rules = allow_visible(rules, path, *grant, plan)?;
    }
    if let Some(private) = &plan.private {
        rules = allow(rules, private.path(), Grant::Write)?;
    }
    for device in DEVICES {
        // These paths may be missing in a container.
        if Path::new(device).exists() {
            rules = allow(rules, Path::new(device), Grant::Write)?;
        }
    }
    rules = allow(rules, Path::new(PROCESSES), Grant::Read)?;
    let status = rules.restrict_self().map_err(refused)?;
    // Rules that need a newer kernel may be missing; the necessary ones were required above.
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        return Err(SandboxError::NotEnforced);
    }
    drop_capabilities()?;
    seccomp::restrict(Beside::Landlock(plan.unix_sockets), plan.network)
}

/// Drops capabilities, because some bypass the rules (`CAP_PERFMON` allows reading the environment of other processes).
/// Programs cannot regain them.
fn drop_capabilities() -> Result<(), SandboxError> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).map_err(|error| SandboxError::SetUp(error.into()))
}

fn rules(network: Network) -> Result<RulesetCreated, SandboxError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(FILES))
        .map_err(refused)?
        .set_compatibility(CompatLevel::BestEffort);
    match network {
        Network::Open => {}
        // The filter of system calls refuses to create such sockets. This also restricts sockets from elsewhere.
        Network::NoTcp | Network::Off => {
            rules = rules.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp).map_err(refused)?;
        }
    }
    rules
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(|rules| rules.scope(Scope::Signal | Scope::AbstractUnixSocket))
        .and_then(Ruleset::create)
        .map_err(refused)
}

/// Allows access to a root except the hidden files below it. A rule covers everything below its folder, so a folder with
/// hidden files gets only the right to be listed, and each of its other entries a rule of its own.
fn allow_visible(
    rules: RulesetCreated,
    path: &Path,
    grant: Grant,
    plan: &Plan,
) -> Result<RulesetCreated, SandboxError> {
    if !plan.hidden.iter().any(|hidden| hidden.starts_with(path)) {
        return allow(rules, path, grant);
    }
    let mut rules = add(rules, path, AccessFs::ReadDir.into())?;
    let root = |source| SandboxError::Root { path: path.to_path_buf(), source };
    for entry in std::fs::read_dir(path).map_err(root)? {
        let (entry, is_link) =
            entry.and_then(|entry| Ok((entry.path(), entry.file_type()?.is_symlink()))).map_err(root)?;
        // The target of a link has its own rule, and an entry may disappear.
        if !is_link && !plan.hidden.contains(&entry) && entry.exists() {
            rules = allow_visible(rules, &entry, grant, plan)?;
        }
    }
    Ok(rules)
}

fn allow(rules: RulesetCreated, path: &Path, grant: Grant) -> Result<RulesetCreated, SandboxError> {
    let root = |source| SandboxError::Root { path: path.to_path_buf(), source };
    let is_folder = std::fs::metadata(path).map_err(root)?.is_dir();
    let rights = match grant {
        Grant::Read => AccessFs::from_read(NEWEST),
        Grant::Write => AccessFs::from_all(NEWEST),
    };
    add(rules, path, if is_folder { rights } else { rights & AccessFs::from_file(NEWEST) })
}

fn add(
    rules: RulesetCreated,
    path: &Path,
    rights: BitFlags<AccessFs>,
) -> Result<RulesetCreated, SandboxError> {
    let place = PathFd::new(path).map_err(|error| SandboxError::Landlock { source: Box::new(error) })?;
    rules.add_rule(PathBeneath::new(place, rights)).map_err(refused)
}

fn refused(error: landlock::RulesetError) -> SandboxError {
    SandboxError::Landlock { source: Box::new(error) }
}
