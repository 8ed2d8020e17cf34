use std::ffi::OsString;
use std::path::Path;

use super::plan::{Grant, Plan};
use super::*;

fn plan(rules: &SandboxRules, folder: &Path) -> Plan {
    Plan::new(rules, Some(folder)).unwrap()
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
    let error = Plan::new(&rules, Some(Path::new("/"))).unwrap_err().to_string();
    assert!(error.contains("/no/such/root") && error.contains("must exist"), "{error}");
    let outside = tempfile::tempdir().unwrap();
    let error = Plan::new(&SandboxRules::new(), Some(outside.path())).unwrap_err().to_string();
    assert!(error.contains(outside.path().to_str().unwrap()) && error.contains("with_write_root"), "{error}");
}

#[tokio::test]
async fn a_sandbox_that_is_not_there_is_an_error_and_never_none() {
    let missing = Sandbox::bwrap(SandboxRules::new()).with_program("/no/such/bwrap");
    assert!(matches!(missing.check().await, Err(SandboxError::NoBwrap)));
    let broken = Sandbox::bwrap(SandboxRules::new()).with_program("/bin/false");
    assert!(matches!(broken.check().await, Err(SandboxError::BwrapFails { .. })));
}
