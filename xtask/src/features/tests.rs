use serde_json::json;

use super::*;

fn workspace_of(name: &str, features: &serde_json::Value) -> Metadata {
    serde_json::from_value(json!({
        "packages": [{"id": "a", "name": name, "version": "0.1.0", "features": features}],
        "workspace_members": ["a"],
    }))
    .unwrap()
}

#[track_caller]
fn tried(metadata: &Metadata, native_tls: bool) -> Vec<String> {
    combinations(metadata, native_tls, Scope::Each).iter().map(|c| c.arguments.join(" ")).collect()
}

#[test]
fn a_library_is_tried_bare_with_each_feature_and_with_all() {
    let metadata = workspace_of("looptree-core", &json!({"default": ["a"], "a": [], "b": []}));
    let expected = [
        "--no-default-features",
        "--no-default-features --features a",
        "--no-default-features --features b",
        "--no-default-features --features a,b",
    ];
    assert_eq!(tried(&metadata, true), expected);
}

#[test]
fn ci_tries_the_facade_bare_only() {
    let features = json!({"default": ["tools"], "tools": [], "session": []});
    let tried = |name: &str| -> Vec<String> {
        let all = combinations(&workspace_of(name, &features), true, Scope::Facade);
        all.iter().map(|c| c.arguments.join(" ")).collect()
    };
    assert_eq!(tried("looptree"), ["--no-default-features"]);
    assert_eq!(tried("looptree-core"), Vec::<String>::new());
}

#[test]
fn the_facade_is_tried_with_its_defaults_and_with_the_pairs_it_has() {
    let metadata = workspace_of("looptree", &json!({"default": [], "tools": [], "session": []}));
    let all = tried(&metadata, true);
    assert!(all.contains(&String::new()), "{all:?}");
    assert!(all.contains(&"--no-default-features --features tools,session".to_owned()), "{all:?}");
    assert!(!all.iter().any(|a| a.contains("ollama")), "{all:?}");
}

#[test]
fn the_systems_tls_is_left_out_where_it_cannot_be_built_also_when_another_feature_brings_it() {
    let features = json!({"tls-native": ["reqwest?/native-tls"], "full": ["a", "tls-native"], "a": []});
    let metadata = workspace_of("looptree-providers", &features);
    let all = tried(&metadata, false);
    assert!(all.iter().all(|a| !a.contains("tls-native") && !a.contains("full")), "{all:?}");
    assert_eq!(join_all(&metadata, false), "looptree-providers/a");
    assert!(join_all(&metadata, true).contains("looptree-providers/tls-native"));
}

#[test]
fn programs_are_not_tried_feature_by_feature() {
    let mut metadata = workspace_of("xtask", &json!({"a": []}));
    metadata.packages[0].publish = Some(Vec::new());
    assert_eq!(tried(&metadata, true), Vec::<String>::new());
}
