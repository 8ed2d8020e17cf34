//! The tree and the paths of random sessions, compared with simple versions that read the session again for each step.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod shapes;

use std::collections::BTreeMap;

use agent_core::fold::Fold;
use agent_core::{
    AgentEvent, AgentMessage, AssistantMessage, Content, Entry, GroupMember, GroupRole, History, LoopId,
    Message, MessageRef, StopReason, Timestamp, ToolResultMessage, TurnId, TurnTrigger, Usage,
};
use agent_session::{
    LoopBase, LoopEvent, LoopRecord, LoopStatus, ParallelGroupRecord, Point, Session, SessionRecorder,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

struct Choices(std::vec::IntoIter<u8>);

impl Choices {
    fn below(&mut self, n: usize) -> usize {
        usize::from(self.0.next().unwrap_or(0)) % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }
}

/// A loop of a few turns. Some turns have no messages, some calls have no result.
fn record(c: &mut Choices, number: usize) -> LoopRecord {
    let recorder = SessionRecorder::new();
    let session_id = if c.one_in(8) { "s-0" } else { "s-1" };
    let id = format!("{session_id}.m.{number}");
    let start: AgentEvent = serde_json::from_value(serde_json::json!({
        "type": "agent_start", "agent_id": "agent", "session_id": session_id, "loop_id": id, "timestamp": 1,
    }))
    .unwrap();
    let loop_id = start.loop_id().clone();
    recorder.on_event(&start);
    let message = |message: AgentMessage| {
        let (loop_id, message) = (loop_id.clone(), MessageRef::from(message));
        recorder.on_event(&AgentEvent::MessageEnd { loop_id, message, tokens: 1, superseded: false });
    };
    for turn in 0..c.below(4) {
        if turn == 0 || c.one_in(2) {
            message(AgentMessage::user(format!("{id} asks {turn}")));
        }
        recorder.on_event(&AgentEvent::TurnStart {
            loop_id: loop_id.clone(),
            turn_index: u32::try_from(turn).unwrap(),
            timestamp: Timestamp(2),
            triggered_by: TurnTrigger::User,
        });
        if c.one_in(5) {
            continue;
        }
        let calls = c.below(3);
        let mut reply = AssistantMessage::new("p", "m", StopReason::Stop);
        reply.content.push(Content::text(format!("{id} answers {turn}")));
        let ids: Vec<String> = (0..calls).map(|n| format!("{id}-{turn}-{n}")).collect();
        for id in &ids {
            reply.content.push(Content::tool_call(id.clone(), "tool", serde_json::json!({})));
        }
        message(Message::from(reply).into());
        let is_cut_off = !ids.is_empty() && c.one_in(8);
        for id in ids.into_iter().skip(usize::from(is_cut_off)) {
            let out = vec![Content::text("out")];
            message(Message::from(ToolResultMessage::new(id.into(), "tool".into(), out)).into());
        }
        if is_cut_off {
            break;
        }
        recorder.on_event(&AgentEvent::TurnEnd {
            loop_id: loop_id.clone(),
            message: None,
            usage: Usage::new(7, 3, 0, 0),
            timestamp: Timestamp(3),
            tool_results: Vec::new(),
        });
    }
    recorder.forget(session_id).unwrap().loops.pop().unwrap()
}

fn session(c: &mut Choices) -> Session {
    let mut session = Session::new("s-1".into(), "agent".into(), Timestamp(1));
    let mut group: Option<(LoopId, usize)> = None;
    for number in 1..2 + c.below(9) {
        let mut record = record(c, number);
        let at = session.loops.len();
        if at > 0 && !c.one_in(6) {
            record.parent_loop_id = Some(session.loops[c.below(at)].loop_id.clone());
        }
        match c.below(5) {
            0 => group = Some((LoopId::from(format!("g{number}")), 0)),
            1 | 2 => group = None,
            _ => {}
        }
        if let Some((id, index)) = &mut group {
            let role = if c.one_in(5) { GroupRole::Judge } else { GroupRole::Branch { index: *index } };
            record.group = Some(GroupMember::new(id.clone(), role));
            *index += 1;
            if matches!(role, GroupRole::Branch { .. }) {
                let mut of = ParallelGroupRecord::of(vec![record.loop_id.clone(), "s-1.m.1".into()]);
                of.is_selected = c.one_in(3);
                of.selected_after_loops = c.one_in(2).then(|| c.below(12));
                record.parallel_group = Some(of);
            }
        }
        if !c.one_in(3) {
            record.base = Some(base(c, &session));
        }
        session.loops.push(record);
    }
    session
}

fn base(c: &mut Choices, session: &Session) -> LoopBase {
    let mut base = LoopBase::default();
    if !session.loops.is_empty() && !c.one_in(8) {
        // Mostly the last loop, so that chains of rewinds arise.
        let last = session.loops.len() - 1;
        let at = if c.one_in(4) { c.below(last + 1) } else { last };
        base.after_loop = Some(session.loops[at].loop_id.clone());
        let history = folded(session, at).history().clone();
        let mut ends = vec![0];
        ends.extend(history.units().scan(0, |end, unit| {
            *end += unit.entries().len();
            Some(*end)
        }));
        let back = c.below(4).min(ends.len() - 1);
        base.keep = ends[ends.len() - 1 - back];
    }
    for n in 0..c.below(4).saturating_sub(1) {
        base.added.push(Entry::from(AgentMessage::user(format!("added {n}"))));
    }
    base
}

fn head(session: &Session, number: usize) -> Option<usize> {
    let loops = &session.loops[..number];
    let since = |at: usize| {
        let record = &loops[at];
        let Some(member) = &record.group else { return Some((at, 0, at)) };
        if record.session_id != session.session_id {
            return Some((at, 0, at));
        }
        let group = record.parallel_group.as_ref().filter(|group| group.is_selected)?;
        let last = || {
            let same = |r: &LoopRecord| r.group.as_ref().is_some_and(|g| g.group_id == member.group_id);
            loops.iter().rposition(same).map(|last| last + 1)
        };
        let selected = group.selected_after_loops.or_else(last).filter(|n| *n <= number)?;
        Some((selected.checked_sub(1)?, 1, at))
    };
    (0..number).filter_map(since).max().map(|(_, _, at)| at)
}

fn position(session: &Session, id: &LoopId) -> Option<usize> {
    session.loops.iter().position(|r| r.loop_id == *id)
}

fn before(session: &Session, at: usize) -> Option<usize> {
    let record = &session.loops[at];
    if let Some(base) = &record.base {
        return base.after_loop.as_ref().map(|id| position(session, id).unwrap());
    }
    let Some(group) = &record.group else { return head(session, at) };
    let same = |r: &LoopRecord| r.group.as_ref().is_some_and(|g| g.group_id == group.group_id);
    match group.role {
        GroupRole::Branch { .. } => head(session, session.loops.iter().position(same).unwrap().min(at)),
        _ => None,
    }
}

fn folded(session: &Session, at: usize) -> Fold {
    let record = &session.loops[at];
    let mut begin =
        before(session, at).map_or_else(History::new, |before| folded(session, before).history().clone());
    if let Some(base) = &record.base {
        begin = begin.rewound(base.keep, base.added.clone()).unwrap();
    }
    let mut fold = Fold::new(begin);
    for event in record.events.iter().filter_map(LoopEvent::known) {
        fold.push(event).unwrap();
    }
    fold
}

fn settled(record: &LoopRecord, messages: usize) -> usize {
    let mut open = 0usize;
    for (at, message) in record.messages.iter().enumerate() {
        if at >= messages && open == 0 {
            return at;
        }
        match message.as_llm() {
            Some(Message::Assistant(reply)) => open = reply.tool_calls().count(),
            Some(Message::ToolResult(_)) => open = open.saturating_sub(1),
            _ => {}
        }
    }
    record.messages.len()
}

type Ground = (Option<(usize, usize)>, Vec<Entry>);

fn stored_ground(session: &Session, at: usize) -> Ground {
    let before = before(session, at);
    match &session.loops[at].base {
        Some(base) => (before.map(|before| (before, base.keep)), base.added.clone()),
        None => (before.map(|before| (before, folded(session, before).history().len())), Vec::new()),
    }
}

fn begin_len(session: &Session, at: usize) -> usize {
    let (place, added) = stored_ground(session, at);
    place.map_or(0, |(_, keep)| keep) + added.len()
}

fn ground(session: &Session, at: usize) -> Ground {
    let (mut place, mut added) = stored_ground(session, at);
    while let Some((before, keep)) = place {
        if keep > begin_len(session, before) {
            break;
        }
        let (below, below_added) = stored_ground(session, before);
        let missing = keep.saturating_sub(below.map_or(0, |(_, keep)| keep));
        added = below_added.into_iter().take(missing).chain(added).collect();
        place = below.map(|(after, below)| (after, below.min(keep)));
    }
    (place, added)
}

fn step_before(session: &Session, at: usize) -> Option<(usize, usize)> {
    let (before, keep) = ground(session, at).0?;
    let record = &session.loops[before];
    let own = keep.saturating_sub(begin_len(session, before)).min(record.messages.len());
    Some((before, settled(record, own)))
}

/// The loops on the path to a point, with the numbers of their messages and their bases.
fn path(session: &Session, point: &Point) -> Vec<(usize, usize, LoopBase)> {
    let at = position(session, &point.loop_id).unwrap();
    let mut steps = Vec::new();
    let mut next = Some((at, settled(&session.loops[at], point.messages)));
    while let Some((at, own)) = next {
        let (place, added) = ground(session, at);
        let mut base = LoopBase::default();
        base.after_loop = place.map(|(before, _)| session.loops[before].loop_id.clone());
        base.keep = place.map_or(0, |(_, keep)| keep);
        base.added = added;
        next = step_before(session, at);
        steps.push((at, own, base));
    }
    steps.reverse();
    steps
}

fn messages_after(record: &LoopRecord, at: usize) -> usize {
    let turn = &record.turns[at];
    let own = turn.input_messages.iter().chain(&turn.output_message).chain(&turn.tool_results);
    own.max().map_or_else(
        || (0..at).map(|at| messages_after(record, at)).max().unwrap_or(0),
        |last| (last + 1).min(record.messages.len()),
    )
}

type Turns = Vec<(TurnId, usize, Option<usize>, usize)>;

/// The turns with the number of messages after them, the turn that they continue, and the number of earlier ones that do.
fn outline(session: &Session) -> Turns {
    let mut turns: Turns = Vec::new();
    for (at, record) in session.loops.iter().enumerate() {
        let (mut follows, mut next) = (None, step_before(session, at));
        while let (None, Some((step, own))) = (follows, next) {
            let there = |(id, end, _, _): &(TurnId, usize, Option<usize>, usize)| {
                id.loop_id == session.loops[step].loop_id && *end <= own
            };
            follows = turns.iter().rposition(there);
            next = step_before(session, step);
        }
        for (n, turn) in record.turns.iter().enumerate() {
            let branch = turns.iter().filter(|(_, _, f, _)| *f == follows).count();
            turns.push((turn.turn_id.clone(), messages_after(record, n), follows, branch));
            follows = Some(turns.len() - 1);
        }
    }
    turns
}

fn check(session: &Session, other: Session) {
    let id = |at: usize| session.loops[at].loop_id.clone();
    let head = head(session, session.loops.len());
    assert_eq!(session.head().map(|r| r.loop_id.clone()), head.map(id));
    assert_eq!(session.end_point().map(|p| p.loop_id), head.map(id));

    let mut points = Vec::new();
    for record in &session.loops {
        let mut places: Vec<usize> = (0..=record.messages.len()).map(|m| settled(record, m)).collect();
        places.dedup();
        points.extend(places.into_iter().map(|place| Point::new(record.loop_id.clone(), place)));
    }
    assert_eq!(session.points(), points);

    let turns = session.outline().unwrap().into_iter();
    let turns: Turns = turns.map(|t| (t.turn_id, t.point.messages, t.follows, t.branch)).collect();
    assert_eq!(turns, outline(session));
    for (turn, end, _, _) in &turns {
        assert_eq!(session.point_after_turn(turn).unwrap().messages, *end);
    }

    for (at, record) in session.loops.iter().enumerate() {
        let expected = folded(session, at).into_closed();
        assert_eq!(session.history_after(record.loop_id.as_str()).unwrap().unwrap(), expected);
        check_tree(session, record);
        for messages in 0..=record.messages.len() {
            check_path(session, &Point::new(record.loop_id.clone(), messages));
        }
    }
    merged(session.clone(), other);
}

fn check_tree(session: &Session, record: &LoopRecord) {
    let mut chain: Vec<&LoopRecord> = Vec::new();
    let mut next = Some(record);
    while let Some(record) = next.filter(|r| !chain.iter().any(|c| c.loop_id == r.loop_id)) {
        chain.insert(0, record);
        next = record.parent_loop_id.as_ref().and_then(|id| session.get_loop(id.as_str()));
    }
    assert_eq!(session.loop_chain_to(record.loop_id.as_str()), chain);
    let is_root = record.parent_loop_id.as_ref().is_none_or(|id| position(session, id).is_none());
    assert_eq!(session.root_loops().any(|r| r.loop_id == record.loop_id), is_root);
    let ids = record.parallel_group.iter().flat_map(|group| group.all_loop_ids.iter());
    let siblings: Vec<&LoopRecord> = ids.filter_map(|id| session.get_loop(id.as_str())).collect();
    assert_eq!(session.parallel_siblings(record.loop_id.as_str()), siblings);
}

fn check_path(session: &Session, point: &Point) {
    let path = path(session, point);
    let mut usage = Usage::default();
    for (at, own, _) in &path {
        let record = &session.loops[*at];
        let turns = record.turns.iter().filter(|t| t.output_message.is_some_and(|at| at < *own));
        usage = match *own == record.messages.len() {
            true => usage.combine(&record.usage),
            false => turns.fold(usage, |sum, turn| sum.combine(&turn.usage)),
        };
    }
    assert_eq!(session.usage_to(point).unwrap(), usage);
    let fork = session.forked(point, "s-2", Timestamp(5)).unwrap();
    assert_eq!(fork.history().unwrap(), session.history_at(point).unwrap());
    let mut expected: Vec<_> =
        path.into_iter().map(|(at, own, base)| (session.loops[at].loop_id.clone(), own, base)).collect();
    // A last loop without messages is removed if it does not change the conversation.
    expected.truncate(fork.loops.len().max(expected.len() - 1));
    let loops = fork.loops.into_iter().map(|r| (r.loop_id, r.messages.len(), r.base.unwrap()));
    assert_eq!(loops.collect::<Vec<_>>(), expected);
}

fn merged(given: Session, stored: Session) {
    let mut expected = Vec::new();
    let mut mine = given.loops.clone();
    for kept in stored.loops.clone() {
        let same = mine.iter().position(|r| r.loop_id == kept.loop_id).map(|at| mine.remove(at));
        expected.push(same.filter(|same| same.events.len() >= kept.events.len()).unwrap_or(kept));
    }
    expected.extend(mine);
    assert_eq!(given.merged_into(stored).loops, expected);
}

#[test]
fn random_sessions_have_the_points_paths_and_outlines_of_the_simple_versions() {
    let config = Config { cases: 1_000, failure_persistence: None, ..Config::default() };
    let bytes = prop::collection::vec(any::<u8>(), 0..260);
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let counted = std::cell::RefCell::new(&mut seen);
    TestRunner::new(config)
        .run(&bytes, |bytes| {
            let mut c = Choices(bytes.into_iter());
            let (session, other) = (session(&mut c), session(&mut c));
            let mut seen = counted.borrow_mut();
            let last = session.loops.len() - 1;
            let skipped =
                (0..=last).filter(|at| ground(&session, *at) != stored_ground(&session, *at)).count();
            *seen.entry("skipped loops").or_default() += skipped;
            let outline = session.outline().unwrap();
            *seen.entry("branches").or_default() += outline.iter().filter(|t| t.branch > 0).count();
            let is_selected = session.head().is_some_and(|head| head.group.is_some());
            *seen.entry("selected heads").or_default() += usize::from(is_selected);
            let open = session.loops.iter().filter(|r| r.status == LoopStatus::Running).count();
            *seen.entry("open loops").or_default() += open;
            check(&session, other);
            Ok(())
        })
        .unwrap();
    for (what, number) in &seen {
        println!("{what}: {number}");
    }
    assert!(seen.len() == 4 && seen.values().all(|number| *number > 100), "{seen:?}");
}

/// A session with one branch more has one id more in memory, not one in every branch.
#[test]
fn the_branches_of_a_loaded_group_share_the_list_of_their_ids() {
    let session = shapes::Shape::OneGroup.session(50).unwrap();
    let read: Session = serde_json::from_str(&serde_json::to_string(&session).unwrap()).unwrap();
    assert_eq!(read, session);
    let lists = read.loops.iter().filter_map(|r| r.parallel_group.as_ref()).map(|g| &g.all_loop_ids);
    let lists: Vec<_> = lists.collect();
    assert_eq!((lists.len(), lists[0].len()), (49, 49));
    assert!(lists.iter().all(|list| std::ptr::eq(&***list, &**lists[0])));
}
