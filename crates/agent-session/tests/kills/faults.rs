//! Faults at system calls: the child is killed, gets an error, waits, or writes less, at a call that concerns the store. strace
//! finds the calls and injects the faults. The same for replies of Postgres, by a proxy.
//!
//! `cargo xtask faults` runs it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use super::{Random, Reference, acknowledged, child, child_command, judge, one_life, seed, watch};
use crate::scene::Kind;

/// Runs unless `LOOPTREE_CALLS` says otherwise.
const CALLS: usize = 60;

/// Runs at the same time. A child sleeps most of the time.
const AT_ONCE: usize = 3;

/// The calls of file systems and sockets that are traced.
const TRACED: &str = "openat,read,pread64,write,pwrite64,writev,fsync,fdatasync,ftruncate,fallocate,rename,renameat,\
    renameat2,link,linkat,unlink,unlinkat,mkdir,flock,fcntl,statx,newfstatat,lseek,getdents64,close,connect,sendto,recvfrom";

/// A distinct place in the program that makes a call about a file of the store: a stack, or for a database the file and the
/// order of magnitude of the number of the call.
#[derive(Debug, Clone)]
struct Site {
    call: String,
    /// The path, if each run has the same one.
    path: Option<String>,
    /// What the path is, for people.
    file: String,
    /// The number of the call among those of its thread, with its path if that is known.
    number: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Kill,
    Error(&'static str),
    Delay,
    /// No file can be longer than so many blocks of 512 bytes. A write across the bound is short, and the next one fails.
    Bound(u64),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill => f.write_str("kill"),
            Self::Error(name) => f.write_str(name),
            Self::Delay => f.write_str("delay"),
            Self::Bound(_) => f.write_str("short"),
        }
    }
}

/// Which errors a call gets, the most likely one first.
fn errors(call: &str) -> [&'static str; 3] {
    match call {
        "write" | "pwrite64" | "writev" | "ftruncate" | "fallocate" => ["ENOSPC", "EIO", "EACCES"],
        "openat" | "rename" | "renameat" | "renameat2" | "link" | "linkat" | "unlink" | "unlinkat"
        | "mkdir" => ["EACCES", "ENOSPC", "EIO"],
        _ => ["EIO", "ENOSPC", "EACCES"],
    }
}

/// Returns a call of a line of the trace: its name, and the path below the folder.
fn parse<'a>(line: &'a str, home: &str) -> Option<(&'a str, String)> {
    let (call, rest) = line.split_once('(')?;
    let absolute = rest.split(['<', '"']).find_map(|part| part.strip_prefix(home)?.strip_prefix('/'));
    let relative = rest.split('"').skip(1).step_by(2).find_map(|part| part.strip_prefix("./"));
    let path = absolute.or(relative)?.split(['>', '"']).next()?;
    path.starts_with("sessions").then(|| (call, path.to_owned()))
}

