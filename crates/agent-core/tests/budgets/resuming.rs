//! What is spent stays spent: in a checkpoint, in a run as data, in a replay.

use agent_core::compat::SeedVerbs as _;
use std::sync::{Arc, Mutex};

use agent_core::journal::{AppliedInput, Journal, JournalEntry, JournalError};
use agent_core::run::Run;
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool, transcript};
use agent_core::{AgentSnapshot, Answer, BasicAgent, Budget, RunEnd, Spending, Usage};
use serde_json::json;

use crate::room::{agent, none, priced, reply};
use crate::runs::{run, within};

fn budget() -> Budget {
    Budget::new(none().with_tokens(1_000)).pausing()
}

fn look() -> ScriptedReply {
    ScriptedReply::call("a", "look", json!({})).using(Usage::new(600, 50, 0, 0))
}

/// An agent as another process would build it.
fn elsewhere(replies: Vec<ScriptedReply>, budget: &Budget) -> BasicAgent {
    agent(replies, budget).0.with_tool(ScriptedTool::saying("look", "x"))
}

/// X4, X5: the question waits as data, and another process answers it.
#[tokio::test]
async fn a_run_that_asks_is_answered_in_another_process_and_what_was_spent_stays_spent() {
    let first = elsewhere(vec![look()], &budget());
    run(&first, "Go.").await;
    let text = serde_json::to_string(&first.checkpoint()).unwrap();

    for restored_first in [true, false] {
        let snapshot: AgentSnapshot = serde_json::from_str(&text).unwrap();
        let fresh = budget();
        let agent = if restored_first {
            let bare = elsewhere(vec![reply(700, 10)], &fresh).with_budget(None);
            bare.restore(snapshot).unwrap().with_budget(fresh.clone())
        } else {
            elsewhere(vec![reply(700, 10)], &fresh).restore(snapshot).unwrap()
        };
        let Some(RunEnd::Suspended(questions)) = agent.finish().await else { panic!() };
        assert_eq!(questions[0].budget.as_ref().unwrap().spent, 650);
        let raise = Answer::Raise { by: Spending::of_tokens(2_000) };
        let events = within(agent.answer(questions[0].id.clone(), raise).unwrap().collect()).await;
        assert!(transcript(&events).ends_with("agent_end(completed)"), "{}", transcript(&events));
        assert_eq!((fresh.spent().tokens, fresh.limits().tokens), (1_360, Some(3_000)));
        let after = agent.checkpoint().budget.unwrap();
        assert_eq!(after.accounts[0].raised, Spending::of_tokens(2_000));
    }
}

/// A checkpoint of an agent between two runs knows what was spent.
#[tokio::test]
async fn a_checkpoint_keeps_what_earlier_runs_spent() {
    let first = elsewhere(vec![reply(900, 50)], &budget());
    first.chat("Go.").await.unwrap();
    let snapshot = first.checkpoint();
    let fresh = Budget::new(none().with_tokens(1_000));
    let agent = elsewhere(vec![reply(1, 1)], &fresh).restore(snapshot).unwrap();
    agent.chat("More.").await.unwrap_err();
    assert_eq!(fresh.spent().tokens, 950);
}

/// Rewinding the conversation does not bring money back.
#[tokio::test]
async fn an_older_checkpoint_does_not_give_money_back() {
    let budget = budget();
    let agent = elsewhere(vec![reply(100, 10), reply(100, 10)], &budget);
    agent.chat("One.").await.unwrap();
    let old = agent.checkpoint();
    agent.chat("Two.").await.unwrap();
    let agent = agent.restore(old).unwrap();
    let _ = agent.checkpoint();
    assert_eq!(budget.spent().tokens, 220);
}

/// A run that was begun with a budget does not go on without one.
#[tokio::test]
async fn a_run_with_a_budget_does_not_go_on_without_one() {
    let first = elsewhere(vec![look()], &budget());
    run(&first, "Go.").await;
    let bare = elsewhere(vec![reply(1, 1)], &budget()).with_budget(None);
    let agent = bare.restore(first.checkpoint()).unwrap();
    let events = within(agent.answer("budget-turn-1.0", Answer::Allow).unwrap().collect()).await;
    assert!(transcript(&events).ends_with("agent_end(error)"), "{}", transcript(&events));
    let error = agent.state().error_message.unwrap();
    assert!(error.contains("set one with with_budget"), "{error}");
}

#[derive(Debug, Default)]
struct Kept(Mutex<Vec<(Vec<AppliedInput>, String)>>);

#[async_trait::async_trait]
impl Journal for Kept {
    async fn append(&self, entry: JournalEntry<'_>) -> Result<(), JournalError> {
        let run = serde_json::to_string(entry.run).unwrap();
        self.0.lock().unwrap().push((entry.inputs.to_vec(), run));
        Ok(())
    }
}

/// X4: the run is a function of its inputs, its accounts included; the journal replays it, and a process that is cut after any
/// entry leaves a run that knows what it spent.
#[tokio::test]
async fn a_journal_replays_a_run_with_its_budget_and_every_entry_knows_what_was_spent() {
    let journal = Arc::new(Kept::default());
    let used = Budget::new(none().with_tokens(9_000));
    let broken = ScriptedReply::text("par")
        .using(Usage::new(40, 2, 0, 0))
        .failing(agent_core::ErrorKind::Network, "cut");
    let agent = elsewhere(vec![look(), broken, reply(700, 10)], &used).with_journal(journal.clone());
    run(&agent, "Go.").await;
    let entries = std::mem::take(&mut *journal.0.lock().unwrap());
    assert!(entries.len() > 8);

    let mut replayed: Run = serde_json::from_str(&entries[0].1).unwrap();
    let mut known = 0;
    for (inputs, run) in &entries[1..] {
        for AppliedInput { now, input } in inputs {
            let input = serde_json::to_string(input).unwrap();
            replayed.apply(*now, serde_json::from_str(&input).unwrap(), &mut Vec::new()).unwrap();
        }
        let kept: Run = serde_json::from_str(run).unwrap();
        assert_eq!(replayed, kept);
        let spent = kept.budget().accounts.first().map_or(0, |a| a.spent.tokens);
        assert!(spent >= known, "what is spent does not become less");
        known = spent;
    }
    assert_eq!((known, used.spent().tokens), (650 + 42 + 710, 650 + 42 + 710));

    // Cut after each entry, and gone on with from there: nothing is forgotten.
    for (_, run) in &entries {
        let kept: Run = serde_json::from_str(run).unwrap();
        if kept.ended().is_some() {
            continue;
        }
        let before = kept.budget().accounts.first().map_or(0, |a| a.spent.tokens);
        let fresh = Budget::new(none().with_tokens(9_000));
        let model = ScriptedProvider::responding(|_| reply(30, 3));
        let mut config = agent_core::AgentLoopConfig::system(Arc::new(model.clone()), priced());
        config.services.budget = Some(fresh.clone());
        config.policy.retry = agent_core::RetryConfig::none();
        let context =
            agent_core::AgentContext::new("").with_tools(vec![Arc::new(ScriptedTool::saying("look", "x"))]);
        let sender = agent_core::EventSender::none();
        let end = agent_core::drive::drive(kept, &context, &config, sender, Default::default());
        within(end).await.unwrap();
        assert_eq!(fresh.spent().tokens, before + 33 * model.requests().len() as u64);
        assert_eq!(fresh.reserved(), Spending::default());
    }
}
