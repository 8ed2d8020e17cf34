use super::*;

fn problems(files: &[&str]) -> Vec<String> {
    let required = REQUIRED.iter().chain(files);
    unwanted(&required.map(|f| (*f).to_owned()).collect())
}

#[test]
fn a_package_holds_sources_readme_licences_and_what_cargo_generates() {
    assert_eq!(
        problems(&["src/run/tests.rs", "src/schema/1.sql", "Cargo.lock", ".cargo_vcs_info.json"]),
        [""; 0]
    );
}

#[test]
fn a_foreign_file_and_a_missing_one_are_named() {
    let foreign = problems(&["tests/x.rs", "notes.md"]);
    assert_eq!(foreign.len(), 2);
    assert!(
        foreign[0].starts_with("notes.md does not belong") && foreign[1].starts_with("tests/x.rs"),
        "{foreign:?}"
    );
    let missing = unwanted(&BTreeSet::from(["Cargo.toml".to_owned(), "src/lib.rs".to_owned()]));
    assert_eq!(missing, ["LICENSE-APACHE is missing", "LICENSE-MIT is missing", "README.md is missing"]);
}

#[test]
fn packed_files_are_compared_with_their_sources() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let full = folder.path().join(path);
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(full, text).unwrap();
    };
    for file in REQUIRED {
        write(&format!("crates/a/{file}"), "same");
        write(&format!("unpacked/{file}"), if *file == "Cargo.toml" { "rewritten" } else { "same" });
    }
    let metadata: crate::workspace::Metadata = serde_json::from_value(serde_json::json!({
        "packages": [{
            "id": "a", "name": "a", "version": "1.0.0", "manifest_path": folder.path().join("crates/a/Cargo.toml"),
        }],
        "workspace_members": ["a"],
    }))
    .unwrap();
    let unpacked =
        Unpacked { name: "a".into(), version: "1.0.0".into(), folder: folder.path().join("unpacked") };
    let checked = || check(&metadata.packages[0], &unpacked, folder.path()).unwrap();
    assert_eq!(checked(), [""; 0]);
    // A README that comes from the root of the project, as the facade's does.
    write("unpacked/README.md", "of the project");
    assert!(checked()[0].contains("README.md differs"), "{:?}", checked());
    write("README.md", "of the project");
    assert_eq!(checked(), [""; 0]);
    write("unpacked/src/lib.rs", "other");
    assert!(checked()[0].contains("src/lib.rs differs"), "{:?}", checked());
}
