//! The sliding window of 60 seconds behind a rate limit.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::RateLimit;

const MINUTE: Duration = Duration::from_secs(60);

/// The calls of the last 60 seconds and their tokens.
#[derive(Debug)]
pub(super) struct Window {
    limit: RateLimit,
    calls: VecDeque<Call>,
    /// The sum of the tokens of `calls`.
    tokens: u64,
    /// The number that the next call gets.
    next: u64,
    /// No call starts before this time.
    paused_until: Option<Instant>,
}

#[derive(Debug)]
struct Call {
    number: u64,
    at: Instant,
    tokens: u64,
}

impl Window {
    pub(super) fn new(limit: RateLimit) -> Self {
        Self { limit, calls: VecDeque::new(), tokens: 0, next: 0, paused_until: None }
    }

    /// Adds a call of `tokens` tokens and returns its number. If it does not fit, returns the time of the next attempt.
    pub(super) fn enter(&mut self, now: Instant, tokens: u64) -> Result<u64, Instant> {
        self.forget(now);
        if let Some(until) = self.paused_until.filter(|until| *until > now) {
            return Err(until);
        }
        if let Some(free) = self.free_at(tokens) {
            return Err(free);
        }
        let number = self.next;
        self.next += 1;
        self.tokens = self.tokens.saturating_add(tokens);
        self.calls.push_back(Call { number, at: now, tokens });
        Ok(number)
    }

    /// Returns when enough calls will have left the window, or `None` if the call fits now.
    fn free_at(&self, tokens: u64) -> Option<Instant> {
        let mut left = self.tokens;
        let mut free = None;
        for (n, call) in self.calls.iter().enumerate() {
            let waiting = self.calls.len() - n;
            let full = self
                .limit
                .requests_per_minute
                .is_some_and(|max| waiting >= usize::try_from(max).unwrap_or(usize::MAX));
            let heavy = self.limit.tokens_per_minute.is_some_and(|max| left.saturating_add(tokens) > max);
            if !full && !heavy {
                break;
            }
            free = Some(call.at + MINUTE);
            left = left.saturating_sub(call.tokens);
        }
        free
    }

    /// Replaces the estimated tokens of a call with the actual ones.
    pub(super) fn correct(&mut self, number: u64, tokens: u64) {
        if let Some(call) = self.calls.iter_mut().find(|c| c.number == number) {
            self.tokens = self.tokens.saturating_sub(call.tokens).saturating_add(tokens);
            call.tokens = tokens;
        }
    }

    /// Delays all calls until `until`.
    pub(super) fn pause(&mut self, until: Instant) {
        self.paused_until = self.paused_until.max(Some(until));
    }

    /// Returns whether the window affects no later call.
    pub(super) fn is_empty(&mut self, now: Instant) -> bool {
        self.forget(now);
        self.calls.is_empty() && self.paused_until.is_none_or(|until| until <= now)
    }

    fn forget(&mut self, now: Instant) {
        while let Some(call) = self.calls.front().filter(|c| c.at + MINUTE <= now) {
            self.tokens = self.tokens.saturating_sub(call.tokens);
            self.calls.pop_front();
        }
    }
}
