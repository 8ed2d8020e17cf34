//! Filling a prompt cache without a reply: the exact body where a vendor has it, and a typed error before anything is sent
//! elsewhere.

use std::sync::Arc;

use agent_core::model::{PrewarmError, ThinkingForm};
use agent_core::{
    CacheConfig, CacheStrategy, CancellationToken, ModelRequest, ProviderError, ResponseFormat,
    ThinkingLevel, ToolChoice, ToolDefinition, Usage, provider,
};
use agent_providers::ProviderRegistry;
use serde_json::{Value, json};

use crate::eight::{ANTHROPIC, AZURE, EVERY, RESPONSES, Said, Vendor};
use crate::support::{Act, Server, hello, piece};

/// Sends a request that only fills the cache, with these changes, and returns what arrived and what the call returned.
async fn warm(
    vendor: Vendor,
    model: &str,
    answer: Vec<Act>,
    change: impl Fn(&mut ModelRequest),
) -> (Vec<Value>, Result<Usage, ProviderError>) {
    let server = Server::start(vec![answer]).await;
    let mut config = vendor.at(&server.url());
    config.id = model.to_owned();
    let mut request = hello(config);
    request.system_prompt = "Be brief.".into();
    request.tools =
        vec![ToolDefinition::new("look", "Looks.", json!({"type": "object", "properties": {}}))].into();
    change(&mut request);
    let used = provider::prewarm(&ProviderRegistry::default(), &request, &CancellationToken::new()).await;
    (server.asked().iter().map(crate::support::Asked::json).collect(), used)
}

/// The whole answer of Anthropic: JSON and not a stream, without a block.
fn of_anthropic() -> Vec<Act> {
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [],
        "stop_reason": "max_tokens", "usage": {"input_tokens": 3, "output_tokens": 0,
            "cache_creation_input_tokens": 5_000, "cache_read_input_tokens": 0}});
    vec![crate::support::head(200, "application/json"), piece(&message.to_string()), Act::End]
}

fn of_openai() -> Vec<Act> {
    let usage = json!({"input_tokens": 5_003, "output_tokens": 0, "total_tokens": 5_003,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 5_000}});
    let response = json!({"id": "resp_1", "status": "completed", "output": [], "usage": usage});
    let events = [
        json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}),
        json!({"type": "response.completed", "response": response}),
    ];
    let text: String =
        events.iter().map(|e| format!("event: {}\ndata: {e}\n\n", e["type"].as_str().unwrap())).collect();
    vec![crate::support::sse(), piece(&text), Act::End]
}

#[tokio::test]
async fn anthropic_gets_no_output_limit_and_no_stream() {
    let (sent, used) = warm(ANTHROPIC, "claude-opus-5", of_anthropic(), |_| {}).await;
    let used = used.unwrap();
    assert_eq!((used.input, used.output, used.cache_write), (3, 0, 5_000));
    let [body] = &*sent else { panic!("{sent:?}") };
    assert_eq!((&body["max_tokens"], &body["stream"]), (&json!(0), &json!(false)));
    let marker = json!({"type": "ephemeral"});
    assert_eq!(body["system"][0]["cache_control"], marker);
    assert_eq!(body["tools"][0]["cache_control"], marker);

    // The API counts a budget of thinking as output, so such a request has none.
    let budget = |r: &mut ModelRequest| {
        Arc::make_mut(&mut r.model).thinking = ThinkingForm::Budget;
        r.options.thinking_level = ThinkingLevel::High;
    };
    let (sent, used) = warm(ANTHROPIC, "claude-sonnet-4-5", of_anthropic(), budget).await;
    assert!(used.is_ok(), "{used:?}");
    assert_eq!((sent[0].get("thinking"), &sent[0]["max_tokens"]), (None, &json!(0)));
}

#[tokio::test]
async fn the_prompt_of_a_filled_cache_is_that_of_the_next_request() {
    let prompt = |body: &Value| json!([body["tools"], body["system"], body["messages"], body["input"]]);
    for (vendor, model, answer) in
        [(ANTHROPIC, "claude-opus-5", of_anthropic()), (RESPONSES, "gpt-6", of_openai())]
    {
        let (filled, _) = warm(vendor, model, answer, |_| {}).await;
        let server = Server::start(vec![vendor.answer(&Said::text("done"))]).await;
        let mut config = vendor.at(&server.url());
        config.id = model.to_owned();
        let mut request = hello(config);
        request.system_prompt = "Be brief.".into();
        request.tools =
            vec![ToolDefinition::new("look", "Looks.", json!({"type": "object", "properties": {}}))].into();
        crate::support::call(&ProviderRegistry::default(), &request).await.end.unwrap();
        assert_eq!(prompt(&filled[0]), prompt(&server.asked()[0].json()), "{}", vendor.name);
    }
}

#[tokio::test]
async fn openai_gets_the_option_of_its_cache() {
    for vendor in [RESPONSES, AZURE] {
        let (sent, used) = warm(vendor, "gpt-6", of_openai(), |_| {}).await;
        let used = used.unwrap();
        assert_eq!((used.input, used.output, used.cache_write), (3, 0, 5_000), "{}", vendor.name);
        let [body] = &*sent else { panic!("{sent:?}") };
        assert_eq!(body["prompt_cache_options"], json!({"prewarm": true}), "{}", vendor.name);
    }
}

#[track_caller]
fn refused((sent, used): (Vec<Value>, Result<Usage, ProviderError>), expected: &PrewarmError) {
    assert_eq!(sent, Vec::<Value>::new(), "it was sent");
    let error = used.unwrap_err();
    let source =
        error.context().and_then(|c| c.source.as_ref()).and_then(|s| s.downcast_ref::<PrewarmError>());
    assert_eq!(source, Some(expected), "{error}");
    assert_eq!(error.context().unwrap().advice.as_deref(), Some(expected.advice()));
}

#[tokio::test]
async fn a_vendor_without_it_is_an_error_before_the_request() {
    for vendor in EVERY {
        let expected = match vendor {
            ANTHROPIC => continue,
            // An older model of a protocol that has it.
            RESPONSES | AZURE => PrewarmError::Model,
            _ => PrewarmError::Protocol { protocol: vendor.api },
        };
        refused(warm(vendor, vendor.model, vec![], |_| {}).await, &expected);
    }
}

#[tokio::test]
async fn settings_that_exclude_it_are_errors_before_the_request() {
    type Change = fn(&mut ModelRequest);
    let schema =
        ResponseFormat::JsonSchema { name: "n".into(), schema: json!({"type": "object"}), strict: true };
    let with_schema = |r: &mut ModelRequest| r.options.response_format = schema.clone();
    refused(
        warm(ANTHROPIC, "claude-opus-5", vec![], with_schema).await,
        &PrewarmError::Setting { name: "response_format" },
    );
    let forced: Change = |r| r.options.tool_choice = ToolChoice::Required;
    refused(
        warm(ANTHROPIC, "claude-sonnet-4-6", vec![], forced).await,
        &PrewarmError::Setting { name: "tool_choice" },
    );
    let unmarked: Change = |r| {
        r.options.cache_config = CacheConfig { strategy: CacheStrategy::Disabled, ..CacheConfig::default() };
    };
    refused(warm(ANTHROPIC, "claude-opus-5", vec![], unmarked).await, &PrewarmError::Model);
    let off: Change = |r| r.options.cache_config = CacheConfig::disabled();
    refused(warm(RESPONSES, "gpt-6", vec![], off).await, &PrewarmError::Model);
}
