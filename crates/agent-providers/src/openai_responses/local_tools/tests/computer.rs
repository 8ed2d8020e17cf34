//! Actions on a computer.

use agent_core::ImageContent;
use agent_core::model::{ComputerEnvironment, ComputerUse};

use super::*;

const PNG: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ";

fn screen() -> [ServerTool; 1] {
    [ComputerUse::new(1_280, 800).into()]
}

/// A request that also declares the local tool.
fn request(messages: Vec<Message>, tools: &[ServerTool]) -> ModelRequest {
    let mut request = super::request(messages, tools);
    let definition = |name: &str| ToolDefinition::new(name, "Does it.", json!({"type": "object"}));
    request.tools = ["computer", "look"].map(definition).into_iter().collect();
    request
}

/// An item with these members.
#[expect(clippy::needless_pass_by_value, reason = "tests pass what `json!` makes")]
fn item(members: Value) -> Value {
    let mut item = json!({"type": "computer_call", "id": "cu_1", "call_id": "call_1", "status": "completed"});
    item.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    item
}

fn checks() -> Value {
    json!([{"id": "cu_sc_1", "code": "malicious_instructions", "message": "The page asks for a password."}])
}

fn reply_to(item: &Value) -> AssistantMessage {
    let (mut reply, pieces) = read(&screen(), &item_events(item.clone(), vec![], item.clone()));
    assert_eq!((pieces.len(), reply.stop_reason), (1, StopReason::ToolUse), "{pieces:?}");
    reply.api = Some(agent_core::ApiProtocol::OpenAiResponses);
    reply
}

fn png() -> Content {
    Content::image("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ", "image/png")
}

/// The items of the next request after the first message, with a result of this content.
fn back(reply: &AssistantMessage, tools: &[ServerTool], content: Vec<Content>, is_error: bool) -> Vec<Value> {
    let call = reply.tool_calls().next().unwrap();
    let mut result = ToolResultMessage::new(call.id.clone(), call.name.clone(), content);
    result.is_error = is_error;
    let body = sent(&request(vec![Message::user("?"), reply.clone().into(), result.into()], tools));
    body["input"].as_array().unwrap()[1..].to_vec()
}

#[test]
fn actions_are_a_call_of_the_local_tool_and_go_back_as_they_came() {
    let click = json!({"type": "click", "button": "left", "x": 10, "y": 20});
    let actions = json!([click, {"type": "type", "text": "é"}, {"type": "screenshot"}]);
    let rows = [
        (json!({"action": click, "pending_safety_checks": []}), json!({"action": click})),
        (json!({"actions": actions, "pending_safety_checks": []}), json!({"actions": actions})),
        (
            json!({"pending_safety_checks": checks(), "action": click}),
            json!({"pending_safety_checks": checks(), "action": click}),
        ),
        // What is not an action is left to the tool to reject.
        (json!({"action": "click", "pending_safety_checks": []}), json!({"action": "click"})),
        (json!({"pending_safety_checks": []}), json!({})),
    ];
    for (members, expected) in rows {
        let item = item(members);
        let reply = reply_to(&item);
        let call = reply.tool_calls().next().unwrap();
        assert_eq!((call.id.as_str(), call.name.as_str()), ("call_1", "computer"));
        assert_eq!(call.arguments.value().unwrap(), &expected);
        // They go back so also if the tool is no longer declared.
        for tools in [&screen()[..], &[]] {
            let items = back(&reply, tools, vec![png()], false);
            assert_eq!(items[0], item);
            let mut output = json!({"type": "computer_call_output", "call_id": "call_1",
                "output": {"type": "computer_screenshot", "image_url": PNG}});
            if let Some(checks) = expected.get("pending_safety_checks") {
                output["acknowledged_safety_checks"] = checks.clone();
            }
            assert_eq!(items[1..], [output]);
        }
    }
    // A member without a value is none.
    let reply = reply_to(&item(json!({"action": null, "actions": actions, "pending_safety_checks": []})));
    let items = back(&reply, &screen(), vec![png()], false);
    assert_eq!(items[0], item(json!({"actions": actions, "pending_safety_checks": []})));
}

