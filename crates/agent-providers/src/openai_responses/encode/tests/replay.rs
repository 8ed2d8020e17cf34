//! The conversation: what goes back, to whom, in which order.

use super::*;

fn named(id: &str, text: &str) -> Value {
    json!({"type": "message", "id": id, "status": "completed", "role": "assistant",
        "content": [{"type": "output_text", "annotations": [], "text": text}]})
}

fn output(id: &str, output: Value) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": output})
}

/// REQ-123, B-131.
#[test]
fn a_reply_of_the_same_model_goes_back_item_by_item() {
    let mut content = Vec::from(reasoning("rs_1", "e1"));
    content.push(text("a", json!({"id": "msg_1", "phase": "commentary"})));
    content.push(text("b", json!({"id": "msg_1", "phase": "commentary"})));
    content.extend(reasoning("rs_2", "e2"));
    content.push(Content::opaque("web_search_call", json!({"type": "web_search_call", "id": "ws_1"})));
    content.push(call("call_1", "{\"b\":1, \"a\":2}", json!({"id": "fc_1", "namespace": "n"})));
    let sent = input(vec![reply(content), result("call_1", vec![Content::text("r")])]);
    let expected = json!([
        sent_reasoning("rs_1", "e1"),
        {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "phase": "commentary",
            "content": [{"type": "output_text", "annotations": [], "text": "a"},
                {"type": "output_text", "annotations": [], "text": "b"}]},
        sent_reasoning("rs_2", "e2"),
        {"type": "web_search_call", "id": "ws_1"},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look",
            "arguments": "{\"b\":1, \"a\":2}", "namespace": "n"},
        output("call_1", json!("r")),
    ]);
    assert_eq!(json!(sent), expected);
}

/// B-132, B-133.
#[test]
fn another_model_gets_texts_and_calls_and_nothing_else() {
    let mut content = Vec::from(reasoning("rs_1", "secret"));
    content.push(text("a", json!({"id": "msg_secret"})));
    content.push(Content::opaque("web_search_call", json!({"id": "secret"})));
    content.push(Content::redacted_thinking("secret"));
    content.push(call("call_1", "{}", json!({"id": "fc_secret"})));
    let messages = |provider: &str, id: &str, api| {
        vec![reply_of(provider, id, api, content.clone()), result("call_1", vec![Content::text("r")])]
    };
    let expected = json!([
        {"role": "assistant", "content": "a"},
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
        output("call_1", json!("r")),
    ]);
    for (provider, id, api) in [
        ("openai", "gpt-other", ApiProtocol::OpenAiResponses),
        ("azure", "gpt-test", ApiProtocol::AzureOpenAiResponses),
        ("anthropic", "claude", ApiProtocol::AnthropicMessages),
    ] {
        assert_eq!(json!(input(messages(provider, id, api))), expected);
    }
    let mut request = with(model(), history(messages("anthropic", "claude", ApiProtocol::AnthropicMessages)));
    request.options.foreign_thinking_as_text = true;
    assert_eq!(json_of(&request)["input"][0], json!({"role": "assistant", "content": "hm"}));
}

/// The API refuses a reasoning item without the item that it led to.
#[test]
fn reasoning_never_stands_alone() {
    assert!(input(vec![reply(reasoning("rs_1", "e").into())]).is_empty());
    let mut content = vec![text("a", json!({"id": "msg_1"}))];
    content.extend(reasoning("rs_1", "e"));
    content.push(Content::text(" \n"));
    assert_eq!(json!(input(vec![reply(content)])), json!([named("msg_1", "a")]));
}

/// An item of which the API knows that reasoning led to it is refused under its name without that.
#[test]
fn names_are_left_out_where_reasoning_is() {
    let lost = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let content = vec![
        Content::opaque("reasoning", lost),
        Content::opaque("web_search_call", json!({"type": "web_search_call", "id": "ws_1"})),
        text("a", json!({"id": "msg_1", "phase": "final_answer"})),
        call("call_1", "{}", json!({"id": "fc_1"})),
    ];
    let sent = input(vec![reply(content), result("call_1", vec![Content::text("r")])]);
    let expected = json!([
        {"role": "assistant", "phase": "final_answer", "content": "a"},
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
        output("call_1", json!("r")),
    ]);
    assert_eq!(json!(sent), expected);
}

#[test]
fn a_call_that_only_the_client_could_have_answered_is_left_out_with_its_reasoning() {
    let shell = |kind: &str| Content::opaque(kind, json!({"type": kind, "call_id": "s", "id": "sh_1"}));
    let mut content = Vec::from(reasoning("rs_1", "e"));
    content.push(shell("local_shell_call"));
    content.push(text("a", json!({"id": "msg_1"})));
    assert_eq!(json!(input(vec![reply(content)])), json!([{"role": "assistant", "content": "a"}]));
    // The server has answered this one itself.
    let answered = vec![shell("shell_call"), shell("shell_call_output")];
    assert_eq!(input(vec![reply(answered)]).len(), 2);
}

