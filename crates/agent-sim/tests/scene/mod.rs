//! Agents of the simulations: each run draws its settings from the seed.

mod store;
mod sub_agent;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent_core::compat::SeedSetters as _;
use agent_core::evaluation::LlmJudgeEvaluation;
use agent_core::run::QueueMode;
use agent_core::testing::ScriptedTool;
use agent_core::{
    AgentError, AgentHandle, AgentLoopConfig, AgentTool, BasicAgent, BranchSpec, Budget, BudgetLimits,
    ContextConfig, CostConfig, DeferredHandle, Effects, EventSender, ExecutionLimits, Hooks, ModelConfig,
    RetryConfig, Route, SteeringPolicy, ToolExecutionStrategy, ToolResult, Verdict,
};
use agent_sim::{Sim, World};
use serde_json::{Value, json};

/// What a run draws once, for all its processes.
#[derive(Default)]
struct Settings(OnceLock<[u64; 12]>);

impl Settings {
    fn of(world: &World) -> [u64; 12] {
        let settings = world.outside::<Self>();
        *settings.0.get_or_init(|| std::array::from_fn(|_| world.draw(1_000)))
    }
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"order": {"type": "integer", "minimum": 1, "maximum": 5}, "note": {"type": "string"}},
        "required": ["order"],
    })
}

fn tools() -> Vec<Arc<dyn AgentTool>> {
    let shows = ScriptedTool::new("shows", |_, ctx| async move {
        ctx.on_progress("half");
        tokio::task::yield_now().await;
        ctx.on_update(ToolResult::text("half"));
        Ok("whole".into())
    });
    let later = ScriptedTool::new("later", |_, ctx| async move {
        let handle = DeferredHandle::from(format!("job-{}", ctx.tool_call_id));
        Ok(ToolResult::deferred(handle))
    });
    let list = [
        ScriptedTool::saying("read", "line\n".repeat(20)).with_schema(schema()),
        ScriptedTool::saying("save", "saved").with_schema(schema()).with_effects(Effects::Idempotent),
        ScriptedTool::saying("charge", "charged").with_schema(schema()).with_effects(Effects::Once),
        ScriptedTool::saying("deploy", "live")
            .with_schema(schema())
            .asking("May it?")
            .with_effects(Effects::Once),
        ScriptedTool::saying("alone", "done").sequential().with_timeout(Duration::from_secs(20)),
        ScriptedTool::failing("fails", "no"),
        shows,
        later,
    ];
    list.into_iter().map(|tool| Arc::new(tool) as Arc<dyn AgentTool>).collect()
}

/// Two hooks of each kind, which note what they see. The first makes the arguments that the second expects.
fn hooks(world: &World) -> Hooks {
    let (first, second, reviewed) = (world.clone(), world.clone(), world.clone());
    let (turns, ends, updates) = (world.clone(), world.clone(), world.clone());
    Hooks::new()
        .before_tool(move |call| {
            let world = first.clone();
            async move {
                world.note("before 1", call.call.id.as_str());
                match call.call.name.as_str() {
                    "save" => Verdict::AllowWith(json!({"order": 1, "note": "checked"})),
                    "fails" => Verdict::Deny("not this one".into()),
                    "charge" if call.arguments["order"] == 5 => Verdict::Ask("So much?".into()),
                    _ => Verdict::Allow,
                }
            }
        })
        .before_tool(move |call| {
            let world = second.clone();
            async move {
                world.note("before 2", call.call.id.as_str());
                if call.call.name == "save" && call.arguments["note"] != "checked" {
                    world.note("wrong", "the second hook did not see the arguments of the first");
                }
                Verdict::Allow
            }
        })
        .after_tool(move |ended| {
            reviewed.note("after", ended.end.tool_call_id.as_str());
            async move { agent_core::run::ToolChange::none() }
        })
        .before_turn(move |turn| {
            turns.note("turn", turn.index);
            async move { true }
        })
        .before_tool_update(move |_| {
            updates.note("update", true);
            async move { true }
        })
        .after_loop(move |end| ends.note("end", end.ended.name()))
}

