use super::*;

fn packages() -> Vec<Unpacked> {
    let one = |name: &str| Unpacked {
        name: name.to_owned(),
        version: "0.1.0".to_owned(),
        folder: Path::new("unpacked").join(name),
    };
    vec![one("looptree"), one("looptree-core"), one("looptree-session")]
}

#[test]
fn single_crates_keep_their_library_names_and_the_facade_stands_alone() {
    let single = single_manifest(&packages());
    let expected =
        "agent-core = { package = \"looptree-core\", version = \"=0.1.0\", features = [\"testing\"] }\n";
    assert!(
        single.contains(expected) && single.contains("agent-session = { package = \"looptree-session\""),
        "{single}"
    );
    assert!(!single.contains("\nlooptree"), "{single}");
    let facade = facade_manifest(&packages());
    assert!(facade.ends_with("[dependencies]\nlooptree = \"=0.1.0\"\n"), "{facade}");
}

#[test]
fn every_package_is_patched_and_every_readme_but_the_facades_is_compiled() {
    let manifest = workspace_manifest(&packages());
    for name in ["looptree", "looptree-core", "looptree-session"] {
        assert!(manifest.contains(&format!("\n{name} = {{ path = \"unpacked")), "{manifest}");
    }
    let readmes = readmes(&packages());
    assert_eq!(readmes.matches("include_str!").count(), 2, "{readmes}");
}
