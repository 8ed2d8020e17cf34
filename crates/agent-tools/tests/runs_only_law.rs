//! What `runs_only` accepts runs nothing else in a real bash.
//!
//! Lines are generated from a grammar and mutated. Each accepted line runs in an empty folder with a `PATH` that contains
//! stubs only, which write their names down. `LOOPTREE_BASH_LINES` sets the number of lines, `LOOPTREE_BASH_SEED` the seed.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is a part of tests")]
#![allow(
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "tests print their seed and start programs"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agent_tools::bash::runs_only;
use serde_json::json;

const LINES: usize = 20_000;

/// The entries of the list, and the first words that they allow.
const LISTED: [&str; 4] = ["git status", "cargo test", "ls", "grep"];
const ALLOWED: [&str; 4] = ["git", "cargo", "ls", "grep"];

/// Programs that exist beside them, and must not run.
const OTHERS: [&str; 10] = ["rm", "touch", "sudo", "env", "xargs", "status", "test", "a", "x", "X"];

/// Lines that run in one bash. Each has its own subshell in its own folder.
const BATCH: usize = 250;

/// A small generator of random numbers (SplitMix64), so that a seed gives the same lines everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn one_of<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

const COMMANDS: &[&str] = &[
    "ls",
    "git status",
    "cargo test",
    "grep a",
    "ls -la",
    "git  status",
    "'ls'",
    "\"git\" status",
    "gr''ep x",
    "git\tstatus",
    "touch X",
    "rm a",
    "git push",
    "l\\s",
    "ls() { touch X; }",
    "alias ls=touch",
    "function ls { touch X; }",
    "x=1 ls",
    "PATH=. ls",
    "eval touch X",
    "time ls",
    "! ls",
];
const ARGUMENTS: &[&str] = &[
    "a",
    "-q",
    "--x=y",
    "'a b'",
    "\"c d\"",
    "src/lib.rs",
    "HEAD~1",
    "HEAD^",
    "~",
    "*",
    "$X",
    "$(touch X)",
    "`touch X`",
    "a=b",
    "{a,b}",
    "[a]",
    "?",
    "!x",
    "#",
    "a#b",
    "\\;",
    "\\\n",
    "'\n'",
    "ä",
    "'ä'",
    "\"ä\"",
    ">X",
    "2>X",
    "<X",
    "<<<a",
    "<(touch X)",
    ">(touch X)",
    "$'a\\'",
    "'a\\'",
    "\"a\\\"",
    "@(a)",
    "%1",
    "+",
    ":",
    "=x",
    "",
];
const SEPARATORS: &[&str] = &[
    ";",
    "&&",
    "||",
    "|",
    "\n",
    " ; ",
    "\n\n",
    "&",
    "|&",
    ";;",
    "; ;",
    "&&\n",
    "|\n",
    ";\n",
    "&>X ",
    "<<E\ntouch X\nE\n",
    "\r",
    "\r\n",
    ";&",
    "&&&",
    "|||",
];
const WRAPS: &[(&str, &str)] = &[
    ("", ""),
    ("(", ")"),
    ("{ ", "; }"),
    ("if ", "; then touch X; fi"),
    ("while ", "; do touch X; break; done"),
    ("for ls in a; do ", "; done"),
    ("case ls in ls) ", ";; esac"),
    ("coproc ", ""),
    ("ls() { ", "; }; ls"),
    ("[[ a ]] ", ""),
    ("exec ", ""),
    ("# ", ""),
    ("ls #", ""),
    ("trap '", "' EXIT"),
    ("ls '", "'"),
    ("ls \"", "\""),
];
const BYTES: &[&str] = &[
    " ",
    "\t",
    "\n",
    "\r",
    "\u{b}",
    "\u{c}",
    "\u{1}",
    "\u{7f}",
    "\u{85}",
    "\u{a0}",
    "\u{2000}",
    "\u{2028}",
    "\u{3000}",
    "\u{feff}",
    "\u{200b}",
    "\u{202e}",
    "ä",
    "#",
    " #",
    "\r#",
    "'",
    "\"",
    "\\",
    "$",
    "`",
    ";",
    "|",
    "&",
    "<",
    ">",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "*",
    "?",
    "!",
    "~",
    "^",
    "=",
    ":",
    "%",
    "@",
    "+",
    ",",
    "-",
    "touch X",
    " touch X ",
    ";touch X;",
    "\ntouch X\n",
];

fn line(random: &mut Random) -> String {
    let mut line = String::new();
    for at in 0..=random.below(4) {
        if at > 0 {
            line.push_str(if random.below(4) == 0 {
                random.one_of(SEPARATORS)
            } else {
                random.one_of(&SEPARATORS[..7])
            });
        }
        let (before, behind) = WRAPS[if random.below(12) == 0 { random.below(WRAPS.len()) } else { 0 }];
        line.push_str(before);
        let plain = random.below(8) > 0;
        line.push_str(random.one_of(if plain { &COMMANDS[..10] } else { COMMANDS }));
        for _ in 0..random.below(4) {
            line.push(' ');
            line.push_str(if random.below(8) > 0 {
                random.one_of(&ARGUMENTS[..8])
            } else {
                random.one_of(ARGUMENTS)
            });
        }
        line.push_str(behind);
    }
    for _ in 0..[0, 0, 1, 1, 2, 3][random.below(6)] {
        mutate(&mut line, random);
    }
    line
}

