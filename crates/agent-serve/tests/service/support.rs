//! A service on a free port, and a client of it.

use std::time::Duration;

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{BasicAgent, ModelConfig, Secret};
use agent_serve::{ConversationRef, Key, Limits, Service, ServiceBuilder};
use agent_session::JsonStore;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) const ALICE: &str = "alice-has-this-token";
pub(crate) const BOB: &str = "bob-has-another-token";

/// Far more than anything here takes.
pub(crate) const HANG: Duration = Duration::from_secs(60);

/// A service that runs, and its folder.
pub(crate) struct Running {
    pub(crate) url: String,
    service: Option<Service>,
    pub(crate) client: reqwest::Client,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

/// Replies with the last message of the user, in capital letters.
pub(crate) fn loud() -> ScriptedProvider {
    ScriptedProvider::responding(|request| {
        let last = request.history.messages().rev_user();
        ScriptedReply::text(last.to_uppercase()).using(agent_core::Usage::new(10, 5, 2, 0))
    })
}

/// Returns the last text of the user.
trait RevUser {
    fn rev_user(self) -> String;
}

impl<'a, I: Iterator<Item = &'a agent_core::AgentMessage>> RevUser for I {
    fn rev_user(self) -> String {
        self.filter(|message| message.role() == "user")
            .last()
            .map(agent_core::AgentMessage::text)
            .unwrap_or_default()
    }
}

/// Calls `deploy`, which asks, and then says that it is done.
pub(crate) fn deploying() -> BasicAgent {
    let provider = ScriptedProvider::responding(|request| {
        match request.history.messages().last().is_some_and(|last| last.role() == "toolResult") {
            true => ScriptedReply::text("It is out."),
            false => ScriptedReply::call("c1", "deploy", json!({"to": "production"})),
        }
    });
    BasicAgent::new(ModelConfig::default())
        .with_provider(provider)
        .with_tool(ScriptedTool::saying("deploy", "deployed").asking("Deploy to production?"))
}

pub(crate) fn agent(provider: &ScriptedProvider) -> BasicAgent {
    BasicAgent::new(ModelConfig::default()).with_provider(provider.clone()).with_system_prompt("Be loud.")
}

pub(crate) fn builder(store: &JsonStore) -> ServiceBuilder {
    let provider = loud();
    Service::builder(store.clone())
        .agent("loud", move |_: &ConversationRef| agent(&provider))
        .agent("deployer", |_: &ConversationRef| deploying())
}

pub(crate) fn keys() -> [Key; 2] {
    let key = |name: &str, token: &str| Key::new(name, &Secret::new(token)).unwrap();
    [key("alice", ALICE), key("bob", BOB)]
}

pub(crate) fn store(folder: &std::path::Path) -> JsonStore {
    JsonStore::open(folder.join("sessions")).unwrap()
}

pub(crate) fn quick() -> Limits {
    let mut limits = Limits::default();
    limits.drain_time = Duration::from_millis(200);
    limits
}

impl Running {
    pub(crate) async fn with(builder: ServiceBuilder) -> Self {
        let service = builder.build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let served = service.clone();
        let task = tokio::spawn(async move {
            let stop = async {
                let _ = stopped.await;
            };
            served.serve(listener, stop).await.unwrap();
        });
        let client = reqwest::Client::builder().timeout(HANG).build().unwrap();
        Self { url, service: Some(service), client, stop: Some(stop), task: Some(task) }
    }

    /// A service in another process.
    pub(crate) fn remote(url: &str) -> Self {
        let client = reqwest::Client::builder().timeout(HANG).build().unwrap();
        Self { url: url.to_owned(), service: None, client, stop: None, task: None }
    }

    pub(crate) fn service(&self) -> &Service {
        self.service.as_ref().unwrap()
    }

    /// A service with the usual agents and keys.
    pub(crate) async fn usual(store: &JsonStore) -> Self {
        Self::with(builder(store).keys(keys()).limits(quick())).await
    }

    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        self.task.take().unwrap().await.unwrap();
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        self.client.request(method, format!("{}{path}", self.url)).bearer_auth(ALICE)
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        answer(self.request("GET", path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        answer(self.request("POST", path).json(&body)).await
    }

    /// Begins a conversation with an agent and returns its path.
    pub(crate) async fn conversation(&self, agent: &str) -> String {
        let (status, body) = self.post("/v1/conversations", json!({"agent": agent})).await;
        assert_eq!(status, 201, "{body}");
        format!("/v1/conversations/{}", body["id"].as_str().unwrap())
    }

    /// Sends a prompt and returns the number after which its events begin.
    pub(crate) async fn prompt(&self, path: &str, text: &str) -> u64 {
        let (status, body) = self.post(&format!("{path}/prompt"), json!({"text": text})).await;
        assert_eq!(status, 202, "{body}");
        body["after"].as_u64().unwrap()
    }

    pub(crate) async fn events(&self, path: &str, after: u64) -> Events {
        Events::of(self.request("GET", &format!("{path}/events?after={after}")).send().await.unwrap())
    }

    /// Reads events until one has this type.
    pub(crate) async fn until(&self, path: &str, after: u64, kind: &str) -> Vec<Received> {
        let mut events = self.events(path, after).await;
        events.until(kind).await
    }

    pub(crate) async fn status(&self, path: &str) -> String {
        self.get(path).await.1["status"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the conversation has this status.
    pub(crate) async fn wait_for(&self, path: &str, status: &str) {
        let waiting = async {
            while self.status(path).await != status {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(HANG, waiting).await.expect("the status never comes");
    }
}

pub(crate) async fn answer(request: reqwest::RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    let body = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).expect(&text) };
    (status, body)
}

/// An event as a client reads it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Received {
    pub(crate) number: Option<u64>,
    pub(crate) kind: String,
    pub(crate) data: Value,
}

/// The events of a response.
pub(crate) struct Events {
    response: reqwest::Response,
    text: String,
    ready: std::collections::VecDeque<Received>,
}

impl Events {
    pub(crate) fn of(response: reqwest::Response) -> Self {
        assert_eq!(response.status().as_u16(), 200);
        Self { response, text: String::new(), ready: std::collections::VecDeque::new() }
    }

    /// Returns the next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Received> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let bytes = tokio::time::timeout(HANG, self.response.chunk()).await.expect("no event comes");
            let from = self.text.len().saturating_sub(1);
            self.text.push_str(std::str::from_utf8(&bytes.ok()??).unwrap());
            // Only what is new is searched, because events can have many megabytes.
            if let Some(at) = self.text[from..].rfind("\n\n") {
                let rest = self.text.split_off(from + at + 2);
                self.ready.extend(self.text.split("\n\n").filter_map(parse));
                self.text = rest;
            }
        }
    }

    pub(crate) async fn until(&mut self, kind: &str) -> Vec<Received> {
        let mut all = Vec::new();
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("no {kind} in {all:?}"));
            all.push(event);
            if all.last().is_some_and(|event| event.kind == kind) {
                return all;
            }
        }
    }
}

fn parse(block: &str) -> Option<Received> {
    let field = |name: &str| {
        block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim_start))
    };
    let data = field("data")?;
    Some(Received {
        number: field("id").map(|id| id.parse().unwrap()),
        kind: field("event").unwrap_or("message").to_owned(),
        data: serde_json::from_str(data).unwrap_or_else(|_| Value::String(data.to_owned())),
    })
}

/// Returns the numbers of the events that have one.
pub(crate) fn numbers(events: &[Received]) -> Vec<u64> {
    events.iter().filter_map(|event| event.number).collect()
}
