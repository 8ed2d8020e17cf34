//! `cargo xtask bench session`, `store` and `memory`: what sessions cost, against their bounds.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::cargo;

/// The file of a session may be this many times its messages.
const SIZE: f64 = 1.3;
/// The same with short results, where the events are a larger part.
const SIZE_SHORT: f64 = 1.8;
/// Microseconds of CPU that recording may add to a round of workload w2, without flushing.
const ROUND: f64 = 15.0;
/// Runs of each kind that are measured.
const RUNS: usize = 15;
/// Bytes of a tool's result in workload w2, and in the session whose growth is measured.
const W2: &str = "2";
const LONG: &str = "2048";
/// A record of a long run may cost this many times what one of a short run costs.
const GROWTH: f64 = 1.2;
/// Milliseconds for a list or a search in the database.
const ANSWER: f64 = 100.0;
/// The turn from which on the memory of a long run must not grow, and the KiB that it may vary by.
const SETTLED: f64 = 200.0;
const FLAT: f64 = 10_240.0;
/// KiB of memory at most for the directory.
const PEAK: f64 = 65_536.0;

/// Runs of the measurement with many agents.
const MANY_RUNS: usize = 3;
/// Milliseconds between two ticks of a task, while many agents are recorded and a large session is saved.
const GAP: f64 = 20.0;
/// Descriptors of that process: one for each of the 500 sessions that are open at once, and those that are being released.
const DESCRIPTORS: f64 = 600.0;
/// A prompt of a long session may take this many times as long as one of a short session.
const PROMPT_GROWTH: f64 = 1.5;

/// Measures a session of 1,000 turns of 2 KiB: its size, the CPU time of recording, and that a turn's cost does not grow.
pub(super) fn session(root: &Path) -> anyhow::Result<bool> {
    let program = build(root)?;
    let mut good = true;
    let size = ask(&program, &["size", "1000", "2048"])?;
    good &= row("bytes of the file, against its messages, 2 KiB", number(&size, "ratio"), Some(SIZE));
    let size = ask(&program, &["size", "1000", "2"])?;
    good &= row("the same with results of `ok`", number(&size, "ratio"), Some(SIZE_SHORT));
    let cpu = |how: &str, bytes: &str| -> anyhow::Result<f64> {
        let used = ask(&program, &["record", how, "1000", bytes])?;
        Ok((number(&used, "user") + number(&used, "system")) / 1e3)
    };
    // In turns, and the least of each: what else the machine does only adds.
    let added = |how: &str, bytes: &str| -> anyhow::Result<f64> {
        let (mut with, mut without) = (f64::MAX, f64::MAX);
        for _ in 0..RUNS {
            without = without.min(cpu("off", bytes)?);
            with = with.min(cpu(how, bytes)?);
        }
        Ok(with - without)
    };
    good &= row("CPU of recording a round of w2, not flushed, µs", added("json", W2)?, Some(ROUND));
    row("the same, flushed at the end of each turn, µs", added("flushed", W2)?, None);
    row("the same in the database, µs", added("sqlite", W2)?, None);
    row("CPU of recording a round with 2 KiB, not flushed, µs", added("json", LONG)?, None);
    let of = |how: &str, rounds: &str, key: &str| {
        anyhow::Ok(number(&ask(&program, &["record", how, rounds, LONG])?, key))
    };
    for (name, key) in
        [("allocations", "allocations"), ("bytes allocated", "bytes"), ("bytes of journal", "journal")]
    {
        let cost = |rounds: &str| anyhow::Ok(of("json", rounds, key)? - of("off", rounds, key)?);
        let (one, short, long) = (cost("1")?, cost("101")?, cost("1001")?);
        let growth = ((long - one) / 1e3) / ((short - one) / 1e2);
        good &= row(&format!("{name} of a record, turn 1,000 against 100"), growth, Some(GROWTH));
    }
    Ok(good)
}

/// Records a run of 1,000 turns with results of 200 kB and compaction, and checks that its memory does not grow.
pub(super) fn memory(root: &Path) -> anyhow::Result<bool> {
    let program = build(root)?;
    let mut good = true;
    for kind in ["json", "sqlite"] {
        let ran = ask(&program, &["long", kind, "1000", "200000"])?;
        println!("{kind:>6}: turn   resident KiB   live KiB");
        let mut settled: Vec<f64> = Vec::new();
        for sample in ran.get("samples").and_then(Value::as_array).into_iter().flatten() {
            let [turn, resident, live] = ["turn", "resident_kib", "live_kib"].map(|key| number(sample, key));
            println!("{turn:>12} {resident:>14} {live:>10}");
            if turn >= SETTLED {
                settled.push(resident);
            }
        }
        let least = settled.iter().copied().fold(f64::INFINITY, f64::min);
        let most = settled.iter().copied().fold(f64::NAN, f64::max);
        let what = format!("{kind}: growth of the resident memory from turn 200 on, KiB");
        good &= row(&what, most - least, Some(FLAT));
    }
    Ok(good)
}

