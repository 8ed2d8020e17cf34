//! Aborts while code of the caller, the model or a tool is pending and never returns.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

#[path = "support/runs.rs"]
mod runs;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use agent_core::context::{
    CompactionContext, CompactionError, CompactionOutcome, CompactionStrategy, ContextConfig,
};
use agent_core::drive::Delegation;
use agent_core::hooks::{FilterResult, Hooks, InputFilter};
use agent_core::provider::ErrorKind;
use agent_core::run::ChildEnd;
use agent_core::run::GRACE;
use agent_core::testing::{Latch, ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed};
use agent_core::tool::ChildRun;
use agent_core::{
    AgentEvent, AgentLoopConfig, AgentTool, BasicAgent, BranchSpec, Ended, History, LlmJudgeEvaluation,
    ModelConfig, ToolContext, ToolError, ToolResult, Verdict, event_channel,
};
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// The bound of the requirement, beyond the grace period.
const SOON: Duration = Duration::from_millis(100);

/// Says that the thing to be aborted is pending, and never returns.
#[derive(Clone, Default)]
struct Stuck(Arc<Notify>);

impl Stuck {
    async fn forever<T>(&self) -> T {
        self.0.notify_one();
        pending().await
    }
}

struct StuckFilter(Stuck);

#[async_trait]
impl InputFilter for StuckFilter {
    async fn filter(&self, _text: &str) -> FilterResult {
        self.0.forever().await
    }
}

struct StuckCompaction(Stuck);

#[async_trait]
impl CompactionStrategy for StuckCompaction {
    async fn compact(
        &self,
        _history: &History,
        _config: &ContextConfig,
        _cx: &CompactionContext,
    ) -> Result<CompactionOutcome, CompactionError> {
        self.0.forever().await
    }
}

fn model() -> ScriptedProvider {
    ScriptedProvider::new([ScriptedReply::text("Look.").and_call("c1", "work", json!({})), "done".into()])
}

fn base() -> BasicAgent {
    BasicAgent::new(ModelConfig::default()).with_provider(model()).with_tool(ScriptedTool::new(
        "work",
        |_, ctx| async move {
            ctx.on_update(ToolResult::text("half"));
            tokio::task::yield_now().await;
            Ok(ToolResult::text("done"))
        },
    ))
}

/// Starts a run, waits until the thing is pending, aborts, and checks that the run ends in time and the agent is usable.
async fn check(name: &str, agent: BasicAgent, stuck: &Stuck) {
    let mut events = agent.prompt("Hi").unwrap();
    let reached = tokio::time::timeout(Duration::from_secs(60), stuck.0.notified()).await;
    assert!(reached.is_ok(), "{name} was never called");
    let aborted = tokio::time::Instant::now();
    agent.abort();
    let mut all = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout(GRACE * 20, events.recv()).await {
        all.push(event);
    }
    let took = aborted.elapsed();
    let Some(AgentEvent::AgentEnd(end)) = all.last() else { panic!("{name}: the run did not end") };
    assert!(took <= GRACE + SOON, "{name}: {took:?}");
    // An abort that arrives after the last event finds the run completed.
    assert!(matches!(end.ended, Ended::Aborted | Ended::Completed), "{name}: {:?}", end.ended);
    assert_well_formed(&all);
    let reset = tokio::time::timeout(GRACE + SOON, agent.reset()).await;
    assert!(reset.is_ok(), "{name}: reset does not return");
    assert!(!agent.is_streaming() && agent.messages().is_empty(), "{name}");
}