/// Runs the child undisturbed, and returns the places of its calls, and the number of calls.
fn trace(dir: &Path, kind: Kind) -> (Vec<Site>, usize) {
    let (home, traces) = (dir.join("traced"), dir.join("traces"));
    child::prepare(&home, kind, 0);
    std::fs::create_dir(&traces).unwrap();
    let home = home.canonicalize().unwrap();
    let mut strace = Command::new("strace");
    strace.args(["-ff", "--seccomp-bpf", "-y", "-qq", "-o"]).arg(traces.join("thread"));
    // A stack takes milliseconds, which would be minutes for the many calls of a database.
    let has_stacks = kind == Kind::Json;
    if has_stacks {
        strace.arg("-k");
    }
    strace.args(["-e", &format!("trace={TRACED}")]).arg(std::env::current_exe().unwrap());
    let (status, text) = watch(child_command(strace, &home));
    assert!(status.success(), "the child failed beside strace: {status}\n{text}");
    let (home, program) =
        (home.display().to_string(), std::env::current_exe().unwrap().display().to_string());
    let (mut sites, mut calls) = (BTreeMap::new(), 0);
    let mut threads: Vec<_> = traces.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    threads.sort();
    for thread in threads {
        let text = String::from_utf8_lossy(&std::fs::read(thread).unwrap()).into_owned();
        let mut numbers: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut open: Option<(Site, String)> = None;
        for line in text.lines() {
            if let Some(frame) = line.strip_prefix(" > ") {
                if let Some((_, stack)) = &mut open
                    && frame.starts_with(&program)
                {
                    stack.push_str(frame.rsplit(' ').next().unwrap_or_default());
                }
                continue;
            }
            if let Some((site, stack)) = open.take() {
                sites.entry((site.call.clone(), stack)).or_insert(site);
            }
            let Some((name, _)) = line.split_once('(') else { continue };
            let all = numbers.entry((name.to_owned(), String::new())).or_default();
            *all += 1;
            let of_all = *all;
            let Some((call, path)) = parse(line, &home) else { continue };
            let of_path = numbers.entry((call.to_owned(), path.clone())).or_default();
            *of_path += 1;
            calls += 1;
            // The name of a temporary file has the number of the process.
            let is_known = !path.contains(".tmp.");
            let number = if is_known { *of_path } else { of_all };
            let file = file_kind(&path);
            let class = if has_stacks { String::new() } else { format!("{file} {}", number.ilog2()) };
            let site = Site { call: call.to_owned(), path: is_known.then_some(path), file, number };
            open = Some((site, class));
        }
        if let Some((site, stack)) = open {
            sites.entry((site.call.clone(), stack)).or_insert(site);
        }
    }
    (sites.into_values().collect(), calls)
}

/// Returns the part of a path that tells what the file is.
fn file_kind(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.split_once('.') {
        Some((_, rest)) if rest.contains("tmp.") => "temporary file".to_owned(),
        Some((_, rest)) => format!("*.{rest}"),
        None => name.to_owned(),
    }
}

/// Returns the faults of a test: one kill and one error for each place, and then others by the seed.
fn plan(sites: &[Site], runs: usize, random: &mut Random) -> Vec<(Site, Fault)> {
    let mut all: Vec<(Site, Fault)> = Vec::new();
    for site in sites {
        all.push((site.clone(), Fault::Kill));
        all.push((site.clone(), Fault::Error(errors(&site.call)[0])));
    }
    while all.len() > runs {
        all.swap_remove(random.below(all.len() as u64) as usize);
    }
    while all.len() < runs {
        let mut site = sites[random.below(sites.len() as u64) as usize].clone();
        site.number = 1 + random.below(site.number as u64 * 4 + 4) as usize;
        let fault = match random.below(8) {
            0..3 => Fault::Kill,
            3..6 => Fault::Error(errors(&site.call)[random.below(3) as usize]),
            6 => Fault::Delay,
            _ => Fault::Bound(1 + random.below(64)),
        };
        all.push((site, fault));
    }
    all
}

/// Returns the command of a child with a fault. strace writes what it did to `log`.
fn command(site: &Site, fault: Fault, home: &Path, log: &Path) -> Command {
    let program = std::env::current_exe().unwrap();
    if let Fault::Bound(blocks) = fault {
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' XFSZ; ulimit -f \"$0\"; exec \"$@\"", &blocks.to_string()]).arg(program);
        return child_command(shell, home);
    }
    let what = match fault {
        Fault::Kill => "signal=KILL".to_owned(),
        Fault::Error(name) => format!("error={name}"),
        _ => "delay_enter=50000".to_owned(),
    };
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-qq", "-o"]).arg(log);
    if fault != Fault::Kill {
        // Faster, but strace injects no signals then.
        strace.arg("--seccomp-bpf");
    }
    if let Some(path) = &site.path {
        strace.args(["-P", &format!("./{path}"), "-P"]).arg(home.join(path));
    }
    let Site { call, number, .. } = site;
    strace.args(["-e", &format!("trace={call}"), "-e", &format!("inject={call}:{what}:when={number}")]);
    strace.arg(program);
    child_command(strace, home)
}

