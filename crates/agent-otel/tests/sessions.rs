//! Exported sessions have the spans of live runs.
#![cfg(feature = "session")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

mod support;

use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::trace::names;
use agent_core::{BasicAgent, BranchSpec, EventSender, LlmJudgeEvaluation, ModelConfig};
use agent_otel::{Content, Metrics, Telemetry, WithTelemetry as _, session};
use agent_session::{JsonStore, SessionRecorder};
use agent_tools::SubAgentTool;
use serde_json::json;
use support::{PLANTED, PROMPT, Receiver, Seen, agent, tree};
use tracing_subscriber::layer::SubscriberExt as _;

/// Runs an agent that records and has telemetry; returns the live spans.
async fn live(agent: BasicAgent, store: &JsonStore) -> Vec<Seen> {
    let receiver = Receiver::start();
    let telemetry = Telemetry::to(receiver.url.clone()).with_metrics(Metrics::Omitted).start().unwrap();
    let mut agent = agent.with_telemetry(telemetry.connection());
    let _recorder = SessionRecorder::attach(&mut agent, store.clone());
    {
        let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(telemetry.layer()));
        agent.chat(PROMPT).await.unwrap();
    }
    tokio::task::spawn_blocking(move || telemetry.shutdown().unwrap()).await.unwrap();
    receiver.spans()
}

async fn recorded(store: &JsonStore, content: Content) -> (Receiver, session::Exported) {
    let receiver = Receiver::start();
    let ids = store.list_session_ids().unwrap();
    let sessions: Vec<_> = ids.iter().map(|id| store.load_session(id.as_str()).unwrap()).collect();
    let sessions: Vec<_> = sessions.iter().map(|session| &**session).collect();
    let settings = Telemetry::to(receiver.url.clone()).with_content(content);
    let exported = session::export(&settings, &sessions).await.unwrap();
    (receiver, exported)
}

/// The attributes that a record does not contain.
const UNRECORDED: [&str; 1] = [names::FIRST_CHUNK];

#[tokio::test]
async fn an_exported_session_has_the_names_parents_and_attributes_of_the_live_run() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let live = live(agent(), &store).await;
    let (receiver, exported) = recorded(&store, Content::Omitted).await;
    let again = receiver.spans();
    assert_eq!((exported.spans, exported.traces), (live.len(), 1));
    let fields = [
        names::OPERATION,
        names::PROVIDER,
        names::REQUEST_MODEL,
        names::CONVERSATION,
        names::INPUT_TOKENS,
        names::OUTPUT_TOKENS,
        names::CACHE_READ,
        names::FINISH_REASONS,
        names::COST,
        names::TOOL_NAME,
        names::TOOL_CALL,
        names::LOOP,
        names::LOOP_END,
        names::TURN,
        names::STEP,
        names::ATTEMPT,
    ];
    let sorted = |spans: &[Seen]| {
        let mut lines: Vec<String> = tree(spans, &fields).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&again), sorted(&live));
    assert_eq!(
        again.iter().filter(|span| span.failed).count(),
        live.iter().filter(|span| span.failed).count()
    );
    let names_of = |spans: &[Seen]| {
        let all = spans.iter().flat_map(|span| span.attributes.keys().cloned());
        let known = all.filter(|name| !UNRECORDED.contains(&name.as_str()));
        known.collect::<std::collections::BTreeSet<String>>()
    };
    assert_eq!(names_of(&again), names_of(&live));
}

#[tokio::test]
async fn the_times_of_exported_spans_are_those_of_the_record() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    live(agent(), &store).await;
    let (receiver, _) = recorded(&store, Content::Omitted).await;
    let spans = receiver.spans();
    let began = 1_700_000_000_000_u64 * 1_000_000;
    for span in &spans {
        assert!(span.start >= began && span.end >= span.start, "{span:?}");
        if let Some(parent) = spans.iter().find(|other| other.id == span.parent) {
            assert!(parent.start <= span.start && span.end <= parent.end, "{span:?} of {parent:?}");
        }
    }
}

#[tokio::test]
async fn a_second_export_has_the_same_ids() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    live(agent(), &store).await;
    let ids = |spans: Vec<Seen>| spans.into_iter().map(|s| (s.trace, s.id, s.parent)).collect::<Vec<_>>();
    let first = ids(recorded(&store, Content::Omitted).await.0.spans());
    assert_eq!(first, ids(recorded(&store, Content::Omitted).await.0.spans()));
}

#[tokio::test]
async fn the_content_of_a_session_is_exported_only_if_it_is_included() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    live(agent(), &store).await;
    let (omitted, _) = recorded(&store, Content::Omitted).await;
    let (included, _) = recorded(&store, Content::Included).await;
    for planted in PLANTED {
        assert!(!omitted.contains(planted), "{planted}");
    }
    for planted in PLANTED.into_iter().filter(|text| *text != support::SYSTEM) {
        assert!(included.contains(planted), "{planted}");
    }
    assert!(!included.contains(support::KEY));
}

#[tokio::test]
async fn an_exported_sub_agent_is_below_its_call_and_branches_below_their_group() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let inner =
        SubAgentTool::new("helper", ModelConfig::default()).with_provider(ScriptedProvider::texts(["found"]));
    let outer = ScriptedProvider::new([
        ScriptedReply::call("c1", "helper", json!({ "task": "look" })),
        ScriptedReply::text("done"),
    ]);
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(outer).with_tool(inner);
    let live = live(agent, &store).await;
    let (receiver, exported) = recorded(&store, Content::Omitted).await;
    assert_eq!(exported.traces, 1);
    assert_eq!(tree(&receiver.spans(), &[names::AGENT_NAME]), tree(&live, &[names::AGENT_NAME]));

    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let scripted = |text: &'static str| ScriptedProvider::responding(move |_| ScriptedReply::text(text));
    let mut agent = BasicAgent::new(ModelConfig::default()).with_provider(scripted("an answer"));
    let _recorder = SessionRecorder::attach(&mut agent, store.clone());
    let judge =
        BasicAgent::new(ModelConfig::default()).with_provider(scripted("Response 2 is right.")).config();
    let specs = ["a", "b"].map(|s| BranchSpec::asking("why?").with_system_prompt(s));
    agent.explore_and_adopt(specs, LlmJudgeEvaluation::new(judge), EventSender::none()).await.unwrap();
    let (receiver, exported) = recorded(&store, Content::Omitted).await;
    assert_eq!(exported.traces, 1);
    let lines = tree(&receiver.spans(), &[]);
    let mut top: Vec<&str> = lines.lines().filter(|line| !line.starts_with("    ")).collect();
    top.sort_unstable();
    assert_eq!(top, ["  branch", "  branch", "  judge", "invoke_workflow"], "{lines}");
}
