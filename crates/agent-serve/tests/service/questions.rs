//! Questions and answers.

use serde_json::{Value, json};

use crate::support::{Running, store};

async fn asked(running: &Running) -> (String, Value) {
    let path = running.conversation("deployer").await;
    let after = running.prompt(&path, "deploy it").await;
    running.until(&path, after, "run_suspended").await;
    running.wait_for(&path, "waiting").await;
    let (status, list) = running.get(&format!("{path}/questions")).await;
    assert_eq!(status, 200);
    (path, list["questions"][0].clone())
}

fn answer_path(path: &str, question: &Value) -> String {
    let id: String = question["id"].as_str().unwrap().bytes().map(|byte| format!("%{byte:02x}")).collect();
    format!("{path}/questions/{id}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_shown_whole_listed_and_answered_once() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::usual(&store(folder.path())).await;
    let (path, question) = asked(&running).await;
    assert_eq!(question["text"], "Deploy to production?");
    assert_eq!(question["call"]["arguments"], json!({"to": "production"}));
    assert!(question["call"]["view"].as_str().unwrap().contains("production"));
    let (_, all) = running.get("/v1/questions").await;
    assert_eq!(all["questions"], json!([question]));
    let (status, body) = running.post(&format!("{path}/prompt"), json!({"text": "hello?"})).await;
    assert_eq!((status, body["error"]["code"].as_str()), (409, Some("waiting")));

    let to = answer_path(&path, &question);
    let other_hash = json!({"answer": {"type": "allow"}, "hash": "0".repeat(64)});
    let (status, body) = running.post(&to, other_hash).await;
    assert_eq!((status, body["error"]["code"].as_str()), (409, Some("question_changed")));
    for wrong in
        [json!({}), json!({"answer": "allow"}), json!({"answer": {"type": "raise", "by": {"tokens": 1}}})]
    {
        assert_eq!(running.post(&to, wrong).await.0, 400);
    }
    let (status, _) =
        running.post(&format!("{path}/questions/other"), json!({"answer": {"type": "allow"}})).await;
    assert_eq!(status, 404);

    let (status, started) =
        running.post(&to, json!({"answer": {"type": "allow"}, "hash": question["call"]["hash"]})).await;
    assert_eq!(status, 202, "{started}");
    let events = running.until(&path, started["after"].as_u64().unwrap(), "agent_end").await;
    assert!(events.iter().any(|event| event.kind == "question_answered"));
    assert!(events.iter().any(|event| event.data["delta"]["text"] == "It is out."));
    assert_eq!(running.post(&to, json!({"answer": {"type": "allow"}})).await.0, 404);
    assert_eq!(running.get("/v1/questions").await.1["questions"], json!([]));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_by_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let running = Running::usual(&store).await;
    let (path, question) = asked(&running).await;
    running.stop().await;

    let running = Running::usual(&store).await;
    assert_eq!(running.get("/v1/questions").await.1["questions"], json!([question]));
    let deny = json!({"answer": {"type": "deny", "reason": "not on a Friday"}});
    let (status, started) = running.post(&answer_path(&path, &question), deny).await;
    assert_eq!(status, 202, "{started}");
    running.until(&path, started["after"].as_u64().unwrap(), "agent_end").await;
    running.wait_for(&path, "idle").await;
    let (_, messages) = running.get(&format!("{path}/messages")).await;
    assert!(messages.to_string().contains("not on a Friday"));
    running.stop().await;
}
