//! Commands that consist of steps: the choice of steps, how each ended, and the closing table.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use anyhow::bail;

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The text states what was found or made.
    Passed(String),
    Failed(String),
    /// It cannot be done on this machine; the text states why.
    Skipped(String),
}

/// A step's name, how it ended, and the time that it took.
pub(crate) type Row = (&'static str, Outcome, Duration);

/// Runs a step and prints its name, and its outcome unless it only passed.
pub(crate) fn play(name: &'static str, step: impl FnOnce() -> anyhow::Result<Outcome>) -> Row {
    say!("\n== {name}");
    let start = Instant::now();
    let outcome = step().unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
    match &outcome {
        Outcome::Passed(what) if what.is_empty() => {}
        Outcome::Passed(what) => say!("{what}"),
        Outcome::Skipped(why) => say!("skipped: {why}"),
        Outcome::Failed(why) => say!("{name} failed: {why}"),
    }
    (name, outcome, start.elapsed())
}

/// Returns those of all steps that `--only A,B` or `--without A,B` leaves.
pub(crate) fn chosen(all: &[&'static str], flag: &str, list: &str) -> anyhow::Result<Vec<&'static str>> {
    let named: Vec<&str> = list.split(',').collect();
    if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
        bail!("there is no step `{unknown}`; the steps are {}", all.join(", "));
    }
    Ok(all.iter().copied().filter(|step| named.contains(step) == (flag == "--only")).collect())
}

/// Returns whether no step failed.
pub(crate) fn succeeded(rows: &[Row]) -> bool {
    !rows.iter().any(|(_, outcome, _)| matches!(outcome, Outcome::Failed(_)))
}

/// Returns a line for each step, with the first line of its text.
pub(crate) fn table(rows: &[Row]) -> String {
    let lines = rows.iter().map(|(name, outcome, time)| {
        let (word, text) = match outcome {
            Outcome::Passed(what) => ("passed", what),
            Outcome::Failed(why) => ("FAILED", why),
            Outcome::Skipped(why) => ("skipped", why),
        };
        let text = text.lines().next().unwrap_or_default();
        let line = format!("{name:<16} {word:<8} {:>7.1} s  {text}", time.as_secs_f64());
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}