/// Measures many agents over one recorder, and a store of 10,000 sessions with 100 MB of messages, made under the target
/// directory and removed at the end.
pub(super) fn store(root: &Path) -> anyhow::Result<bool> {
    let program = build(root)?;
    let folder = super::target(root)?.join("session-store");
    let mut good = many(&program)?;
    for kind in ["sqlite", "json"] {
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)?;
        let place = folder.to_str().context("the target directory's name is no text")?;
        ask(&program, &["fill", kind, place, "10000", "100000000"])?;
        let answers = ask(&program, &["ask", kind, place])?;
        let bound = |value: f64| (kind == "sqlite").then_some(value);
        for answer in answers.get("answers").and_then(Value::as_array).into_iter().flatten() {
            let name = answer.get("name").and_then(Value::as_str).unwrap_or_default();
            good &= row(&format!("{kind}: {name}, ms"), number(answer, "ms"), bound(ANSWER));
        }
        good &= row(&format!("{kind}: peak of memory, KiB"), number(&answers, "peak_kib"), Some(PEAK));
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(good)
}

/// 5,000 agents one after the other and 500 at once over one recorder, while a session of 20,000 turns is saved. The program
/// fails if a session is not whole afterwards.
fn many(program: &Path) -> anyhow::Result<bool> {
    let program_name = program.to_str().context("the name of the program is no text")?;
    let limited = "ulimit -n 1024 && exec \"$0\" many 5000 500 20000";
    let mut runs = Vec::new();
    for _ in 0..MANY_RUNS {
        runs.push(ask(Path::new("sh"), &["-c", limited, program_name])?);
    }
    let least = |key: &str| runs.iter().map(|run| number(run, key)).fold(f64::INFINITY, f64::min);
    let most = |key: &str| runs.iter().map(|run| number(run, key)).fold(0.0, f64::max);
    // The least: what else the machine does only adds. The thread shows how much that is.
    let mut good = row("many: longest gap of a ticker of 2 ms, ms", least("gap_ms"), Some(GAP));
    row("many: the same in a thread of its own, ms", least("thread_gap_ms"), None);
    good &= row("many: descriptors", most("descriptors"), Some(DESCRIPTORS));
    row("many: 5,000 agents one after the other, s", least("in_turn_s"), None);
    row("many: 500 agents at once, s", least("at_once_s"), None);
    for kind in ["json", "sqlite"] {
        let growth = |run: &Value| {
            let recorded = run.get("prompts").and_then(|parts| parts.get(0)).unwrap_or(&Value::Null);
            number(recorded, "last") / number(recorded, "first")
        };
        let mut least = f64::INFINITY;
        for _ in 0..MANY_RUNS {
            least = least.min(growth(&ask(program, &["prompts", kind, "5000"])?));
        }
        let what = format!("{kind}: time of a prompt, the last of 5,000 against the first");
        good &= row(&what, least, Some(PROMPT_GROWTH));
    }
    Ok(good)
}

pub(super) fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let arguments = [
        "build",
        "--release",
        "--package",
        "looptree-session",
        "--features",
        "sqlite,pi",
        "--example",
        "session_bench",
    ];
    if !cargo::run(root, &arguments, &[])? {
        bail!("the program that measures could not be built");
    }
    Ok(super::target(root)?.join("release/examples/session_bench"))
}

pub(super) fn ask(program: &Path, arguments: &[&str]) -> anyhow::Result<Value> {
    let output = Command::new(program).args(arguments).output()?;
    if !output.status.success() {
        bail!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("it printed no JSON")
}

fn number(value: &Value, key: &str) -> f64 {
    value.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

fn row(what: &str, value: f64, bound: Option<f64>) -> bool {
    let within = bound.is_none_or(|bound| value <= bound);
    let bound = bound.map_or_else(|| "-".to_owned(), |b| b.to_string());
    let mark = if within { "" } else { "  too much" };
    println!("{what:52} {value:12.2} {bound:>8}{mark}");
    within
}
