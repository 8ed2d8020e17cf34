//! What comes back of branches.

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentContext, AgentEvent, AgentLoopConfig, AgentMessage, AssistantMessage, Branch, BranchEnd,
    CancellationToken, ContinuationKind, Ended, ErrorKind, Evaluated, Evaluation, EvaluationError,
    EvaluationStrategy, EventSender, ExecutionLimits, FilterResult, History, InputFilter, LoopError, Message,
    MostTokensEvaluation, OnlyBranchEvaluation, ParallelError, PickFirstEvaluation, StopReason, TokenCounter,
    TokenEfficientEvaluation, TurnTrigger, Usage, agent_loop,
};
use async_trait::async_trait;

use crate::group::{announced, config, config_of, context, of_loop, run, run_over};
use crate::runs::{shown_refs, within};

fn used(text: &str, tokens: u64) -> ScriptedReply {
    ScriptedReply::text(text).using(Usage::new(tokens, 1, 2, 3))
}

/// REQ-203, REQ-198.
#[tokio::test]
async fn each_configuration_runs_a_branch_and_all_outcomes_come_back_with_their_index() {
    let (a, b, c) = (used("one", 10), used("two", 20), used("three", 30));
    let (outcome, _) = run([config([a]), config([b]), config([c])], MostTokensEvaluation).await;
    let result = outcome.unwrap();
    assert_eq!(result.selected_index(), 2);
    let all: Vec<_> = result.outcomes().map(|o| (o.index, o.final_text().unwrap())).collect();
    assert_eq!(all, [(0, "one".into()), (1, "two".into()), (2, "three".into())]);
    assert_eq!(result.others.iter().map(|o| o.index).collect::<Vec<_>>(), [0, 1]);
    assert!(result.outcomes().all(|o| o.end == BranchEnd::Ended(Ended::Completed)));
    // The buckets are kept apart.
    assert_eq!(result.usage.branches, Usage::new(60, 3, 6, 9));
    assert_eq!(result.total_usage(), Usage::new(60, 3, 6, 9));
    assert!(result.usage.evaluation.is_zero() && result.judge_loop_id.is_none());
}

/// REQ-206, REQ-196.
#[tokio::test]
async fn the_shared_context_comes_first_and_what_a_branch_said_after_it() {
    let mut base = context();
    let first = config(["four"]);
    agent_loop(vec!["2 + 2?".into()], &mut base, &first, EventSender::none(), CancellationToken::new())
        .await
        .unwrap();
    let before = base.history.clone();
    let branches = [config(["eight"]), config(["ate"])];
    let (outcome, _) = run_over(base.clone(), Some("twice?"), branches, PickFirstEvaluation).await;
    let result = outcome.unwrap();
    for outcome in result.outcomes() {
        assert_eq!(outcome.original_context_len, 2);
        let messages = outcome.context.history.to_vec();
        assert_eq!(messages[..2], before.to_vec());
        assert_eq!(messages[2].text(), "twice?");
        assert_eq!(messages[3].text(), outcome.final_text().unwrap());
        assert!(outcome.context.history.extends(&before), "a clone shares the past");
        assert_eq!(outcome.context.parent_loop_id, base.loop_id);
    }
    assert_eq!(base.history, before, "the caller's context is as it was");
}

/// REQ-205.
#[tokio::test]
async fn without_prompts_each_branch_goes_on_from_what_the_context_holds() {
    let models = [ScriptedProvider::texts(["a"]), ScriptedProvider::texts(["b"])];
    let mut history = History::new();
    history.push(AgentMessage::user("Go on.")).unwrap();
    let base = context().with_history(history);
    let branches: Vec<AgentLoopConfig> = models.iter().map(config_of).collect();
    let (outcome, events) = run_over(base, None, branches, PickFirstEvaluation).await;
    let result = outcome.unwrap();
    assert_eq!(
        result.outcomes().map(|o| shown_refs(o.new_messages.in_memory())).collect::<Vec<_>>(),
        ["assistant(a)", "assistant(b)"]
    );
    assert!(models.iter().all(|m| m.requests().len() == 1));
    for id in announced(&events) {
        let own = of_loop(&events, &id);
        let AgentEvent::AgentStart(start) = &own[0] else { panic!("{own:?}") };
        assert!(matches!(start.continuation_kind, Some(ContinuationKind::Branch { .. })));
        assert!(own.iter().any(|e| matches!(
            e,
            AgentEvent::TurnStart { triggered_by: TurnTrigger::Branch, turn_index: 0, .. }
        )));
    }
}

