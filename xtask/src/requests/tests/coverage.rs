//! That the run is varied: each thing that a request can say is said by at least one body.

use super::*;

/// What is found along a path such as `messages/*/content/*/type`; `*` is every item of a list.
fn found<'v>(value: &'v Value, path: &str) -> Vec<&'v Value> {
    let mut here = vec![value];
    for step in path.split('/') {
        here = here
            .into_iter()
            .flat_map(|v| match step {
                "*" => v.as_array().map(|items| items.iter().collect()).unwrap_or_default(),
                key => v.get(key).into_iter().collect::<Vec<_>>(),
            })
            .collect();
    }
    here
}

/// Whether a body says it: `path`, `path=text`, or `!path` for a body that says nothing there.
fn says(body: &Value, wish: &str) -> bool {
    if let Some(path) = wish.strip_prefix('!') {
        return found(body, path).is_empty();
    }
    match wish.split_once('=') {
        None => !found(body, wish).is_empty(),
        Some((path, wanted)) => found(body, path).iter().any(|v| match v.as_str() {
            Some(text) => text == wanted,
            None => serde_json::from_str::<Value>(wanted).is_ok_and(|wanted| **v == wanted),
        }),
    }
}

#[track_caller]
fn check(protocol: &str, wishes: &[&str]) {
    let bodies = gather(Some(protocol)).unwrap();
    let missing: Vec<&&str> =
        wishes.iter().filter(|wish| !bodies.iter().any(|b| says(&b.json, wish))).collect();
    assert!(missing.is_empty(), "no body of {protocol} says {missing:?}");
}

#[test]
fn anthropics_bodies_say_everything_that_can_be_said() {
    check(
        "anthropic",
        &[
            "thinking/type=enabled",
            "thinking/type=adaptive",
            "thinking/type=disabled",
            "thinking/type=between_tools",
            "!thinking",
            "output_config/effort=low",
            "output_config/effort=medium",
            "output_config/effort=high",
            "output_config/effort=xhigh",
            "output_config/format/type=json_schema",
            "temperature=0.0",
            "temperature=0.25",
            "!temperature",
            "max_tokens=777",
            "stop_sequences/*=STOP",
            "system/*/text",
            "!system",
            "system/*/cache_control",
            "tools/*/cache_control",
            "messages/*/content/*/cache_control",
            "tools/*/name=plan_trip",
            "tools/*/name=respond_json",
            "tools/*/input_schema/properties/series/items/properties/points/items/items",
            "tool_choice/type=none",
            "tool_choice/type=any",
            "tool_choice/type=tool",
            "!tools",
            "messages/*/content/*/source/type=base64",
            "messages/*/content/*/source/type=url",
            "messages/*/content/*/type=thinking",
            "messages/*/content/*/type=redacted_thinking",
            "messages/*/content/*/type=server_tool_use",
            "messages/*/content/*/is_error=true",
            "messages/*/content/*/content/*/type=image",
            "messages/*/content/*/id=toolu_01A",
            "messages/*/content/*/id=call_a",
        ],
    );
}

#[test]
fn the_bodies_of_chat_completions_say_everything_that_can_be_said() {
    check(
        "openai-chat",
        &[
            "reasoning_effort=minimal",
            "reasoning_effort=low",
            "reasoning_effort=medium",
            "reasoning_effort=high",
            "reasoning_effort=xhigh",
            "!reasoning_effort",
            "reasoning/effort",
            "reasoning/max_tokens",
            "thinking/type=enabled",
            "thinking/type=disabled",
            "enable_thinking=true",
            "enable_thinking=false",
            "chat_template_kwargs/enable_thinking=true",
            "stream_options/include_usage=true",
            "!stream_options",
            "store=false",
            "max_completion_tokens=777",
            "max_tokens",
            "temperature=0.25",
            "!temperature",
            "stop/*=STOP",
            "prompt_cache_key",
            "response_format/type=json_object",
            "response_format/json_schema/strict=true",
            "response_format/json_schema/strict=false",
            "tool_choice=none",
            "tool_choice=required",
            "tool_choice/function/name=plan_trip",
            "tools/*/function/strict=false",
            "tools/*/function/parameters/properties/stops",
            "messages/*/role=developer",
            "messages/*/role=system",
            "messages/*/content/*/cache_control",
            "messages/*/content/*/image_url/url=https://example.org/a.png",
            "messages/*/tool_calls/*/id=call_a",
            "messages/*/tool_calls/*/id=toolu_01A",
            "messages/*/reasoning_content",
            "messages/*/reasoning",
            "messages/*/reasoning_details",
        ],
    );
}

