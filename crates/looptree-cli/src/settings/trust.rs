//! Which settings a project's own file may change: stricter ones always, looser ones after the user agreed.

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

use super::Layer;
use super::file::ConfigFile;
use crate::args::Color;
use crate::screen::{Screen, Stream};

/// How long the input must be silent until everything that was typed ahead is discarded.
const QUIET: Duration = Duration::from_millis(60);

/// What happens with a project's settings that loosen the policy or the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consent {
    /// The user decides once for each content of the file, if there is a terminal.
    Ask,
    /// They are left out, unless the user has agreed before.
    Remembered,
    /// They apply without a question.
    Given,
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

/// The settings that are used of a project's file.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    pub(crate) layer: Layer,
    pub(crate) profile: Option<Layer>,
    /// The profile that the file selects: it may be a loose one of the user's.
    pub(crate) selects: Option<String>,
}

/// Returns the settings of a project's file that may be used, and adds a note about the others.
pub(crate) fn layers(
    file: &ConfigFile,
    flag: Option<&str>,
    of_user: Option<&str>,
    consent: Consent,
    notes: &mut Vec<String>,
) -> Result<Layers> {
    let profile = flag.or(file.profile.as_deref()).or(of_user);
    let selected = profile.and_then(|name| file.profiles.get(name));
    let mut names = file.layer.loosening();
    if flag.is_none() && file.profile.is_some() {
        names.push("profile");
    }
    for name in selected.map(Layer::loosening).unwrap_or_default() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let whole =
        || Layers { layer: file.layer.clone(), profile: selected.cloned(), selects: file.profile.clone() };
    if names.is_empty() || consent == Consent::Given || agreed(file)? {
        return Ok(whole());
    }
    if consent == Consent::Ask && ask(file, &names)? {
        remember(file)?;
        return Ok(whole());
    }
    notes.push(format!(
        "ignored in {}: {}. These settings can reduce your protection; --trust-project uses them for this run, and a chat asks once",
        file.path.display(),
        names.join(", ")
    ));
    let unselected = flag.or(of_user).and_then(|name| file.profiles.get(name));
    Ok(Layers {
        layer: file.layer.without(&names),
        profile: unselected.map(|layer| layer.without(&layer.loosening())),
        selects: None,
    })
}

fn hash(file: &ConfigFile) -> String {
    let hash = Sha256::digest(file.text.as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the file with what the user agreed to; `None` without a home directory.
fn consents() -> Option<PathBuf> {
    let platform = etcetera::base_strategy::choose_native_strategy().ok()?;
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

fn agreed(file: &ConfigFile) -> Result<bool> {
    let Some(path) = consents() else { return Ok(false) };
    Ok(load(&path)?.get(&file.path.display().to_string()).is_some_and(|known| *known == hash(file)))
}

fn remember(file: &ConfigFile) -> Result<()> {
    let Some(path) = consents() else { return Ok(()) };
    let mut all = load(&path)?;
    all.insert(file.path.display().to_string(), hash(file));
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

fn ask(file: &ConfigFile, names: &[&str]) -> Result<bool> {
    let screen = Screen::new(Stream::Err, Color::Never);
    screen.line(&format!("The project's own configuration {} wants to set:", file.path.display()));
    for line in file.text.lines() {
        screen.line(&format!("  | {}", looptree::event::printable(line)));
    }
    screen.line(&format!("These settings can reduce your protection: {}.", names.join(", ")));
    forget_typed()?;
    screen.ask("Use them? You are asked again if the file changes. [y/N] ");
    let answer = read_marked()?;
    // The terminal puts marks around a paste.
    if answer.contains('\x1b') {
        screen.line("A paste does not answer a question. Start again to answer it.");
        return Ok(false);
    }
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
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
