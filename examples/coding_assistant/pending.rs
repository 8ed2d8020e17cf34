//! Questions that wait: listing and answering them, from any process.

use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use looptree::Timestamp;
use looptree::prelude::*;
use looptree::session::Unfinished;

use crate::approval;
use crate::render::{Screen, brief};
use crate::travel::sessions_of;

/// What the program ends with when a question waits.
pub(crate) const WAITS: u8 = 3;

/// Shows every question that waits in a directory's sessions.
pub(crate) async fn list(root: &Path, screen: &Screen) -> Result<ExitCode> {
    let found = JsonStore::open(sessions_of(root))?.unfinished().await?;
    let waiting = found.waiting();
    if waiting.is_empty() {
        screen.line("no question waits");
    }
    for run in waiting {
        show(run, screen);
    }
    for run in found.runs.iter().filter(|r| r.questions.is_empty()) {
        screen.line(&format!(
            "session {} can go on: coding_assistant --resume {}",
            run.session_id, run.session_id
        ));
    }
    for (id, error) in &found.unreadable {
        screen.line(&format!("session {id} cannot be read: {error}"));
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn show(run: &Unfinished, screen: &Screen) {
    let since = run.since.to_rfc3339();
    screen.line(&format!("session {} waits since {since}: {}", run.session_id, brief(&run.prompt)));
    for question in &run.questions {
        screen.line(&format!(
            "  {}? answer with: coding_assistant --answer {} yes|no",
            brief(&question.text),
            run.session_id
        ));
    }
}

/// Stores the answer to the first question of a session. No model is called; `--resume` continues the run.
pub(crate) async fn answer(root: &Path, session: &str, words: &str, screen: &Screen) -> Result<ExitCode> {
    let store = JsonStore::open(sessions_of(root))?;
    let run = store.load_session(session)?.unfinished()?;
    let Some(question) = run.and_then(|run| run.questions.into_iter().next()) else {
        bail!("session {session} waits for no answer");
    };
    if !matches!(words, "y" | "yes" | "n" | "no") {
        bail!("the answer is yes or no, not {words:?}");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    let now = Timestamp(u64::try_from(now.as_millis())?);
    let left = store.answer(session, question.id, approval::answer(words), now).await?;
    screen.line(&format!("answered: {}? {words}", brief(&question.text)));
    if left.questions.is_empty() {
        screen.line(&format!("it goes on with: coding_assistant --resume {session}"));
    } else {
        show(&left, screen);
    }
    Ok(ExitCode::SUCCESS)
}
