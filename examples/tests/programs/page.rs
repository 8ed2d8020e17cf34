//! The page `docs/examples.md`: it has every example, and shows what the programs print.

use std::collections::BTreeSet;
use std::path::Path;

const COMMAND: &str = "$ cargo run -p looptree-examples --example ";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The names of the examples in the manifest.
fn declared() -> BTreeSet<String> {
    let manifest = read("Cargo.toml");
    let sections = manifest.split("[[example]]\n").skip(1);
    sections.map(|section| section.split('"').nth(1).unwrap().to_owned()).collect()
}

#[test]
fn the_page_has_a_row_for_every_example_and_no_other() {
    let page = read("../docs/examples.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| [`")?.split('`').next());
    let listed: BTreeSet<String> = rows.map(str::to_owned).collect();
    assert_eq!(listed, declared());
}

#[test]
fn the_page_shows_the_first_lines_of_what_the_programs_print() {
    let page = read("../docs/examples.md");
    let mut compared = 0;
    for block in page.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
        let mut lines = block.lines().peekable();
        while let Some(line) = lines.next() {
            let Some(name) = line.strip_prefix(COMMAND) else { continue };
            let name = name.replace(" -- ", "_");
            let Ok(snapshot) =
                std::fs::read_to_string(root().join(format!("tests/snapshots/programs__{name}.snap")))
            else {
                continue;
            };
            let printed = snapshot.splitn(3, "---\n").nth(2).unwrap();
            let mut printed = printed.lines();
            let mut count = 0;
            while let Some(line) = lines.next_if(|line| !line.starts_with('$')) {
                assert_eq!(printed.next(), Some(line), "{name} prints something else than docs/examples.md");
                count += 1;
            }
            assert!(count > 0, "{name} has no output on the page");
            compared += 1;
        }
    }
    assert!(compared >= 12, "only {compared} outputs are on the page");
}

#[test]
fn every_example_says_how_it_is_run_and_most_fit_on_a_page() {
    for name in declared() {
        let path = format!("{name}.rs");
        if !root().join(&path).exists() {
            continue; // a folder of several files
        }
        let text = read(&path);
        assert!(text.contains(&format!("--example {name}`")), "{path} does not say how it is run");
        assert!(text.contains("docs/examples.md"), "{path} does not refer to the page");
        let most = if name == "repl" { 60 } else { 90 };
        assert!(text.lines().count() <= most, "{path} is longer than {most} lines");
    }
}
