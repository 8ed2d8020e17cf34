//! The process is killed while conversations work, and another one continues. The server is this program in a child process.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_serve::ConversationRef;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use crate::support::{HANG, Running, agent, builder, keys, numbers, quick, store};

/// The folder of the child, which makes this program a server.
const CHILD: &str = "LOOPTREE_SERVE_CHILD";

/// Not a test: the server of the tests below.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_of_the_other_tests() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let folder = Path::new(&folder);
    // Hangs in the first process; answers in the next ones.
    let first = !folder.join("again").exists();
    let slow = ScriptedProvider::responding(move |_| match first {
        true => ScriptedReply::new().and_text("Half").and_hang(),
        false => ScriptedReply::text("Whole."),
    });
    let usage = agent_core::Usage::new(10, 5, 2, 0);
    let steps = ScriptedProvider::responding(move |request| {
        match request.history.messages().last().is_some_and(|last| last.role() == "toolResult") {
            true if first => ScriptedReply::new().and_hang(),
            true => ScriptedReply::text("Whole.").using(usage),
            false => ScriptedReply::call("c1", "look", json!({})).using(usage),
        }
    });
    let mut limits = quick();
    match std::fs::read_to_string(folder.join("connections")) {
        Ok(number) => {
            limits.connections = number.parse().unwrap();
            limits.requests_per_key = limits.connections / 4;
            limits.streams_per_key = limits.connections / 8;
        }
        Err(_) => {
            (limits.requests_per_key, limits.streams_per_key) = (2_048, 2_048);
            limits.conversations_per_key = 1_024;
        }
    }
    let [alice, bob] = keys().map(|key| key.with_requests_per_minute(1_000_000));
    let service = builder(&store(folder))
        .agent("slow", move |_: &ConversationRef| agent(&slow))
        .agent("steps", move |_: &ConversationRef| {
            agent(&steps).with_tool(ScriptedTool::saying("look", "seen"))
        })
        .keys([alice, bob])
        .limits(limits)
        .build()
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::fs::write(folder.join("address.new"), address).unwrap();
    std::fs::rename(folder.join("address.new"), folder.join("address")).unwrap();
    service.serve(listener, std::future::pending()).await.unwrap();
}

pub(crate) struct Process {
    child: Child,
    pub(crate) url: String,
}

pub(crate) async fn process(folder: &Path) -> Process {
    let _ = std::fs::remove_file(folder.join("address"));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "crash::the_server_of_the_other_tests", "--nocapture"]).env(CHILD, folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let child = command.spawn().unwrap();
    let address = async {
        loop {
            if let Ok(address) = std::fs::read_to_string(folder.join("address")) {
                return address;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let address = tokio::time::timeout(HANG, address).await.expect("the server does not start");
    Process { child, url: format!("http://{address}") }
}

impl Process {
    pub(crate) async fn kill(mut self) {
        // SIGKILL.
        self.child.kill().await.unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    pub(crate) fn client(&self) -> Running {
        Running::remote(&self.url)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_prompt_is_lost_by_a_kill_and_open_runs_are_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let server = process(folder.path()).await;
    let client = server.client();
    let mut open = Vec::new();
    for n in 0..10 {
        let path = client.conversation("slow").await;
        client.prompt(&path, &format!("question {n}")).await;
        open.push(path);
    }
    let empty = client.conversation("loud").await;
    let done = client.conversation("loud").await;
    let after = client.prompt(&done, "hello").await;
    let mut before = client.until(&done, after, "agent_end").await;
    server.kill().await;

    std::fs::write(folder.path().join("again"), "").unwrap();
    let server = process(folder.path()).await;
    let client = server.client();
    assert_eq!(client.get("/v1/conversations").await.1["total"], 12);
    assert_eq!(client.status(&empty).await, "idle");
    before.retain(|event| event.number.is_some());
    let again: Vec<_> = {
        let mut events = client.events(&done, 0).await;
        events.until("agent_end").await
    };
    assert!(before.iter().all(|event| again.contains(event)));
    for (n, path) in open.iter().enumerate() {
        client.wait_for(path, "idle").await;
        let (_, messages) = client.get(&format!("{path}/messages")).await;
        assert_eq!(messages["total"], 2);
        assert_eq!(messages["messages"][0]["content"][0]["text"], format!("question {n}"));
        assert_eq!(messages["messages"][1]["content"][0]["text"], "Whole.");
        let mut events = client.events(path, 0).await;
        let all = numbers(&events.until("agent_end").await);
        assert_eq!(all, (1..=all.len() as u64).collect::<Vec<_>>());
    }
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_was_asked_before_a_kill_is_answered_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = process(folder.path()).await;
    let client = server.client();
    let path = client.conversation("deployer").await;
    let after = client.prompt(&path, "deploy it").await;
    client.until(&path, after, "run_suspended").await;
    server.kill().await;

    let server = process(folder.path()).await;
    let client = server.client();
    let (_, list) = client.get("/v1/questions").await;
    let question = list["questions"][0].clone();
    assert_eq!(question["conversation"].as_str(), path.rsplit('/').next());
    let id: String = question["id"].as_str().unwrap().bytes().map(|byte| format!("%{byte:02x}")).collect();
    let body = json!({"answer": {"type": "allow"}, "hash": question["call"]["hash"]});
    let (status, started) = client.post(&format!("{path}/questions/{id}"), body).await;
    assert_eq!(status, 202, "{started}");
    let events = client.until(&path, started["after"].as_u64().unwrap(), "agent_end").await;
    assert!(events.iter().any(|event| event.data["delta"]["text"] == "It is out."));
    server.kill().await;
}
