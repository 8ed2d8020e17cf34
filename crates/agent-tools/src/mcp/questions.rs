//! A list of the questions of servers, which other code answers, such as a web page or a chat.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{oneshot, watch};

use super::elicitation::{Elicitation, ElicitationAnswer, ElicitationForm, ElicitationHandler, completed};

/// The maximum number of open questions. Further questions of a server are answered with `Cancel`.
pub const MAX_OPEN_QUESTIONS: usize = 64;

/// The id of an open question. It is not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ElicitationId(u64);

impl fmt::Display for ElicitationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A question that waits for its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpenElicitation {
    /// The id, which an answer needs.
    pub id: ElicitationId,
    /// The question of the server.
    #[serde(flatten)]
    pub elicitation: Elicitation,
}

/// The reason why an answer was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionError {
    /// The question was answered, timed out, or was withdrawn by the server.
    #[error("the question {id} is not open; look at what is")]
    NotOpen {
        /// The id in the answer.
        id: ElicitationId,
    },
    /// The values do not conform to the form. The question remains open.
    #[error("{why}")]
    Misfit {
        /// The field and its error.
        why: String,
    },
}

/// The open questions of servers. Clones share the list.
///
/// A server waits for the answer while its call is open, so a question can be answered from any task, but only while
/// this process runs.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use std::time::Duration;
/// use agent_tools::mcp::{McpServer, Questions};
///
/// let questions = Questions::new(Duration::from_secs(600));
/// let server = McpServer::stdio("deploy", "deploy-server").with_elicitation(questions.handler());
/// # let _ = server;
/// for open in questions.open() {
///     println!("{} asks: {}", open.elicitation.server, open.elicitation.message);
/// }
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Questions {
    inner: Arc<Inner>,
    /// The state of the list when this clone last read it.
    seen: AtomicU64,
}

struct Inner {
    patience: Duration,
    state: Mutex<State>,
    /// Increased with every change.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    next: u64,
    waiting: BTreeMap<ElicitationId, Waiting>,
}

struct Waiting {
    asked: Elicitation,
    answer: oneshot::Sender<ElicitationAnswer>,
}

impl Questions {
    /// Returns an empty list. A question without an answer after `patience` is answered with `Cancel`.
    #[must_use]
    pub fn new(patience: Duration) -> Self {
        let inner = Inner { patience, state: Mutex::default(), changes: watch::Sender::new(0) };
        Self { inner: Arc::new(inner), seen: AtomicU64::new(0) }
    }

    /// Returns the handler for [`McpServer::with_elicitation`](super::McpServer::with_elicitation). One list can serve
    /// several servers.
    #[must_use]
    pub fn handler(&self) -> ElicitationHandler {
        let inner = Arc::clone(&self.inner);
        Arc::new(move |asked| {
            let inner = Arc::clone(&inner);
            Box::pin(async move {
                let Some((place, answer)) = Place::take(&inner, asked) else {
                    return ElicitationAnswer::Cancel;
                };
                let answer = tokio::time::timeout(inner.patience, answer).await;
                drop(place);
                answer.ok().and_then(Result::ok).unwrap_or(ElicitationAnswer::Cancel)
            })
        })
    }

    /// Returns the open questions, the oldest first.
    #[must_use]
    pub fn open(&self) -> Vec<OpenElicitation> {
        let state = self.inner.lock();
        self.seen.store(*self.inner.changes.borrow(), Ordering::Release);
        let open = |(id, waiting): (&ElicitationId, &Waiting)| OpenElicitation {
            id: *id,
            elicitation: waiting.asked.clone(),
        };
        state.waiting.iter().map(open).collect()
    }

    /// Waits until the list differs from the one that [`open`](Self::open) last returned for this clone. The future can
    /// be dropped at any time.
    pub async fn changed(&self) {
        let seen = self.seen.load(Ordering::Acquire);
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.inner.changes.subscribe().wait_for(|changes| *changes != seen).await;
    }

    /// Answers a question. Missing values get the form's defaults.
    ///
    /// # Errors
    /// Returns [`QuestionError::NotOpen`] if the question is not open, and [`QuestionError::Misfit`] if the values do
    /// not conform to the form; the question then remains open.
    pub fn answer(&self, id: ElicitationId, answer: ElicitationAnswer) -> Result<(), QuestionError> {
        let mut state = self.inner.lock();
        let waiting = state.waiting.get(&id).ok_or(QuestionError::NotOpen { id })?;
        let answer = match (answer, &waiting.asked.form) {
            (ElicitationAnswer::Accept(values), ElicitationForm::Fields { schema }) => {
                let values = completed(schema, values)
                    .map_err(|why| QuestionError::Misfit { why: why.to_string() })?;
                ElicitationAnswer::Accept(values)
            }
            (answer, _) => answer,
        };
        let waiting = state.waiting.remove(&id).ok_or(QuestionError::NotOpen { id })?;
        drop(state);
        self.inner.changes.send_modify(|changes| *changes += 1);
        waiting.answer.send(answer).map_err(|_| QuestionError::NotOpen { id })
    }
}

impl Clone for Questions {
    fn clone(&self) -> Self {
        let seen = AtomicU64::new(self.seen.load(Ordering::Acquire));
        Self { inner: Arc::clone(&self.inner), seen }
    }
}

impl fmt::Debug for Questions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Questions")
            .field("patience", &self.inner.patience)
            .field("open", &self.inner.lock().waiting.len())
            .finish()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question's entry in the list. It is removed when the server no longer waits.
struct Place {
    inner: Arc<Inner>,
    id: ElicitationId,
}

impl Place {
    fn take(inner: &Arc<Inner>, asked: Elicitation) -> Option<(Self, oneshot::Receiver<ElicitationAnswer>)> {
        let (answer, answered) = oneshot::channel();
        let id = {
            let mut state = inner.lock();
            if state.waiting.len() >= MAX_OPEN_QUESTIONS {
                return None;
            }
            let id = ElicitationId(state.next);
            state.next += 1;
            state.waiting.insert(id, Waiting { asked, answer });
            id
        };
        inner.changes.send_modify(|changes| *changes += 1);
        Some((Self { inner: Arc::clone(inner), id }, answered))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.inner.lock().waiting.remove(&self.id).is_some() {
            self.inner.changes.send_modify(|changes| *changes += 1);
        }
    }
}
