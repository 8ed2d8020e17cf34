use std::ffi::OsString;
use std::path::Path;

use super::plan::{Grant, Plan, Roots};
use super::*;

fn plan(rules: &SandboxRules, folder: &Path) -> Plan {
    Plan::new(rules, Some(folder), &Roots::default()).unwrap()
}

#[track_caller]
fn position(args: &[OsString], words: &[&str]) -> usize {
    let at = args.windows(words.len()).position(|window| window == words);
    at.unwrap_or_else(|| panic!("{words:?} is not in {args:?}"))
}

#[test]
fn inner_roots_are_put_in_place_after_outer_ones_and_may_differ_from_them() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let inner = root.join("hooks");
    std::fs::create_dir(&inner).unwrap();
    let rules = SandboxRules::new().with_read_root(&inner).with_write_root(&root);
    let plan = plan(&rules, &root);
    assert_eq!(plan.grant_of(&root.join("a/b")), Some(Grant::Write));
    assert_eq!(plan.grant_of(&inner.join("a")), Some(Grant::Read));
    assert_eq!(plan.grant_of(Path::new("/var/lib/x")), None);
    assert_eq!(plan.read_inside_write(), Some((inner.as_path(), root.as_path())));
    let args = bwrap::arguments(&plan, 7);
    let (root, inner) = (root.to_str().unwrap(), inner.to_str().unwrap());
    assert!(position(&args, &["--bind", root, root]) < position(&args, &["--ro-bind", inner, inner]));
    position(&args, &["--chdir", root, "--"]);
}

#[test]
fn the_network_is_there_only_when_it_is_open() {
    for (network, unshared) in [(Network::Off, true), (Network::NoTcp, true), (Network::Open, false)] {
        let plan = plan(&SandboxRules::new().with_network(network), Path::new("/"));
        let args = bwrap::arguments(&plan, 7);
        assert_eq!(args.iter().any(|arg| arg == "--unshare-net"), unshared, "{network:?}");
    }
}

#[test]
fn a_root_that_is_not_there_and_a_folder_outside_are_errors_that_name_them() {
    let rules = SandboxRules::new().with_write_root("/no/such/root");
    let error = Plan::new(&rules, Some(Path::new("/")), &Roots::default()).unwrap_err().to_string();
    assert!(error.contains("/no/such/root") && error.contains("must exist"), "{error}");
    let outside = tempfile::tempdir().unwrap();
    let error =
        Plan::new(&SandboxRules::new(), Some(outside.path()), &Roots::default()).unwrap_err().to_string();
    assert!(error.contains(outside.path().to_str().unwrap()) && error.contains("with_write_root"), "{error}");
}

#[tokio::test]
async fn a_sandbox_that_is_not_there_is_an_error_and_never_none() {
    let missing = Sandbox::bwrap(SandboxRules::new()).with_program("/no/such/bwrap");
    assert!(matches!(missing.check().await, Err(SandboxError::NoBwrap)));
    let broken = Sandbox::bwrap(SandboxRules::new()).with_program("/bin/false");
    assert!(matches!(broken.check().await, Err(SandboxError::BwrapFails { .. })));
}

#[test]
fn every_folder_between_a_read_root_and_the_write_root_around_it_is_a_mount_point() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let inner = root.join("vendor/lib/.git");
    std::fs::create_dir_all(&inner).unwrap();
    let rules = SandboxRules::new().with_read_root(&inner).with_write_root(&root);
    let plan = plan(&rules, &root);
    let (vendor, lib) = (root.join("vendor"), root.join("vendor/lib"));
    assert_eq!(plan.folders_above_read_roots().collect::<Vec<_>>(), [&*vendor, &*lib]);
    let args = bwrap::arguments(&plan, 7);
    let at = |option, path: &Path| position(&args, &[option, path.to_str().unwrap(), path.to_str().unwrap()]);
    let order = [at("--bind", &root), at("--bind", &vendor), at("--bind", &lib), at("--ro-bind", &inner)];
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn a_root_that_a_command_exchanged_is_an_error_and_grants_nothing() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = folder.path().canonicalize().unwrap();
    let (inner, secret) = (root.join("out"), outside.path().canonicalize().unwrap());
    for rules in [
        SandboxRules::new().with_write_root(&root).with_write_root(&inner),
        SandboxRules::new().with_write_root(&root).with_read_root(&inner),
    ] {
        std::fs::create_dir(&inner).unwrap();
        let roots = Roots::default();
        let plan = Plan::new(&rules, Some(&root), &roots).unwrap();
        assert_ne!(plan.grants.get(&inner), Some(&Grant::Write), "it is in another writable root");
        std::fs::remove_dir(&inner).unwrap();
        std::os::unix::fs::symlink(&secret, &inner).unwrap();
        let error = Plan::new(&rules, Some(&root), &roots).unwrap_err();
        assert!(matches!(error, SandboxError::RootMoved { .. } | SandboxError::LinkInside { .. }), "{error}");
        std::fs::remove_file(&inner).unwrap();
    }
}

#[test]
fn files_that_only_root_can_read_are_not_visible_to_a_child_of_root() {
    let folder = tempfile::tempdir().unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let shadow = Path::new("/etc/shadow");
    if !is_root || !shadow.exists() {
        return;
    }
    let rules = SandboxRules::new().with_write_root(folder.path());
    let usual = plan(&rules, folder.path());
    assert!(usual.hidden.contains(shadow) && !usual.hidden.contains(Path::new("/etc/passwd")));
    position(&bwrap::arguments(&usual, 7), &["--ro-bind", "/dev/null", "/etc/shadow"]);
    // The user can name such a file.
    let named = plan(&rules.with_read_root(shadow), folder.path());
    assert!(!named.hidden.contains(shadow));
}
