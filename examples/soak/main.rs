//! An agent that works on a repository over and over, with a model that follows a script, and what that leaves behind.
//!
//! `cargo xtask soak` starts it on a copy of this project. Each round is a whole run: searching, listing, reading, a command, a
//! command that is killed by its time-out and had started others, writing, editing, two sub-agents at once; the session
//! is recorded, closed, read back and deleted. After each round the process is measured: memory, descriptors, processes, files.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program that measures, not a library")]

mod measure;
mod round;
mod verdict;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use measure::Sample;
use verdict::Verdict;

/// How often a line is printed.
const LINES: u32 = 20;

fn main() -> Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [repository, scratch, seconds] = words.as_slice() else {
        bail!(
            "soak REPOSITORY SCRATCH SECONDS: a copy that may be changed, a folder for sessions and temporary files"
        );
    };
    let (repository, scratch) = (PathBuf::from(repository), PathBuf::from(scratch));
    let time = Duration::from_secs(seconds.parse().context("SECONDS is a number")?);
    if !cfg!(target_os = "linux") {
        println!("skipped: what a process holds is read from /proc, which only Linux has");
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let samples = runtime.block_on(soak(&repository, &scratch, time))?;
    let verdict = Verdict::of(&samples);
    println!("\n{verdict}");
    Ok(if verdict.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Rounds until the time is over.
async fn soak(
    repository: &std::path::Path,
    scratch: &std::path::Path,
    time: Duration,
) -> Result<Vec<Sample>> {
    println!(
        "{:>7} {:>7} {:>11} {:>12} {:>10} {:>6} {:>8}",
        "seconds", "rounds", "memory", "descriptors", "processes", "files", "threads"
    );
    let start = Instant::now();
    let mut samples: Vec<Sample> = Vec::new();
    let mut next_line = Duration::ZERO;
    while start.elapsed() < time || samples.is_empty() {
        round::run(repository, scratch, samples.len()).await?;
        let sample = measure::sample(repository, scratch).await?;
        samples.push(sample);
        if start.elapsed() >= next_line || start.elapsed() >= time {
            let Sample { resident, descriptors, processes, files, threads } = sample;
            let kib = format!("{} KiB", resident / 1024);
            let (seconds, rounds) = (start.elapsed().as_secs(), samples.len());
            println!(
                "{seconds:>7} {rounds:>7} {kib:>11} {descriptors:>12} {processes:>10} {files:>6} {threads:>8}"
            );
            next_line += time / LINES;
        }
    }
    Ok(samples)
}
