//! `cargo xtask bench travel`: how the time of each operation on a loaded session grows with the session.

use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use super::sessions::{ask, build};

/// The numbers of turns.
const SIZES: [&str; 4] = ["2500", "5000", "10000", "20000"];
/// How the turns are distributed over loops; `examples/session_bench.rs` knows these names.
const SHAPES: [&str; 6] =
    ["one loop", "loops", "loops without base", "rewinds", "one group", "groups of ten"];
/// The exponent of the time as a power of the number of turns.
const EXPONENT: f64 = 1.15;
/// Seconds at the largest size.
const SECONDS: f64 = 0.5;
/// Below these seconds at the largest size, the clock is too coarse for an exponent.
const MEASURABLE: f64 = 1e-3;

/// Measures every operation at each size, and checks the fitted exponent and the time at the largest size.
pub(super) fn travel(root: &Path) -> anyhow::Result<bool> {
    let program = build(root)?;
    let mut good = true;
    for shape in SHAPES {
        println!("\n{shape:24} {:>10} {:>10} {:>10}", "2,500 ms", "20,000 ms", "exponent");
        let mut arguments = vec!["travel", shape];
        arguments.extend(SIZES);
        let measured = ask(&program, &arguments)?;
        for operation in measured.get("operations").and_then(Value::as_array).into_iter().flatten() {
            let name = operation.get("name").and_then(Value::as_str).unwrap_or_default();
            let seconds = operation.get("seconds").and_then(Value::as_array).context("no times")?;
            let seconds: Vec<f64> = seconds.iter().filter_map(Value::as_f64).collect();
            good &= row(name, &seconds);
        }
    }
    println!("\nexponents at most {EXPONENT}, where the largest takes 1 ms or more; at most {SECONDS} s");
    Ok(good)
}

fn row(name: &str, seconds: &[f64]) -> bool {
    let (first, last) =
        (seconds.first().copied().unwrap_or(f64::NAN), seconds.last().copied().unwrap_or(f64::NAN));
    let exponent = (last >= MEASURABLE).then(|| exponent(seconds));
    let within = last <= SECONDS && exponent.is_none_or(|exponent| exponent <= EXPONENT);
    let shown = exponent.map_or_else(|| "-".to_owned(), |exponent| format!("{exponent:.2}"));
    let mark = if within { "" } else { "  too much" };
    println!("{name:24} {:10.3} {:10.3} {shown:>10}{mark}", first * 1e3, last * 1e3);
    within
}

/// The slope of the line through the logarithms of sizes and times, by least squares.
fn exponent(seconds: &[f64]) -> f64 {
    let sizes = SIZES.iter().filter_map(|size| size.parse::<f64>().ok());
    let points: Vec<(f64, f64)> =
        sizes.zip(seconds).map(|(size, seconds)| (size.ln(), seconds.ln())).collect();
    let number = points.iter().map(|_| 1.0).sum::<f64>();
    let (x, y) = points.iter().fold((0.0, 0.0), |sum, p| (sum.0 + p.0 / number, sum.1 + p.1 / number));
    let (above, below) =
        points.iter().fold((0.0, 0.0), |sum, p| (sum.0 + (p.0 - x) * (p.1 - y), sum.1 + (p.0 - x).powi(2)));
    above / below
}

#[cfg(test)]
mod tests;
