//! Runs test programs with one mutant on.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::rewrite::{REACHED, VARIABLE};
use crate::test_command::programs::{self, Program};

/// The minimum time limit of a program. A limit is otherwise a multiple of what the program takes without a mutant.
const MIN_LIMIT: Duration = Duration::from_secs(30);
const LIMIT_FACTOR: u32 = 5;

/// The time limit of a program without a mutant.
const LIMIT: Duration = Duration::from_secs(900);

/// The time between two checks whether a program has ended.
const CHECK_AFTER: Duration = Duration::from_millis(10);

/// Runs a program from a shell. The memory of the program is limited to 6 GiB, because a mutant can loop forever and fill it.
/// The shell waits for the program, because the first process of a namespace must reap the others.
const SHELL: [&str; 4] = ["sh", "-c", "ulimit -d 6291456; \"$@\"; exit $?", "sh"];

/// Commands that run the rest of their arguments in a PID namespace, for root and for other users. A mutant of code that ends
/// processes can otherwise end every process of the user.
const NAMESPACES: [&[&str]; 2] = [
    &["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"],
    &["unshare", "--user", "--map-current-user", "--pid", "--fork", "--kill-child", "--mount-proc"],
];

/// The environment of the programs. Property tests use the same cases in each run and write no files.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("INSTA_UPDATE", "no"),
    ("PROPTEST_RNG_SEED", "1"),
    ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1"),
    ("PROPTEST_MAX_SHRINK_ITERS", "0"),
    ("RUST_BACKTRACE", "0"),
    // A mutant that makes every sandbox fail is not a machine without one.
    ("LOOPTREE_REQUIRE_SANDBOXES", "1"),
    // Frames are larger with copies of blocks in them.
    ("RUST_MIN_STACK", "8388608"),
];

/// The test programs of a package.
pub(super) struct Suite {
    programs: Vec<Timed>,
    /// A part of the names of those unit tests that run first.
    first: String,
    /// The mutants in the programs. A program that does not reach one of them cannot catch it.
    numbers: BTreeSet<usize>,
}

struct Timed {
    program: Program,
    /// What it takes without a mutant.
    time: Duration,
    /// The numbers of the mutants whose units it executes.
    reached: BTreeSet<usize>,
    /// The number of mutants that it has caught.
    caught: AtomicU32,
}

/// How a program ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Passed,
    /// With its first test that failed, or how it ended if it named none.
    Failed(String),
    TooLate,
}

impl Suite {
    /// Runs the programs, which contain the mutants of these numbers, without a mutant. The unit tests whose names contain
    /// `first` are those of the module.
    ///
    /// # Errors
    /// Returns an error if a program fails.
    pub(super) fn measured(
        programs: Vec<Program>,
        first: String,
        numbers: BTreeSet<usize>,
    ) -> anyhow::Result<Self> {
        let measure = |program: &Program| {
            let start = Instant::now();
            let mut file = tempfile::NamedTempFile::new().context("cannot create a file")?;
            let path = file.path().to_owned();
            let ended = run(program, None, (REACHED, path.as_os_str()), LIMIT)?;
            ensure!(ended == Ended::Passed, "{} fails without a mutant: {ended:?}", program.name());
            let mut reached = String::new();
            file.read_to_string(&mut reached).with_context(|| format!("cannot read {}", path.display()))?;
            Ok((start.elapsed(), reached.lines().filter_map(|line| line.parse().ok()).collect()))
        };
        let measured = programs::beside(&programs, measure)?;
        let timed = |(program, (time, reached))| Timed { program, time, reached, caught: AtomicU32::new(0) };
        let programs = programs.into_iter().zip(measured).map(timed).collect();
        Ok(Self { programs, first, numbers })
    }

    /// Returns the number of programs and the sum of their times.
    pub(super) fn size(&self) -> (usize, Duration) {
        (self.programs.len(), self.programs.iter().map(|timed| timed.time).sum())
    }

    /// Whether a program executes the unit of this mutant.
    pub(super) fn reaches(&self, number: usize) -> bool {
        self.programs.iter().any(|timed| timed.reached.contains(&number))
    }

