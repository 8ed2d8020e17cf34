//! Commands that show the session as a tree, go back in it, and fork it.

use looptree::Message;
use std::cell::RefCell;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use looptree::history::MessageRef;
use looptree::prelude::*;
use looptree::session::{Arrival, FileWatch, OutlineTurn, Point, Session, sessions_folder};

use crate::args::Args;
use crate::render::{Screen, brief};

pub(crate) const HELP: &str = "\
  /tree          show the session turn by turn; * marks where you are
  /rewind N      go back to the end of turn N, 0 for the beginning; later turns stay in the session
  /fork N        start a new session from the end of turn N; this session does not change
  /compare A B   compare the conversations at turns A and B
  /clear         forget the conversation
  /quit          quit
  Ctrl-C         abort the current run";

/// Lines of each side that a comparison shows.
const COMPARED: usize = 8;

/// Where the recorded session is, and its files.
pub(crate) struct Travel<'a> {
    pub(crate) agent: &'a BasicAgent,
    pub(crate) recorder: &'a SessionRecorder,
    pub(crate) store: &'a JsonStore,
    pub(crate) watch: &'a FileWatch,
    pub(crate) root: PathBuf,
    pub(crate) screen: &'a Screen,
    /// Where the agent was set back to.
    pub(crate) here: RefCell<Option<Point>>,
}

impl Travel<'_> {
    /// Does what a line beginning with `/` says; `false` for a line that is none of these commands.
    pub(crate) async fn command(&self, line: &str) -> Result<bool> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["/help"] => self.screen.line(HELP),
            ["/tree"] => self.tree()?,
            ["/rewind", n] => self.rewind(number(n)?)?,
            ["/fork", n] => self.fork(number(n)?).await?,
            ["/compare", a, b] => self.compare(number(a)?, number(b)?)?,
            [word @ ("/rewind" | "/fork")] => bail!("{word} wants the number of a turn; /tree shows them"),
            ["/compare", ..] => bail!("/compare wants the numbers of two turns; /tree shows them"),
            [word] if word.strip_prefix('/').is_some_and(|w| !w.contains('/')) => {
                bail!("there is no command {word}; /help names them")
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The end of the session is where the agent is, after a run and after a fork.
    pub(crate) fn arrive_at_the_end(&self) {
        self.here.replace(None);
    }

    fn session(&self) -> Result<Session> {
        let id = self.agent.session_id();
        if let Some(session) = self.recorder.session(id.as_str()) {
            return Ok(session);
        }
        let loaded = self.store.load_session(id.as_str()).context("nothing has been recorded yet")?;
        Ok(loaded.into_session())
    }

    fn tree(&self) -> Result<()> {
        let session = self.session()?;
        let turns = session.outline()?;
        self.screen.line(&format!("session {}", session.session_id));
        if let Some(fork) = &session.forked_from {
            self.screen.line(&format!("forked from session {}", fork.session_id));
        }
        let here = self.here.borrow().clone().or_else(|| session.end_point());
        let mut depths: Vec<usize> = Vec::new();
        for (n, turn) in turns.iter().enumerate() {
            let before = turn.follows.and_then(|at| depths.get(at)).copied().unwrap_or(0);
            let depth = before + usize::from(turn.branch > 0);
            depths.push(depth);
            let mark = if Some(&turn.point) == here.as_ref() { '*' } else { ' ' };
            let from = match (turn.branch, turn.follows) {
                (0, _) => String::new(),
                (_, Some(at)) => format!("(from {}) ", at + 1),
                (_, None) => "(from the beginning) ".to_owned(),
            };
            self.screen.line(&format!("{mark}{:>3}  {}{from}{}", n + 1, "  ".repeat(depth), shown(turn)));
        }
        Ok(())
    }

    fn rewind(&self, n: usize) -> Result<()> {
        let session = self.session()?;
        let point = place(&session, n)?;
        let arrival = self.agent.rewind(&session, &point)?;
        self.here.replace(Some(point));
        self.watch.adopt(&arrival.files);
        self.screen.line(&format!(
            "back {}; the conversation has {} messages, and what came after it stays in the session",
            where_is(n),
            self.agent.messages().len()
        ));
        self.warn(&arrival);
        Ok(())
    }

    async fn fork(&self, n: usize) -> Result<()> {
        let session = self.session()?;
        let arrival = self.agent.fork(self.store, &session, &place(&session, n)?).await?;
        self.arrive_at_the_end();
        self.watch.adopt(&arrival.files);
        self.screen.line(&format!(
            "now in session {}, which continues session {} {}",
            arrival.session_id,
            session.session_id,
            where_is(n)
        ));
        self.warn(&arrival);
        Ok(())
    }

    fn warn(&self, arrival: &Arrival) {
        let differences = arrival.differences(&self.root);
        for difference in &differences {
            self.screen.line(&format!("warning: {}", brief(&difference.to_string())));
        }
        if !differences.is_empty() {
            self.screen
                .line("The files were not taken back; the conversation believes them to be as they were.");
        }
    }

    fn compare(&self, a: usize, b: usize) -> Result<()> {
        let session = self.session()?;
        let compared = session.compare(&place(&session, a)?, &place(&session, b)?)?;
        self.screen.line(&format!("both begin with the same {} messages", compared.common));
        for (n, side) in [(a, &compared.a), (b, &compared.b)] {
            let (count, tokens) = (side.messages.len(), side.usage.total_tokens);
            self.screen.line(&format!("only {}: {count} messages ({tokens} tokens to here)", where_is(n)));
            for message in side.messages.iter().take(COMPARED) {
                self.screen.line(&format!("    {}", said(message)));
            }
            if count > COMPARED {
                self.screen.line(&format!("    … {} more", count - COMPARED));
            }
        }
        for file in &compared.files {
            self.screen.line(&format!("file {} differs between them", brief(&file.path)));
        }
        Ok(())
    }
}

