//! The traces that arrive in Phoenix, as its API returns them. `cargo xtask otel` installs and starts it.
#![cfg(feature = "session")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a test fails loudly, and tells what was skipped"
)]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::trace::names;
use agent_core::{BasicAgent, BranchSpec, EventSender, LlmJudgeEvaluation, ModelConfig};
use agent_otel::{Metrics, Telemetry, WithTelemetry as _, session};
use agent_session::{JsonStore, SessionRecorder};
use agent_tools::SubAgentTool;
use serde_json::{Value, json};
use support::{KEY, PLANTED, PROMPT, agent};
use tracing_subscriber::layer::SubscriberExt as _;

/// Phoenix, and a project of this test in it.
struct Phoenix {
    url: String,
    project: String,
}

impl Phoenix {
    fn find(test: &str) -> Option<Self> {
        let Ok(url) = std::env::var("LOOPTREE_PHOENIX_URL") else {
            println!("skipped: no Phoenix; `cargo xtask otel` installs and starts one");
            return None;
        };
        Some(Self { url, project: format!("looptree-{test}-{}", std::process::id()) })
    }

    fn telemetry(&self) -> Telemetry {
        Telemetry::to(self.url.clone())
            .with_metrics(Metrics::Omitted)
            .with_resource_attribute("openinference.project.name", self.project.clone())
    }

    /// Returns the spans of the project, once there are `count` of them.
    async fn spans(&self, count: usize) -> Vec<Value> {
        let url = format!("{}/v1/projects/{}/spans?limit=1000", self.url, self.project);
        let mut last = Value::Null;
        for _ in 0..100 {
            let answer = reqwest::get(&url).await.unwrap().text().await.unwrap();
            last = serde_json::from_str(&answer).unwrap_or(Value::Null);
            if let Some(spans) = last["data"].as_array()
                && spans.len() >= count
            {
                return spans.clone();
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("{count} spans did not arrive: {last}");
    }
}

/// The spans as an indented tree in the order of their names.
fn tree(spans: &[Value]) -> String {
    fn add(spans: &[Value], parent: Option<&str>, depth: usize, out: &mut String) {
        let mut children: Vec<&Value> =
            spans.iter().filter(|span| span["parent_id"].as_str() == parent).collect();
        let step = |span: &Value| span["attributes"][names::STEP].as_str().map(str::to_owned);
        children.sort_by_key(|span| (span["start_time"].to_string(), step(span), span["name"].to_string()));
        for span in children {
            out.push_str(&format!("{}{}\n", "  ".repeat(depth), span["name"].as_str().unwrap()));
            add(spans, span["context"]["span_id"].as_str(), depth + 1, out);
        }
    }
    let mut out = String::new();
    add(spans, None, 0, &mut out);
    out
}

fn traces(spans: &[Value]) -> usize {
    spans.iter().map(|span| span["context"]["trace_id"].as_str().unwrap()).collect::<BTreeSet<_>>().len()
}

const RUN: &str = "\
invoke_agent
  turn
    chat gemini-3-pro
    chat gemini-3-pro
    execute_tool look
    execute_tool fails
  turn
    chat gemini-3-pro
";

#[tokio::test]
async fn phoenix_has_one_trace_of_a_prompt_live_and_exported() {
    let Some(phoenix) = Phoenix::find("prompt") else { return };
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let telemetry = phoenix.telemetry().start().unwrap();
    let mut agent = agent().with_telemetry(telemetry.connection());
    let _recorder = SessionRecorder::attach(&mut agent, store.clone());
    {
        let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(telemetry.layer()));
        agent.chat(PROMPT).await.unwrap();
    }
    tokio::task::spawn_blocking(move || telemetry.shutdown().unwrap()).await.unwrap();
    let live = phoenix.spans(8).await;
    println!("{}", tree(&live));
    assert_eq!((tree(&live).as_str(), traces(&live)), (RUN, 1));
    let text = Value::from(live.clone()).to_string();
    for planted in PLANTED.iter().chain([&KEY]) {
        assert!(!text.contains(planted), "{planted}");
    }
    let chat = live.iter().find(|span| span["attributes"][names::STEP] == "model-1.0").unwrap();
    println!("{}", chat["attributes"]);
    assert_eq!(chat["attributes"][names::PROVIDER], "gcp.gemini");
    assert_eq!(chat["attributes"][names::INPUT_TOKENS], 100);

    let exported = Phoenix { project: format!("{}-again", phoenix.project), ..phoenix };
    let loaded = store.load_session("s-1").unwrap();
    session::export(&exported.telemetry(), &[&loaded]).await.unwrap();
    let again = exported.spans(8).await;
    assert_eq!((tree(&again).as_str(), traces(&again)), (RUN, 1));
}

#[tokio::test]
async fn phoenix_has_sub_agents_below_their_calls_and_branches_below_their_group() {
    let Some(phoenix) = Phoenix::find("tree") else { return };
    let telemetry = phoenix.telemetry().start().unwrap();
    let inner =
        SubAgentTool::new("helper", ModelConfig::default()).with_provider(ScriptedProvider::texts(["found"]));
    let outer = ScriptedProvider::new([
        ScriptedReply::call("c1", "helper", json!({ "task": "look" })),
        ScriptedReply::text("done"),
    ]);
    let caller = BasicAgent::new(ModelConfig::default()).with_provider(outer).with_tool(inner);
    let scripted = |text: &'static str| ScriptedProvider::responding(move |_| ScriptedReply::text(text));
    let many = BasicAgent::new(ModelConfig::default()).with_provider(scripted("an answer"));
    let judge =
        BasicAgent::new(ModelConfig::default()).with_provider(scripted("Response 2 is right.")).config();
    {
        let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(telemetry.layer()));
        caller.chat("go").await.unwrap();
        let specs = ["a", "b"].map(|s| BranchSpec::asking("why?").with_system_prompt(s));
        many.explore_and_adopt(specs, LlmJudgeEvaluation::new(judge), EventSender::none()).await.unwrap();
    }
    tokio::task::spawn_blocking(move || telemetry.shutdown().unwrap()).await.unwrap();
    let spans = phoenix.spans(9 + 10).await;
    let lines = tree(&spans);
    println!("{lines}");
    assert_eq!(traces(&spans), 2);
    assert!(
        lines.contains("    execute_tool helper\n      invoke_agent helper\n        turn\n          chat ")
    );
    let top: Vec<&str> = lines.lines().filter(|line| !line.starts_with("    ")).collect();
    assert_eq!(
        top,
        ["invoke_agent", "  turn", "  turn", "invoke_workflow", "  branch", "  branch", "  judge"],
        "{lines}"
    );
}
