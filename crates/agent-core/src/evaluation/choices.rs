//! The strategies that ask nobody.

use std::cmp::Reverse;

use async_trait::async_trait;

use super::{Evaluated, Evaluation, EvaluationError, EvaluationStrategy};

/// Passes the one branch through, however it ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct TransparentEvaluation;

/// Selects the first candidate.
#[derive(Debug, Clone, Copy, Default)]
pub struct PickFirstEvaluation;

/// Selects the candidate that used the fewest tokens, those of its tools included; of equals the first.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokenEfficientEvaluation;

/// Selects the candidate that used the most tokens, those of its tools included; of equals the first.
#[derive(Debug, Clone, Copy, Default)]
pub struct ElaborateEvaluation;

#[async_trait]
impl EvaluationStrategy for TransparentEvaluation {
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
impl EvaluationStrategy for ElaborateEvaluation {
    async fn evaluate(&self, evaluation: Evaluation<'_>) -> Result<Evaluated, EvaluationError> {
        let candidates = evaluation.candidates()?;
        // `max_by_key` would give the last of equals.
        let most = candidates.iter().min_by_key(|o| Reverse(o.total_usage().total_tokens));
        most.map(|o| Evaluated::select(o.index)).ok_or(EvaluationError::NoCandidate)
    }
}
