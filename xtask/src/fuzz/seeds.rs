//! Inputs to begin from: the recordings of the project's own conformance set in the form that the targets read, and the
//! words in them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::{BasicAgent, ModelConfig, StopReason};
use agent_providers::eventstream::{FrameDecoder, HeaderValue};
use agent_session::{JsonStore, SessionRecorder};
use anyhow::Context as _;
use serde_json::json;

use crate::conformance::OWN_SET;
use crate::workspace::Workspace;

/// The file of words.
pub(super) const WORDS: &str = "words.dict";

/// The targets of decoders, and the folders of the set that hold their recordings.
const DECODERS: &[(&str, &[&str])] = &[
    ("anthropic", &["anthropic"]),
    ("openai_chat", &["openai-chat"]),
    ("openai_responses", &["openai-responses", "azure-responses"]),
    ("google", &["gemini", "vertex"]),
    ("ollama", &["ollama"]),
    ("bedrock", &["bedrock"]),
];

/// How an input is read, as `agent_providers::fuzzing` has it: its first byte.
const STREAM: u8 = 0b000;
const WHOLE: u8 = 0b001;
const REJECTED: u8 = 0b010;
/// With tools and a form for the answer.
const FORM: u8 = 0b100;

/// How an input is cut: its second byte.
const CUT: u8 = 7;

/// The longest frame of a recording.
const MAX_FRAME: usize = 1 << 20;

/// The longest word that is kept.
const LONGEST_WORD: usize = 40;

/// Arguments of tool calls, whole and cut.
const ARGUMENTS: &[&str] = &[
    "",
    "{}",
    r#"{"a":{"b":[1.5e9,null,true]}}"#,
    r#"{"city":"Os"#,
    r#"{"x":"\ud83d\ude00"#,
    "[1,2",
    "nul",
    "{} {}",
];

/// Descriptions of APIs.
const DESCRIPTIONS: &str = "crates/agent-tools/tests/openapi/specs";

/// The separator between the file and the journal of a session in an input.
const BETWEEN: &[u8] = b"\n=====\n";

/// The session that the target reads.
const SESSION: &str = "s";

/// Writes everything under this folder.
pub(super) fn write(workspace: &Workspace, folder: &Path) -> anyhow::Result<()> {
    let mut words = BTreeSet::new();
    for (target, sources) in DECODERS {
        for source in *sources {
            recordings(&workspace.root.join(OWN_SET).join(source), folder, target, &mut words)?;
        }
    }
    for (n, input) in ARGUMENTS.iter().enumerate() {
        put(folder, "arguments", &n.to_string(), &[&[CUT], input.as_bytes()].concat())?;
    }
    for (name, input) in sessions(folder)? {
        words.extend(words_of(&String::from_utf8_lossy(&input)));
        put(folder, "session", name, &input)?;
    }
    let descriptions = workspace.root.join(DESCRIPTIONS);
    let entries = std::fs::read_dir(&descriptions);
    for entry in entries.with_context(|| format!("cannot read {}", descriptions.display()))? {
        let path = entry?.path();
        let input = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        words.extend(words_of(&String::from_utf8_lossy(&input)));
        put(folder, "openapi", name, &input)?;
    }
    put(folder, "frames", "empty", &[1, CUT])?;
    let mut dictionary = String::new();
    for word in words {
        let _ = writeln!(dictionary, "\"\\\"{word}\\\"\"");
    }
    let path = folder.join(WORDS);
    std::fs::write(&path, dictionary).with_context(|| format!("cannot write {}", path.display()))
}

