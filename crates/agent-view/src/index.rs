//! The index of the page: everything that is shown without opening a loop.

mod nodes;

use std::collections::BTreeMap;

use agent_core::{ContinuationKind, GroupRole, Usage};
use agent_session::{LoopRecord, LoopStatus, Session, SessionFormation, SessionScope};
use serde::Serialize;

use crate::compare::{Fingerprint, Pair, align};
use crate::costs::{Amount, Prices, Tokens};
use crate::items::Item;
use crate::items::notes::{NoteKind, Tone};
use crate::loops::{LoopView, TurnFigures, end_text, title};
use crate::tree::{self, Node, Row};
use nodes::{before, node, path};

/// How a session takes part in the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// The session that is shown.
    Main,
    /// The one that is compared with it.
    Other,
    /// The session of a sub-agent.
    Child,
}

/// The index.
#[derive(Debug, Serialize)]
pub(crate) struct Index<'s> {
    title: &'s str,
    sessions: Vec<SessionHead<'s>>,
    loops: Vec<LoopHead<'s>>,
    groups: Vec<GroupHead<'s>>,
    /// Kind (0: loop, 1: group, 2: session), number and depth of each row.
    rows: Vec<(u8, usize, usize)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pairs: Option<Vec<Pair>>,
}

#[derive(Debug, Serialize)]
struct SessionHead<'s> {
    id: &'s str,
    agent: &'s str,
    part: Part,
    created: u64,
    active: u64,
    formation: String,
    scope: &'static str,
    /// The other session and the loop from which this one was forked.
    #[serde(skip_serializing_if = "Option::is_none")]
    forked: Option<(&'s str, &'s str)>,
    /// The session, the loop, the call and the tool that started this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<(&'s str, &'s str, &'s str, &'s str)>,
    /// The loops from the first one to the head.
    path: Vec<usize>,
    tools: Vec<ToolFigures>,
    models: Vec<ModelFigures>,
}

#[derive(Debug, Serialize)]
struct LoopHead<'s> {
    id: &'s str,
    /// The number of the session.
    s: usize,
    /// The loop that this one continues or belongs to: its number, or its id if it is not in the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    p: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<&'s str>,
    /// The turn of the other loop after which this one continues it, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pt: Option<u32>,
    /// The loop that continues this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    nx: Option<usize>,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    g: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<usize>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    sel: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    fork: bool,
    st: &'static str,
    t: String,
    model: &'s str,
    a: u64,
    z: Option<u64>,
    u: Tokens,
    c: Amount,
    tt: Vec<TurnFigures>,
    /// Turn, kind, tone and title of each note.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    n: Vec<(Option<usize>, NoteKind, Tone, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// The tokens of the loop's tools, such as sub-agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    tu: Option<Tokens>,
}

#[derive(Debug, Serialize)]
struct GroupHead<'s> {
    id: &'s str,
    n: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    selected: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'s str>,
}

/// What one tool did in a session.
#[derive(Debug, Default, Serialize)]
struct ToolFigures {
    name: String,
    calls: u64,
    errors: u64,
    ms: u64,
    longest: u64,
}

/// What one model did in a session.
#[derive(Debug, Serialize)]
struct ModelFigures {
    name: String,
    calls: u64,
    u: Tokens,
    c: Amount,
}

/// A session of the page with the number of its first loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'s> {
    pub(crate) session: &'s Session,
    pub(crate) part: Part,
}

/// Maps the ids of loops to their numbers, by session.
pub(crate) type Numbers<'s> = BTreeMap<(usize, &'s str), usize>;

/// Returns the numbers of all loops. Of equal ids in a session, which only a damaged one has, the first counts.
pub(crate) fn numbers<'s>(sources: &[Source<'s>]) -> Numbers<'s> {
    let mut numbers = BTreeMap::new();
    let mut next = 0;
    for (at, source) in sources.iter().enumerate() {
        for record in &source.session.loops {
            numbers.entry((at, record.loop_id.as_str())).or_insert(next);
            next += 1;
        }
    }
    numbers
}

