//! Searches the file of a session for words, without building the session.

use std::io::BufRead;
use std::path::Path;

use agent_core::LoopId;
use serde::Deserialize;

use super::super::super::query::{HITS, TextHit};
use super::super::super::{SessionSummary, lines, words};
use super::super::header::LightMessage;
use super::read_summary;
use crate::error::SessionError;
use crate::model::stored::Counts;

/// The messages of a line.
#[derive(Deserialize)]
struct Messages {
    #[serde(rename = "loop")]
    loop_id: LoopId,
    #[serde(default)]
    after: Counts,
    #[serde(default)]
    messages: Vec<LightMessage>,
}

/// Returns the summary of a session and the first places of these words.
///
/// # Errors
/// When the file cannot be read, or a line before the last place is damaged.
pub(in super::super) fn search(
    path: &Path,
    mut file: impl BufRead,
    id: &str,
    asked: &[String],
) -> Result<(SessionSummary, Vec<TextHit>), SessionError> {
    let summary = read_summary(path, &mut file, id)?;
    let (mut hits, mut line, mut at) = (Vec::new(), Vec::new(), 2);
    while hits.len() < HITS {
        line.clear();
        at += 1;
        if file.read_until(b'\n', &mut line).map_err(SessionError::io(path, "read"))? == 0 {
            break;
        }
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let line = line.strip_suffix(b",").unwrap_or(line);
        if lines::is_sealed(line) {
            let corrupt = |reason| SessionError::corrupt(path, format!("line {at}"), reason);
            hits.extend(search_line(line, asked).map_err(corrupt)?);
        }
    }
    hits.truncate(HITS);
    Ok((summary, hits))
}

/// Returns the places of these words in a line of a session, or in a record of a journal.
///
/// # Errors
/// The reason why the line is damaged.
pub(in crate::store) fn search_line(line: &[u8], asked: &[String]) -> Result<Vec<TextHit>, String> {
    let mut hits = Vec::new();
    if !may_have(line, asked) {
        return Ok(hits);
    }
    lines::open(line)?;
    // Lines of loops have no messages.
    let Ok(read) = serde_json::from_slice::<Messages>(line) else { return Ok(hits) };
    for (n, message) in read.messages.iter().enumerate() {
        let text = message.text();
        if let Some(found) = words::find(&text, asked) {
            hits.push(TextHit::new(read.loop_id.clone(), read.after.0 + n, words::snippet(&text, found)));
        }
    }
    Ok(hits)
}

/// Returns whether a message of the line can have all words. Words have no characters that JSON escapes. The lower case of some
/// other characters is ASCII, so that only lines of ASCII are searched as bytes.
fn may_have(line: &[u8], asked: &[String]) -> bool {
    if !line.is_ascii() {
        return true;
    }
    let line = line.to_ascii_lowercase();
    asked.iter().all(|word| memchr::memmem::find(&line, word.as_bytes()).is_some())
}
