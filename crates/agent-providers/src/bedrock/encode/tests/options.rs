//! Everything but the conversation.

use agent_core::{
    CacheConfig, CacheStrategy, CacheTtl, ResponseFormat, ThinkingBudgets, ThinkingForm, ThinkingLevel,
    ToolChoice,
};

use super::*;

#[test]
fn a_plain_question_says_nothing_that_nobody_asked_for() {
    let mut asked = asking("hi");
    asked.options.cache_config = CacheConfig::disabled();
    let sent = r#"{"inferenceConfig":{},"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#;
    assert_eq!(text(&asked), sent);
}

#[test]
fn limits_temperature_and_stops_are_said_in_the_common_form() {
    let mut asked = asking("hi");
    asked.options.max_tokens = Some(77);
    asked.options.temperature = Some(0.25);
    asked.options.stop_sequences = vec!["END".into(), " ".into()];
    let sent = body(&asked);
    assert_eq!(
        sent["inferenceConfig"],
        json!({"maxTokens": 77, "temperature": 0.25, "stopSequences": ["END"]})
    );
    assert_eq!(sent["additionalModelResponseFieldPaths"], json!(["/stop_sequence"]));
    let other = with_model(asked, |m| m.id = "meta.llama3".into());
    assert!(body(&other).get("additionalModelResponseFieldPaths").is_none());
}

