//! What a group says.

use std::collections::BTreeSet;

use agent_core::testing::{Latch, ManualEnvironment, ScriptedReply, assert_well_formed, transcript};
use agent_core::{
    AgentEvent, CancellationToken, EventSender, GroupRole, LlmJudgeEvaluation, LoopId, ParallelLoopEnd,
    PickFirstEvaluation, agent_loop_parallel, event_channel,
};

use crate::group::{announced, config, context, of_loop, run, run_over, still};
use crate::runs::within;

fn judge(reply: &str) -> LlmJudgeEvaluation {
    LlmJudgeEvaluation::new(config([reply]))
}

/// REQ-198, REQ-210.
#[tokio::test]
async fn one_stream_holds_all_loops_and_each_is_whole_by_itself() {
    let slow = || ScriptedReply::text("a long answer").in_pieces_of(2);
    let (outcome, events) = run([config([slow()]), config([slow()])], judge("2")).await;
    let result = outcome.unwrap();
    let Some(AgentEvent::ParallelLoopStart(start)) = events.first() else { panic!() };
    let Some(AgentEvent::ParallelLoopEnd(end)) = events.last() else { panic!() };
    assert_eq!(start.session_id.as_str(), "s");
    assert_eq!(end.selected_loop_id.as_ref(), Some(&start.loop_ids[1]));
    assert_eq!(end.selected_config_index, Some(1));
    assert_eq!((&end.group_id, &end.judge_loop_id), (&result.group_id, &result.judge_loop_id));
    let mut loops = start.loop_ids.clone();
    loops.extend(end.judge_loop_id.clone());
    for id in &loops {
        let own = of_loop(&events, id);
        assert_well_formed(&own);
        assert!(transcript(&own).ends_with("agent_end(completed)"));
    }
    let known: BTreeSet<&LoopId> = loops.iter().chain([&start.group_id]).collect();
    assert!(events.iter().all(|e| known.contains(e.loop_id())), "every event names its loop");
    // They really run beside each other.
    let order: Vec<_> = events.iter().filter(|e| e.is_live()).map(AgentEvent::loop_id).collect();
    let changes = order.windows(2).filter(|w| w[0] != w[1]).count();
    assert!(changes > 3, "the branches took turns: {changes}");
    // The judge begins when the branches have ended.
    let judged = events.iter().position(|e| e.loop_id() == &loops[2]).unwrap();
    let last_end = events.iter().rposition(|e| e.is_terminal() && e.loop_id() != &loops[2]).unwrap();
    assert!(judged > last_end);
}

/// REQ-198.
#[tokio::test]
async fn each_loop_of_a_group_says_what_it_is_there() {
    let (_, events) = run([config(["a"]), config(["b"])], judge("1")).await;
    let roles: Vec<_> = events
        .iter()
        .filter_map(|e| match e {
            AgentEvent::AgentStart(start) => start.group.clone().map(|g| (g.group_id, g.role)),
            _ => None,
        })
        .collect();
    let group = events[0].loop_id().clone();
    assert_eq!(
        roles,
        [
            (group.clone(), GroupRole::Branch { index: 0 }),
            (group.clone(), GroupRole::Branch { index: 1 }),
            (group, GroupRole::Judge),
        ]
    );
    let json = serde_json::to_string(&events).unwrap();
    let stored: Vec<AgentEvent> = serde_json::from_str(&json).unwrap();
    assert_eq!(serde_json::to_string(&stored).unwrap(), json, "they survive JSON");
}

/// REQ-203: D28.
#[tokio::test]
async fn loop_ids_are_unique_in_the_session_however_often_branches_run() {
    let mut seen = BTreeSet::new();
    let base = context();
    for _ in 0..20 {
        let (_, events) =
            run_over(base.clone(), Some("again"), [config(["a"]), config(["b"])], judge("1")).await;
        let mut ids = announced(&events);
        let Some(AgentEvent::ParallelLoopEnd(end)) = events.last() else { panic!() };
        ids.extend(end.judge_loop_id.clone());
        ids.push(end.group_id.clone());
        for id in ids {
            assert!(id.as_str().starts_with("s."), "{id}");
            assert!(seen.insert(id.clone()), "{id} was there before");
        }
    }
    assert_eq!(seen.len(), 80);
}

/// REQ-203.
#[tokio::test]
async fn a_group_whose_future_is_dropped_still_ends_with_every_loop_in_it() {
    for begun in [false, true] {
        let (tx, mut events) = event_channel();
        let latch = Latch::new();
        let waiting = || config([ScriptedReply::new().and_text("so").and_wait(&latch)]);
        let branches = [waiting(), waiting()];
        let cancel = CancellationToken::new();
        let group = agent_loop_parallel(
            vec!["go".into()],
            context(),
            branches,
            PickFirstEvaluation,
            tx.clone(),
            cancel.clone(),
        );
        let mut group = Box::pin(group);
        if begun {
            tokio::select! {
                _ = &mut group => panic!("it waits"),
                () = async { latch.reached().await; latch.reached().await } => {}
            }
        } else {
            tokio::select! {
                biased;
                _ = &mut group => panic!("it waits"),
                () = std::future::ready(()) => {}
            }
        }
        drop(group);
        drop(tx);
        let mut said = Vec::new();
        while let Some(event) = events.try_recv() {
            said.push(event);
        }
        let ids = announced(&said);
        for id in &ids {
            let own = of_loop(&said, id);
            assert_well_formed(&own);
            assert!(transcript(&own).ends_with("agent_end(interrupted)"), "{}", transcript(&own));
        }
        let Some(AgentEvent::ParallelLoopEnd(end)) = said.last() else { panic!("{said:?}") };
        assert_eq!(end.reason.as_deref(), Some("the task that ran the branches was dropped"));
        assert!(!cancel.is_cancelled(), "the caller's token is the caller's");
    }
}

/// REQ-203: times and ids come from the environment, so that a replay gives the same.
#[tokio::test]
async fn the_same_script_in_the_same_world_says_the_same() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let env = ManualEnvironment::skipping(5);
        let (tx, events) = event_channel();
        let branches = [still(config(["a"]), &env), still(config(["b"]), &env)];
        let strategy = LlmJudgeEvaluation::new(still(config(["2"]), &env));
        let cancel = CancellationToken::new();
        let run = agent_loop_parallel(vec!["go".into()], context(), branches, strategy, tx, cancel);
        within(run).await.unwrap();
        runs.push(serde_json::to_string(&events.collect().await).unwrap());
    }
    assert_eq!(runs[0], runs[1]);
    let nobody: ParallelLoopEnd = serde_json::from_value(serde_json::json!({
        "group_id": "g", "session_id": "s", "timestamp": 1
    }))
    .unwrap();
    assert!(nobody.selected_loop_id.is_none());
    let _ = EventSender::none();
}
