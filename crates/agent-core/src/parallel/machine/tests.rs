//! The decisions of a group, and its form.

use serde_json::{Value, json};

use super::{Group, GroupCheckpoint, GroupEnd, GroupInput, GroupStep};
use crate::evaluation::{BranchEnd, Evaluated, EvaluationDecision, GroupSetup};
use crate::event::{AgentEvent, Ended, ParallelLoopEnd};
use crate::identity::{LoopId, Timestamp};
use crate::message::Usage;
use crate::run::{FormError, Misplaced, ReadError};

fn setup(branches: usize) -> GroupSetup {
    let mut setup = GroupSetup::new("s.parallel.7-group".into(), "s".into(), "a".into(), Timestamp(1));
    setup.loop_ids = (0..branches).map(|index| setup.branch_id("m.x", index)).collect();
    setup
}

/// A group and its events. Every input is applied to a copy read from JSON, too.
struct World {
    group: Group,
    events: Vec<AgentEvent>,
}

impl World {
    fn new(setup: GroupSetup) -> Self {
        let mut events = Vec::new();
        Self { group: Group::start(setup, Timestamp(1), &mut events), events }
    }

    fn of(branches: usize) -> Self {
        Self::new(setup(branches))
    }

    fn apply(&mut self, input: GroupInput) -> Result<(), Misplaced> {
        let mut copy = reloaded(&self.group);
        assert_eq!(copy, self.group);
        let written: GroupInput = serde_json::from_value(serde_json::to_value(&input).unwrap()).unwrap();
        assert_eq!(written, input);
        let step = serde_json::to_value(self.group.next()).unwrap();
        assert_eq!(serde_json::from_value::<GroupStep>(step).unwrap(), self.group.next());
        let (before, mut events) = (self.group.clone(), Vec::new());
        let result = self.group.apply(Timestamp(2), input, &mut events);
        let mut again = Vec::new();
        assert_eq!(copy.apply(Timestamp(2), written, &mut again), result);
        assert_eq!((&copy, &again), (&self.group, &events));
        if result.is_err() {
            assert_eq!((&self.group, events.len()), (&before, 0), "a refused input changes nothing");
        }
        self.events.append(&mut events);
        result
    }

    fn ends(&self) -> Vec<&ParallelLoopEnd> {
        fn end(event: &AgentEvent) -> Option<&ParallelLoopEnd> {
            if let AgentEvent::ParallelLoopEnd(end) = event { Some(end) } else { None }
        }
        self.events.iter().filter_map(end).collect()
    }

    /// The only end, after which every input is refused.
    #[track_caller]
    fn ended(&mut self) -> (GroupEnd, ParallelLoopEnd) {
        let GroupStep::Done(end) = self.group.next() else { panic!("{:?}", self.group.next()) };
        assert_eq!(self.group.ended(), Some(&end));
        for input in [ended(0), GroupInput::Abort {}, GroupInput::Interrupted { reason: "x".into() }] {
            let name = input.name();
            let refused = self.apply(input).unwrap_err();
            assert_eq!((refused.input, refused.reason.as_str()), (name, "the group has ended"));
        }
        let ends = self.ends();
        assert_eq!(ends.len(), 1);
        (end, ends[0].clone())
    }
}

fn reloaded(group: &Group) -> Group {
    let written = serde_json::to_string(&GroupCheckpoint::of(group)).unwrap();
    GroupCheckpoint::from_json(&written).unwrap().into_group()
}

fn ended(index: usize) -> GroupInput {
    let (usage, tool_usage) = (Usage::new(10, 1, 0, 0), Usage::new(0, 5, 0, 0));
    GroupInput::BranchEnded { index, end: BranchEnd::Ended(Ended::Completed), usage, tool_usage }
}

fn selects(index: usize) -> GroupInput {
    GroupInput::Evaluated { evaluated: Evaluated::select(index).using(Usage::new(3, 4, 0, 0)) }
}

fn fails() -> GroupInput {
    GroupInput::EvaluationFailed { reason: "no branch".into() }
}

