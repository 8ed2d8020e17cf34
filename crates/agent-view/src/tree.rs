//! Arranges loops as the rows of a tree.
//!
//! A conversation is a chain of loops, often a long one, so a loop that continues another one has the same depth. Forks, the
//! branches of a group and the loops of sub-agents are deeper.

use std::collections::BTreeMap;

/// A loop in the tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    /// The position of the loop that this one continues.
    pub(crate) parent: Option<usize>,
    /// The position of the loop whose tool call started this one.
    pub(crate) spawned_by: Option<usize>,
    /// The number of the group of which the loop is a member.
    pub(crate) group: Option<usize>,
    /// Whether the loop is the selected branch of its group.
    pub(crate) selected: bool,
    /// Whether the loop is on the path to the head of its session.
    pub(crate) on_path: bool,
    /// The number of the loop's session.
    pub(crate) session: usize,
}

/// What a row shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Row {
    Session(usize),
    Group(usize),
    Loop(usize),
}

/// The arranged tree.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// The rows with their depths.
    pub(crate) rows: Vec<(Row, usize)>,
    /// For each loop, the one that continues the conversation.
    pub(crate) next: Vec<Option<usize>>,
    /// For each loop, whether it leaves the path on which its parent continues.
    pub(crate) is_fork: Vec<bool>,
}

/// One or more loops that begin at the same place: a single loop, or a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Single(usize),
    Group(usize),
}

/// What is still to be arranged. An explicit stack replaces recursion, because chains are long.
enum Task {
    Unit(Unit, usize),
    Loop(usize, usize),
    /// What follows the loop; the depth is that of the loop's own path.
    After(usize, usize),
}

struct Arranger<'n> {
    nodes: &'n [Node],
    members: BTreeMap<usize, Vec<usize>>,
    /// The units that continue each loop.
    units: Vec<Vec<Unit>>,
    spawned: Vec<Vec<usize>>,
    placed: Vec<bool>,
    tree: Tree,
}

/// Arranges the loops of some sessions, which are in the order of their records. The sessions that are listed get a row of their
/// own before their loops.
pub(crate) fn arrange(nodes: &[Node], titled: &[usize]) -> Tree {
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate() {
        if let Some(group) = node.group {
            members.entry(group).or_default().push(at);
        }
    }
    let mut units = vec![Vec::new(); nodes.len()];
    let mut spawned = vec![Vec::new(); nodes.len()];
    let mut roots: BTreeMap<usize, Vec<Unit>> = BTreeMap::new();
    let mut seen_groups = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate() {
        let unit = match node.group {
            Some(group) if seen_groups.insert(group, ()).is_some() => continue,
            Some(group) => Unit::Group(group),
            None => Unit::Single(at),
        };
        let list = match (node.spawned_by, node.parent) {
            (Some(by), _) if by != at => {
                if let Some(list) = spawned.get_mut(by) {
                    list.push(at);
                }
                continue;
            }
            (_, Some(parent)) if parent != at => units.get_mut(parent),
            _ => None,
        };
        match list {
            Some(list) => list.push(unit),
            None => roots.entry(node.session).or_default().push(unit),
        }
    }
    let (next, is_fork) = (vec![None; nodes.len()], vec![false; nodes.len()]);
    let mut arranger = Arranger {
        nodes,
        members,
        units,
        spawned,
        placed: vec![false; nodes.len()],
        tree: Tree { rows: Vec::new(), next, is_fork },
    };
    for (session, roots) in roots {
        if titled.contains(&session) {
            arranger.tree.rows.push((Row::Session(session), 0));
        }
        arranger.place(roots.into_iter().rev().map(|unit| Task::Unit(unit, 0)).collect());
    }
    // A cycle of parents, which only a damaged session has, is not reached from a root.
    for at in 0..nodes.len() {
        if !arranger.placed.get(at).copied().unwrap_or(true) {
            arranger.place(vec![Task::Loop(at, 0)]);
        }
    }
    arranger.tree
}

impl Arranger<'_> {
    fn place(&mut self, mut tasks: Vec<Task>) {
        while let Some(task) = tasks.pop() {
            match task {
                Task::Unit(Unit::Single(at), depth) => tasks.push(Task::Loop(at, depth)),
                Task::Unit(Unit::Group(group), depth) => {
                    self.tree.rows.push((Row::Group(group), depth));
                    let members = self.members.get(&group).cloned().unwrap_or_default();
                    let selected = self.selected(&members);
                    if let Some(selected) = selected {
                        tasks.push(Task::After(selected, depth));
                    }
                    for at in members.into_iter().rev() {
                        if Some(at) != selected {
                            tasks.push(Task::After(at, depth + 1));
                        }
                        tasks.push(Task::Loop(at, depth + 1));
                    }
                }
                Task::Loop(at, depth) => {
                    let Some(placed) = self.placed.get_mut(at) else { continue };
                    if std::mem::replace(placed, true) {
                        continue;
                    }
                    self.tree.rows.push((Row::Loop(at), depth));
                    let is_member = self.nodes.get(at).is_some_and(|node| node.group.is_some());
                    if !is_member {
                        tasks.push(Task::After(at, depth));
                    }
                    let spawned = self.spawned.get(at).cloned().unwrap_or_default();
                    tasks.extend(spawned.into_iter().rev().map(|child| Task::Loop(child, depth + 1)));
                }
                Task::After(at, depth) => self.after(at, depth, &mut tasks),
            }
        }
    }

    /// Arranges what continues a loop: the forks first, then the path itself.
    fn after(&mut self, at: usize, depth: usize, tasks: &mut Vec<Task>) {
        let units = self.units.get(at).cloned().unwrap_or_default();
        let Some(main) = units.iter().position(|unit| self.is_on_path(*unit)).or(units.len().checked_sub(1))
        else {
            return;
        };
        for (place, unit) in units.iter().enumerate().rev().filter(|(place, _)| *place != main) {
            tasks.push(Task::Unit(*unit, depth + 1));
            if let (Unit::Single(fork), true) = (unit, place != main)
                && let Some(mark) = self.tree.is_fork.get_mut(*fork)
            {
                *mark = true;
            }
        }
        let Some(main) = units.get(main).copied() else { return };
        // Below the others on the stack, so that it is placed after them.
        let below = tasks.len().saturating_sub(units.len().saturating_sub(1));
        tasks.insert(below, Task::Unit(main, depth));
        let next = match main {
            Unit::Single(next) => Some(next),
            Unit::Group(group) => self.members.get(&group).and_then(|members| self.selected(members)),
        };
        if let Some(entry) = self.tree.next.get_mut(at) {
            *entry = next;
        }
    }

    fn selected(&self, members: &[usize]) -> Option<usize> {
        members.iter().copied().find(|at| self.nodes.get(*at).is_some_and(|node| node.selected))
    }

    fn is_on_path(&self, unit: Unit) -> bool {
        let on_path = |at: &usize| self.nodes.get(*at).is_some_and(|node| node.on_path);
        match unit {
            Unit::Single(at) => on_path(&at),
            Unit::Group(group) => self.members.get(&group).is_some_and(|members| members.iter().any(on_path)),
        }
    }
}

#[cfg(test)]
mod tests;
