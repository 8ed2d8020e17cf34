//! Hooks that run at fixed points of the loop.
//!
//! They run in this order: `before_loop`, `AgentStart`, input filters; for each turn `before_turn`, `TurnStart`,
//! `transform_context`, `convert_to_llm`, `api_key`, the model call; for each tool call `before_tool`,
//! `ToolExecutionStart`, (`before_tool_update`, `ToolExecutionUpdate`, `after_tool_update`) for each partial result,
//! `ToolExecutionEnd`, `after_tool`; then `on_error` after a failed reply, `TurnEnd`, `after_turn`; finally `AgentEnd`
//! and `after_loop`.
//!
//! Several hooks can be added for each point. They run in the order in which they were added, and adding one never
//! removes another. Hooks that can deny are async and return a [`Verdict`], a `bool`, or a `Result` of either. A hook
//! that fails or panics never ends the process: its failure becomes a denial, an error result, or the run's error.
//!
//! # Several `before_tool` hooks
//!
//! Every hook receives the arguments as the hooks before it left them. The first [`Verdict::Deny`] denies the call. If
//! no hook denies and at least one returns [`Verdict::Ask`], the run asks about the final arguments, after every
//! [`Verdict::AllowWith`]. An approval applies to exactly these arguments: the run stores them with the question, and
//! no hook runs again before the call is executed.
//!
//! ```
//! use agent_core::hooks::{Hooks, Verdict};
//! let hooks = Hooks::new()
//!     .before_turn(|turn| async move { turn.index < 20 })
//!     .before_tool(|call| async move {
//!         if call.call.name == "bash" { Verdict::Ask("Run this command?".into()) } else { Verdict::Allow }
//!     });
//! assert_eq!(hooks.tool.before.len(), 1);
//! ```

mod filter;
mod info;
pub mod policy;
mod verdict;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

pub use filter::{FilterResult, InputFilter};
pub use info::{LoopInfo, ToolCallInfo, ToolEnded, ToolUpdateInfo, TurnEnded, TurnInfo};
pub use policy::{Decision, ToolPolicy, ToolRule};
pub use verdict::{HookError, IntoToolChange, IntoVerdict, Verdict};

use crate::environment::BoxFuture;
use crate::event::AgentEnd;
use crate::history::History;
use crate::message::AgentMessage;
use crate::model::Secret;
use crate::run::ToolChange;
use crate::tool::Confinement;

/// An async hook.
type Async<A, R> = Arc<dyn Fn(A) -> BoxFuture<'static, R> + Send + Sync>;
/// A hook that observes and cannot change anything. A panic in it is logged and has no other effect.
pub type Observer<A> = Arc<dyn Fn(&A) + Send + Sync>;

/// A hook that can deny the action it is called for. It runs before the action and receives the action's arguments.
pub type Gate<A> = Async<A, Result<Verdict, HookError>>;
/// A hook that changes the conversation as the model sees it. The stored history does not change.
pub type Transform = Async<History, Result<History, HookError>>;
/// A hook that returns the API key for a provider's name. `None` falls back to the key in the model's configuration.
pub type KeySource = Async<String, Result<Option<Secret>, HookError>>;
/// A hook that can change the result of a tool call.
pub type ToolReview = Async<ToolEnded, Result<ToolChange, HookError>>;
/// A source of queued messages that the driver polls before each step.
pub type MessageSource = Arc<dyn Fn() -> Vec<AgentMessage> + Send + Sync>;

/// The hooks of an agent. All are optional; an agent without hooks allows everything and observes nothing.
///
/// The methods add hooks; the fields are lists in the order of execution.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Hooks {
    /// Hooks that run before and after the whole run.
    pub run: LoopHooks,
    /// Filters over the text of the prompts. They run before the prompts enter the conversation.
    pub input_filters: Vec<Arc<dyn InputFilter>>,
    /// Hooks that run at the start and the end of each turn.
    pub turn: TurnHooks,
    /// Hooks that run before each model call.
    pub context: ContextHooks,
    /// Hooks that run before, during and after each tool call.
    pub tool: ToolHooks,
    /// Sources of queued messages beside the agent's own queues.
    pub queues: QueueHooks,
}

/// Hooks that run before and after the whole run.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct LoopHooks {
    /// Run before `AgentStart`. Denying ends the run.
    pub before: Vec<Gate<LoopInfo>>,
    /// Run after `AgentEnd`, once for every run that emitted `AgentStart`.
    pub after: Vec<Observer<AgentEnd>>,
}

