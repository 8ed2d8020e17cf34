//! One delivery of one case: the provider asks over HTTP, and everything it says is gathered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use agent_core::{
    ApiProtocol, CancellationToken, Completion, Content, ErrorKind, History, Message, ModelConfig,
    ModelRequest, OpaqueContent, ProviderError, ReplyLog, StopReason, StreamEvent, StreamProvider as _,
    ToolCall, Usage,
};
use agent_providers::ProviderRegistry;
use tokio::task::JoinHandle;

use super::cuts::Cut;
use super::manifest::Case;
use crate::server::{Response, Server};

/// The folders of a set, and the protocols that they hold.
pub(super) const PROTOCOLS: &[(&str, ApiProtocol)] = &[
    ("anthropic", ApiProtocol::AnthropicMessages),
    ("openai-chat", ApiProtocol::OpenAiCompletions),
    ("ollama", ApiProtocol::OllamaChat),
    ("openai-responses", ApiProtocol::OpenAiResponses),
    ("azure-responses", ApiProtocol::AzureOpenAiResponses),
    ("gemini", ApiProtocol::GoogleGenerativeAi),
    ("vertex", ApiProtocol::GoogleVertex),
    ("bedrock", ApiProtocol::BedrockConverseStream),
];

/// A delivery that has not ended by then never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the provider said.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) text: String,
    pub(super) thinking: String,
    /// The calls whose end was announced.
    pub(super) calls: Vec<ToolCall>,
    /// The calls that had begun and not ended.
    pub(super) partial_calls: Vec<ToolCall>,
    /// Over thinking.
    pub(super) signatures: Vec<String>,
    /// Over anything, in the order of the blocks.
    pub(super) all_signatures: Vec<String>,
    pub(super) redacted: Vec<String>,
    /// The kinds of the blocks that only the vendor understands, as its SDK names them.
    pub(super) server_items: Vec<String>,
    /// The number of citations of all texts.
    pub(super) citations: usize,
    pub(super) usage: Usage,
    pub(super) end: FoundEnd,
}

/// How the call to the provider ended.
#[derive(Debug)]
pub(super) enum FoundEnd {
    Complete(StopReason, Option<String>),
    Failed(ErrorKind, String),
    /// It panicked or did not end; the text describes the failure.
    Broken(String),
}

/// The protocol of a folder.
pub(super) fn api_of(name: &str) -> Option<ApiProtocol> {
    PROTOCOLS.iter().find(|(n, _)| *n == name).map(|(_, api)| *api)
}

/// Whether this build has a provider for the protocol.
pub(super) fn has_provider(api: ApiProtocol) -> bool {
    ProviderRegistry::default().serves(api)
}

/// Lets the provider ask, answers with the case's body in these pieces, and gathers what it says.
pub(super) async fn play(server: &Server, api: ApiProtocol, case: &Case, cut: Cut) -> Found {
    let task = begin(server, api, case, cut);
    task.await.unwrap_or_else(|lost| Found::broken(format!("the delivery panicked: {lost}")))
}

/// The same beside others.
pub(super) fn begin(server: &Server, api: ApiProtocol, case: &Case, cut: Cut) -> JoinHandle<Found> {
    let response = Response {
        status: case.status.unwrap_or(200),
        headers: case.headers.clone(),
        pieces: cut.pieces,
        pause: cut.pause,
        ending: cut.ending,
    };
    let base_url = server.prepare(response);
    let vendor = case.vendor.clone().unwrap_or_else(|| "recorded".to_owned());
    let model = case.model.clone().unwrap_or_else(|| "recorded".to_owned());
    let model = ModelConfig::new(api, vendor, model).with_base_url(base_url).with_api_key("recorded-key");
    tokio::spawn(heard(Arc::new(model)))
}

async fn heard(model: Arc<ModelConfig>) -> Found {
    // In a task of its own, so that a panic becomes a finding.
    let task = tokio::spawn(ask(model));
    let stop = task.abort_handle();
    match tokio::time::timeout(PATIENCE, task).await {
        Ok(Ok(found)) => found,
        Ok(Err(lost)) => Found::broken(format!("the provider panicked: {lost}")),
        Err(_) => {
            stop.abort();
            Found::broken(format!("no end within {} s", PATIENCE.as_secs()))
        }
    }
}

