//! Rules about Rust source.

use std::path::Path;

use super::{Finding, is_test_file, library_of};
use crate::source::{code_only, lines_with};
use crate::workspace::SourceFile;

/// No Rust file is longer.
const WALL: usize = 800;
/// A file of production code that is longer is named.
const AIM: usize = 400;

/// The one file of agent-core that may ask the operating system for something.
const SYSTEM: &str = "crates/agent-core/src/environment/system.rs";

/// What agent-core must not name (invariant 1).
const IO_WORDS: &[&str] = &[
    "std::fs",
    "std::env",
    "std::process",
    "std::net",
    "thread::spawn",
    "thread::sleep",
    "SystemTime::now",
    "Instant::now",
    "Utc::now",
    "Local::now",
    "tokio::fs",
    "tokio::net",
    "tokio::process",
    "tokio::spawn",
    "tokio::time",
    "reqwest",
];

/// What an encoder or a decoder must not name: it waits for nothing, asks no clock and opens nothing.
const IMPURE_WORDS: &[&str] = &[
    "async fn",
    "async move",
    ".await",
    "tokio::",
    "Instant::now",
    "SystemTime::now",
    "std::fs",
    "std::env",
    "reqwest::Client",
];

/// What opens connections, or does so inside.
const SOCKET_WORDS: &[&str] = &[
    "tokio::net",
    "TcpStream",
    "reqwest::Client::",
    "ClientBuilder",
    "gcp_auth",
    "aws_config",
    "aws_sdk_bedrockruntime",
];

/// Where agent-providers may open connections: the transport, the tokens of Google Cloud, and the AWS SDK's door, which leads
/// to the transport.
const SOCKETS: &[&str] = &[
    "crates/agent-providers/src/transport",
    "crates/agent-providers/src/vertex/token",
    "crates/agent-providers/src/bedrock.rs",
    "crates/agent-providers/src/bedrock/chain",
    // The SDK's rules of addresses, which open nothing.
    "crates/agent-providers/src/bedrock/config",
    "crates/agent-providers/src/bedrock/sign",
    "crates/agent-providers/src/bedrock/source",
];

/// The modules of `std` and `tokio` behind [`IO_WORDS`], for imports in braces.
const IO_MODULES: &[(&str, &[&str])] =
    &[("std::{", &["fs", "env", "process", "net"]), ("tokio::{", &["fs", "net", "process", "spawn", "time"])];

/// Invariant 1: agent-core does no I/O and has no clock of its own, outside of one file. Tests may use tokio's clock.
pub(super) fn core_does_no_io(file: &SourceFile, findings: &mut Vec<Finding>) {
    if library_of(&file.path) != Some("agent-core") || file.path == SYSTEM || is_test_file(&file.path) {
        return;
    }
    let code = code_only(&file.text);
    let mut report = |line, word: &str| {
        let text = format!("agent-core names `{word}`; take it through `Environment` (only {SYSTEM} may)");
        findings.push(Finding::error("core-does-no-io", &file.path, line, text));
    };
    for word in IO_WORDS {
        for line in lines_with(&code, word) {
            report(line, word);
        }
    }
    for (opening, modules) in IO_MODULES {
        for line in lines_with(&code, opening) {
            for name in imported(&code, line, opening) {
                if modules.contains(&name.as_str()) {
                    report(line, &format!("{opening}{name}"));
                }
            }
        }
    }
}

/// Encoders and decoders are pure.
pub(super) fn protocols_are_pure(file: &SourceFile, findings: &mut Vec<Finding>) {
    let is_one = |part: &str| matches!(part, "encode" | "decode" | "encode.rs" | "decode.rs");
    if library_of(&file.path) != Some("agent-providers")
        || is_test_file(&file.path)
        || !file.path.split('/').any(is_one)
    {
        return;
    }
    names_none(
        file,
        IMPURE_WORDS,
        "protocols-are-pure",
        "an encoder or decoder waits for nothing and opens nothing",
        findings,
    );
}

/// Only the transport opens sockets, and what is listed with it.
pub(super) fn sockets_in_few_places(file: &SourceFile, findings: &mut Vec<Finding>) {
    let listed = SOCKETS.iter().any(|place| file.path.starts_with(place));
    if library_of(&file.path) != Some("agent-providers") || is_test_file(&file.path) || listed {
        return;
    }
    names_none(file, SOCKET_WORDS, "sockets-in-few-places", "only the transport opens connections", findings);
}

/// What writes to the standard output or the standard error.
const TERMINAL_WORDS: &[&str] =
    &["print!", "println!", "eprint!", "eprintln!", "dbg!", "io::stdout", "io::stderr"];

