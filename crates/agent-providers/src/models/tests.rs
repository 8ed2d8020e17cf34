use super::*;

#[track_caller]
fn check(api: ApiProtocol, calls: &str, expect: &str) {
    assert_eq!(list_url(api, &Url::parse(calls).unwrap()).as_str(), expect);
}

#[test]
fn the_list_is_beside_the_calls() {
    use ApiProtocol::{
        AnthropicMessages, AzureOpenAiResponses, GoogleGenerativeAi, OllamaChat, OpenAiCompletions,
        OpenAiResponses,
    };
    check(AnthropicMessages, "https://h/v1/messages", "https://h/v1/models?limit=1000");
    check(OpenAiCompletions, "https://h/v1/chat/completions", "https://h/v1/models");
    check(OpenAiResponses, "https://h/v1/responses", "https://h/v1/models");
    let azure = ("https://h/openai/v1/responses?api-version=p", "https://h/openai/v1/models?api-version=p");
    check(AzureOpenAiResponses, azure.0, azure.1);
    let gemini = "https://h/v1beta/models/m:streamGenerateContent?alt=sse";
    check(GoogleGenerativeAi, gemini, "https://h/v1beta/models?pageSize=1000");
    check(OllamaChat, "http://h:1/api/chat", "http://h:1/api/tags");
}
