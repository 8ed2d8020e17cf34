//! The settings of a run: defaults, the user's file, the project's file, a profile, flags.

mod consent;
mod context;
mod file;
mod folders;
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
pub(crate) use consent::{Consent, serving_consent};
pub(crate) use context::Instructions;
pub(crate) use file::{platform, project_file, user_file};
pub(crate) use folders::project_folders;
pub(crate) use mcp::{HIDDEN, McpTable, host_of, key_of, shown_address, shown_entry, unknown_key};
pub(crate) use price::{Price, Prices, named_price};
use repeated::Repeated;
pub(crate) use trust::Sourced;
use trust::{Narrowing, Part, ProjectFile, Trusted, UserFile};

/// The layer that a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    /// The user's file, and the profile in it.
    File(PathBuf, Option<String>),
    /// The file of a project, and the profile in it.
    Project(PathBuf, Option<String>),
    /// A variable of the environment.
    Environment(String),
    Keyring,
    Flag,
    /// A slash command of a chat.
    Chat,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, None) | Self::Project(path, None) => write!(f, "{}", path.display()),
            Self::File(path, Some(profile)) | Self::Project(path, Some(profile)) => {
                write!(f, "{}, profile {profile}", path.display())
            }
            Self::Environment(name) => write!(f, "environment, {name}"),
            Self::Keyring => f.write_str("keyring"),
            Self::Flag => f.write_str("command line"),
            Self::Chat => f.write_str("/model"),
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
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $default:expr;)*) => {
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
            /// The layers that the user controls, the strongest one last.
            layers: Vec<Sourced>,
            /// The model that a project names. It is used only at a destination of the user's.
            suggested_model: Option<Set<String>>,
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
                Self { $($name: Set::default_of($default),)* layers: Vec::new(), suggested_model: None, profile: None, notes: Vec::new(), warnings: Vec::new(), mcp_files: Vec::new(), repeated: Repeated::default() }
            }

            /// Adds a layer, whose values replace those of the layers before.
            fn put(&mut self, source: Sourced) {
                let layer = source.layer.get();
                $(if let Some(value) = &layer.$name {
                    self.$name = Set { value: Some(value.clone()), origin: source.origin.clone() };
                })*
                if layer.model.is_some() {
                    self.suggested_model = None;
                }
                self.layers.push(source);
            }

            /// Returns the name, the value as TOML and the origin of each setting.
            pub(crate) fn rows(&self) -> Vec<(&'static str, String, &Origin)> {
                vec![$((stringify!($name), shown(self.$name.value.as_ref()), &self.$name.origin),)*]
            }
        }
    };
}