/// An output is a screenshot, so everything else is a message behind it.
#[test]
fn only_an_executed_call_confirms_the_safety_checks() {
    let click = json!({"type": "click", "button": "left", "x": 10, "y": 20});
    let item = item(json!({"action": click, "pending_safety_checks": checks()}));
    let reply = reply_to(&item);
    let text = |text: &str| Content::text(text);
    let rows = [
        (vec![png()], false, true, None),
        (vec![text(" "), png()], false, true, None),
        (vec![text("clicked"), png()], false, true, Some("beside the screenshot")),
        (vec![png(), png()], false, true, Some("beside the screenshot")),
        (vec![text("clicked")], false, false, Some("returned no screenshot")),
        (vec![text("denied")], true, false, Some("failed without a screenshot")),
        (vec![text("no button there"), png()], true, true, Some("failed; the screenshot shows")),
    ];
    for (content, is_error, is_shown, expected) in rows {
        let given = content.clone();
        let items = back(&reply, &screen(), content, is_error);
        assert_eq!(items[0], item);
        let output = &items[1];
        assert_eq!(output["type"], "computer_call_output");
        assert_eq!(output["output"]["image_url"] == PNG, is_shown, "{output}");
        assert!(output["output"]["image_url"].as_str().unwrap().starts_with("data:image/png;base64,"));
        let confirmed = output.get("acknowledged_safety_checks");
        assert_eq!(confirmed, Some(&checks()).filter(|_| !is_error), "{given:?}");
        let Some(expected) = expected else {
            assert_eq!(items.len(), 2, "{items:?}");
            continue;
        };
        assert_eq!((items.len(), &items[2]["role"]), (3, &json!("user")));
        let parts = items[2]["content"].as_array().unwrap();
        assert!(parts[0]["text"].as_str().unwrap().contains(expected), "{parts:?}");
        match given.first().unwrap() {
            Content::Text(text) => assert_eq!(parts[1]["text"], text.text),
            _ => assert_eq!(parts[1]["image_url"], PNG),
        }
    }
}

/// The API accepts a message between two outputs, but the calls of one reply have their outputs together.
#[test]
fn messages_follow_all_outputs() {
    let action = json!({"action": {"type": "wait"}, "pending_safety_checks": []});
    let mut second = item(action.clone());
    (second["id"], second["call_id"]) = (json!("cu_2"), json!("call_2"));
    let first = item(action);
    let done = |at: usize, item: &Value| json!({"type": "response.output_item.done", "output_index": at, "item": item});
    let frames = [
        done(0, &first),
        done(1, &second),
        json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed",
            "output": [first, second], "usage": {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}}}),
    ];
    let (mut reply, _) = read(&screen(), &frames);
    reply.api = Some(agent_core::ApiProtocol::OpenAiResponses);
    let results = reply.tool_calls().map(|call| result_of(call, "no", true, Value::Null));
    let mut messages = vec![Message::user("?"), reply.clone().into()];
    messages.extend(results);
    let body = sent(&request(messages, &screen()));
    let kinds: Vec<&str> = body["input"].as_array().unwrap()[1..]
        .iter()
        .map(|item| item["type"].as_str().or(item["role"].as_str()).unwrap())
        .collect();
    let (call, output) = ("computer_call", "computer_call_output");
    assert_eq!(kinds, [call, call, output, output, "user", "user"]);
}

#[test]
fn a_model_without_images_receives_an_empty_image() {
    let reply = reply_to(&item(json!({"action": {"type": "screenshot"}, "pending_safety_checks": []})));
    let call = reply.tool_calls().next().unwrap();
    let result = ToolResultMessage::new(call.id.clone(), call.name.clone(), vec![png()]);
    let mut request = request(vec![Message::user("?"), reply.clone().into(), result.into()], &screen());
    std::sync::Arc::make_mut(&mut request.model).images = false;
    let body = sent(&request);
    assert_ne!(body["input"][2]["output"]["image_url"], PNG);
    assert_eq!(body["input"][3]["role"], "user");
    assert!(!body.to_string().contains(PNG), "{body}");
}

