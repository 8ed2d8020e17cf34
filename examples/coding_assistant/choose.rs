//! Which model: flags, keys in the environment, an Ollama server, else the recording.

use anyhow::{Result, bail};
use looptree::ModelConfig;
use looptree::providers::catalogue;

use crate::args::Args;
use crate::ollama_server;

pub(crate) enum Chosen {
    Model(Box<ModelConfig>),
    Recording,
}

/// A provider that takes a key: its name, the variable with the key, where it is, and the model to begin with.
struct Hosted {
    name: &'static str,
    key: &'static str,
    base_url: Option<&'static str>,
    model: &'static str,
}

const HOSTED: &[Hosted] = &[
    Hosted { name: "anthropic", key: "ANTHROPIC_API_KEY", base_url: None, model: "claude-sonnet-4-6" },
    Hosted { name: "openai", key: "OPENAI_API_KEY", base_url: None, model: "gpt-5.1" },
    Hosted {
        name: "openrouter",
        key: "OPENROUTER_API_KEY",
        base_url: Some("https://openrouter.ai/api/v1"),
        model: "anthropic/claude-sonnet-4.6",
    },
    Hosted {
        name: "groq",
        key: "GROQ_API_KEY",
        base_url: Some("https://api.groq.com/openai/v1"),
        model: "openai/gpt-oss-120b",
    },
    Hosted { name: "xai", key: "XAI_API_KEY", base_url: Some("https://api.x.ai/v1"), model: "grok-4" },
    Hosted {
        name: "deepseek",
        key: "DEEPSEEK_API_KEY",
        base_url: Some("https://api.deepseek.com/v1"),
        model: "deepseek-chat",
    },
    Hosted {
        name: "mistral",
        key: "MISTRAL_API_KEY",
        base_url: Some("https://api.mistral.ai/v1"),
        model: "devstral-medium-latest",
    },
];

pub(crate) async fn choose(args: &Args) -> Result<Chosen> {
    if let Some(name) = &args.provider {
        return by_name(name, args).await;
    }
    if let Some(url) = &args.base_url {
        return Ok(chosen(local(url, args)?, args));
    }
    for hosted in HOSTED {
        if let Some(key) = key(hosted) {
            return Ok(chosen(hosted_model(hosted, &key, args), args));
        }
    }
    if let Some(server) = ollama_server::find().await {
        let model = args.model.clone().or_else(|| server.best_model());
        if let Some(model) = model {
            return Ok(chosen(ModelConfig::ollama(model).with_base_url(server.url), args));
        }
    }
    if args.model.is_some() || args.task.is_some() {
        bail!("{}", no_model());
    }
    Ok(Chosen::Recording)
}

/// Returns the message for a task without a model.
fn no_model() -> String {
    format!("there is no model to work with. {}", three_ways())
}

/// The ways to a real model.
pub(crate) fn three_ways() -> String {
    "Three ways to a real model:\n  \
     1. a key:    ANTHROPIC_API_KEY=... cargo run --example coding_assistant -- \"your task\"\n  \
     2. Ollama:   ollama pull qwen3-coder:30b, then cargo run --example coding_assistant -- \"your task\"\n  \
     3. a server: cargo run --example coding_assistant -- --base-url http://localhost:8080/v1 --model NAME \"your task\""
        .to_owned()
}

async fn by_name(name: &str, args: &Args) -> Result<Chosen> {
    if name == "ollama" {
        let server = ollama_server::find().await;
        let found = server.as_ref().and_then(ollama_server::Server::best_model);
        let model = args.model.clone().or(found).unwrap_or_else(|| ModelConfig::default().id);
        let mut config = ModelConfig::ollama(model);
        if let Some(url) = args.base_url.clone().or(server.map(|s| s.url)) {
            config = config.with_base_url(url);
        }
        return Ok(chosen(config, args));
    }
    if name == "local" {
        let Some(url) = &args.base_url else {
            bail!("--provider local wants --base-url, for example http://localhost:8080/v1")
        };
        return Ok(chosen(local(url, args)?, args));
    }
    let Some(hosted) = HOSTED.iter().find(|h| h.name == name) else {
        let names: Vec<_> = HOSTED.iter().map(|h| h.name).chain(["ollama", "local"]).collect();
        bail!("there is no provider {name:?}; known are {}", names.join(", "));
    };
    let Some(key) = key(hosted) else { bail!("{} is not set; {name} wants a key", hosted.key) };
    Ok(chosen(hosted_model(hosted, &key, args), args))
}

fn local(url: &str, args: &Args) -> Result<ModelConfig> {
    let Some(model) = &args.model else {
        bail!("--base-url wants --model, too: which model does the server have?")
    };
    Ok(ModelConfig::local(url, model, std::env::var("LOCAL_API_KEY").unwrap_or_default()))
}

fn key(hosted: &Hosted) -> Option<String> {
    std::env::var(hosted.key).ok().filter(|k| !k.trim().is_empty())
}

fn hosted_model(hosted: &Hosted, key: &str, args: &Args) -> ModelConfig {
    let id = args.model.as_deref().unwrap_or(hosted.model);
    let mut model = match hosted.name {
        "anthropic" => ModelConfig::anthropic(id, id, key),
        "openai" => ModelConfig::openai(id, id, key),
        "openrouter" => ModelConfig::openrouter(id, key),
        _ => ModelConfig::local(hosted.base_url.unwrap_or_default(), id, key),
    };
    hosted.name.clone_into(&mut model.provider);
    model
}

fn chosen(model: ModelConfig, args: &Args) -> Chosen {
    let model = catalogue::configure(model);
    Chosen::Model(Box::new(match &args.base_url {
        Some(url) => model.with_base_url(url),
        None => model,
    }))
}
