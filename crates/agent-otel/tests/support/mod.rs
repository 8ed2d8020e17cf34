//! An OTLP receiver on a free port, and the runs that the tests trace.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{AgentTool, BasicAgent, ErrorKind, ModelConfig, ToolResult, Usage};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::{Value, json};

/// A secret that no telemetry may contain.
pub(crate) const KEY: &str = "sk-planted-4c1f0f6d";
/// Texts of the conversation that no telemetry may contain by default.
pub(crate) const PROMPT: &str = "planted-prompt-text";
pub(crate) const SYSTEM: &str = "planted-system-prompt";
pub(crate) const REPLY: &str = "planted-reply-text";
pub(crate) const ARGUMENT: &str = "planted-argument";
pub(crate) const RESULT: &str = "planted-result";
pub(crate) const PLANTED: [&str; 5] = [PROMPT, SYSTEM, REPLY, ARGUMENT, RESULT];

/// A span with its attributes as text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) kind: i32,
    pub(crate) failed: bool,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) attributes: BTreeMap<String, String>,
}

#[derive(Default)]
struct Log {
    spans: Vec<Seen>,
    resources: Vec<BTreeMap<String, String>>,
    metrics: BTreeMap<String, (String, f64, u64)>,
    headers: Vec<(String, String)>,
    raw: Vec<u8>,
}

#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) url: String,
    log: Arc<Mutex<Log>>,
}

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Any::StringValue(text)) => text.clone(),
        Some(Any::IntValue(n)) => n.to_string(),
        Some(Any::DoubleValue(n)) => format!("{n:?}"),
        Some(Any::BoolValue(b)) => b.to_string(),
        Some(Any::ArrayValue(list)) => {
            let items: Vec<String> = list.values.iter().map(|value| text(Some(value))).collect();
            format!("[{}]", items.join(","))
        }
        other => format!("{other:?}"),
    }
}

fn map(list: &[KeyValue]) -> BTreeMap<String, String> {
    list.iter().map(|pair| (pair.key.clone(), text(pair.value.as_ref()))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn seen(span: &Span) -> Seen {
    Seen {
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        name: span.name.clone(),
        kind: span.kind,
        failed: span.status.as_ref().is_some_and(|status| status.code == 2),
        start: span.start_time_unix_nano,
        end: span.end_time_unix_nano,
        attributes: map(&span.attributes),
    }
}

async fn traces(State(log): State<Arc<Mutex<Log>>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let request = ExportTraceServiceRequest::decode(body.clone()).unwrap();
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    log.raw.extend_from_slice(&body);
    log.headers.extend(headers.iter().map(|(n, v)| (n.to_string(), v.to_str().unwrap().to_owned())));
    for resource in &request.resource_spans {
        log.resources.push(map(&resource.resource.as_ref().unwrap().attributes));
        for scope in &resource.scope_spans {
            assert_eq!(scope.scope.as_ref().unwrap().name, "looptree");
            log.spans.extend(scope.spans.iter().map(seen));
        }
    }
    StatusCode::OK
}

async fn metrics(State(log): State<Arc<Mutex<Log>>>, body: Bytes) -> StatusCode {
    let request = ExportMetricsServiceRequest::decode(body.clone()).unwrap();
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    log.raw.extend_from_slice(&body);
    let all = request.resource_metrics.iter().flat_map(|r| &r.scope_metrics).flat_map(|s| &s.metrics);
    for metric in all {
        let mut sum = 0.0;
        let mut count = 0;
        match metric.data.as_ref().unwrap() {
            Data::Histogram(histogram) => {
                for point in &histogram.data_points {
                    sum += point.sum.unwrap_or_default();
                    count += point.count;
                }
            }
            Data::Sum(total) => {
                use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
                for point in &total.data_points {
                    sum += match point.value {
                        Some(Number::AsInt(n)) => n as f64,
                        Some(Number::AsDouble(n)) => n,
                        None => 0.0,
                    };
                    count += 1;
                }
            }
            other => panic!("{other:?}"),
        }
        log.metrics.insert(metric.name.clone(), (metric.unit.clone(), sum, count));
    }
    StatusCode::OK
}

impl Receiver {
    /// Starts a receiver on its own thread, which ends with the process of the test.
    pub(crate) fn start() -> Self {
        let log = Arc::new(Mutex::new(Log::default()));
        let app = Router::new()
            .route("/v1/traces", post(traces))
            .route("/v1/metrics", post(metrics))
            .with_state(Arc::clone(&log));
        let (tx, rx) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                tx.send(listener.local_addr().unwrap()).unwrap();
                axum::serve(listener, app).await.unwrap();
            });
        });
        Self { url: format!("http://{}", rx.recv().unwrap()), log }
    }

    pub(crate) fn spans(&self) -> Vec<Seen> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).spans.clone()
    }

    pub(crate) fn metrics(&self) -> BTreeMap<String, (String, f64, u64)> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).metrics.clone()
    }

    pub(crate) fn resources(&self) -> Vec<BTreeMap<String, String>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).resources.clone()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone())
    }

    /// Returns whether any request contained this text.
    pub(crate) fn contains(&self, text: &str) -> bool {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.raw.windows(text.len()).any(|window| window == text.as_bytes())
    }
}

