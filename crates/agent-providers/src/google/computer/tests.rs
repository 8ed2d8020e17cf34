use agent_core::model::ComputerUse;
use agent_core::{
    AgentMessage, Content, EventSink, History, ImageContent, Message, ModelConfig, OwnedStreamEvent,
    ReplyLog, StopReason, StreamEvent, ToolChoice,
};

use super::*;
use crate::google::{Decoder, body};
use crate::protocol::{Decode as _, Frame};

const PREVIEW: &str = "gemini-2.5-computer-use-preview-10-2025";
const THIRD: &str = "gemini-3.5-flash";

fn request(id: &str, messages: Vec<Message>, computer: Option<ComputerUse>) -> ModelRequest {
    let (history, repairs) = History::repaired(messages.into_iter().map(AgentMessage::from));
    assert!(repairs.is_empty(), "{repairs:?}");
    let mut request = ModelRequest::new(ModelConfig::google(id, "Gemini", "key"), history);
    request.options.server_tools = computer.into_iter().map(ServerTool::from).collect();
    let definition = |name: &str| ToolDefinition::new(name, "Does it.", json!({"type": "object"}));
    request.tools = ["computer", "look"].map(definition).into_iter().collect();
    request
}

fn screen() -> Option<ComputerUse> {
    Some(ComputerUse::new(1_440, 900))
}

fn sent(request: &ModelRequest) -> Value {
    serde_json::from_slice(&body(request).unwrap()).unwrap()
}

/// Decodes a reply with these parts, and returns it and the events of its calls.
fn read(
    id: &str,
    computer: Option<ComputerUse>,
    parts: &[Value],
) -> (AssistantMessage, Vec<OwnedStreamEvent>) {
    let mut decoder = Decoder::new(&request(id, vec![], computer));
    let (mut log, mut events) = (ReplyLog::new(), Vec::new());
    let mut sink = |event: StreamEvent<'_>| {
        log.push(&event);
        events.push(OwnedStreamEvent::from(event));
    };
    let sink: &mut EventSink<'_> = &mut sink;
    for part in parts {
        let frame = json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]});
        decoder.push(Frame { event: None, data: &frame.to_string() }, sink).unwrap();
    }
    let end = json!({"candidates": [{"finishReason": "STOP", "index": 0}]});
    decoder.push(Frame { event: None, data: &end.to_string() }, sink).unwrap();
    let completion = decoder.finish(sink).unwrap();
    let mut reply = log.finish("google", id, &completion);
    reply.api = Some(ApiProtocol::GoogleGenerativeAi);
    (reply, events)
}

fn result(reply: &AssistantMessage, content: Vec<Content>, is_error: bool, details: Value) -> Message {
    let call = reply.tool_calls().next().unwrap();
    let mut result = ToolResultMessage::new(call.id.clone(), call.name.clone(), content);
    (result.is_error, result.details) = (is_error, details);
    result.into()
}

fn png() -> Content {
    Content::image("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ", "image/png")
}

/// What the next request contains of a reply with one call and of its result.
fn back(
    id: &str,
    computer: Option<ComputerUse>,
    reply: &AssistantMessage,
    result: Message,
) -> (Value, Value) {
    let body = sent(&request(id, vec![Message::user("?"), reply.clone().into(), result], computer));
    let contents = body["contents"].as_array().unwrap();
    assert_eq!(contents.len(), 3, "{body}");
    (contents[1]["parts"][0].clone(), contents[2]["parts"][0]["functionResponse"].clone())
}

#[test]
fn every_action_is_a_call_of_the_local_tool_and_goes_back_under_its_own_name() {
    let rows = [
        (PREVIEW, "open_web_browser", None, json!({"action": "open_web_browser"})),
        (
            PREVIEW,
            "click_at",
            Some(json!({"y": 300, "x": 500})),
            json!({"action": "click_at", "y": 300, "x": 500}),
        ),
        (
            PREVIEW,
            "type_text_at",
            Some(json!({"x": 1, "y": 2, "text": "é \"q\"", "press_enter": false})),
            json!({"action": "type_text_at", "x": 1, "y": 2, "text": "é \"q\"", "press_enter": false}),
        ),
        (
            THIRD,
            "hotkey",
            Some(json!({"keys": ["ctrl", "a"], "intent": "I select all."})),
            json!({"action": "hotkey", "keys": ["ctrl", "a"], "intent": "I select all."}),
        ),
    ];
    for (model, name, args, expected) in rows {
        let mut part = json!({"functionCall": {"id": "c1", "name": name}, "thoughtSignature": "c2ln"});
        if let Some(args) = &args {
            part["functionCall"]["args"] = args.clone();
        }
        let (reply, events) = read(model, screen(), std::slice::from_ref(&part));
        assert_eq!(reply.stop_reason, StopReason::ToolUse);
        let starts = |event: &&OwnedStreamEvent| matches!(event, OwnedStreamEvent::ToolCallStart { name, .. } if name == "computer");
        assert_eq!(events.iter().filter(starts).count(), 1, "{events:?}");
        let call = reply.tool_calls().next().unwrap();
        assert_eq!((call.id.as_str(), call.name.as_str()), ("c1", "computer"));
        assert_eq!(call.arguments.value().unwrap(), &expected);

        let details = json!({"url": "https://example.org/"});
        let shown = result(&reply, vec![png()], false, details);
        let (call, response) = back(model, screen(), &reply, shown);
        part["functionCall"]["args"] = args.unwrap_or_else(|| json!({}));
        assert_eq!(call, part);
        assert_eq!(
            response,
            json!({"id": "c1", "name": name, "response": {"url": "https://example.org/"},
                "parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"}}]})
        );
    }
}

