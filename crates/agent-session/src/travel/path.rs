//! The path to a point: its loops, and the number of messages of each.

use agent_core::{AgentEvent, Entry, History};

use super::{Point, cut};
use crate::error::SessionError;
use crate::model::{Histories, LoopBase, LoopRecord, Session};

/// A loop on the path.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// The position of the loop in the session.
    pub(super) at: usize,
    /// The number of its messages on the path.
    pub(super) own: usize,
    /// The conversation before it, relative to the previous loop on the path.
    pub(super) base: LoopBase,
}

/// A place in the conversation after a loop: the position of the loop, and the number of messages before the place.
type Place = (usize, usize);

/// Finds paths in a session. An operation creates it once; it reads each loop at most once.
pub(super) struct Paths<'a> {
    session: &'a Session,
    histories: Histories<'a>,
    facts: Vec<Option<Facts>>,
}

/// The properties of a loop that require a pass over its messages and events.
struct Facts {
    /// Whether a compaction changed the positions of the loop's own messages.
    was_compacted: bool,
    /// For each number of messages, the number after the results of open calls.
    settled: Vec<usize>,
}

impl Facts {
    fn of(record: &LoopRecord) -> Self {
        let is_compaction = |event: &AgentEvent| matches!(event, AgentEvent::CompactionEnded(_));
        Self {
            was_compacted: record.events.iter().filter_map(|e| e.known()).any(is_compaction),
            settled: cut::settled(record.messages.iter().map(|m| &**m)),
        }
    }
}

impl<'a> Paths<'a> {
    pub(super) fn of(session: &'a Session) -> Self {
        let facts = session.loops.iter().map(|_| None).collect();
        Self { session, histories: Histories::of(session), facts }
    }

    pub(super) fn session(&self) -> &'a Session {
        self.session
    }

    /// Returns the path from the beginning to a point. It has no loops of which no message is left.
    pub(super) fn path_to(&mut self, point: &Point) -> Result<Vec<Step>, SessionError> {
        let at = self.place(point)?;
        let mut steps = Vec::new();
        let mut next = Some((at, self.settled(at, point.messages)));
        while let Some((at, own)) = next {
            let (place, added) = self.ground(at)?;
            let after_loop = place.and_then(|(p, _)| self.session.loops.get(p)).map(|r| r.loop_id.clone());
            next = place.map(|place| Ok::<_, SessionError>((place.0, self.own_of(place)?))).transpose()?;
            let keep = place.map_or(0, |(_, keep)| keep);
            steps.push(Step { at, own, base: LoopBase { after_loop, keep, added } });
        }
        steps.reverse();
        Ok(steps)
    }

    /// Returns the conversation at a point.
    pub(super) fn history_at(&mut self, point: &Point) -> Result<History, SessionError> {
        let at = self.place(point)?;
        let Some(record) = self.session.loops.get(at) else { return Err(self.no_point(point)) };
        let begin = self.histories.begin(at)?;
        cut::cut(record, begin, point.messages).map(|cut| cut.fold.into_closed())
    }

    /// Returns the conversation before a loop, or an empty one if it cannot be rebuilt.
    pub(super) fn begin_or_empty(&mut self, at: usize) -> History {
        self.histories.begin_or_empty(at)
    }

    /// Returns the position of the loop of a point.
    fn place(&self, point: &Point) -> Result<usize, SessionError> {
        let at = self.histories.index().position(&point.loop_id);
        let there =
            at.filter(|at| self.session.loops.get(*at).is_some_and(|r| point.messages <= r.messages.len()));
        there.ok_or_else(|| self.no_point(point))
    }

    fn no_point(&self, point: &Point) -> SessionError {
        SessionError::NoPoint { session_id: self.session.session_id.clone(), point: point.clone() }
    }

    /// Returns the place at which a loop begins, relative to the last loop that contributed messages, and the messages that
    /// were added after it. Loops whose own messages were all removed by a rewind are skipped.
    fn ground(&mut self, at: usize) -> Result<(Option<Place>, Vec<Entry>), SessionError> {
        let mut place = self.base(at)?;
        // The last one first, because the messages of skipped loops are before those of the loop.
        let mut added: Vec<Entry> = self.added(at).iter().rev().cloned().collect();
        while let Some((before, keep)) = place
            && self.is_skipped(before, keep)?
        {
            let base = self.base(before)?;
            let missing = keep.saturating_sub(base.map_or(0, |(_, keep)| keep));
            added.extend(self.added(before).iter().take(missing).rev().cloned());
            place = base.map(|(after, below)| (after, below.min(keep)));
        }
        added.reverse();
        Ok((place, added))
    }

    /// Returns whether a place in the conversation after a loop is before all of the loop's own messages.
    pub(super) fn is_skipped(&mut self, at: usize, keep: usize) -> Result<bool, SessionError> {
        Ok(!self.was_compacted(at) && keep <= self.begin_len(at)?)
    }

    /// Returns the place at which a loop begins, before the messages that were added.
    pub(super) fn base(&mut self, at: usize) -> Result<Option<Place>, SessionError> {
        let Some(record) = self.session.loops.get(at) else { return Ok(None) };
        let Some(before) = self.histories.index().before(at)? else { return Ok(None) };
        let keep = match &record.base {
            Some(base) => base.keep,
            None => self.histories.after(before)?.len(),
        };
        Ok(Some((before, keep)))
    }

    fn added(&self, at: usize) -> &'a [Entry] {
        let base = self.session.loops.get(at).and_then(|r| r.base.as_ref());
        base.map(|base| base.added.as_slice()).unwrap_or_default()
    }

    fn begin_len(&mut self, at: usize) -> Result<usize, SessionError> {
        Ok(self.base(at)?.map_or(0, |(_, keep)| keep) + self.added(at).len())
    }

    /// Returns the number of the loop's own messages before a place.
    pub(super) fn own_of(&mut self, (at, keep): Place) -> Result<usize, SessionError> {
        let Some(record) = self.session.loops.get(at) else { return Ok(0) };
        if self.was_compacted(at) {
            return Ok(record.messages.len());
        }
        let own = keep.saturating_sub(self.begin_len(at)?).min(record.messages.len());
        Ok(self.settled(at, own))
    }

    fn was_compacted(&mut self, at: usize) -> bool {
        self.facts(at).is_some_and(|facts| facts.was_compacted)
    }

    /// Returns the number of messages before a point, which is moved behind the results of open calls.
    fn settled(&mut self, at: usize, messages: usize) -> usize {
        self.facts(at).and_then(|facts| facts.settled.get(messages).copied()).unwrap_or(messages)
    }

    fn facts(&mut self, at: usize) -> Option<&Facts> {
        let record = self.session.loops.get(at)?;
        self.facts.get_mut(at).map(|facts| &*facts.get_or_insert_with(|| Facts::of(record)))
    }
}
