//! A question of the run: the call as a whole or its diff, and the answer.

use anyhow::Result;
use looptree::Question;
use looptree::prelude::*;
use looptree::tools::Workspace;

use super::keys::{Keys, Source, Typed};
use super::pager::Pager;
use crate::approval::{Approvals, always_of, described, refused};
use crate::money;
use crate::preview::{Preview, preview};
use crate::screen::{Screen, Style, Styled, diff_lines, question as whole_call};
use crate::text::more_lines;

/// Rows that a question leaves for the answer.
const ROWS_LEFT: usize = 6;

/// The columns below which the choices are single letters.
const NARROW: usize = 60;

/// The message about a paste that would answer a question.
const NO_PASTE: &str = "  A paste does not answer a question. Type the answer.";

/// The result of a question.
pub(super) enum Asked {
    Answer(Answer),
    Interrupt,
}

/// Asks the user the questions of a run.
pub(super) struct Asker<'a> {
    pub(super) screen: &'a Screen,
    pub(super) workspace: &'a Workspace,
    pub(super) approvals: &'a Approvals,
    pub(super) pager: &'a Pager,
}

impl Asker<'_> {
    /// Shows a question and waits for its answer.
    pub(super) async fn ask(&self, question: &Question, keys: &mut Keys) -> Result<Asked> {
        if let Some(refusal) = &question.budget {
            self.screen.paragraph(Style::Bold, "  ", money::question(&question.text, refusal.limit));
            let refusal = refusal.clone();
            loop {
                match self.read("Raise it? ", keys).await {
                    None => return Ok(Asked::Interrupt),
                    Some((_, Source::Pasted)) => self.say(NO_PASTE),
                    Some((words, Source::Typed)) => {
                        return Ok(Asked::Answer(money::answer(&words, &refusal)));
                    }
                }
            }
        }
        let preview = preview(self.workspace, question).await;
        let diff = self.diff_of(question, &preview);
        let whole = diff.clone().unwrap_or_else(|| call_of(question));
        if let Some(note) = preview.note() {
            self.say(Styled::from("  ") + note);
        }
        let lines: Vec<Styled> = whole.iter().flat_map(|line| self.screen.rows_of(line)).collect();
        let room = self.screen.rows().saturating_sub(ROWS_LEFT).max(6);
        let mut hidden = lines.len().saturating_sub(room);
        for line in lines.iter().take(room) {
            self.screen.line(line);
        }
        if hidden > 0 {
            self.say(format!("  {}; s shows all", more_lines(hidden)));
        }
        let grant = always_of(question);
        if let Some(grant) = &grant {
            self.say(Styled::from("  always would allow, until the chat ends: ") + described(grant));
        }
        let choices = match (&grant, self.screen.text_width() < NARROW) {
            (Some(_), false) => "y yes, n no, a always, s show all: ",
            (Some(_), true) => "y, n, a or s: ",
            (None, _) => "y yes, n no: ",
        };
        loop {
            let Some((words, source)) = self.read(choices, keys).await else { return Ok(Asked::Interrupt) };
            let words = words.trim();
            let (first, reason) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
            match (first.to_lowercase().as_str(), reason.is_empty()) {
                // A pasted reason is one, and denies.
                (word, no_reason)
                    if source == Source::Pasted && (no_reason || !matches!(word, "n" | "no")) =>
                {
                    self.say(NO_PASTE);
                }
                ("y" | "yes" | "a" | "always", true) if hidden > 0 => {
                    // Nothing is allowed that was not on the screen.
                    for line in lines.iter().skip(room) {
                        self.screen.line(line);
                    }
                    hidden = 0;
                    self.say("  That was the rest of the call. Now answer.");
                }
                ("y" | "yes", true) => return Ok(Asked::Answer(Answer::Allow)),
                ("a" | "always", true) => {
                    let Some(grant) = grant else { continue };
                    self.say(Styled::from("  allowed until the chat ends: ") + described(&grant));
                    self.approvals.grant(grant);
                    return Ok(Asked::Answer(Answer::Allow));
                }
                ("n" | "no", false) => return Ok(Asked::Answer(Answer::deny(refused(reason)))),
                ("n" | "no", true) => {
                    return Ok(match self.read("Why? (Enter for no reason) ", keys).await {
                        None => Asked::Interrupt,
                        Some((reason, _)) => Asked::Answer(Answer::deny(refused(&reason))),
                    });
                }
                ("s" | "show", true) => {
                    hidden = 0;
                    let call = whole_call(question);
                    let diff = diff.iter().flatten().cloned().chain(diff.is_some().then(Styled::default));
                    self.page(&Styled::join(diff.chain([call])), keys)?;
                }
                _ => self.say("  Answer y, n (with a reason, if you like: n not now), a or s."),
            }
        }
    }

    fn say(&self, text: impl Into<Styled>) {
        self.screen.paragraph(Style::Dim, "", text);
    }

    /// Reads a line; `None` for Ctrl-C or Esc.
    async fn read(&self, label: &str, keys: &mut Keys) -> Option<(String, Source)> {
        if !self.screen.live {
            self.screen.ask(&format!("  {label}"));
        }
        self.screen.asking(Some(label));
        let read = loop {
            match keys.next().await {
                Typed::Line(text, source) => break Some((text, source)),
                Typed::Interrupt | Typed::Stop => break None,
                Typed::Changed => self.screen.typing(&keys.text),
                Typed::Other => {}
            }
        };
        self.screen.asking(None);
        self.screen.typing("");
        let shown = read.as_ref().map_or("(interrupted)", |(text, _)| text.as_str());
        let label = if self.screen.live {
            Styled::from("  ") + self.screen.paint(Style::Bold, label)
        } else {
            Styled::default()
        };
        self.screen.line(label + Styled::prose(shown));
        read
    }

    /// Returns the lines of the diff that an edit would make; `None` for other calls.
    fn diff_of(&self, question: &Question, preview: &Preview) -> Option<Vec<Styled>> {
        let Preview::Change(plan) = preview else { return None };
        // Links of the path are resolved.
        let resolved = question
            .approval()
            .and_then(|view| view.snapshot?.resolved?.get("path")?.as_str().map(str::to_owned));
        let place = resolved.map(|resolved| format!(" (resolved: {resolved})")).unwrap_or_default();
        let title = format!("  {} {}{place}", question.text, plan.change.path);
        let mut lines = vec![self.screen.paint(Style::Bold, title)];
        lines.extend(diff_lines(&plan.change.diff, self.screen, Some(usize::MAX)));
        Some(lines)
    }

    /// Shows a text in the user's pager.
    fn page(&self, text: &Styled, keys: &mut Keys) -> Result<()> {
        let paged = keys.paused(|| self.pager.show(text))?;
        if let Err(error) = &paged {
            self.say(error.to_string());
        }
        if !paged.unwrap_or_default() {
            for line in text.lines() {
                self.screen.line(line);
            }
        }
        Ok(())
    }
}

/// Returns the lines of the whole call, without the hash: that is for an answer from another process.
fn call_of(question: &Question) -> Vec<Styled> {
    let is_hash = |line: &Styled| line.as_str().starts_with("    hash: ");
    whole_call(question).lines().filter(|line| !is_hash(line)).collect()
}
