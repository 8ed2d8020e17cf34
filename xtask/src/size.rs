//! `cargo xtask size`: computes what a number of durable sessions needs from the measured costs of a step and of a prompt,
//! and simulates the busiest minutes.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;

use anyhow::{Context as _, bail};

/// CPU time of a step of the worker and of the server in microseconds, as `cargo xtask bench durable` prints it.
const STEP_CPU_US: f64 = 300.0;

/// Steps of a prompt of the mix: a model call and a group of calls in each of four rounds, the last reply, and the end.
const STEPS_OF_PROMPT: u32 = 10;

/// Bytes that a prompt of the mix adds to the journal, which the server keeps for the retention time, and to the state of the
/// session: `bench::what_a_session_stores` of looptree-restate prints them for ten prompts.
const JOURNAL_OF_PROMPT: f64 = 374_000.0;
const STATE_OF_PROMPT: f64 = 98_500.0;

/// Mean times of a model call and of a tool call in seconds.
const MODEL_SECONDS: f64 = 6.0;
const TOOL_SECONDS: f64 = 0.5;

/// The part of a core that steps may use on average in the busiest hour.
const UTILIZATION: f64 = 0.5;

/// The busiest hour has this many times the prompts of the mean hour.
const PEAK: f64 = 3.0;

/// How many simulated minutes are counted, after as many that only fill the system.
const MINUTES: f64 = 3.0;

/// What the command line asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Mix {
    sessions: f64,
    /// Prompts of a session a day.
    prompts: f64,
    /// Days for which the server keeps journals.
    retention: f64,
    /// Days for which sessions are kept.
    days: f64,
    /// Price of a core for an hour, and of a gigabyte for a month.
    core_hour: f64,
    gigabyte_month: f64,
}

const MIX: Mix = Mix {
    sessions: 10_000.0,
    prompts: 10.0,
    retention: 1.0,
    days: 30.0,
    core_hour: 0.05,
    gigabyte_month: 0.10,
};

/// What the sessions of a mix need.
#[derive(Debug, Clone, PartialEq)]
struct Need {
    mean_steps: f64,
    peak_steps: f64,
    cores: u32,
    journal_gigabytes: f64,
    state_gigabytes: f64,
    money_a_day: f64,
}

/// What happens in the simulated minutes.
#[derive(Debug, Clone, PartialEq)]
struct Simulated {
    steps: usize,
    most_runs: usize,
    busy: f64,
    median_wait_us: u64,
    slowest_percent_wait_us: u64,
}

/// Prints the figures for the numbers of sessions that the command line names, or for 10,000 and 1,000,000.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<bool> {
    let mix = mix(arguments)?;
    let sessions = match arguments.iter().any(|word| word == "--sessions") {
        true => vec![mix.sessions],
        false => vec![10_000.0, 1_000_000.0],
    };
    say!("{}", table(mix, &sessions));
    Ok(true)
}

/// Returns the figures as a table of Markdown.
fn table(mix: Mix, sessions: &[f64]) -> String {
    let rows: Vec<_> = sessions
        .iter()
        .map(|sessions| {
            let mix = Mix { sessions: *sessions, ..mix };
            let need = need(mix);
            let simulated = simulate(need.peak_steps / f64::from(STEPS_OF_PROMPT), need.cores);
            (mix, need, simulated)
        })
        .collect();
    let mut text = String::from("| |");
    for (mix, ..) in &rows {
        let _ = write!(text, " {} sessions |", count(mix.sessions));
    }
    text.push_str("\n|---|");
    text.push_str(&"---:|".repeat(rows.len()));
    let mut row = |name: &str, value: &dyn Fn(&(Mix, Need, Simulated)) -> String| {
        let _ = write!(text, "\n| {name} |");
        for each in &rows {
            let _ = write!(text, " {} |", value(each));
        }
    };
    row("prompts a day", &|(mix, ..)| count(mix.sessions * mix.prompts));
    row("steps a second, mean", &|(_, need, _)| count(need.mean_steps));
    row("steps a second, busiest hour", &|(_, need, _)| count(need.peak_steps));
    row("cores for workers and server", &|(_, need, _)| need.cores.to_string());
    row("journal", &|(_, need, _)| gigabytes(need.journal_gigabytes));
    row("state of the sessions", &|(_, need, _)| gigabytes(need.state_gigabytes));
    row("money a day", &|(_, need, _)| format!("{:.0}", need.money_a_day.max(1.0)));
    row("simulated: runs at once", &|(.., simulated)| count(simulated.most_runs as f64));
    row("simulated: use of the cores", &|(.., simulated)| format!("{:.0} %", simulated.busy * 100.0));
    row("simulated: wait of a step for a core, median", &|(.., simulated)| {
        milliseconds(simulated.median_wait_us)
    });
    row("simulated: the same, slowest percent", &|(.., simulated)| {
        milliseconds(simulated.slowest_percent_wait_us)
    });
    text
}

