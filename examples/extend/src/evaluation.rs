//! An evaluation strategy.

use async_trait::async_trait;
use looptree::evaluation::{Evaluated, Evaluation, EvaluationError, EvaluationStrategy};

/// Selects the shortest answer that contains a word.
#[derive(Debug)]
pub struct Mentions(pub &'static str);

#[async_trait]
impl EvaluationStrategy for Mentions {
    async fn evaluate(&self, evaluation: Evaluation<'_>) -> Result<Evaluated, EvaluationError> {
        let candidates = evaluation.candidates()?;
        let answers = candidates.iter().filter_map(|branch| Some((branch.index, branch.final_text()?)));
        let fitting = answers.filter(|(_, text)| text.contains(self.0));
        let shortest = fitting.min_by_key(|(_, text)| text.len());
        shortest.map(|(index, _)| Evaluated::select(index)).ok_or(EvaluationError::NoCandidate)
    }
}