/// How a run with a fault ended.
#[derive(Debug, Default)]
struct Outcome {
    /// Whether the fault happened.
    reached: bool,
    loss: Option<String>,
}

/// Runs a check that panics, and returns its reason.
fn loss_of(check: impl FnOnce()) -> Option<String> {
    let panic = std::panic::catch_unwind(AssertUnwindSafe(check)).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
}

/// Compares the store with what the child said, right after the fault and after an undisturbed life.
fn check(home: &Path, kind: Kind, reference: &Reference, said: &str) -> Option<String> {
    kind.after_kill(home);
    loss_of(|| {
        let store = kind.open(home);
        let loaded = judge::loads(&*store, acknowledged(said), None);
        let before = loaded.map(agent_session::LoadedSession::into_session);
        let (_, safe) = one_life(home, None, &mut Random(1));
        kind.after_kill(home);
        judge::loads(&*store, safe, before.as_ref());
        reference.compare(home, &*store);
    })
}

/// Whether the call that strace changed is about a file of the store.
fn concerns_store(log: &str, home: &str) -> bool {
    let lines: Vec<&str> = log.lines().collect();
    let Some(at) = lines.iter().position(|line| line.ends_with("(INJECTED)") || line.ends_with("(DELAYED)"))
    else {
        return false;
    };
    // The first half of a call is on an earlier line if another thread made one meanwhile.
    let thread = lines[at].split(' ').next();
    let own = lines[..=at].iter().rev().filter(|line| line.split(' ').next() == thread);
    own.take(2).any(|line| parse(line, home).is_some())
}

fn run_one(dir: &Path, name: &str, kind: Kind, site: &Site, fault: Fault, reference: &Reference) -> Outcome {
    let home = dir.join(name);
    child::prepare(&home, kind, site.number);
    let home = home.canonicalize().unwrap();
    let log = dir.join(format!("{name}.log"));
    let (status, said) = watch(command(site, fault, &home, &log));
    let log = std::fs::read_to_string(log).unwrap_or_default();
    let reached = match fault {
        Fault::Kill => std::os::unix::process::ExitStatusExt::signal(&status) == Some(9),
        Fault::Bound(_) => !status.success(),
        Fault::Error(_) | Fault::Delay => concerns_store(&log, &home.display().to_string()),
    };
    if !reached && fault != Fault::Kill {
        // A call that was drawn by its number can be about something else, which ends the agent's run as it should.
        std::fs::remove_dir_all(&home).unwrap();
        return Outcome::default();
    }
    let loss = check(&home, kind, reference, &said);
    if loss.is_none() {
        std::fs::remove_dir_all(&home).unwrap();
    }
    Outcome { reached, loss }
}

/// What became of the runs with one kind of fault at one kind of call.
#[derive(Debug, Default)]
struct Row {
    runs: usize,
    reached: usize,
    losses: usize,
}

#[derive(Debug, Default)]
struct Table {
    rows: BTreeMap<(String, String, String), Row>,
    losses: Vec<String>,
}

impl Table {
    fn add(&mut self, call: &str, file: &str, fault: &str, place: &str, outcome: Outcome) {
        let row = self.rows.entry((call.to_owned(), file.to_owned(), fault.to_owned())).or_default();
        row.runs += 1;
        row.reached += usize::from(outcome.reached);
        if let Some(reason) = outcome.loss {
            row.losses += 1;
            self.losses.push(format!("{call} {file} {fault} {place}: {reason}"));
        }
    }

