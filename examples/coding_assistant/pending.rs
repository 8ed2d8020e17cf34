//! Questions that wait: listing and answering them, from any process.

use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use looptree::Timestamp;
use looptree::prelude::*;
use looptree::session::Unfinished;

use crate::approval;
use crate::args::Args;
use crate::render::{Screen, brief, shown};
use crate::travel::sessions_of;

/// What the program ends with when a question waits.
pub(crate) const WAITS: u8 = 3;

/// Shows every question that waits in a directory's sessions.
pub(crate) async fn list(args: &Args, root: &Path, screen: &Screen) -> Result<ExitCode> {
    let found = JsonStore::open(sessions_of(args, root)?)?.unfinished().await?;
    let waiting = found.waiting();
    if waiting.is_empty() {
        screen.line("no question waits");
    }
    for run in waiting {
        show(run, screen);
    }
    for run in found.runs.iter().filter(|r| r.questions.is_empty()) {
        screen.line(&format!(
            "session {} can be continued: coding_assistant --resume {}",
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
        screen.line(&shown(question));
        let hash = question.approval().map(|view| format!(" --hash {}", view.hash().prefix()));
        screen.line(&format!(
            "  answer with: coding_assistant --answer {} yes|no{}",
            run.session_id,
            hash.unwrap_or_default()
        ));
    }
}

/// Stores the answer to the first question of a session. No model is called; `--resume` continues the run.
pub(crate) async fn answer(
    args: &Args,
    root: &Path,
    session: &str,
    words: &str,
    screen: &Screen,
) -> Result<ExitCode> {
    let store = JsonStore::open(sessions_of(args, root)?)?;
    let run = store.load_session(session)?.unfinished()?;
    let Some(question) = run.and_then(|run| run.questions.into_iter().next()) else {
        bail!("session {session} waits for no answer");
    };
    if !matches!(words, "y" | "yes" | "n" | "no") {
        bail!("the answer is yes or no, not {words:?}");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    let now = Timestamp(u64::try_from(now.as_millis())?);
    let answer = approval::answer(words);
    let left = match question.approval() {
        None => store.answer(session, question.id.clone(), answer, now).await?,
        Some(view) => {
            let hash = args.hash.as_deref();
            if hash.is_some_and(|hash| !view.hash().matches(hash)) {
                bail!(
                    "the session asks about another call than {}:\n{}",
                    hash.unwrap_or_default(),
                    shown(&question)
                );
            }
            if hash.is_none() && answer == Answer::Allow {
                let hash = view.hash();
                bail!("name the call to allow it, with --hash {}:\n{}", hash.prefix(), shown(&question));
            }
            store.answer_approval(session, &view, answer, now).await?
        }
    };
    screen.line(&shown(&question));
    screen.line(&format!("answered: {words}"));
    if left.questions.is_empty() {
        screen.line(&format!("continue it with: coding_assistant --resume {session}"));
    } else {
        show(&left, screen);
    }
    Ok(ExitCode::SUCCESS)
}
