//! Accounts outside of the process.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::{BudgetRefusal, Spending};
use crate::provider::error::BoxError;

/// An account outside of the process, for example a row of a database or an object of a durable engine, that several
/// processes share.
///
/// It is the root of a tree of accounts: [`Budget::shared`](super::Budget::shared). Each reservation and each charge in
/// the tree reaches it. Implementations should release a reservation that is not settled for longer than any call takes,
/// because its process may have ended.
#[async_trait]
pub trait BudgetPort: fmt::Debug + Send + Sync {
    /// Reserves the amounts of a call, or refuses it. `id` is unique among all reservations of the account; a
    /// repeated request with the same id must not reserve twice. In the refusal, `level` is ignored.
    ///
    /// # Errors
    /// Returns the refusal, or the reason for which the account cannot be reached.
    async fn reserve(&self, id: &str, amounts: Spending) -> Result<(), ReserveError>;

    /// Charges what a call has spent, and releases its reservation. Without an id, nothing was reserved. The id can be
    /// unknown if the request to reserve did not arrive. A repeated request with the same id must not charge twice; one without an id is
    /// repeated only after an error.
    ///
    /// # Errors
    /// Returns the reason for which the account cannot be reached. The request is then repeated later.
    async fn settle(&self, id: Option<&str>, spent: Spending) -> Result<(), BoxError>;

    /// Raises the limits of the account, because a user allowed it.
    ///
    /// # Errors
    /// Returns the reason for which the account cannot be reached. The request is then repeated later.
    async fn raise(&self, by: Spending) -> Result<(), BoxError>;
}

/// The error of a reservation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReserveError {
    /// A limit does not allow the call.
    #[error(transparent)]
    Refused(#[from] Box<BudgetRefusal>),
    /// The account outside of the process cannot be reached.
    #[error("the account of the budget {budget:?} cannot be reached: {source}; the call was not made")]
    Unavailable {
        /// The name of the account.
        budget: String,
        /// The error of the port.
        source: BoxError,
    },
}

impl ReserveError {
    /// Creates the error of an account that cannot be reached.
    #[must_use]
    pub fn unavailable(budget: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self::Unavailable { budget: budget.into(), source: source.into() }
    }

    /// Returns the refusal, if a limit does not allow the call.
    #[must_use]
    pub fn refusal(&self) -> Option<&BudgetRefusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Unavailable { .. } => None,
        }
    }
}

/// A port and the requests that it has not received.
#[derive(Debug)]
pub(super) struct Outbox {
    port: Arc<dyn BudgetPort>,
    waiting: Mutex<VecDeque<Message>>,
    /// Held while requests are sent, so that their order stays.
    sending: tokio::sync::Mutex<()>,
}

/// A request that needs no answer.
#[derive(Debug, Clone)]
pub(super) enum Message {
    Settle { id: Option<String>, spent: Spending },
    Raise(Spending),
}

impl Outbox {
    pub(super) fn new(port: Arc<dyn BudgetPort>) -> Self {
        Self { port, waiting: Mutex::default(), sending: tokio::sync::Mutex::default() }
    }

    pub(super) fn push(&self, message: Message) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(message);
    }

    /// Sends all waiting requests in their order. A request that fails remains, with those after it.
    pub(super) async fn flush(&self) -> Result<(), BoxError> {
        let _sending = self.sending.lock().await;
        loop {
            let first = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).front().cloned();
            match first {
                None => return Ok(()),
                Some(Message::Settle { id, spent }) => self.port.settle(id.as_deref(), spent).await?,
                Some(Message::Raise(by)) => self.port.raise(by).await?,
            }
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        }
    }

    /// Reserves these amounts after everything that waits has been sent.
    pub(super) async fn reserve(
        &self,
        budget: &str,
        id: &str,
        amounts: Spending,
    ) -> Result<(), ReserveError> {
        let unavailable = |source| ReserveError::Unavailable { budget: budget.to_owned(), source };
        self.flush().await.map_err(unavailable)?;
        self.port.reserve(id, amounts).await
    }
}