/// Finds a loop by its id, in this session first and then in those of sub-agents.
pub(crate) fn number_of(
    numbers: &Numbers<'_>,
    sources: &[Source<'_>],
    session: usize,
    id: &str,
) -> Option<usize> {
    let children = || sources.iter().enumerate().filter(|(_, source)| source.part == Part::Child);
    numbers
        .get(&(session, id))
        .copied()
        .or_else(|| children().find_map(|(at, _)| numbers.get(&(at, id)).copied()))
}

/// Collects what is known about each loop while the sessions are read.
struct Collector<'s, 'p> {
    prices: &'p Prices,
    tools: BTreeMap<&'s str, ToolFigures>,
    models: BTreeMap<&'s str, ModelFigures>,
}

impl<'s> Index<'s> {
    pub(crate) fn of(title: &'s str, sources: &[Source<'s>], prices: &'s Prices) -> Self {
        let numbers = numbers(sources);
        let mut index = Self {
            title,
            sessions: Vec::new(),
            loops: Vec::new(),
            groups: Vec::new(),
            rows: Vec::new(),
            pairs: None,
        };
        let compares = sources.iter().any(|source| source.part == Part::Other);
        let mut fingerprints: Vec<Vec<Fingerprint>> = Vec::new();
        let mut nodes: Vec<Node> = Vec::new();
        let mut groups: BTreeMap<(usize, &'s str), usize> = BTreeMap::new();
        for (at, source) in sources.iter().enumerate() {
            let before = before(source.session, at, &numbers);
            let first = index.loops.len();
            let mut own: Vec<Node> = Vec::new();
            for (place, record) in source.session.loops.iter().enumerate() {
                own.push(node(record, first + place, at, sources, &numbers, &before));
            }
            let path = path(source.session, first, &mut own);
            let mut collector = Collector { prices, tools: BTreeMap::new(), models: BTreeMap::new() };
            for (record, mut node) in source.session.loops.iter().zip(own) {
                let number = index.loops.len();
                if let Some(member) = &record.group {
                    let next = groups.len();
                    let group = *groups.entry((at, member.group_id.as_str())).or_insert(next);
                    node.group = Some(group);
                    index.add_to_group(group, record, number);
                }
                let view = LoopView::of(record, prices);
                if compares {
                    let turns = view.turns.iter().enumerate();
                    fingerprints
                        .push(turns.map(|(turn, view)| Fingerprint::of((number, turn), view)).collect());
                }
                let mut head = collector.head(record, &view, at, &node);
                head.pt = before.get(&number).map(|(_, turn)| *turn);
                index.loops.push(head);
                nodes.push(node);
            }
            index.sessions.push(head(source, path, collector));
        }
        let titled: Vec<usize> = if compares { vec![0, 1] } else { Vec::new() };
        let tree = tree::arrange(&nodes, &titled);
        for ((head, next), fork) in index.loops.iter_mut().zip(tree.next).zip(tree.is_fork) {
            (head.nx, head.fork) = (next, fork);
        }
        index.rows = tree.rows.into_iter().map(|(row, depth)| of_row(row, depth)).collect();
        if compares {
            let turns = |part: Part| -> Vec<Fingerprint> {
                let at = sources.iter().position(|source| source.part == part);
                let path = at.and_then(|at| index.sessions.get(at)).map(|head| head.path.as_slice());
                let loops = path.unwrap_or_default().iter().filter_map(|number| fingerprints.get(*number));
                loops.flatten().copied().collect()
            };
            index.pairs = Some(align(&turns(Part::Main), &turns(Part::Other)));
        }
        index
    }

    fn add_to_group(&mut self, group: usize, record: &'s LoopRecord, number: usize) {
        if self.groups.len() == group {
            let id = record.group.as_ref().map(|member| member.group_id.as_str()).unwrap_or_default();
            self.groups.push(GroupHead { id, n: 0, selected: None, reason: None });
        }
        let Some(head) = self.groups.get_mut(group) else { return };
        if let Some(own) = &record.parallel_group {
            head.n += 1;
            head.reason = head.reason.or(own.reason.as_deref());
            if own.is_selected {
                head.selected = Some(number);
            }
        }
    }
}

fn of_row(row: Row, depth: usize) -> (u8, usize, usize) {
    match row {
        Row::Loop(number) => (0, number, depth),
        Row::Group(number) => (1, number, depth),
        Row::Session(number) => (2, number, depth),
    }
}

fn head<'s>(source: &Source<'s>, path: Vec<usize>, collector: Collector<'s, '_>) -> SessionHead<'s> {
    let session = source.session;
    let formation = match &session.formation {
        SessionFormation::Explicit { .. } => "The program started the session.".to_owned(),
        SessionFormation::FirstLoop { .. } => "The first loop started the session.".to_owned(),
        SessionFormation::InactivityTimeout { threshold_secs, previous_session_id, .. } => {
            let previous = previous_session_id.as_ref().map(|id| format!(" {id}")).unwrap_or_default();
            format!("The previous session{previous} was inactive for more than {threshold_secs} s.")
        }
        _ => String::new(),
    };
    SessionHead {
        id: session.session_id.as_str(),
        agent: session.agent_id.as_str(),
        part: source.part,
        created: session.created_at.0,
        active: session.last_active_at.0,
        formation,
        scope: match session.scope {
            SessionScope::Persistent => "persistent",
            _ => "ephemeral",
        },
        forked: session.forked_from.as_ref().map(|fork| (fork.session_id.as_str(), fork.loop_id.as_str())),
        parent: session.parent_spawn_ref.as_ref().map(|spawn| {
            let (session, parent) = (spawn.parent_session_id.as_str(), spawn.parent_loop_id.as_str());
            (session, parent, spawn.tool_call_id.as_str(), spawn.tool_name.as_str())
        }),
        path,
        tools: collector.tools.into_values().collect(),
        models: collector.models.into_values().collect(),
    }
}

