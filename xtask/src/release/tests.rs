use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::platform::{Platform, newest_glibc};
use super::*;
use crate::workspace::Metadata;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Packages by name, version, whether they are published, and what they need as `(name, requirement, kind)`.
/// A package: its name, its version, whether it is published, and the names, requirements and kinds of its dependencies.
type PackageRow<'a> = (&'a str, &'a str, bool, &'a [(&'a str, &'a str, Option<&'a str>)]);

fn workspace_of(packages: &[PackageRow<'_>]) -> Metadata {
    let dependencies = |needs: &[(&str, &str, Option<&str>)]| -> Vec<Value> {
        needs.iter().map(|(name, req, kind)| json!({"name": name, "req": req, "kind": kind})).collect()
    };
    let all: Vec<Value> = packages
        .iter()
        .map(|(name, version, published, needs)| {
            let publish = if *published { Value::Null } else { json!([]) };
            json!({"id": name, "name": name, "version": version, "publish": publish, "dependencies": dependencies(needs)})
        })
        .collect();
    let ids: Vec<&str> = packages.iter().map(|(name, ..)| *name).collect();
    serde_json::from_value(json!({"packages": all, "workspace_members": ids})).unwrap()
}

#[test]
fn without_dry_run_the_command_refuses_and_names_the_workflow() {
    let workspace = Workspace::find().unwrap();
    for arguments in ["", "--version 1.0.0"] {
        let error = run(&workspace, &words(arguments)).unwrap_err().to_string();
        assert!(error.contains("publishes nothing") && error.contains("release.yml"), "{error}");
    }
}

#[test]
fn steps_are_selected_by_name_and_a_version_may_be_a_tag() {
    let only = options(&words("--dry-run --version v1.2.3 --only npm,sbom --profile dev")).unwrap();
    assert_eq!(only.version.as_deref(), Some("1.2.3"));
    assert_eq!((only.steps.as_slice(), only.profile.as_str()), (&["sbom", "npm"][..], "dev"));
    let without = options(&words("--dry-run --without semver")).unwrap();
    assert_eq!(without.steps.len(), STEPS.len() - 1);
    let error = options(&words("--dry-run --only brew")).unwrap_err().to_string();
    assert!(error.contains("no step `brew`") && error.contains("checksums"), "{error}");
}

#[test]
fn packages_of_one_version_that_require_exactly_each_other_are_right() {
    let right: &[(&str, &str, Option<&str>)] = &[("core", "=0.2.0", None)];
    let metadata = workspace_of(&[
        ("core", "0.2.0", true, &[("sim", "*", Some("dev"))]),
        ("sim", "0.2.0", true, right),
        ("xtask", "0.0.0", false, &[("core", "*", None)]),
    ]);
    assert_eq!(versions::problems(&metadata, "0.2.0"), [""; 0]);
}

#[test]
fn another_version_another_requirement_and_an_unpublished_dependency_are_named() {
    let metadata = workspace_of(&[
        ("core", "0.1.0", true, &[]),
        (
            "tools",
            "0.2.0",
            true,
            &[("core", "^0.2.0", None), ("serde", "^1", None), ("secret", "=0.2.0", None)],
        ),
        ("secret", "0.2.0", false, &[]),
    ]);
    let expected = [
        "core has version 0.1.0, not 0.2.0",
        "tools requires core ^0.2.0, not =0.2.0",
        "tools needs secret, which is not published",
    ];
    assert_eq!(versions::problems(&metadata, "0.2.0"), expected);
}

#[test]
fn a_package_is_published_after_all_that_it_depends_on() {
    let needs = |name| [(name, "=0.2.0", None)];
    let metadata = workspace_of(&[
        ("a-program", "0.2.0", true, &needs("facade")),
        ("facade", "0.2.0", true, &needs("tools")),
        ("tools", "0.2.0", true, &needs("core")),
        // Without a version the dependency of the tests is not published.
        ("core", "0.2.0", true, &[("tools", "*", Some("dev"))]),
        ("xtask", "0.2.0", false, &needs("core")),
    ]);
    assert_eq!(versions::order(&metadata).unwrap(), ["core", "tools", "facade", "a-program"]);
    let circle = workspace_of(&[
        ("a", "1.0.0", true, &[("b", "=1.0.0", None)]),
        ("b", "1.0.0", true, &[("a", "=1.0.0", Some("dev"))]),
    ]);
    let error = versions::order(&circle).unwrap_err().to_string();
    assert_eq!(error, "these packages depend on each other: a, b");
}

/// REQ-177. The packages of this workspace can be published together, and no default feature of the library brings OpenAPI.
#[test]
fn the_packages_of_this_workspace_have_one_version_an_order_and_no_openapi_by_default() {
    let metadata = Workspace::find().unwrap().metadata(Graph::Default).unwrap();
    let version = &metadata.members().find(|package| package.name == PROGRAM).unwrap().version;
    assert_eq!(versions::problems(&metadata, version), [""; 0]);
    let order = versions::order(&metadata).unwrap();
    assert_eq!(order.first().map(String::as_str), Some("looptree-core"));
    assert_eq!(order.last().map(String::as_str), Some(PROGRAM));

    let library = metadata.members().find(|package| package.name == "looptree").unwrap();
    let mut open = vec!["default"];
    let mut on = BTreeSet::new();
    while let Some(feature) = open.pop() {
        if on.insert(feature) {
            let brings = library.features.get(feature).and_then(Value::as_array);
            open.extend(brings.into_iter().flatten().filter_map(Value::as_str));
        }
    }
    assert!(on.contains("tools") && !on.iter().any(|feature| feature.contains("openapi")), "{on:?}");
    assert!(library.features.contains_key("openapi"));
}

#[test]
fn a_new_version_is_written_to_these_lines() {
    let manifest = "[workspace.package]\nversion = \"0.1.0\"\n\n[workspace.dependencies]\n\
        a = { path = \"crates/a\", version = \"=0.1.0\" }\nother = \"=0.1.0\"\n";
    let expected = ["2: version = \"0.1.0\"", "5: a = { path = \"crates/a\", version = \"=0.1.0\" }"];
    assert_eq!(versions::lines_with_version(manifest, "0.1.0"), expected);
}

#[test]
fn the_changelog_needs_a_section_of_the_version_or_before_the_tag_entries_without_one() {
    let open = "# Changelog\n\n## Unreleased\n\n- One.\n- Two.\n";
    let described = versions::section(open, "0.2.0", false).unwrap();
    assert!(
        described.contains("2 entries below `## Unreleased`") && described.contains("`## 0.2.0 - DATE`"),
        "{described}"
    );
    assert_eq!(
        versions::section(open, "0.2.0", true).unwrap_err(),
        "CHANGELOG.md has no section `## 0.2.0 - DATE`"
    );
    let closed = "## [0.2.0] - 2026-12-01\n\n### Added\n\n- One.\n\n## 0.1.0 - 2026-11-01\n\n- Old.\n";
    for tagged in [true, false] {
        assert_eq!(
            versions::section(closed, "0.2.0", tagged).unwrap(),
            "CHANGELOG.md has 1 entries for 0.2.0"
        );
    }
    let left = format!("{open}\n{closed}");
    assert!(versions::section(&left, "0.2.0", true).unwrap_err().contains("move those"));
    assert!(
        versions::section(&left, "0.2.0", false)
            .unwrap()
            .contains("2 entries below `## Unreleased` for the next")
    );
    assert!(versions::section("## 0.2.0\n\n", "0.2.0", true).unwrap_err().contains("no entry"));
}

#[test]
fn a_target_has_its_names_on_npm_and_pypi() {
    let named = |target: &str, program: &[u8]| {
        let platform = Platform::of(target).unwrap();
        (platform.npm_package(), platform.wheel_tag(program).unwrap())
    };
    let expected = [
        ("x86_64-unknown-linux-gnu", "@looptree/linux-x64", "py3-none-manylinux_2_34_x86_64"),
        ("aarch64-unknown-linux-gnu", "@looptree/linux-arm64", "py3-none-manylinux_2_34_aarch64"),
        ("x86_64-apple-darwin", "@looptree/darwin-x64", "py3-none-macosx_10_12_x86_64"),
        ("aarch64-apple-darwin", "@looptree/darwin-arm64", "py3-none-macosx_11_0_arm64"),
        ("x86_64-pc-windows-msvc", "@looptree/win32-x64", "py3-none-win_amd64"),
    ];
    for (target, package, tag) in expected {
        assert_eq!(named(target, b"\0GLIBC_2.34\0"), (package.to_owned(), tag.to_owned()), "{target}");
        assert!(platform::RELEASED.iter().any(|(os, cpu)| package == format!("@looptree/{os}-{cpu}")));
    }
    let error = Platform::of("x86_64-unknown-linux-musl").unwrap_err().to_string();
    assert!(error.contains("no packages for x86_64-unknown-linux-musl"), "{error}");
}

#[test]
fn the_wheel_needs_the_newest_glibc_that_the_program_links() {
    let program =
        b"\x7fELF\0GLIBC_2.2.5\0GLIBC_2.17\0GLIBC_2.9\0GLIBC_PRIVATE\0text GLIBC_2.99 is no name of a symbol";
    assert_eq!(newest_glibc(program), Some((2, 17)));
    assert_eq!(newest_glibc(b"nothing"), None);
    let linux = Platform::of("x86_64-unknown-linux-gnu").unwrap();
    assert!(linux.wheel_tag(b"static").is_err());
}

fn small_graph() -> Value {
    let package = |name: &str, license: Value| json!({"id": format!("id-{name}"), "name": name, "version": "1.0.0", "license": license, "repository": null});
    let node = |name: &str, deps: &[(&str, Value)]| {
        let deps: Vec<Value> = deps
            .iter()
            .map(|(name, kind)| json!({"pkg": format!("id-{name}"), "dep_kinds": [{"kind": kind}]}))
            .collect();
        json!({"id": format!("id-{name}"), "deps": deps})
    };
    json!({
        "packages": [
            package(PROGRAM, json!("MIT OR Apache-2.0")),
            package("serde", json!("MIT/Apache-2.0")),
            package("cc", json!("MIT")),
        ],
        "resolve": {"nodes": [
            node(PROGRAM, &[("serde", Value::Null), ("cc", json!("build"))]),
            node("serde", &[]),
            node("cc", &[]),
        ]},
    })
}

#[test]
fn the_list_of_crates_has_versions_licences_hashes_and_what_needs_what() {
    let linked = BTreeSet::from([format!("{PROGRAM} 1.0.0"), "serde 1.0.0".to_owned()]);
    let sums = BTreeMap::from([("serde 1.0.0".to_owned(), "ab12".to_owned())]);
    let list = sbom::list(&small_graph(), &linked, &sums, "x86_64-unknown-linux-gnu").unwrap();
    assert_eq!((list["bomFormat"].as_str(), list["specVersion"].as_str()), (Some("CycloneDX"), Some("1.6")));
    let program = &list["metadata"]["component"];
    assert_eq!((&program["type"], &program["name"]), (&json!("application"), &json!(PROGRAM)));
    let expected = json!([{
        "type": "library",
        "bom-ref": "pkg:cargo/serde@1.0.0",
        "name": "serde",
        "version": "1.0.0",
        "hashes": [{"alg": "SHA-256", "content": "ab12"}],
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
        "purl": "pkg:cargo/serde@1.0.0",
    }]);
    assert_eq!(list["components"], expected, "crates of the build are not in the program");
    let needs = |of: &str| {
        let all = list["dependencies"].as_array().unwrap();
        all.iter().find(|entry| entry["ref"] == of).unwrap()["dependsOn"].clone()
    };
    assert_eq!(needs("pkg:cargo/looptree-cli@1.0.0"), json!(["pkg:cargo/serde@1.0.0"]));
    assert_eq!(needs("pkg:cargo/serde@1.0.0"), json!([]));
}

#[test]
fn a_linked_crate_that_cargo_does_not_describe_is_an_error() {
    let linked = BTreeSet::from([format!("{PROGRAM} 1.0.0"), "lost 1.0.0".to_owned()]);
    let error = sbom::list(&small_graph(), &linked, &BTreeMap::new(), "t").unwrap_err().to_string();
    assert!(error.contains("1 of 2"), "{error}");
}

#[test]
fn hashes_come_from_the_lock_file() {
    let lock = "version = 4\n\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"serde\"\nversion = \"1.0.0\"\n\
        source = \"registry+x\"\nchecksum = \"ab12\"\ndependencies = [\n \"other\",\n]\n";
    assert_eq!(sbom::checksums(lock), BTreeMap::from([("serde 1.0.0".to_owned(), "ab12".to_owned())]));
}

#[test]
fn checksums_are_those_that_sha256sum_checks() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("b"), "").unwrap();
    std::fs::write(folder.path().join("a"), "abc").unwrap();
    std::fs::write(folder.path().join("SHA256SUMS"), "old").unwrap();
    std::fs::create_dir(folder.path().join("crates")).unwrap();
    let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n\
        e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n";
    assert_eq!(artifacts::checksums_of(folder.path()).unwrap(), expected);
}

#[test]
fn the_package_of_npm_depends_on_the_program_of_each_platform_in_its_own_version() {
    let root = Workspace::find().unwrap().root;
    let template = std::fs::read_to_string(root.join("packaging/npm/looptree/package.json")).unwrap();
    let manifest: Value =
        serde_json::from_str(&wrappers::launcher_manifest(&template, "1.2.3").unwrap()).unwrap();
    assert_eq!(manifest["version"], "1.2.3");
    assert_eq!(manifest["bin"]["looptree"], "looptree.js");
    let needed = manifest["optionalDependencies"].as_object().unwrap();
    assert_eq!(needed.len(), platform::RELEASED.len());
    assert!(needed.values().all(|version| version == "1.2.3") && needed.contains_key("@looptree/linux-x64"));
}

#[test]
fn a_breaking_release_increases_the_second_number_before_1_0_and_the_first_one_afterwards() {
    for (old, new, breaking) in [
        ("0.1.0", "0.1.1", false),
        ("0.1.9", "0.2.0", true),
        ("0.9.0", "1.0.0", true),
        ("1.0.0", "1.4.0", false),
        ("1.9.0", "2.0.0-rc.1", true),
    ] {
        assert_eq!(semver::is_breaking(old, new), breaking, "{old} to {new}");
    }
}

#[test]
fn a_removed_name_fails_unless_the_release_is_a_breaking_one() {
    let before = "# Page\n\n`not` a name\n\n## The root of `looptree`\n\n| `no` | 1 |\n\nFrom `a`: `One`, `Two`,\n`Three`.\n";
    let now = before.replace("`Two`,", "`New`,");
    let removed = semver::removed(before, &now);
    assert_eq!(removed, ["Two (The root of looptree)"]);
    assert!(
        matches!(semver::judge(&removed, "v0.1.0", "0.1.0", "0.1.1"), Outcome::Failed(text) if text.contains("Two"))
    );
    assert!(matches!(semver::judge(&removed, "v0.1.0", "0.1.0", "0.2.0"), Outcome::Passed(_)));
    assert!(semver::removed(&now, &now).is_empty());
    let manifest = "[workspace]\n\n[workspace.package]\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    assert_eq!(semver::version_of(manifest), Some("0.1.0"));
}

#[test]
fn demos_are_compared_without_paths_and_times() {
    let demo = |path: &str, time: &str| {
        install::normalized(&format!(
            "a demo\nproject: /tmp/{path}\n3 passed; finished in {time}s\nsession: /home/{path}\n"
        ))
    };
    assert_eq!(demo("one", "0.01"), "a demo\n3 passed\n");
    assert_eq!(demo("one", "0.01"), demo("two", "0.52"));
}
