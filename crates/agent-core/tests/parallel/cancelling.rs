//! One cancellation for all.

use std::sync::Arc;
use std::time::Duration;

use agent_core::testing::{Latch, ManualEnvironment, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentEvent, Branch, BranchEnd, CancellationToken, Ended, Evaluated, Evaluation, EvaluationError,
    EvaluationStrategy, LlmJudgeEvaluation, ParallelError, PickFirstEvaluation, agent_loop_parallel,
    event_channel,
};
use async_trait::async_trait;

use crate::group::{announced, config, context, of_loop, still};
use crate::runs::within;

/// Runs two branches that wait, aborts when `waits` says so, and gives error and events.
async fn aborted(
    branches: Vec<Branch>,
    strategy: impl EvaluationStrategy,
    waits: impl Future<Output = ()>,
) -> (ParallelError, Vec<AgentEvent>) {
    let (tx, events) = event_channel();
    let cancel = CancellationToken::new();
    let run = agent_loop_parallel(vec!["go".into()], context(), branches, strategy, tx, cancel.clone());
    let abort = async {
        waits.await;
        cancel.cancel();
    };
    let (outcome, ()) = within(async { tokio::join!(run, abort) }).await;
    (outcome.unwrap_err(), events.collect().await)
}

#[track_caller]
fn assert_all_ended(error: &ParallelError, events: &[AgentEvent]) {
    assert!(matches!(error, ParallelError::Aborted { .. }), "{error}");
    for id in announced(events) {
        assert_eq!(of_loop(events, &id).iter().filter(|e| e.is_terminal()).count(), 1, "{id}");
    }
    let Some(AgentEvent::ParallelLoopEnd(end)) = events.last() else { panic!("{events:?}") };
    assert_eq!(end.reason.as_deref(), Some("the branches were aborted"));
}

/// REQ-203.
#[tokio::test]
async fn an_abort_reaches_every_branch_in_its_stream_or_tool() {
    let latch = Latch::new();
    let streaming = Branch::new(config([ScriptedReply::new().and_text("half").and_wait(&latch)]));
    let call = ScriptedReply::call("c", "wait", serde_json::json!({}));
    let started = Latch::new();
    let at_work = started.clone();
    let tool = ScriptedTool::new("wait", move |_, ctx| {
        let at_work = at_work.clone();
        async move {
            at_work.open();
            ctx.cancel.cancelled().await;
            Err(agent_core::ToolError::Cancelled)
        }
    });
    let working = Branch::new(config([call])).with_tools(vec![Arc::new(tool) as _]);
    let done = Branch::new(config(["quick"]));
    let waits = async {
        latch.reached().await;
        started.wait().await;
        // The quick one has ended long before.
        tokio::task::yield_now().await;
    };
    let (error, events) = aborted(vec![streaming, working, done], PickFirstEvaluation, waits).await;
    assert_all_ended(&error, &events);
    let ends: Vec<_> = error.outcomes().iter().map(|o| o.end.clone()).collect();
    let aborted = BranchEnd::Ended(Ended::Aborted);
    assert_eq!(ends, [aborted.clone(), aborted, BranchEnd::Ended(Ended::Completed)]);
    // What had arrived is kept.
    assert_eq!(error.outcomes()[0].new_messages.in_memory().last().unwrap().text(), "half");
}

/// REQ-203: a tool that does not listen is left behind after the grace period; the clock here stands still.
#[tokio::test(start_paused = true)]
async fn a_tool_that_ignores_the_abort_does_not_hold_the_others_up() {
    let started = Latch::new();
    let at_work = started.clone();
    let tool = ScriptedTool::new("deaf", move |_, _| {
        let at_work = at_work.clone();
        async move {
            at_work.open();
            std::future::pending::<()>().await;
            Err(agent_core::ToolError::Cancelled)
        }
    });
    let call = ScriptedReply::call("c", "deaf", serde_json::json!({}));
    let deaf = Branch::new(config([call])).with_tools(vec![Arc::new(tool) as _]);
    let hanging = Branch::new(config([ScriptedReply::new().and_hang()]));
    let begun = tokio::time::Instant::now();
    let (error, events) = aborted(vec![deaf, hanging], PickFirstEvaluation, started.wait()).await;
    assert_all_ended(&error, &events);
    assert!(begun.elapsed() < Duration::from_secs(5), "the grace period is half a second");
}

/// REQ-201.
#[tokio::test]
async fn an_abort_reaches_the_judge() {
    let latch = Latch::new();
    let judge = LlmJudgeEvaluation::new(config([ScriptedReply::new().and_text("2").and_wait(&latch)]));
    let branches = ["a", "b"].map(|t| Branch::new(config([t]))).to_vec();
    let (error, events) = aborted(branches, judge, latch.reached()).await;
    assert_all_ended(&error, &events);
    let ends = events.iter().filter(|e| e.is_terminal()).count();
    assert_eq!(ends, 3, "two branches and the judge");
    assert!(error.outcomes().iter().all(agent_core::ParallelLoopOutcome::is_completed));
}

/// REQ-199.
#[tokio::test(start_paused = true)]
async fn a_strategy_that_hangs_is_given_up_after_the_abort() {
    struct Hangs(Latch);
    #[async_trait]
    impl EvaluationStrategy for Hangs {
        async fn evaluate(&self, _evaluation: Evaluation<'_>) -> Result<Evaluated, EvaluationError> {
            self.0.open();
            std::future::pending().await
        }
    }
    let latch = Latch::new();
    let branches = ["a", "b"].map(|t| Branch::new(config([t]))).to_vec();
    let (error, events) = aborted(branches, Hangs(latch.clone()), latch.wait()).await;
    assert_all_ended(&error, &events);
}

/// REQ-203.
#[tokio::test]
async fn an_abort_before_the_beginning_asks_no_model() {
    let env = ManualEnvironment::at(3);
    let model = agent_core::testing::ScriptedProvider::texts(["never"]);
    let one = still(crate::group::config_of(&model), &env);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let (tx, events) = event_channel();
    let run = agent_loop_parallel(vec!["go".into()], context(), [one], PickFirstEvaluation, tx, cancel);
    let error = within(run).await.unwrap_err();
    assert_all_ended(&error, &events.collect().await);
    assert!(model.requests().is_empty());
}
