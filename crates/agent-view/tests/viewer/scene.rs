//! Sessions that were recorded by real runs: a scripted model, the real tools for files, plans and sub-agents, and the real recorder.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_core::context::ContextConfig;
use agent_core::evaluation::LlmJudgeEvaluation;
use agent_core::testing::{ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentTool, Answer, BasicAgent, BranchSpec, Citation, CitationSource, Content, CostConfig,
    DocumentContent, ErrorKind, EventSender, FileSource, Message, ModelConfig, SearchResultContent,
    ToolResult, Usage,
};
use agent_session::{JsonStore, Session, SessionRecorder, TimeTravel as _};
use agent_tools::{PlanTool, SubAgentTool, Workspace};
use serde_json::json;

/// 2026-11-20, 09:00 UTC.
const MORNING: u64 = 1_795_165_200_000;

/// A picture of 112 × 72 pixels: lines on paper.
const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAHAAAABICAIAAAChq+bcAAAAqUlEQVR42u3ZQQpAERiFUes0sat/YpeGMrAIQjr1beCderqRRm/aWEJwAjSi3u3Y9+dcVgJ6CVTOUKBABRSoHfp4duinoHKGAgUqoEDtULMJqB3qDAUqoECByru8d3nv8nKGAgUqoEDtUNd3QO1QZyhQAQUKVHaoHWqHCihQoEAF1A71Lg/UDnWGAhVQoEDl+s59qPtQv7yAAgUqoHaoHQrUL+8MBQpU+5qSLC2FlW6MOwAAAABJRU5ErkJggg==";

/// A recorded session with the sessions of its sub-agents.
pub(crate) struct Recorded {
    pub(crate) session: Session,
    pub(crate) children: Vec<Session>,
}

/// Which of two similar sessions is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    First,
    Second,
}

pub(crate) fn model(id: &str) -> ModelConfig {
    let mut model = ModelConfig::anthropic(id, "Claude", "no-key");
    model.cost = CostConfig::per_million(3_000_000, 15_000_000, 300_000, 3_750_000);
    model
}

/// A model that answers in this order. Each reply takes some milliseconds on the clock.
pub(crate) fn answers(clock: &ManualEnvironment, replies: Vec<(u64, ScriptedReply)>) -> ScriptedProvider {
    let (clock, replies) = (clock.clone(), Mutex::new(VecDeque::from(replies)));
    ScriptedProvider::responding(move |_| {
        let (ms, reply) = replies.lock().unwrap().pop_front().expect("the script has a reply for each call");
        clock.advance(Duration::from_millis(ms));
        reply
    })
}

/// A tool that takes some milliseconds on the clock for each call, and returns these texts in order.
fn slow_tool(clock: &ManualEnvironment, name: &str, results: Vec<(u64, Result<&str, &str>)>) -> ScriptedTool {
    let owned =
        results.into_iter().map(|(ms, result)| (ms, result.map(str::to_owned).map_err(str::to_owned)));
    let (clock, results) = (clock.clone(), Arc::new(Mutex::new(owned.collect::<VecDeque<_>>())));
    ScriptedTool::new(name, move |_, _| {
        let (ms, result) =
            results.lock().unwrap().pop_front().expect("the script has a result for each call");
        clock.advance(Duration::from_millis(ms));
        async move {
            Ok(match result {
                Ok(text) => ToolResult::text(text).with_details(json!({"exit_code": 0, "success": true})),
                Err(text) => {
                    ToolResult::error(text).with_details(json!({"exit_code": 101, "success": false}))
                }
            })
        }
    })
}

fn usage(input: u64, cached: u64, written: u64, output: u64) -> Usage {
    Usage::new(input, output, cached, written)
}

const FAILED: &str = "running 3 tests\ntest rounds_down ... ok\ntest rounds_up ... ok\ntest rounds_half_up ... FAILED\n\nfailures:\n\n---- rounds_half_up stdout ----\nassertion `left == right` failed\n  left: 2\n right: 3\n\ntest result: FAILED. 2 passed; 1 failed";
const PASSED: &str = "running 3 tests\ntest rounds_down ... ok\ntest rounds_half_up ... ok\ntest rounds_up ... ok\n\ntest result: ok. 3 passed; 0 failed";

