use serde_json::{Value, json};

use super::*;

const KEY: &str = "sk-secret-4711";

#[track_caller]
fn read(value: Value) -> ModelConfig {
    serde_json::from_value(value).unwrap()
}

#[track_caller]
fn refused(value: Value) -> String {
    serde_json::from_value::<ModelConfig>(value).unwrap_err().to_string()
}

#[track_caller]
fn check_text(text: &str, api: ApiProtocol, provider: &str, id: &str) {
    let model: ModelConfig = text.parse().unwrap();
    assert_eq!((model.api, &*model.provider, &*model.id), (api, provider, id));
    assert_eq!(read(json!(text)), model, "a file may contain the text alone");
    assert_eq!(read(json!({ "model": text })), model);
    assert_eq!(read(serde_json::to_value(&model).unwrap()), model, "it is read back");
}

#[test]
fn a_model_string_names_a_provider_and_a_model() {
    let text = "anthropic/claude-sonnet-5-5";
    check_text(text, ApiProtocol::AnthropicMessages, "anthropic", "claude-sonnet-5-5");
    check_text("openai/gpt-6.2-sol", ApiProtocol::OpenAiCompletions, "openai", "gpt-6.2-sol");
    check_text("openai_responses/gpt-5.5-pro", ApiProtocol::OpenAiResponses, "openai", "gpt-5.5-pro");
    check_text("google/gemini-3.8-flash", ApiProtocol::GoogleGenerativeAi, "google", "gemini-3.8-flash");
    check_text("google_vertex/gemini-2.5-pro", ApiProtocol::GoogleVertex, "google_vertex", "gemini-2.5-pro");
    let claude = "claude-sonnet-4-5@20250929";
    check_text(
        &format!("anthropic_vertex/{claude}"),
        ApiProtocol::AnthropicVertex,
        "anthropic_vertex",
        claude,
    );
    check_text("azure/ours", ApiProtocol::AzureOpenAiResponses, "azure", "ours");
    check_text(
        "bedrock/amazon.nova-2-lite-v1:0",
        ApiProtocol::BedrockConverseStream,
        "bedrock",
        "amazon.nova-2-lite-v1:0",
    );
    check_text("ollama/qwen3:8b", ApiProtocol::OllamaChat, "ollama", "qwen3:8b");
    check_text("groq/openai/gpt-oss-20b", ApiProtocol::OpenAiCompletions, "groq", "openai/gpt-oss-20b");
    for text in ["", "gpt-4", "/x", "openai/"] {
        assert!(matches!(text.parse::<ModelConfig>(), Err(InvalidModelName::Form(_))), "{text:?}");
    }
    let error = "nobody/x".parse::<ModelConfig>().unwrap_err().to_string();
    assert!(error.contains("\"nobody\"") && error.contains("anthropic, openai"), "{error}");
    assert!(refused(json!({"model": "nobody/x"})).contains("nobody"));
    let own = read(json!({"model": "nobody/x", "api": "openai_completions"}));
    assert_eq!((&*own.provider, own.api), ("nobody", ApiProtocol::OpenAiCompletions));
}

fn full() -> ModelConfig {
    let mut model = ModelConfig::anthropic("claude-sonnet-5-5", "Ours", KEY)
        .with_base_url("https://proxy.example/v1?api-version=1")
        .with_key_from("OUR_KEY")
        .with_header("anthropic-beta", "context-1m")
        .without_header("x-removed")
        .with_header_from("x-tenant", "OUR_TENANT")
        .with_api_version("2026-10-21")
        .with_limits(1_000, 100)
        .with_images(false)
        .with_thinking_form(ThinkingForm::Effort, [ThinkingLevel::Low, ThinkingLevel::Max])
        .with_cost(CostConfig::per_million(1, 2, 3, 4));
    model.anthropic_auth = AnthropicAuth::OAuthClient;
    model.prompt_cache = false;
    model.region = Some("r".into());
    model.project = Some("p".into());
    model.dialect.store = Some(false);
    model
}

