use agent_core::ResponseFormat;
use serde_json::{Value, json};

use super::ask::Ask;
use super::chat::ChatRequest;
use super::responses::{ResponseId, ResponsesRequest};
use crate::api::error::ApiError;

fn chat(body: Value) -> Result<Ask, ApiError> {
    serde_json::from_value::<ChatRequest>(body)
        .map_err(|error| ApiError::bad_request(error.to_string()))?
        .ask()
}

fn responses(body: Value) -> Result<Ask, ApiError> {
    serde_json::from_value::<ResponsesRequest>(body)
        .map_err(|error| ApiError::bad_request(error.to_string()))?
        .ask()
}

#[test]
fn a_chat_becomes_instructions_a_history_and_a_prompt() {
    let ask = chat(json!({
        "model": "a", "temperature": 0.5, "max_tokens": 9, "reasoning_effort": "low", "stop": "END", "n": 1,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "One?"},
            {"role": "assistant", "content": "One.", "refusal": null, "tool_calls": null},
            {"role": "user", "content": [
                {"type": "text", "text": "Two?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk=", "detail": "auto"}},
            ]},
        ],
    }))
    .unwrap();
    assert_eq!(ask.options.instructions, ["Be brief."]);
    assert_eq!(
        ask.history.iter().map(agent_core::AgentMessage::role).collect::<Vec<_>>(),
        ["user", "assistant"]
    );
    assert_eq!(ask.prompt.unwrap().text(), "Two?");
    assert_eq!((ask.options.temperature, ask.options.max_tokens), (Some(0.5), Some(9)));
    assert_eq!(ask.options.stop, ["END"]);
}

#[test]
fn what_a_compatible_route_does_not_support_is_refused_by_name() {
    let user = json!([{"role": "user", "content": "Hi"}]);
    let table = [
        ("n", json!(2)),
        ("tools", json!([{"type": "function", "function": {"name": "f"}}])),
        ("logprobs", json!(true)),
        ("response_format", json!({"type": "grammar"})),
        ("seed", json!(1)),
        ("top_p", json!(0.5)),
        ("made_up", json!({})),
    ];
    for (name, value) in table {
        let mut body = json!({"model": "a", "messages": user});
        body[name] = value;
        let error = chat(body).unwrap_err().body().error;
        assert_eq!((error.code, error.param.as_deref()), ("unsupported_parameter", Some(name)));
        assert!(error.message.len() > 40, "{}", error.message);
    }
    for (name, value) in
        [("background", json!(true)), ("include", json!(["x"])), ("prompt", json!({"id": "p"}))]
    {
        let mut body = json!({"model": "a", "input": "Hi"});
        body[name] = value;
        let error = responses(body).unwrap_err().body().error;
        assert_eq!((error.code, error.param.as_deref()), ("unsupported_parameter", Some(name)));
    }
    for messages in [
        json!([]),
        json!([{"role": "assistant", "content": "Hi"}]),
        json!([{"role": "tool", "content": "Hi", "tool_call_id": "c"}]),
        json!([{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]),
        json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}]}]),
        json!([{"role": "user", "content": null}]),
        json!([{"role": "user", "content": 7}]),
        json!([{"role": "assistant", "content": "x", "tool_calls": [{"id": "c"}]}, {"role": "user", "content": "y"}]),
    ] {
        assert!(chat(json!({"model": "a", "messages": messages})).is_err());
    }
}

#[test]
fn labels_and_messages_without_content_are_taken() {
    let labels = json!({
        "user": "u1", "metadata": {"a": "b"}, "safety_identifier": "s", "prompt_cache_key": "k",
        "prompt_cache_retention": "24h", "store": false, "top_p": 1, "seed": null,
    });
    let mut body = json!({"model": "a", "messages": [
        {"role": "user", "name": "ann", "content": "One?"},
        {"role": "assistant", "content": null, "refusal": null},
        {"role": "assistant"},
        {"role": "user", "content": "Two?"},
    ]});
    body.as_object_mut().unwrap().extend(labels.as_object().unwrap().clone());
    let ask = chat(body).unwrap();
    assert_eq!((ask.history.len(), ask.prompt.unwrap().text()), (1, "Two?".to_owned()));
    let mut body = json!({"model": "a", "include": ["reasoning.encrypted_content"], "input": [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"role": "user", "content": "Two?"},
    ]});
    body.as_object_mut().unwrap().extend(labels.as_object().unwrap().clone());
    assert_eq!(responses(body).unwrap().prompt.unwrap().text(), "Two?");
}

#[test]
fn the_form_of_the_answer_is_passed_on() {
    let schema = json!({"type": "object"});
    let user = json!([{"role": "user", "content": "Hi"}]);
    let named = ResponseFormat::JsonSchema { name: "n".into(), schema: schema.clone(), strict: true };
    for (form, expect) in [
        (json!({"type": "text"}), None),
        (json!({"type": "json_object"}), Some(ResponseFormat::JsonObject)),
        (
            json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": true}}),
            Some(named.clone()),
        ),
    ] {
        let ask = chat(json!({"model": "a", "messages": user, "response_format": form})).unwrap();
        assert_eq!(ask.options.form, expect);
    }
    let format = json!({"type": "json_schema", "name": "n", "schema": schema, "strict": true});
    let ask = responses(json!({"model": "a", "input": "Hi", "text": {"format": format}})).unwrap();
    assert_eq!(ask.options.form, Some(named));
}

#[test]
fn the_id_of_a_response_names_its_conversation_and_its_place() {
    let id = ResponseId { conversation: "my_agent-0a".into(), after: 17 };
    assert_eq!(id.to_string().parse::<ResponseId>().unwrap(), id);
    for wrong in ["", "resp_", "resp_x", "resp_x_y", "chatcmpl-x_1"] {
        assert!(wrong.parse::<ResponseId>().is_err());
    }
}
