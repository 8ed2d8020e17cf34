//! Replaces the files that a provider refused by a sentence, so that the run continues.
//!
//! A picture or a document is a part of every later request. A provider that refuses it would refuse them all.

use super::input::Failure;
use super::{CompactionTask, Run, model_call};
use crate::event::{AgentEvent, CompactionReason};
use crate::history::{Entry, Splice, Unit, UnitKind};
use crate::message::{AgentMessage, Content, Message, Usage};
use crate::provider::ErrorKind;

/// The maximum number of characters of the provider's text that the sentence quotes.
const MAX_QUOTED: usize = 200;

/// The files that a provider's text is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Files {
    Pictures,
    Documents,
    Recordings,
    Any,
}

impl Files {
    /// Returns the files that a failure is about; `None` if it is about something else.
    fn refused_by(failure: &Failure) -> Option<Self> {
        let text = failure.message.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let lacks_input = says(&[
            "image input is not supported",
            "audio input is not supported",
            "not support image",
            "support image input",
            "failed to load image",
            "unknown format",
        ]);
        match failure.kind {
            ErrorKind::Api => {}
            ErrorKind::Network | ErrorKind::ModelNotFound | ErrorKind::Other if lacks_input => {}
            _ => return None,
        }
        if says(&["image", "picture"]) {
            Some(Self::Pictures)
        } else if says(&["pdf", "document"]) {
            Some(Self::Documents)
        } else if says(&["audio", "video"]) {
            Some(Self::Recordings)
        } else {
            says(&["mime type", "media type", "mimetype", "media_type", "file type", "unknown format"])
                .then_some(Self::Any)
        }
    }

    /// Returns the name of a block if it is one of the files.
    fn name(self, content: &Content) -> Option<&'static str> {
        let (kind, name) = match content {
            Content::Image(_) => (Self::Pictures, "image"),
            Content::Document(_) => (Self::Documents, "document"),
            Content::Audio(_) => (Self::Recordings, "sound"),
            Content::Video(_) => (Self::Recordings, "film"),
            _ => return None,
        };
        (self == kind || self == Self::Any).then_some(name)
    }

    fn are_in(self, unit: &Unit) -> bool {
        let is_given = |message: &&Message| message.as_assistant().is_none();
        let given = unit.entries().iter().filter_map(|entry| entry.message().as_llm()).filter(is_given);
        given.flat_map(Message::content).any(|content| self.name(content).is_some())
    }
}

/// Returns whether a failure is about files that the conversation has.
pub(super) fn applies(run: &Run, failure: &Failure) -> bool {
    Files::refused_by(failure).is_some_and(|files| run.history.units().any(|unit| files.are_in(unit)))
}

/// Replaces the files that the failure is about, and calls the model again.
///
/// The files that no reply has followed yet are replaced first, because the provider took the others before.
pub(super) fn replace(run: &mut Run, failure: &Failure, out: &mut Vec<AgentEvent>) {
    let splices = Files::refused_by(failure).map(|files| splices(run, files, &failure.message));
    run.turn.attempt += 1;
    let task = CompactionTask { reason: CompactionReason::RefusedFile, budget: run.history.tokens() };
    run.start_compaction(task, out);
    // The splices replace whole units by messages with the same calls, so they fit the history.
    let _ = model_call::compacted(run, splices.unwrap_or_default(), Usage::default(), None, out);
}

fn splices(run: &Run, files: Files, why: &str) -> Vec<Splice> {
    let is_reply = |unit: &Unit| unit.reply().is_some() && unit.kind() != UnitKind::Failed;
    let units: Vec<_> = run.history.units().collect();
    let last = units.iter().rposition(|unit| is_reply(unit)).unwrap_or_default();
    let first = if units.iter().skip(last).any(|unit| files.are_in(unit)) { last } else { 0 };
    let (mut splices, mut from) = (Vec::new(), 0);
    for (at, unit) in units.into_iter().enumerate() {
        let to = from + unit.entries().len();
        if at >= first && files.are_in(unit) {
            let messages = unit.entries().iter().map(|entry| without_files(entry, files, why)).collect();
            splices.push(Splice { from, to, messages });
        }
        from = to;
    }
    splices
}

fn without_files(entry: &Entry, files: Files, why: &str) -> Entry {
    let mut message = entry.message().clone();
    let AgentMessage::Llm(inner) = &mut message else { return entry.clone() };
    let content = match &mut inner.message {
        Message::User(message) => &mut message.content,
        Message::ToolResult(result) => &mut *result.content,
        Message::Assistant(_) => return entry.clone(),
    };
    for block in content {
        if let Some(name) = files.name(block) {
            let quoted: String = why.chars().take(MAX_QUOTED).collect();
            *block = Content::text(format!("[{name} left out: the provider refused it: {quoted}]"));
        }
    }
    Entry::from(message)
}
