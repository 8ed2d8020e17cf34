//! Which settings apply: everything that the user set, and of a project's file what is stricter, or what the user consented to.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use crossterm::event;
use crossterm::execute;
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use etcetera::BaseStrategy as _;
use looptree::ThinkingLevel;
use sha2::{Digest as _, Sha256};

use super::file::{ConfigFile, platform, project_file, read_own, read_project};
use super::folders::project_folders;
use super::{Layer, Origin, flags_layer};
use crate::args::{Approve, Color, Flags};
use crate::screen::{Screen, Stream};

/// How long the input must be silent until everything that was typed ahead is discarded.
const QUIET: Duration = Duration::from_millis(60);

/// The most lines of a project's file that a question shows. More would move a part out of the screen.
const MAX_SHOWN: usize = 60;

/// A value that the user controls: a default, or one of the user's file, the environment, the command line, or a project's file that the
/// user consented to. Only this module makes one of a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trusted<T>(T);

impl<T> Trusted<T> {
    pub(crate) fn get(&self) -> &T {
        &self.0
    }
}

impl Trusted<Layer> {
    pub(super) fn from_flags(flags: &Flags) -> Self {
        Self(flags_layer(flags))
    }

    /// Returns the layer with nothing but the model that the user names in a chat.
    pub(super) fn from_model_name(name: &str) -> Self {
        Self(Layer { model: Some(name.to_owned()), ..Layer::default() })
    }
}

/// The user's own configuration file.
pub(super) struct UserFile(ConfigFile);

impl UserFile {
    pub(super) fn read(path: &Path, must_exist: bool) -> Result<Option<Self>> {
        Ok(read_own(path, must_exist)?.map(Self))
    }

    pub(super) fn selects(&self) -> Option<&str> {
        self.0.profile.as_deref()
    }

    pub(super) fn profiles(&self) -> impl Iterator<Item = &str> {
        self.0.profiles.keys().map(String::as_str)
    }

    pub(super) fn layer(&self) -> Sourced {
        Sourced { origin: Origin::File(self.0.path.clone(), None), layer: Trusted(self.0.layer.clone()) }
    }

    pub(super) fn profile(&self, name: &str) -> Option<Sourced> {
        let layer = Trusted(self.0.profiles.get(name)?.clone());
        Some(Sourced { origin: Origin::File(self.0.path.clone(), Some(name.to_owned())), layer })
    }
}

/// A trusted layer and where it comes from.
#[derive(Debug, Clone)]
pub(crate) struct Sourced {
    pub(crate) origin: Origin,
    pub(crate) layer: Trusted<Layer>,
}

/// What a project's file may set without consent. There is no field for an address, a key, a price, a program or a path.
#[derive(Debug, Clone, Default)]
pub(super) struct Narrowing {
    /// The name of a model, which is used only at a destination of the user's.
    pub(super) model: Option<String>,
    /// No more than the user's.
    pub(super) thinking: Option<ThinkingLevel>,
    pub(super) asks: bool,
    pub(super) plan_only: bool,
    pub(super) omits_context: bool,
    pub(super) color: Option<Color>,
}

impl Layer {
    /// Returns the part that makes nothing looser, and the names of the other settings. `own` is how much the user lets models think.
    fn narrowed(&self, own: Option<ThinkingLevel>) -> (Narrowing, Vec<&'static str>) {
        // Without `..`, so that a new setting needs a decision here.
        let Self {
            model,
            base_url,
            api_key_env,
            context_window,
            thinking,
            approve,
            sandbox,
            sandbox_read,
            sandbox_write,
            sandbox_network,
            plan_only,
            sessions,
            budget,
            prices,
            max_tokens_total,
            max_turns,
            mcp_servers,
            skills,
            project_context,
            color,
        } = self;
        // A description as an object names an address and keys.
        let (name, object) = match model {
            Some(text) if text.trim_start().starts_with('{') => (None, Some(text)),
            name => (name.clone(), None),
        };
        let is_less = |level: &ThinkingLevel| *level <= own.unwrap_or_default();
        let narrowing = Narrowing {
            model: name,
            thinking: thinking.filter(is_less),
            asks: *approve == Some(Approve::Ask),
            plan_only: *plan_only == Some(true),
            omits_context: *project_context == Some(false),
            color: *color,
        };
        let others = [
            ("model", object.is_some()),
            ("base_url", base_url.is_some()),
            ("api_key_env", api_key_env.is_some()),
            ("context_window", context_window.is_some()),
            ("thinking", *thinking != narrowing.thinking),
            ("approve", approve.is_some() && !narrowing.asks),
            ("sandbox", sandbox.is_some()),
            ("sandbox_read", sandbox_read.is_some()),
            ("sandbox_write", sandbox_write.is_some()),
            ("sandbox_network", sandbox_network.is_some()),
            ("plan_only", *plan_only == Some(false)),
            ("sessions", sessions.is_some()),
            ("budget", budget.is_some()),
            ("prices", prices.is_some()),
            ("max_tokens_total", max_tokens_total.is_some()),
            ("max_turns", max_turns.is_some()),
            ("mcp_servers", mcp_servers.is_some()),
            ("skills", skills.is_some()),
            ("project_context", *project_context == Some(true)),
        ];
        let others = others.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect();
        (narrowing, others)
    }
}

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