/// REQ-205.
#[tokio::test]
async fn branches_that_cannot_begin_are_refused_before_anything_is_said() {
    let none: [AgentLoopConfig; 0] = [];
    let (outcome, events) = run(none, PickFirstEvaluation).await;
    assert!(matches!(outcome, Err(ParallelError::NoBranches)) && events.is_empty());

    let (outcome, events) = run_over(context(), None, [config(["x"])], PickFirstEvaluation).await;
    let Err(ParallelError::Branch { index: 0, source: LoopError::EmptyContext }) = outcome else { panic!() };
    assert!(events.is_empty());

    let mut reply = AssistantMessage::new("mock", "m", StopReason::Stop);
    reply.content.push(agent_core::Content::text("done"));
    let mut history = History::new();
    history.push(AgentMessage::user("Go on.")).unwrap();
    let fine = history.clone();
    history.push(Message::from(reply).into()).unwrap();
    let model = ScriptedProvider::texts(["never"]);
    let branches = [
        Branch::new(config_of(&model)).with_history(fine),
        Branch::new(config_of(&model)).with_history(history),
    ];
    let (outcome, events) = run_over(context(), None, branches, PickFirstEvaluation).await;
    let Err(ParallelError::Branch { index: 1, source: LoopError::AssistantTail }) = outcome else { panic!() };
    assert!(events.is_empty() && model.requests().is_empty());
}

/// REQ-200, REQ-204.
#[tokio::test]
async fn each_strategy_selects_what_it_says() {
    #[track_caller]
    fn selects(outcome: crate::group::Outcome, expect: usize) {
        assert_eq!(outcome.unwrap().selected_index(), expect);
    }
    let four = || [30, 10, 30, 10].map(|n| config([used("x", n)]));
    selects(run(four(), PickFirstEvaluation).await.0, 0);
    selects(run(four(), TokenEfficientEvaluation).await.0, 1);
    selects(run(four(), MostTokensEvaluation).await.0, 0);
    selects(run([config(["one"])], OnlyBranchEvaluation).await.0, 0);
    let Err(ParallelError::Evaluation { source, outcomes }) = run(four(), OnlyBranchEvaluation).await.0
    else {
        panic!()
    };
    assert!(matches!(source, EvaluationError::NotOne { branches: 4 }));
    assert_eq!(outcomes.len(), 4);
    // One that failed is passed through, too.
    let failing = || config([ScriptedReply::error(ErrorKind::Auth, "bad key")]);
    let (outcome, _) = run([failing()], OnlyBranchEvaluation).await;
    assert!(matches!(outcome.unwrap().selected.end, BranchEnd::Ended(Ended::Error { .. })));
    // A failed branch used no token, and is not the most efficient one for that.
    selects(run([failing(), config([used("x", 90)])], TokenEfficientEvaluation).await.0, 1);
    selects(run([failing(), config([used("x", 90)])], PickFirstEvaluation).await.0, 1);
}

struct Refuse;

#[async_trait]
impl InputFilter for Refuse {
    async fn filter(&self, _text: &str) -> FilterResult {
        FilterResult::Reject("not here".into())
    }
}

#[derive(Debug)]
struct Panicking;

impl TokenCounter for Panicking {
    fn count_text(&self, _text: &str) -> u64 {
        panic!("no tokens today")
    }
}

#[derive(Debug)]
struct PanickingLater;

impl TokenCounter for PanickingLater {
    fn count_text(&self, text: &str) -> u64 {
        assert_ne!(text, "late", "no tokens for this");
        1
    }
}

