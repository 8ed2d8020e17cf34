//! Sessions under another version of the program.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::event::Ended;
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{Answer, Effects};
use agent_restate::{ClientError, Refusal, Session, TurnEnd};
use serde_json::{Value, json};

use crate::server::Server;
use crate::sessions::{agent, ended};
use crate::worker::Worker;

fn pay() -> ScriptedTool {
    ScriptedTool::saying("pay", "paid").asking("Pay?").with_effects(Effects::Once)
}

/// Suspends a session on a worker of the first version, and stops the worker.
async fn suspended(server: &Server, name: &str) -> Session {
    let model = ScriptedProvider::new([ScriptedReply::call("c1", "pay", json!({}))]);
    let worker = Worker::start(agent(name, model, vec![Arc::new(pay())]));
    server.register(worker.address).await;
    let session = server.client().session(name, "s");
    let end = session.prompt("Pay it").send().await.unwrap().wait().await.unwrap();
    assert!(matches!(end, TurnEnd::Waiting(questions) if questions.len() == 1));
    worker.stop().await;
    session
}

/// A suspended session is data: a worker with another prompt, another tool and another model continues it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_session_continues_under_another_version() {
    let Some(server) = Server::start().await else { return };
    let session = suspended(&server, "payer").await;
    let model = ScriptedProvider::new([ScriptedReply::text("The second version has paid.")]);
    let more = ScriptedTool::saying("refund", "refunded");
    let next = agent("payer", model, vec![Arc::new(pay()), Arc::new(more)]).system_prompt("Be polite.");
    let worker = Worker::start(next);
    server.register(worker.address).await;
    let question = session.questions().await.unwrap().remove(0);
    let end = ended(session.answer(question.id, Answer::Allow).await.unwrap().wait().await.unwrap());
    assert_eq!(end.ended, Ended::Completed);
    assert_eq!(end.reply.unwrap().text(), "The second version has paid.");
}

/// Replaces a part of a session's stored state, as another version would have written it.
async fn rewrite(server: &Server, name: &str, key: &str, change: impl Fn(&str) -> String) {
    let sql =
        format!("SELECT key, value_utf8 FROM state WHERE service_name = '{name}' AND service_key = 's'");
    let mut state = serde_json::Map::new();
    let mut expected = String::new();
    for row in server.query(&sql).await {
        let name = row["key"].as_str().unwrap();
        let mut text = row["value_utf8"].as_str().unwrap().to_owned();
        if name == key {
            text = change(&text);
            expected.clone_from(&text);
        }
        state.insert(name.to_owned(), text.bytes().map(Value::from).collect::<Vec<_>>().into());
    }
    assert!(!expected.is_empty(), "{state:?}");
    let body = json!({"object_key": "s", "new_state": state}).to_string();
    server.admin(&format!("services/{name}/state"), body).await.unwrap();
    // The server changes the state later.
    let deadline = Instant::now() + Duration::from_secs(10);
    while !server
        .query(&sql)
        .await
        .iter()
        .any(|row| row["key"] == key && row["value_utf8"] == expected.as_str())
    {
        assert!(Instant::now() < deadline, "the state is not rewritten");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A run or a session in a form of a later version is refused and unchanged, and the error tells the user to update the workers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_form_is_refused_and_nothing_is_lost() {
    let Some(server) = Server::start().await else { return };
    for (name, key, says) in
        [("opener", "open", "update looptree-core"), ("header", "head", "update looptree-restate")]
    {
        let session = suspended(&server, name).await;
        rewrite(&server, name, key, |text| text.replacen("\"form\":1,", "\"form\":99,", 1)).await;
        let model = ScriptedProvider::new([ScriptedReply::text("Paid.")]);
        let worker = Worker::start(agent(name, model, vec![Arc::new(pay())]));
        server.register(worker.address).await;
        let question = session.questions().await.unwrap().remove(0);
        let answered = session.answer(question.id.clone(), Answer::Allow).await.unwrap().wait().await;
        let Err(ClientError::Refused(Refusal::Form { message })) = answered else { panic!("{answered:?}") };
        assert!(message.contains("form 99") && message.contains(says), "{message}");
        assert_eq!(session.questions().await.unwrap().len(), 1);

        // The version that reads the form finishes the run.
        rewrite(&server, name, key, |text| text.replacen("\"form\":99,", "\"form\":1,", 1)).await;
        let end = ended(session.answer(question.id, Answer::Allow).await.unwrap().wait().await.unwrap());
        assert_eq!(end.reply.unwrap().text(), "Paid.");
        worker.stop().await;
    }
}
