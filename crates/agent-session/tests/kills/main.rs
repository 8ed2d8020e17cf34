//! SIGKILL at random moments: in streams, in tools, in writes. Then the session is resumed, killed again, and in the end
//! compared with one that nobody disturbed.
//!
//! `cargo xtask crash --kills 200` runs it at length, with `--store sqlite` or `postgres` over a database.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::print_stdout, reason = "the seed and the figures of a run are for whoever runs it")]
#![allow(
    clippy::disallowed_methods,
    reason = "the child is this test itself; the number of kills is in the environment"
)]

mod child;
mod faults;
mod judge;
#[path = "../scene/mod.rs"]
mod scene;

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use judge::Reference;
use scene::Kind;

/// The file without which the child does nothing, so that running all ignored tests does no harm.
const GO: &str = "go";

/// Kills unless `LOOPTREE_KILLS` says otherwise.
const KILLS: usize = 24;

/// How long one child may take. It takes about a second, and half a minute beside strace.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a process did when it was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Stream,
    Tool,
    Write,
    Between,
}

impl Phase {
    const TARGETS: [Self; 3] = [Self::Stream, Self::Tool, Self::Write];

    pub(crate) fn letter(self) -> u8 {
        match self {
            Self::Stream => b's',
            Self::Tool => b't',
            Self::Write => b'w',
            Self::Between => b'-',
        }
    }

    fn of(dir: &Path) -> Self {
        let letter = std::fs::read(dir.join(child::PHASE)).unwrap().first().copied();
        Self::TARGETS.into_iter().find(|p| Some(p.letter()) == letter).unwrap_or(Self::Between)
    }
}

/// Random numbers that a failure can be repeated with.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// What is killed.
#[test]
#[ignore = "the child of another test"]
fn the_child_works_until_it_is_done_or_killed() {
    if Path::new(GO).exists() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(child::live());
    }
}

/// The child in this folder, started by another program or as its first argument, which is this test.
fn child_command(mut program: Command, dir: &Path) -> Command {
    std::fs::write(dir.join(child::PHASE), [Phase::Between.letter()]).unwrap();
    program
        .args(["--exact", "the_child_works_until_it_is_done_or_killed", "--ignored", "--nocapture"])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    program
}

/// Starts a child whose output is read all the while, so that a full pipe does not hold it.
fn start(mut command: Command) -> (Child, std::thread::JoinHandle<String>) {
    let mut process = command.spawn().unwrap();
    let mut out = process.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        out.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    });
    (process, reader)
}

/// Waits for the end of a child, and returns it with its output.
fn end_of(mut process: Child, reader: std::thread::JoinHandle<String>) -> (ExitStatus, String) {
    let begun = Instant::now();
    while process.try_wait().unwrap().is_none() {
        if begun.elapsed() > PATIENCE {
            process.kill().unwrap();
            panic!("the child does not end");
        }
        pause(2_000);
    }
    (process.wait().unwrap(), reader.join().unwrap())
}

/// Runs a child to its end.
fn watch(command: Command) -> (ExitStatus, String) {
    let (process, reader) = start(command);
    end_of(process, reader)
}

/// What a child came to.
enum End {
    Done,
    Killed(Phase),
}

/// A child that is killed at a random moment of this phase, where it gets there; `None` lets it live.
fn one_life(dir: &Path, target: Option<Phase>, random: &mut Random) -> (End, usize) {
    let (mut process, reader) = start(child_command(Command::new(std::env::current_exe().unwrap()), dir));
    let begun = Instant::now();
    if let Some(target) = target {
        pause(random.below(300_000));
        while process.try_wait().unwrap().is_none() && Phase::of(dir) != target {
            assert!(begun.elapsed() < PATIENCE, "the child never comes to {target:?}");
            pause(20);
        }
        pause(random.below(if target == Phase::Write { 1_500 } else { 6_000 }));
        process.kill().unwrap();
    }
    let (status, text) = end_of(process, reader);
    let killed = status.signal() == Some(9);
    assert!(killed || status.success(), "the child failed: {status}\n{text}");
    (if killed { End::Killed(Phase::of(dir)) } else { End::Done }, acknowledged(&text))
}

fn pause(micros: u64) {
    std::thread::sleep(Duration::from_micros(micros));
}

/// The number of the last acknowledgement that is whole.
fn acknowledged(text: &str) -> usize {
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let last = whole.lines().filter_map(|l| l.strip_prefix("ack ")).next_back();
    last.map_or(0, |n| n.parse().unwrap())
}

/// How many kills fell into which phase.
#[derive(Debug, Default)]
struct Tally {
    streams: usize,
    tools: usize,
    writes: usize,
    between: usize,
    sessions: usize,
    cut_calls_run_again: usize,
    cut_calls_closed: usize,
    unfinished_lines: usize,
}

impl Tally {
    fn kills(&self) -> usize {
        self.streams + self.tools + self.writes + self.between
    }

