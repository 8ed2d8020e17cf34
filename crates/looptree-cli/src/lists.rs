//! The commands that only show something: models, settings, checks of a server.

use std::time::Duration;

use anyhow::Result;
use looptree::model::Secret;
use looptree::providers::ProviderRegistry;
use looptree::providers::catalogue::{self, ModelFacts};
use serde_json::json;

use crate::args::Flags;
use crate::choose::{Access, Choice, access, choose};
use crate::endpoint::{Target, check};
use crate::exit::{Exit, usage};
use crate::screen::{Screen, Style, Styled};
use crate::servers::Configured;
use crate::settings::{
    HIDDEN, Origin, Settings, host_of, project_file, project_folders, shown_address, user_file,
};
use crate::setup::sessions_of;
use crate::text::{chain, tokens};

/// Returns the known models that this build can call and whose name contains a text, by name.
pub(crate) fn known_models(filter: &str) -> Vec<&'static ModelFacts> {
    let filter = filter.to_lowercase();
    let registry = ProviderRegistry::default();
    let mut models: Vec<_> = catalogue::models()
        .iter()
        .filter(|model| registry.serves(model.api))
        .filter(|model| name(model).to_lowercase().contains(&filter))
        .collect();
    models.sort_by_key(|model| name(model));
    models.dedup_by_key(|model| name(model));
    models
}

fn name(model: &ModelFacts) -> String {
    format!("{}/{}", model.provider, model.id)
}

/// Lists the known models.
pub(crate) fn models(filter: Option<&str>, screen: &Screen) -> Exit {
    let models = known_models(filter.unwrap_or_default());
    if models.is_empty() {
        screen.line("no model with this name is in the catalogue; a model without an entry works, too");
        return Exit::Done;
    }
    let width = models.iter().map(|model| name(model).len()).max().unwrap_or(0);
    let mut missing = false;
    for model in models {
        let key = access(&model.provider) != Access::Missing;
        missing |= !key;
        let window = model.context_window.map_or_else(|| "?".to_owned(), |window| tokens(window.into()));
        let price = if model.cost.is_known() {
            let per = |micros: u64| format!("{}.{:02}", micros / 1_000_000, micros % 1_000_000 / 10_000);
            format!("${} in, ${} out per million", per(model.cost.input), per(model.cost.output))
        } else {
            "price unknown".to_owned()
        };
        let line = format!("{} {:width$}  {window:>6}  {price}", if key { '*' } else { ' ' }, name(model));
        screen.line(if key { line.into() } else { screen.paint(Style::Dim, line) });
    }
    if missing {
        screen.line("* a key is set, or none is needed");
    }
    Exit::Done
}

/// Shows the settings and where they come from.
pub(crate) async fn config(
    settings: &Settings,
    flags: &Flags,
    root: &std::path::Path,
    paths: bool,
    screen: &Screen,
) -> Result<Exit> {
    let user = user_file(flags)?;
    let project = project_file(&project_folders(root)).unwrap_or_else(|| root.join(".looptree/config.toml"));
    for (what, path) in [("user", user), ("project", Some(project))] {
        let Some(path) = path else { continue };
        let there = if path.is_file() { "" } else { " (does not exist)" };
        screen.line(format!("{what}: {}{there}", path.display()));
    }
    let sessions = sessions_of(settings, root);
    match &sessions {
        Ok(folder) => {
            let there = if folder.is_dir() { "" } else { "; does not exist yet" };
            screen.line(format!("sessions: {} ({}{there})", folder.display(), settings.sessions.origin));
        }
        Err(error) => screen.line(format!("sessions: {}", chain(error))),
    }
    if paths {
        return Ok(Exit::Done);
    }
    if let Some(profile) = &settings.profile {
        screen.line(format!("profile: {profile}"));
    }
    let mut rows = settings.rows();
    let chosen = choose(settings).await.and_then(Choice::into_model);
    if let Ok(chosen) = &chosen
        && let Some(row) = rows.iter_mut().find(|row| row.0 == "model")
        && (row.2 != &chosen.origin || settings.model.value.as_deref().is_none_or(is_object))
    {
        *row = (
            "model",
            json!(format!("{}/{}", chosen.model.provider, chosen.model.id)).to_string(),
            &chosen.origin,
        );
    }
    for row in &mut rows {
        if row.0 == "approve" && settings.approve.value.is_none() {
            row.1 = format!("\"{:?}\"", settings.approve()).to_lowercase();
        }
        if let ("sessions", Ok(folder)) = (row.0, &sessions) {
            row.1 = json!(folder).to_string();
        }
        // A description that cannot be used is not shown either: its headers and address can have secrets.
        if row.0 == "model" && chosen.is_err() && settings.model.value.as_deref().is_some_and(is_object) {
            row.1 = json!(HIDDEN).to_string();
        }
        if let ("base_url", Some(url)) = (row.0, &settings.base_url.value) {
            row.1 = json!(shown_address(url)).to_string();
        }
    }
    let servers = Configured::of(settings)?;
    let of_servers = servers.rows();
    for (name, value, origin) in rows {
        if name == "mcp_servers" && !of_servers.is_empty() {
            for (name, value, origin) in &of_servers {
                row(name, value, origin, screen);
            }
        } else {
            row(name, &value, origin, screen);
        }
    }
    let mut notes = settings.notes.clone();
    match &chosen {
        Ok(chosen) => {
            let address =
                chosen.model.base_url.as_deref().map_or_else(|| "the provider's".to_owned(), host_of);
            row("address", &json!(address).to_string(), &chosen.address, screen);
            let key = if chosen.key.is_some() { "\"(hidden)\"" } else { "(none)" };
            row("key", key, chosen.key.as_ref().unwrap_or(&Origin::Default), screen);
            notes.extend(chosen.notes.iter().cloned());
        }
        Err(error) => notes.push(chain(error)),
    }
    for note in notes.iter().chain(&servers.problems(root)) {
        screen.line(note);
    }
    Ok(Exit::Done)
}

/// Returns whether the name of a model is a description as JSON.
fn is_object(name: &str) -> bool {
    name.trim_start().starts_with('{')
}

fn row(name: &str, value: &str, origin: &dyn std::fmt::Display, screen: &Screen) {
    screen
        .line(Styled::from(format!("{name} = {value}  ")) + screen.paint(Style::Dim, format!("# {origin}")));
}

/// Checks a Chat Completions server.
pub(crate) async fn endpoint(url: &str, patience: u64, settings: &Settings, screen: &Screen) -> Result<Exit> {
    // A variable of a file is for the address in that file.
    let variable =
        settings.api_key_env.value.as_deref().filter(|_| settings.api_key_env.origin == Origin::Flag);
    let key = std::env::var(variable.unwrap_or("CHECK_API_KEY")).ok().filter(|key| !key.trim().is_empty());
    if let (Some(variable), None) = (variable, &key) {
        return Err(usage(format!("{variable} is not set")));
    }
    let model =
        settings.model.value.as_deref().map(|text| text.strip_prefix("local/").unwrap_or(text).to_owned());
    let target = Target {
        base_url: url.to_owned(),
        model,
        key: key.map(Secret::new),
        patience: Duration::from_secs(patience),
    };
    let report = check(&target).await?;
    screen.line(Styled::prose(&report.to_string()));
    Ok(if report.works == Some(true) { Exit::Done } else { Exit::Failed })
}
