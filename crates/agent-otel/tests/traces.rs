//! What an OTLP receiver gets from live runs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

mod support;

use std::sync::Arc;

use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::trace::names;
use agent_core::{BasicAgent, BranchSpec, EventSender, LlmJudgeEvaluation, ModelConfig, SystemEnvironment};
use agent_otel::{Content, Installed, Metrics, Telemetry, WithTelemetry as _};
use agent_tools::SubAgentTool;
use serde_json::json;
use support::{KEY, PLANTED, PROMPT, REPLY, Receiver, Seen, agent, tree};
use tracing_subscriber::layer::SubscriberExt as _;

/// Runs `run` on a runtime of its own whose threads have the layer of `telemetry`.
fn traced<T>(telemetry: &Installed, run: impl Future<Output = T>) -> T {
    let subscriber = tracing_subscriber::registry().with(telemetry.layer());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tracing::subscriber::with_default(subscriber, || runtime.block_on(run))
}

fn telemetry(receiver: &Receiver) -> Telemetry {
    Telemetry::to(receiver.url.clone()).with_service_name("tests").with_header("x-key", KEY)
}

/// Runs the agent of the tests and returns what arrived.
fn exported(content: Content) -> (Receiver, Vec<Seen>) {
    let receiver = Receiver::start();
    let telemetry = telemetry(&receiver).with_content(content).start().unwrap();
    let agent = agent().with_telemetry(telemetry.connection());
    traced(&telemetry, async { agent.chat(PROMPT).await }).unwrap();
    telemetry.shutdown().unwrap();
    let spans = receiver.spans();
    (receiver, spans)
}

#[test]
fn a_prompt_is_one_trace_with_the_right_parents() {
    let (_, spans) = exported(Content::Omitted);
    assert_eq!(
        tree(&spans, &[names::ERROR_TYPE, names::STEP, names::TURN, names::LOOP_END]),
        "\
invoke_agent looptree.loop.end=completed
  turn looptree.turn.index=0
    chat gemini-3-pro error.type=Network looptree.step=model-0.0
    chat gemini-3-pro looptree.step=model-0.1
    execute_tool look looptree.step=tool-0-c1
    execute_tool fails error.type=tool_error looptree.step=tool-0-c2
  turn looptree.turn.index=1
    chat gemini-3-pro looptree.step=model-1.0
"
    );
    assert!(spans.iter().all(|span| span.trace == spans[0].trace));
    for span in &spans {
        assert_eq!(span.failed, span.attributes.contains_key(names::ERROR_TYPE), "{span:?}");
        assert_eq!(span.kind == 3, span.name.starts_with("chat"), "{span:?}");
    }
}

#[test]
fn attributes_have_the_types_and_values_of_the_conventions() {
    let (receiver, spans) = exported(Content::Omitted);
    let last =
        spans.iter().find(|s| s.attributes.get(names::STEP).is_some_and(|s| s == "model-1.0")).unwrap();
    let value = |name: &str| last.attributes.get(name).map_or("absent", String::as_str);
    assert_eq!(value(names::PROVIDER), "gcp.gemini");
    assert_eq!(value(names::OPERATION), "chat");
    assert_eq!(value(names::INPUT_TOKENS), "100");
    assert_eq!(value(names::OUTPUT_TOKENS), "5");
    assert_eq!(value(names::CACHE_READ), "90");
    assert_eq!(value(names::FINISH_REASONS), "[stop]");
    assert_eq!(value(names::CONVERSATION), "s-1");
    assert!(value(names::COST).parse::<f64>().unwrap() > 0.0, "{last:?}");
    assert!(value(names::FIRST_CHUNK).parse::<f64>().is_ok(), "{last:?}");
    assert_eq!(receiver.resources()[0].get("service.name").unwrap(), "tests");
    assert_eq!(receiver.header("x-key").as_deref(), Some(KEY));
}

#[test]
fn no_key_and_no_text_of_the_conversation_is_sent_by_default() {
    let (receiver, spans) = exported(Content::Omitted);
    assert!(!spans.is_empty());
    for planted in PLANTED.iter().chain([&KEY]) {
        assert!(!receiver.contains(planted), "{planted}");
    }
}

