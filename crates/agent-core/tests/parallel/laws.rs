//! Whatever becomes of branches, one is selected or there is a typed error.

use std::sync::Arc;

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed};
use agent_core::{
    AgentEvent, AgentLoopConfig, Branch, ErrorKind, EvaluationError, EvaluationStrategy, ExecutionLimits,
    Hooks, LlmJudgeEvaluation, MostTokensEvaluation, OnlyBranchEvaluation, ParallelError,
    PickFirstEvaluation, RetryConfig, TokenEfficientEvaluation, Usage,
};
use proptest::prelude::*;
use serde_json::json;

use crate::group::{announced, config, of_loop, run};

/// What becomes of a branch.
#[derive(Debug, Clone)]
enum Fate {
    Answers(u64),
    SaysNothing,
    Fails,
    Panics,
    Refused,
    Limited,
    Asks,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        3 => (0u64..50).prop_map(Fate::Answers),
        1 => Just(Fate::SaysNothing),
        1 => Just(Fate::Fails),
        1 => Just(Fate::Panics),
        1 => Just(Fate::Refused),
        1 => Just(Fate::Limited),
        1 => Just(Fate::Asks),
    ]
}

impl Fate {
    fn branch(&self) -> Branch {
        let call = || ScriptedReply::call("c", "send", json!({})).and_text("half");
        let reply = match self {
            Self::Answers(tokens) => ScriptedReply::text("answer").using(Usage::new(*tokens, 1, 0, 0)),
            Self::SaysNothing | Self::Refused => ScriptedReply::new(),
            Self::Fails => ScriptedReply::error(ErrorKind::Auth, "bad key"),
            Self::Panics => ScriptedReply::new().and_text("x").and_panic("gone"),
            Self::Limited | Self::Asks => call(),
        };
        let mut config: AgentLoopConfig = config([reply]);
        config.policy.retry = RetryConfig::none();
        if matches!(self, Self::Refused) {
            *config.hooks = Hooks::new().before_loop(|_| async { false });
        }
        if matches!(self, Self::Limited) {
            config.policy.limits = Some(ExecutionLimits::unlimited().with_max_turns(1));
        }
        let mut tool = ScriptedTool::saying("send", "ok");
        if matches!(self, Self::Asks) {
            tool = tool.asking("May I?");
        }
        Branch::new(config).with_tools(vec![Arc::new(tool) as _])
    }

    fn completes(&self) -> bool {
        matches!(self, Self::Answers(_) | Self::SaysNothing)
    }
}

fn strategies() -> Vec<(&'static str, Box<dyn EvaluationStrategy>)> {
    let judge = |text: &str| {
        let mut config = config(Vec::<ScriptedReply>::new());
        config.services.provider = Arc::new(ScriptedProvider::texts([text]));
        Box::new(LlmJudgeEvaluation::new(config))
    };
    vec![
        ("transparent", Box::new(OnlyBranchEvaluation)),
        ("first", Box::new(PickFirstEvaluation)),
        ("fewest", Box::new(TokenEfficientEvaluation)),
        ("most", Box::new(MostTokensEvaluation)),
        ("judge 2", judge("2")),
        ("judge 99", judge("99")),
        ("judge none", judge("neither")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// REQ-203, REQ-200.
    #[test]
    fn any_outcomes_give_one_selected_branch_or_a_typed_error(fates in prop::collection::vec(fate(), 0..6)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for (name, strategy) in strategies() {
            let (outcome, events) =
                runtime.block_on(run(fates.iter().map(Fate::branch).collect::<Vec<_>>(), strategy));
            if fates.is_empty() {
                prop_assert!(matches!(outcome, Err(ParallelError::NoBranches)));
                prop_assert!(events.is_empty());
                continue;
            }
            let completed = fates.iter().filter(|f| f.completes()).count();
            let partial = fates.iter().filter(|f| matches!(f, Fate::Limited)).count();
            match outcome {
                Ok(result) => {
                    let indexes: Vec<usize> = result.outcomes().map(|o| o.index).collect();
                    prop_assert_eq!(indexes, (0..fates.len()).collect::<Vec<_>>());
                    let fate = &fates[result.selected_index()];
                    let fair = fate.completes() || (completed == 0 && matches!(fate, Fate::Limited));
                    prop_assert!(fair || name == "transparent", "{name} selected {fate:?}");
                }
                Err(ParallelError::Evaluation { source, outcomes }) => {
                    prop_assert_eq!(outcomes.len(), fates.len());
                    match source {
                        EvaluationError::NoCandidate => prop_assert_eq!((completed, partial), (0, 0)),
                        EvaluationError::NotOne { branches } => prop_assert!(name == "transparent" && branches > 1),
                        other => prop_assert!(false, "{other}"),
                    }
                }
                Err(other) => prop_assert!(false, "{other}"),
            }
            let ids = announced(&events);
            prop_assert_eq!(ids.len(), fates.len());
            for id in &ids {
                let own = of_loop(&events, id);
                prop_assert_eq!(own.iter().filter(|e| e.is_terminal()).count(), 1);
                assert_well_formed(&own);
            }
            let ends = events.iter().filter(|e| matches!(e, AgentEvent::ParallelLoopEnd(_))).count();
            prop_assert!(ends == 1 && matches!(events.last(), Some(AgentEvent::ParallelLoopEnd(_))));
        }
    }
}