fn number(word: &str) -> Result<usize> {
    word.parse().map_err(|_| anyhow::anyhow!("{word:?} is not the number of a turn; /tree shows them"))
}

fn place(session: &Session, n: usize) -> Result<Point> {
    let turns = session.outline()?;
    let point = match n.checked_sub(1) {
        None => turns.first().and_then(|t| session.point_before_turn(&t.turn_id)),
        Some(at) => turns.get(at).map(|t| t.point.clone()),
    };
    point.with_context(|| format!("there is no turn {n}; the session has {}", turns.len()))
}

fn where_is(n: usize) -> String {
    if n == 0 { "at the beginning".to_owned() } else { format!("after turn {n}") }
}

/// Describes a turn in one line: its message and its outcome.
fn shown(turn: &OutlineTurn) -> String {
    let asked = turn.input.iter().map(|m| format!("> {} ", brief(&m.text())));
    let calls = turn.calls.iter().map(|name| format!("[{}] ", brief(name.as_str())));
    let reply = turn.reply.as_ref().map(|m| brief(&m.text())).unwrap_or_default();
    asked.chain(calls).chain([reply]).collect::<String>().trim_end().to_owned()
}

fn said(message: &MessageRef) -> String {
    let calls = match message.as_llm() {
        Some(Message::Assistant(reply)) => reply.tool_calls().map(|c| format!(" [{}]", c.name)).collect(),
        _ => String::new(),
    };
    format!("{}: {}{}", message.role(), brief(&message.text()), brief(&calls))
}

/// Returns the folder with the sessions of a directory: the one that was named, or the one of the platform. Refuses a folder
/// inside of the directory, where a command of the model could change it.
pub(crate) fn sessions_of(args: &Args, root: &Path) -> Result<PathBuf> {
    let Some(folder) = &args.sessions else {
        return sessions_folder(root).context("use --sessions DIR");
    };
    let folder = std::path::absolute(folder)?;
    // The part that exists is resolved, so that a link into the directory is found.
    let existing = folder.ancestors().find_map(|above| above.canonicalize().ok());
    if existing.is_some_and(|existing| existing.starts_with(root)) {
        bail!(
            "the folder of --sessions, {}, is inside of the directory of the task, where commands could change it; \
             name one outside of it",
            folder.display()
        );
    }
    Ok(folder)
}
