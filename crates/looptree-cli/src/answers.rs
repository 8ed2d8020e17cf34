//! Questions that wait: listing and answering them, from any process.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use looptree::prelude::*;
use looptree::session::Unfinished;
use looptree::{Question, Timestamp};

use crate::args::{Color, YesNo};
use crate::exit::Exit;
use crate::screen::{Screen, Stream, Styled, brief, question};
use crate::sessions::resolve;
use crate::settings::Settings;

/// Shows every question that waits in a directory's sessions.
pub(crate) async fn list(store: &JsonStore, settings: &Settings, screen: &Screen) -> Result<Exit> {
    let found = store.unfinished().await?;
    let waiting = found.waiting();
    if waiting.is_empty() {
        screen.line("no question waits");
    }
    for run in waiting {
        show(run, settings, screen);
    }
    for run in found.runs.iter().filter(|r| r.questions.is_empty()) {
        screen.line(format!(
            "session {} can be continued: {}",
            run.session_id,
            settings.resume(run.session_id.as_str())
        ));
    }
    for (id, error) in &found.unreadable {
        screen.line(format!("session {id} cannot be read: {error}"));
    }
    Ok(Exit::Done)
}

/// Shows the questions of a run, and how to answer them.
pub(crate) fn show(run: &Unfinished, settings: &Settings, screen: &Screen) {
    let since = run.since.to_rfc3339();
    screen
        .line(Styled::from(format!("session {} waits since {since}: ", run.session_id)) + brief(&run.prompt));
    for asked in &run.questions {
        screen.line(question(asked));
        let hash =
            asked.approval().map(|view| format!(" --hash {}", view.hash().prefix())).unwrap_or_default();
        for word in ["yes", "no"] {
            screen
                .line(format!("  {}", settings.command(&format!("answer {} {word}{hash}", run.session_id))));
        }
    }
}

/// Shows the question beside an error, on the standard error.
fn report(asked: &Question) {
    Screen::new(Stream::Err, Color::Never).error_line(question(asked));
}

/// Stores the answer to the first question of a session. No model is called; `--resume` continues the run.
pub(crate) async fn answer(
    store: &JsonStore,
    id: &str,
    word: YesNo,
    reason: Option<&str>,
    hash: Option<&str>,
    settings: &Settings,
    screen: &Screen,
) -> Result<Exit> {
    let session = resolve(store, id).await?;
    let session = session.as_str();
    let run = store.load_session(session)?.unfinished()?;
    let Some(asked) = run.and_then(|run| run.questions.into_iter().next()) else {
        bail!("session {session} waits for no answer");
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    let now = Timestamp(u64::try_from(now.as_millis())?);
    let answer = match word {
        YesNo::Yes => Answer::Allow,
        YesNo::No => Answer::deny(reason.unwrap_or("The user did not allow this call.")),
    };
    let left = match asked.approval() {
        None => store.answer(session, asked.id.clone(), answer, now).await?,
        Some(view) => {
            if let Some(hash) = hash.filter(|hash| !view.hash().matches(hash)) {
                report(&asked);
                bail!("the session asks about another call than {hash}, the one above");
            }
            if hash.is_none() && answer == Answer::Allow {
                report(&asked);
                bail!("name the call above to allow it, with --hash {}", view.hash().prefix());
            }
            store.answer_approval(session, &view, answer, now).await?
        }
    };
    screen.line(question(&asked));
    screen.line(format!("answered: {}", if word == YesNo::Yes { "yes" } else { "no" }));
    if left.questions.is_empty() {
        screen.line(format!("continue it with: {}", settings.resume(session)));
    } else {
        show(&left, settings, screen);
    }
    Ok(Exit::Done)
}
