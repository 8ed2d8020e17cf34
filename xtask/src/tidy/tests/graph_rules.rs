use serde_json::{Value, json};

use super::*;
use crate::workspace::Metadata;

fn package(name: &str, version: &str, rest: &Value) -> Value {
    let mut value = json!({
        "id": format!("{name}@{version}"),
        "name": name,
        "version": version,
        "license": "MIT OR Apache-2.0",
        "source": null,
    });
    for (key, part) in rest.as_object().unwrap() {
        value[key] = part.clone();
    }
    value
}

fn metadata(packages: &[Value]) -> Metadata {
    let members: Vec<&Value> = packages.iter().filter(|p| p["source"].is_null()).map(|p| &p["id"]).collect();
    let built: Vec<String> = packages.iter().map(|p| p["id"].as_str().unwrap().replace('@', " ")).collect();
    serde_json::from_value(json!({ "packages": packages, "workspace_members": members, "built": built }))
        .unwrap()
}

#[track_caller]
fn check_members(name: &str, dependency: &Value, expected: &[&str]) {
    let graph = metadata(&[
        package(name, "0.1.0", &json!({ "dependencies": [dependency] })),
        package("looptree-tools", "0.1.1", &json!({})),
    ]);
    let mut findings = Vec::new();
    graph::members(&graph, &mut findings);
    assert_eq!(findings.iter().map(|f| f.rule).collect::<Vec<_>>(), expected);
}

#[test]
fn agent_core_depends_on_its_list_only_and_without_io_features() {
    check_members("looptree-core", &json!({"name": "serde"}), &[]);
    check_members("looptree-core", &json!({"name": "reqwest"}), &["core-dependencies"]);
    check_members("looptree-core", &json!({"name": "tokio", "features": ["sync", "macros"]}), &[]);
    check_members("looptree-core", &json!({"name": "tokio", "features": ["net"]}), &["core-dependencies"]);
    check_members("looptree-core", &json!({"name": "proptest", "kind": "dev"}), &[]);
    check_members("looptree-core", &json!({"name": "looptree-core", "kind": "dev"}), &[]);
}

#[test]
fn siblings_do_not_know_each_other() {
    check_members("looptree-session", &json!({"name": "looptree-core"}), &[]);
    check_members("looptree-session", &json!({"name": "looptree-tools", "kind": "dev"}), &["layers"]);
    check_members("looptree-providers", &json!({"name": "looptree"}), &["layers"]);
    check_members("looptree", &json!({"name": "looptree-tools"}), &[]);
    check_members("looptree-core", &json!({"name": "looptree-tools", "kind": "dev"}), &["layers"]);
}

#[track_caller]
fn check_packages(packages: &[Value], expected: &[&str]) {
    let mut findings = Vec::new();
    graph::packages(&metadata(packages), &mut findings);
    assert_eq!(findings.iter().map(|f| f.rule).collect::<Vec<_>>(), expected);
}

#[test]
fn licences_sources_and_bans_are_read_from_the_graph() {
    let registry = "registry+https://github.com/rust-lang/crates.io-index";
    check_packages(&[package("serde", "1.0.0", &json!({"source": registry}))], &[]);
    check_packages(
        &[package("x", "1.0.0", &json!({"source": registry, "license": "GPL-3.0"}))],
        &["licences"],
    );
    check_packages(&[package("x", "1.0.0", &json!({"source": registry, "license": null}))], &["licences"]);
    check_packages(&[package("x", "1.0.0", &json!({"source": "git+https://example.com/x"}))], &["sources"]);
    check_packages(&[package("reqwest-eventsource", "0.6.0", &json!({"source": registry}))], &["bans"]);
    check_packages(&[package("ring", "0.17.0", &json!({"source": registry}))], &["bans"]);
}

#[test]
fn there_is_one_http_stack() {
    let one = package("reqwest", "0.13.5", &json!({}));
    let other = package("reqwest", "0.12.28", &json!({}));
    check_packages(std::slice::from_ref(&one), &[]);
    check_packages(&[one, other], &["single-version"]);
}

#[test]
fn the_systems_tls_does_not_come_by_itself() {
    let mut findings = Vec::new();
    graph::default_packages(&metadata(&[package("openssl-sys", "0.9.0", &json!({}))]), &mut findings);
    assert_eq!(findings.iter().map(|f| f.rule).collect::<Vec<_>>(), ["bans"]);
}

#[test]
fn packages_that_no_feature_reaches_are_not_looked_at() {
    let mut graph = metadata(&[package("ring", "0.17.0", &json!({}))]);
    graph.built.clear();
    let mut findings = Vec::new();
    graph::packages(&graph, &mut findings);
    assert_eq!(findings, []);
}