fn plan(states: [&str; 3]) -> serde_json::Value {
    let steps = ["Reproduce the failure", "Fix the rounding", "Run all tests"];
    let steps: Vec<_> =
        steps.iter().zip(states).map(|(step, status)| json!({"step": step, "status": status})).collect();
    json!({ "steps": steps })
}

/// The replies of the main model.
fn replies(version: Version) -> Vec<(u64, ScriptedReply)> {
    let fix = match version {
        Version::First => "    (value + 0.5).floor() as i64",
        Version::Second => "    value.round() as i64",
    };
    let done = match version {
        Version::First => {
            "The test passes now. `round` truncated its argument; it adds one half and takes the floor:\n\n```rust\npub fn round(value: f64) -> i64 {\n    (value + 0.5).floor() as i64\n}\n```\n\n**Negative values** are rounded towards positive infinity, as the documentation of the crate promises."
        }
        Version::Second => {
            "The test passes now. `round` truncated its argument; it calls `f64::round`:\n\n```rust\npub fn round(value: f64) -> i64 {\n    value.round() as i64\n}\n```\n\n**Negative values** are rounded away from zero, so the documentation of the crate must change."
        }
    };
    let mut list = vec![
        (
            2_140,
            ScriptedReply::new()
                .and_thinking("The user names one test. I should run it before I read the code, so that I know the message. Then I look at the function that it calls.", Some("sig"))
                .and_text("I reproduce the failure first.")
                .and_call("c1", "plan", plan(["in_progress", "pending", "pending"]))
                .and_call("c2", "bash", json!({"command": "cargo test --package money rounds"}))
                .and_call("c3", "read_file", json!({"path": "src/lib.rs"}))
                .using(usage(820, 0, 4_100, 210)),
        ),
        (
            3_380,
            ScriptedReply::new()
                .and_text("`as i64` truncates. I change the function.")
                .and_call("c4", "edit_file", json!({"path": "src/lib.rs", "old_text": "    value as i64", "new_text": fix}))
                .and_call("c5", "plan", plan(["completed", "in_progress", "pending"]))
                .using(usage(64, 4_920, 610, 180)),
        ),
        (
            1_210,
            ScriptedReply::new()
                .and_call("c6", "bash", json!({"command": "cargo test --package money"}))
                .and_call("c7", "plan", plan(["completed", "completed", "in_progress"]))
                .using(usage(48, 5_530, 240, 96)),
        ),
        (2_020, ScriptedReply::text(done).using(usage(40, 5_770, 310, 204))),
    ];
    if version == Version::Second {
        return list;
    }
    list.extend([
        // The fork.
        (1_640, ScriptedReply::text("Banker's rounding needs `f64::round_ties_even`. The two test cases for halves would change.").using(usage(35, 6_080, 220, 88))),
        // With a document and a picture.
        (
            2_900,
            ScriptedReply::text("The specification asks for *half up* (section 4), and the picture of the receipt shows 3.00 for 2.50.")
                .and_citation(
                    Citation::new(CitationSource::Document { index: 0, file_id: None })
                        .with_title("rounding.pdf")
                        .with_cited_text("Amounts are rounded half up."),
                )
                .and_citation(Citation::new(CitationSource::Url { url: "https://example.org/rounding".into() }).with_title("Rounding of amounts"))
                .using(usage(820, 6_080, 640, 120)),
        ),
        // The sub-agent, after a change of the system prompt.
        (
            1_450,
            ScriptedReply::new()
                .and_text("A reviewer should look at the change.")
                .and_call("c8", "reviewer", json!({"task": "Review the change of src/lib.rs: is (value + 0.5).floor() correct for negative values and for large ones?"}))
                .using(usage(7_592, 0, 330, 74)),
        ),
        (1_180, ScriptedReply::text("The reviewer found one limit: above 2^52 the sum is not exact. I noted it in the documentation.").using(usage(60, 7_870, 190, 66))),
        // The deployment, with an approval, a failure of the provider and a failed call.
        (1_900, ScriptedReply::error(ErrorKind::RateLimited, "529: the service is overloaded, try again")),
        (
            2_700,
            ScriptedReply::new()
                .and_text("I publish the crate.")
                .and_call("c9", "publish", json!({"registry": "internal", "version": "1.4.1", "command": "cargo publish --registry internal\necho \u{202e}done"}))
                .using(usage(70, 8_400, 410, 92)),
        ),
        (1_300, ScriptedReply::text("Version 1.4.1 is published.").using(usage(44, 8_810, 150, 30))),
        // Much output, so that the conversation is compacted.
        (1_100, ScriptedReply::call("c10", "bash", json!({"command": "cat target/report.txt"})).using(usage(40, 8_960, 90, 48))),
        (1_700, ScriptedReply::text("The report has 4,000 lines. All checks passed.").using(usage(2_100, 3_000, 900, 52))),
    ]);
    list
}

