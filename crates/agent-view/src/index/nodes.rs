//! The places of loops in the tree.

use std::collections::BTreeMap;

use agent_session::{LoopRecord, Session};

use super::{Numbers, Part, Source};
use crate::tree::Node;

/// Returns for each loop the loop whose conversation it continues, and the number of the turn after which it does so. A loop
/// that begins a conversation is missing.
pub(super) fn before(session: &Session, at: usize, numbers: &Numbers<'_>) -> BTreeMap<usize, (usize, u32)> {
    let number = |id: &str| numbers.get(&(at, id)).copied();
    // Without an outline, which only a damaged session lacks, the parents of the loops remain.
    let outline = session.outline().unwrap_or_default();
    let mut before = BTreeMap::new();
    for turn in &outline {
        let follows = turn.follows.and_then(|at| outline.get(at)).map(|turn| &turn.turn_id);
        let own = number(turn.turn_id.loop_id.as_str());
        let other = follows.and_then(|follows| number(follows.loop_id.as_str()));
        if let (Some(own), Some(other), Some(follows)) = (own, other, follows)
            && other < own
        {
            before.entry(own).or_insert((other, follows.turn_index));
        }
    }
    before
}

/// Marks the loops from the first one to the head, and returns their numbers.
pub(super) fn path(session: &Session, first: usize, nodes: &mut [Node]) -> Vec<usize> {
    let head = session.head().or(session.loops.last());
    let place = head.and_then(|head| session.loops.iter().position(|record| std::ptr::eq(record, head)));
    let mut path = Vec::new();
    let mut next = place.map(|place| first + place);
    while let Some(number) = next {
        let Some(node) = number.checked_sub(first).and_then(|place| nodes.get_mut(place)) else { break };
        if std::mem::replace(&mut node.on_path, true) {
            break;
        }
        path.push(number);
        next = node.parent;
    }
    path.reverse();
    path
}

/// Makes the node of a loop.
pub(super) fn node(
    record: &LoopRecord,
    number: usize,
    at: usize,
    sources: &[Source<'_>],
    numbers: &Numbers<'_>,
    before: &BTreeMap<usize, (usize, u32)>,
) -> Node {
    let source = sources.get(at);
    let named = record.parent_loop_id.as_ref().and_then(|id| numbers.get(&(at, id.as_str())).copied());
    let continued = before.get(&number).map(|(other, _)| *other);
    // A judge has a conversation of its own, but belongs to the place of its group.
    let parent = if record.group.is_some() { named.or(continued) } else { continued.or(named) };
    let parent = parent.filter(|parent| *parent != number);
    let spawn = source
        .filter(|source| source.part == Part::Child && parent.is_none())
        .and_then(|source| source.session.parent_spawn_ref.as_ref());
    // The caller can be in any session of the page.
    let spawned_by = spawn.and_then(|spawn| {
        let places = sources.iter().enumerate();
        let mut of_session = places.filter(|(_, s)| s.session.session_id == spawn.parent_session_id);
        of_session.find_map(|(place, _)| numbers.get(&(place, spawn.parent_loop_id.as_str())).copied())
    });
    Node {
        parent,
        spawned_by,
        group: None,
        selected: record.parallel_group.as_ref().is_some_and(|group| group.is_selected),
        on_path: false,
        session: at,
    }
}