/// Hooks that run at the start and the end of each turn.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct TurnHooks {
    /// Run before `TurnStart`, after the limits have been checked. Denying ends the run.
    pub before: Vec<Gate<TurnInfo>>,
    /// Run after each `TurnEnd`, exactly once per turn, whether or not the turn succeeded.
    pub after: Vec<Observer<TurnEnded>>,
    /// Run after the `MessageEnd` of a reply that ended with an error. They receive the error's text.
    pub on_error: Vec<Observer<String>>,
}

/// Hooks that run before each model call.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ContextHooks {
    /// Prune, reorder or extend the conversation that is sent. Each receives the result of the one before.
    pub transform: Vec<Transform>,
    /// Turn notes into messages, after `transform`. Without one, notes are not sent.
    pub convert: Vec<Transform>,
    /// Return the API key. The first key wins.
    pub api_key: Vec<KeySource>,
}

/// Hooks that run before, during and after each tool call.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ToolHooks {
    /// Run before a call whose arguments fit the schema. Arguments from [`Verdict::AllowWith`] are not validated again.
    pub before: Vec<Gate<ToolCallInfo>>,
    /// The policies among the hooks of `before`, for tools that find files by themselves.
    pub(crate) policies: Vec<Arc<ToolPolicy>>,
    /// What confined the tools of the callers above, for a child loop of a child loop.
    pub(crate) confinements: Vec<Confinement>,
    /// Run after a call that was executed. Each receives the result as the hooks before it changed it.
    pub after: Vec<ToolReview>,
    /// Run before a partial result is emitted. Denying suppresses it.
    pub before_update: Vec<Gate<ToolUpdateInfo>>,
    /// Run after a partial result was emitted.
    pub after_update: Vec<Observer<ToolUpdateInfo>>,
}

/// Sources of queued messages beside the agent's own queues.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct QueueHooks {
    /// Return messages that enter before the next model call, as [`AgentHandle::steer`](crate::AgentHandle::steer).
    pub steering: Vec<MessageSource>,
    /// Return messages for a run that would otherwise end, as
    /// [`AgentHandle::follow_up`](crate::AgentHandle::follow_up).
    pub follow_up: Vec<MessageSource>,
}

