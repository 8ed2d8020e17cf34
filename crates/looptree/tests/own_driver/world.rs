//! A world without concurrency, in which a row of numbers decides what the model, the hooks and the tools do.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use agent_core::context::{DefaultCompaction, SummarizingCompaction};
use agent_core::drive::Delegation;
use agent_core::environment::{BoxFuture, Environment, NoRuntime, TaskHandle};
use agent_core::run::ChildEnd;
use agent_core::testing::{ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::tool::ChildRun;
use agent_core::{
    AgentLoopConfig, AgentMessage, AgentTool, Budget, BudgetLimits, Content, ContextConfig, DeferredCall,
    Effects, ErrorKind, ExecutionLimits, FilterResult, HookError, Hooks, InputFilter, Message, ModelConfig,
    ModelRequest, RetryConfig, Route, SteeringPolicy, StopReason, Timestamp, ToolArguments, ToolContext,
    ToolError, ToolExecutionStrategy, ToolResult, Usage, Verdict,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// How often a task is polled before it is given up. A child loop needs several polls.
const MOST_POLLS: usize = 400;

/// Runs each task at once, on the calling thread; a task that waits is given up.
#[derive(Debug, Clone)]
pub(crate) struct Inline(ManualEnvironment);

impl Inline {
    pub(crate) fn new(clock: ManualEnvironment) -> Self {
        Self(clock)
    }
}

impl Environment for Inline {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(duration)
    }

    fn deadline(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.deadline(duration)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) -> Result<TaskHandle, NoRuntime> {
        let mut task = pin!(task);
        let mut cx = Context::from_waker(Waker::noop());
        let _ = (0..MOST_POLLS).any(|_| task.as_mut().poll(&mut cx).is_ready());
        Ok(TaskHandle::new(|| {}))
    }

    fn random_id(&self) -> String {
        self.0.random_id()
    }
}

/// A row of numbers from which everything that happens is drawn; when it is used up, the simplest thing happens.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    numbers: Vec<u16>,
    at: usize,
}

impl Row {
    pub(crate) fn new(numbers: Vec<u16>) -> Self {
        Self { numbers, at: 0 }
    }

    /// The number of draws so far.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        let drawn = self.numbers.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::from(drawn) % count
    }

    fn once_in(&mut self, rarity: usize) -> bool {
        self.below(rarity) == rarity - 1
    }
}

/// The row, and what the script has queued and not yet delivered.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) row: Arc<Mutex<Row>>,
    steering: Arc<Mutex<Vec<AgentMessage>>>,
    follow_up: Arc<Mutex<Vec<AgentMessage>>>,
    /// The deferred calls that have no result.
    deferred: Arc<Mutex<Vec<DeferredCall>>>,
    pub(crate) cancel: CancellationToken,
    shape: Shape,
}

/// What the runs of a world are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Any,
    /// Many turns in a small context, so that the conversation is compacted several times.
    Long,
}

impl World {
    pub(crate) fn new(numbers: Vec<u16>) -> Self {
        Self {
            row: Arc::new(Mutex::new(Row::new(numbers))),
            steering: Arc::default(),
            follow_up: Arc::default(),
            deferred: Arc::default(),
            cancel: CancellationToken::new(),
            shape: Shape::Any,
        }
    }

    /// A world whose runs are compacted several times, by a strategy that the row decides.
    pub(crate) fn long(numbers: Vec<u16>) -> Self {
        Self { shape: Shape::Long, ..Self::new(numbers) }
    }

    pub(crate) fn draw(&self, count: usize) -> usize {
        self.row.lock().unwrap().below(count)
    }

    /// Something that user code may do anywhere: queue a message, or abort the run.
    pub(crate) fn meddle(&self) {
        match self.draw(30) {
            1 => self.steering.lock().unwrap().push("wait".into()),
            2 => self.follow_up.lock().unwrap().push("and then".into()),
            3 if self.draw(3) == 2 => self.cancel.cancel(),
            4..=9 => self.complete(),
            _ => {}
        }
    }

    /// Queues the result of a deferred call.
    fn complete(&self) {
        if let Some(call) = self.deferred.lock().unwrap().pop() {
            let result = call.completed(vec![Content::text("at last")], false, json!(null));
            self.steering.lock().unwrap().push(Message::from(result).into());
        }
    }

    fn answer(&self, request: &ModelRequest) -> ScriptedReply {
        let summarizes = request.system_prompt.starts_with("You maintain the summary");
        match self.shape {
            Shape::Any => self.reply(),
            Shape::Long if summarizes => self.summary(),
            Shape::Long if self.draw(4) == 3 => self.reply(),
            Shape::Long => {
                let used = Usage::new(request.history.tokens(), 9, 0, 0);
                ScriptedReply::call("c0", "ok", json!({})).and_call("c1", "ok", json!({})).using(used)
            }
        }
    }

