//! The settings of a run: defaults, the user's file, the project's file, a profile, flags.

mod context;
mod file;
mod mcp;
mod price;
mod repeated;
mod trust;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use looptree::ThinkingLevel;
use looptree::budget::Money;
use serde::Deserialize;

use crate::args::{Approve, Color, Flags, SandboxChoice};
use crate::exit::usage;
use crate::text::chain;
pub(crate) use context::{Instructions, project_folders};
pub(crate) use file::{project_file, user_file};
pub(crate) use mcp::{McpTable, key_of, shown_entry, unknown_key};
pub(crate) use price::{Price, Prices, named_price};
use repeated::Repeated;
pub(crate) use trust::Consent;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    /// A file, and the profile in it.
    File(PathBuf, Option<String>),
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, None) => write!(f, "{}", path.display()),
            Self::File(path, Some(profile)) => write!(f, "{}, profile {profile}", path.display()),
            Self::Flag => f.write_str("command line"),
        }
    }
}

/// A value and where it comes from.
#[derive(Debug, Clone)]
pub(crate) struct Set<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

impl<T> Set<T> {
    fn default_of(value: T) -> Self {
        Self { value, origin: Origin::Default }
    }
}

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $default:expr, $loosens:expr;)*) => {
        /// What one source sets.
        #[derive(Debug, Default, Clone, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct Layer {
            $($(#[$doc])* #[serde(default)] pub(crate) $name: Option<$kind>,)*
        }

        /// The effective settings of a run.
        #[derive(Debug, Clone)]
        pub(crate) struct Settings {
            $($(#[$doc])* pub(crate) $name: Set<Option<$kind>>,)*
            /// The profile that is used.
            pub(crate) profile: Option<String>,
            /// Messages for the user about settings that are not used.
            pub(crate) notes: Vec<String>,
            /// Why a file is not used at all.
            pub(crate) warnings: Vec<String>,
            /// The files of --mcp-config.
            pub(crate) mcp_files: Vec<PathBuf>,
            /// The flags that a command for the user to paste repeats.
            repeated: Repeated,
        }

        impl Settings {
            fn defaults() -> Self {
                Self { $($name: Set::default_of($default),)* profile: None, notes: Vec::new(), warnings: Vec::new(), mcp_files: Vec::new(), repeated: Repeated::default() }
            }

            fn put(&mut self, layer: &Layer, origin: &Origin) {
                $(if let Some(value) = &layer.$name {
                    self.$name = Set { value: Some(value.clone()), origin: origin.clone() };
                })*
            }

            /// Returns the name, the value as TOML and the origin of each setting.
            pub(crate) fn rows(&self) -> Vec<(&'static str, String, &Origin)> {
                vec![$((stringify!($name), shown(self.$name.value.as_ref()), &self.$name.origin),)*]
            }
        }

        impl Layer {
            /// Returns the names of the settings with which a project would loosen what protects the user.
            fn loosening(&self) -> Vec<&'static str> {
                let mut names = Vec::new();
                $(if let Some(value) = &self.$name {
                    let loosens: fn(&$kind) -> bool = $loosens;
                    if loosens(value) { names.push(stringify!($name)); }
                })*
                names
            }

            fn without(&self, names: &[&str]) -> Self {
                Self { $($name: if names.contains(&stringify!($name)) { None } else { self.$name.clone() },)* }
            }
        }
    };
}

// A project may select a model and be stricter than the user. Everything else needs consent.
settings! {
    /// The model, as provider and id.
    model: String = None, |_| false;
    /// The address of the model's API.
    base_url: String = None, |_| true;
    /// The environment variable with the key.
    api_key_env: String = None, |_| true;
    /// The context window of the model in tokens.
    context_window: u32 = None, |_| true;
    /// How much the model thinks.
    thinking: ThinkingLevel = None, |_| false;
    /// The calls that need an approval.
    approve: Approve = None, |approve| *approve != Approve::Ask;
    /// The sandbox of commands.
    sandbox: SandboxChoice = Some(SandboxChoice::None), |_| true;
    /// Further paths to read.
    sandbox_read: Vec<PathBuf> = Some(Vec::new()), |_| true;
    /// Further paths to write.
    sandbox_write: Vec<PathBuf> = Some(Vec::new()), |_| true;
    /// Whether the network is permitted.
    sandbox_network: bool = Some(false), |network| *network;
    /// Whether tools that change something are denied.
    plan_only: bool = Some(false), |only| !*only;
    /// The folder with the sessions.
    sessions: PathBuf = None, |_| true;
    /// The maximum cost of a run.
    budget: MoneyText = None, |_| true;
    /// The prices of models.
    prices: Prices = Some(Prices::default()), |_| true;
    /// The maximum number of tokens.
    max_tokens_total: u64 = None, |_| true;
    /// The maximum number of turns of a run.
    max_turns: u32 = Some(200), |_| true;
    /// The MCP servers whose tools the agent uses.
    mcp_servers: McpTable = Some(McpTable::default()), |_| true;
    /// Further folders with skills.
    skills: Vec<PathBuf> = Some(Vec::new()), |_| true;
    /// Whether AGENTS.md and the project's skills are read.
    project_context: bool = Some(true), |_| false;
    /// When colors are used.
    color: Color = Some(Color::Auto), |_| false;
}

/// An amount of money, written as text in a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MoneyText(pub(crate) Money);

impl<'de> Deserialize<'de> for MoneyText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        crate::args::money(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

impl serde::Serialize for MoneyText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_string())
    }
}

