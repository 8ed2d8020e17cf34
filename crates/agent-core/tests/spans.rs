//! The tracing spans of runs, as a subscriber receives them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent_core::testing::{ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentContext, AgentLoopConfig, CancellationToken, ContextConfig, ErrorKind, LlmJudgeEvaluation,
    ModelConfig, ToolResult, Usage, agent_loop, agent_loop_parallel, event_channel,
};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::instrument::{Instrument as _, WithSubscriber as _};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

#[derive(Debug, Default, Clone)]
struct Seen {
    parent: Option<u64>,
    name: &'static str,
    fields: BTreeMap<&'static str, String>,
    closed: bool,
}

/// Keeps every span of the target `looptree`, in the order in which they were opened.
#[derive(Clone, Default)]
struct Keeper(Arc<Mutex<Vec<(u64, Seen)>>>);

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Keeper {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let mut seen = Seen { name: attributes.metadata().name(), ..Seen::default() };
        seen.parent = ctx.span(id).and_then(|span| Some(span.parent()?.id().into_u64()));
        attributes.record(&mut Fields(&mut seen.fields));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((id.into_u64(), seen));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = all.iter_mut().rev().find(|(own, seen)| *own == id.into_u64() && !seen.closed);
        if let Some((_, seen)) = mine {
            values.record(&mut Fields(&mut seen.fields));
        }
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, seen)) =
            all.iter_mut().rev().find(|(own, seen)| *own == id.into_u64() && !seen.closed)
        {
            seen.closed = true;
        }
    }
}

impl Keeper {
    /// The spans as an indented tree. Every span must be closed.
    fn tree(&self, fields: &[&str]) -> String {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for (n, (_, seen)) in all.iter().enumerate() {
            assert!(seen.closed, "{} is open", seen.name);
            let mut depth = 0;
            let (mut parent, mut before) = (seen.parent, n);
            while let Some(id) = parent {
                let at = all.iter().take(before).rposition(|(own, _)| *own == id);
                let Some(at) = at else { break };
                depth += 1;
                (parent, before) = (all.get(at).and_then(|(_, seen)| seen.parent), at);
            }
            let _ = write!(text, "{}{}", "  ".repeat(depth), seen.name);
            for field in fields {
                if let Some(value) = seen.fields.get(field) {
                    let _ = write!(text, " {field}={value}");
                }
            }
            text.push('\n');
        }
        text
    }
}

