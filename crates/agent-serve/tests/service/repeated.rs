//! Requests with an idempotency key that are repeated: nothing is done twice, also after a restart and a kill.

use std::time::{Duration, Instant};

use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_serve::ConversationRef;
use serde_json::{Value, json};

use crate::crash::process;
use crate::support::{BOB, HANG, Running, agent, answer, builder, keys, quick, store};

impl Running {
    async fn post_with(&self, key: &str, path: &str, body: &Value) -> (u16, Value) {
        answer(self.request("POST", path).header("Idempotency-Key", key).json(body)).await
    }

    async fn users(&self, path: &str) -> Vec<String> {
        let (status, page) = self.get(&format!("{path}/messages?limit=200")).await;
        assert_eq!(status, 200, "{page}");
        let messages = page["messages"].as_array().unwrap().iter();
        let users = messages.filter(|message| message["role"] == "user");
        users.map(|message| message["content"][0]["text"].as_str().unwrap().to_owned()).collect()
    }
}

/// A service whose model counts its calls.
async fn counting(folder: &std::path::Path) -> (Running, ScriptedProvider) {
    let model = ScriptedProvider::responding(|_| ScriptedReply::text("Once."));
    let counted = model.clone();
    let builder =
        builder(&store(folder)).agent("counted", move |_: &ConversationRef| agent(&counted)).keys(keys());
    (Running::with(builder.limits(quick())).await, model)
}

#[tokio::test]
async fn a_repeated_prompt_gets_the_first_answer_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (server, model) = counting(folder.path()).await;
    let path = server.conversation("counted").await;
    let prompt = format!("{path}/prompt");
    server.prompt(&path, "first").await;
    server.wait_for(&path, "idle").await;
    let body = json!({"text": "second"});
    let (status, begun) = server.post_with("k-1", &prompt, &body).await;
    assert_eq!(status, 202, "{begun}");
    assert_ne!(begun["after"], 0);
    server.wait_for(&path, "idle").await;
    assert_eq!(server.post_with("k-1", &prompt, &body).await, (202, begun.clone()));
    // Another request has another key.
    let (status, other) = server.post_with("k-2", &prompt, &body).await;
    assert_eq!(status, 202, "{other}");
    server.wait_for(&path, "idle").await;
    server.stop().await;

    let (server, later) = counting(folder.path()).await;
    assert_eq!(server.post_with("k-1", &prompt, &body).await, (202, begun));
    assert_eq!(server.post_with("k-2", &prompt, &body).await, (202, other));
    for (path, body) in
        [(&prompt, json!({"text": "third"})), (&format!("{path}/follow-up"), json!({"text": "second"}))]
    {
        let (status, error) = server.post_with("k-1", path, &body).await;
        assert_eq!((status, &error["error"]["code"]), (422, &json!("idempotency_key_reused")), "{error}");
    }
    assert_eq!(server.users(&path).await, ["first", "second", "second"]);
    assert_eq!((model.requests().len(), later.requests().len()), (3, 0));
    server.stop().await;
}

#[tokio::test]
async fn a_key_is_one_header_of_printable_characters() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _) = counting(folder.path()).await;
    let path = server.conversation("counted").await;
    let post = |key: &[u8]| {
        let key = reqwest::header::HeaderValue::from_bytes(key).unwrap();
        server
            .request("POST", &format!("{path}/prompt"))
            .header("Idempotency-Key", key)
            .json(&json!({"text": "x"}))
    };
    for key in [&b""[..], b"a b", "é".as_bytes(), "a".repeat(256).as_bytes()] {
        let (status, error) = answer(post(key)).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!("Idempotency-Key")), "{error}");
    }
    let (status, error) = answer(post(b"a").header("Idempotency-Key", "b")).await;
    assert_eq!(status, 400, "{error}");
    assert_eq!(answer(post("a".repeat(255).as_bytes())).await.0, 202);
    server.stop().await;
}

