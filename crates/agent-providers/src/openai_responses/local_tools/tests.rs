mod computer;

use agent_core::{
    AgentMessage, AssistantMessage, Content, EventSink, History, Message, ModelConfig, OwnedStreamEvent,
    ReplyLog, StopReason, StreamEvent, ToolChoice, ToolDefinition,
};
use serde_json::json;

use super::*;
use crate::openai_responses::body;
use crate::openai_responses::decode::Decoder;
use crate::protocol::{Decode as _, Frame};

const BOTH: [ServerTool; 2] = [ServerTool::Bash, ServerTool::ApplyPatch];

fn request(messages: Vec<Message>, tools: &[ServerTool]) -> ModelRequest {
    let (history, repairs) = History::repaired(messages.into_iter().map(AgentMessage::from));
    assert!(repairs.is_empty(), "{repairs:?}");
    let mut request = ModelRequest::new(ModelConfig::openai_responses("gpt-test", "GPT", "key"), history);
    request.options.server_tools = tools.to_vec();
    let definition = |name: &str| ToolDefinition::new(name, "Does it.", json!({"type": "object"}));
    request.tools = ["bash", "look", "apply_patch"].map(definition).into_iter().collect();
    request
}

fn sent(request: &ModelRequest) -> Value {
    serde_json::from_slice(&body(request).unwrap()).unwrap()
}

/// Decodes events, and returns the content of the reply and the pieces of its arguments.
fn read(tools: &[ServerTool], frames: &[Value]) -> (AssistantMessage, Vec<String>) {
    let mut decoder = Decoder::new(&request(vec![], tools));
    let (mut log, mut pieces) = (ReplyLog::new(), Vec::new());
    let mut sink = |event: StreamEvent<'_>| {
        log.push(&event);
        match OwnedStreamEvent::from(event) {
            OwnedStreamEvent::ToolCallDelta { delta, .. } => pieces.push(delta),
            OwnedStreamEvent::Unrecognised { name } => panic!("{name}"),
            _ => {}
        }
    };
    let sink: &mut EventSink<'_> = &mut sink;
    for frame in frames {
        decoder.push(Frame { event: None, data: &frame.to_string() }, sink).unwrap();
    }
    let completion = decoder.finish(sink).unwrap();
    (log.finish("openai", "gpt-test", &completion), pieces)
}

#[expect(clippy::needless_pass_by_value, reason = "tests pass what `json!` makes")]
fn item_events(added: Value, between: Vec<Value>, done: Value) -> Vec<Value> {
    let mut frames = vec![json!({"type": "response.output_item.added", "output_index": 0, "item": added})];
    frames.extend(between);
    frames.push(json!({"type": "response.output_item.done", "output_index": 0, "item": done}));
    frames.push(json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed",
        "output": [done], "usage": {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}}}));
    frames
}

#[expect(clippy::needless_pass_by_value, reason = "tests pass what `json!` makes")]
fn shell(action: Value) -> Value {
    json!({"type": "shell_call", "id": "sh_1", "call_id": "call_1", "status": "completed", "action": action,
        "environment": {"type": "local"}, "caller": null})
}

#[expect(clippy::needless_pass_by_value, reason = "tests pass what `json!` makes")]
fn patch(operation: Value) -> Value {
    json!({"type": "apply_patch_call", "id": "apc_1", "call_id": "call_1", "status": "completed",
        "operation": operation})
}

fn result_of(call: &ToolCall, text: &str, is_error: bool, details: Value) -> Message {
    let mut result = ToolResultMessage::new(call.id.clone(), call.name.clone(), vec![Content::text(text)]);
    result.is_error = is_error;
    result.details = details;
    result.into()
}

