//! The output limit of a request, which Anthropic's API requires.

use agent_core::ModelConfig;

use crate::catalogue;

/// Returns the output limit of a model. If it is unknown, returns the greatest limit of the known models whose ids have the
/// most leading parts in common with its id: `claude-sonnet-9` gets the greatest limit of the Sonnet models.
pub(crate) fn required(model: &ModelConfig) -> u32 {
    model.max_tokens.filter(|limit| *limit > 0).unwrap_or_else(|| of_family(&model.id))
}

fn of_family(id: &str) -> u32 {
    let common = |known: &str| id.split('-').zip(known.split('-')).take_while(|(a, b)| a == b).count();
    let claude = catalogue::models().iter().filter(|known| known.provider == "anthropic");
    let nearest = claude.filter_map(|known| Some((common(&known.id), known.max_tokens?))).max();
    // The catalogue has models of Anthropic, so the smallest valid limit is never returned.
    nearest.map_or(1, |(_, limit)| limit)
}