fn shown<T: serde::Serialize>(value: Option<&T>) -> String {
    match value.and_then(|value| serde_json::to_value(value).ok()) {
        None => "(not set)".to_owned(),
        // An inline table; all other values are written alike in JSON and TOML.
        Some(serde_json::Value::Object(table)) if !table.is_empty() => {
            let rows = table.iter().map(|(key, value)| format!("{} = {value}", serde_json::json!(key)));
            format!("{{ {} }}", rows.collect::<Vec<_>>().join(", "))
        }
        Some(value) => value.to_string(),
    }
}

/// What happens with a configuration file that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// It is an error.
    Fails,
    /// The project's file is left out with a warning. For commands that work with stored sessions, whose folder the user's
    /// file can name.
    SkipsProject,
    /// Both files are left out with a warning.
    SkipsAll,
}

/// Returns the file, or adds a warning if it cannot be read and may be left out.
fn readable(
    file: Result<Option<file::ConfigFile>>,
    may_skip: bool,
    warnings: &mut Vec<String>,
) -> Result<Option<file::ConfigFile>> {
    match file {
        Err(error) if may_skip => {
            warnings.push(format!("{}; the file is left out", chain(&error)));
            Ok(None)
        }
        other => other,
    }
}

impl Settings {
    /// Reads the settings for a process that serves others: no user can consent to a project's own file there.
    pub(crate) fn unattended(flags: &Flags, root: &Path) -> Result<Self> {
        let consent = if flags.trust_project { Consent::Given } else { Consent::Remembered };
        Self::load(flags, root, consent, Broken::Fails)
    }

