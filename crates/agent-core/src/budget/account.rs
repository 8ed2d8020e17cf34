//! A budget account and its ancestors.
//!
//! Each account has its own lock. Several locks are always taken from the leaf to the root, so that no deadlock is
//! possible.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::AccountState;
use super::amounts::{BudgetLimit, BudgetLimits, Spending};
use super::ask::Ask;
use super::port::{BudgetPort, Message, Outbox};
use super::refusal::BudgetRefusal;
use crate::environment::Environment;
use crate::identity::Timestamp;

#[derive(Debug)]
pub(super) struct Account {
    pub(super) name: String,
    parent: Option<Arc<Account>>,
    /// Notifies waiting reservations in the whole tree when amounts are released.
    pub(super) freed: Arc<Notify>,
    book: Mutex<Book>,
    /// The way to the account outside of the process whose place a root has here.
    outbox: Option<Outbox>,
}

#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) limits: BudgetLimits,
    raised: Spending,
    pub(super) spent: Spending,
    pub(super) reserved: Spending,
    /// The number of open runs, and the clock that measures since when there is at least one.
    running: u32,
    clock: Option<Clock>,
}

/// The clock of the first of the open runs. The accounts of a tree can have runs with different environments.
#[derive(Debug)]
struct Clock {
    environment: Arc<dyn Environment>,
    since_ms: u64,
}

impl Clock {
    /// Returns the milliseconds since the start, measured by the monotonic clock.
    fn elapsed(&self) -> u64 {
        self.environment.monotonic_ms().saturating_sub(self.since_ms)
    }
}

impl Account {
    pub(super) fn root(name: String, limits: BudgetLimits) -> Arc<Self> {
        let book = Mutex::new(Book { limits, ..Book::default() });
        Arc::new(Self { name, parent: None, freed: Arc::default(), book, outbox: None })
    }

    /// Creates the root in whose place an account outside of the process decides.
    pub(super) fn outside(name: String, port: Arc<dyn BudgetPort>) -> Arc<Self> {
        let (book, outbox) = (Mutex::default(), Some(Outbox::new(port)));
        Arc::new(Self { name, parent: None, freed: Arc::default(), book, outbox })
    }

    /// Returns the way to the account outside of the process, if the root has one.
    pub(super) fn outbox(&self) -> Option<(&Self, &Outbox)> {
        let root = self.path().last()?;
        Some((root, root.outbox.as_ref()?))
    }

    pub(super) fn below(parent: &Arc<Self>, name: String, limits: BudgetLimits) -> Arc<Self> {
        let book = Mutex::new(Book { limits, ..Book::default() });
        let freed = Arc::clone(&parent.freed);
        Arc::new(Self { name, parent: Some(Arc::clone(parent)), freed, book, outbox: None })
    }

    /// Returns the account and its ancestors.
    pub(super) fn path(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |account| account.parent.as_deref())
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is left here and in the ancestors, after reservations.
    pub(super) fn left(&self, now: Timestamp) -> BudgetLimits {
        let least = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.path().fold(BudgetLimits::none(), |left, account| {
            let here = account.book().left(now);
            left.each(|kind, above| least(above, here.of(kind)))
        })
    }

    pub(super) fn state(&self, now: Timestamp) -> AccountState {
        let book = self.book();
        AccountState { spent: book.spent_at(now), raised: book.raised }
    }

    pub(super) fn at_least(&self, known: &AccountState) {
        let mut book = self.book();
        book.spent = book.spent.max(&known.spent);
        book.raised = book.raised.max(&known.raised);
    }

    /// Reserves the amounts of `ask` here and in the ancestors, or nothing. The second value is the limit of the
    /// answer if it is lower than requested.
    pub(super) fn reserve(
        &self,
        ask: &Ask,
        now: Timestamp,
    ) -> Result<(Spending, Option<u64>), Box<BudgetRefusal>> {
        let most = ask.most();
        let output = self.reserve_up(ask, most, now, 0)?;
        Ok((ask.amounts(output), (output < most).then_some(output)))
    }