fn mutate(line: &mut String, random: &mut Random) {
    let places: Vec<usize> = line.char_indices().map(|(at, _)| at).chain([line.len()]).collect();
    let at = places[random.below(places.len())];
    match random.below(8) {
        0 => drop((at < line.len()).then(|| line.remove(at))),
        1 => {
            let piece = line[at..].to_owned();
            line.insert_str(
                places[random.below(places.len())],
                &piece[..piece.chars().next().map_or(0, char::len_utf8)],
            );
        }
        2 => {
            if let Some(c) =
                char::from_u32(u32::try_from(random.below(0x3100)).unwrap()).filter(|c| *c != '\0')
            {
                line.insert(at, c);
            }
        }
        _ => line.insert_str(at, random.one_of(BYTES)),
    }
}

/// The folders in which lines run.
struct World {
    folder: tempfile::TempDir,
    bash: PathBuf,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let bash = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|folder| folder.join("bash"))
            .find(|path| path.exists())
            .unwrap();
        let stub = bin.join(".stub");
        fs::write(&stub, "#!/bin/sh\necho \"${0##*/}\" >&7\n").unwrap();
        fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
        for name in ALLOWED.iter().chain(&OTHERS) {
            fs::hard_link(&stub, bin.join(name)).unwrap();
        }
        Self { folder, bash }
    }

    /// Runs the lines and checks each.
    fn check(&self, batch: usize, lines: &[String]) {
        let place = self.folder.path().join(format!("batch-{batch}"));
        let (work, logs) = (place.join("work"), place.join("logs"));
        fs::create_dir_all(&work).unwrap();
        fs::create_dir(&logs).unwrap();
        // Every line is one argument of a bash of its own, as with the tool.
        let script = "for line; do at=$((at+1)); \"$BASH\" -c \"$line\" 7>\"$LOGS/$at\" </dev/null >/dev/null 2>/dev/null; done";
        let mut child = Command::new(&self.bash)
            .args(["--norc", "-c", script, "bash"])
            .args(lines)
            .current_dir(&work)
            .env_clear()
            .env("PATH", self.folder.path().join("bin"))
            .env("LOGS", &logs)
            .env("HOME", &work)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        assert!(child.wait().unwrap().success());
        for (at, line) in lines.iter().enumerate() {
            let log = fs::read_to_string(logs.join((at + 1).to_string())).unwrap();
            let ran: BTreeSet<&str> = log.lines().collect();
            let other = ran.iter().find(|name| !ALLOWED.contains(name));
            assert_eq!(other, None, "this line ran it: {line:?}");
        }
        let made: Vec<_> = names(&work);
        if !made.is_empty() {
            if let [line] = lines {
                panic!("this line made {made:?}: {line:?}");
            }
            for (at, line) in lines.iter().enumerate() {
                self.check(1_000_000 + batch * BATCH + at, std::slice::from_ref(line));
            }
            panic!("one of these lines made {made:?}: {lines:?}");
        }
        fs::remove_dir_all(&place).unwrap();
    }
}

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Attack 5.
#[test]
fn an_accepted_line_runs_listed_commands_only_and_makes_no_file() {
    let clock = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    let seed = number("LOOPTREE_BASH_SEED", u64::try_from(clock & u128::from(u64::MAX)).unwrap());
    let count = usize::try_from(number("LOOPTREE_BASH_LINES", LINES as u64)).unwrap();
    let mut random = Random(seed);
    let accepts = runs_only(LISTED);
    let mut accepted: Vec<String> = Vec::new();
    let mut shapes: BTreeMap<bool, usize> = BTreeMap::new();
    for _ in 0..count {
        let line = line(&mut random);
        if line.contains('\0') {
            continue;
        }
        let verdict = accepts(&json!({"command": line}));
        *shapes.entry(verdict).or_default() += 1;
        if verdict {
            accepted.push(line);
        }
    }
    drop(writeln!(
        std::io::stderr(),
        "LOOPTREE_BASH_SEED={seed}: of {count} lines these were accepted: {shapes:?}"
    ));
    assert!(accepted.len() > count / 20, "too few lines are accepted to show anything: {shapes:?}");
    accepted.sort();
    accepted.dedup();
    let world = World::new();
    let batches: Vec<(usize, &[String])> = accepted.chunks(BATCH).enumerate().collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((at, lines)) =
                    batches.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    world.check(*at, lines);
                }
            });
        }
    });
}

/// The test above finds what it looks for.
#[test]
fn a_line_that_runs_another_command_is_found() {
    let world = World::new();
    for line in ["ls; touch X", "ls \r; rm", "ls > X"] {
        let lines = [line.to_owned()];
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.check(0, &lines)));
        assert!(found.is_err(), "{line}");
        fs::remove_dir_all(world.folder.path().join("batch-0")).unwrap();
    }
    world.check(0, &["ls a; git status | grep 'x'".to_owned()]);
}