/// Where the command may write without the screen: the screen itself, the protocols and the data that programs read, and the
/// codes that switch bracketed paste.
const TERMINAL: &[&str] = &[
    "crates/looptree-cli/src/screen",
    "crates/looptree-cli/src/acp.rs",
    "crates/looptree-cli/src/mcp.rs",
    "crates/looptree-cli/src/work.rs",
    "crates/looptree-cli/src/chat/keys.rs",
    "crates/looptree-cli/src/settings/consent.rs",
    // Completions and manual pages, which have no text from outside.
    "crates/looptree-cli/src/run.rs",
    "crates/looptree-cli/src/man.rs",
];

/// The command shows text by its screen, which escapes it.
pub(super) fn one_way_to_the_terminal(file: &SourceFile, findings: &mut Vec<Finding>) {
    let listed = TERMINAL.iter().any(|place| file.path.starts_with(place));
    if library_of(&file.path) != Some("looptree-cli") || is_test_file(&file.path) || listed {
        return;
    }
    // Asking whether it is a terminal writes nothing.
    let asks = ["io::stdout().is_terminal", "io::stderr().is_terminal"];
    let code = asks.iter().fold(code_only(&file.text), |code, asks| code.replace(asks, ""));
    for word in TERMINAL_WORDS {
        for line in lines_with(&code, word) {
            let text = format!("`{word}`: show text with `Screen` or `write_output`, which escape it");
            findings.push(Finding::error("terminal", &file.path, line, text));
        }
    }
}

/// The one file that makes commands.
const PROGRAM: &str = "crates/agent-tools/src/program.rs";

/// A program is found once, outside of the folders that commands can write to. A command made from a name looks it up again.
pub(super) fn programs_are_found_once(file: &SourceFile, findings: &mut Vec<Finding>) {
    let is_library = file.path.starts_with("crates/") && file.path.contains("/src/");
    if !is_library || file.path == PROGRAM || is_test_file(&file.path) {
        return;
    }
    let why = "find the program with `agent_tools::program::SearchPath` and start it with `Program::command`";
    names_none(file, &["Command::new", "CommandWrap::with_new"], "programs-are-found-once", why, findings);
}

fn names_none(file: &SourceFile, words: &[&str], rule: &'static str, why: &str, findings: &mut Vec<Finding>) {
    let code = code_only(&file.text);
    for word in words {
        for line in lines_with(&code, word) {
            findings.push(Finding::error(rule, &file.path, line, format!("`{word}`: {why}")));
        }
    }
}

/// The first part of each path in the braces that `opening` begins on `line`.
fn imported(code: &str, line: usize, opening: &str) -> Vec<String> {
    let rest: String = code.lines().skip(line - 1).collect::<Vec<_>>().join(" ");
    let Some(at) = rest.find(opening) else { return Vec::new() };
    let mut names = Vec::new();
    let mut depth = 1_u32;
    let mut name = String::new();
    let mut taking = true;
    for c in rest.chars().skip(rest.get(..at + opening.len()).map_or(0, |s| s.chars().count())) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => {
                names.push(std::mem::take(&mut name));
                taking = true;
                continue;
            }
            ':' if depth == 1 => taking = false,
            _ if taking && (c.is_alphanumeric() || c == '_') => name.push(c),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names.push(name);
    names
}

/// What only code has.
const LOGIC_WORDS: &[&str] =
    &["fn", "struct", "enum", "trait", "impl", "const", "static", "type", "union", "macro_rules!", "let"];

/// Invariant 10: the facade holds modules, re-exports and documentation, and no logic. An item that only carries
/// documentation to be tested (under `doctest`) is documentation.
pub(super) fn facade_only_re_exports(file: &SourceFile, findings: &mut Vec<Finding>) {
    if library_of(&file.path) != Some("looptree") || is_test_file(&file.path) {
        return;
    }
    let code = code_only(&file.text);
    let lines: Vec<&str> = code.lines().collect();
    for word in LOGIC_WORDS {
        for line in lines_with(&code, word) {
            let mut above =
                lines.iter().take(line - 1).rev().take_while(|l| l.trim_start().starts_with("#["));
            if !above.any(|l| l.contains("doctest")) {
                let text = format!(
                    "`{word}` in the facade; it only re-exports, so put it into the crate it belongs to"
                );
                findings.push(Finding::error("facade-only-re-exports", &file.path, line, text));
            }
        }
    }
}

/// Files stay readable in one sitting.
pub(super) fn file_size(file: &SourceFile, findings: &mut Vec<Finding>) {
    if !file.path.ends_with(".rs") {
        return;
    }
    let lines = file.text.lines().count();
    if lines > WALL {
        let text = format!("{lines} lines, more than {WALL}; split it by what it is about");
        findings.push(Finding::error("file-size", &file.path, 0, text));
    } else if lines > AIM && !is_test_file(&file.path) {
        let text = format!("{lines} lines, more than {AIM}");
        findings.push(Finding::warning("file-size", &file.path, 0, text));
    }
}