/// Runs `future`, and the tasks that it spawns on this thread, with a subscriber that keeps all spans.
async fn traced<T>(future: impl Future<Output = T>) -> (T, Keeper) {
    let keeper = Keeper::default();
    let subscriber = tracing_subscriber::registry().with(keeper.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    (future.await, keeper)
}

fn config(model: ScriptedProvider) -> AgentLoopConfig {
    let environment = Arc::new(ManualEnvironment::skipping(1_000));
    let mut config = AgentLoopConfig::new(Arc::new(model), ModelConfig::default(), environment);
    config.policy.retry = agent_core::RetryConfig::default().with_max_retries(1);
    config
}

/// A loop with a failed call, a retry, two tools of which one runs a loop of its own, and a reply.
#[tokio::test]
async fn a_run_is_a_tree_of_spans() {
    let model = ScriptedProvider::new([
        ScriptedReply::error(ErrorKind::Network, "gone"),
        ScriptedReply::call("c1", "ask", json!({})).and_call("c2", "fails", json!({})),
        ScriptedReply::text("done").using(Usage::new(10, 5, 90, 0)),
    ]);
    let ask = ScriptedTool::new("ask", |_, _| async {
        let inner = config(ScriptedProvider::texts(["inner"]));
        let (tx, _) = event_channel();
        let mut context = AgentContext::new("");
        let ran = agent_loop(vec!["q".into()], &mut context, &inner, tx, CancellationToken::new()).await;
        Ok(ToolResult::text(format!("{} messages", ran.map_or(0, |messages| messages.len()))))
    });
    let tools: Vec<Arc<dyn agent_core::AgentTool>> =
        vec![Arc::new(ask), Arc::new(ScriptedTool::failing("fails", "no"))];
    let mut config = config(model);
    config.policy.max_concurrent_tools = Some(1);
    let mut context = AgentContext::new("").with_tools(tools);
    context.session_id = Some("s-1".into());
    let (tx, _) = event_channel();
    let (ran, keeper) =
        traced(agent_loop(vec!["go".into()], &mut context, &config, tx, CancellationToken::new())).await;
    assert_eq!(ran.map_err(|e| e.to_string()).map(|messages| messages.len()), Ok(5));
    let fields = [
        "gen_ai.operation.name",
        "gen_ai.tool.name",
        "looptree.turn.index",
        "looptree.step",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.cache_read.input_tokens",
        "error.type",
        "looptree.loop.end",
    ];
    insta::assert_snapshot!(keeper.tree(&fields));
    assert!(
        keeper.tree(&["gen_ai.conversation.id"]).starts_with("invoke_agent gen_ai.conversation.id=s-1\n")
    );
}

/// The time from the request to the first piece of the reply, in seconds.
#[tokio::test]
async fn the_span_of_a_model_call_has_the_time_to_the_first_piece() {
    let environment = Arc::new(ManualEnvironment::at(1_800_000_000_000));
    let clock = Arc::clone(&environment);
    let model = ScriptedProvider::responding(move |_| {
        clock.advance(Duration::from_millis(250));
        ScriptedReply::text("done")
    });
    let config = AgentLoopConfig::new(Arc::new(model), ModelConfig::default(), environment);
    let (mut context, (tx, _)) = (AgentContext::new(""), event_channel());
    let (_, keeper) =
        traced(agent_loop(vec!["go".into()], &mut context, &config, tx, CancellationToken::new())).await;
    let tree = keeper.tree(&["gen_ai.response.time_to_first_chunk"]);
    assert!(tree.contains("    chat gen_ai.response.time_to_first_chunk=0.25\n"), "{tree}");
}

/// A compaction is a span of its turn.
#[tokio::test]
async fn a_compaction_is_a_span() {
    let mut config = config(ScriptedProvider::texts(["one", "two"]));
    config.policy.context = Some(
        ContextConfig::default().with_max_context_tokens(60).with_system_prompt_tokens(0).with_keep_recent(1),
    );
    let mut context = AgentContext::new("");
    let long = "many words ".repeat(30);
    let (ended, keeper) = traced(async {
        for text in [long.as_str(), "more"] {
            let (tx, _) = event_channel();
            agent_loop(vec![text.into()], &mut context, &config, tx, CancellationToken::new()).await?;
        }
        Ok::<(), agent_core::LoopError>(())
    })
    .await;
    assert!(ended.is_ok(), "{ended:?}");
    let tree = keeper.tree(&["looptree.compaction.reason"]);
    assert!(tree.contains("    compaction looptree.compaction.reason=Budget\n"), "{tree}");
}

/// Each branch and the judge is a loop with a span of its own, below the span of the group.
#[tokio::test]
async fn branches_and_the_judge_are_spans() {
    let of = |text| config(ScriptedProvider::texts([text]));
    let (result, keeper) = traced(async {
        let strategy = LlmJudgeEvaluation::new(of("Response 2 is right."));
        let (tx, _) = event_channel();
        let context = AgentContext::new("");
        let group = agent_loop_parallel(
            vec!["2 + 2?".into()],
            context,
            [of("5"), of("4")],
            strategy,
            tx,
            CancellationToken::new(),
        );
        group.instrument(tracing::info_span!("request")).await.map(|result| result.selected.index)
    })
    .await;
    assert!(matches!(result, Ok(1)), "{result:?}");
    let tree = keeper.tree(&[]);
    let top: Vec<&str> = tree.lines().filter(|line| !line.starts_with("      ")).collect();
    assert_eq!(top, ["request", "  group", "    branch", "    branch", "    judge"]);
    let count = |line| tree.lines().filter(|other| *other == line).count();
    assert_eq!((count("      turn"), count("        chat")), (3, 3), "{tree}");
}

/// Without a subscriber, a run creates no span.
#[tokio::test]
async fn nothing_is_created_for_a_subscriber_that_wants_nothing() {
    let keeper = Keeper::default();
    let quiet = tracing_subscriber::registry()
        .with(keeper.clone().with_filter(tracing_subscriber::filter::LevelFilter::OFF));
    let mut context = AgentContext::new("");
    let config = config(ScriptedProvider::texts(["hi"]));
    let (tx, _) = event_channel();
    let ran = agent_loop(vec!["go".into()], &mut context, &config, tx, CancellationToken::new());
    assert!(ran.with_subscriber(quiet).await.is_ok());
    assert_eq!(keeper.tree(&[]), "");
}

/// The trace contexts that were asked for, and the kinds of content that were passed.
#[derive(Debug, Default)]
struct Counting(Mutex<Vec<&'static str>>);

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

impl agent_core::drive::Telemetry for Counting {
    fn context(&self, _: &tracing::Span) -> Option<agent_core::trace::TraceContext> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push("context");
        agent_core::trace::TraceContext::new(PARENT)
    }

    fn content(&self, _: &tracing::Span, content: agent_core::drive::SpanContent<'_>) {
        use agent_core::drive::SpanContent as Of;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(match content {
            Of::Request(_) => "request",
            Of::Reply(_) => "reply",
            Of::Arguments(_) => "arguments",
            Of::Result(_) => "result",
            _ => "other",
        });
    }
}

/// The model and the tool receive the context of a connected tracing system, and none without it.
#[tokio::test]
async fn requests_and_tools_receive_a_trace_context_only_if_one_is_connected() {
    for connected in [true, false] {
        let model = Arc::new(ScriptedProvider::new([
            ScriptedReply::call("c1", "look", json!({})),
            ScriptedReply::text("done"),
        ]));
        let received = Arc::new(Mutex::new(None));
        let given = Arc::clone(&received);
        let look = ScriptedTool::new("look", move |_, ctx: agent_core::ToolContext| {
            *given.lock().unwrap_or_else(PoisonError::into_inner) = ctx.trace.clone();
            async { Ok(ToolResult::text("seen")) }
        });
        let environment = Arc::new(ManualEnvironment::skipping(1_000));
        let mut config = AgentLoopConfig::new(model.clone(), ModelConfig::default(), environment);
        let counting = Arc::new(Counting::default());
        if connected {
            config.services.telemetry = Some(counting.clone());
        }
        let tools: Vec<Arc<dyn agent_core::AgentTool>> = vec![Arc::new(look)];
        let mut context = AgentContext::new("").with_tools(tools);
        let (tx, _) = event_channel();
        let run = agent_loop(vec!["go".into()], &mut context, &config, tx, CancellationToken::new());
        let (ran, _) = traced(run).await;
        assert!(ran.is_ok());
        let of_tool = received.lock().unwrap_or_else(PoisonError::into_inner).take();
        let of_tool = of_tool.map(|trace| trace.traceparent().to_owned());
        let of_models: Vec<Option<String>> = model
            .requests()
            .iter()
            .map(|request| request.trace.as_ref().map(|trace| trace.traceparent().to_owned()))
            .collect();
        let asked = counting.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if connected {
            assert_eq!(of_tool.as_deref(), Some(PARENT));
            assert_eq!(of_models, [Some(PARENT.to_owned()), Some(PARENT.to_owned())]);
            let once = ["context", "request", "reply"];
            let tool = ["context", "arguments", "result"];
            assert_eq!(asked, [once, tool, once].concat());
        } else {
            assert_eq!((of_tool, of_models, asked), (None, vec![None, None], vec![]));
        }
    }
}
