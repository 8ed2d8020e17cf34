//! Commands that show the session as a tree, go back in it, and fork it.

use anyhow::{Context as _, Result};
use looptree::Message;
use looptree::history::MessageRef;
use looptree::prelude::*;
use looptree::session::{Arrival, Session};

use super::Chat;
use crate::screen::{Style, Styled, brief};
use crate::sessions::{place, tree};

/// Messages of each side that a comparison shows.
const COMPARED: usize = 8;

impl Chat<'_> {
    /// The session as it is recorded so far.
    pub(super) fn session(&self) -> Result<Session> {
        let id = self.setup.agent.session_id();
        if let Some(session) = self.setup.recorder.session(id.as_str()) {
            return Ok(session);
        }
        let loaded = self.setup.store.load_session(id.as_str()).context("nothing has been recorded yet")?;
        Ok(loaded.into_session())
    }

    pub(super) fn tree(&self) -> Result<()> {
        let session = self.session()?;
        tree(&session, self.here.borrow().as_ref(), self.screen)
    }

    pub(super) fn rewind(&self, n: &str) -> Result<()> {
        let n = number(n)?;
        let session = self.session()?;
        let point = place(&session, n)?;
        let arrival = self.setup.agent.rewind(&session, &point)?;
        self.here.replace(Some(point));
        self.setup.watch.adopt(&arrival.files);
        self.screen.paragraph(
            Style::Plain,
            "",
            format!(
                "back {}; the conversation has {} messages, and what came after it stays in the session",
                where_is(n),
                self.setup.agent.messages().len()
            ),
        );
        self.warn(&arrival);
        Ok(())
    }

    pub(super) async fn fork(&self, n: &str) -> Result<()> {
        let n = number(n)?;
        let session = self.session()?;
        let arrival = self.setup.agent.fork(&self.setup.store, &session, &place(&session, n)?).await?;
        self.here.replace(None);
        self.setup.watch.adopt(&arrival.files);
        self.screen.paragraph(
            Style::Plain,
            "",
            format!(
                "now in session {}, which continues session {} {}",
                arrival.session_id,
                session.session_id,
                where_is(n)
            ),
        );
        self.warn(&arrival);
        Ok(())
    }

    fn warn(&self, arrival: &Arrival) {
        let differences = self.setup.watch.differences(&arrival.files);
        for difference in &differences {
            self.screen.paragraph(
                Style::Plain,
                "",
                Styled::from("warning: ") + brief(&difference.to_string()),
            );
        }
        if !differences.is_empty() {
            self.screen.paragraph(
                Style::Plain,
                "",
                "The files were not taken back; the conversation believes them to be as they were.",
            );
        }
    }

    pub(super) fn compare(&self, a: &str, b: &str) -> Result<()> {
        let (a, b) = (number(a)?, number(b)?);
        let session = self.session()?;
        let compared = session.compare(&place(&session, a)?, &place(&session, b)?)?;
        self.screen.line(format!("both begin with the same {} messages", compared.common));
        for (n, side) in [(a, &compared.a), (b, &compared.b)] {
            let (count, tokens) = (side.messages.len(), side.usage.total_tokens);
            self.screen.line(format!("only {}: {count} messages ({tokens} tokens to here)", where_is(n)));
            for message in side.messages.iter().take(COMPARED) {
                self.screen.paragraph(Style::Plain, "    ", said(message));
            }
            if count > COMPARED {
                self.screen.line(format!("    … {} more", count - COMPARED));
            }
        }
        for file in &compared.files {
            self.screen.line(Styled::from("file ") + brief(&file.path) + " differs between them");
        }
        Ok(())
    }
}

fn number(word: &str) -> Result<usize> {
    word.parse().map_err(|_| anyhow::anyhow!("{word:?} is not the number of a turn; /tree shows them"))
}

fn where_is(n: usize) -> String {
    if n == 0 { "at the beginning".to_owned() } else { format!("after turn {n}") }
}

fn said(message: &MessageRef) -> Styled {
    if let Some(reason) = message.stopped_run_reason() {
        return Styled::from("stopped: ") + brief(&reason);
    }
    let calls: String = match message.as_llm() {
        Some(Message::Assistant(reply)) => reply.tool_calls().map(|c| format!(" [{}]", c.name)).collect(),
        _ => String::new(),
    };
    Styled::from(format!("{}: ", message.role())) + brief(&message.text()) + brief(&calls)
}