/// What the next request contains of a reply with one call and of its result.
fn sent_back(reply: &AssistantMessage, tools: &[ServerTool]) -> Vec<Value> {
    let mut reply = reply.clone();
    reply.api = Some(agent_core::ApiProtocol::OpenAiResponses);
    let call = reply.tool_calls().next().unwrap().clone();
    let result = result_of(&call, "done", false, Value::Null);
    let body = sent(&request(vec![Message::user("?"), reply.into(), result], tools));
    body["input"].as_array().unwrap()[1..].to_vec()
}

#[test]
fn commands_arrive_in_pieces_as_the_arguments_of_bash_and_go_back_as_they_came() {
    let delta = |at: u64, text: &str| json!({"type": "response.shell_call_command.delta", "output_index": 0, "command_index": at, "delta": text});
    let action =
        json!({"commands": ["echo \"é\"", "", "ls"], "max_output_length": 4_000, "timeout_ms": 1_500});
    let between = vec![
        json!({"type": "response.shell_call_command.added", "output_index": 0, "command_index": 0, "command": ""}),
        delta(0, "echo \""),
        delta(0, "é\""),
        json!({"type": "response.shell_call_command.done", "output_index": 0, "command_index": 0, "command": "echo \"é\""}),
        delta(2, "ls"),
    ];
    let begun = json!({"type": "shell_call", "id": "sh_1", "call_id": "call_1", "status": "in_progress",
        "action": {"commands": []}});
    let (reply, pieces) = read(&BOTH, &item_events(begun, between, shell(action.clone())));
    assert_eq!(pieces.first().unwrap(), r#"{"command":"echo \""#);
    assert!(pieces.len() > 3, "{pieces:?}");
    assert_eq!(reply.stop_reason, StopReason::ToolUse);
    let call = reply.tool_calls().next().unwrap();
    assert_eq!((call.id.as_str(), call.name.as_str()), ("call_1", "bash"));
    assert_eq!(call.arguments.value().unwrap(), &json!({"command": "echo \"é\"\n\nls", "timeout": 2}));

    // They go back so also if the tool is no longer declared.
    for tools in [&BOTH[..], &[]] {
        let items = sent_back(&reply, tools);
        assert_eq!(
            items[0],
            json!({"type": "shell_call", "id": "sh_1", "call_id": "call_1", "status": "completed",
                "action": action, "environment": {"type": "local"}})
        );
        assert_eq!(
            items[1],
            json!({"type": "shell_call_output", "call_id": "call_1", "max_output_length": 4_000,
                "output": [{"stdout": "done", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]})
        );
    }
}

#[test]
fn a_change_of_a_file_becomes_a_patch_and_goes_back_as_it_came() {
    let rows = [
        (
            json!({"type": "create_file", "path": "a b.md", "diff": "+one\n+\"two\"\n"}),
            "*** Begin Patch\n*** Add File: a b.md\n+one\n+\"two\"\n*** End Patch",
        ),
        (
            json!({"type": "update_file", "path": "src/a.rs", "diff": "@@ fn a()\n-x\n+y"}),
            "*** Begin Patch\n*** Update File: src/a.rs\n@@ fn a()\n-x\n+y\n*** End Patch",
        ),
        (
            json!({"type": "update_file", "path": "a", "diff": "@@\n-x\n+y\n*** End of File\n"}),
            "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End of File\n*** End Patch",
        ),
        (
            json!({"type": "delete_file", "path": "old.txt"}),
            "*** Begin Patch\n*** Delete File: old.txt\n*** End Patch",
        ),
    ];
    for (operation, expected) in rows {
        let mut begun = patch(operation.clone());
        let diff = operation["diff"].as_str().unwrap_or_default();
        let pieces: Vec<Value> = diff
            .split_inclusive('\n')
            .map(|line| {
                json!({"type": "response.apply_patch_call_operation_diff.delta", "output_index": 0,
                    "item_id": "apc_1", "delta": line})
            })
            .collect();
        if begun["operation"].get("diff").is_some() {
            begun["operation"]["diff"] = json!("");
        }
        let count = pieces.len();
        let (reply, emitted) = read(&BOTH, &item_events(begun, pieces, patch(operation.clone())));
        assert!(emitted.len() > count, "{emitted:?}");
        let call = reply.tool_calls().next().unwrap();
        assert_eq!(call.name.as_str(), "apply_patch");
        assert_eq!(call.arguments.value().unwrap(), &json!({"input": expected}));
        // The text of a patch is stored once, unless its end would change.
        let stored = call.signature.as_ref().unwrap().contains("operation");
        assert_eq!(stored, !(diff.is_empty() || diff.ends_with('\n')), "{operation}");
        let items = sent_back(&reply, &BOTH);
        assert_eq!(items[0], patch(operation));
        assert_eq!(
            items[1],
            json!({"type": "apply_patch_call_output", "call_id": "call_1", "status": "completed", "output": "done"})
        );
    }
}

/// A patch with other effects than the operation would pass the checks of the caller under another name.
#[test]
fn what_the_arguments_cannot_express_is_left_to_the_tool_to_reject() {
    let rows = [
        json!({"type": "update_file", "path": "a", "diff": "@@\n-x\n*** Delete File: b\n"}),
        json!({"type": "update_file", "path": "a", "diff": "*** Move to: b\n@@\n-x\n+y\n"}),
        json!({"type": "create_file", "path": "a\n*** Delete File: b", "diff": "+x\n"}),
        json!({"type": "create_file", "path": " ", "diff": "+x\n"}),
        json!({"type": "rename_file", "path": "a"}),
        json!({"type": "update_file", "path": "a"}),
        json!("nothing"),
    ];
    for operation in rows {
        let item = patch(operation.clone());
        let (reply, _) = read(&BOTH, &item_events(item.clone(), vec![], item));
        let call = reply.tool_calls().next().unwrap();
        assert_eq!(call.arguments.value().unwrap(), &json!({"operation": operation}));
    }
    let item = shell(json!({"commands": ["ls", 7]}));
    let (reply, _) = read(&BOTH, &item_events(item.clone(), vec![], item));
    let call = reply.tool_calls().next().unwrap();
    assert_eq!(call.arguments.value().unwrap(), &json!({"action": {"commands": ["ls", 7]}}));
}

#[test]
fn items_of_a_container_and_of_tools_that_are_not_declared_stay_opaque() {
    let mut in_container = shell(json!({"commands": ["ls"]}));
    in_container["environment"] = json!({"type": "container_reference", "container_id": "cntr_1"});
    for (tools, item) in [
        (&BOTH[..], in_container),
        (&[][..], shell(json!({"commands": ["ls"]}))),
        (&BOTH[..1], patch(json!({"type": "delete_file", "path": "a"}))),
    ] {
        let (reply, _) = read(tools, &item_events(item.clone(), vec![], item.clone()));
        let kind = item["type"].as_str().unwrap().to_owned();
        assert_eq!(reply.content, [Content::opaque(kind, item)]);
    }
}

#[test]
fn calls_of_other_models_have_the_form_if_it_can_express_them() {
    let patch = |section: &str| json!({"input": format!("*** Begin Patch\n{section}*** End Patch\n")});
    let rows = [
        (
            "bash",
            json!({"command": "ls", "timeout": 3}),
            Some(json!({"commands": ["ls"], "timeout_ms": 3_000})),
        ),
        ("bash", json!({"command": "ls"}), Some(json!({"commands": ["ls"]}))),
        ("bash", json!({"command": "ls", "background": true}), None),
        ("bash", json!({"restart": true}), None),
        (
            "apply_patch",
            patch("*** Add File: a\n+x\n"),
            Some(json!({"type": "create_file", "path": "a", "diff": "+x\n"})),
        ),
        ("apply_patch", patch("*** Delete File: a\n"), Some(json!({"type": "delete_file", "path": "a"}))),
        ("apply_patch", patch("*** Delete File: a\n*** Add File: b\n+x\n"), None),
        ("apply_patch", patch("*** Update File: a\n*** Move to: b\n@@\n-x\n+y\n"), None),
        ("apply_patch", json!({"input": "cut"}), None),
        ("look", json!({"command": "ls"}), None),
    ];
    for (name, arguments, expected) in rows {
        for tools in [&BOTH[..], &[]] {
            let mut reply = AssistantMessage::new("anthropic", "claude", StopReason::ToolUse);
            reply.content = vec![Content::tool_call("toolu_1", name, arguments.clone())];
            let call = reply.tool_calls().next().unwrap().clone();
            let result = result_of(&call, "no", true, Value::Null);
            let body = sent(&request(vec![Message::user("?"), reply.into(), result], tools));
            let (item, output) = (&body["input"][1], &body["input"][2]);
            let expected = expected.as_ref().filter(|_| !tools.is_empty());
            let Some(content) = expected else {
                assert_eq!((&item["type"], &item["name"]), (&json!("function_call"), &json!(name)));
                assert_eq!(output["type"], "function_call_output");
                continue;
            };
            let form = if name == "bash" { LocalForm::Shell } else { LocalForm::Patch };
            assert_eq!((&item["type"], item.get("id")), (&json!(form.kind()), None));
            assert_eq!(&item[form.member()], content);
            let failed = match form {
                LocalForm::Shell => json!({"type": "shell_call_output", "call_id": "toolu_1", "output":
                    [{"stdout": "", "stderr": "no", "outcome": {"type": "exit", "exit_code": 1}}]}),
                LocalForm::Patch => json!({"type": "apply_patch_call_output", "call_id": "toolu_1",
                    "status": "failed", "output": "no"}),
                LocalForm::Computer => unreachable!("no row has it"),
            };
            assert_eq!(output, &failed);
        }
    }
}

#[test]
fn a_function_that_the_same_model_called_stays_a_function() {
    let item = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "bash",
        "arguments": "{\"command\":\"ls\"}", "status": "completed"});
    let (reply, _) = read(&[], &item_events(item.clone(), vec![], item));
    let items = sent_back(&reply, &BOTH);
    assert_eq!((&items[0]["type"], &items[0]["id"]), (&json!("function_call"), &json!("fc_1")));
    assert_eq!(items[1]["type"], "function_call_output");
}