#[test]
fn content_is_sent_if_it_is_included_and_keys_are_not() {
    let (receiver, spans) = exported(Content::Included);
    for planted in PLANTED {
        assert!(receiver.contains(planted), "{planted}");
    }
    assert!(!receiver.contains(KEY));
    let find = |name: &str| -> Vec<&String> { spans.iter().filter_map(|s| s.attributes.get(name)).collect() };
    let input: serde_json::Value = serde_json::from_str(find(names::INPUT_MESSAGES)[2]).unwrap();
    assert_eq!(input[0], json!({ "role": "user", "parts": [{ "type": "text", "content": PROMPT }] }));
    assert_eq!(input[1]["parts"][0]["type"], "tool_call");
    assert_eq!(input[2]["parts"][0]["type"], "tool_call_response");
    let output: serde_json::Value = serde_json::from_str(find(names::OUTPUT_MESSAGES)[1]).unwrap();
    assert_eq!(output[0]["parts"][0], json!({ "type": "text", "content": REPLY }));
    assert_eq!(find(names::TOOL_ARGUMENTS).len(), 2);
    assert_eq!(find(names::TOOL_RESULT).len(), 2);
    assert!(find(names::SYSTEM_INSTRUCTIONS)[0].contains(support::SYSTEM));
}

#[test]
fn the_loop_of_a_sub_agent_is_below_its_call() {
    let receiver = Receiver::start();
    let telemetry = telemetry(&receiver).with_metrics(Metrics::Omitted).start().unwrap();
    let inner =
        SubAgentTool::new("helper", ModelConfig::default()).with_provider(ScriptedProvider::texts(["found"]));
    let outer = ScriptedProvider::new([
        ScriptedReply::call("c1", "helper", json!({ "task": "look" })),
        ScriptedReply::text("done"),
    ]);
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(outer)
        .with_tool(inner)
        .with_telemetry(telemetry.connection());
    traced(&telemetry, async { agent.chat("go").await }).unwrap();
    telemetry.shutdown().unwrap();
    let lines = tree(&receiver.spans(), &[names::AGENT_NAME]);
    assert!(
        lines.contains(
            "    execute_tool helper\n      invoke_agent helper gen_ai.agent.name=helper\n        turn\n          chat "
        ),
        "{lines}"
    );
    assert_eq!(lines.lines().filter(|line| !line.starts_with(' ')).count(), 1, "{lines}");
}

#[test]
fn branches_and_their_judge_are_one_trace() {
    let receiver = Receiver::start();
    let telemetry = telemetry(&receiver).with_metrics(Metrics::Omitted).start().unwrap();
    let scripted = |text: &'static str| ScriptedProvider::responding(move |_| ScriptedReply::text(text));
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(scripted("an answer"))
        .with_telemetry(telemetry.connection());
    let judge =
        BasicAgent::new(ModelConfig::default()).with_provider(scripted("Response 2 is right.")).config();
    traced(&telemetry, async {
        let specs = ["a", "b"].map(|s| BranchSpec::asking("why?").with_system_prompt(s));
        agent.explore_and_adopt(specs, LlmJudgeEvaluation::new(judge), EventSender::none()).await.unwrap();
    });
    telemetry.shutdown().unwrap();
    let spans = receiver.spans();
    let lines = tree(&spans, &[names::OPERATION]);
    let top: Vec<&str> = lines.lines().filter(|line| !line.starts_with("    ")).collect();
    assert_eq!(
        top,
        [
            "invoke_workflow gen_ai.operation.name=invoke_workflow",
            "  branch gen_ai.operation.name=invoke_agent",
            "  branch gen_ai.operation.name=invoke_agent",
            "  judge gen_ai.operation.name=invoke_agent",
        ],
        "{lines}"
    );
    assert!(spans.iter().all(|span| span.trace == spans[0].trace));
}

