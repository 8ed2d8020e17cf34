//! One budget for the branches and their judge.

use agent_core::testing::ScriptedProvider;
use agent_core::testing::ScriptedReply;
use agent_core::{
    Branch, BranchEnd, Budget, BudgetLimits, Ended, EvaluationDecision, LlmJudgeEvaluation, ParallelError,
    Usage,
};

use crate::group::{config, config_of, run};

fn said(text: &str) -> ScriptedReply {
    ScriptedReply::text(text).using(Usage::new(100, 50, 0, 0))
}

fn on(budget: &Budget, text: &str) -> Branch {
    let mut config = config([said(text)]);
    config.services.budget = Some(budget.clone());
    config.request.max_tokens = Some(200);
    Branch::new(config)
}

fn judge(model: &ScriptedProvider) -> LlmJudgeEvaluation {
    let mut config = config_of(model);
    config.request.max_tokens = Some(200);
    LlmJudgeEvaluation::new(config)
}

/// X4, X7: branches and judge spend from one account.
#[tokio::test]
async fn the_judge_spends_what_the_branches_left() {
    let budget = Budget::new(BudgetLimits::none().with_tokens(10_000));
    let model = ScriptedProvider::new([said("2")]);
    let (outcome, _) = run([on(&budget, "One."), on(&budget, "Two.")], judge(&model)).await;
    assert_eq!(outcome.unwrap().decision, EvaluationDecision::Selected(1));
    assert_eq!((budget.spent().tokens, budget.spent().model_calls), (450, 3));
}

/// X4: a judge for whom nothing is left is not asked; the first branch is taken, and the reason is said.
#[tokio::test]
async fn a_judge_without_money_left_falls_back_to_the_first() {
    let budget = Budget::new(BudgetLimits::none().with_model_calls(2));
    let model = ScriptedProvider::new([said("2")]);
    let (outcome, _) = run([on(&budget, "One."), on(&budget, "Two.")], judge(&model)).await;
    let EvaluationDecision::FellBack { index: 0, reason } = outcome.unwrap().decision else { panic!() };
    assert!(reason.contains("the judge was stopped: the budget"), "{reason}");
    assert!(model.requests().is_empty());
}

/// X4: what is left for one call lets one branch speak.
#[tokio::test]
async fn branches_share_what_there_is() {
    let budget = Budget::new(BudgetLimits::none().with_model_calls(1));
    let (outcome, _) = run([on(&budget, "One."), on(&budget, "Two.")], agent_core::PickFirstEvaluation).await;
    let ends: Vec<_> = outcome.unwrap().outcomes().map(|o| o.end.clone()).collect();
    let spoke = ends.iter().filter(|end| matches!(end, BranchEnd::Ended(Ended::Completed))).count();
    let refused = ends.iter().filter(|end| matches!(end, BranchEnd::Ended(Ended::Budget { .. }))).count();
    assert_eq!((spoke, refused, budget.spent().model_calls), (1, 1, 1));
}

/// X4: a limit in money over a branch whose model has no price is refused before any branch begins.
#[tokio::test]
async fn a_branch_without_a_price_is_an_error_before_anything_is_spent() {
    let budget = Budget::new(BudgetLimits::none().with_money("1".parse().unwrap()));
    let (outcome, events) =
        run([on(&budget, "One."), on(&budget, "Two.")], agent_core::PickFirstEvaluation).await;
    assert!(matches!(outcome, Err(ParallelError::Branch { index: 0, .. })), "{outcome:?}");
    assert!(events.is_empty() && budget.spent().model_calls == 0);
}
