//! The list behind a history: chunks of units, each linked to the chunk before it.
//!
//! Only the newest chunk changes, and only while it is not shared; otherwise it is copied (at most [`CHUNK`]
//! reference counts). An append therefore costs O(1) and shares all older units.

use std::sync::Arc;

use super::Unit;
use super::joined::Joined;
use crate::identity::stable_hash;
use crate::message::AssistantMessage;

/// The number of units in a chunk.
const CHUNK: usize = 32;

#[derive(Default)]
pub(super) struct Chunk {
    parent: Option<Arc<Chunk>>,
    /// The number of units in all chunks before this one.
    start: usize,
    units: Vec<Arc<Unit>>,
    /// The hashes of the call ids in `units`.
    calls: Vec<u64>,
    /// The number of messages up to the end of this chunk.
    messages: usize,
    /// The number of tokens up to the end of this chunk.
    tokens: u64,
    /// The number of pictures in the messages up to the end of this chunk.
    pictures: usize,
    /// Whether a message up to the end of this chunk concerns a deferred call.
    deferred: bool,
    joined: Joined,
}

impl Chunk {
    pub(super) fn messages(&self) -> usize {
        self.messages
    }

    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    pub(super) fn pictures(&self) -> usize {
        self.pictures
    }

    /// Returns whether a message up to the end of this chunk concerns a deferred call.
    pub(super) fn has_deferred(&self) -> bool {
        self.deferred
    }

    pub(super) fn end(&self) -> usize {
        self.start + self.units.len()
    }

    pub(super) fn last(&self) -> Option<&Arc<Unit>> {
        self.units.last().or_else(|| self.parent.as_ref().and_then(|p| p.units.last()))
    }

    fn push(&mut self, unit: Arc<Unit>) {
        self.messages += unit.entries().len();
        self.tokens = self.tokens.saturating_add(unit.tokens());
        self.pictures += unit.pictures();
        self.deferred |= super::deferred::concerns(&unit);
        self.calls.extend(call_ids(&unit).map(|id| stable_hash(&[id])));
        self.units.push(unit);
    }

    /// Copies the chunk, sharing its parent and its units, with capacity for one more unit.
    fn copied(&self) -> Self {
        let mut units = Vec::with_capacity((self.units.len() + 1).next_power_of_two().max(4));
        units.extend_from_slice(&self.units);
        Self {
            parent: self.parent.clone(),
            start: self.start,
            units,
            calls: self.calls.clone(),
            messages: self.messages,
            tokens: self.tokens,
            pictures: self.pictures,
            deferred: self.deferred,
            joined: Joined::default(),
        }
    }

    pub(super) fn units(&self) -> &[Arc<Unit>] {
        &self.units
    }

    /// Returns the cache of the joined forms; `None` while the chunk can still grow.
    pub(super) fn joined(&self) -> Option<&Joined> {
        (self.units.len() >= CHUNK).then_some(&self.joined)
    }
}

/// Drops the links iteratively, because recursion would overflow the stack for a long list.
impl Drop for Chunk {
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(chunk) = next {
            match Arc::try_unwrap(chunk) {
                Ok(mut owned) => next = owned.parent.take(),
                Err(_) => break,
            }
        }
    }
}

pub(super) fn append(tail: &mut Arc<Chunk>, unit: Arc<Unit>) {
    if tail.units.len() >= CHUNK {
        let mut chunk = Chunk {
            start: tail.end(),
            messages: tail.messages,
            tokens: tail.tokens,
            pictures: tail.pictures,
            deferred: tail.deferred,
            parent: Some(Arc::clone(tail)),
            units: Vec::new(),
            calls: Vec::new(),
            joined: Joined::default(),
        };
        chunk.push(unit);
        *tail = Arc::new(chunk);
        return;
    }
    match Arc::get_mut(tail) {
        Some(chunk) => chunk.push(unit),
        None => {
            let mut chunk = tail.copied();
            chunk.push(unit);
            *tail = Arc::new(chunk);
        }
    }
}

/// Returns the list with the first `messages` messages; `None` if the end is inside of a unit or beyond the list. Costs
/// O(units that are left out).
pub(super) fn prefix(tail: &Arc<Chunk>, messages: usize) -> Option<Arc<Chunk>> {
    let before = |chunk: &Chunk| chunk.parent.as_ref().map_or(0, |parent| parent.messages);
    let last = chain(tail).find(|chunk| chunk.parent.is_none() || before(chunk) < messages)?;
    if last.messages <= messages {
        return (last.messages == messages).then(|| Arc::clone(last));
    }
    let mut copy = Chunk {
        parent: last.parent.clone(),
        start: last.start,
        messages: before(last),
        tokens: last.parent.as_ref().map_or(0, |parent| parent.tokens),
        pictures: last.parent.as_ref().map_or(0, |parent| parent.pictures),
        deferred: last.parent.as_ref().is_some_and(|parent| parent.deferred),
        units: Vec::new(),
        calls: Vec::new(),
        joined: Joined::default(),
    };
    for unit in &last.units {
        if copy.messages >= messages {
            break;
        }
        copy.push(Arc::clone(unit));
    }
    (copy.messages == messages).then(|| Arc::new(copy))
}

fn chain(tail: &Arc<Chunk>) -> impl Iterator<Item = &Arc<Chunk>> {
    std::iter::successors(Some(tail), |c| c.parent.as_ref())
}

/// Returns the chunks, oldest first.
pub(super) fn chunks(tail: &Arc<Chunk>) -> impl Iterator<Item = &Arc<Chunk>> {
    let mut chunks: Vec<&Arc<Chunk>> = chain(tail).collect();
    chunks.reverse();
    chunks.into_iter()
}

pub(super) fn units(tail: &Arc<Chunk>) -> impl Iterator<Item = &Arc<Unit>> {
    chunks(tail).flat_map(|c| c.units.iter())
}

pub(super) fn units_rev(tail: &Arc<Chunk>) -> impl Iterator<Item = &Arc<Unit>> {
    chain(tail).flat_map(|c| c.units.iter().rev())
}

pub(super) fn has_call(tail: &Arc<Chunk>, id: &str) -> bool {
    let hash = stable_hash(&[id]);
    chain(tail).any(|c| c.calls.contains(&hash) && c.units.iter().any(|u| call_ids(u).any(|c| c == id)))
}

/// Returns the number of equal units at the start. Chunks begin at the same positions in every list, so both lists
/// are walked from their ends until they reach the same chunk.
pub(super) fn shared(a: &Arc<Chunk>, b: &Arc<Chunk>) -> usize {
    let (mut x, mut y) = (Some(a), Some(b));
    let mut count = 0;
    while let (Some(p), Some(q)) = (x, y) {
        match p.start.cmp(&q.start) {
            std::cmp::Ordering::Greater => x = p.parent.as_ref(),
            std::cmp::Ordering::Less => y = q.parent.as_ref(),
            std::cmp::Ordering::Equal if Arc::ptr_eq(p, q) => return count.max(p.end()),
            std::cmp::Ordering::Equal => {
                let same = p.units.iter().zip(&q.units).take_while(|(u, v)| Arc::ptr_eq(u, v)).count();
                // Later chunks count only if this chunk is equal to its end.
                if same < p.units.len().min(q.units.len()) || count == 0 {
                    count = p.start + same;
                }
                x = p.parent.as_ref();
                y = q.parent.as_ref();
            }
        }
    }
    count
}

fn call_ids(unit: &Unit) -> impl Iterator<Item = &str> {
    unit.reply().into_iter().flat_map(AssistantMessage::tool_calls).map(|c| c.id.as_str())
}