#[test]
fn tools_and_the_choice_among_them() {
    let mut asked = asking("hi");
    asked.tools = tools(&["read", "write"]).into();
    asked.options.cache_config = CacheConfig::disabled();
    let config = body(&asked)["toolConfig"].take();
    assert_eq!(config["tools"].as_array().unwrap().len(), 2);
    assert_eq!(
        config["tools"][0],
        json!({"toolSpec": {"name": "read", "description": "Does read.", "inputSchema": {"json":
            {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}}})
    );
    assert!(config.get("toolChoice").is_none());
    let choice = |choice| {
        let mut asked = asked.clone();
        asked.options.tool_choice = choice;
        body(&asked)["toolConfig"]["toolChoice"].take()
    };
    assert_eq!(choice(ToolChoice::Required), json!({"any": {}}));
    assert_eq!(choice(ToolChoice::Tool("write".into())), json!({"tool": {"name": "write"}}));
    asked.options.tool_choice = ToolChoice::None;
    assert!(body(&asked).get("toolConfig").is_none());
    exchange(&mut asked.history, "a", vec![], "out");
    assert!(refused(&asked).contains("cannot forbid calls"));
}

#[test]
fn a_name_that_the_api_refuses_is_refused_before_it_is_sent() {
    for name in ["two words", "", "ümlaut", &"x".repeat(65)] {
        let mut asked = asking("hi");
        asked.tools = tools(&[name]).into();
        assert!(refused(&asked).contains("at most 64"), "{name}");
    }
}

/// The API refuses a conversation with calls in a request without tools.
#[test]
fn a_conversation_with_calls_names_their_tools_when_the_request_has_none() {
    let mut asked = asking("hi");
    exchange(&mut asked.history, "a", vec![], "out");
    exchange(&mut asked.history, "b", vec![], "out");
    let tools = body(&asked)["toolConfig"]["tools"].take();
    assert_eq!(tools.as_array().unwrap().len(), 1);
    assert_eq!(tools[0]["toolSpec"]["name"], "read");
    assert_eq!(tools[0]["toolSpec"]["inputSchema"]["json"], json!({"type": "object", "properties": {}}));
}

fn schema() -> ResponseFormat {
    let schema = json!({"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "integer"}}});
    ResponseFormat::JsonSchema { name: "thing".into(), schema, strict: true }
}

#[test]
fn the_form_of_the_answer_is_native_where_the_catalogue_says_so_else_a_tool() {
    let mut asked = asking("hi");
    asked.options.response_format = schema();
    let by_tool = body(&asked)["toolConfig"].take();
    assert_eq!(by_tool["toolChoice"], json!({"tool": {"name": "respond_json"}}));
    assert_eq!(by_tool["tools"][0]["toolSpec"]["inputSchema"]["json"]["properties"]["b"]["type"], "string");

    let native = with_model(asked.clone(), |m| m.id = "us.anthropic.claude-sonnet-4-6".into());
    let sent = body(&native);
    assert!(sent.get("toolConfig").is_none());
    let format = &sent["outputConfig"]["textFormat"];
    assert_eq!(format["type"], "json_schema");
    let definition = &format["structure"]["jsonSchema"];
    assert_eq!(definition["name"], "thing");
    let text: Value = serde_json::from_str(definition["schema"].as_str().unwrap()).unwrap();
    assert_eq!(text["additionalProperties"], false);

    asked.options.response_format = ResponseFormat::JsonObject;
    asked.tools = tools(&["read", "respond_json"]).into();
    let both = body(&asked)["toolConfig"].take();
    assert_eq!(both["toolChoice"], json!({"any": {}}));
    assert_eq!(both["tools"].as_array().unwrap().last().unwrap()["toolSpec"]["name"], "respond_json_2");
}

#[track_caller]
fn check_cache(strategy: CacheConfig, id: &str, expect: [bool; 3]) {
    let mut asked = asking("one");
    exchange(&mut asked.history, "a", vec!["working".into()], "out");
    asked.system_prompt = "Be brief.".into();
    asked.tools = tools(&["read"]).into();
    asked.options.cache_config = strategy;
    let sent = body(&with_model(asked, |m| m.id = id.to_owned()));
    let marked = |list: &Value| {
        let list = list.as_array().unwrap();
        list.last().unwrap().get("cachePoint").is_some()
    };
    let found = [
        marked(&sent["system"]),
        marked(&sent["toolConfig"]["tools"]),
        marked(&sent["messages"][1]["content"]),
    ];
    assert_eq!(found, expect, "{id}");
    let others = [&sent["messages"][0], &sent["messages"][2]];
    assert!(others.iter().all(|m| !m.to_string().contains("cachePoint")));
}

/// REQ-126, REQ-127, B-147.
#[test]
fn cache_points_stand_where_they_are_wanted_and_taken() {
    let manual = |cache_system, cache_tools, cache_messages| CacheConfig {
        strategy: CacheStrategy::Manual { cache_system, cache_tools, cache_messages },
        ..CacheConfig::default()
    };
    check_cache(CacheConfig::default(), ID, [true, true, true]);
    check_cache(manual(true, false, false), ID, [true, false, false]);
    check_cache(manual(false, true, false), ID, [false, true, false]);
    check_cache(manual(false, false, true), ID, [false, false, true]);
    check_cache(CacheConfig::disabled(), ID, [false, false, false]);
    check_cache(CacheConfig::default(), "us.amazon.nova-pro-v1:0", [true, false, true]);
    check_cache(CacheConfig::default(), "meta.llama3-1-70b-instruct-v1:0", [false, false, false]);
    check_cache(CacheConfig::default(), "anthropic.claude-3-haiku-20240307-v1:0", [false, false, false]);
}

#[test]
fn cache_points_have_the_lifetime_that_the_model_offers() {
    let ttls = |id: &str, config: CacheConfig| {
        let mut asked = asking("one");
        exchange(&mut asked.history, "a", vec!["working".into()], "out");
        asked.system_prompt = "Be brief.".into();
        asked.tools = tools(&["read"]).into();
        asked.options.cache_config = config;
        let sent = body(&with_model(asked, |m| m.id = id.to_owned()));
        let of = |list: &Value| {
            let point = list.as_array().unwrap().iter().find_map(|block| block.get("cachePoint")).cloned();
            point.map(|point| {
                assert_eq!(point["type"], "default");
                point.get("ttl").map_or("default", |_| "1h")
            })
        };
        [of(&sent["toolConfig"]["tools"]), of(&sent["system"]), of(&sent["messages"][1]["content"])]
    };
    let hour = CacheConfig::default().with_ttl(CacheTtl::OneHour);
    assert_eq!(ttls(ID, CacheConfig::default()), [Some("default"); 3]);
    assert_eq!(ttls(ID, hour), [Some("1h"); 3]);
    let shorter = hour.with_messages_ttl(CacheTtl::FiveMinutes);
    assert_eq!(ttls(ID, shorter), [Some("1h"), Some("1h"), Some("default")]);
    assert_eq!(ttls("us.amazon.nova-pro-v1:0", hour), [None, Some("default"), Some("default")]);
    assert_eq!(ttls("meta.llama3-1-70b-instruct-v1:0", hour), [None; 3]);
}

/// What is said of thinking, for a model of this id and form.
fn thinking(id: &str, form: ThinkingForm, level: ThinkingLevel) -> Value {
    let mut asked = with_model(asking("hi"), |m| {
        m.id = id.to_owned();
        m.thinking = form;
        m.max_tokens = Some(20_000);
    });
    asked.options.thinking_level = level;
    asked.options.temperature = Some(0.5);
    let mut sent = body(&asked);
    json!([sent["additionalModelRequestFields"].take(), sent["inferenceConfig"].take()])
}

/// REQ-129, B-149.
#[test]
fn thinking_is_asked_for_as_the_models_vendor_has_it() {
    let plain = json!({"maxTokens": 20_000, "temperature": 0.5});
    let quiet = json!({"maxTokens": 20_000});
    for form in [ThinkingForm::None, ThinkingForm::Budget, ThinkingForm::Effort, ThinkingForm::Adaptive] {
        assert_eq!(thinking(ID, form, ThinkingLevel::Off), json!([null, plain]));
    }
    assert_eq!(thinking(ID, ThinkingForm::None, ThinkingLevel::High), json!([null, plain]));
    assert_eq!(
        thinking(ID, ThinkingForm::Budget, ThinkingLevel::Medium),
        json!([{"thinking": {"type": "enabled", "budget_tokens": 2_048}}, quiet])
    );
    assert_eq!(
        thinking(ID, ThinkingForm::Budget, ThinkingLevel::Minimal),
        json!([{"thinking": {"type": "enabled", "budget_tokens": 1_024}}, quiet])
    );
    assert_eq!(
        thinking(ID, ThinkingForm::Adaptive, ThinkingLevel::XHigh),
        json!([{"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "xhigh"}}, quiet])
    );
    assert_eq!(
        thinking(ID, ThinkingForm::Effort, ThinkingLevel::Low),
        json!([{"output_config": {"effort": "low"}}, plain])
    );
    assert_eq!(
        thinking("openai.gpt-oss-120b-1:0", ThinkingForm::Effort, ThinkingLevel::XHigh),
        json!([{"reasoning_effort": "high"}, plain])
    );
    let nova = "us.amazon.nova-2-lite-v1:0";
    assert_eq!(
        thinking(nova, ThinkingForm::Effort, ThinkingLevel::Low),
        json!([{"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}}, plain])
    );
    assert_eq!(
        thinking(nova, ThinkingForm::Effort, ThinkingLevel::High),
        json!([{"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}}, {}])
    );
}

/// D13.
#[test]
fn a_budget_leaves_room_for_the_answer_and_a_demanded_call_wins_over_it() {
    let mut asked = with_model(asking("hi"), |m| {
        m.thinking = ThinkingForm::Budget;
        m.max_tokens = Some(4_000);
    });
    asked.options.thinking_level = ThinkingLevel::XHigh;
    asked.options.thinking_budgets = ThinkingBudgets { xhigh: u32::MAX, ..ThinkingBudgets::default() };
    asked.tools = tools(&["read"]).into();
    let sent = body(&asked);
    assert_eq!(sent["additionalModelRequestFields"]["thinking"]["budget_tokens"], 4_000 - 1_024);
    asked.options.tool_choice = ToolChoice::Required;
    assert!(body(&asked).get("additionalModelRequestFields").is_none());
}

#[test]
fn a_profile_of_ones_own_is_known_by_its_name() {
    let mut asked = with_model(asking("hi"), |m| {
        m.id = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc".into();
        m.name = "ours".into();
        m.thinking = ThinkingForm::Budget;
    });
    asked.options.thinking_level = ThinkingLevel::High;
    asked.system_prompt = "Be brief.".into();
    assert!(!text(&asked).contains("budget_tokens") && !text(&asked).contains("cachePoint"));
    let named = with_model(asked, |m| m.name = "Claude for the team".into());
    assert!(text(&named).contains("budget_tokens") && text(&named).contains("cachePoint"));
}

#[test]
fn only_nova_is_sent_a_schema_of_three_members() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
        "additionalProperties": false});
    let sent = |id: &str| {
        let mut request = with_model(asking("x"), |model| model.id = id.into());
        request.tools = vec![ToolDefinition::new("look", "Looks.", schema.clone())].into();
        body(&request)["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"].clone()
    };
    for id in [ID, "meta.llama4-1", "deepseek.v3"] {
        assert_eq!(sent(id)["additionalProperties"], false, "{id}");
    }
    assert_eq!(sent("amazon.nova-2-lite-v1:0").get("additionalProperties"), None);
}

/// The next request of a conversation in which Amazon's own tool was called.
#[test]
fn a_conversation_with_calls_of_the_vendors_tools_has_tools() {
    let call = json!({"toolUse": {"toolUseId": "t1", "name": "nova_grounding", "type": "server_tool_use", "input": {}}});
    let found = json!({"toolResult": {"toolUseId": "t1", "type": "nova_grounding_result", "content": []}});
    let grounded = reply(vec![
        Content::opaque("toolUse", call),
        Content::opaque("toolResult", found),
        Content::text("x"),
    ]);
    let messages = |reply| vec![AgentMessage::user("x"), said(reply), AgentMessage::user("more")];
    let sent = body(&request(messages(grounded.clone())));
    assert_eq!(sent["messages"][1]["content"][0]["toolUse"]["name"], "nova_grounding");
    assert_eq!(sent["toolConfig"]["tools"][0]["toolSpec"]["name"], "nova_grounding");
    // Another model gets none of these blocks, and needs no tools.
    let mut other = grounded;
    other.model = "amazon.nova-old".into();
    assert_eq!(body(&request(messages(other))).get("toolConfig"), None);
}