#[test]
fn every_setting_is_written_and_read_back_except_the_key() {
    let written = serde_json::to_value(full()).unwrap();
    assert_eq!(written["api_key_env"], "OUR_KEY");
    assert_eq!(written["headers"]["x-tenant"], json!({"env": "OUR_TENANT"}));
    assert_eq!(written["anthropic_auth"], "oauth_client");
    let mut read = read(written.clone());
    assert_eq!(read.api_key, None);
    assert_eq!(serde_json::to_value(&read).unwrap(), written);
    for fact in [ModelFact::Cost, ModelFact::Images, ModelFact::Thinking] {
        assert!(read.sets(fact), "{fact:?}");
    }
    read.api_key = Some(KEY.into());
    read.set.add(ModelFact::Limits);
    assert_eq!(read, full());
    let unknown = ModelConfig::ollama("m").with_limits(0, 0);
    let text = serde_json::to_string(&unknown).unwrap();
    assert_eq!(serde_json::from_str::<ModelConfig>(&text).unwrap(), unknown);
}

/// A model that holds a secret anywhere is written without it, or not at all.
#[test]
fn no_secret_is_written() {
    type Leak = fn(&mut ModelConfig);
    let leaks: [(&str, Leak); 9] = [
        ("a header", |m| _ = m.headers.insert("authorization".into(), Some(format!("Bearer {KEY}")))),
        ("an unknown header", |m| _ = m.headers.insert("x-internal".into(), Some(KEY.into()))),
        ("a plain header", |m| _ = m.headers.insert("User-Agent".into(), Some(format!("a {KEY}")))),
        ("the user of the address", |m| m.base_url = Some(format!("https://user:{KEY}@host/v1"))),
        ("a parameter", |m| m.base_url = Some(format!("https://host/v1?key={KEY}"))),
        ("the path", |m| m.base_url = Some(format!("https://host/{KEY}/v1"))),
        ("the name", |m| m.name = format!("with {KEY}")),
        ("the region", |m| m.region = Some(KEY.into())),
        ("the name of the variable", |m| m.api_key_env = Some(KEY.into())),
    ];
    for (place, leak) in leaks {
        let mut model = full();
        leak(&mut model);
        let error = serde_json::to_string(&model).expect_err(place).to_string();
        assert!(!error.contains(KEY), "{place}: {error}");
    }
    // A header that was read from its variable is written by the name of the variable.
    let model = full().with_secrets(|name| Some(format!("{KEY}-{name}"))).unwrap();
    assert_eq!(model.headers["x-tenant"].as_deref(), Some("sk-secret-4711-OUR_TENANT"));
    let text = serde_json::to_string(&model).unwrap();
    assert!(!text.contains(KEY) && text.contains("OUR_TENANT"), "{text}");
}

#[test]
fn a_file_with_a_secret_is_refused() {
    let key = refused(json!({"model": "openai/x", "api_key": KEY}));
    assert!(key.contains("api_key_env") && !key.contains(KEY), "{key}");
    let header = refused(json!({"model": "openai/x", "headers": {"Authorization": KEY}}));
    assert!(header.contains("env") && !header.contains(KEY), "{header}");
    let address = refused(json!({"model": "openai/x", "base_url": format!("https://a:{KEY}@host")}));
    assert!(!address.contains(KEY), "{address}");
    assert!(refused(json!({"model": "openai/x", "max_token": 1})).contains("max_token"));
}

#[test]
fn variables_are_read_by_name_or_by_the_usual_name_of_the_provider() {
    let model: ModelConfig = "groq/x".parse().unwrap();
    let usual = |name: &str| (name == "GROQ_API_KEY").then(|| format!(" {KEY}\n"));
    assert_eq!(model.clone().with_secrets(usual).unwrap().api_key, Some(KEY.into()));
    assert_eq!(model.clone().with_secrets(|_| None).unwrap().api_key, None, "a proxy may need no key");
    let error = model.clone().with_key_from("MINE").with_secrets(usual).unwrap_err();
    assert_eq!(error.variable, "MINE");
    assert_eq!(error.to_string(), "MINE is not set; groq/x needs it for its API key");
    let error = model.with_header_from("x-a", "A").with_secrets(|_| Some(" ".into())).unwrap_err();
    assert_eq!(error.needed_for, "the header \"x-a\"");
}