    /// What a model makes of the request for a summary, and what else may happen meanwhile.
    fn summary(&self) -> ScriptedReply {
        self.meddle();
        let reply = ScriptedReply::text("## Task\n- go").using(Usage::new(50, 7, 0, 0));
        match self.draw(12) {
            1 => reply.failing(ErrorKind::Network, "gone"),
            2 => reply.failing(ErrorKind::ContextOverflow, "prompt is too long"),
            3 => reply.and_panic("lost"),
            4 => reply.stopping(StopReason::Length),
            5 => reply.and_call("c0", "ok", ToolArguments::from_text("{}")),
            6 => ScriptedReply::text("words ".repeat(3_000)),
            7 => ScriptedReply::text(" "),
            8 => {
                self.cancel.cancel();
                reply
            }
            _ => reply,
        }
    }

    fn reply(&self) -> ScriptedReply {
        self.meddle();
        let c = &mut *self.row.lock().unwrap();
        let mut reply = ScriptedReply::new();
        if c.once_in(4) {
            reply = reply.and_thinking("hm", Some("sig"));
        }
        if c.once_in(2) {
            reply = reply.and_text("some words").in_pieces_of(1 + c.below(6));
        }
        for n in 0..c.below(4) {
            let tools =
                ["ok", "fails", "panics", "hangs", "asks", "shows", "unknown", "later", "helper", "helper"];
            let tool = tools[c.below(tools.len())];
            let arguments = ["{}", "", "{\"n\":", "{\"n\":1}"][c.below(4)];
            reply = reply.and_call(&format!("c{n}"), tool, ToolArguments::from_text(arguments));
        }
        if c.once_in(6) {
            reply = reply.without_start();
        }
        if c.once_in(3) {
            reply = reply.using(Usage::new(10 + c.below(300) as u64, c.below(40) as u64, 0, 0));
        }
        match c.below(14) {
            1 => reply.failing(ErrorKind::Network, "gone"),
            2 => reply.failing(ErrorKind::ContextOverflow, "prompt is too long"),
            3 => reply.failing(ErrorKind::Api, "bad"),
            4 => reply.and_panic("lost"),
            5 => reply.stopping(StopReason::Length),
            6 => reply.failing(ErrorKind::RateLimited, "slow down").retry_after(Duration::from_secs(3)),
            _ => reply,
        }
    }

    pub(crate) fn tools(&self) -> Vec<Arc<dyn AgentTool>> {
        let mut tools = self.simple_tools();
        tools.push(Arc::new(Helper(self.clone())));
        tools
    }

    fn simple_tools(&self) -> Vec<Arc<dyn AgentTool>> {
        let (world, deferring) = (self.clone(), self.clone());
        let list = [
            ScriptedTool::new("ok", move |_, _| {
                world.meddle();
                async { Ok(ToolResult::text("line\n".repeat(20))) }
            }),
            ScriptedTool::failing("fails", "no"),
            ScriptedTool::new("panics", |_, _| async { panic!("lost") }),
            ScriptedTool::new("hangs", |_, _| std::future::pending()).with_timeout(Duration::from_secs(5)),
            ScriptedTool::saying("asks", "sent").asking("May it?").with_effects(Effects::Once),
            ScriptedTool::new("shows", |_, ctx| async move {
                ctx.on_progress("half");
                ctx.on_update(ToolResult::text("half"));
                Ok("whole".into())
            }),
            ScriptedTool::new("later", move |_, ctx| {
                let call = DeferredCall::new(ctx.tool_call_id, ctx.tool_name, "job");
                // A child has ended when its results arrive.
                if !ctx.loop_id.as_str().contains(".sub.") {
                    deferring.deferred.lock().unwrap().push(call);
                }
                async { Ok(ToolResult::deferred("job")) }
            }),
        ];
        list.into_iter().map(|tool| Arc::new(tool) as Arc<dyn AgentTool>).collect()
    }

    fn hooks(&self) -> Hooks {
        let (tool, turn, update, after, key) =
            (self.clone(), self.clone(), self.clone(), self.clone(), self.clone());
        Hooks::new()
            .before_tool(move |_| {
                tool.meddle();
                let verdict = match tool.draw(10) {
                    9 => Verdict::Deny("no".into()),
                    8 => Verdict::Ask("May it?".into()),
                    7 => Verdict::AllowWith(json!({"n": 2})),
                    6 => panic!("lost"),
                    _ => Verdict::Allow,
                };
                async move { verdict }
            })
            .before_turn(move |_| {
                turn.meddle();
                let go = turn.draw(12) != 11;
                async move { go }
            })
            .before_tool_update(move |_| {
                let go = update.draw(3) != 2;
                async move { go }
            })
            .after_tool(move |_| {
                after.meddle();
                let failed = after.draw(8) == 7;
                async move {
                    if failed {
                        Err(HookError::new("no review"))
                    } else {
                        Ok(agent_core::run::ToolChange::none())
                    }
                }
            })
            .after_turn({
                let world = self.clone();
                move |_| world.meddle()
            })
            .transform_context(move |history| {
                let failed = key.draw(20) == 19;
                async move { if failed { Err(HookError::new("no context")) } else { Ok(history) } }
            })
    }

