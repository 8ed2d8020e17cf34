//! Creates tools from third-party descriptions, and calls every operation of a test server.
//!
//! ```text
//! cargo run -p looptree-tools --features openapi --example openapi_real_specs -- petstore.json api.github.com.json
//! ```
//!
//! Prints a line for each description. The exit code is 1 if a request differs from its description. A folder means all
//! `.json` and `.yaml` files below it. The module `check`, which the crate's tests use as well, defines the check.
//! Tested with `@readme/oas-examples` 8.2.2 and `@octokit/openapi` 23.0.2 of npm.
#![allow(clippy::print_stdout, reason = "what a program is for")]

#[path = "check/mod.rs"]
mod check;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The maximum number of differences that are printed for one description.
const TOLD: usize = 5;

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut files = Vec::new();
    for argument in std::env::args_os().skip(1).filter(|argument| argument != "--warnings") {
        collect(Path::new(&argument), &mut files)?;
    }
    let (mut failed, mut refused, mut operations) = (0_usize, 0_usize, 0_usize);
    for file in &files {
        let text = std::fs::read_to_string(file)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        match check::description(&text).await {
            Ok(found) => {
                let word = if found.differences.is_empty() { "passed" } else { "FAILED" };
                println!(
                    "{name:<36} {word}  {} operations, {} arguments, {} not tried, {} warnings",
                    found.operations,
                    found.arguments,
                    found.untried,
                    found.warnings.len()
                );
                for difference in found.differences.iter().take(TOLD) {
                    println!("    FAILED {difference}");
                }
                if std::env::args_os().any(|argument| argument == "--warnings") {
                    found.warnings.iter().for_each(|warning| println!("    {warning}"));
                }
                failed += usize::from(!found.differences.is_empty());
                operations += found.operations;
            }
            Err(why) => {
                println!("{name:<36} refused {why}");
                refused += 1;
            }
        }
    }
    println!("\n{} descriptions, {operations} operations, {refused} refused, {failed} failed", files.len());
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if path.is_dir() {
        let mut inner: Vec<PathBuf> = std::fs::read_dir(path)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        inner.sort();
        inner.retain(|path| {
            path.is_dir() || path.extension().is_some_and(|kind| kind == "json" || kind == "yaml")
        });
        return inner.iter().try_for_each(|path| collect(path, files));
    }
    files.push(path.to_owned());
    Ok(())
}