/// A part of a project's file that applies, and its profile.
#[derive(Debug, Clone)]
pub(super) enum Part {
    Whole(Box<Sourced>),
    Narrowed(Origin, Narrowing),
}

/// What is used of a project's file.
#[derive(Debug, Default)]
pub(super) struct ProjectParts {
    pub(super) top: Option<Part>,
    pub(super) profile: Option<Part>,
    /// The profile that the file selects: it may be a loose one of the user's.
    pub(super) selects: Option<String>,
    pub(super) note: Option<String>,
}

/// A project's configuration file. Its settings leave it as [`Narrowing`], or as a whole with consent.
pub(super) struct ProjectFile(ConfigFile);

impl ProjectFile {
    pub(super) fn read(path: &Path) -> Result<Option<Self>> {
        Ok(read_project(path)?.map(Self))
    }

    pub(super) fn profiles(&self) -> impl Iterator<Item = &str> {
        self.0.profiles.keys().map(String::as_str)
    }

    /// Returns what applies with this consent, and a note about what does not. `flag` and `own` are the profiles that the command
    /// line and the user's file select, and `thinking` is the user's level.
    pub(super) fn parts(
        &self,
        flag: Option<&str>,
        own: Option<&str>,
        thinking: Option<ThinkingLevel>,
        consent: &Consent,
    ) -> Result<ProjectParts> {
        let file = &self.0;
        let wanted = flag.or(file.profile.as_deref()).or(own);
        let selected = wanted.and_then(|name| Some((name, file.profiles.get(name)?)));
        let (top, mut names) = file.layer.narrowed(thinking);
        if flag.is_none() && file.profile.is_some() {
            names.push("profile");
        }
        for name in selected.map(|(_, layer)| layer.narrowed(thinking).1).unwrap_or_default() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let origin = |profile: Option<&str>| Origin::Project(file.path.clone(), profile.map(str::to_owned));
        let agrees = match consent {
            Consent::Given => true,
            Consent::Serves(Some(known)) if *known == file.content() => true,
            // A damaged file of consents is no consent, and no reason to end the service.
            Consent::Serves(_) => file.is_agreed().unwrap_or(false),
            // What is stricter needs no consent.
            _ if names.is_empty() => false,
            Consent::Remembered => file.is_agreed()?,
            Consent::Ask => file.is_agreed()? || file.ask(&names)?,
        };
        if agrees {
            let whole = |profile: Option<&str>, layer: &Layer| {
                Part::Whole(Box::new(Sourced { origin: origin(profile), layer: Trusted(layer.clone()) }))
            };
            return Ok(ProjectParts {
                top: Some(whole(None, &file.layer)),
                profile: selected.map(|(name, layer)| whole(Some(name), layer)),
                selects: file.profile.clone(),
                note: None,
            });
        }
        if matches!(consent, Consent::Serves(_)) {
            return Ok(ProjectParts { note: Some(self.note_when_serving()), ..ProjectParts::default() });
        }
        let note = format!(
            "ignored in {}: {}. A project can set these only with your consent: `looptree` in this directory asks for it, and \
             `looptree --trust-project` uses them for one run",
            file.path.display(),
            names.join(", ")
        );
        let profile = flag.or(own).and_then(|name| Some((name, file.profiles.get(name)?)));
        Ok(ProjectParts {
            top: Some(Part::Narrowed(origin(None), top)),
            profile: profile
                .map(|(name, layer)| Part::Narrowed(origin(Some(name)), layer.narrowed(thinking).0)),
            selects: None,
            note: (!names.is_empty()).then_some(note),
        })
    }

    fn note_when_serving(&self) -> String {
        let file = &self.0;
        let all: Vec<_> = file.keys.iter().map(String::as_str).collect();
        format!(
            "ignored in {}: {}. Who is served can write this file, so it applies only with your consent to its content: `looptree` in \
             its directory asks for it",
            file.path.display(),
            all.join(", ")
        )
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

    fn content(&self) -> KnownContent {
        KnownContent { path: self.path.clone(), hash: self.hash() }
    }

    fn is_agreed(&self) -> Result<bool> {
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
    fn ask(&self, names: &[&str]) -> Result<bool> {
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