#[test]
fn bedrocks_bodies_say_everything_that_can_be_said() {
    check(
        "bedrock",
        &[
            "additionalModelRequestFields/thinking/type=enabled",
            "additionalModelRequestFields/thinking/type=adaptive",
            "additionalModelRequestFields/output_config/effort=xhigh",
            "additionalModelRequestFields/reasoningConfig/maxReasoningEffort=high",
            "additionalModelRequestFields/reasoning_effort=low",
            "!additionalModelRequestFields",
            "additionalModelResponseFieldPaths/*=/stop_sequence",
            "inferenceConfig/maxTokens=777",
            "!inferenceConfig/maxTokens",
            "inferenceConfig/temperature=0.25",
            "inferenceConfig/stopSequences/*=STOP",
            "outputConfig/textFormat/type=json_schema",
            "outputConfig/textFormat/structure/jsonSchema/name=weather_report",
            "system/*/text",
            "system/*/cachePoint",
            "!system",
            "toolConfig/tools/*/cachePoint",
            "toolConfig/tools/*/toolSpec/name=plan_trip",
            "toolConfig/tools/*/toolSpec/name=respond_json",
            "toolConfig/toolChoice/any",
            "toolConfig/toolChoice/tool/name=plan_trip",
            "!toolConfig",
            "messages/*/content/*/cachePoint",
            "messages/*/content/*/image/source/bytes",
            "messages/*/content/*/reasoningContent/reasoningText/signature",
            "messages/*/content/*/reasoningContent/redactedContent",
            "messages/*/content/*/toolUse/type=server_tool_use",
            "messages/*/content/*/toolUse/toolUseId=tooluse_a",
            "messages/*/content/*/toolUse/toolUseId=call_a",
            "messages/*/content/*/toolResult/status=error",
            "messages/*/content/*/toolResult/content/*/image",
        ],
    );
}

#[test]
fn ollamas_bodies_say_everything_that_can_be_said() {
    check(
        "ollama",
        &[
            "think=true",
            "think=false",
            "think=low",
            "think=medium",
            "think=high",
            "!think",
            "format=json",
            "format/properties/town",
            "options/num_predict=777",
            "options/num_ctx=32768",
            "!options/num_predict",
            "options/temperature=0.25",
            "options/stop/*=STOP",
            "tools/*/function/parameters/properties/stops",
            "!tools",
            "messages/*/role=system",
            "messages/*/images/*",
            "messages/*/thinking",
            "messages/*/tool_calls/*/function/arguments/series",
            "messages/*/tool_name=clock",
        ],
    );
}

const RESPONSES: &[&str] = &[
    "store=false",
    "include/*=reasoning.encrypted_content",
    "!include",
    "reasoning/effort=minimal",
    "reasoning/effort=low",
    "reasoning/effort=medium",
    "reasoning/effort=high",
    "reasoning/effort=xhigh",
    "reasoning/summary=auto",
    "!reasoning",
    "max_output_tokens=777",
    "max_output_tokens=16",
    "temperature=0.25",
    "temperature=0.0",
    "!temperature",
    "instructions",
    "!instructions",
    "prompt_cache_key",
    "text/format/type=json_object",
    "text/format/strict=true",
    "text/format/strict=false",
    "tool_choice=none",
    "tool_choice=required",
    "tool_choice/name=plan_trip",
    "tools/*/parameters/properties/stops",
    "!tools",
    "input/*/type=reasoning",
    "input/*/encrypted_content",
    "input/*/summary/*/text",
    "input/*/phase=commentary",
    "input/*/type=web_search_call",
    "input/*/call_id=call_a",
    "input/*/call_id=toolu_01A",
    "input/*/output/*/image_url",
    "input/*/output=[no output]",
    "input/*/content/*/image_url=https://example.org/a.png",
    "input/*/content/*/type=output_text",
    "truncation=auto",
    "!truncation",
    "tools/*/type=computer",
    "tools/*/type=computer_use_preview",
    "input/*/type=computer_call",
    "input/*/acknowledged_safety_checks/*/id=cu_sc_1",
];

