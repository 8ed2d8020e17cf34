//! Branches by the names that a program uses.
#![cfg(all(feature = "session", feature = "tools"))]

use looptree::AgentLoopConfig;
use looptree::CancellationToken;
use looptree::EventSender;
use looptree::drive::AgentContext;
use looptree::evaluation::LlmJudgeEvaluation;
use looptree::evaluation::PickFirstEvaluation;
use looptree::parallel::Branch;
use looptree::parallel::agent_loop_parallel;
use std::sync::Arc;

use looptree::evaluation::EvaluationStrategy;
use looptree::evaluation::MostTokensEvaluation;
use looptree::evaluation::OnlyBranchEvaluation;
use looptree::evaluation::TokenEfficientEvaluation;
use looptree::parallel::ParallelError;
use looptree::prelude::*;
use looptree::testing::ScriptedProvider;

fn config(answer: &'static str) -> AgentLoopConfig {
    AgentLoopConfig::system(Arc::new(ScriptedProvider::texts([answer])), ModelConfig::default())
}

/// REQ-204.
#[tokio::test]
async fn parallel_loops_and_all_five_strategies_are_at_the_root() -> Result<(), ParallelError> {
    let strategies: [(usize, Box<dyn EvaluationStrategy>); 5] = [
        (1, Box::new(OnlyBranchEvaluation)),
        (2, Box::new(PickFirstEvaluation)),
        (2, Box::new(TokenEfficientEvaluation)),
        (2, Box::new(MostTokensEvaluation)),
        (2, Box::new(LlmJudgeEvaluation::new(config("1")))),
    ];
    for (branches, strategy) in strategies {
        let branches = (0..branches).map(|_| Branch::new(config("yes")));
        let (context, cancel) = (AgentContext::new("Be brief."), CancellationToken::new());
        let prompts = vec!["Is it?".into()];
        let result =
            agent_loop_parallel(prompts, context, branches, strategy, EventSender::none(), cancel).await?;
        assert_eq!(result.selected_index(), 0);
    }
    Ok(())
}