#[test]
fn branches_end_in_any_order_before_one_is_selected() {
    let mut world = World::of(3);
    assert!(matches!(&world.events[..], [AgentEvent::ParallelLoopStart(start)] if start.loop_ids.len() == 3));
    for (index, left) in [(1, vec![0, 2]), (2, vec![0]), (0, Vec::new())] {
        let refused = world.apply(selects(0)).unwrap_err();
        assert!(refused.reason.contains("has not ended"), "{refused}");
        world.apply(ended(index)).unwrap();
        let open = match world.group.next() {
            GroupStep::RunBranches { key, open } => {
                assert_eq!(key.as_str(), "branches");
                open
            }
            step => {
                assert!(
                    matches!(&step, GroupStep::Evaluate { key } if key.as_str() == "evaluate"),
                    "{step:?}"
                );
                Vec::new()
            }
        };
        assert_eq!(open, left);
        assert!(world.apply(ended(index)).unwrap_err().reason.contains("already ended"));
    }
    assert!(world.apply(ended(3)).unwrap_err().reason.contains("no branch 3"));
    world.apply(selects(1)).unwrap();
    let (end, event) = world.ended();
    assert!(matches!(end, GroupEnd::Selected { evaluated } if evaluated.decision.index() == 1));
    assert_eq!(event.selected_loop_id.as_ref().map(LoopId::as_str), Some("s.m.x.7-2"));
    assert_eq!((event.selected_config_index, event.reason), (Some(1), None));
    let usage = world.group.usage();
    assert_eq!((usage.branches.input, usage.tools.output, usage.evaluation.output), (30, 15, 4));
}

#[test]
fn an_evaluation_without_a_selection_ends_the_group_with_its_reason() {
    let mut fell_back = Evaluated::select(0);
    fell_back.decision = EvaluationDecision::FellBack { index: 0, reason: "unclear".into() };
    let cases = [
        (fails(), None, "no branch"),
        (selects(2), None, "the strategy selected branch 2 of 2, counted from 0"),
        (GroupInput::Evaluated { evaluated: fell_back }, Some(0), "unclear"),
        (GroupInput::Interrupted { reason: "power cut".into() }, None, "power cut"),
    ];
    for (input, selected, reason) in cases {
        let mut world = World::of(2);
        world.apply(ended(0)).unwrap();
        world.apply(ended(1)).unwrap();
        world.apply(input).unwrap();
        let (end, event) = world.ended();
        assert_eq!(end.reason().as_deref(), Some(reason));
        assert_eq!((event.selected_config_index, event.reason.as_deref()), (selected, Some(reason)));
        assert_eq!(event.evaluation_usage, Usage::default());
    }
}

#[test]
fn an_abort_lets_the_branches_end_and_evaluates_nothing() {
    let mut world = World::of(2);
    world.apply(ended(0)).unwrap();
    world.apply(GroupInput::Abort {}).unwrap();
    world.apply(GroupInput::Abort {}).unwrap();
    assert!(matches!(world.group.next(), GroupStep::RunBranches { .. }));
    world.apply(ended(1)).unwrap();
    let (end, event) = world.ended();
    assert_eq!((end, event.reason.as_deref()), (GroupEnd::Aborted {}, Some("the branches were aborted")));

    for (input, aborted) in [(fails(), true), (selects(9), true), (selects(0), false)] {
        let mut world = World::of(1);
        world.apply(ended(0)).unwrap();
        world.apply(GroupInput::Abort {}).unwrap();
        world.apply(input).unwrap();
        assert_eq!(world.ended().0 == GroupEnd::Aborted {}, aborted);
    }
}

#[test]
fn a_group_that_selects_nothing_ends_with_its_last_branch() {
    for aborted in [false, true] {
        let mut setup = setup(1);
        setup.selects = false;
        let mut world = World::new(setup);
        if aborted {
            world.apply(GroupInput::Abort {}).unwrap();
        }
        let question = serde_json::from_value(json!({"id": "q", "text": "May it?"})).unwrap();
        let end = BranchEnd::Suspended { questions: vec![question] };
        let (usage, tool_usage) = (Usage::default(), Usage::default());
        world.apply(GroupInput::BranchEnded { index: 0, end, usage, tool_usage }).unwrap();
        let (end, event) = world.ended();
        assert_eq!((end, event.reason), (GroupEnd::Ran {}, None));
    }
    let mut none = setup(0);
    assert!(matches!(World::new(none.clone()).group.next(), GroupStep::Evaluate { .. }));
    none.selects = false;
    assert_eq!(World::new(none).ended().0, GroupEnd::Ran {});
}

/// A branch that waits, for an approval or about a call whose outcome is unknown.
fn waits(index: usize, outcome_unknown: bool) -> GroupInput {
    let question = json!({"id": "q", "text": "Again?", "outcomeUnknown": outcome_unknown});
    let end = BranchEnd::Suspended { questions: vec![serde_json::from_value(question).unwrap()] };
    GroupInput::BranchEnded { index, end, usage: Usage::new(1, 0, 0, 0), tool_usage: Usage::default() }
}