/// An agent with settings of every kind.
pub(crate) fn agent(world: &World) -> BasicAgent {
    let drawn = Settings::of(world);
    let pick = |n: usize, bound: u64| drawn[n] % bound;
    let context = ContextConfig::default()
        .with_max_context_tokens(300 + drawn[0])
        .with_system_prompt_tokens(0)
        .with_keep_recent(2);
    let strategy = match pick(1, 3) {
        0 => ToolExecutionStrategy::Parallel,
        1 => ToolExecutionStrategy::Sequential,
        _ => ToolExecutionStrategy::Batched { size: 2 },
    };
    let modes = [QueueMode::OneAtATime, QueueMode::All];
    let mut agent = BasicAgent::new(ModelConfig::default())
        .with_tools(tools())
        .with_hooks(if pick(2, 3) > 0 { hooks(world) } else { Hooks::new() })
        .with_context_config((pick(3, 4) == 0).then_some(context))
        .with_tool_execution(strategy)
        .with_max_concurrent_tools(1 + usize::try_from(pick(4, 3)).unwrap())
        .with_steering_policy(if pick(5, 2) == 0 {
            SteeringPolicy::SkipRemaining
        } else {
            SteeringPolicy::AfterTurn
        })
        .with_steering_mode(modes[usize::try_from(pick(6, 2)).unwrap()])
        .with_follow_up_mode(modes[usize::try_from(pick(7, 2)).unwrap()])
        .with_retry_config(RetryConfig::default().with_max_retries(u32::try_from(pick(8, 3)).unwrap()))
        .with_limits(
            ExecutionLimits::default()
                .with_max_turns(2 + u32::try_from(pick(9, 7)).unwrap())
                .with_max_total_tokens(1_000 + drawn[9]),
        );
    if pick(10, 3) == 0 {
        let limits = BudgetLimits::none().with_tokens(2_000 + 20 * drawn[10]);
        let budget = Budget::named("run", limits);
        let budget = if pick(11, 2) == 0 { budget.pausing() } else { budget };
        let prices = CostConfig::per_million(3_000_000, 15_000_000, 300_000, 0);
        agent = agent.with_budget(budget).configure(|config| {
            let mut model = ModelConfig::clone(&config.model);
            model.cost = prices;
            config.model = model.into();
        });
    }
    if pick(11, 5) == 0 {
        agent = agent.with_route(Route::new(ModelConfig::ollama("spare")).with_max_retries(1));
    }
    agent
}

/// The simulation of this agent.
pub(crate) fn sim() -> Sim {
    with_rules(Sim::new(agent)).eventually("an end of every run", |log| {
        let starts =
            log.events().filter(|event| matches!(event, agent_core::AgentEvent::AgentStart(_))).count();
        let ends = log.events().filter(|event| matches!(event, agent_core::AgentEvent::AgentEnd(_))).count();
        starts == ends
    })
}

/// Adds invariants about the hooks of the agent.
fn with_rules(sim: Sim) -> Sim {
    sim.never("a hook that sees other arguments than the one before it left", |log| {
        log.notes("wrong").next().is_some()
    })
    .never("a deployment without approval", |log| log.executions_of("deploy").any(|call| !log.approved(call)))
    .at_most_once("a charge for each call", |call| {
        (call.tool == "charge").then(|| call.idempotency_key.clone())
    })
    .never("an execution of a call that a hook denies", |log| {
        log.notes("before 1").next().is_some() && log.executions_of("fails").next().is_some()
    })
    .never("a save whose arguments the hook did not change", |log| {
        log.notes("before 1").next().is_some()
            && log
                .executions_of("save")
                .any(|call| call.arguments["note"] != "checked" && !log.approved(call))
    })
}

/// The same agent with sub-agents, recorded to a store that commits groups of records.
pub(crate) fn stored() -> Sim {
    let build = |world: &World| agent(world).with_tool(sub_agent::Helper::new());
    with_rules(Sim::new(build)).store(store::CommitStore::new)
}

/// A program that explores branches, lets a judge select one, and continues from it. After a kill it continues without branches.
pub(crate) fn branches() -> Sim {
    stored().program(|world, agent, prompt| async move {
        match world.process() {
            0 => explore(agent, prompt).await,
            _ => agent.chat(prompt).await.map(drop),
        }
    })
}

/// As [`branches`], and after a kill it explores them again.
pub(crate) fn resumed_branches() -> Sim {
    stored().program(|_, agent, prompt| explore(agent, prompt))
}

async fn explore(agent: AgentHandle, prompt: String) -> Result<(), AgentError> {
    let specs = ["Briefly", "At length"].map(|how| BranchSpec::asking(format!("{prompt} {how}.")));
    let judge = LlmJudgeEvaluation::new(AgentLoopConfig::clone(&agent.config()));
    agent.explore_and_adopt(specs, judge, EventSender::none()).await.map(drop)
}
