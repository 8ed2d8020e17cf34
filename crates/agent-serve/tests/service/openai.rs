//! The routes that OpenAI's clients use.

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{BasicAgent, ErrorKind, ModelConfig, Usage};
use agent_serve::{ConversationRef, Service};
use serde_json::{Value, json};

use crate::support::{Events, Running, keys, quick, store};

fn chat(text: &str) -> Value {
    json!({"model": "loud", "messages": [{"role": "user", "content": text}]})
}

/// Says something before and after a call.
fn talkative() -> BasicAgent {
    let provider = ScriptedProvider::responding(|request| {
        match request.history.messages().last().is_some_and(|last| last.role() == "toolResult") {
            true => ScriptedReply::text("Found it.").in_pieces_of(3).using(Usage::new(20, 3, 0, 0)),
            false => ScriptedReply::text("Let me look.")
                .and_call("c1", "look", json!({}))
                .using(Usage::new(10, 5, 1, 0)),
        }
    });
    BasicAgent::new(ModelConfig::default())
        .with_provider(provider)
        .with_tool(ScriptedTool::saying("look", "a file"))
}

async fn running(folder: &std::path::Path) -> Running {
    let provider = ScriptedProvider::responding(|_| ScriptedReply::error(ErrorKind::Other, "no such model"));
    let builder = crate::support::builder(&store(folder))
        .agent("talkative", |_: &ConversationRef| talkative())
        .agent("broken", move |_: &ConversationRef| crate::support::agent(&provider))
        .keys(keys())
        .limits(quick());
    Running::with(builder).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_completion_is_the_same_with_and_without_a_stream_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let running = running(folder.path()).await;
    let mut body = json!({"model": "talkative", "messages": [{"role": "user", "content": "Where?"}]});
    let (status, whole) = running.post("/v1/chat/completions", body.clone()).await;
    assert_eq!(status, 200, "{whole}");
    let text = "Let me look.\n\nFound it.";
    assert_eq!(whole["choices"][0]["message"]["content"], text);
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    assert_eq!(whole["usage"]["prompt_tokens"], 31);
    assert_eq!(whole["usage"]["completion_tokens"], 8);

    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    let response = running.request("POST", "/v1/chat/completions").json(&body).send().await.unwrap();
    let mut events = Events::of(response);
    let (mut streamed, mut last) = (String::new(), Value::Null);
    while let Some(event) = events.next().await {
        if event.data == "[DONE]" {
            break;
        }
        streamed.push_str(event.data["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
        last = event.data;
    }
    assert_eq!(streamed, text);
    assert_eq!(last["usage"], whole["usage"]);
    // Deleted in the background.
    let gone = async {
        while running.get("/v1/conversations").await.1["total"] != 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::support::HANG, gone).await.expect("the conversations stay");

    let mut stored = chat("hi");
    stored["store"] = json!(true);
    let (_, whole) = running.post("/v1/chat/completions", stored).await;
    assert_eq!(whole["choices"][0]["message"]["content"], "HI");
    assert_eq!(running.get("/v1/conversations").await.1["total"], 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_with_a_history_continues_it() {
    let folder = tempfile::tempdir().unwrap();
    let provider = ScriptedProvider::responding(|request| {
        let roles: Vec<_> = request.history.messages().map(agent_core::AgentMessage::role).collect();
        let temperature = request.options.temperature.unwrap_or_default();
        ScriptedReply::text(format!("{} | {} | {temperature}", request.system_prompt, roles.join(",")))
    });
    let builder = Service::builder(store(folder.path()))
        .agent("echo", move |_: &ConversationRef| crate::support::agent(&provider))
        .keys(keys())
        .limits(quick());
    let running = Running::with(builder).await;
    let body = json!({"model": "echo", "temperature": 0.5, "messages": [
        {"role": "system", "content": "Answer in French."},
        {"role": "user", "content": "One?"},
        {"role": "assistant", "content": "Un."},
        {"role": "user", "content": "Two?"},
    ]});
    let (status, whole) = running.post("/v1/chat/completions", body).await;
    assert_eq!(status, 200, "{whole}");
    let expected = "Be loud.\n\nAnswer in French. | user,assistant,user | 0.5";
    assert_eq!(whole["choices"][0]["message"]["content"], expected);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_is_continued_by_its_id_and_only_from_the_latest_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let running = Running::usual(&store).await;
    let (status, first) = running.post("/v1/responses", json!({"model": "loud", "input": "one"})).await;
    assert_eq!((status, first["status"].as_str()), (200, Some("completed")), "{first}");
    assert_eq!(first["output"][0]["content"][0]["text"], "ONE");
    let continued = |id: &Value| json!({"model": "loud", "input": "two", "previous_response_id": id});
    let (status, second) = running.post("/v1/responses", continued(&first["id"])).await;
    assert_eq!(status, 200, "{second}");
    assert_eq!(second["output"][0]["content"][0]["text"], "TWO");
    assert_eq!(second["previous_response_id"], first["id"]);
    let (status, body) = running.post("/v1/responses", continued(&first["id"])).await;
    assert_eq!((status, body["error"]["code"].as_str()), (400, Some("previous_response_not_found")));
    running.stop().await;

    let running = Running::usual(&store).await;
    let mut third = continued(&second["id"]);
    third["stream"] = json!(true);
    let response = running.request("POST", "/v1/responses").json(&third).send().await.unwrap();
    let mut events = Events::of(response);
    let all = events.until("response.completed").await;
    let kinds: Vec<_> = all.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let sequence: Vec<_> = all.iter().map(|event| event.data["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(sequence, (0..9).collect::<Vec<_>>());
    let last = &all.last().unwrap().data["response"];
    assert_eq!(last["output"][0]["content"][0]["text"], "TWO");
    let (status, fourth) = running.post("/v1/responses", continued(&last["id"])).await;
    assert_eq!(status, 200, "{fourth}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_response_can_be_read_and_an_address_may_end_with_a_slash() {
    let folder = tempfile::tempdir().unwrap();
    let running = running(folder.path()).await;
    let (status, first) =
        running.post("/v1/responses/", json!({"model": "talkative", "input": "Where?", "user": "u"})).await;
    assert_eq!(status, 200, "{first}");
    let id = first["id"].as_str().unwrap();
    let (status, stored) = running.get(&format!("/v1/responses/{id}")).await;
    assert_eq!(status, 200, "{stored}");
    for member in ["id", "model", "status", "output", "usage"] {
        assert_eq!(stored[member], first[member], "{member}");
    }
    for wrong in ["resp_none_0", "resp_x", &format!("{id}9")] {
        assert_eq!(running.get(&format!("/v1/responses/{wrong}")).await.0, 404, "{wrong}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_shows_the_calls_of_tools() {
    let folder = tempfile::tempdir().unwrap();
    let running = running(folder.path()).await;
    let body =
        json!({"model": "talkative", "stream": true, "messages": [{"role": "user", "content": "Where?"}]});
    let response = running.request("POST", "/v1/chat/completions").json(&body).send().await.unwrap();
    let (mut events, mut shown) = (Events::of(response), String::new());
    while let Some(event) = events.next().await {
        if event.data == "[DONE]" {
            break;
        }
        shown.push_str(event.data["choices"][0]["delta"]["reasoning_content"].as_str().unwrap_or_default());
    }
    assert!(shown.starts_with("look "), "{shown}");
    let body = json!({"model": "talkative", "stream": true, "input": "Where?"});
    let response = running.request("POST", "/v1/responses").json(&body).send().await.unwrap();
    let all = Events::of(response).until("response.completed").await;
    let delta = all.iter().find(|event| event.kind == "response.reasoning_summary_text.delta").unwrap();
    assert!(delta.data["delta"].as_str().unwrap().starts_with("look "), "{}", delta.data);
    let output = &all.last().unwrap().data["response"]["output"];
    let kinds: Vec<_> =
        output.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "reasoning", "message"]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_answered_is_an_error_in_the_form_of_the_api() {
    let folder = tempfile::tempdir().unwrap();
    let running = running(folder.path()).await;
    let mut unknown = chat("hi");
    unknown["model"] = json!("gpt");
    let mut tools = chat("hi");
    tools["tools"] = json!([{"type": "function", "function": {"name": "f"}}]);
    let mut broken = chat("hi");
    broken["model"] = json!("broken");
    let mut asking = chat("deploy");
    asking["model"] = json!("deployer");
    for (body, status, code) in [
        (unknown, 404, "model_not_found"),
        (tools, 400, "unsupported_parameter"),
        (broken.clone(), 502, "model_error"),
        (asking.clone(), 422, "answer_required"),
    ] {
        let (got, error) = running.post("/v1/chat/completions", body).await;
        assert_eq!((got, error["error"]["code"].as_str()), (status, Some(code)), "{error}");
        assert!(error["error"]["type"].is_string() && error["error"]["message"].is_string());
    }
    for (mut body, code) in [(broken, "model_error"), (asking, "answer_required")] {
        body["stream"] = json!(true);
        let response = running.request("POST", "/v1/chat/completions").json(&body).send().await.unwrap();
        let mut events = Events::of(response);
        let mut last = Value::Null;
        while let Some(event) = events.next().await {
            last = event.data;
        }
        assert_eq!(last["error"]["code"], code);
    }
    // A run that waits is kept, and can be answered.
    let (_, questions) = running.get("/v1/questions").await;
    let questions = questions["questions"].as_array().unwrap().clone();
    assert_eq!(questions.len(), 2);
    let (status, models) = running.get("/v1/models").await;
    assert_eq!((status, models["data"].as_array().unwrap().len()), (200, 4));
    assert_eq!(running.get("/v1/models/loud").await.1["id"], "loud");
    assert_eq!(running.get("/v1/models/gpt").await.0, 404);
    running.stop().await;
}
