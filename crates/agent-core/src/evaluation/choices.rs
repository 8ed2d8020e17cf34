//! The strategies that call no model.

use std::cmp::Reverse;

use async_trait::async_trait;

use super::{Evaluated, Evaluation, EvaluationError, EvaluationStrategy};

/// Selects the only branch, however it ended. Several branches are an error.
#[derive(Debug, Clone, Copy, Default)]
pub struct OnlyBranchEvaluation;

/// Selects the first candidate.
#[derive(Debug, Clone, Copy, Default)]
pub struct PickFirstEvaluation;

/// Selects the candidate with the fewest tokens, including those of its tools. Among equals it selects the first.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokenEfficientEvaluation;

/// Selects the candidate with the most tokens, including those of its tools. Among equals it selects the first.
#[derive(Debug, Clone, Copy, Default)]
pub struct MostTokensEvaluation;

#[async_trait]
impl EvaluationStrategy for OnlyBranchEvaluation {
    async fn evaluate(&self, evaluation: Evaluation<'_>) -> Result<Evaluated, EvaluationError> {
        match evaluation.outcomes {
            [one] => Ok(Evaluated::select(one.index)),
            more => Err(EvaluationError::NotOne { branches: more.len() }),
        }
    }
}

#[async_trait]
impl EvaluationStrategy for PickFirstEvaluation {
    async fn evaluate(&self, evaluation: Evaluation<'_>) -> Result<Evaluated, EvaluationError> {
        let candidates = evaluation.candidates()?;
        candidates.first().map(|o| Evaluated::select(o.index)).ok_or(EvaluationError::NoCandidate)
    }
}

#[async_trait]
impl EvaluationStrategy for TokenEfficientEvaluation {
    async fn evaluate(&self, evaluation: Evaluation<'_>) -> Result<Evaluated, EvaluationError> {
        let candidates = evaluation.candidates()?;
        let fewest = candidates.iter().min_by_key(|o| o.total_usage().total_tokens);
        fewest.map(|o| Evaluated::select(o.index)).ok_or(EvaluationError::NoCandidate)
    }
}

#[async_trait]
impl EvaluationStrategy for MostTokensEvaluation {
    async fn evaluate(&self, evaluation: Evaluation<'_>) -> Result<Evaluated, EvaluationError> {
        let candidates = evaluation.candidates()?;
        // `max_by_key` would return the last of several equal candidates.
        let most = candidates.iter().min_by_key(|o| Reverse(o.total_usage().total_tokens));
        most.map(|o| Evaluated::select(o.index)).ok_or(EvaluationError::NoCandidate)
    }
}