/// Unit tests stand in a file of their own.
pub(super) fn inline_tests(file: &SourceFile, findings: &mut Vec<Finding>) {
    if !file.path.ends_with(".rs") {
        return;
    }
    for (number, line) in code_only(&file.text).lines().enumerate() {
        let line = line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
        if line.strip_prefix("mod tests").is_some_and(|rest| rest.trim_start().starts_with('{')) {
            let text = "inline test module; move it to a sibling file tests.rs";
            findings.push(Finding::error("inline-tests", &file.path, number + 1, text));
        }
    }
}

/// Files that implement a foreign trait whose signatures name an unordered map; each says so where it does.
const FOREIGN_MAPS: &[&str] = &["crates/agent-tools/src/mcp/event_stream.rs"];

/// Invariant 4: nothing unordered can reach a request or a file.
pub(super) fn unordered_maps(file: &SourceFile, findings: &mut Vec<Finding>) {
    if library_of(&file.path).is_none() || FOREIGN_MAPS.contains(&file.path.as_str()) {
        return;
    }
    let code = code_only(&file.text);
    for word in ["HashMap", "HashSet"] {
        for line in lines_with(&code, word) {
            let text = format!("`{word}`: its order differs from run to run; use an ordered map or set");
            findings.push(Finding::error("unordered-maps", &file.path, line, text));
        }
    }
}

/// Invariant 11: library code does not panic. Clippy checks the same; this also sees code that a feature hides.
pub(super) fn panics(file: &SourceFile, findings: &mut Vec<Finding>) {
    let exempt = file.path.starts_with("crates/agent-core/src/testing");
    if library_of(&file.path).is_none() || is_test_file(&file.path) || exempt {
        return;
    }
    let code = code_only(&file.text);
    let raw: Vec<&str> = file.text.lines().collect();
    for word in [".unwrap()", ".expect(", "panic!", "unreachable!", "todo!", "unimplemented!"] {
        for line in lines_with(&code, word) {
            if !excused(&raw, line) {
                let text =
                    format!("`{word}` in library code; return a typed error, or say why with #[expect]");
                findings.push(Finding::error("panics", &file.path, line, text));
            }
        }
    }
}

/// Whether one of the few lines above says with `#[expect(clippy::...)]` and a reason why it is right.
fn excused(lines: &[&str], line: usize) -> bool {
    const NEAR: usize = 12;
    let before = lines.get(line.saturating_sub(NEAR)..line).unwrap_or_default().join("\n");
    before.contains("expect(clippy::") && before.contains("reason =")
}

/// A module is named for what it holds.
pub(super) fn module_names(file: &SourceFile, findings: &mut Vec<Finding>) {
    if !file.path.ends_with(".rs") {
        return;
    }
    let path = Path::new(&file.path);
    let parts = path.with_extension("");
    for part in parts.iter().filter_map(|p| p.to_str()) {
        if ["utils", "util", "helpers", "helper", "common", "misc"].contains(&part) {
            let text = format!("`{part}` says nothing; name what is in it");
            findings.push(Finding::error("module-names", &file.path, 0, text));
        }
    }
}

/// Every public module of a library opens with what it is for, and an example that runs.
pub(super) fn public_modules_are_described(files: &[SourceFile], findings: &mut Vec<Finding>) {
    for parent in files.iter().filter(|f| library_of(&f.path).is_some() && !is_test_file(&f.path)) {
        for (number, line) in code_only(&parent.text).lines().enumerate() {
            let Some(rest) = line.strip_prefix("pub mod ") else { continue };
            let Some(name) = rest.strip_suffix(';').map(str::trim) else { continue };
            let candidates = children(&parent.path, name);
            let Some(child) = files.iter().find(|f| candidates.contains(&f.path)) else { continue };
            let head: String = child
                .text
                .lines()
                .skip_while(|l| l.starts_with("#![") || l.trim().is_empty())
                .take_while(|l| l.starts_with("//!"))
                .collect::<Vec<_>>()
                .join("\n");
            if head.is_empty() {
                let text =
                    format!("public module {name} ({}:{}) begins without //! lines", parent.path, number + 1);
                findings.push(Finding::error("module-docs", &child.path, 1, text));
            } else if !head.contains("```") {
                let text = format!("public module {name} shows no example in its //! lines");
                findings.push(Finding::warning("module-docs", &child.path, 1, text));
            }
        }
    }
}

/// Where the module `name` of the file `parent` can be.
fn children(parent: &str, name: &str) -> [String; 2] {
    let folder = parent.strip_suffix("/lib.rs").or_else(|| parent.strip_suffix("/mod.rs"));
    let folder = folder.or_else(|| parent.strip_suffix(".rs")).unwrap_or(parent);
    [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")]
}
