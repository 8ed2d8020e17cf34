//! Where people usually keep the keys of providers. Only named in advice; nothing here reads the environment.

/// The usual environment variable for the key of `provider`.
pub(crate) fn variable(provider: &str) -> Option<&'static str> {
    Some(match provider {
        "anthropic" => "ANTHROPIC_API_KEY",
        "openai" => "OPENAI_API_KEY",
        "azure" | "azure_openai" => "AZURE_OPENAI_API_KEY",
        "bedrock" | "amazon-bedrock" => "AWS_BEARER_TOKEN_BEDROCK",
        "google" => "GEMINI_API_KEY",
        "groq" => "GROQ_API_KEY",
        "cerebras" => "CEREBRAS_API_KEY",
        "xai" => "XAI_API_KEY",
        "openrouter" => "OPENROUTER_API_KEY",
        "vercel" => "AI_GATEWAY_API_KEY",
        "zai" => "ZAI_API_KEY",
        "mistral" => "MISTRAL_API_KEY",
        "minimax" => "MINIMAX_API_KEY",
        "huggingface" => "HF_TOKEN",
        "deepseek" => "DEEPSEEK_API_KEY",
        "moonshot" => "MOONSHOT_API_KEY",
        "qwen" => "DASHSCOPE_API_KEY",
        "together" => "TOGETHER_API_KEY",
        "fireworks" => "FIREWORKS_API_KEY",
        "perplexity" => "PERPLEXITY_API_KEY",
        "nvidia" => "NVIDIA_API_KEY",
        _ => return None,
    })
}
