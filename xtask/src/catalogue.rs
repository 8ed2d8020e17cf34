//! `cargo xtask catalogue --from FILE`: updates the list of models from a file and prints the changes.
//!
//! The file is a list of entries in the catalogue's own form, each of which replaces the one for the same model or is new; or
//! the `api.json` of models.dev, from which window, limit, pictures and prices of the models that we have are taken.

mod models_dev;
mod spaced;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use agent_providers::Catalogue;
use anyhow::{Context as _, bail};
use serde_json::{Map, Value};

use crate::workspace::Workspace;

/// The list.
const LIST: &str = "crates/agent-providers/src/catalogue/models.json";

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    file: Option<PathBuf>,
    as_of: Option<String>,
    write: Writing,
}

/// Whether the list is written; otherwise the changes are only printed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Writing {
    #[default]
    Say,
    Write,
}

/// An entry of the list.
type Entry = Map<String, Value>;

/// Without `--write`, `false` when the list is not up to date.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    let options = options(arguments)?;
    let Some(file) = options.file else {
        bail!("which file? For example: cargo xtask catalogue --from api.json --as-of 2026-11-21 --write")
    };
    let list = workspace.root.join(LIST);
    let text = std::fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
    let new = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let (updated, changes) = updated(&text, &new, options.as_of.as_deref())
        .with_context(|| format!("{} cannot be taken", file.display()))?;
    for change in &changes {
        say!("{change}");
    }
    if changes.is_empty() {
        say!("nothing differs");
        return Ok(true);
    }
    if options.write == Writing::Say {
        say!("{} changes; --write makes them", changes.len());
        return Ok(false);
    }
    std::fs::write(&list, updated).with_context(|| format!("cannot write {}", list.display()))?;
    say!("{} changes written to {LIST}", changes.len());
    Ok(true)
}

fn options(arguments: &[String]) -> anyhow::Result<Options> {
    let mut options = Options::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--write" => options.write = Writing::Write,
            "--as-of" => {
                let day = words.next().context("--as-of wants a day, for example 2026-11-21")?;
                if !is_day(day) {
                    bail!("{day:?} is no day such as 2026-11-21");
                }
                options.as_of = Some(day.clone());
            }
            "--from" => {
                let file = words.next().context("--from wants a file, for example api.json")?;
                if options.file.replace(PathBuf::from(file)).is_some() {
                    bail!("one file at a time");
                }
            }
            word => bail!("there is no option {word}"),
        }
    }
    Ok(options)
}

fn is_day(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let is_number = |part: &&str, len| part.len() == len && part.bytes().all(|b| b.is_ascii_digit());
    matches!(parts.as_slice(), [y, m, d] if is_number(y, 4) && is_number(m, 2) && is_number(d, 2))
}

/// The list with what `new` says, and a line for each change.
fn updated(list: &str, new: &str, as_of: Option<&str>) -> anyhow::Result<(String, Vec<String>)> {
    let mut entries: Vec<Entry> = serde_json::from_str(list).context("the list is no list of objects")?;
    let new: Value = serde_json::from_str(new).context("it is no JSON")?;
    let mut changes = Vec::new();
    match new {
        Value::Array(_) => replace(&mut entries, new, &mut changes)?,
        Value::Object(providers) => {
            let day = as_of.context("models.dev does not say of which day it is; give --as-of")?;
            models_dev::take(&mut entries, &providers, day, &mut changes);
        }
        _ => bail!("it is neither a list of entries nor the api.json of models.dev"),
    }
    let text = spaced::lines(&entries)?;
    // What was written must be read by the library.
    Catalogue::from_json(&text).context("the list would not be read again")?;
    Ok((text, changes))
}

/// Entries in the catalogue's own form replace those for the same model.
fn replace(entries: &mut Vec<Entry>, new: Value, changes: &mut Vec<String>) -> anyhow::Result<()> {
    let read = Catalogue::from_json(&new.to_string())?;
    if let Some(facts) = read.models().iter().find(|f| !is_day(&f.as_of) || !f.source.starts_with("https://"))
    {
        bail!("{}/{} wants a day in asOf and an address in source", facts.provider, facts.id);
    }
    let new: Vec<Entry> = serde_json::from_value(new)?;
    for entry in new {
        let name = name(&entry);
        match entries.iter_mut().find(|e| self::name(e) == name) {
            None => {
                changes.push(format!("{name}: new"));
                entries.push(entry);
            }
            Some(old) => {
                for (key, value) in &entry {
                    if old.get(key) != Some(value) {
                        changes.push(differs(&name, key, old.get(key), value));
                    }
                }
                for key in old.keys().filter(|k| !entry.contains_key(*k)) {
                    changes.push(format!("{name}: {key} is not said any more"));
                }
                *old = entry;
            }
        }
    }
    Ok(())
}

fn name(entry: &Entry) -> String {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    format!("{}/{}", text("provider"), text("id"))
}

fn differs(name: &str, key: &str, old: Option<&Value>, new: &Value) -> String {
    match old {
        Some(old) => format!("{name}: {key} {old} -> {new}"),
        None => format!("{name}: {key} {new}"),
    }
}