/// REQ-067, REQ-161, B-061.
#[tokio::test(start_paused = true)]
async fn an_abort_ends_the_run_while_any_hook_is_pending() {
    type Make = fn(Stuck) -> Hooks;
    let hooks: [(&str, Make); 9] = [
        ("before_loop", |s| {
            Hooks::new().before_loop(move |_| {
                let s = s.clone();
                async move { s.forever::<Verdict>().await }
            })
        }),
        ("input_filter", |s| Hooks::new().input_filter(StuckFilter(s))),
        ("before_turn", |s| {
            Hooks::new().before_turn(move |_| {
                let s = s.clone();
                async move { s.forever::<Verdict>().await }
            })
        }),
        ("transform_context", |s| {
            Hooks::new().transform_context(move |_| {
                let s = s.clone();
                async move { s.forever().await }
            })
        }),
        ("convert_to_llm", |s| {
            Hooks::new().convert_to_llm(move |_| {
                let s = s.clone();
                async move { s.forever().await }
            })
        }),
        ("api_key", |s| {
            Hooks::new().api_key(move |_| {
                let s = s.clone();
                async move { s.forever().await }
            })
        }),
        ("before_tool", |s| {
            Hooks::new().before_tool(move |_| {
                let s = s.clone();
                async move { s.forever::<Verdict>().await }
            })
        }),
        ("before_tool_update", |s| {
            Hooks::new().before_tool_update(move |_| {
                let s = s.clone();
                async move { s.forever::<Verdict>().await }
            })
        }),
        ("after_tool", |s| {
            Hooks::new().after_tool(move |_| {
                let s = s.clone();
                async move { s.forever::<agent_core::run::ToolChange>().await }
            })
        }),
    ];
    for (name, make) in hooks {
        let stuck = Stuck::default();
        check(name, base().with_hooks(make(stuck.clone())), &stuck).await;
    }
}

