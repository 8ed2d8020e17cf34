//! Which models the server has: those of every provider whose key is in the environment, and of Ollama.

use looptree::ModelConfig;
use looptree::providers::catalogue;

/// A provider that takes a key: its name, the variable with the key, and where it is.
const HOSTED: &[(&str, &str, &str)] = &[
    ("anthropic", "ANTHROPIC_API_KEY", ""),
    ("openai", "OPENAI_API_KEY", ""),
    ("openrouter", "OPENROUTER_API_KEY", ""),
    ("groq", "GROQ_API_KEY", "https://api.groq.com/openai/v1"),
    ("xai", "XAI_API_KEY", "https://api.x.ai/v1"),
    ("deepseek", "DEEPSEEK_API_KEY", "https://api.deepseek.com/v1"),
    ("mistral", "MISTRAL_API_KEY", "https://api.mistral.ai/v1"),
];

pub(crate) struct Models {
    keys: Vec<(&'static str, &'static str, String)>,
}

pub(crate) fn from_environment() -> Models {
    let keys = HOSTED.iter().filter_map(|(name, variable, base_url)| {
        let key = std::env::var(variable).ok().filter(|k| !k.trim().is_empty())?;
        Some((*name, *base_url, key))
    });
    Models { keys: keys.collect() }
}

impl Models {
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.keys.iter().map(|(name, ..)| *name).chain(["ollama"]).collect()
    }

    pub(crate) fn find(&self, provider: &str, id: &str) -> Option<ModelConfig> {
        if provider == "ollama" {
            return Some(catalogue::configure(ModelConfig::ollama(id)));
        }
        let (name, base_url, key) = self.keys.iter().find(|(name, ..)| *name == provider)?;
        let mut model = match *name {
            "anthropic" => ModelConfig::anthropic(id, id, key.as_str()),
            "openai" => ModelConfig::openai(id, id, key.as_str()),
            "openrouter" => ModelConfig::openrouter(id, key.as_str()),
            _ => ModelConfig::local(*base_url, id, key.as_str()),
        };
        (*name).clone_into(&mut model.provider);
        Some(catalogue::configure(model))
    }
}