/// The recordings of a folder, each read in two ways.
fn recordings(
    source: &Path,
    folder: &Path,
    target: &str,
    words: &mut BTreeSet<String>,
) -> anyhow::Result<()> {
    // The set need not have cases of every protocol.
    let Ok(entries) = std::fs::read_dir(source) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let Some(mode) = mode(name) else { continue };
        let body = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        words.extend(words_of(&String::from_utf8_lossy(&body)));
        let frames = target == "bedrock" && mode == STREAM;
        let read = if frames { lines_of_frames(&body) } else { body.clone() };
        for (ending, mode) in [("", mode), (".form", mode | FORM)] {
            put(folder, target, &format!("{name}{ending}"), &[&[mode, CUT], &read[..]].concat())?;
        }
        let framing = if frames {
            "frames"
        } else if name.ends_with(".ndjson") {
            "lines"
        } else {
            "sse"
        };
        put(folder, framing, &format!("{target}-{name}"), &[&[0, CUT], &body[..]].concat())?;
    }
    Ok(())
}

/// A run with a call and its result: with the journal alone, with a journal that is cut, with the file alone, with both.
fn sessions(folder: &Path) -> anyhow::Result<Vec<(&'static str, Vec<u8>)>> {
    let recorded = folder.join("recorded");
    if recorded.exists() {
        std::fs::remove_dir_all(&recorded).with_context(|| format!("cannot clear {}", recorded.display()))?;
    }
    let store = JsonStore::open(&recorded)?;
    let read = |ending: &str| {
        let path = recorded.join(format!("{SESSION}{ending}"));
        std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start tokio")?;
    runtime.block_on(async {
        let call = ScriptedReply::text("I call.").and_call("call_1", "nobody", json!({"a": [1, "ü"]}));
        let replies = [call.stopping(StopReason::ToolUse), ScriptedReply::text("Done.")];
        let mut agent = BasicAgent::new(ModelConfig::default())
            .with_provider(ScriptedProvider::new(replies))
            .with_session_id(SESSION);
        let recorder = SessionRecorder::attach(&mut agent, store);
        agent.chat("Go.").await?;
        recorder.ready(SESSION).await?;
        let journal = read(".journal.jsonl")?;
        recorder.close().await?;
        let file = read(".json")?;
        let (half, _) = journal.split_at(journal.len() * 2 / 3);
        Ok(vec![
            ("journal", [BETWEEN, &journal].concat()),
            ("journal-cut", [BETWEEN, half].concat()),
            ("both", [&file, BETWEEN, &journal].concat()),
            ("file", file),
        ])
    })
}

/// Frames as the target of their decoder takes them: a line for each, the event's name, `|` and the payload; an exception
/// has a `!` before it. What cannot be read is left out.
pub(super) fn lines_of_frames(mut body: &[u8]) -> Vec<u8> {
    let mut frames = FrameDecoder::new(MAX_FRAME);
    let mut lines = Vec::new();
    while let Ok(Some(message)) = frames.next(&mut body) {
        let name = |wanted: &str| {
            let header = message.headers().iter().find(|h| h.name().as_str() == wanted)?;
            match header.value() {
                HeaderValue::String(text) => Some(text.as_str().to_owned()),
                _ => None,
            }
        };
        let event = name(":event-type").or_else(|| name(":exception-type").map(|n| format!("!{n}")));
        lines.extend(event.unwrap_or_default().into_bytes());
        lines.push(b'|');
        lines.extend(message.payload());
        lines.push(b'\n');
    }
    lines
}

/// How a recording of this name is read; `None` for what is expected of one.
pub(super) fn mode(name: &str) -> Option<u8> {
    if name.ends_with(".expected.json") {
        return None;
    }
    Some(match name.ends_with(".json") {
        _ if name.starts_with("err4") || name.starts_with("err5") => REJECTED,
        true => WHOLE,
        false => STREAM,
    })
}

/// The names and short values in a text: the words between two quotes.
pub(super) fn words_of(text: &str) -> Vec<String> {
    let is_word = |w: &&str| {
        (2..=LONGEST_WORD).contains(&w.len()) && w.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    text.split('"').filter(is_word).map(str::to_owned).collect()
}

fn put(folder: &Path, target: &str, name: &str, input: &[u8]) -> anyhow::Result<()> {
    let folder = folder.join("seeds").join(target);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join(name);
    std::fs::write(&path, input).with_context(|| format!("cannot write {}", path.display()))
}