/// Arguments in pieces come only if a hook asks for them.
#[test]
fn an_action_can_arrive_in_pieces() {
    let piece = |path: &str, value: &str, more: bool| json!({"jsonPath": path, "stringValue": value, "willContinue": more});
    let parts = [
        json!({"functionCall": {"id": "c1", "name": "type", "willContinue": true}}),
        json!({"functionCall": {"partialArgs": [piece("$.text", "hel", true)], "willContinue": true}}),
        json!({"functionCall": {"partialArgs": [piece("$.text", "lo", false)], "willContinue": true}}),
        json!({"functionCall": {}}),
    ];
    let (reply, _) = read(THIRD, screen(), &parts);
    let call = reply.tool_calls().next().unwrap();
    assert_eq!(call.name.as_str(), "computer");
    assert_eq!(call.arguments.value().unwrap(), &json!({"action": "type", "text": "hello"}));
    let at_once = json!({"functionCall": {"name": "type", "partialArgs": [piece("$.text", "hi", false)]}});
    let (reply, _) = read(THIRD, screen(), &[at_once]);
    let call = reply.tool_calls().next().unwrap();
    assert_eq!(call.arguments.value().unwrap(), &json!({"action": "type", "text": "hi"}));
}

#[test]
fn functions_of_the_request_and_calls_without_the_tool_are_no_actions() {
    let call = |name: &str, args: Value| json!({"functionCall": {"id": "c1", "name": name, "args": args}});
    let rows = [
        (screen(), "look", json!({"x": 1})),
        (screen(), "computer", json!({"x": 1})),
        (screen(), "future", json!({"action": "of its own"})),
        (None, "click_at", json!({"x": 1})),
    ];
    for (computer, name, args) in rows {
        let part = call(name, args.clone());
        let (reply, _) = read(PREVIEW, computer.clone(), std::slice::from_ref(&part));
        let made = reply.tool_calls().next().unwrap();
        assert_eq!((made.name.as_str(), made.arguments.value().unwrap()), (name, &args));
        let done = result(&reply, vec![Content::text("done")], false, Value::Null);
        let (back, response) = back(PREVIEW, computer, &reply, done);
        assert_eq!(back, part);
        assert_eq!(response["response"], json!({"output": "done"}));
    }
}

/// The demand of the vendor is confirmed by the execution of the call, and only by it.
#[test]
fn only_an_executed_action_confirms_what_the_vendor_demands() {
    let ask = json!({"decision": "require_confirmation", "explanation": "It buys something."});
    let rows = [
        (Some(ask.clone()), false, vec![png()], json!({"safety_acknowledgement": "true"})),
        (
            Some(ask.clone()),
            false,
            vec![Content::text("clicked"), png()],
            json!({"result": "clicked", "safety_acknowledgement": "true"}),
        ),
        (Some(ask.clone()), true, vec![Content::text("denied")], json!({"error": "denied"})),
        (Some(ask), true, vec![Content::text("failed"), png()], json!({"error": "failed"})),
        (Some(json!({"decision": "regular"})), false, vec![png()], json!({})),
        (None, false, vec![png()], json!({})),
        (None, false, vec![Content::text("clicked")], json!({"result": "clicked"})),
    ];
    for (safety, is_error, content, expected) in rows {
        let mut args = json!({"x": 1, "y": 2});
        if let Some(safety) = safety {
            args["safety_decision"] = safety;
        }
        let part = json!({"functionCall": {"id": "c1", "name": "click_at", "args": args}});
        let (reply, _) = read(PREVIEW, screen(), std::slice::from_ref(&part));
        let call = reply.tool_calls().next().unwrap();
        assert_eq!(call.arguments.value().unwrap().get("safety_decision"), args.get("safety_decision"));
        let shown = content.iter().any(|content| matches!(content, Content::Image(_)));
        let done = result(&reply, content, is_error, Value::Null);
        let (back, response) = back(PREVIEW, screen(), &reply, done);
        assert_eq!(back, part);
        assert_eq!(response["response"], expected);
        assert_eq!(response.get("parts").is_some(), shown);
    }
}

