//! Programs that show Looptree at work, and the part that they share: the choice of the model.
//!
//! `docs/examples.md` lists the programs. `looptree_driver` and `looptree_bench` are measured by benchmarks.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use looptree::model::ApiProtocol;
use looptree::prelude::*;
use looptree::testing::ScriptedProvider;
use looptree::{ProviderRegistry, providers::catalogue};

/// Returns an agent with the model of the command line, and without one an agent that answers from `script`.
///
/// # Errors
/// Returns the errors of [`model`].
pub fn agent(script: ScriptedProvider) -> Result<BasicAgent> {
    if let Some(model) = model()? {
        return Ok(looptree::agent(model));
    }
    // The script is a provider beside the built-in ones, so that the model can be changed later.
    let mut registry = ProviderRegistry::default();
    registry.register(ApiProtocol::custom("script")?, Arc::new(script));
    let model = ModelConfig::custom("script", "examples", "script")?.with_limits(100_000, 8_000);
    Ok(looptree::agent(model).with_provider(registry))
}

/// Returns the model that the argument `--model` or the environment variable `MODEL` names, with its key; `None` without
/// both. Says on the standard error output which model answers.
///
/// # Errors
/// Returns the errors of [`named`], and one for `--model` without a value.
#[expect(clippy::disallowed_methods, clippy::print_stderr, reason = "programs that talk to the user")]
pub fn model() -> Result<Option<ModelConfig>> {
    let text = match std::env::args().position(|argument| argument == "--model") {
        Some(at) => Some(std::env::args().nth(at + 1).context("--model needs a name, such as ollama/qwen3")?),
        None => std::env::var("MODEL").ok().filter(|text| !text.trim().is_empty()),
    };
    let model = text.map(|text| named(&text)).transpose()?;
    match &model {
        Some(model) => eprintln!("(model: {}/{})", model.provider, model.id),
        None => eprintln!("(a script answers; --model PROVIDER/ID asks a real model)"),
    }
    Ok(model)
}

/// Returns the model of a text such as `anthropic/claude-sonnet-5-5`, or of a JSON object with further settings such as
/// `{"model": "azure/my-deployment", "base_url": "https://my-resource.openai.azure.com"}`. The key is read from the
/// environment variable of the provider.
///
/// # Errors
/// Returns an error if the text is invalid, or if this program was built without the protocol of the model.
#[expect(clippy::disallowed_methods, reason = "a program reads its keys from the environment")]
pub fn named(text: &str) -> Result<ModelConfig> {
    let model: ModelConfig = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).context("--model is no valid description of a model")?
    } else {
        catalogue::named(text)?
    };
    if !ProviderRegistry::default().serves(model.api) {
        let (provider, id) = (&model.provider, &model.id);
        bail!(
            "{provider}/{id} needs a protocol that is not built in: add `--features all-providers` to cargo run"
        );
    }
    Ok(model.with_secrets(|name| std::env::var(name).ok())?)
}

/// Returns the arguments of the program without `--model` and its value.
#[must_use]
pub fn arguments() -> Vec<String> {
    let mut all: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = all.iter().position(|argument| argument == "--model") {
        all.drain(at..all.len().min(at + 2));
    }
    all
}