/// B-061.
#[tokio::test(start_paused = true)]
async fn an_abort_ends_the_run_while_a_listener_is_pending_at_any_event() {
    let kinds = runs::kinds(&runs::run(&base(), "Hi").await);
    for (at, kind) in kinds.iter().enumerate() {
        let (agent, stuck) = (base(), Stuck::default());
        let (s, seen) = (stuck.clone(), std::sync::atomic::AtomicUsize::new(0));
        let _listening = agent.subscribe_async(move |_| {
            let here = seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == at;
            let s = s.clone();
            async move {
                if here {
                    s.forever().await
                }
            }
        });
        // A listener that never returns from any event costs one grace period, not one for each event.
        let _deaf = agent.subscribe_async(|event| async move {
            if matches!(event, AgentEvent::TurnEnd { .. } | AgentEvent::AgentEnd(_)) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        check(&format!("a listener at {kind} ({at})"), agent, &stuck).await;
    }
}

/// B-061. A question is pending: the run ends, whether the abort comes from a listener while the run is suspended or after.
#[tokio::test(start_paused = true)]
async fn an_abort_ends_a_run_that_asks() {
    for at in ["asked", "suspended", "later"] {
        let tool = ScriptedTool::saying("work", "done").asking("Really?");
        let agent = BasicAgent::new(ModelConfig::default()).with_provider(model()).with_tool(tool);
        let handle = agent.handle();
        let _aborting = agent.subscribe(move |event| match event {
            AgentEvent::QuestionAsked { .. } if at == "asked" => handle.abort(),
            AgentEvent::RunSuspended { .. } if at == "suspended" => handle.abort(),
            _ => {}
        });
        let events = runs::run(&agent, "Hi").await;
        if at == "later" {
            assert!(matches!(events.last(), Some(AgentEvent::RunSuspended { .. })));
            agent.abort();
            agent.wait_for_idle().await;
        } else {
            let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!("{at}: the run did not end") };
            assert_eq!(end.ended, Ended::Aborted, "{at}");
            assert_eq!(events.iter().filter(|e| e.is_terminal()).count(), 1, "{at}");
        }
        assert!(!agent.state().is_suspended && agent.questions().is_empty(), "{at}");
    }
}

/// REQ-065.
#[tokio::test(start_paused = true)]
async fn a_listener_that_never_returns_costs_one_grace_period_for_all_events() {
    let (agent, stuck) = (base(), Stuck::default());
    let s = stuck.clone();
    let _listening = agent.subscribe_async(move |_| {
        let s = s.clone();
        async move { s.forever().await }
    });
    check("a listener at every event", agent, &stuck).await;
}

/// REQ-161.
#[tokio::test(start_paused = true)]
async fn an_abort_ends_the_run_while_a_tool_a_model_a_delay_or_a_compaction_is_pending() {
    let stuck = Stuck::default();
    let s = stuck.clone();
    let tool = ScriptedTool::new("work", move |_, _| {
        let s = s.clone();
        async move { s.forever().await }
    });
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(model()).with_tool(tool);
    check("a tool", agent, &stuck).await;

    let stuck = Stuck::default();
    let latch = Latch::new();
    let waits = ScriptedProvider::new([ScriptedReply::text("one").and_wait(&latch).and_text("two")]);
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(waits);
    let s = stuck.clone();
    let _listening = agent.subscribe(move |event| {
        if matches!(event, AgentEvent::MessageUpdate { .. }) {
            s.0.notify_one();
        }
    });
    check("a model", agent, &stuck).await;

    let stuck = Stuck::default();
    let limited = ScriptedProvider::new([ScriptedReply::new().failing(ErrorKind::RateLimited, "later")]);
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(limited);
    let s = stuck.clone();
    let _listening = agent.subscribe(move |event| {
        if matches!(event, AgentEvent::RetryStart(_)) {
            s.0.notify_one();
        }
    });
    check("a delay", agent, &stuck).await;

    let stuck = Stuck::default();
    let agent = base()
        .with_compaction_strategy(StuckCompaction(stuck.clone()))
        .configure(|c| c.policy.context = Some(ContextConfig::default().with_max_context_tokens(1)));
    check("a compaction", agent, &stuck).await;
}

/// A tool that delegates its calls to a child with this configuration.
struct Delegating {
    hooks: Hooks,
    tool: ScriptedTool,
    provider: ScriptedProvider,
}

#[async_trait]
impl AgentTool for Delegating {
    fn name(&self) -> &str {
        "work"
    }

    fn description(&self) -> &str {
        "delegates"
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }

    async fn execute(&self, _: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        Err(ToolError::failed("it is delegated"))
    }

    fn delegate(&self, _: &Value) -> Option<ChildRun> {
        let plan = Plan(self.hooks.clone(), self.provider.clone());
        Some(ChildRun::new(vec!["sub".into()], plan).with_tools(vec![Arc::new(self.tool.clone()) as _]))
    }
}

struct Plan(Hooks, ScriptedProvider);

#[async_trait]
impl Delegation for Plan {
    fn configuration(&self, ctx: &ToolContext) -> Result<AgentLoopConfig, ToolError> {
        let (provider, model) = (Arc::new(self.1.clone()), ModelConfig::default());
        let mut config = AgentLoopConfig::new(provider, model, ctx.environment.clone());
        config.hooks = self.0.clone().into();
        Ok(config)
    }

    async fn result(&self, _: &ChildEnd) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::text("delegated"))
    }
}

/// Checks an agent whose child is pending: the child has its end in the stream too.
async fn check_child(
    name: &str,
    hooks: Hooks,
    tool: ScriptedTool,
    provider: ScriptedProvider,
    stuck: &Stuck,
) {
    let tool = Delegating { hooks, tool, provider };
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(model()).with_tool(tool);
    let mut events = agent.prompt("Hi").unwrap();
    let reached = tokio::time::timeout(Duration::from_secs(60), stuck.0.notified()).await;
    assert!(reached.is_ok(), "{name} was never called");
    let aborted = tokio::time::Instant::now();
    agent.abort();
    let mut own = std::collections::BTreeMap::<_, Vec<AgentEvent>>::new();
    while let Ok(Some(event)) = tokio::time::timeout(GRACE * 20, events.recv()).await {
        own.entry(event.loop_id().clone()).or_default().push(event);
    }
    assert!(aborted.elapsed() <= GRACE + SOON, "{name}: {:?}", aborted.elapsed());
    assert_eq!(own.len(), 2, "{name}");
    for events in own.values() {
        let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!("{name}: {events:?}") };
        assert_eq!(end.ended, Ended::Aborted, "{name}");
        assert_well_formed(events);
    }
    let reset = tokio::time::timeout(GRACE + SOON, agent.reset()).await;
    assert!(reset.is_ok(), "{name}: reset does not return");
}

