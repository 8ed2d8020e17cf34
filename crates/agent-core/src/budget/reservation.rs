//! Open reservations and clocks of an account.

use std::sync::Arc;

use super::Spending;
use super::account::Account;
use super::port;

/// The reserved amounts of a call. Dropping it without [`settle`](Self::settle) releases all of them.
#[derive(Debug)]
pub struct Reservation {
    account: Arc<Account>,
    pub(super) amounts: Spending,
    output: Option<u64>,
    open: bool,
    /// The id of the reservation in the account outside of the process.
    pub(super) id: Option<String>,
}

impl Reservation {
    pub(super) fn new(account: Arc<Account>, amounts: Spending, output: Option<u64>) -> Self {
        Self { account, amounts, output, open: true, id: None }
    }

    /// Returns the reserved amounts.
    #[must_use]
    pub fn amounts(&self) -> Spending {
        self.amounts
    }

    /// Returns the maximum tokens of the answer, if fewer than requested were reserved.
    #[must_use]
    pub fn output(&self) -> Option<u64> {
        self.output
    }

    /// Releases the reservation and charges the actual spending, in one step.
    pub fn settle(mut self, spent: Spending) {
        self.open = false;
        self.account.settle(&self.amounts, &spent);
        report(&self.account, self.id.take(), spent);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.open {
            self.account.settle(&self.amounts, &Spending::default());
            report(&self.account, self.id.take(), Spending::default());
        }
    }
}

/// Reports spending, and the release of a reservation, to the account outside of the process.
pub(super) fn report(account: &Account, id: Option<String>, spent: Spending) {
    if let Some((_, outbox)) = account.outbox()
        && (id.is_some() || !spent.is_zero())
    {
        outbox.push(port::Message::Settle { id, spent });
    }
}

/// Counts the time of the account until it is dropped.
pub(crate) struct Running {
    pub(super) account: Arc<Account>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.account.leave();
    }
}