#[tokio::test]
async fn a_repeated_request_begins_one_conversation_and_keys_of_clients_are_apart() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _) = counting(folder.path()).await;
    let create = "/v1/conversations";
    let (status, first) = server.post_with("same", create, &json!({"agent": "counted"})).await;
    assert_eq!(status, 201, "{first}");
    let path = format!("{create}/{}", first["id"].as_str().unwrap());
    server.prompt(&path, "hello").await;
    server.wait_for(&path, "idle").await;
    let (status, again) = server.post_with("same", create, &json!({"agent": "counted"})).await;
    assert_eq!((status, &again["id"]), (201, &first["id"]));
    assert_eq!(server.users(&path).await, ["hello"], "the conversation is not emptied");
    let (status, error) = server.post_with("same", create, &json!({"agent": "loud"})).await;
    assert_eq!((status, &error["error"]["code"]), (422, &json!("idempotency_key_reused")), "{error}");
    let request = server.client.post(format!("{}{create}", server.url)).bearer_auth(BOB);
    let (status, of_bob) =
        answer(request.header("Idempotency-Key", "same").json(&json!({"agent": "counted"}))).await;
    assert_eq!(status, 201, "{of_bob}");
    assert_ne!(of_bob["id"], first["id"]);
    assert_eq!(server.get(create).await.1["total"], 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_with_one_key_at_the_same_time_start_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let (server, model) = counting(folder.path()).await;
    for n in 0..20 {
        let path = server.conversation("counted").await;
        let (prompt, body) = (format!("{path}/prompt"), json!({"text": "hello"}));
        let all = (0..6).map(|_| server.post_with("k", &prompt, &body));
        for (status, answer) in futures_util::future::join_all(all).await {
            match status {
                202 => assert_eq!(answer["after"], 0),
                status => {
                    assert_eq!((status, &answer["error"]["code"]), (409, &json!("request_in_progress")));
                }
            }
        }
        server.wait_for(&path, "idle").await;
        assert_eq!(server.users(&path).await, ["hello"]);
        assert_eq!(model.requests().len(), n + 1);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_repeated_message_for_an_open_run_is_queued_once() {
    let folder = tempfile::tempdir().unwrap();
    let hanging = ScriptedProvider::responding(|_| ScriptedReply::new().and_text("Half").and_hang());
    let builder = builder(&store(folder.path()))
        .agent("slow", move |_: &ConversationRef| agent(&hanging))
        .keys(keys())
        .limits(quick());
    let server = Running::with(builder).await;
    let path = server.conversation("slow").await;
    server.prompt(&path, "go").await;
    for route in ["steer", "follow-up"] {
        let (path, body) = (format!("{path}/{route}"), json!({"text": "more"}));
        for _ in 0..20 {
            // Without the key, the run would have too many messages.
            assert_eq!(server.post_with(route, &path, &body).await, (202, json!({"status": "running"})));
            assert_eq!(server.post_with(route, &path, &json!({"text": "other"})).await.0, 422);
        }
    }
    server.post(&format!("{path}/abort"), Value::Null).await;
    server.wait_for(&path, "idle").await;
    server.stop().await;
}

#[tokio::test]
async fn a_repeated_answer_gets_the_first_reply_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _) = counting(folder.path()).await;
    let path = server.conversation("deployer").await;
    let after = server.prompt(&path, "deploy it").await;
    server.until(&path, after, "run_suspended").await;
    let (_, list) = server.get("/v1/questions").await;
    let id: String =
        list["questions"][0]["id"].as_str().unwrap().bytes().map(|byte| format!("%{byte:02x}")).collect();
    let question = format!("{path}/questions/{id}");
    let allow = json!({"answer": {"type": "allow"}, "hash": list["questions"][0]["call"]["hash"]});
    let deny = json!({"answer": {"type": "deny", "reason": "no"}});
    let (status, begun) = server.post_with("a-1", &question, &allow).await;
    assert_eq!(status, 202, "{begun}");
    server.wait_for(&path, "idle").await;
    assert_eq!(server.post_with("a-1", &question, &allow).await, (202, begun.clone()));
    assert_eq!(server.post_with("a-1", &question, &deny).await.0, 422);
    assert_eq!(server.post(&question, allow.clone()).await.0, 404, "without a key it is another answer");
    server.stop().await;

    let (server, _) = counting(folder.path()).await;
    assert_eq!(server.post_with("a-1", &question, &allow).await, (202, begun));
    assert_eq!(server.post_with("a-1", &question, &deny).await.0, 422);
    server.stop().await;
}