#[test]
fn a_call_with_an_unknown_outcome_keeps_the_group_open_until_its_branch_ends() {
    let mut world = World::of(3);
    for input in [waits(0, true), waits(1, false), ended(2)] {
        world.apply(input).unwrap();
    }
    let GroupStep::AwaitAnswers { key, waiting } = world.group.next() else { panic!() };
    assert_eq!((key.as_str(), waiting), ("answers", vec![0]));
    for input in [selects(2), fails()] {
        assert!(world.apply(input).unwrap_err().reason.contains("branch 0 has not ended"));
    }
    assert!(world.apply(waits(1, false)).unwrap_err().reason.contains("already ended"));
    // It may wait again, for example because its process ended once more.
    world.apply(waits(0, true)).unwrap();
    assert!(matches!(world.group.next(), GroupStep::AwaitAnswers { .. }));
    world.apply(ended(0)).unwrap();
    assert!(matches!(world.group.next(), GroupStep::Evaluate { .. }));
    world.apply(selects(0)).unwrap();
    assert_eq!(world.ended().1.selected_config_index, Some(0));
    assert_eq!(world.group.usage().branches.input, 21, "each branch counts once");

    for selects in [true, false] {
        let mut setup = setup(2);
        setup.selects = selects;
        let mut world = World::new(setup);
        for input in [waits(0, true), waits(1, true), GroupInput::Abort {}, ended(0)] {
            world.apply(input).unwrap();
        }
        assert!(matches!(world.group.next(), GroupStep::AwaitAnswers { .. }), "each branch has to end");
        world.apply(ended(1)).unwrap();
        assert_eq!(world.ended().0, if selects { GroupEnd::Aborted {} } else { GroupEnd::Ran {} });
    }
}

#[test]
fn a_group_that_is_resumed_announces_nothing_and_ends_like_the_one_that_was_cut_off() {
    let mut whole = World::of(2);
    let mut resumed = World { group: Group::resume(setup(2)), events: Vec::new() };
    for world in [&mut whole, &mut resumed] {
        for input in [ended(0), ended(1), selects(1)] {
            world.apply(input).unwrap();
        }
    }
    assert_eq!(resumed.group, whole.group);
    assert_eq!(resumed.events, whole.events[1..]);
}

#[test]
fn the_ids_of_a_group_derive_from_its_place() {
    let at = |session: &str, parent: Option<&str>, number| {
        let parent = parent.map(LoopId::from);
        GroupSetup::at(session.into(), "a".into(), parent, number, Timestamp(1)).group_id
    };
    let first = at("s", Some("s.m.1"), 0);
    assert_eq!(first, at("s", Some("s.m.1"), 0));
    let others = [at("s", Some("s.m.1"), 1), at("s", Some("s.m.2"), 0), at("s", None, 0), at("t", None, 0)];
    assert!(!others.contains(&first));
    assert!(others.iter().enumerate().all(|(n, id)| !others[..n].contains(id)));
    // The form must not change, because it is compared with what is recorded.
    assert_eq!(first.as_str(), "s.parallel.33da78717348f2e9-group");
}

#[test]
fn the_ids_of_the_loops_derive_from_the_id_of_the_group() {
    let setup = setup(1);
    assert_eq!(setup.loop_ids[0].as_str(), "s.m.x.7-1");
    assert_eq!(setup.judge_id("j").as_str(), "s.j.7-judge");
    let other = GroupSetup::new("mine".into(), "s".into(), "a".into(), Timestamp(1));
    assert_eq!(other.branch_id("m", 1).as_str(), "s.m.mine-2");
}

#[test]
fn another_form_and_unknown_fields_are_refused() {
    let written = serde_json::to_value(GroupCheckpoint::of(&World::of(2).group)).unwrap();
    let change = |change: &dyn Fn(&mut Value)| {
        let mut document = written.clone();
        change(&mut document);
        GroupCheckpoint::from_json(&document.to_string())
    };
    assert!(change(&|_| {}).is_ok());
    for (form, found) in [(json!(2), Some(2)), (json!(0), Some(0)), (Value::Null, None)] {
        let Err(ReadError::Form(FormError { found: read, .. })) = change(&|d| d["form"] = form.clone())
        else {
            panic!("form {form}")
        };
        assert_eq!(read, found);
    }
    let unknown: [&dyn Fn(&mut Value); 3] =
        [&|d| d["more"] = json!(1), &|d| d["group"]["more"] = json!(1), &|d| {
            d["group"]["setup"]["more"] = json!(1)
        }];
    for change_to in unknown {
        assert!(matches!(change(change_to), Err(ReadError::Json(_))));
    }
}
