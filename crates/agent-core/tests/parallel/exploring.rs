//! Branches of an agent.

use agent_core::compat::SeedSetters as _;
use agent_core::compat::SeedVerbs as _;
use std::sync::Arc;

use agent_core::testing::{Latch, ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed};
use agent_core::{
    AgentError, AgentEvent, BasicAgent, BranchEnd, BranchSpec, Ended, LlmJudgeEvaluation, ModelConfig,
    ParallelError, PickFirstEvaluation, RunEnd, event_channel,
};
use serde_json::json;

use crate::group::config;
use crate::runs::{said, within};

fn agent() -> BasicAgent {
    let model = ScriptedProvider::responding(|request| {
        let last = request.history.last().map(agent_core::AgentMessage::text).unwrap_or_default();
        ScriptedReply::text(format!("{}: {last}", request.system_prompt))
    });
    BasicAgent::new(ModelConfig::default()).with_provider(model).with_system_prompt("plain")
}

/// Seed 002, parallel exploration.
#[tokio::test]
async fn branches_run_beside_the_agent_and_one_can_be_taken_over() {
    let agent = agent();
    agent.chat("hello").await.unwrap();
    let before = said(&agent);
    let heard = Arc::new(std::sync::Mutex::new(0));
    let count = heard.clone();
    let _listening = agent.subscribe(move |_| *count.lock().unwrap() += 1);
    let specs = ["short", "long"].map(|s| BranchSpec::asking("why?").with_system_prompt(s));
    let exploration = agent.explore_branches(specs).unwrap();
    assert!(!agent.is_streaming());
    let ids: Vec<_> = exploration.branches.iter().map(|b| b.loop_id.clone()).collect();
    let outcomes = within(exploration.finish()).await.unwrap();
    assert_eq!(outcomes.iter().map(|o| o.loop_id.clone()).collect::<Vec<_>>(), ids);
    assert_eq!(outcomes[1].final_text().as_deref(), Some("long: why?"));
    assert_eq!(said(&agent), before, "the agent's conversation is as it was");
    assert_eq!(*heard.lock().unwrap(), 0, "its listeners did not hear of branches");
    let parents: Vec<_> = outcomes.iter().map(|o| o.context.parent_loop_id.clone()).collect();
    assert_eq!(parents, vec![agent.last_loop_id(); 2]);

    agent.adopt_branch(&outcomes[1]).await.unwrap();
    assert_eq!(said(&agent), format!("{before} user(why?) assistant(long: why?)"));
    assert_eq!(agent.last_loop_id(), Some(ids[1].clone()));
    agent.chat("more").await.unwrap();
    assert!(said(&agent).ends_with("user(more) assistant(plain: more)"));
}

#[tokio::test]
async fn each_branch_has_a_stream_of_its_own() {
    let exploration = agent().explore_branches(["a", "b"].map(BranchSpec::asking)).unwrap();
    for events in exploration.into_receivers() {
        assert_well_formed(&within(events.collect()).await);
    }
}

/// REQ-205.
#[tokio::test]
async fn a_branch_without_a_prompt_goes_on_over_the_past_that_it_is_given() {
    let agent = agent();
    let mut past = agent.history();
    past.push(agent_core::AgentMessage::user("changed")).unwrap();
    let outcomes = within(agent.explore_branches([BranchSpec::new().with_history(past)]).unwrap().finish())
        .await
        .unwrap();
    assert_eq!(outcomes[0].final_text().as_deref(), Some("plain: changed"));
    let Err(AgentError::Branches(error)) = agent.explore_branches([BranchSpec::new()]) else { panic!() };
    assert!(matches!(*error, ParallelError::Branch { index: 0, .. }), "there is nothing to go on from");
    let Err(AgentError::Branches(error)) = agent.explore_branches([]) else { panic!() };
    assert!(matches!(*error, ParallelError::NoBranches));
}