#[test]
fn an_output_has_the_streams_and_the_outcome_of_the_command() {
    let exit = |code: i64| json!({"type": "exit", "exit_code": code});
    let ran = |code: i64| json!({"exit_code": code, "success": code == 0});
    let late = json!({"exit_code": -1, "success": false, "timed_out": true});
    let rows = [
        ("Exit code: 0\nhi\n", false, ran(0), "hi\n", "", exit(0)),
        ("Exit code: 0", false, ran(0), "", "", exit(0)),
        ("Exit code: 3\nSTDOUT:\nhi\n\nSTDERR:\noh\n", false, ran(3), "hi\n", "oh\n", exit(3)),
        ("Exit code: 3\nSTDOUT:\n\nSTDERR:\noh", false, ran(3), "", "oh", exit(3)),
        ("Command timed out after 2s\nhalf", true, late, "half", "", json!({"type": "timeout"})),
        ("Command timed out after 2s", true, Value::Null, "", "", json!({"type": "timeout"})),
        (
            "Command blocked by safety policy",
            true,
            Value::Null,
            "",
            "Command blocked by safety policy",
            exit(1),
        ),
        ("a tool of the user", false, Value::Null, "a tool of the user", "", exit(0)),
    ];
    for (text, is_error, details, stdout, stderr, outcome) in rows {
        let mut result = ToolResultMessage::new("c".into(), "bash".into(), vec![Content::text(text)]);
        (result.is_error, result.details) = (is_error, details);
        let expected = json!({"stdout": stdout, "stderr": stderr, "outcome": outcome});
        assert_eq!(output::of_shell(&output::text(&result.content), &result), expected, "{text}");
    }
    assert_eq!(
        output::text(&[Content::text("a"), Content::image("", "image/png")]),
        format!("a\n{}", output::NOT_TEXT)
    );
}