    fn reserve_up(
        &self,
        ask: &Ask,
        most: u64,
        now: Timestamp,
        level: u32,
    ) -> Result<u64, Box<BudgetRefusal>> {
        let mut book = self.book();
        let output = book
            .fitting(ask, most, now)
            .map_err(|refusal| Box::new(BudgetRefusal { budget: self.name.clone(), level, ..refusal }))?;
        // The lock is held while the ancestors decide, so that no partial reservation is visible.
        let output = match &self.parent {
            Some(parent) => parent.reserve_up(ask, output, now, level.saturating_add(1))?,
            None => output,
        };
        book.reserved = book.reserved.plus(&ask.amounts(output));
        Ok(output)
    }

    pub(super) fn settle(&self, reserved: &Spending, spent: &Spending) {
        self.settle_up(reserved, spent);
        self.freed.notify_waiters();
    }

    pub(super) fn settle_up(&self, reserved: &Spending, spent: &Spending) {
        let mut book = self.book();
        if let Some(parent) = &self.parent {
            parent.settle_up(reserved, spent);
        }
        book.reserved = book.reserved.minus(reserved);
        book.spent = book.spent.plus(spent);
    }

    pub(super) fn raise(&self, by: &Spending) {
        {
            let mut book = self.book();
            book.raised = book.raised.plus(by);
        }
        if let Some(outbox) = &self.outbox {
            outbox.push(Message::Raise(*by));
        }
        self.freed.notify_waiters();
    }

    pub(super) fn enter(&self, environment: &Arc<dyn Environment>) {
        for account in self.path() {
            let mut book = account.book();
            book.clock.get_or_insert_with(|| Clock {
                environment: Arc::clone(environment),
                since_ms: environment.monotonic_ms(),
            });
            book.running = book.running.saturating_add(1);
        }
    }

    pub(super) fn leave(&self) {
        for account in self.path() {
            let mut book = account.book();
            book.running = book.running.saturating_sub(1);
            if book.running == 0 {
                let ran = book.clock.take().map_or(0, |clock| clock.elapsed());
                book.spent.time_ms = book.spent.time_ms.saturating_add(ran);
            }
        }
    }
}

impl Book {
    pub(super) fn allowed(&self) -> BudgetLimits {
        self.limits.each(|kind, limit| limit.map(|limit| limit.saturating_add(self.raised.of(kind))))
    }

    pub(super) fn spent_at(&self, now: Timestamp) -> Spending {
        // The time of day is used only for the distance of `now` from the present.
        let running = self.clock.as_ref().map_or(0, |clock| {
            let present = clock.environment.now();
            let elapsed = clock.elapsed().saturating_add(now.millis_since(present));
            elapsed.saturating_sub(present.millis_since(now))
        });
        Spending { time_ms: self.spent.time_ms.saturating_add(running), ..self.spent }
    }

    fn left(&self, now: Timestamp) -> BudgetLimits {
        let used = self.spent_at(now).plus(&self.reserved);
        self.allowed().each(|kind, limit| limit.map(|limit| limit.saturating_sub(used.of(kind))))
    }

    /// Returns the longest answer that the limits allow, or the limit that denies the call. A limit on something the
    /// call does not use cannot deny it, except that expired time denies every call.
    fn fitting(&self, ask: &Ask, most: u64, now: Timestamp) -> Result<u64, BudgetRefusal> {
        let (allowed, spent, least) = (self.allowed(), self.spent_at(now), ask.at_least());
        for limit in BudgetLimit::ALL {
            let Some(allowed) = allowed.of(limit) else { continue };
            let (spent, reserved, asked) = (spent.of(limit), self.reserved.of(limit), least.of(limit));
            let over = if limit == BudgetLimit::Time {
                spent >= allowed
            } else {
                asked > 0 && spent.saturating_add(reserved).saturating_add(asked) > allowed
            };
            if over {
                let (budget, level) = (String::new(), 0);
                return Err(BudgetRefusal { budget, level, limit, allowed, spent, reserved, asked });
            }
        }
        // The shortest answer fits at least.
        Ok(ask.fitting(&self.left(now), most).unwrap_or(0))
    }
}
