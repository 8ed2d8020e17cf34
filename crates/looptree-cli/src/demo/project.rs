//! The small project with a bug that the demonstration repairs.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

const MANIFEST: &str = "[package]
name = \"stats\"
version = \"0.1.0\"
edition = \"2024\"

[workspace]
";

/// The median of an even number of values is the mean of the middle two; this takes one of them.
const LIBRARY: &str = "//! Small statistics over numbers.

/// The arithmetic mean; `None` for no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

/// The median; `None` for no values.
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    Some(sorted[middle])
}
";

const TESTS: &str = "use stats::{mean, median};

#[test]
fn the_mean_of_nothing_is_nothing() {
    assert_eq!(mean(&[]), None);
}

#[test]
fn the_median_of_three_is_the_middle_one() {
    assert_eq!(median(&[9.0, 1.0, 4.0]), Some(4.0));
}

#[test]
fn the_median_of_four_lies_between_the_middle_two() {
    assert_eq!(median(&[1.0, 2.0, 4.0, 8.0]), Some(3.0));
}
";

/// Writes the project into a new directory that stays.
pub(crate) fn write() -> Result<PathBuf> {
    let root = tempfile::Builder::new()
        .prefix("looptree-demo-")
        .tempdir()
        .context("cannot make a directory for the demonstration")?
        .keep();
    let files = [("Cargo.toml", MANIFEST), ("src/lib.rs", LIBRARY), ("tests/stats.rs", TESTS)];
    for (name, text) in files {
        let path = root.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    // The session's own files are not part of the project.
    fs::write(root.join(".gitignore"), "/target\n").context("cannot write .gitignore")?;
    root.canonicalize().context("cannot find the project again")
}