    /// Reads the files and adds the flags. `consent` decides about settings of the project that need it.
    pub(crate) fn load(flags: &Flags, root: &Path, consent: Consent, broken: Broken) -> Result<Self> {
        let mut settings = Self::defaults();
        let user = user_file(flags)?.map_or(Ok(None), |path| file::read(&path, flags.config.is_some()));
        let user = readable(user, broken == Broken::SkipsAll, &mut settings.warnings)?;
        let project = project_file(root).map_or(Ok(None), |path| file::read(&path, false));
        let project = readable(project, broken != Broken::Fails, &mut settings.warnings)?;
        let of_user = user.as_ref().and_then(|file| file.profile.as_deref());
        let trusted = match &project {
            Some(file) => {
                trust::layers(file, flags.profile.as_deref(), of_user, consent, &mut settings.notes)?
            }
            None => trust::Layers::default(),
        };
        let wanted = flags.profile.as_deref().or(trusted.selects.as_deref()).or(of_user).map(str::to_owned);
        if let Some(file) = &user {
            settings.put(&file.layer, &Origin::File(file.path.clone(), None));
        }
        if let Some(file) = &project {
            settings.put(&trusted.layer, &Origin::File(file.path.clone(), None));
        }
        if let Some(name) = &wanted {
            let mut found = false;
            if let Some(file) = &user
                && let Some(layer) = file.profiles.get(name)
            {
                found = true;
                settings.put(layer, &Origin::File(file.path.clone(), Some(name.clone())));
            }
            if let (Some(file), Some(layer)) = (&project, &trusted.profile) {
                found = true;
                settings.put(layer, &Origin::File(file.path.clone(), Some(name.clone())));
            }
            if !found {
                let files = [&user, &project].into_iter().flatten();
                let known: Vec<_> = files.flat_map(|file| file.profiles.keys().map(String::as_str)).collect();
                let known = if known.is_empty() {
                    "no file has one".to_owned()
                } else {
                    format!("known are {}", known.join(", "))
                };
                return Err(usage(format!("there is no profile {name:?}; {known}")));
            }
            settings.profile = Some(name.clone());
        }
        settings.put(&of_flags(flags), &Origin::Flag);
        settings.mcp_files.clone_from(&flags.mcp_config);
        settings.repeated = Repeated::of(flags);
        settings.check_sandbox()?;
        Ok(settings)
    }

    /// Refuses flags of the sandbox without a sandbox: the user would believe that they restrict something.
    fn check_sandbox(&self) -> Result<()> {
        if self.sandbox.value != Some(SandboxChoice::None) {
            return Ok(());
        }
        let flags = [
            ("--sandbox-read", &self.sandbox_read.origin),
            ("--sandbox-write", &self.sandbox_write.origin),
            ("--sandbox-network", &self.sandbox_network.origin),
        ];
        match flags.iter().find(|(_, origin)| **origin == Origin::Flag) {
            Some((flag, _)) => Err(usage(format!("{flag} has no effect without a sandbox; add --sandbox"))),
            None => Ok(()),
        }
    }

    /// The calls that need an approval: as it is set; otherwise none in a sandbox, which confines commands as the workspace confines
    /// the file tools, and everything without one.
    pub(crate) fn approve(&self) -> Approve {
        let sandboxed = self.sandbox.value != Some(SandboxChoice::None);
        self.approve.value.unwrap_or(if sandboxed { Approve::None } else { Approve::Ask })
    }
}

fn of_flags(flags: &Flags) -> Layer {
    fn listed(paths: &[PathBuf]) -> Option<Vec<PathBuf>> {
        (!paths.is_empty()).then(|| paths.to_vec())
    }
    Layer {
        model: flags.model.clone(),
        base_url: flags.base_url.clone(),
        api_key_env: flags.api_key_env.clone(),
        context_window: flags.context_window,
        thinking: flags.thinking,
        approve: if flags.yes { Some(Approve::None) } else { flags.approve },
        sandbox: flags.sandbox,
        sandbox_read: listed(&flags.sandbox_read),
        sandbox_write: listed(&flags.sandbox_write),
        sandbox_network: flags.sandbox_network.then_some(true),
        plan_only: flags.plan_only.then_some(true),
        sessions: flags.sessions.clone(),
        budget: flags.budget.map(MoneyText),
        prices: (!flags.price.is_empty()).then(|| Prices::from(flags.price.clone())),
        max_tokens_total: flags.max_tokens_total,
        max_turns: flags.max_turns,
        mcp_servers: flags.no_mcp.then(McpTable::default),
        skills: listed(&flags.skills),
        project_context: flags.no_project_context.then_some(false),
        color: flags.color,
    }
}

/// Returns the directory to work in.
pub(crate) fn directory(flags: &Flags) -> Result<PathBuf> {
    let cannot = || format!("cannot open the directory {}", flags.cwd.display());
    let root = flags.cwd.canonicalize().with_context(cannot).map_err(|error| usage(chain(&error)))?;
    if root.is_dir() { Ok(root) } else { Err(usage(format!("{} is not a directory", root.display()))) }
}