#[tokio::test]
async fn a_repeated_request_of_openais_clients_gets_the_recorded_answer() {
    let folder = tempfile::tempdir().unwrap();
    let (server, model) = counting(folder.path()).await;
    let chat = json!({"model": "counted", "messages": [{"role": "user", "content": "hello"}]});
    let (status, first) = server.post_with("c", "/v1/chat/completions", &chat).await;
    assert_eq!((status, &first["choices"][0]["message"]["content"]), (200, &json!("Once.")), "{first}");
    let response = json!({"model": "counted", "input": "hello"});
    let (status, begun) = server.post_with("c", "/v1/responses", &response).await;
    assert_eq!(status, 200, "{begun}");
    let next = json!({"model": "counted", "input": "more", "previous_response_id": begun["id"]});
    let (status, continued) = server.post_with("d", "/v1/responses", &next).await;
    assert_eq!(status, 200, "{continued}");
    server.stop().await;

    let (server, later) = counting(folder.path()).await;
    for (key, path, body, expected) in [
        ("c", "/v1/chat/completions", &chat, &first),
        ("c", "/v1/responses", &response, &begun),
        ("d", "/v1/responses", &next, &continued),
    ] {
        let (status, again) = server.post_with(key, path, body).await;
        assert_eq!(status, 200, "{again}");
        for member in ["id", "choices", "output", "usage"] {
            assert_eq!(again[member], expected[member], "{path} {member}");
        }
        let mut other = body.clone();
        other["temperature"] = json!(0.5);
        assert_eq!(server.post_with(key, path, &other).await.0, 422, "{path}");
    }
    let mut streamed = chat.clone();
    streamed["stream"] = json!(true);
    assert_eq!(server.post_with("c", "/v1/chat/completions", &streamed).await.0, 422);
    assert_eq!((model.requests().len(), later.requests().len()), (3, 0));
    server.stop().await;
}

/// Kills the process at moments around the record of a prompt, and repeats the request until it is answered.
async fn kill_and_repeat(kills: u32) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("again"), "").unwrap();
    let body = json!({"text": "hello"});
    let (mut answered, mut recorded, mut usual) = (0, 0, Duration::ZERO);
    for n in 0..=kills {
        let server = process(folder.path()).await;
        let client = server.client();
        let path = client.conversation("slow").await;
        let prompt = format!("{path}/prompt");
        let begun = Instant::now();
        let first = client.request("POST", &prompt).header("Idempotency-Key", "k").json(&body).send();
        // The first one shows how long a prompt takes.
        let moment = if n == 0 { HANG } else { usual * 5 / 4 * n / kills };
        let first = tokio::time::timeout(moment, first).await.ok().and_then(Result::ok);
        usual = if n == 0 { begun.elapsed() } else { usual };
        server.kill().await;
        assert!(first.as_ref().is_none_or(|first| first.status() == 202));
        let server = process(folder.path()).await;
        let client = server.client();
        match first {
            Some(_) => answered += 1,
            None => recorded += client.users(&path).await.len(),
        }
        let begun = loop {
            match client.post_with("k", &prompt, &body).await {
                (202, begun) => break begun,
                (status, error) => assert_eq!(status, 409, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        assert_eq!(begun["after"], 0);
        client.wait_for(&path, "idle").await;
        assert_eq!(client.users(&path).await, ["hello"], "kill {n} after {moment:?}");
        server.kill().await;
    }
    eprintln!(
        "{kills} kills: {answered} prompts were answered before, {recorded} were recorded and not answered"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_is_repeated_after_a_kill_is_one_prompt() {
    kill_and_repeat(10).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: 80 kills"]
async fn a_prompt_that_is_repeated_after_80_kills_is_one_prompt() {
    kill_and_repeat(80).await;
}