#[test]
fn calls_of_other_models_and_without_the_tool_are_ordinary_functions() {
    let action = json!({"action": "click_at", "x": 1});
    let rows = [
        (Some(ApiProtocol::AnthropicMessages), screen(), "computer"),
        (None, screen(), "computer"),
        (Some(ApiProtocol::GoogleVertex), None, "computer"),
        (Some(ApiProtocol::GoogleVertex), screen(), "click_at"),
    ];
    for (api, computer, expected) in rows {
        let mut reply = AssistantMessage::new("someone", "a model", StopReason::ToolUse);
        reply.api = api;
        reply.content = vec![Content::tool_call("toolu_1", "computer", action.clone())];
        let done = result(&reply, vec![Content::text("done")], false, Value::Null);
        let (call, response) = back(THIRD, computer, &reply, done);
        assert_eq!((&call["functionCall"]["name"], &response["name"]), (&json!(expected), &json!(expected)));
        let args = if expected == "computer" { action.clone() } else { json!({"x": 1}) };
        assert_eq!(call["functionCall"]["args"], args);
    }
    for arguments in [json!({"action": {"type": "click"}}), json!({"action": ""}), json!({"x": 1})] {
        let mut reply = AssistantMessage::new("google", THIRD, StopReason::ToolUse);
        reply.api = Some(ApiProtocol::GoogleGenerativeAi);
        reply.content = vec![Content::tool_call("c1", "computer", arguments.clone())];
        let done = result(&reply, vec![Content::text("done")], false, Value::Null);
        let (call, response) = back(THIRD, screen(), &reply, done);
        assert_eq!(
            (&call["functionCall"]["name"], &call["functionCall"]["args"]),
            (&json!("computer"), &arguments)
        );
        assert_eq!(response["response"], json!({"output": "done"}));
    }
}

#[test]
fn the_vendors_definition_replaces_that_of_the_local_tool() {
    let rows = [
        (ComputerUse::new(8, 6), json!({"environment": "ENVIRONMENT_BROWSER"})),
        (
            ComputerUse::new(8, 6).with_environment(ComputerEnvironment::Mobile),
            json!({"environment": "ENVIRONMENT_MOBILE"}),
        ),
        (
            ComputerUse::new(8, 6)
                .with_environment(ComputerEnvironment::Linux)
                .with_excluded_actions(["drag_and_drop"]),
            json!({"environment": "ENVIRONMENT_DESKTOP", "excludedPredefinedFunctions": ["drag_and_drop"]}),
        ),
    ];
    for (computer, expected) in rows {
        let mut request = request(PREVIEW, vec![Message::user("?")], Some(computer));
        let body = sent(&request);
        let functions = body["tools"][0]["functionDeclarations"].as_array().unwrap();
        assert_eq!((functions.len(), &functions[0]["name"]), (1, &json!("look")));
        assert_eq!(body["tools"][1], json!({"computerUse": expected}));
        assert_eq!(body.get("toolConfig"), None, "the vendor executes nothing");

        request.options.tool_choice = ToolChoice::Tool("computer".into());
        let error = crate::google::body(&request).unwrap_err();
        assert!(error.to_string().contains("no call of it can be demanded"), "{error}");
        request.options.tool_choice = ToolChoice::Auto;
        request.options.server_tools.clear();
        let functions = sent(&request)["tools"][0]["functionDeclarations"].as_array().unwrap().len();
        assert_eq!(functions, 2, "the cached form is another one");
    }
    let mut alone = request(PREVIEW, vec![Message::user("?")], screen());
    alone.tools =
        [ToolDefinition::new("computer", "Does it.", json!({"type": "object"}))].into_iter().collect();
    assert_eq!(sent(&alone)["tools"].as_array().unwrap().len(), 1);
}

#[test]
fn an_image_by_address_follows_in_another_content() {
    let part = json!({"functionCall": {"id": "c1", "name": "wait_5_seconds", "args": {}}});
    let (reply, _) = read(PREVIEW, screen(), &[part]);
    let image = Content::Image(ImageContent::Url { url: "https://example.org/s.png".into() });
    let done = result(&reply, vec![image], false, Value::Null);
    let body = sent(&request(PREVIEW, vec![Message::user("?"), reply.into(), done], screen()));
    assert_eq!(body["contents"][3]["parts"][1]["fileData"]["fileUri"], "https://example.org/s.png");
}
