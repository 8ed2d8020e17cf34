//! Models of Azure, Google Cloud and AWS: the variables that the vendors' own programs read, too.

use looptree::model::{ApiProtocol, ModelConfig};

/// The variables that AWS's own programs read for a key. Further credentials are found when the model is called.
const AWS: [&str; 3] = ["AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"];

/// The variable with the address of an Azure resource.
pub(super) const AZURE_ADDRESS: &str = "AZURE_OPENAI_ENDPOINT";

/// Returns the model with its address, project and region, where it has none.
pub(super) fn located(mut model: ModelConfig, read: impl Fn(&str) -> Option<String>) -> ModelConfig {
    match model.api {
        ApiProtocol::AzureOpenAiResponses => {
            model.base_url = model.base_url.or_else(|| read(AZURE_ADDRESS));
        }
        ApiProtocol::GoogleVertex | ApiProtocol::AnthropicVertex => {
            model.project = model.project.or_else(|| read("GOOGLE_CLOUD_PROJECT"));
            model.region = model.region.or_else(|| read("GOOGLE_CLOUD_LOCATION"));
        }
        ApiProtocol::BedrockConverseStream => {
            let region = || read("AWS_REGION").or_else(|| read("AWS_DEFAULT_REGION"));
            model.region = model.region.or_else(region);
        }
        _ => {}
    }
    model
}

/// Returns whether the program that calls the model finds its credentials without a key of this command.
pub(super) fn finds_credentials(api: ApiProtocol) -> bool {
    matches!(
        api,
        ApiProtocol::GoogleVertex | ApiProtocol::AnthropicVertex | ApiProtocol::BedrockConverseStream
    )
}

/// Returns whether the environment names credentials of a provider that finds them itself; `None` for other providers.
pub(super) fn has_credentials(provider: &str, read: impl Fn(&str) -> Option<String>) -> Option<bool> {
    match provider {
        "google_vertex" | "anthropic_vertex" => Some(read("GOOGLE_CLOUD_PROJECT").is_some()),
        "bedrock" => Some(AWS.iter().any(|name| read(name).is_some())),
        _ => None,
    }
}
