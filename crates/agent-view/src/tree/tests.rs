use super::*;

fn child(parent: usize) -> Node {
    Node { parent: Some(parent), ..Node::default() }
}

/// Writes the rows as `depth:row`.
fn shape(tree: &Tree) -> String {
    let row = |(row, depth): &(Row, usize)| match row {
        Row::Session(n) => format!("{depth}:s{n}"),
        Row::Group(n) => format!("{depth}:g{n}"),
        Row::Loop(n) => format!("{depth}:{n}"),
    };
    tree.rows.iter().map(row).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_chain_of_loops_has_one_depth() {
    let tree = arrange(&[Node::default(), child(0), child(1)], &[]);
    assert_eq!(shape(&tree), "0:0 0:1 0:2");
    assert_eq!(tree.next, [Some(1), Some(2), None]);
}

#[test]
fn forks_are_deeper_than_the_path_to_the_head() {
    let mut nodes = vec![Node::default(), child(0), child(0), child(1)];
    for at in [0, 1, 3] {
        nodes[at].on_path = true;
    }
    let tree = arrange(&nodes, &[]);
    assert_eq!(shape(&tree), "0:0 1:2 0:1 0:3");
    assert_eq!((tree.is_fork, tree.next[0]), (vec![false, false, true, false], Some(1)));
}

#[test]
fn branches_and_their_judge_are_below_their_group_and_the_selected_branch_continues_the_path() {
    let member = |selected| Node { group: Some(0), selected, ..child(0) };
    let nodes = [Node::default(), member(false), member(true), member(false), child(2), child(1)];
    let tree = arrange(&nodes, &[]);
    assert_eq!(shape(&tree), "0:0 0:g0 1:1 1:5 1:2 1:3 0:4");
    assert_eq!((tree.next[0], tree.next[2]), (Some(2), Some(4)));
}

#[test]
fn the_loops_of_sub_agents_are_below_the_loop_that_called_them() {
    let spawned = Node { spawned_by: Some(0), session: 1, ..Node::default() };
    let nodes = [Node::default(), child(0), spawned, Node { session: 1, ..child(2) }];
    assert_eq!(shape(&arrange(&nodes, &[])), "0:0 1:2 1:3 0:1");
}

#[test]
fn sessions_side_by_side_have_titles() {
    let nodes = [Node::default(), Node { session: 1, ..Node::default() }];
    assert_eq!(shape(&arrange(&nodes, &[0, 1])), "0:s0 0:0 0:s1 0:1");
}

#[test]
fn every_loop_has_one_row_even_if_parents_form_a_cycle_or_do_not_exist() {
    let nodes = [child(1), child(0), child(2), child(99)];
    let mut loops: Vec<_> = arrange(&nodes, &[]).rows.into_iter().map(|(row, _)| row).collect();
    loops.sort_by_key(|row| format!("{row:?}"));
    assert_eq!(loops, [0, 1, 2, 3].map(Row::Loop));
}

#[test]
fn a_long_chain_needs_no_stack() {
    let nodes: Vec<_> =
        (0..100_000_usize).map(|at| Node { parent: at.checked_sub(1), ..Node::default() }).collect();
    assert_eq!(arrange(&nodes, &[]).rows.len(), nodes.len());
}