    /// Returns the program and the first of its tests that fail with a mutant. `None` if all pass.
    ///
    /// The unit tests of the module are the first in the order. Then the program is the next that has caught the most
    /// mutants for its time. Programs that do not reach the mutant are left out.
    pub(super) fn catches(&self, number: usize) -> anyhow::Result<Option<String>> {
        let is_inside = self.numbers.contains(&number);
        let reaching: Vec<&Timed> =
            self.programs.iter().filter(|timed| !is_inside || timed.reached.contains(&number)).collect();
        let mut order: Vec<(f64, &Timed)> = reaching.iter().map(|timed| (timed.rate(), *timed)).collect();
        order.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let unit = reaching.into_iter().filter(|timed| timed.program.has_unit_tests());
        let selected = number.to_string();
        let first = unit.map(|timed| (timed, Some(self.first.as_str())));
        for (timed, tests) in first.chain(order.into_iter().map(|(_, timed)| (timed, None))) {
            let variable = (VARIABLE, OsStr::new(&selected));
            let by = match run(&timed.program, tests, variable, timed.limit())? {
                Ended::Passed => continue,
                Ended::TooLate => "time limit".to_owned(),
                Ended::Failed(test) => test,
            };
            if tests.is_none() {
                timed.caught.fetch_add(1, Ordering::Relaxed);
            }
            return Ok(Some(format!("{}: {by}", timed.program.name())));
        }
        Ok(None)
    }
}

impl Timed {
    /// The number of mutants that it probably catches in a second.
    fn rate(&self) -> f64 {
        f64::from(self.caught.load(Ordering::Relaxed) + 1) / self.time.as_secs_f64()
    }

    fn limit(&self) -> Duration {
        MIN_LIMIT.max(self.time * LIMIT_FACTOR)
    }
}

/// Returns a command that runs this one in a PID namespace of its own, where there are such, and with limited memory.
fn isolated(inner: &Command) -> Command {
    static NAMESPACE: LazyLock<&[&str]> = LazyLock::new(|| {
        let works = |words: &&[&str]| {
            let output = command(words.iter().chain(&["true"]).copied()).output();
            output.is_ok_and(|output| output.status.success())
        };
        NAMESPACES.into_iter().find(works).unwrap_or_else(|| {
            say!("without PID namespaces (unshare), a mutant can end other processes of this user");
            &[]
        })
    });
    let mut outer = command(NAMESPACE.iter().chain(&SHELL).copied());
    outer.arg(inner.get_program()).args(inner.get_args());
    outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = inner.get_current_dir() {
        outer.current_dir(folder);
    }
    outer
}

/// Creates a temporary folder that other users can enter, because a Postgres server does not run as root.
fn temporary() -> std::io::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755));
    builder.tempdir()
}

fn command<'a>(mut words: impl Iterator<Item = &'a str>) -> Command {
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command
}

/// Returns the name of the first test that failed.
fn failed_test(output: &[u8]) -> Option<String> {
    let failed = b" ... FAILED".as_slice();
    let name = output
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(b"test ")?.strip_suffix(failed))?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// Runs a program with this variable in a process group of its own. Kills the group at the end, at the first test that fails,
/// or at the limit.
fn run(
    program: &Program,
    tests: Option<&str>,
    (name, value): (&str, &OsStr),
    limit: Duration,
) -> anyhow::Result<Ended> {
    let cannot = || format!("cannot run {}", program.name());
    // The reader has a position of its own in the file.
    let file = tempfile::NamedTempFile::new().with_context(cannot)?;
    let mut reader = file.reopen().with_context(cannot)?;
    let stream = || file.as_file().try_clone().map(Stdio::from).with_context(cannot);
    // In namespaces of their own, programs have the same process ids, of which tests make names.
    let temporary = temporary().with_context(cannot)?;
    let mut command = isolated(&program.command());
    command.args(tests).envs(ENVIRONMENT.iter().copied()).env(name, value).env("TMPDIR", temporary.path());
    command.stdin(Stdio::null()).stdout(stream()?).stderr(stream()?);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().with_context(cannot)?;
    let end = Instant::now() + limit;
    let mut output = Vec::new();
    let ended = loop {
        let status = child.try_wait().with_context(cannot)?;
        let new = reader.read_to_end(&mut output).with_context(cannot)?;
        match (status, if new > 0 { failed_test(&output) } else { None }) {
            (_, Some(test)) => break Ended::Failed(test),
            (Some(status), None) if status.success() => break Ended::Passed,
            (Some(status), None) => {
                let output = String::from_utf8_lossy(&output);
                let last = output.lines().rfind(|line| !line.is_empty()).unwrap_or_default();
                break Ended::Failed(format!("{status}, {last}"));
            }
            (None, None) if Instant::now() > end => break Ended::TooLate,
            (None, None) => std::thread::sleep(CHECK_AFTER),
        }
    };
    kill(&mut child);
    child.wait().with_context(cannot)?;
    Ok(ended)
}

fn kill(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        // It may be gone already, with its group.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
}

#[cfg(test)]
mod tests;
