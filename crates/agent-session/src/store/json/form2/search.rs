//! Searches the lines of a session's file and of its journal for words, without building the session.

use std::io::BufRead;
use std::path::Path;

use agent_core::LoopId;
use serde::Deserialize;

use super::super::super::query::{HITS, TextHit};
use super::super::super::{lines, words};
use super::super::header::LightMessage;
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

/// The bytes at the beginning of a line that tell what it is: the checksum, the number, the time, and the next member.
const BEGIN: usize = 128;

/// A search through the lines of a session.
#[derive(Debug)]
pub(in super::super) struct Search<'a> {
    asked: &'a [String],
    /// The loops in their order, as the lines name them.
    loops: Vec<Vec<u8>>,
    /// The places of the words, with the position of the loop.
    hits: Vec<(usize, TextHit)>,
}

impl<'a> Search<'a> {
    pub(in super::super) fn new(asked: &'a [String]) -> Self {
        Self { asked, loops: Vec::new(), hits: Vec::new() }
    }

    /// Searches the lines of the session's file after its first two.
    ///
    /// # Errors
    /// When the file cannot be read, or a line before the last place is damaged.
    pub(in super::super) fn file(&mut self, path: &Path, mut file: impl BufRead) -> Result<(), SessionError> {
        let (mut line, mut at) = (Vec::new(), 2);
        while self.hits.len() < HITS && read_line(path, &mut file, &mut line)? {
            at += 1;
            let line = line.strip_suffix(b",").unwrap_or(&line);
            self.line(path, at, line)?;
        }
        Ok(())
    }

    /// Searches the records of the journal. Returns `false` if they have an event of a group, which can change the order of
    /// the loops.
    ///
    /// # Errors
    /// When the file cannot be read, or a line with these words is damaged.
    pub(in super::super) fn journal(
        &mut self,
        path: &Path,
        mut file: impl BufRead,
    ) -> Result<bool, SessionError> {
        let (mut line, mut at) = (Vec::new(), 3);
        while read_line(path, &mut file, &mut line)? {
            at += 1;
            let begin = line.get(..BEGIN).unwrap_or(&line);
            if memchr::memmem::find(begin, b",\"group\":").is_some() {
                return Ok(false);
            }
            self.line(path, at, &line)?;
        }
        Ok(true)
    }

    fn line(&mut self, path: &Path, at: usize, line: &[u8]) -> Result<(), SessionError> {
        if !lines::is_sealed(line) {
            return Ok(());
        }
        let position = self.position(line);
        if self.hits_of(position) >= HITS {
            return Ok(());
        }
        let corrupt = |reason| SessionError::corrupt(path, format!("line {at}"), reason);
        let found = search_line(line, self.asked).map_err(corrupt)?;
        self.hits.extend(found.into_iter().map(|hit| (position, hit)));
        Ok(())
    }

    /// Returns the position of the line's loop, and adds a new one.
    fn position(&mut self, line: &[u8]) -> usize {
        let begin = line.get(..BEGIN).unwrap_or(line);
        let after = |key: &[u8]| line.get(memchr::memmem::find(begin, key)? + key.len()..);
        let Some(id) = after(b",\"loop\":\"").or_else(|| after(b",\"record\":{\"loop_id\":\"")) else {
            return self.loops.len();
        };
        let id = id.get(..end_of_text(id)).unwrap_or(id);
        // Lines of a loop mostly follow each other.
        if let Some(at) = self.loops.iter().rposition(|known| known == id) {
            return at;
        }
        self.loops.push(id.to_vec());
        self.loops.len() - 1
    }

    fn hits_of(&self, position: usize) -> usize {
        self.hits.iter().filter(|(at, _)| *at == position).count()
    }

    /// Returns the first places in the order of the loops and their messages.
    pub(in super::super) fn finish(mut self) -> Vec<TextHit> {
        self.hits.sort_by_key(|(position, hit)| (*position, hit.message));
        self.hits.into_iter().map(|(_, hit)| hit).take(HITS).collect()
    }
}

/// Returns the offset of the quotation mark that ends a JSON text.
fn end_of_text(rest: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = rest.iter().position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    });
    end.unwrap_or(rest.len())
}

/// Reads the next line without its line feed. Returns `false` at the end of the file.
fn read_line(path: &Path, file: &mut impl BufRead, line: &mut Vec<u8>) -> Result<bool, SessionError> {
    line.clear();
    let read = file.read_until(b'\n', line).map_err(SessionError::io(path, "read"))?;
    line.pop_if(|last| *last == b'\n');
    Ok(read > 0)
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
        if !may_have(text.as_bytes(), asked) {
            continue;
        }
        if let Some(found) = words::find(&text, asked) {
            hits.push(TextHit::new(read.loop_id.clone(), read.after.0 + n, words::snippet(&text, found)));
        }
    }
    Ok(hits)
}

/// Returns whether a text, or a message of a line, can have all words. Words have no characters that JSON escapes. The lower case of some
/// other characters is ASCII, so that only lines of ASCII are searched as bytes.
fn may_have(text: &[u8], asked: &[String]) -> bool {
    if !text.is_ascii() {
        return true;
    }
    let text = text.to_ascii_lowercase();
    asked.iter().all(|word| memchr::memmem::find(&text, word.as_bytes()).is_some())
}