/// The API requires the id of such an item, so calls that have none are ordinary functions.
#[test]
fn calls_of_other_models_and_calls_without_ids_are_ordinary_functions() {
    let arguments =
        [json!({"action": "left_click", "coordinate": [1, 2]}), json!({"action": {"type": "wait"}})];
    for arguments in arguments {
        let mut reply = AssistantMessage::new("anthropic", "claude", StopReason::ToolUse);
        reply.content = vec![Content::tool_call("toolu_1", "computer", arguments.clone())];
        for tools in [&screen()[..], &[]] {
            let items = back(&reply, tools, vec![Content::text("done"), png()], false);
            assert_eq!(
                items,
                [
                    json!({"type": "function_call", "call_id": "toolu_1", "name": "computer",
                        "arguments": arguments.to_string()}),
                    json!({"type": "function_call_output", "call_id": "toolu_1", "output": [
                        {"type": "input_text", "text": "done"},
                        {"type": "input_image", "detail": "auto", "image_url": PNG}]}),
                ]
            );
        }
    }
    // Reasoning without its encrypted form cannot go back, and the items of the reply go back without ids.
    let mut reply = reply_to(&item(json!({"action": {"type": "wait"}, "pending_safety_checks": []})));
    reply.content.insert(0, Content::thinking("I wait.", None));
    let items = back(&reply, &screen(), vec![png()], false);
    let kinds: Vec<&Value> = items.iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["function_call", "function_call_output"]);
    let mut nameless = item(json!({"action": {"type": "wait"}, "pending_safety_checks": []}));
    nameless["id"] = json!("");
    let items = back(&reply_to(&nameless), &screen(), vec![png()], false);
    assert_eq!(
        (&items[0]["type"], &items[1]["type"]),
        (&json!("function_call"), &json!("function_call_output"))
    );
}

#[test]
fn an_item_of_a_tool_that_is_not_declared_stays_opaque() {
    let item = item(json!({"action": {"type": "wait"}, "pending_safety_checks": []}));
    let (reply, _) = read(&[], &item_events(item.clone(), vec![], item.clone()));
    assert_eq!(reply.content, [Content::opaque("computer_call", item)]);
}

#[test]
fn the_definition_and_the_choice_depend_on_the_model() {
    let linux = ComputerUse::new(1_280, 800).with_environment(ComputerEnvironment::Linux);
    let preview = |environment: &str| {
        json!({"type": "computer_use_preview", "display_width": 1_280, "display_height": 800,
            "environment": environment})
    };
    let rows = [
        ("gpt-5.5", linux.clone(), json!({"type": "computer"})),
        ("computer-use-preview", ComputerUse::new(1_280, 800), preview("browser")),
        ("computer-use-preview-2025-03-11", linux, preview("linux")),
        (
            "computer-use-preview",
            ComputerUse::new(1_280, 800).with_environment(ComputerEnvironment::Mac),
            preview("mac"),
        ),
        (
            "computer-use-preview",
            ComputerUse::new(1_280, 800).with_environment(ComputerEnvironment::Windows),
            preview("windows"),
        ),
    ];
    for (model, computer, expected) in rows {
        let mut request = request(vec![Message::user("?")], &[computer.into()]);
        std::sync::Arc::make_mut(&mut request.model).id = model.into();
        request.options.tool_choice = ToolChoice::Tool("computer".into());
        let body = sent(&request);
        assert_eq!(body["tools"][0], expected);
        assert_eq!((body["tools"].as_array().unwrap().len(), &body["tools"][1]["name"]), (2, &json!("look")));
        assert_eq!(body["tool_choice"], json!({"type": expected["type"]}));
        // The older tool requires that the server may shorten the conversation.
        let expected = Some(json!("auto")).filter(|_| model != "gpt-5.5");
        assert_eq!(body.get("truncation"), expected.as_ref());
        request.options.server_tools.clear();
        request.options.tool_choice = ToolChoice::Auto;
        let body = sent(&request);
        assert_eq!((&body["tools"][0]["name"], body.get("truncation")), (&json!("computer"), None));
    }
}

#[test]
fn the_last_image_of_a_result_is_the_screenshot() {
    let reply = reply_to(&item(json!({"action": {"type": "wait"}, "pending_safety_checks": []})));
    let url = Content::Image(ImageContent::Url { url: "https://example.org/s.png".into() });
    let items = back(&reply, &screen(), vec![png(), url], false);
    assert_eq!(items[1]["output"]["image_url"], "https://example.org/s.png");
    assert_eq!(items[2]["content"][1]["image_url"], PNG);
}