    /// Prints the table, and fails if something was lost.
    fn finish(&self, what: &str, seed: u64) {
        println!("| call | file | fault | runs | reached | losses |\n|---|---|---|---|---|---|");
        for ((call, file, fault), Row { runs, reached, losses }) in &self.rows {
            println!("| {call} | {file} | {fault} | {runs} | {reached} | {losses} |");
        }
        let sum = |count: fn(&Row) -> usize| self.rows.values().map(count).sum::<usize>();
        let (runs, reached) = (sum(|row| row.runs), sum(|row| row.reached));
        println!(
            "{what}; {runs} runs, {reached} reached; {} losses; LOOPTREE_SEED={seed}",
            self.losses.len()
        );
        for loss in &self.losses {
            println!("LOSS {loss}");
        }
        assert!(self.losses.is_empty(), "{} runs lost something", self.losses.len());
    }
}

fn runs() -> usize {
    std::env::var("LOOPTREE_CALLS").ok().and_then(|n| n.parse().ok()).unwrap_or(CALLS)
}

/// Injects faults at the system calls of a store of files.
pub(crate) fn at_system_calls(kind: Kind) {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        println!("skipped: there is no strace");
        return;
    }
    let seed = seed();
    let mut random = Random(seed);
    let dir = tempfile::tempdir().unwrap();
    let calm = dir.path().join("calm");
    child::prepare(&calm, kind, 0);
    one_life(&calm, None, &mut random);
    let reference = Reference::of(&calm, kind);
    let (sites, calls) = trace(dir.path(), kind);
    let planned = plan(&sites, runs(), &mut random);
    let places: BTreeSet<_> = planned.iter().map(|(site, _)| (&site.call, &site.file)).collect();
    println!("{calls} calls about the store at {} places; {} kinds are tried", sites.len(), places.len());
    let table = Mutex::new(Table::default());
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some((site, fault)) = planned.get(n) else { return };
                    let outcome = run_one(dir.path(), &format!("run-{n}"), kind, site, *fault, &reference);
                    let place = format!("number {}", site.number);
                    table.lock().unwrap().add(&site.call, &site.file, &fault.to_string(), &place, outcome);
                }
            });
        }
    });
    let table = table.into_inner().unwrap();
    table.finish(&format!("{kind:?}: {calls} calls at {} places", sites.len()), seed);
}

/// Lets a proxy swallow, cut and repeat replies of Postgres.
#[cfg(feature = "postgres")]
pub(crate) fn at_replies() {
    use crate::scene::postgres::proxy::{Mishap, Proxy, Reply, port_of};
    use crate::scene::postgres::{ADDRESS, Address};

    let seed = seed();
    let mut random = Random(seed);
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let life = |home: &Path, mishap: Option<(Mishap, usize)>| {
        child::prepare(home, Kind::Postgres, 0);
        let direct = Address::of(home);
        drop(direct.open());
        let proxy = runtime.block_on(Proxy::start(port_of(&direct.url)));
        let note =
            |url: &str| std::fs::write(home.join(ADDRESS), format!("{url}\n{}", direct.schema)).unwrap();
        note(&proxy.url(&direct.url));
        if let Some((mishap, number)) = mishap {
            proxy.plan(mishap, Reply::Number(number));
        }
        let (_, said) = watch(child_command(Command::new(std::env::current_exe().unwrap()), home));
        note(&direct.url);
        (proxy.replies(), !proxy.is_planned(), said)
    };
    let calm = dir.path().join("calm");
    let (replies, ..) = life(&calm, None);
    let reference = Reference::of(&calm, Kind::Postgres);
    let mut table = Table::default();
    for n in 0..runs() {
        let (mishap, number) = (Mishap::ALL[n % 3], 1 + random.below(replies as u64) as usize);
        let home = dir.path().join(format!("run-{n}"));
        let (_, reached, said) = life(&home, Some((mishap, number)));
        let loss = check(&home, Kind::Postgres, &reference, &said);
        let fault = format!("{mishap:?}").to_lowercase();
        table.add("reply", "Postgres", &fault, &format!("number {number}"), Outcome { reached, loss });
    }
    table.finish(&format!("{replies} replies of Postgres"), seed);
}