fn waiting(latch: &Latch) -> BranchSpec {
    let model = Arc::new(ScriptedProvider::new([ScriptedReply::new().and_text("so").and_wait(latch)]));
    BranchSpec::asking("go").configure(move |c| c.services.provider = model)
}

#[tokio::test]
async fn one_branch_can_be_ended_alone_and_the_agents_abort_ends_all() {
    let agent = agent();
    let (one, two) = (Latch::new(), Latch::new());
    let both = || async {
        one.reached().await;
        two.reached().await;
    };
    let exploration = agent.explore_branches([waiting(&one), waiting(&two)]).unwrap();
    within(both()).await;
    exploration.branches[0].abort();
    two.open();
    let outcomes = within(exploration.finish()).await.unwrap();
    let ends: Vec<_> = outcomes.iter().map(|o| &o.end).collect();
    assert_eq!(ends, [&BranchEnd::Ended(Ended::Aborted), &BranchEnd::Ended(Ended::Completed)]);

    let exploration = agent.explore_branches([waiting(&one), waiting(&two)]).unwrap();
    within(both()).await;
    agent.abort();
    let outcomes = within(exploration.finish()).await.unwrap();
    assert!(outcomes.iter().all(|o| o.end == BranchEnd::Ended(Ended::Aborted)));
    // The next ones are not aborted with them.
    let outcomes = within(agent.explore_branches([BranchSpec::asking("x")]).unwrap().finish()).await.unwrap();
    assert!(outcomes[0].is_completed());
}

#[tokio::test]
async fn a_judged_exploration_takes_the_selected_branch_over() {
    let agent = agent();
    let (tx, events) = event_channel();
    let judge = LlmJudgeEvaluation::new(config(["the second, 2"]));
    let specs = ["short", "long"].map(|s| BranchSpec::asking("why?").with_system_prompt(s));
    let result = within(agent.explore_and_adopt(specs, judge, tx)).await.unwrap();
    assert_eq!(result.selected_index(), 1);
    assert_eq!(said(&agent), "user(why?) assistant(long: why?)");
    let events = events.collect().await;
    assert!(matches!(events.first(), Some(AgentEvent::ParallelLoopStart(_))));
    assert!(matches!(events.last(), Some(AgentEvent::ParallelLoopEnd(_))));
}

/// What was said in the meantime is not lost in silence.
#[tokio::test]
async fn a_conversation_that_went_on_is_not_replaced() {
    let agent = agent();
    let latch = Latch::new();
    let exploring = agent.explore_and_adopt([waiting(&latch)], PickFirstEvaluation, event_channel().0);
    let meanwhile = async {
        latch.reached().await;
        agent.chat("meanwhile").await.unwrap();
        latch.open();
    };
    let (result, ()) = within(async { tokio::join!(exploring, meanwhile) }).await;
    assert!(matches!(result, Err(AgentError::ConversationWentOn)));
    assert_eq!(said(&agent), "user(meanwhile) assistant(plain: meanwhile)");
}

#[tokio::test]
async fn a_branch_that_waits_is_taken_over_as_one_that_waits() {
    let agent = agent();
    let call = ScriptedReply::call("c", "send", json!({}));
    let model = Arc::new(ScriptedProvider::new([call, "sent".into()]));
    let agent =
        agent.with_provider_override(model).with_tool(ScriptedTool::saying("send", "ok").asking("May I?"));
    let outcomes =
        within(agent.explore_branches([BranchSpec::asking("go")]).unwrap().finish()).await.unwrap();
    let BranchEnd::Suspended { questions } = &outcomes[0].end else { panic!() };
    agent.adopt_branch(&outcomes[0]).await.unwrap();
    assert!(agent.is_suspended());
    drop(agent.answer(questions[0].id.clone(), agent_core::Answer::Allow).unwrap());
    let Some(RunEnd::Completed(_)) = within(agent.finish()).await else { panic!() };
    assert!(said(&agent).ends_with("assistant(sent)"));
}