settings! {
    /// The model, as provider and id.
    model: String = None;
    /// The address of the model's API.
    base_url: String = None;
    /// The environment variable with the key.
    api_key_env: String = None;
    /// The context window of the model in tokens.
    context_window: u32 = None;
    /// How much the model thinks.
    thinking: ThinkingLevel = None;
    /// The calls that need an approval.
    approve: Approve = None;
    /// The sandbox of commands.
    sandbox: SandboxChoice = Some(SandboxChoice::None);
    /// Further paths to read.
    sandbox_read: Vec<PathBuf> = Some(Vec::new());
    /// Further paths to write.
    sandbox_write: Vec<PathBuf> = Some(Vec::new());
    /// Whether the network is permitted.
    sandbox_network: bool = Some(false);
    /// Whether tools that change something are denied.
    plan_only: bool = Some(false);
    /// The folder with the sessions.
    sessions: PathBuf = None;
    /// The maximum cost of a run.
    budget: MoneyText = None;
    /// The prices of models.
    prices: Prices = Some(Prices::default());
    /// The maximum number of tokens.
    max_tokens_total: u64 = None;
    /// The maximum number of turns of a run.
    max_turns: u32 = Some(200);
    /// After how many equal calls with equal results in a row a run ends; 0 for no limit.
    max_repeats: u32 = Some(20);
    /// How often a model call that failed is repeated.
    max_retries: u32 = Some(3);
    /// The longest wait, in seconds, that a provider may ask for before a repetition.
    max_retry_wait: u64 = Some(60);
    /// The MCP servers whose tools the agent uses.
    mcp_servers: McpTable = Some(McpTable::default());
    /// Further folders with skills.
    skills: Vec<PathBuf> = Some(Vec::new());
    /// Whether AGENTS.md and the project's skills are read.
    project_context: bool = Some(true);
    /// When colors are used.
    color: Color = Some(Color::Auto);
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
fn readable<T>(file: Result<Option<T>>, may_skip: bool, warnings: &mut Vec<String>) -> Result<Option<T>> {
    match file {
        Err(error) if may_skip => {
            warnings.push(format!("{}; the file is left out", chain(&error)));
            Ok(None)
        }
        other => other,
    }
}

impl Settings {
    /// Reads the files and adds the flags. `consent` decides about settings of the project that are not stricter than the user's.
    pub(crate) fn load(flags: &Flags, root: &Path, consent: &Consent, broken: Broken) -> Result<Self> {
        let mut settings = Self::defaults();
        let user = user_file(flags)?.map_or(Ok(None), |path| UserFile::read(&path, flags.config.is_some()));
        let user = readable(user, broken == Broken::SkipsAll, &mut settings.warnings)?;
        let project = project_file(&project_folders(root)).map_or(Ok(None), |path| ProjectFile::read(&path));
        let project = readable(project, broken != Broken::Fails, &mut settings.warnings)?;
        let own = user.as_ref().and_then(UserFile::selects);
        let flag = flags.profile.as_deref();
        if let Some(file) = &user {
            settings.put(file.layer());
        }
        let thinking = settings.thinking.value;
        let parts = project.as_ref().map(|file| file.parts(flag, own, thinking, consent)).transpose()?;
        let parts = parts.unwrap_or_default();
        settings.notes.extend(parts.note);
        let has_profile = parts.profile.is_some();
        settings.put_part(parts.top);
        if let Some(name) = flag.or(parts.selects.as_deref()).or(own) {
            let of_user = user.as_ref().and_then(|file| file.profile(name));
            if of_user.is_none() && !has_profile {
                let of_project = project.iter().flat_map(ProjectFile::profiles);
                let known: Vec<_> = user.iter().flat_map(UserFile::profiles).chain(of_project).collect();
                let known = if known.is_empty() {
                    "no file has one".to_owned()
                } else {
                    format!("known are {}", known.join(", "))
                };
                return Err(usage(format!("there is no profile {name:?}; {known}")));
            }
            if let Some(layer) = of_user {
                settings.put(layer);
            }
            settings.profile = Some(name.to_owned());
        }
        settings.put_part(parts.profile);
        settings.put(Sourced { origin: Origin::Flag, layer: Trusted::from_flags(flags) });
        settings.mcp_files.clone_from(&flags.mcp_config);
        settings.repeated = Repeated::of(flags);
        settings.check_sandbox()?;
        Ok(settings)
    }

    fn put_part(&mut self, part: Option<Part>) {
        match part {
            Some(Part::Whole(layer)) => self.put(*layer),
            Some(Part::Narrowed(origin, narrowing)) => self.narrow(narrowing, origin),
            None => {}
        }
    }

    /// Applies what makes nothing looser.
    fn narrow(&mut self, narrowing: Narrowing, origin: Origin) {
        let Narrowing { model, thinking, asks, plan_only, omits_context, color } = narrowing;
        fn replace<T>(at: &mut Set<Option<T>>, value: T, origin: &Origin) {
            *at = Set { value: Some(value), origin: origin.clone() };
        }
        if let Some(level) = thinking {
            replace(&mut self.thinking, level, &origin);
        }
        if asks {
            replace(&mut self.approve, Approve::Ask, &origin);
        }
        if plan_only {
            replace(&mut self.plan_only, true, &origin);
        }
        if omits_context {
            replace(&mut self.project_context, false, &origin);
        }
        if let Some(color) = color {
            replace(&mut self.color, color, &origin);
        }
        if let Some(value) = model {
            self.suggested_model = Some(Set { value, origin });
        }
    }

    /// Returns the settings with the model that the user names in a chat.
    pub(crate) fn with_model_name(&self, name: &str) -> Self {
        let mut settings = self.clone();
        settings.put(Sourced { origin: Origin::Chat, layer: Trusted::from_model_name(name) });
        settings
    }

    /// Returns the model that the project names, if the user names none by a flag or a profile.
    pub(crate) fn suggested_model(&self) -> Option<&Set<String>> {
        self.suggested_model.as_ref()
    }

    /// Returns the user's file, if there is one.
    pub(crate) fn user_file(&self) -> Option<&Path> {
        self.layers.iter().find_map(|source| match &source.origin {
            Origin::File(path, _) => Some(path.as_path()),
            _ => None,
        })
    }

    /// Returns the layers that the user controls, the strongest one last.
    pub(crate) fn layers(&self) -> &[Sourced] {
        &self.layers
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

fn flags_layer(flags: &Flags) -> Layer {
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
        max_repeats: flags.max_repeats,
        max_retries: flags.max_retries,
        max_retry_wait: flags.max_retry_wait,
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