    /// A configuration that is drawn from the row.
    pub(crate) fn config(&self) -> AgentLoopConfig {
        let world = self.clone();
        let model = Arc::new(ScriptedProvider::responding(move |request| world.answer(request)));
        let environment = Arc::new(Inline::new(ManualEnvironment::skipping(1_000)));
        let mut config = AgentLoopConfig::new(model, ModelConfig::default(), environment);
        if self.draw(2) == 1 {
            config.hooks = self.hooks().into();
        }
        let (steering, follow_up) = (Arc::clone(&self.steering), Arc::clone(&self.follow_up));
        config.hooks.queues.steering.push(Arc::new(move || std::mem::take(&mut *steering.lock().unwrap())));
        config.hooks.queues.follow_up.push(Arc::new(move || std::mem::take(&mut *follow_up.lock().unwrap())));
        if self.draw(4) == 3 {
            config.hooks.input_filters.push(Arc::new(Warns));
        }
        let policy = &mut config.policy;
        policy.tool_execution = match self.draw(3) {
            0 => ToolExecutionStrategy::Parallel,
            1 => ToolExecutionStrategy::Sequential,
            _ => ToolExecutionStrategy::Batched { size: 2 },
        };
        policy.steering_policy = [SteeringPolicy::SkipRemaining, SteeringPolicy::AfterTurn][self.draw(2)];
        policy.max_concurrent_tools = Some(1 + self.draw(3));
        policy.retry = RetryConfig::default().with_max_retries(self.draw(3) as u32);
        policy.limits = Some(ExecutionLimits::default().with_max_turns(1 + self.draw(10) as u32));
        policy.context = (self.draw(2) == 1).then(|| {
            ContextConfig::default()
                .with_max_context_tokens(150 + self.draw(2_000) as u64)
                .with_system_prompt_tokens(0)
                .with_keep_recent(2)
        });
        if self.draw(3) == 2 {
            let on = [ErrorKind::Network, ErrorKind::RateLimited];
            config.routes.push(Route::new(ModelConfig::ollama("spare")).on(on).with_max_retries(1));
        }
        if self.draw(3) == 2 {
            let limits = BudgetLimits::none().with_tokens(500 + self.draw(6_000) as u64);
            config.services.budget = Some(Budget::named("run", limits.with_tool_calls(self.draw(12) as u64)));
        }
        if self.shape == Shape::Long {
            let policy = &mut config.policy;
            policy.limits = Some(ExecutionLimits::default().with_max_turns(40));
            policy.context = Some(
                ContextConfig::default()
                    .with_max_context_tokens(500 + self.draw(500) as u64)
                    .with_system_prompt_tokens(0)
                    .with_keep_recent(2),
            );
            config.services.compaction = match self.draw(4) {
                0 => Some(Arc::new(DefaultCompaction)),
                1 => None,
                _ => Some(Arc::new(SummarizingCompaction::new().with_max_summary_tokens(80))),
            };
            config.services.budget = Some(Budget::named("run", BudgetLimits::none().with_tokens(1_000_000)));
        }
        config
    }
}

struct Warns;

#[async_trait::async_trait]
impl InputFilter for Warns {
    async fn filter(&self, _: &str) -> FilterResult {
        FilterResult::Warn("careful".into())
    }
}

/// A tool that delegates its calls to a child with the same model and tools.
#[derive(Clone)]
struct Helper(World);

#[async_trait::async_trait]
impl AgentTool for Helper {
    fn name(&self) -> &str {
        "helper"
    }

    fn description(&self) -> &str {
        "Does a task."
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object"})
    }

    async fn execute(&self, _: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        panic!("a call that is delegated is not executed")
    }

    fn delegate(&self, _: &Value) -> Option<ChildRun> {
        let child = ChildRun::new(vec!["a task".into()], self.clone());
        Some(child.with_system_prompt("Do it.").with_tools(self.0.simple_tools()))
    }
}

#[async_trait::async_trait]
impl Delegation for Helper {
    fn configuration(&self, ctx: &ToolContext) -> Result<AgentLoopConfig, ToolError> {
        let world = self.0.clone();
        let model = Arc::new(ScriptedProvider::responding(move |_| world.reply()));
        let mut config = AgentLoopConfig::new(model, ModelConfig::default(), ctx.environment.clone());
        config.policy.limits = Some(ExecutionLimits::default().with_max_turns(2));
        config.policy.max_concurrent_tools = Some(1);
        config.policy.retry = RetryConfig::none();
        config.services.budget = ctx.budget().cloned();
        Ok(config)
    }

    async fn result(&self, end: &ChildEnd) -> Result<ToolResult, ToolError> {
        let text = format!("{} after {} turns", end.ended.name(), end.turns);
        let failed = end.ended.name() == "error";
        let result = if failed { ToolResult::error(text) } else { ToolResult::text(text) };
        Ok(result.with_child_loop(end.loop_id.clone()).with_usage(end.usage))
    }
}
