//! Which settings apply: everything that the user set, and of a project's file what is stricter, or what the user consented to.

use std::path::Path;

use anyhow::Result;
use looptree::ThinkingLevel;

use super::consent::Consent;
use super::file::{ConfigFile, read_own, read_project};
use super::{Layer, Origin, flags_layer};
use crate::args::{Approve, Color, Flags};

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
            max_repeats,
            max_retries,
            max_retry_wait,
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
            ("max_repeats", max_repeats.is_some()),
            ("max_retries", max_retries.is_some()),
            ("max_retry_wait", max_retry_wait.is_some()),
            ("mcp_servers", mcp_servers.is_some()),
            ("skills", skills.is_some()),
            ("project_context", *project_context == Some(true)),
        ];
        let others = others.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect();
        (narrowing, others)
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