#[test]
fn two_prompts_are_two_traces() {
    let receiver = Receiver::start();
    let telemetry = telemetry(&receiver).with_metrics(Metrics::Omitted).start().unwrap();
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(ScriptedProvider::texts(["a", "b"]));
    traced(&telemetry, async {
        agent.chat("one").await.unwrap();
        agent.chat("two").await.unwrap();
    });
    telemetry.shutdown().unwrap();
    let mut traces: Vec<String> = receiver.spans().into_iter().map(|span| span.trace).collect();
    traces.sort();
    traces.dedup();
    assert_eq!(traces.len(), 2);
}

#[test]
fn spans_of_other_targets_and_log_events_are_sent_only_if_named() {
    for (named, wanted) in [(None, vec!["invoke_agent"]), (Some("my_app"), vec!["request"])] {
        let receiver = Receiver::start();
        let mut telemetry = telemetry(&receiver).with_metrics(Metrics::Omitted);
        if let Some(named) = named {
            telemetry = telemetry.with_target(named);
        }
        let telemetry = telemetry.start().unwrap();
        let agent = BasicAgent::new(ModelConfig::default()).with_provider(ScriptedProvider::texts(["a"]));
        traced(&telemetry, async {
            use tracing::Instrument as _;
            let run = async {
                tracing::info!(target: "looptree", secret = KEY, "a log line");
                agent.chat("one").await.unwrap();
            };
            run.instrument(tracing::info_span!(target: "my_app::web", "request")).await;
        });
        telemetry.shutdown().unwrap();
        let lines = tree(&receiver.spans(), &[]);
        let top: Vec<&str> = lines.lines().filter(|line| !line.starts_with(' ')).collect();
        assert_eq!(top, wanted, "{lines}");
        assert!(!receiver.contains(KEY));
    }
}

#[test]
fn metrics_count_calls_tokens_cost_and_retries() {
    let (receiver, _) = exported(Content::Omitted);
    let metrics = receiver.metrics();
    use names::metrics as of;
    let value = |name: &str| metrics.get(name).cloned().unwrap_or_else(|| panic!("{name} of {metrics:?}"));
    assert_eq!(value(of::CHAT_DURATION).2, 3);
    assert_eq!(value(of::CHAT_DURATION).0, "s");
    assert_eq!(value(of::FIRST_CHUNK).2, 2);
    assert_eq!(value(of::INPUT_TOKENS).1, 100.0);
    assert_eq!(value(of::OUTPUT_TOKENS).1, 5.0);
    assert_eq!(value(of::CACHE_READ).1, 90.0);
    assert!(value(of::COST).1 > 0.0);
    assert_eq!(value(of::RETRIES).1, 1.0);
    assert_eq!(value(of::AGENT_DURATION).2, 1);
    assert_eq!((value(of::AGENT_CALLS).1, value(of::AGENT_TOOLS).1), (3.0, 2.0));
    assert_eq!(value(of::TOOL_DURATION).2, 2);
    assert_eq!(value(of::ACTIVE).1, 0.0);
}

#[test]
fn wrong_addresses_and_headers_are_refused_without_their_secrets() {
    let user = Telemetry::to(format!("http://user:{KEY}@localhost:4318")).start().unwrap_err();
    let query = Telemetry::to(format!("http://localhost:4318?key={KEY}")).start().unwrap_err();
    let other = Telemetry::to("localhost:4318").start().unwrap_err();
    let header = Telemetry::to("http://localhost:4318").with_header("x-key", "a\nb").start().unwrap_err();
    for error in [&user, &query, &other, &header] {
        assert!(!format!("{error} {error:?}").contains(KEY), "{error:?}");
    }
    let settings = Telemetry::to("http://localhost:4318").with_header("x-key", KEY);
    assert!(!format!("{settings:?}").contains(KEY));
    assert!(format!("{settings:?}").contains("x-key"));
}

#[test]
fn an_unreachable_receiver_disturbs_no_run() {
    let telemetry = Telemetry::to("http://127.0.0.1:9").with_metrics(Metrics::Omitted).start().unwrap();
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(ScriptedProvider::texts(["a"]))
        .with_environment(Arc::new(SystemEnvironment))
        .with_telemetry(telemetry.connection());
    assert_eq!(traced(&telemetry, async { agent.chat("one").await }).unwrap(), "a");
}
