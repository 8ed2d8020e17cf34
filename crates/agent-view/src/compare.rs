//! Aligns the turns of two sessions.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write};

use serde::Serialize;

use crate::blocks::Block;
use crate::items::Item;
use crate::loops::TurnView;

/// The largest product of turns that are aligned by their longest common sequence: 4,000,000. Beyond it, turns are aligned by
/// their numbers.
const MOST_CELLS: usize = 4_000_000;

/// What differs between two turns, as bits.
const PROMPT: u8 = 1;
const REPLY: u8 = 2;
const CALLS: u8 = 4;
const RESULTS: u8 = 8;

/// A turn by the hashes of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// The number of the loop and that of the turn in it.
    pub(crate) place: (usize, usize),
    prompt: u64,
    reply: u64,
    calls: u64,
    names: u64,
    results: u64,
}

/// A row: a turn of each session, or of one of them, and what differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Pair {
    a: Option<(usize, usize)>,
    b: Option<(usize, usize)>,
    d: u8,
}

/// Feeds what is written to a hasher.
struct HashWriter(DefaultHasher);

impl Write for HashWriter {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.write(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Fingerprint {
    pub(crate) fn of(place: (usize, usize), turn: &TurnView<'_>) -> Self {
        let new = || HashWriter(DefaultHasher::new());
        let (mut prompt, mut reply, mut calls, mut names, mut results) = (new(), new(), new(), new(), new());
        let hash = |into: &mut HashWriter, block: &Block<'_>| {
            // Writing to a hasher cannot fail.
            let _ = serde_json::to_writer(into, block);
        };
        for item in &turn.items {
            match item {
                Item::User { c, .. } => c.iter().for_each(|block| hash(&mut prompt, block)),
                Item::Reply(message) => {
                    for block in &message.c {
                        if let Block::Call { name, args, .. } = block {
                            (name, args).hash(&mut calls.0);
                            name.hash(&mut names.0);
                        } else {
                            hash(&mut reply, block);
                        }
                    }
                }
                Item::Result(result) => {
                    (result.name, result.err).hash(&mut results.0);
                    result.content().iter().for_each(|block| hash(&mut results, block));
                }
                Item::Extension { .. } | Item::Note(_) => {}
            }
        }
        Self {
            place,
            prompt: prompt.0.finish(),
            reply: reply.0.finish(),
            calls: calls.0.finish(),
            names: names.0.finish(),
            results: results.0.finish(),
        }
    }

    /// Returns whether two turns are at the same place of their conversations: the same prompt, and calls of the same tools.
    fn matches(&self, other: &Self) -> bool {
        (self.prompt, self.names) == (other.prompt, other.names)
    }

    fn differences(&self, other: &Self) -> u8 {
        let bit = |differs: bool, bit: u8| if differs { bit } else { 0 };
        bit(self.prompt != other.prompt, PROMPT)
            | bit(self.reply != other.reply, REPLY)
            | bit(self.calls != other.calls, CALLS)
            | bit(self.results != other.results, RESULTS)
    }
}

/// Aligns two lists of turns. Turns that match are the anchors; between two anchors, turns are paired in their order.
pub(crate) fn align(a: &[Fingerprint], b: &[Fingerprint]) -> Vec<Pair> {
    let head = a.iter().zip(b).take_while(|(a, b)| a.matches(b)).count();
    let (rest_a, rest_b) = (a.get(head..).unwrap_or_default(), b.get(head..).unwrap_or_default());
    let tail = rest_a.iter().rev().zip(rest_b.iter().rev()).take_while(|(a, b)| a.matches(b)).count();
    let middle_a = rest_a.get(..rest_a.len() - tail).unwrap_or_default();
    let middle_b = rest_b.get(..rest_b.len() - tail).unwrap_or_default();
    let mut anchors: Vec<(usize, usize)> = (0..head).map(|at| (at, at)).collect();
    anchors.extend(common(middle_a, middle_b).into_iter().map(|(x, y)| (x + head, y + head)));
    anchors.extend((0..tail).rev().map(|at| (a.len() - 1 - at, b.len() - 1 - at)));
    let mut pairs = Vec::with_capacity(a.len().max(b.len()));
    let (mut x, mut y) = (0, 0);
    for (to_x, to_y) in anchors.into_iter().chain([(a.len(), b.len())]) {
        while x < to_x || y < to_y {
            let one = a.get(x).filter(|_| x < to_x);
            let other = b.get(y).filter(|_| y < to_y);
            pairs.push(Pair {
                a: one.map(|turn| turn.place),
                b: other.map(|turn| turn.place),
                d: one.zip(other).map_or(0, |(one, other)| one.differences(other)),
            });
            x += usize::from(one.is_some());
            y += usize::from(other.is_some());
        }
        if let (Some(one), Some(other)) = (a.get(to_x), b.get(to_y)) {
            pairs.push(Pair { a: Some(one.place), b: Some(other.place), d: one.differences(other) });
            (x, y) = (to_x + 1, to_y + 1);
        }
    }
    pairs
}

/// Returns the longest common sequence of two lists as pairs of positions; none if the lists are too long.
fn common(a: &[Fingerprint], b: &[Fingerprint]) -> Vec<(usize, usize)> {
    let width = b.len() + 1;
    if a.is_empty() || b.is_empty() || a.len().saturating_mul(b.len()) > MOST_CELLS {
        return Vec::new();
    }
    // The length of the longest common sequence of what follows each pair of positions.
    let mut lengths = vec![0_u16; (a.len() + 1) * width];
    let at = |lengths: &[u16], x: usize, y: usize| lengths.get(x * width + y).copied().unwrap_or(0);
    for (x, one) in a.iter().enumerate().rev() {
        for (y, other) in b.iter().enumerate().rev() {
            let length = if one.matches(other) {
                at(&lengths, x + 1, y + 1).saturating_add(1)
            } else {
                at(&lengths, x + 1, y).max(at(&lengths, x, y + 1))
            };
            if let Some(cell) = lengths.get_mut(x * width + y) {
                *cell = length;
            }
        }
    }
    let (mut x, mut y, mut pairs) = (0, 0, Vec::new());
    while let (Some(one), Some(other)) = (a.get(x), b.get(y)) {
        if one.matches(other) {
            pairs.push((x, y));
            (x, y) = (x + 1, y + 1);
        } else if at(&lengths, x + 1, y) >= at(&lengths, x, y + 1) {
            x += 1;
        } else {
            y += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests;