/// REQ-161. The child of a call is pending: both loops end in the grace period of the caller.
#[tokio::test(start_paused = true)]
async fn an_abort_ends_a_caller_and_its_child_whatever_is_pending_in_the_child() {
    let saying = || ScriptedTool::saying("work", "done");
    let stuck = Stuck::default();
    let s = stuck.clone();
    let tool = ScriptedTool::new("work", move |_, _| {
        let s = s.clone();
        async move { s.forever().await }
    });
    check_child("a tool", Hooks::new(), tool, model(), &stuck).await;

    type Make = fn(Stuck) -> Hooks;
    let hooks: [(&str, Make); 4] = [
        ("before_loop", |s| {
            Hooks::new().before_loop(move |_| {
                let s = s.clone();
                async move { s.forever::<Verdict>().await }
            })
        }),
        ("before_turn", |s| {
            Hooks::new().before_turn(move |_| {
                let s = s.clone();
                async move { s.forever::<Verdict>().await }
            })
        }),
        ("before_tool", |s| {
            Hooks::new().before_tool(move |_| {
                let s = s.clone();
                async move { s.forever::<Verdict>().await }
            })
        }),
        ("after_tool", |s| {
            Hooks::new().after_tool(move |_| {
                let s = s.clone();
                async move { s.forever::<agent_core::run::ToolChange>().await }
            })
        }),
    ];
    for (name, make) in hooks {
        let stuck = Stuck::default();
        check_child(name, make(stuck.clone()), saying(), model(), &stuck).await;
    }

    let stuck = Stuck::default();
    let s = stuck.clone();
    let hanging = ScriptedProvider::responding(move |_| {
        s.0.notify_one();
        ScriptedReply::new().and_hang()
    });
    check_child("a model", Hooks::new(), saying(), hanging, &stuck).await;
}

/// REQ-201. The judge of an exploration hangs: the abort ends it, and the agent is usable.
#[tokio::test(start_paused = true)]
async fn an_abort_ends_an_exploration_whose_judge_is_pending() {
    let stuck = Stuck::default();
    let s = stuck.clone();
    let hanging = ScriptedProvider::responding(move |_| {
        s.0.notify_one();
        ScriptedReply::new().and_hang()
    });
    let judge = LlmJudgeEvaluation::new(AgentLoopConfig::system(Arc::new(hanging), ModelConfig::default()));
    let branch = ScriptedProvider::responding(|_| "yes".into());
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(branch);
    let specs = ["a", "b"].map(BranchSpec::asking);
    let (tx, events) = event_channel();
    let abort = async {
        stuck.0.notified().await;
        agent.abort();
        tokio::time::Instant::now()
    };
    let (result, aborted) = tokio::join!(agent.explore_and_adopt(specs, judge, tx), abort);
    assert!(aborted.elapsed() <= GRACE + SOON, "{:?}", aborted.elapsed());
    assert!(result.is_err());
    let ends = events.collect().await.iter().filter(|e| matches!(e, AgentEvent::AgentEnd(_))).count();
    assert_eq!(ends, 3, "two branches and the judge");
    let reset = tokio::time::timeout(GRACE + SOON, agent.reset()).await;
    assert!(reset.is_ok(), "reset does not return");
    assert_eq!(agent.chat("And now?").await.unwrap(), "yes");
}