fn need(mix: Mix) -> Need {
    let prompts_a_day = mix.sessions * mix.prompts;
    let mean_steps = prompts_a_day * f64::from(STEPS_OF_PROMPT) / 86_400.0;
    let peak_steps = mean_steps * PEAK;
    let cores = (peak_steps * STEP_CPU_US / 1e6 / UTILIZATION).ceil().max(2.0);
    let journal_gigabytes = prompts_a_day * mix.retention * JOURNAL_OF_PROMPT / 1e9;
    let state_gigabytes = prompts_a_day * mix.days * STATE_OF_PROMPT / 1e9;
    let disk = (journal_gigabytes + state_gigabytes) * mix.gigabyte_month / 30.0;
    let money_a_day = cores * 24.0 * mix.core_hour + disk;
    Need { mean_steps, peak_steps, cores: cores as u32, journal_gigabytes, state_gigabytes, money_a_day }
}

/// Random numbers of a fixed seed, so that the figures are the same everywhere.
struct Random(u64);

impl Random {
    /// Returns a time with this mean, exponentially distributed, in microseconds.
    fn exponential_us(&mut self, mean_seconds: f64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = ((self.0 >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
        (-unit.ln() * mean_seconds * 1e6) as u64
    }
}

/// Lets prompts arrive at random with this rate. Each of their steps waits for a free core, occupies it, and then waits for
/// its model or its tool.
fn simulate(prompts_a_second: f64, cores: u32) -> Simulated {
    let mut random = Random(1);
    let (filled, end) = ((MINUTES * 60e6) as u64, (2.0 * MINUTES * 60e6) as u64);
    let mut free: BinaryHeap<Reverse<u64>> = (0..cores).map(|_| Reverse(0)).collect();
    // The time of the event and the steps that the run has left; none for the arrival of a prompt.
    let mut events = BinaryHeap::from([Reverse((random.exponential_us(1.0 / prompts_a_second), 0, true))]);
    let (mut waits, mut runs, mut most_runs, mut occupied) = (Vec::new(), 0_usize, 0, 0_u64);
    while let Some(Reverse((now, left, arrival))) = events.pop() {
        if now > end {
            break;
        }
        if arrival {
            runs += 1;
            most_runs = most_runs.max(if now > filled { runs } else { 0 });
            events.push(Reverse((now, STEPS_OF_PROMPT, false)));
            events.push(Reverse((now + random.exponential_us(1.0 / prompts_a_second), 0, true)));
            continue;
        }
        if left == 0 {
            runs -= 1;
            continue;
        }
        let Some(Reverse(core)) = free.pop() else { break };
        let begin = core.max(now);
        let done = begin + STEP_CPU_US as u64;
        free.push(Reverse(done));
        if now > filled {
            waits.push(begin - now);
            occupied += STEP_CPU_US as u64;
        }
        let outside = if left.is_multiple_of(2) { MODEL_SECONDS } else { TOOL_SECONDS };
        events.push(Reverse((done + random.exponential_us(outside), left - 1, false)));
    }
    waits.sort_unstable();
    let wait_at = |part: f64| waits.get((waits.len() as f64 * part) as usize).copied().unwrap_or_default();
    Simulated {
        steps: waits.len(),
        most_runs,
        busy: occupied as f64 / (f64::from(cores) * (end - filled) as f64),
        median_wait_us: wait_at(0.5),
        slowest_percent_wait_us: wait_at(0.99),
    }
}

fn mix(arguments: &[String]) -> anyhow::Result<Mix> {
    let mut mix = MIX;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let field = match word.as_str() {
            "--sessions" => &mut mix.sessions,
            "--prompts" => &mut mix.prompts,
            "--retention-days" => &mut mix.retention,
            "--days" => &mut mix.days,
            "--core-hour" => &mut mix.core_hour,
            "--gigabyte-month" => &mut mix.gigabyte_month,
            other => bail!("`cargo xtask size` does not know `{other}`"),
        };
        let number = words.next().with_context(|| format!("{word} needs a number"))?;
        *field = number.parse().with_context(|| format!("{number:?} is no number"))?;
        if !field.is_finite() || *field <= 0.0 {
            bail!("{word} needs a number above 0");
        }
    }
    Ok(mix)
}

/// Writes a count with commas.
fn count(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn gigabytes(number: f64) -> String {
    if number < 10_000.0 { format!("{} GB", count(number)) } else { format!("{:.0} TB", number / 1_000.0) }
}

fn milliseconds(us: u64) -> String {
    format!("{:.1} ms", us as f64 / 1e3)
}
