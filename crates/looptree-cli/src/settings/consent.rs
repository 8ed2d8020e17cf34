//! The consent of the user to the content of a project's file: what it covers, where it is kept, and the question for it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use crossterm::event;
use crossterm::execute;
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use etcetera::BaseStrategy as _;
use sha2::{Digest as _, Sha256};

use super::file::{ConfigFile, platform, project_file, read_project};
use super::folders::project_folders;
use crate::args::{Color, Flags};
use crate::screen::{Screen, Stream};

/// How long the input must be silent until everything that was typed ahead is discarded.
const QUIET: Duration = Duration::from_millis(60);

/// The most lines of a project's file that a question shows. More would move a part out of the screen.
const MAX_SHOWN: usize = 60;

/// What happens with a project's settings that are not stricter than the user's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Consent {
    /// The user decides once for each content of the file, if there is a terminal.
    Ask,
    /// They are left out, unless the user has agreed before.
    Remembered,
    /// They apply without a question.
    Given,
    /// The process serves others, who can write the file. Nothing of it applies, unless the user has agreed to this content before,
    /// or it is the content that the file had when the process started with the flag for it.
    Serves(Option<KnownContent>),
}

impl Consent {
    /// Asks only if a terminal can answer.
    pub(crate) fn for_chat(given: bool) -> Self {
        match (given, std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
            (true, _) => Self::Given,
            (false, true) => Self::Ask,
            (false, false) => Self::Remembered,
        }
    }
}

/// A configuration file with the content that it had once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownContent {
    path: PathBuf,
    hash: String,
}

/// Returns the consent for a process that serves others. With the flag for it, the content that the project's file has now applies, and
/// no later one.
pub(crate) fn serving_consent(flags: &Flags) -> Result<Consent> {
    let mut now = None;
    if flags.trust_project
        && let Some(path) = project_file(&project_folders(&super::directory(flags)?))
    {
        now = read_project(&path)?.map(|file| file.content());
    }
    Ok(Consent::Serves(now))
}

impl ConfigFile {
    fn hash(&self) -> String {
        let hash = Sha256::digest(self.text.as_bytes());
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(super) fn content(&self) -> KnownContent {
        KnownContent { path: self.path.clone(), hash: self.hash() }
    }

    pub(super) fn is_agreed(&self) -> Result<bool> {
        let Some(path) = consents() else { return Ok(false) };
        Ok(load(&path)?.get(&self.path.display().to_string()).is_some_and(|known| *known == self.hash()))
    }

    fn remember(&self) -> Result<()> {
        let Some(path) = consents() else { return Ok(()) };
        let mut all = load(&path)?;
        all.insert(self.path.display().to_string(), self.hash());
        let cannot = || format!("cannot write {}", path.display());
        let folder = path.parent().with_context(cannot)?;
        std::fs::create_dir_all(folder).with_context(cannot)?;
        // Replaced as a whole, so that a second process does not read a half of it.
        let mut new = tempfile::NamedTempFile::new_in(folder).with_context(cannot)?;
        serde_json::to_writer_pretty(&mut new, &all).with_context(cannot)?;
        new.flush().with_context(cannot)?;
        new.persist(&path).with_context(cannot)?;
        Ok(())
    }

    /// Shows the file and asks whether it applies.
    pub(super) fn ask(&self, names: &[&str]) -> Result<bool> {
        let screen = Screen::new(Stream::Err, Color::Never);
        screen.line(format!("The project's own configuration {} wants to set:", self.path.display()));
        let lines: Vec<&str> = self.text.lines().filter(|line| !line.trim().is_empty()).collect();
        if lines.len() > MAX_SHOWN {
            screen.line(format!(
                "It has {} lines, and a question shows at most {MAX_SHOWN}: read the file, and use --trust-project if you agree.",
                lines.len()
            ));
            return Ok(false);
        }
        for line in lines {
            screen.line(format!("  | {line}"));
        }
        screen.line(format!("These settings can reduce your protection: {}.", names.join(", ")));
        forget_typed()?;
        screen.ask("Use them? You are asked again if the file changes. [y/N] ");
        let answer = read_marked()?;
        // The terminal puts marks around a paste.
        if answer.contains('\x1b') {
            screen.line("A paste does not answer a question. Start again to answer it.");
            return Ok(false);
        }
        let agrees = matches!(answer.trim().to_lowercase().as_str(), "y" | "yes");
        if agrees {
            self.remember()?;
        }
        Ok(agrees)
    }
}

/// Returns the file with what the user agreed to; `None` without a home directory.
fn consents() -> Option<PathBuf> {
    let platform = platform()?;
    Some(platform.data_dir().join("looptree/trusted.json"))
}

fn load(path: &Path) -> Result<BTreeMap<String, String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text)
            .with_context(|| format!("{} is damaged; delete it, and you are asked again", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Discards what was typed or pasted before the question was visible.
fn forget_typed() -> std::io::Result<()> {
    enable_raw_mode()?;
    while event::poll(QUIET).is_ok_and(|typed| typed) && event::read().is_ok() {}
    disable_raw_mode()
}

/// Reads a line from a terminal that marks pastes.
fn read_marked() -> std::io::Result<String> {
    // A terminal without it pastes line by line.
    let _ = execute!(std::io::stderr(), event::EnableBracketedPaste);
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    let _ = execute!(std::io::stderr(), event::DisableBracketedPaste);
    read.map(|_| answer)
}