/// Records a session in a new folder below `dir`.
pub(crate) async fn record(dir: &Path, version: Version) -> Recorded {
    let clock = ManualEnvironment::skipping(MORNING);
    let work = dir.join("work");
    std::fs::create_dir_all(work.join("src")).unwrap();
    let source = "//! Amounts of money.\n\n/// Rounds half up.\npub fn round(value: f64) -> i64 {\n    value as i64\n}\n";
    std::fs::write(work.join("src/lib.rs"), source).unwrap();
    let report: &'static str = Box::leak("check passed: amounts are equal\n".repeat(4_000).into_boxed_str());
    let bash = slow_tool(&clock, "bash", vec![(8_450, Err(FAILED)), (6_210, Ok(PASSED)), (140, Ok(report))]);
    let publish = slow_tool(&clock, "publish", vec![(4_020, Ok("Uploaded money v1.4.1"))])
        .asking("Publish version 1.4.1?");
    let reviewer = SubAgentTool::new("reviewer", model("claude-haiku-4-5"))
        .with_description("Reviews changes.")
        .with_tools(Workspace::open(&work).unwrap().read_only_tools())
        .with_provider(answers(
            &clock,
            vec![
                (
                    900,
                    ScriptedReply::call("r1", "read_file", json!({"path": "src/lib.rs"}))
                        .using(usage(900, 0, 0, 40)),
                ),
                (
                    1_600,
                    ScriptedReply::text("Correct for negative values. Above 2^52, adding 0.5 is not exact.")
                        .using(usage(1_300, 0, 0, 60)),
                ),
            ],
        ));
    let mut tools: Vec<Arc<dyn AgentTool>> = Workspace::open(&work).unwrap().tools();
    tools.retain(|tool| tool.name() != "bash");
    tools.push(Arc::new(bash));
    tools.push(Arc::new(publish));
    let mut agent = BasicAgent::new(model("claude-sonnet-5-5"))
        .with_environment(Arc::new(clock.clone()))
        .with_session_id(if version == Version::First { "money-1" } else { "money-2" })
        .with_system_prompt("You are a careful engineer. It is 09:00.")
        .with_provider(answers(&clock, replies(version)))
        .with_tools(tools)
        .with_tool(PlanTool::new())
        .with_tool(reviewer);
    let store = JsonStore::open(dir.join("sessions")).unwrap();
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    let pause = |seconds: u64| clock.advance(Duration::from_secs(seconds));

    agent
        .chat("The test rounds_half_up of the package money fails. Find out why, and fix it.")
        .await
        .unwrap();
    if version == Version::First {
        pause(95);
        let session = recorder.session(agent.session_id()).unwrap();
        let end = session.end_point().unwrap();
        agent.chat("Would banker's rounding be better?").await.unwrap();
        agent.rewind(&session, &end).unwrap();
        pause(240);
        agent.prompt(vec![question()]).unwrap().collect().await;
        pause(30);
        agent.set_system_prompt("You are a careful engineer. It is 09:05.");
        agent.chat("Let somebody review the change.").await.unwrap();
        pause(12);
        branches(&clock, &agent).await;
        pause(1_800);
        agent.prompt("Publish it to the internal registry.").unwrap().collect().await;
        let asked = agent.questions();
        pause(410);
        agent.answer(asked[0].id.clone(), Answer::Allow).unwrap().collect().await;
        pause(20);
        agent.set_config(|config| {
            config.policy.context = Some(ContextConfig::default().with_max_context_tokens(9_000));
        });
        agent.chat("Show the report of the last checks.").await.unwrap();
    }
    recorder.close().await.unwrap();
    let session = store.load_session(agent.session_id()).unwrap().into_session();
    let refs = session.loops.iter().flat_map(|record| &record.child_loop_refs);
    let children =
        refs.map(|child| store.load_session(&child.child_session_id).unwrap().into_session()).collect();
    Recorded { session, children }
}