impl Hooks {
    /// Returns an empty set of hooks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds all hooks of `other` after those that are already there.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.run.before.extend(other.run.before);
        self.run.after.extend(other.run.after);
        self.input_filters.extend(other.input_filters);
        self.turn.before.extend(other.turn.before);
        self.turn.after.extend(other.turn.after);
        self.turn.on_error.extend(other.turn.on_error);
        self.context.transform.extend(other.context.transform);
        self.context.convert.extend(other.context.convert);
        self.context.api_key.extend(other.context.api_key);
        self.tool.before.extend(other.tool.before);
        self.tool.policies.extend(other.tool.policies);
        self.tool.confinements.extend(other.tool.confinements);
        self.tool.after.extend(other.tool.after);
        self.tool.before_update.extend(other.tool.before_update);
        self.tool.after_update.extend(other.tool.after_update);
        self.queues.steering.extend(other.queues.steering);
        self.queues.follow_up.extend(other.queues.follow_up);
        self
    }

    /// Adds a hook that runs before `AgentStart`. Denying ends the run with `AgentEnd` alone.
    #[must_use]
    pub fn before_loop<F>(mut self, hook: impl Fn(LoopInfo) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output: IntoVerdict> + Send + 'static,
    {
        self.run.before.push(gate(hook));
        self
    }

    /// Adds an observer of `AgentEnd`. It runs once for every run that emitted `AgentStart`.
    #[must_use]
    pub fn after_loop(mut self, hook: impl Fn(&AgentEnd) + Send + Sync + 'static) -> Self {
        self.run.after.push(Arc::new(hook));
        self
    }

    /// Adds a filter over the text of the prompts.
    #[must_use]
    pub fn input_filter(mut self, filter: impl InputFilter + 'static) -> Self {
        self.input_filters.push(Arc::new(filter));
        self
    }

    /// Adds a hook that runs before each `TurnStart`. Denying ends the run.
    #[must_use]
    pub fn before_turn<F>(mut self, hook: impl Fn(TurnInfo) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output: IntoVerdict> + Send + 'static,
    {
        self.turn.before.push(gate(hook));
        self
    }

    /// Adds an observer of `TurnEnd`. It runs exactly once per turn, whether or not the turn succeeded.
    #[must_use]
    pub fn after_turn(mut self, hook: impl Fn(&TurnEnded) + Send + Sync + 'static) -> Self {
        self.turn.after.push(Arc::new(hook));
        self
    }

    /// Adds an observer of replies that ended with an error. It receives the error's text.
    #[must_use]
    pub fn on_error(mut self, hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.turn.on_error.push(Arc::new(move |text: &String| hook(text)));
        self
    }

    /// Adds a hook that changes the conversation as the model sees it. It runs before every model call.
    #[must_use]
    pub fn transform_context<F>(mut self, hook: impl Fn(History) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<History, HookError>> + Send + 'static,
    {
        self.context.transform.push(Arc::new(move |history| Box::pin(hook(history))));
        self
    }

    /// Adds a hook that turns notes into messages. It runs before every model call, after `transform_context`.
    #[must_use]
    pub fn convert_to_llm<F>(mut self, hook: impl Fn(History) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<History, HookError>> + Send + 'static,
    {
        self.context.convert.push(Arc::new(move |history| Box::pin(hook(history))));
        self
    }

    /// Adds a hook that returns the API key for a provider. It runs before every model call.
    #[must_use]
    pub fn api_key<F>(mut self, hook: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Option<Secret>, HookError>> + Send + 'static,
    {
        self.context.api_key.push(Arc::new(move |provider| Box::pin(hook(provider))));
        self
    }

    /// Adds a hook that runs before each tool call. See the [module documentation](self) for how several hooks combine.
    #[must_use]
    pub fn before_tool<F>(mut self, hook: impl Fn(ToolCallInfo) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output: IntoVerdict> + Send + 'static,
    {
        self.tool.before.push(gate(hook));
        self
    }

    /// Adds a hook that runs after each executed call. It can change the result message, but not the event.
    #[must_use]
    pub fn after_tool<F>(mut self, hook: impl Fn(ToolEnded) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output: IntoToolChange> + Send + 'static,
    {
        self.tool.after.push(Arc::new(move |end| {
            let answer = hook(end);
            Box::pin(async move { answer.await.into_tool_change() })
        }));
        self
    }

    /// Adds a hook that runs before a partial result is emitted. Denying suppresses the event.
    #[must_use]
    pub fn before_tool_update<F>(mut self, hook: impl Fn(ToolUpdateInfo) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output: IntoVerdict> + Send + 'static,
    {
        self.tool.before_update.push(gate(hook));
        self
    }

    /// Adds an observer of partial results.
    #[must_use]
    pub fn after_tool_update(mut self, hook: impl Fn(&ToolUpdateInfo) + Send + Sync + 'static) -> Self {
        self.tool.after_update.push(Arc::new(hook));
        self
    }

    /// Adds a source of steering messages. The driver polls it before each step.
    #[must_use]
    pub fn steering_messages(
        mut self,
        source: impl Fn() -> Vec<AgentMessage> + Send + Sync + 'static,
    ) -> Self {
        self.queues.steering.push(Arc::new(source));
        self
    }

    /// Adds a source of follow-up messages. The driver polls it before each step.
    #[must_use]
    pub fn follow_up_messages(
        mut self,
        source: impl Fn() -> Vec<AgentMessage> + Send + Sync + 'static,
    ) -> Self {
        self.queues.follow_up.push(Arc::new(source));
        self
    }
}

fn gate<A: Send + 'static, F>(hook: impl Fn(A) -> F + Send + Sync + 'static) -> Gate<A>
where
    F: Future<Output: IntoVerdict> + Send + 'static,
{
    Arc::new(move |argument| {
        let answer = hook(argument);
        Box::pin(async move { answer.await.into_verdict() })
    })
}

/// Lists the points that have hooks.
impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = [
            ("before_loop", self.run.before.is_empty()),
            ("after_loop", self.run.after.is_empty()),
            ("input_filters", self.input_filters.is_empty()),
            ("before_turn", self.turn.before.is_empty()),
            ("after_turn", self.turn.after.is_empty()),
            ("on_error", self.turn.on_error.is_empty()),
            ("transform_context", self.context.transform.is_empty()),
            ("convert_to_llm", self.context.convert.is_empty()),
            ("api_key", self.context.api_key.is_empty()),
            ("before_tool", self.tool.before.is_empty()),
            ("after_tool", self.tool.after.is_empty()),
            ("before_tool_update", self.tool.before_update.is_empty()),
            ("after_tool_update", self.tool.after_update.is_empty()),
            ("steering_messages", self.queues.steering.is_empty()),
            ("follow_up_messages", self.queues.follow_up.is_empty()),
        ];
        f.debug_set().entries(named.iter().filter(|(_, empty)| !*empty).map(|(name, _)| name)).finish()
    }
}

macro_rules! opaque_debug {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )*};
}

opaque_debug!(LoopHooks, TurnHooks, ContextHooks, ToolHooks, QueueHooks);
