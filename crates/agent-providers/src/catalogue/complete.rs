//! Adds the facts of the catalogue to a model, without those that the caller has set.

use agent_core::{ApiProtocol, ModelConfig, ModelFact};

use super::ModelFacts;

/// Returns `model` with the facts that the caller has not set, or `None` if it has all of them.
pub(super) fn completed(facts: &ModelFacts, model: &ModelConfig) -> Option<ModelConfig> {
    // Each start of a run comes here, so a model that has its facts is not copied.
    if facts.are_of(model) {
        return None;
    }
    let usual = constructed(model);
    let mut new = model.clone();
    let is_open = |fact, has_default: bool| has_default && !model.sets(fact);
    if is_open(ModelFact::Limits, true) {
        new.context_window = model.context_window.or(facts.context_window);
        new.max_tokens = model.max_tokens.or(facts.max_tokens);
    }
    if is_open(ModelFact::Images, model.images == usual.images) {
        new.images = facts.images.unwrap_or(model.images);
    }
    let has_default = model.thinking == usual.thinking && model.thinking_levels == usual.thinking_levels;
    if let Some(thinking) = facts.thinking
        && is_open(ModelFact::Thinking, has_default)
    {
        new.thinking = thinking;
        new.thinking_levels.clone_from(&facts.thinking_levels);
    }
    if is_open(ModelFact::Cost, model.cost == usual.cost) {
        new.cost = facts.cost.clone();
    }
    (new != *model).then_some(new)
}

/// Returns the model as its constructor creates it.
fn constructed(model: &ModelConfig) -> ModelConfig {
    let id = model.id.as_str();
    match (model.api, model.provider.as_str()) {
        (ApiProtocol::AnthropicMessages, _) => ModelConfig::anthropic(id, id, ""),
        (ApiProtocol::OpenAiCompletions, "openai") => ModelConfig::openai(id, id, ""),
        (ApiProtocol::OpenAiCompletions, "openrouter") => ModelConfig::openrouter(id, ""),
        (ApiProtocol::OpenAiResponses, "openai") => ModelConfig::openai_responses(id, id, ""),
        (ApiProtocol::AzureOpenAiResponses, "azure") => ModelConfig::azure("", id, ""),
        (ApiProtocol::OllamaChat, _) => ModelConfig::ollama(id),
        (ApiProtocol::GoogleGenerativeAi, _) => ModelConfig::google(id, id, ""),
        (ApiProtocol::GoogleVertex, _) => ModelConfig::vertex("", "", id),
        (ApiProtocol::AnthropicVertex, _) => ModelConfig::vertex_claude("", "", id),
        (ApiProtocol::BedrockConverseStream, _) => ModelConfig::bedrock("", id),
        (api, provider) => ModelConfig::new(api, provider, id),
    }
}
