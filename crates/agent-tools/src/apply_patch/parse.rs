//! Reads the envelope format: sections of files, hunks, lines.

use super::{MAX_FILES, MAX_PATCH_BYTES, PatchError};

/// The part of a patch about one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) path: String,
    pub(super) action: Action,
}

/// What a section does with its file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Creates the file with this content.
    Add(String),
    /// Removes the file.
    Delete,
    /// Changes the file, and gives it another path.
    Update { moved_to: Option<String>, hunks: Vec<Hunk> },
}

/// One place of a file that is changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// The lines of `@@`: each is searched for after the one before, and the hunk after the last.
    pub(super) contexts: Vec<String>,
    pub(super) lines: Vec<Line>,
    /// Whether the hunk ends with the file.
    pub(super) at_end: bool,
}

/// A line of a hunk.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Keep(String),
    Remove(String),
    Add(String),
}

impl Line {
    /// Returns the text if the line is in the file before the change.
    pub(super) fn old(&self) -> Option<&str> {
        match self {
            Self::Keep(text) | Self::Remove(text) => Some(text),
            Self::Add(_) => None,
        }
    }
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// Returns the sections of a patch, at least one.
///
/// # Errors
/// Returns an error that names the line of the patch.
pub(super) fn parse(patch: &str) -> Result<Vec<Section>, PatchError> {
    if patch.len() > MAX_PATCH_BYTES {
        return Err(PatchError::TooLarge { bytes: patch.len() });
    }
    let mut lines = Lines::new(patch);
    lines.begin()?;
    let mut sections = Vec::new();
    while let Some(section) = lines.section()? {
        if sections.len() == MAX_FILES {
            return Err(PatchError::TooManyFiles);
        }
        sections.push(section);
    }
    if sections.is_empty() {
        return Err(lines.wrong("the patch has no section; begin one with `*** Update File: PATH`"));
    }
    Ok(sections)
}

struct Lines<'a> {
    lines: Vec<&'a str>,
    at: usize,
}

impl<'a> Lines<'a> {
    fn new(patch: &'a str) -> Self {
        let lines = patch.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
        Self { lines, at: 0 }
    }

    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn wrong(&self, cause: impl Into<String>) -> PatchError {
        PatchError::Syntax { line: self.at + 1, cause: cause.into() }
    }

    fn skip_empty(&mut self) {
        while self.peek().is_some_and(|line| line.trim().is_empty()) {
            self.at += 1;
        }
    }

    /// Reads the first line, and removes what follows the last one. A model that would otherwise write a command puts a here
    /// document around the patch.
    fn begin(&mut self) -> Result<(), PatchError> {
        while self.lines.last().is_some_and(|line| line.trim().is_empty()) {
            self.lines.pop();
        }
        self.skip_empty();
        let opening = self.peek().unwrap_or_default().trim();
        if let Some((_, word)) = opening.split_once("<<") {
            let word = word.trim_matches(['-', '\'', '"', ' ']);
            if !word.is_empty() && self.lines.last().is_some_and(|last| last.trim() == word) {
                self.lines.pop();
                self.at += 1;
            }
        }
        if self.peek().map(str::trim) != Some(BEGIN) {
            return Err(self.wrong(format!("a patch begins with `{BEGIN}`")));
        }
        self.at += 1;
        Ok(())
    }

    /// Reads a section; `None` at the end of the patch.
    fn section(&mut self) -> Result<Option<Section>, PatchError> {
        self.skip_empty();
        let Some(line) = self.peek() else {
            return Err(self.wrong(format!("the patch is cut; it ends with `{END}`")));
        };
        if line.trim_end() == END {
            self.at += 1;
            self.skip_empty();
            return match self.peek() {
                None => Ok(None),
                Some(_) => Err(self.wrong(format!("nothing may follow `{END}`"))),
            };
        }
        let path = |rest: &str| match rest.trim() {
            "" => Err(self.wrong("the path is missing")),
            path => Ok(path.to_owned()),
        };
        if let Some(rest) = line.strip_prefix(ADD) {
            let path = path(rest)?;
            self.at += 1;
            return Ok(Some(Section { path, action: Action::Add(self.added()?) }));
        }
        if let Some(rest) = line.strip_prefix(DELETE) {
            let path = path(rest)?;
            self.at += 1;
            return Ok(Some(Section { path, action: Action::Delete }));
        }
        if let Some(rest) = line.strip_prefix(UPDATE) {
            let path = path(rest)?;
            self.at += 1;
            return Ok(Some(Section { path, action: self.update()? }));
        }
        Err(self.wrong(format!("expected `{ADD}`, `{DELETE}`, `{UPDATE}` or `{END}`")))
    }

