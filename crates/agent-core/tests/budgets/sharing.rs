//! One budget for many.

use std::sync::Arc;

use agent_core::testing::{Latch, ScriptedProvider, ScriptedReply};
use agent_core::{Budget, CancellationToken, ErrorKind, History, ModelRequest, Spending, Usage, complete};

use crate::room::{agent, none, priced, reply};
use crate::runs::within;

/// X4: agents that run side by side on one budget spend no more than it has, whoever comes first.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn agents_side_by_side_do_not_overspend_together() {
    let root = Budget::new(none().with_tokens(20_000));
    let mut runs = Vec::new();
    let mut models = Vec::new();
    for n in 0..12 {
        let share = root.child(format!("branch {n}"), none().with_tokens(6_000));
        let (agent, model) = agent((0..30).map(|_| reply(100, 400)).collect::<Vec<_>>(), &share);
        models.push(model);
        runs.push(tokio::spawn(async move {
            while agent.chat("go").await.is_ok() {}
            assert!(share.spent().tokens <= 6_000);
        }));
    }
    for run in runs {
        within(run).await.unwrap();
    }
    let calls: usize = models.iter().map(|m| m.requests().len()).sum();
    assert_eq!(root.spent().tokens, 500 * calls as u64);
    assert!(root.spent().tokens <= 20_000);
    assert!(calls >= 30, "only {calls} calls: a budget is to be used, too");
    assert_eq!(root.reserved(), Spending::default());
}

/// A call that only another one's reservation stands against waits for its end, and is not refused.
#[tokio::test]
async fn a_call_waits_for_what_another_one_will_give_back() {
    let root = Budget::new(none().with_tokens(800));
    let latch = Latch::new();
    let (first, _) = agent([reply(10, 10).and_wait(&latch)], &root);
    let (second, model) = agent([reply(10, 10)], &root);
    let going = first.prompt("one").unwrap();
    within(latch.reached()).await;
    let waiting = second.prompt("two").unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(model.requests().is_empty(), "506 are set aside, and 506 more are not there");
    latch.open();
    within(going.collect()).await;
    within(waiting.collect()).await;
    assert_eq!((model.requests().len(), root.spent().tokens), (1, 40));
}

/// A call that waits for the budget can be aborted.
#[tokio::test]
async fn a_call_that_waits_can_be_aborted() {
    let root = Budget::new(none().with_tokens(800));
    let held =
        root.try_reserve(&agent_core::Ask::exactly(Spending::of_tokens(500)), Default::default()).unwrap();
    let (agent, model) = agent([reply(10, 10)], &root);
    let events = agent.prompt("go").unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    agent.abort();
    within(events.collect()).await;
    assert!(model.requests().is_empty());
    drop(held);
    assert_eq!((root.reserved(), root.spent().tokens), (Spending::default(), 0));
}

fn request() -> ModelRequest {
    let mut history = History::new();
    history.push("judge this".into()).unwrap();
    ModelRequest::new(priced(), history)
}

/// X4: a judge outside of every run takes from the same account.
#[tokio::test]
async fn a_metered_provider_reserves_settles_and_refuses() {
    let budget = Budget::new(none().with_tokens(1_000));
    let model = ScriptedProvider::new([
        reply(300, 30),
        ScriptedReply::text("par").using(Usage::new(50, 1, 0, 0)).failing(ErrorKind::Network, "cut"),
        ScriptedReply::text("12345678"),
    ]);
    let metered = budget.meter(Arc::new(model.clone()), Arc::new(agent_core::SystemEnvironment));
    complete(&metered, &request(), &CancellationToken::new()).await.unwrap();
    assert_eq!((budget.spent().tokens, budget.spent().model_calls), (330, 1));
    complete(&metered, &request(), &CancellationToken::new()).await.unwrap_err();
    assert_eq!((budget.spent().tokens, budget.spent().model_calls), (381, 2));
    complete(&metered, &request(), &CancellationToken::new()).await.unwrap();
    assert!(budget.spent().tokens > 381, "nobody said what it used, so it is estimated");
    budget.charge(Spending::of_tokens(500));
    let error = complete(&metered, &request(), &CancellationToken::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Quota);
    assert!(error.to_string().contains("the budget of 1000 in tokens is used up"), "{error}");
    assert_eq!(model.requests().len(), 3);
    assert_eq!(budget.reserved(), Spending::default());
}
