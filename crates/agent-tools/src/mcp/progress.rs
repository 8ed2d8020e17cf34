//! The progress of calls, as their server reports it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{NumberOrString, ProgressNotificationParam, ProgressToken};
use tokio::sync::mpsc;

use crate::text;

/// The maximum number of unread notifications of one call. Further ones are dropped, because none of them is final.
const MAX_WAITING: usize = 256;

/// The maximum number of stored notifications whose call is not known yet.
const MAX_EARLY: usize = 64;

/// The maximum size of a notification's message, in bytes.
const MAX_TEXT_BYTES: usize = 4 * 1024;

/// The progress of a call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct McpProgress {
    /// The progress, in units of the server.
    pub progress: f64,
    /// The total, in units of the server, if known.
    pub total: Option<f64>,
    /// The message of the server, at most 4 KiB.
    pub message: Option<String>,
}

impl std::fmt::Display for McpProgress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let amount = match self.total {
            Some(total) => format!("{}/{total}", self.progress),
            None => self.progress.to_string(),
        };
        match &self.message {
            Some(message) => write!(f, "{message} ({amount})"),
            None => f.write_str(&amount),
        }
    }
}

/// Assigns notifications to calls. It is updated as messages arrive, so the order is the server's.
#[derive(Debug, Clone, Default)]
pub(super) struct ProgressBook(Arc<Mutex<Book>>);

#[derive(Debug, Default)]
struct Book {
    calls: BTreeMap<String, mpsc::Sender<McpProgress>>,
    /// A fast server may send a notification before the call is registered.
    early: VecDeque<(String, McpProgress)>,
}

impl ProgressBook {
    fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, param: &ProgressNotificationParam) {
        let token = key(&param.progress_token);
        let note = McpProgress {
            progress: param.progress,
            total: param.total,
            message: param.message.as_deref().map(|m| text::head(m, MAX_TEXT_BYTES).to_owned()),
        };
        let mut book = self.lock();
        match book.calls.get(&token) {
            // Full: see MAX_WAITING. Closed: the call has its answer.
            Some(call) => drop(call.try_send(note)),
            None => {
                book.early.push_back((token, note));
                let over = book.early.len().saturating_sub(MAX_EARLY);
                book.early.drain(..over);
            }
        }
    }

    /// Registers the call with this token and returns its notifications. Dropping the value removes the call.
    pub(super) fn open(&self, token: &ProgressToken) -> ProgressNotes {
        let token = key(token);
        let (sender, notes) = mpsc::channel(MAX_WAITING);
        let mut book = self.lock();
        for (of, note) in std::mem::take(&mut book.early) {
            if of == token {
                drop(sender.try_send(note));
            } else {
                book.early.push_back((of, note));
            }
        }
        book.calls.insert(token.clone(), sender);
        ProgressNotes { book: self.clone(), token, notes }
    }
}

fn key(token: &ProgressToken) -> String {
    match &token.0 {
        NumberOrString::Number(number) => number.to_string(),
        NumberOrString::String(text) => format!("\"{text}"),
    }
}

/// The notifications of one call.
#[derive(Debug)]
pub(super) struct ProgressNotes {
    book: ProgressBook,
    token: String,
    notes: mpsc::Receiver<McpProgress>,
}

impl ProgressNotes {
    /// Returns the next notification, or waits for ever if there is none.
    pub(super) async fn next(&mut self) -> McpProgress {
        match self.notes.recv().await {
            Some(note) => note,
            None => std::future::pending().await,
        }
    }

    /// Returns a notification that has arrived, if there is one.
    pub(super) fn take(&mut self) -> Option<McpProgress> {
        self.notes.try_recv().ok()
    }
}

impl Drop for ProgressNotes {
    fn drop(&mut self) {
        self.book.lock().calls.remove(&self.token);
    }
}