/// REQ-203.
#[tokio::test]
async fn a_branch_that_fails_is_refused_or_panics_is_an_outcome_and_the_others_go_on() {
    let failing = config([ScriptedReply::error(ErrorKind::Auth, "bad key")]);
    let mut refused = config(["never"]);
    refused.hooks.input_filters.push(std::sync::Arc::new(Refuse));
    let mut panicking = config(["never"]);
    panicking.services.token_counter = std::sync::Arc::new(Panicking);
    let mut later = config([used("late", 5)]);
    later.services.token_counter = std::sync::Arc::new(PanickingLater);
    let provider = config([ScriptedReply::new().and_text("be").and_panic("the model is gone")]);
    let mut vetoed = config(["never"]);
    *vetoed.hooks = agent_core::Hooks::new().before_loop(|_| async { false });
    let good = config([used("fine", 7)]);
    let branches = [failing, refused, panicking, later, provider, vetoed, good];
    let (outcome, events) = run(branches, TokenEfficientEvaluation).await;
    let result = outcome.unwrap();
    assert_eq!(result.selected_index(), 6);
    let ends: Vec<_> = result.outcomes().map(|o| o.end.clone()).collect();
    assert!(matches!(&ends[0], BranchEnd::Ended(Ended::Error { kind: ErrorKind::Auth, .. })));
    assert_eq!(ends[1], BranchEnd::Ended(Ended::InputRejected { reason: "not here".into() }));
    assert_eq!(ends[2], BranchEnd::Panicked { message: "no tokens today".into() });
    assert!(matches!(&ends[3], BranchEnd::Panicked { message } if message.contains("no tokens for this")));
    assert!(matches!(&ends[4], BranchEnd::Ended(Ended::Error { message, .. }) if message.contains("gone")));
    assert!(matches!(&ends[5], BranchEnd::Ended(Ended::Vetoed { .. })));
    assert_eq!(ends[6], BranchEnd::Ended(Ended::Completed));
    for id in announced(&events) {
        let terminal = of_loop(&events, &id).iter().filter(|e| e.is_terminal()).count();
        assert_eq!(terminal, 1, "{id} has one end");
    }
    // What had been said before the panic is kept.
    let kept = result.outcomes().find(|o| o.index == 3).unwrap();
    assert_eq!(kept.context.history.len(), 2);
}

/// REQ-203.
#[tokio::test]
async fn where_no_branch_answered_there_is_a_typed_error_with_all_outcomes() {
    let failing = || config([ScriptedReply::error(ErrorKind::Auth, "bad key")]);
    for strategy in
        [&PickFirstEvaluation as &dyn EvaluationStrategy, &TokenEfficientEvaluation, &MostTokensEvaluation]
    {
        let (outcome, events) = run([failing(), failing()], strategy).await;
        let error = outcome.unwrap_err();
        assert!(error.to_string().contains("no branch produced an answer"), "{error}");
        assert_eq!(error.outcomes().len(), 2);
        let Some(AgentEvent::ParallelLoopEnd(end)) = events.last() else { panic!() };
        assert_eq!((&end.selected_loop_id, end.selected_config_index), (&None, None));
        assert!(end.reason.as_deref().unwrap().contains("no branch"));
    }
}

/// REQ-200: a limit stops a branch with what it has, which is better than nothing and worse than an answer.
#[tokio::test]
async fn a_branch_that_was_stopped_stands_in_only_where_none_completed() {
    let stopped = || {
        let call = ScriptedReply::call("c", "look", serde_json::json!({})).and_text("half");
        let mut config = config([call.using(Usage::new(1, 1, 0, 0))]);
        config.policy.limits = Some(ExecutionLimits::unlimited().with_max_turns(1));
        Branch::new(config).with_tools(vec![std::sync::Arc::new(ScriptedTool::saying("look", "seen")) as _])
    };
    let whole = || Branch::new(config([used("whole", 99)]));
    let (outcome, _) = run([stopped(), whole()], TokenEfficientEvaluation).await;
    assert_eq!(outcome.unwrap().selected_index(), 1);
    let failing = Branch::new(config([ScriptedReply::error(ErrorKind::Auth, "bad key")]));
    let (outcome, _) = run([failing, stopped()], PickFirstEvaluation).await;
    let selected = outcome.unwrap().selected;
    assert_eq!(selected.index, 1);
    assert_eq!(selected.final_text().as_deref(), Some("half"));
}