#[test]
fn the_vendors_definition_replaces_that_of_the_local_tool() {
    let mut request = request(vec![Message::user("?")], &BOTH);
    let tools = sent(&request)["tools"].clone();
    assert_eq!(tools[0], json!({"type": "shell", "environment": {"type": "local"}}));
    assert_eq!(tools[1], json!({"type": "apply_patch"}));
    assert_eq!((tools.as_array().unwrap().len(), &tools[2]["name"]), (3, &json!("look")));
    for (name, expected) in [
        ("bash", json!({"type": "shell"})),
        ("apply_patch", json!({"type": "apply_patch"})),
        ("look", json!({"type": "function", "name": "look"})),
    ] {
        request.options.tool_choice = ToolChoice::Tool(name.into());
        assert_eq!(sent(&request)["tool_choice"], expected);
    }
    request.options.server_tools.clear();
    assert_eq!(sent(&request)["tools"].as_array().unwrap().len(), 3, "the cached form is another one");
    assert_eq!(sent(&request)["tools"][0]["name"], "bash");
}

#[test]
fn pieces_that_do_not_fit_the_whole_call_are_not_emitted() {
    let mut call = LocalCall::new(LocalForm::Shell, &Map::new());
    assert_eq!(call.piece(1, "a").as_deref(), Some(r#"{"command":"\na"#));
    assert_eq!(call.piece(1, "\u{fffd}"), None);
    assert_eq!(call.piece(1, "b"), None);
    let mut call = LocalCall::new(LocalForm::Shell, &Map::new());
    assert_eq!(call.piece(u64::MAX, "a"), None);
    let mut call = LocalCall::new(LocalForm::Patch, &Map::new());
    assert_eq!(call.piece(0, "+a"), None, "the path is not known");
}

/// A connection sends only what follows the reply, so the reply must be in the next request byte by byte.
#[cfg(feature = "openai-responses-ws")]
#[test]
fn a_reply_with_such_calls_is_the_beginning_of_what_the_next_request_adds() {
    let mut reply = AssistantMessage::new("openai", "gpt-test", StopReason::ToolUse);
    reply.api = Some(agent_core::ApiProtocol::OpenAiResponses);
    let wait = json!({"type": "computer_call", "id": "cu_1", "call_id": "call_3", "status": "completed",
        "action": {"type": "wait"}, "pending_safety_checks": []});
    let patch = patch(json!({"type": "delete_file", "path": "a"}));
    reply.content = [shell(json!({"commands": ["ls"]})), patch, wait]
        .into_iter()
        .zip(["call_1", "call_2", "call_3"])
        .map(|(item, id)| {
            let item = item.as_object().unwrap();
            let form = LocalForm::of_type(item["type"].as_str().unwrap()).unwrap();
            let mut content = Content::tool_call(
                id,
                form.tool_name(),
                agent_core::ToolArguments::from_text(form.arguments(item)),
            );
            if let Content::ToolCall(call) = &mut content {
                call.signature = marks::of_call(item.clone());
            }
            content
        })
        .collect();
    let results = reply.tool_calls().map(|call| result_of(call, "done", false, Value::Null));
    let mut messages = vec![Message::user("?"), reply.clone().into()];
    messages.extend(results);
    let request = request(messages, &BOTH);
    let items = crate::openai_responses::encode::reply(&request, &reply).unwrap();
    let text = String::from_utf8(body(&request).unwrap()).unwrap();
    let items = String::from_utf8(items).unwrap();
    assert!(
        text.contains(&format!(r#"{{"role":"user","content":"?"}},{items},{{"type":"shell_call_output""#))
    );
}