#[test]
fn the_bodies_of_responses_say_everything_that_can_be_said_there_and_on_azure() {
    check("openai-responses", RESPONSES);
    check("azure-responses", RESPONSES);
}

#[test]
fn a_wish_that_nobody_fulfils_is_noticed() {
    let body = json!({"a": [{"b": "x"}, {"b": 2}]});
    assert!(says(&body, "a/*/b=x") && says(&body, "a/*/b=2") && says(&body, "a/*/b") && says(&body, "!c"));
    assert!(!says(&body, "a/*/b=y") && !says(&body, "a/*/c") && !says(&body, "!a"));
}

#[test]
fn the_bodies_for_gemini_say_everything_that_can_be_said() {
    for protocol in ["gemini", "vertex"] {
        check(
            protocol,
            &[
                "systemInstruction/parts/*/text",
                "!systemInstruction",
                "tools/*/functionDeclarations/*/name=plan_trip",
                "tools/*/computerUse/environment=ENVIRONMENT_BROWSER",
                "tools/*/computerUse/excludedPredefinedFunctions/*=drag_and_drop",
                "contents/*/parts/*/functionCall/name=click_at",
                "contents/*/parts/*/functionResponse/response/safety_acknowledgement=true",
                "tools/*/functionDeclarations/*/name=respond_json",
                "!tools",
                "toolConfig/functionCallingConfig/mode=NONE",
                "toolConfig/functionCallingConfig/mode=ANY",
                "toolConfig/functionCallingConfig/allowedFunctionNames/*=plan_trip",
                "!toolConfig",
                "generationConfig/temperature=0.0",
                "generationConfig/maxOutputTokens=777",
                "generationConfig/stopSequences/*=STOP",
                "generationConfig/responseMimeType=application/json",
                "generationConfig/responseJsonSchema/properties/days",
                "generationConfig/thinkingConfig/thinkingBudget=0",
                "generationConfig/thinkingConfig/thinkingBudget=128",
                "generationConfig/thinkingConfig/thinkingBudget=24576",
                "generationConfig/thinkingConfig/thinkingLevel=MINIMAL",
                "generationConfig/thinkingConfig/thinkingLevel=LOW",
                "generationConfig/thinkingConfig/thinkingLevel=MEDIUM",
                "generationConfig/thinkingConfig/thinkingLevel=HIGH",
                "generationConfig/thinkingConfig/includeThoughts=true",
                "!generationConfig/thinkingConfig",
                "contents/*/parts/*/thought=true",
                "contents/*/parts/*/thoughtSignature=skip_thought_signature_validator",
                "contents/*/parts/*/thoughtSignature=c2lnbmF0dXJlIG9mIHRoaXMgY2FsbA==",
                "contents/*/parts/*/thoughtSignature=c2lnbmF0dXJlIG9mIHRoZSBlbmQ=",
                "contents/*/parts/*/executableCode/language=PYTHON",
                "contents/*/parts/*/codeExecutionResult/outcome=OUTCOME_OK",
                "contents/*/parts/*/functionCall/id",
                "contents/*/parts/*/functionResponse/response/error",
                "contents/*/parts/*/functionResponse/response/output=[no output]",
                "contents/*/parts/*/functionResponse/parts/*/inlineData/mimeType=image/png",
                "contents/*/parts/*/fileData/mimeType=image/png",
                "contents/*/parts/*/inlineData/mimeType=image/png",
            ],
        );
    }
}