    fn count(&mut self, phase: Phase) {
        match phase {
            Phase::Stream => self.streams += 1,
            Phase::Tool => self.tools += 1,
            Phase::Write => self.writes += 1,
            Phase::Between => self.between += 1,
        }
    }

    /// The phase with the fewest kills.
    fn wanted(&self) -> Phase {
        let counts = [self.streams, self.tools, self.writes];
        let least = (0..3).min_by_key(|n| counts[*n]).unwrap();
        Phase::TARGETS[least]
    }

    fn is_enough(&self, kills: usize) -> bool {
        let each = (kills * 3 / 20).max(2);
        self.kills() >= kills && [self.streams, self.tools, self.writes].iter().all(|n| *n >= each)
    }
}

/// REQ-216, B-178.
#[test]
fn killed_at_any_moment_a_session_resumes_to_the_history_of_an_undisturbed_run() {
    kill_and_resume(Kind::Json);
}

/// REQ-216.
#[cfg(feature = "sqlite")]
#[test]
fn killed_at_any_moment_a_session_in_sqlite_resumes_to_the_history_of_an_undisturbed_run() {
    kill_and_resume(Kind::Sqlite);
}

/// REQ-216.
#[cfg(feature = "postgres")]
#[test]
fn killed_at_any_moment_a_session_on_postgres_resumes_to_the_history_of_an_undisturbed_run() {
    if scene::postgres::is_there() {
        kill_and_resume(Kind::Postgres);
    }
}

#[test]
#[ignore = "takes minutes: `cargo xtask faults` runs it"]
fn a_fault_at_a_system_call_loses_nothing_that_was_acknowledged() {
    faults::at_system_calls(Kind::Json);
}

#[cfg(feature = "sqlite")]
#[test]
#[ignore = "takes minutes: `cargo xtask faults --store sqlite` runs it"]
fn a_fault_at_a_system_call_loses_nothing_in_sqlite() {
    faults::at_system_calls(Kind::Sqlite);
}

#[cfg(feature = "postgres")]
#[test]
#[ignore = "takes minutes: `cargo xtask faults --store postgres` runs it"]
fn a_reply_that_is_swallowed_cut_or_repeated_loses_nothing_on_postgres() {
    if scene::postgres::is_there() {
        faults::at_replies();
    }
}

/// The seed of the choices, which a run that is to be repeated is told.
fn seed() -> u64 {
    let seed = std::env::var("LOOPTREE_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        now.as_nanos() as u64 | 1
    });
    println!("LOOPTREE_SEED={seed}");
    seed
}

fn kill_and_resume(kind: Kind) {
    let kills = std::env::var("LOOPTREE_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(KILLS);
    let seed = seed();
    let mut random = Random(seed);
    let dir = tempfile::tempdir().unwrap();
    let calm = dir.path().join("calm");
    child::prepare(&calm, kind, 0);
    let (End::Done, _) = one_life(&calm, None, &mut random) else { panic!("nobody killed it") };
    let reference = Reference::of(&calm, kind);

    let mut tally = Tally::default();
    while !tally.is_enough(kills) {
        let home = dir.path().join(format!("session-{}", tally.sessions));
        torment(&home, kind, &reference, &mut tally, &mut random);
        std::fs::remove_dir_all(&home).unwrap();
        tally.sessions += 1;
        assert!(tally.sessions < 40 + kills * 4, "the kills do not fall where they should: {tally:?}");
    }
    let Tally { streams, tools, writes, between, sessions, .. } = &tally;
    println!(
        "{} kills over {sessions} sessions: {streams} in streams, {tools} in tools, {writes} in writes, {between} in between",
        tally.kills()
    );
    println!(
        "calls cut off: {} run again when asked about, {} closed as unknown; journals with an unfinished line: {}",
        tally.cut_calls_run_again, tally.cut_calls_closed, tally.unfinished_lines
    );
}

/// One session, killed some times, then left in peace and looked at.
fn torment(home: &Path, kind: Kind, reference: &Reference, tally: &mut Tally, random: &mut Random) {
    child::prepare(home, kind, random.below(2) as usize);
    let store = kind.open(home);
    let mut lives = 1 + random.below(4);
    let mut before = None;
    loop {
        let target = (lives > 0).then(|| tally.wanted());
        lives = lives.saturating_sub(1);
        let (end, safe) = one_life(home, target, random);
        if let End::Killed(phase) = end {
            tally.count(phase);
        }
        kind.after_kill(home);
        let loaded = judge::loads(&*store, safe, before.as_ref());
        tally.unfinished_lines += usize::from(loaded.as_ref().is_some_and(|l| l.torn_bytes() > 0));
        before = loaded.map(agent_session::LoadedSession::into_session);
        if matches!(end, End::Done) {
            break;
        }
    }
    let cut = reference.compare(home, &*store);
    tally.cut_calls_run_again += cut.run_again;
    tally.cut_calls_closed += cut.closed;
}