#[test]
fn a_custom_call_goes_back_as_one() {
    let mark = json!({"type": "custom_tool_call", "id": "ctc_1", "caller": {"type": "direct"}});
    let sent = input(vec![
        reply(vec![call("call_1", "SELECT 1", mark)]),
        result("call_1", vec![Content::text("1")]),
    ]);
    let expected = json!([
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "look", "input": "SELECT 1",
            "caller": {"type": "direct"}},
        {"type": "custom_tool_call_output", "call_id": "call_1", "output": "1", "caller": {"type": "direct"}},
    ]);
    assert_eq!(json!(sent), expected);
}

/// Servers whose reasoning is readable get it back in words.
#[test]
fn another_vendors_model_gets_its_reasoning_back_in_words() {
    let model = || ModelConfig::new(ApiProtocol::OpenAiResponses, "vllm", "m").with_base_url("http://h/v1");
    let item =
        json!({"type": "reasoning", "id": "r1", "summary": [], "content": [{"type": "reasoning_text"}]});
    let content = vec![Content::opaque("reasoning", item), Content::thinking("hm", None), Content::text("a")];
    let messages = || vec![reply_of("vllm", "m", ApiProtocol::OpenAiResponses, content.clone())];
    let sent = input_of(model(), messages());
    let words = json!({"type": "reasoning", "id": "r1", "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}]});
    assert_eq!(json!(sent), json!([words, {"role": "assistant", "content": "a"}]));
}

/// REQ-123, B-142.
#[test]
fn results_and_prompts_carry_pictures() {
    let address = "https://example.org/a.png";
    let picture = || vec![Content::image("aGk=", "image/png"), Content::image_url(address)];
    let pictures = [
        json!({"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="}),
        json!({"type": "input_image", "detail": "auto", "image_url": address}),
    ];
    let messages = || {
        vec![
            Message::user_content(picture()),
            reply(vec![call("call_1", "{}", json!({}))]),
            result("call_1", picture()),
        ]
    };
    let sent = input(messages());
    assert_eq!(sent[0], json!({"role": "user", "content": pictures}));
    let note = json!({"type": "input_text", "text": "[see the attached image]"});
    assert_eq!(sent[2]["output"], json!([note, pictures[0], pictures[1]]));
    let blind = input_of(model().with_images(false), messages());
    let gone = "[image left out: this model reads text only]";
    assert_eq!(blind[2]["output"], format!("{gone}\n{gone}"));
}

/// B-143, B-134.
#[test]
fn blank_texts_are_left_out_and_odd_names_and_arguments_are_made_acceptable() {
    let id = format!("call_{}|fc_{}", "7".repeat(60), "é".repeat(40));
    let mut odd = call(&id, "{\"half", json!({}));
    if let Content::ToolCall(call) = &mut odd {
        call.name = "no such tool!".into();
    }
    let sent = input(vec![
        Message::user_content(vec![Content::text(" "), Content::text("x")]),
        reply(vec![Content::text(""), odd]),
        result(&id, vec![Content::text("")]),
    ]);
    assert_eq!(sent[0], json!({"role": "user", "content": "x"}));
    assert_eq!((&sent[1]["name"], &sent[1]["arguments"]), (&json!("no_such_tool_"), &json!("{}")));
    // The model wrote the id itself.
    assert_eq!(sent[1]["call_id"], id);
    assert_eq!((&sent[2]["call_id"], &sent[2]["output"]), (&json!(id), &json!("[no output]")));
}

/// A server that takes a text between two calls for the end of the first gets none there.
#[test]
fn other_vendors_get_the_calls_of_a_reply_one_behind_the_other() {
    let content = |provider: &str, api| {
        let call = |id: &str| Content::tool_call(id, "look", json!({}));
        let content = vec![Content::text("a"), call("c1"), Content::text("b"), call("c2")];
        let results = ["c1", "c2"].map(|id| result(id, vec![Content::text("r")]));
        let mut messages = vec![reply_of(provider, "m", api, content)];
        messages.extend(results);
        messages
    };
    let kinds = |model: ModelConfig, messages| -> Vec<String> {
        let kind =
            |item: &Value| item.get("type").or(item.get("content")).unwrap().as_str().unwrap().to_owned();
        input_of(model, messages).iter().map(kind).collect()
    };
    let deepseek = ModelConfig::new(ApiProtocol::OpenAiResponses, "deepseek", "m").with_api_key("k");
    let other = content("anthropic", ApiProtocol::AnthropicMessages);
    let [call, output] = ["function_call", "function_call_output"];
    assert_eq!(kinds(deepseek, other.clone()), ["a", "b", call, call, output, output]);
    assert_eq!(kinds(model(), other), ["a", call, "b", call, output, output]);
}
