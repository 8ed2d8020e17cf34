//! The requests of a conversation that have an idempotency key, so that one that is repeated does nothing twice.
//!
//! The key of a message is recorded with it, so the session is the only place that has it. A conversation in memory has a list of
//! the latest ones.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use agent_core::{AgentEvent, AgentMessage, Answer, Message};
use agent_session::{RecordedEvent, Session};
use sha2::{Digest as _, Sha256};

/// The number of keys of a conversation that are remembered.
pub(crate) const MAX_REQUESTS: usize = 1_024;

/// The maximum length of a key in characters.
pub(crate) const MAX_KEY: usize = 255;

/// A key, and a digest of what its request asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestId {
    key: String,
    digest: String,
    /// The path of the request; empty if it was recorded.
    path: String,
}

impl RequestId {
    /// Returns the id of a request with this key; `None` if the key is not 1 to 255 printable characters of ASCII without blanks.
    pub(crate) fn new(key: &[u8], path: &str, body: &[u8]) -> Option<Self> {
        let is_key = (1..=MAX_KEY).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic);
        let key = is_key.then(|| std::str::from_utf8(key).ok()).flatten()?.to_owned();
        let digest = Sha256::new().chain_update(path).chain_update([0]).chain_update(body).finalize();
        Some(Self { key, digest: hex(&digest), path: path.to_owned() })
    }

    /// Returns the last part of the id of the conversation that this request of an owner begins: 32 hexadecimal digits.
    pub(crate) fn conversation(&self, owner: &str) -> String {
        let parts = [owner, &self.path, &self.key].map(Sha256::digest);
        hex(&Sha256::digest(parts.concat()))
    }

    /// Names the request in a message that it brings.
    pub(crate) fn mark(&self, message: &mut AgentMessage) {
        if let AgentMessage::Llm(llm) = message
            && let Message::User(user) = &mut llm.message
        {
            user.request_id = Some(self.to_string().into());
        }
    }

    fn of_message(message: &AgentMessage) -> Option<Self> {
        let Some(Message::User(user)) = message.as_llm() else { return None };
        let (digest, key) = user.request_id.as_deref()?.split_once(' ')?;
        Some(Self { key: key.to_owned(), digest: digest.to_owned(), path: String::new() })
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.digest, self.key)
    }
}

/// Returns the first 16 bytes in hexadecimal digits.
fn hex(digest: &[u8]) -> String {
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Why a request with a key begins nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeated {
    /// The first one has begun what it asked.
    Done {
        /// The number of the last event before it.
        after: u64,
    },
    /// The first one is still being answered.
    InProgress,
    /// The first one asked something else.
    Differs,
}

#[derive(Debug)]
struct Known {
    id: RequestId,
    /// The number of the last event before what the request began; `None` while it is not recorded.
    after: Option<u64>,
}

/// The latest requests.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    known: Mutex<VecDeque<Known>>,
}

impl Requests {
    /// Returns the requests whose messages are recorded.
    pub(crate) fn of_session(session: &Session) -> Self {
        let mut known = VecDeque::new();
        for (before, _, event) in numbered(session) {
            if let AgentEvent::MessageEnd { message, .. } = event
                && let Some(id) = RequestId::of_message(message)
            {
                push(&mut known, Known { id, after: Some(before) });
            }
        }
        Self { known: Mutex::new(known) }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the last event before what an earlier request with this key began; `None` if there was none.
    pub(crate) fn find(&self, id: &RequestId) -> Result<Option<u64>, Repeated> {
        find(&self.lock(), id)
    }

    /// Claims the key for a new request.
    pub(crate) fn claim(&self, id: &RequestId) -> Result<Claim<'_>, Repeated> {
        let mut known = self.lock();
        if let Some(after) = find(&known, id)? {
            return Err(Repeated::Done { after });
        }
        push(&mut known, Known { id: id.clone(), after: None });
        Ok(Claim { requests: self, id: id.clone(), outcome: Outcome::Nothing })
    }
}

fn find(known: &VecDeque<Known>, id: &RequestId) -> Result<Option<u64>, Repeated> {
    match known.iter().rev().find(|known| known.id.key == id.key) {
        None => Ok(None),
        Some(known) if known.id.digest != id.digest => Err(Repeated::Differs),
        Some(Known { after: None, .. }) => Err(Repeated::InProgress),
        Some(Known { after, .. }) => Ok(*after),
    }
}

fn push(known: &mut VecDeque<Known>, one: Known) {
    known.push_back(one);
    if known.len() > MAX_REQUESTS {
        known.pop_front();
    }
}

/// What a request that claimed a key has done.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    Nothing,
    Began { after: u64 },
    Unknown,
}

/// The key of a request that is being answered. Dropped, it frees the key, unless the request has begun something.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    requests: &'a Requests,
    id: RequestId,
    outcome: Outcome,
}

impl Claim<'_> {
    pub(crate) fn began(&mut self, after: u64) {
        self.outcome = Outcome::Began { after };
    }

    /// Leaves the key taken: what the request began may still be recorded.
    pub(crate) fn unknown(&mut self) {
        self.outcome = Outcome::Unknown;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut known = self.requests.lock();
        let Some(at) = known.iter().rposition(|known| known.id == self.id) else { return };
        match self.outcome {
            Outcome::Nothing => drop(known.remove(at)),
            Outcome::Began { after } => {
                if let Some(own) = known.get_mut(at) {
                    own.after = Some(after);
                }
            }
            Outcome::Unknown => {}
        }
    }
}

/// Returns the recorded events, each with the number of the last event before its loop, and with its own.
pub(crate) fn numbered(session: &Session) -> impl Iterator<Item = (u64, u64, &AgentEvent)> {
    let mut at = 0;
    session.loops.iter().flat_map(move |record| {
        let before = at;
        at += record.events.len() as u64;
        (before + 1..).zip(&record.events).filter_map(move |(number, event)| match &event.event {
            RecordedEvent::Known(event) => Some((before, number, &**event)),
            _ => None,
        })
    })
}

/// Returns the recorded answer to a question, and the number of the last event before it.
pub(crate) fn recorded_answer(session: &Session, question: &str) -> Option<(Answer, u64)> {
    numbered(session).find_map(|(_, number, event)| match event {
        AgentEvent::QuestionAnswered { question_id, answer, .. } if question_id.as_str() == question => {
            Some((answer.clone(), number - 1))
        }
        _ => None,
    })
}
