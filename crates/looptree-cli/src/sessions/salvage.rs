//! `looptree sessions salvage`: the readable part of a damaged session as a new session.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use looptree::prelude::*;
use looptree::session::{Salvaged, SessionSummary};
use looptree::tools::bounded::BoundedFolder;

use super::{new_id, resolve, write_new};
use crate::exit::{Exit, usage};
use crate::screen::Screen;
use crate::settings::Settings;

/// The endings of the files of a session.
const ENDINGS: [&str; 2] = [".journal.jsonl", ".json"];
/// The first bytes of a database.
const DATABASE: &[u8] = b"SQLite format 3\0";

/// Writes what can be read of a session as a new one, and lists what cannot.
pub(super) async fn run(
    store: &JsonStore,
    named: &str,
    id: Option<&str>,
    output: Option<&Path>,
    settings: &Settings,
    screen: &Screen,
) -> Result<Exit> {
    let file = Path::new(named);
    let (id, salvaged) = match file.is_file() {
        true if is_database(file)? => of_database(file, id).await?,
        true => of_file(file).await?,
        false => {
            let id = resolve(store, named).await?;
            let salvaged = store.salvage_session(&id).await.with_context(|| nothing(&id))?;
            (id, salvaged)
        }
    };
    if salvaged.losses.is_empty() {
        screen.line(format!("session {id} is not damaged; nothing was written"));
        return Ok(Exit::Done);
    }
    for loss in &salvaged.losses {
        screen.line(format!("lost: {loss}"));
    }
    let missing = u64::try_from(salvaged.missing_messages())?;
    let session = salvaged.into_new_session(new_id());
    let new = session.session_id.clone();
    let messages = SessionSummary::of(&session).messages.saturating_sub(missing);
    if messages == 0 {
        bail!("no message of session {id} can be read; nothing was written");
    }
    match output {
        Some(path) => {
            write_new(path, &(serde_json::to_string_pretty(&session)? + "\n"))?;
            screen.line(format!("written: {} ({messages} messages)", path.display()));
        }
        None => {
            store.save_session(&session)?;
            store.load_session(&new)?;
            screen.line(format!("session {new} has the {messages} messages that can be read"));
            if missing > 0 {
                screen
                    .line(format!("{missing} messages between them are missing, and a note stands for each"));
            }
            screen.line(&match session.history() {
                Ok(_) => format!("{} continues it", settings.resume(new.as_str())),
                Err(error) => format!(
                    "it cannot be continued: {error}. Start a new session, and give the model the text: {}",
                    settings.command(&format!("sessions export {new} -o FILE"))
                ),
            });
        }
    }
    screen.line(format!("the damaged session {id} was not changed"));
    Ok(Exit::Partial)
}

fn nothing(id: &str) -> String {
    format!("nothing of session {id} can be salvaged")
}

fn is_database(file: &Path) -> Result<bool> {
    let length = u64::try_from(DATABASE.len())?;
    let head =
        BoundedFolder::read_named(file, length).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(head.bytes == DATABASE)
}

/// Salvages the session of a file. Its journal and its file are in the same folder, and their names contain its id.
async fn of_file(file: &Path) -> Result<(String, Salvaged)> {
    let real = file.canonicalize().with_context(|| format!("cannot open {}", file.display()))?;
    let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let id = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).map(str::to_owned);
    let Some(id) = id else {
        bail!(usage(format!(
            "{} is no file of a session: the name of one is its id, followed by .json or .journal.jsonl",
            file.display()
        )));
    };
    let folder = real.parent().map(PathBuf::from).unwrap_or_default();
    let salvaged = JsonStore::open(folder)?.salvage_session(&id).await.with_context(|| nothing(&id))?;
    Ok((id, salvaged))
}

/// Salvages a session of a database.
#[cfg(feature = "sqlite")]
async fn of_database(file: &Path, id: Option<&str>) -> Result<(String, Salvaged)> {
    let store = looptree::session::SqliteStore::open(file)?;
    let ids = store.list_session_ids().await?;
    let id = match (id, &ids[..]) {
        (Some(id), _) => id.to_owned(),
        (None, [id]) => id.as_str().to_owned(),
        (None, ids) => {
            let ids: Vec<&str> = ids.iter().map(looptree::identity::SessionId::as_str).collect();
            bail!(usage(format!(
                "{} has several sessions; name one with --id: {}",
                file.display(),
                ids.join(", ")
            )))
        }
    };
    let salvaged = store.salvage_session(&id).await.with_context(|| nothing(&id))?;
    Ok((id, salvaged))
}

/// Databases need the feature `sqlite`.
#[cfg(not(feature = "sqlite"))]
async fn of_database(file: &Path, _id: Option<&str>) -> Result<(String, Salvaged)> {
    bail!(usage(format!(
        "{} is a database of sessions, which this build cannot read; install one that can: \
         cargo install --path crates/looptree-cli --features sqlite",
        file.display()
    )))
}
