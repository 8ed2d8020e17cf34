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
        ("response_format", json!({"type": "json_object"})),
        ("seed", json!(1)),
        ("user", json!("u")),
        ("top_p", json!(0.5)),
        ("made_up", json!({})),
    ];
    for (name, value) in table {
        let mut body = json!({"model": "a", "messages": user});
        body[name] = value;
        let error = chat(body).unwrap_err().body().error;
        assert_eq!((error.code, error.param.as_deref()), ("unsupported_parameter", Some(name)));
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
        json!([{"role": "assistant", "content": "x", "tool_calls": [{"id": "c"}]}, {"role": "user", "content": "y"}]),
    ] {
        assert!(chat(json!({"model": "a", "messages": messages})).is_err());
    }
}

#[test]
fn the_id_of_a_response_names_its_conversation_and_its_place() {
    let id = ResponseId { conversation: "my_agent-0a".into(), after: 17 };
    assert_eq!(id.to_string().parse::<ResponseId>().unwrap(), id);
    for wrong in ["", "resp_", "resp_x", "resp_x_y", "chatcmpl-x_1"] {
        assert!(wrong.parse::<ResponseId>().is_err());
    }
}
