//! The list of the crates in the program, in the JSON form of CycloneDX 1.6.
//!
//! It is made from cargo's own data: `cargo tree` for what is linked, `cargo metadata` for licences, `Cargo.lock` for hashes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::{Map, Value, json};

use super::{Outcome, PROGRAM, Release, answers, printed};
use crate::cargo;
use crate::workspace::name_and_version;

/// The version of the format.
const SPEC: &str = "1.6";

/// The validator of the format's schema, from PyPI.
const VALIDATOR: &str = "cyclonedx-python-lib[json-validation]==11.12.0";

/// Prints nothing and ends with 0 if the file of its argument is valid.
const VALIDATE: &str = "\
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())
sys.exit(0 if found is None else f'the schema refuses the file: {found}')
";

/// Writes the list and validates it.
pub(super) fn write(release: &Release<'_>) -> anyhow::Result<Outcome> {
    let root = &release.workspace.root;
    let target = release.platform.target.as_str();
    let tree = [
        "tree",
        "--locked",
        "--offline",
        "-p",
        PROGRAM,
        "-e",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ];
    let tree = text(root, &[&tree[..], &["--target", target]].concat())?;
    let linked: BTreeSet<String> = tree.lines().filter_map(name_and_version).collect();
    let metadata =
        ["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", target];
    let metadata = serde_json::from_str(&text(root, &metadata)?).context("cargo metadata printed no JSON")?;
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let list = list(&metadata, &linked, &checksums(&lock), target)?;
    let file = release.folder.join(format!("{}.cdx.json", release.stem()));
    std::fs::write(&file, serde_json::to_string_pretty(&list)? + "\n").context("cannot write the list")?;
    let validated = validate(root, &file)?;
    Ok(Outcome::Passed(format!("{} crates; {validated}", linked.len())))
}

fn text(root: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output = cargo::output(root, arguments)?;
    ensure!(
        output.status.success(),
        "cargo {} failed: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).context("cargo printed something that is not UTF-8")
}

/// The SHA-256 of each package of the registry, by name and version.
pub(super) fn checksums(lock: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let value = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(key))?;
            Some(line.strip_prefix(" = \"")?.trim_end_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(sum)) = (value("name"), value("version"), value("checksum")) {
            all.insert(format!("{name} {version}"), sum);
        }
    }
    all
}

/// Makes the list of the packages `linked`, each `name version`.
pub(super) fn list(
    metadata: &Value,
    linked: &BTreeSet<String>,
    checksums: &BTreeMap<String, String>,
    target: &str,
) -> anyhow::Result<Value> {
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    // The addresses of the packages that are linked, by cargo's identifiers.
    let mut known: BTreeMap<&str, String> = BTreeMap::new();
    let mut components: BTreeMap<String, Value> = BTreeMap::new();
    for package in packages {
        let member = |name: &str| package[name].as_str().unwrap_or_default();
        let key = format!("{} {}", member("name"), member("version"));
        if !linked.contains(&key) {
            continue;
        }
        let address = format!("pkg:cargo/{}@{}", member("name"), member("version"));
        let mut component = Map::new();
        let kind = if member("name") == PROGRAM { "application" } else { "library" };
        component.insert("type".to_owned(), json!(kind));
        component.insert("bom-ref".to_owned(), json!(address));
        component.insert("name".to_owned(), package["name"].clone());
        component.insert("version".to_owned(), package["version"].clone());
        if let Some(sum) = checksums.get(&key) {
            component.insert("hashes".to_owned(), json!([{"alg": "SHA-256", "content": sum}]));
        }
        if let Some(licence) = package["license"].as_str() {
            // The form of old manifests, in which a slash means a choice.
            let expression = licence.replace('/', " OR ");
            component.insert("licenses".to_owned(), json!([{"expression": expression}]));
        }
        component.insert("purl".to_owned(), json!(address));
        if let Some(repository) = package["repository"].as_str() {
            component.insert("externalReferences".to_owned(), json!([{"type": "vcs", "url": repository}]));
        }
        known.insert(member("id"), address);
        components.insert(key, Value::Object(component));
    }
    ensure!(
        components.len() == linked.len(),
        "cargo metadata does not have all packages of cargo tree: {} of {}",
        components.len(),
        linked.len()
    );
    let dependencies = dependencies(metadata, &known);
    let program = components.keys().find(|key| key.split(' ').next() == Some(PROGRAM)).cloned();
    let program = program.and_then(|key| components.remove(&key)).context("the program is not linked")?;
    Ok(json!({
        "$schema": format!("http://cyclonedx.org/schema/bom-{SPEC}.schema.json"),
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "version": 1,
        "metadata": {
            "tools": {"components": [{"type": "application", "name": "cargo xtask release"}]},
            "component": program,
            "properties": [{"name": "looptree:target", "value": target}],
        },
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": dependencies,
    }))
}

/// What each linked package needs of the others, apart from builds and tests.
fn dependencies(metadata: &Value, known: &BTreeMap<&str, String>) -> Vec<Value> {
    let address = |id: &Value| known.get(id.as_str()?).map(String::as_str);
    let mut all = BTreeMap::new();
    for node in metadata["resolve"]["nodes"].as_array().into_iter().flatten() {
        let Some(of) = address(&node["id"]) else { continue };
        let mut needed = BTreeSet::new();
        for dependency in node["deps"].as_array().into_iter().flatten() {
            let kinds = dependency["dep_kinds"].as_array();
            if kinds.into_iter().flatten().any(|kind| kind["kind"].is_null()) {
                needed.extend(address(&dependency["pkg"]));
            }
        }
        all.insert(of, needed);
    }
    all.into_iter().map(|(of, needed)| json!({"ref": of, "dependsOn": needed})).collect()
}

/// Checks the file against the schema, with a validator from PyPI. Returns what was checked, or why it was not.
fn validate(root: &Path, file: &Path) -> anyhow::Result<String> {
    if !answers("python3", "--version") {
        return Ok("skipped: python3 is missing, so the schema was not checked".to_owned());
    }
    let folder = root.join("target/release-tools").join("cyclonedx");
    let python = folder.join("bin/python");
    if !python.is_file()
        || printed(Command::new(&python).args(["-c", "import cyclonedx.validation.json, jsonschema"]))
            .is_err()
    {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(&folder);
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", VALIDATOR]);
        if let Err(error) = printed(&mut venv).and_then(|_| printed(&mut pip)) {
            say!("{error:#}");
            return Ok(format!("skipped: {VALIDATOR} cannot be installed, so the schema was not checked"));
        }
    }
    printed(Command::new(&python).args(["-c", VALIDATE]).arg(file))?;
    Ok(format!("valid by the schema of CycloneDX {SPEC}"))
}