async fn ask(model: Arc<ModelConfig>) -> Found {
    let mut history = History::new();
    if let Err(error) = history.push(Message::user("Hello").into()) {
        return Found::broken(error.to_string());
    }
    let request = ModelRequest::new(model, history);
    let mut tape = Tape::default();
    let registry = ProviderRegistry::default();
    let end = registry.stream(&request, &mut |event| tape.push(&event), &CancellationToken::new()).await;
    tape.found(end)
}

/// The events of one reply.
#[derive(Default)]
struct Tape {
    log: ReplyLog,
    calls: BTreeSet<u32>,
    ended: BTreeSet<u32>,
    after_end: BTreeMap<u32, u32>,
}

impl Tape {
    fn push(&mut self, event: &StreamEvent<'_>) {
        match *event {
            StreamEvent::ToolCallStart { index, .. } | StreamEvent::ToolCallDelta { index, .. } => {
                self.calls.insert(index);
                if self.ended.contains(&index) {
                    *self.after_end.entry(index).or_default() += 1;
                }
            }
            StreamEvent::BlockEnd { index } => {
                self.ended.insert(index);
            }
            _ => {}
        }
        self.log.push(event);
    }

    fn found(self, end: Result<Completion, ProviderError>) -> Found {
        let content = self.log.content();
        let calls = content.iter().filter_map(Content::as_tool_call).cloned();
        // Blocks are in the order of their index, so the calls are too.
        let (mut ended, mut open) = (Vec::new(), Vec::new());
        for (index, call) in self.calls.iter().zip(calls) {
            if self.ended.contains(index) { ended.push(call) } else { open.push(call) }
        }
        let mut found = Found {
            calls: ended,
            partial_calls: open,
            usage: self.log.usage(),
            end: match end {
                Ok(completion) => {
                    let message = self.log.finish("", "", &completion);
                    FoundEnd::Complete(message.stop_reason, completion.stop_sequence)
                }
                Err(error) => FoundEnd::Failed(error.kind(), error.to_string()),
            },
            ..Found::broken(String::new())
        };
        if let Some((index, count)) = self.after_end.first_key_value() {
            found.end = FoundEnd::Broken(format!("{count} events of block {index} after its end"));
        }
        for block in &content {
            match block {
                Content::Text(text) => {
                    found.text.push_str(&text.text);
                    found.citations += text.citations.len();
                    found.all_signatures.extend(text.signature.clone());
                }
                Content::Thinking(thinking) if thinking.redacted => {
                    found.redacted.extend(thinking.signature.clone());
                }
                Content::Thinking(thinking) => {
                    found.thinking.push_str(&thinking.thinking);
                    found.signatures.extend(thinking.signature.clone());
                    found.all_signatures.extend(thinking.signature.clone());
                }
                Content::ToolCall(call) => found.all_signatures.extend(call.signature.clone()),
                Content::Opaque(opaque) => {
                    let signature = opaque.data.get("thoughtSignature").and_then(serde_json::Value::as_str);
                    found.all_signatures.extend(signature.map(str::to_owned));
                    found.server_items.extend(server_item(opaque));
                }
                _ => {}
            }
        }
        found
    }
}

/// The name of the block in the vendor's SDK.
fn server_item(opaque: &OpaqueContent) -> Option<String> {
    // Bedrock's tools of the vendor are calls with a type.
    if let Some(call) = opaque.data.get("toolUse") {
        return Some(format!("{}:{}", call["type"].as_str()?, call["name"].as_str()?));
    }
    Some(opaque.kind.clone())
}

impl Found {
    fn broken(why: String) -> Self {
        Self {
            text: String::new(),
            thinking: String::new(),
            calls: Vec::new(),
            partial_calls: Vec::new(),
            signatures: Vec::new(),
            all_signatures: Vec::new(),
            redacted: Vec::new(),
            server_items: Vec::new(),
            citations: 0,
            usage: Usage::default(),
            end: FoundEnd::Broken(why),
        }
    }
}