/// Returns the spans as an indented tree, in the order of their start; each line has the name and these attributes.
pub(crate) fn tree(spans: &[Seen], fields: &[&str]) -> String {
    fn add(spans: &[Seen], parent: &str, depth: usize, fields: &[&str], out: &mut String) {
        let mut children: Vec<&Seen> = spans.iter().filter(|span| span.parent == parent).collect();
        let order = |span: &Seen| (span.start, span.attributes.get("looptree.step").cloned());
        children.sort_by_key(|span| order(span));
        for span in children {
            out.push_str(&"  ".repeat(depth));
            out.push_str(&span.name);
            for field in fields {
                if let Some(value) = span.attributes.get(*field) {
                    out.push_str(&format!(" {field}={value}"));
                }
            }
            out.push('\n');
            add(spans, &span.id, depth + 1, fields, out);
        }
    }
    let mut out = String::new();
    add(spans, "", 0, fields, &mut out);
    out
}

/// A model with prices, a key, and a name of a known provider.
pub(crate) fn model() -> ModelConfig {
    let mut model = ModelConfig::default();
    model.provider = "google".into();
    model.id = "gemini-3-pro".into();
    model.api_key = Some(KEY.into());
    model.cost = agent_core::CostConfig::per_million(1_000_000, 2_000_000, 100_000, 0);
    model
}

/// An agent whose run has a failed call, a retry, a tool call that fails, one that succeeds, and a reply.
pub(crate) fn agent() -> BasicAgent {
    let script = ScriptedProvider::new([
        ScriptedReply::error(ErrorKind::Network, "gone"),
        ScriptedReply::call("c1", "look", json!({ "at": ARGUMENT })).and_call("c2", "fails", json!({})),
        ScriptedReply::text(REPLY).using(Usage::new(10, 5, 90, 0)),
    ]);
    let look = ScriptedTool::new("look", |_: Value, _| async { Ok(ToolResult::text(RESULT)) });
    let tools: Vec<Arc<dyn AgentTool>> =
        vec![Arc::new(look), Arc::new(ScriptedTool::failing("fails", RESULT))];
    BasicAgent::new(model())
        .with_provider(script)
        .with_system_prompt(SYSTEM)
        .with_session_id("s-1")
        .with_environment(Arc::new(agent_core::testing::ManualEnvironment::skipping(1_700_000_000_000)))
        .configure(|config| {
            config.policy.max_concurrent_tools = Some(1);
            config.policy.retry = agent_core::RetryConfig::default().with_max_retries(1);
        })
        .with_tools(tools)
}