/// REQ-203: a branch that waits for an answer can be gone on with.
#[tokio::test]
async fn a_branch_that_asks_comes_back_as_one_that_waits() {
    let asking = config([ScriptedReply::call("c", "send", serde_json::json!({})), "sent".into()]);
    let tool = ScriptedTool::saying("send", "ok").asking("May I?");
    let asks = Branch::new(asking.clone()).with_tools(vec![std::sync::Arc::new(tool) as _]);
    let (outcome, events) = run([asks, Branch::new(config(["plain"]))], PickFirstEvaluation).await;
    let result = outcome.unwrap();
    assert_eq!(result.selected_index(), 1, "it has no answer yet");
    let mut waiting = result.others[0].clone();
    let BranchEnd::Suspended { questions } = &waiting.end else { panic!("{:?}", waiting.end) };
    let own = of_loop(&events, &waiting.loop_id);
    assert!(matches!(own.last(), Some(AgentEvent::RunSuspended { .. })));
    let answer = agent_core::agent_loop_answer(
        &mut waiting.context,
        &asking,
        questions[0].id.clone(),
        agent_core::Answer::Allow,
        EventSender::none(),
        CancellationToken::new(),
    );
    let messages = within(answer).await.unwrap();
    assert_eq!(messages.last().unwrap().text(), "sent");
}

/// REQ-199.
#[tokio::test]
async fn a_strategy_of_ones_own_that_is_wrong_or_panics_is_a_typed_error() {
    struct Wrong;
    #[async_trait]
    impl EvaluationStrategy for Wrong {
        async fn evaluate(&self, evaluation: Evaluation<'_>) -> Result<Evaluated, EvaluationError> {
            Ok(Evaluated::select(evaluation.outcomes.len()))
        }
    }
    struct Loud;
    #[async_trait]
    impl EvaluationStrategy for Loud {
        async fn evaluate(&self, _evaluation: Evaluation<'_>) -> Result<Evaluated, EvaluationError> {
            panic!("too many")
        }
    }
    let two = || [config(["a"]), config(["b"])];
    let error = run(two(), Wrong).await.0.unwrap_err();
    assert!(matches!(
        error,
        ParallelError::Evaluation { source: EvaluationError::OutOfRange { index: 2, branches: 2 }, .. }
    ));
    let error = run(two(), Box::new(Loud)).await.0.unwrap_err();
    assert!(error.to_string().contains("too many"), "{error}");
    assert_eq!(error.outcomes().len(), 2);
}

/// REQ-203: tools and system prompts of its own reach the branch, and nobody else.
#[tokio::test]
async fn a_branch_may_differ_in_more_than_its_configuration() {
    let models = [ScriptedProvider::texts(["a"]), ScriptedProvider::texts(["b"])];
    let tool = std::sync::Arc::new(ScriptedTool::saying("own", "x"));
    let branches = [
        Branch::new(config_of(&models[0])).with_tools(vec![tool as _]).with_system_prompt("Be long."),
        Branch::new(config_of(&models[1])).with_prompts(vec!["Another?".into()]),
    ];
    run(branches, PickFirstEvaluation).await.0.unwrap();
    let first = &models[0].requests()[0];
    assert_eq!((first.system_prompt.as_ref(), first.tools.definitions().len()), ("Be long.", 1));
    let second = &models[1].requests()[0];
    assert_eq!((second.system_prompt.as_ref(), second.tools.definitions().len()), ("Be brief.", 0));
    assert_eq!(second.history.last().unwrap().text(), "Another?");
    let ids: Vec<_> = [AgentContext::default(), context()].into_iter().map(|c| c.session_id).collect();
    assert_ne!(ids[0], ids[1]);
}