impl<'s> Collector<'s, '_> {
    fn head(
        &mut self,
        record: &'s LoopRecord,
        view: &LoopView<'s>,
        session: usize,
        node: &Node,
    ) -> LoopHead<'s> {
        let mut cost = Amount::default();
        for turn in &view.turns {
            cost.add(turn.cost);
        }
        self.add(record, view);
        let parent = node.parent.or(node.spawned_by);
        let branch = match record.group.as_ref().map(|member| member.role) {
            Some(GroupRole::Branch { index }) => Some(index),
            _ => None,
        };
        LoopHead {
            id: record.loop_id.as_str(),
            s: session,
            p: parent,
            pid: record.parent_loop_id.as_ref().filter(|_| parent.is_none()).map(agent_core::LoopId::as_str),
            pt: None,
            nx: None,
            kind: kind(record, node),
            g: node.group,
            branch,
            sel: node.selected,
            fork: false,
            st: status(record.status),
            t: title(record),
            model: &record.config.model,
            a: record.started_at.0,
            z: record.ended_at.map(|time| time.0),
            u: Tokens(record.usage),
            c: cost,
            tt: view.turns.iter().map(crate::loops::TurnView::figures).collect(),
            n: view.notes().map(|(turn, note)| (turn, note.kind, note.tone, note.summary())).collect(),
            why: end_text(record),
            tu: (!view.tool_usage.is_zero()).then_some(Tokens(view.tool_usage)),
        }
    }

    /// Adds the loop to the figures of tools and models.
    fn add(&mut self, record: &'s LoopRecord, view: &LoopView<'s>) {
        let results = view.turns.iter().flat_map(|turn| &turn.items).filter_map(|item| match item {
            Item::Result(result) => Some(result),
            _ => None,
        });
        for result in results {
            let tool = self.tools.entry(result.name).or_default();
            if tool.name.is_empty() {
                result.name.clone_into(&mut tool.name);
            }
            tool.calls += 1;
            tool.errors += u64::from(result.err);
            tool.ms = tool.ms.saturating_add(result.ms.unwrap_or(0));
            tool.longest = tool.longest.max(result.ms.unwrap_or(0));
        }
        for message in record.messages.iter().chain(&record.other_messages) {
            let Some(reply) = message.as_llm().and_then(agent_core::Message::as_assistant) else { continue };
            let model = self.models.entry(reply.model.as_str()).or_insert_with(|| ModelFigures {
                name: reply.model.clone(),
                calls: 0,
                u: Tokens(Usage::default()),
                c: Amount::default(),
            });
            model.calls += 1;
            model.u = Tokens(model.u.0.combine(&reply.usage));
            model.c.add_reply(reply, self.prices.of(&reply.model, &record.config));
        }
    }
}

fn kind(record: &LoopRecord, node: &Node) -> &'static str {
    match record.group.as_ref().map(|member| member.role) {
        Some(GroupRole::Branch { .. }) => return "branch",
        Some(GroupRole::Judge) => return "judge",
        _ => {}
    }
    if node.spawned_by.is_some() {
        return "sub-agent";
    }
    match &record.continuation_kind {
        ContinuationKind::Initial if node.parent.is_none() => "first",
        ContinuationKind::Rerun { .. } => "rerun",
        ContinuationKind::Branch { .. } => "new path",
        ContinuationKind::Compaction => "after compaction",
        _ => "continuation",
    }
}

fn status(status: LoopStatus) -> &'static str {
    match status {
        LoopStatus::Pending => "pending",
        LoopStatus::Running => "running",
        LoopStatus::Suspended => "suspended",
        LoopStatus::Completed => "completed",
        LoopStatus::Rejected => "rejected",
        LoopStatus::Stopped => "stopped",
        LoopStatus::Failed => "failed",
        LoopStatus::Aborted => "aborted",
        LoopStatus::Interrupted => "interrupted",
        _ => "unknown",
    }
}