    fn added(&mut self) -> Result<String, PatchError> {
        let mut content = String::new();
        while let Some(line) = self.peek() {
            if let Some(text) = line.strip_prefix('+') {
                content.push_str(text);
                content.push('\n');
            } else if line.starts_with("*** ") || line.trim().is_empty() {
                break;
            } else {
                return Err(self.wrong("each line of a new file begins with `+`"));
            }
            self.at += 1;
        }
        Ok(content)
    }

    fn update(&mut self) -> Result<Action, PatchError> {
        let moved_to = match self.peek().and_then(|line| line.strip_prefix(MOVE)) {
            Some(rest) if rest.trim().is_empty() => return Err(self.wrong("the path is missing")),
            Some(rest) => {
                self.at += 1;
                Some(rest.trim().to_owned())
            }
            None => None,
        };
        let mut hunks = Vec::new();
        while let Some(hunk) = self.hunk(hunks.is_empty())? {
            hunks.push(hunk);
        }
        if hunks.is_empty() && moved_to.is_none() {
            return Err(self.wrong("the section has no hunk; write its lines with ` `, `-` or `+` in front"));
        }
        Ok(Action::Update { moved_to, hunks })
    }

    /// Reads a hunk; `None` at the end of the section. The first hunk needs no `@@`.
    fn hunk(&mut self, is_first: bool) -> Result<Option<Hunk>, PatchError> {
        let mut hunk = Hunk::default();
        let start = self.at;
        while let Some(rest) = self.peek().and_then(|line| line.strip_prefix("@@")) {
            hunk.contexts.extend(context(rest));
            self.at += 1;
        }
        let has_header = self.at > start;
        // Empty lines without a mark are empty lines of the file, but not those before the next section.
        let mut marked = 0;
        while let Some(line) = self.peek() {
            if line.trim_end() == END_OF_FILE {
                hunk.at_end = true;
                self.at += 1;
                break;
            }
            let read = match line.chars().next() {
                None => Line::Keep(String::new()),
                Some(' ') => Line::Keep(line.get(1..).unwrap_or_default().to_owned()),
                Some('-') => Line::Remove(line.get(1..).unwrap_or_default().to_owned()),
                Some('+') => Line::Add(line.get(1..).unwrap_or_default().to_owned()),
                Some('@') if line.starts_with("@@") => break,
                Some('*') if line.starts_with("*** ") => break,
                Some(_) => {
                    return Err(self.wrong(
                        "each line of a hunk begins with ` ` (unchanged), `-` (removed) or `+` (added)",
                    ));
                }
            };
            hunk.lines.push(read);
            self.at += 1;
            if !line.is_empty() {
                marked = hunk.lines.len();
            }
        }
        hunk.lines.truncate(marked);
        if !hunk.lines.is_empty() {
            return if is_first || has_header {
                Ok(Some(hunk))
            } else {
                Err(self.wrong("a hunk begins with `@@`"))
            };
        }
        if has_header || hunk.at_end {
            return Err(self.wrong("the hunk has no lines"));
        }
        Ok(None)
    }
}

/// Returns the line that `@@` names. The numbers of a unified diff are ignored, because models do not count lines well.
fn context(rest: &str) -> Option<String> {
    let text = rest.strip_prefix(' ').unwrap_or(rest);
    let is_range = |part: &str, sign: char| {
        part.strip_prefix(sign)
            .is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit() || c == ','))
    };
    let mut words = text.split_whitespace();
    let is_header = words.next().is_some_and(|word| is_range(word, '-'))
        && words.next().is_some_and(|word| is_range(word, '+'));
    (!is_header && !text.trim().is_empty()).then(|| text.to_owned())
}