/// A message with a picture, a document and a search result.
fn question() -> Message {
    let pdf = FileSource::Base64 { data: "JVBERi0xLjQK".into(), mime_type: "application/pdf".into() };
    let document =
        DocumentContent::new(pdf).with_title("rounding.pdf").with_context("The specification of the shop.");
    Message::user_content(vec![
        Content::text("What does the specification say about halves? The receipt is attached."),
        Content::image(PICTURE, "image/png"),
        Content::document(document),
        Content::search_result(SearchResultContent::new(
            "https://example.org/rounding",
            "Rounding of amounts",
            ["Half up is the usual rule for amounts."],
        )),
    ])
}

/// Three branches write an entry of a changelog, and a judge selects the second.
async fn branches(clock: &ManualEnvironment, agent: &BasicAgent) {
    let texts = [
        "## 1.4.1\n\n- Fixed a bug.",
        "## 1.4.1\n\n- `round` rounds half up, as documented. It truncated before.",
        "## 1.4.1\n\n- We have made rounding great.",
    ];
    let specs = texts.map(|text| {
        let provider = Arc::new(answers(
            clock,
            vec![(1_500, ScriptedReply::text(text).using(usage(60, 8_060, 120, 40)))],
        ));
        BranchSpec::asking("Write the entry of the changelog.")
            .configure(move |config| config.services.provider = provider)
    });
    let mut judge = agent.config();
    judge.services.provider =
        Arc::new(answers(clock, vec![(1_200, ScriptedReply::text("2").using(usage(700, 0, 0, 4)))]));
    agent.explore_and_adopt(specs, LlmJudgeEvaluation::new(judge), EventSender::none()).await.unwrap();
}

/// Returns a recorder that records an agent in memory.
pub(crate) fn in_memory(agent: &BasicAgent) -> SessionRecorder {
    let recorder = SessionRecorder::new();
    let listener = recorder.clone();
    let _ = agent.subscribe(move |event| listener.on_event(event));
    recorder
}

/// Records a session with this many prompts, and a result of about `bytes` bytes for each.
pub(crate) async fn long(prompts: usize, bytes: usize) -> Session {
    let clock = ManualEnvironment::skipping(MORNING);
    let line = |n: usize| {
        format!(
            "{n:06} src/module_{}.rs: a line of the output of the tool, with \"quotes\" and <angles>\n",
            n % 97
        )
    };
    let time = clock.clone();
    let provider = ScriptedProvider::responding(move |request| {
        time.advance(Duration::from_millis(700));
        let is_result = request.messages().last().is_some_and(|message| message.as_tool_result().is_some());
        let n = request.messages().count();
        if is_result {
            ScriptedReply::text(format!("Done with step {n}.")).using(usage(100, 5_000, 300, 50))
        } else {
            ScriptedReply::call("c", "bash", json!({"command": format!("step {n}")}))
                .using(usage(100, 4_000, 300, 50))
        }
    });
    let (time, text) = (clock.clone(), (0..bytes / line(0).len()).map(line).collect::<String>());
    let bash = ScriptedTool::new("bash", move |_, _| {
        time.advance(Duration::from_millis(300));
        let text = text.clone();
        async move { Ok(ToolResult::text(text)) }
    });
    let agent = BasicAgent::new(model("claude-sonnet-5-5"))
        .with_environment(Arc::new(clock.clone()))
        .with_session_id("long-1")
        .with_provider(provider)
        .with_tool(bash)
        .configure(|config| config.policy.context = None);
    let recorder = in_memory(&agent);
    for n in 0..prompts {
        agent.chat(format!("Prompt {n}: go on with the needle-{n} of the work.")).await.unwrap();
        // The conversation begins anew, so that the requests stay small.
        agent.replace_messages(Vec::new()).unwrap();
    }
    recorder.session(agent.session_id()).unwrap()
}
