//! Everything that a caller may hang into the loop, in firing order (REQ-182..185, D4, D37).
//!
//! `before_loop` → AgentStart → input filters … `before_turn` → TurnStart … `transform_context` → `convert_to_llm` →
//! `api_key` → the model … `before_tool` → ToolExecutionStart … (`before_tool_update` → ToolExecutionUpdate →
//! `after_tool_update`)* … ToolExecutionEnd → `after_tool` … `on_error` … TurnEnd → `after_turn` … AgentEnd → `after_loop`.
//!
//! Hooks that can veto are async and answer with a [`Verdict`], a `bool`, or a `Result` of either. A hook that fails or
//! panics never ends the process: its failure becomes a refusal, an error result, or the run's error.
//!
//! ```
//! use agent_core::hooks::{Hooks, Verdict};
//! let hooks = Hooks::new()
//!     .before_turn(|turn| async move { turn.index < 20 })
//!     .before_tool(|call| async move {
//!         if call.call.name == "bash" { Verdict::Ask("Run this command?".into()) } else { Verdict::Allow }
//!     });
//! assert!(hooks.turn.before.is_some());
//! ```

mod filter;
pub mod policy;
mod told;
mod verdict;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

pub use filter::{FilterResult, InputFilter};
pub use policy::{Decision, ToolPolicy, ToolRule};
pub use told::{LoopInfo, ToolCallInfo, ToolEnded, ToolUpdateInfo, TurnEnded, TurnInfo};
pub use verdict::{HookError, IntoToolChange, IntoVerdict, Verdict};

use crate::environment::BoxFuture;
use crate::event::AgentEnd;
use crate::history::History;
use crate::message::AgentMessage;
use crate::model::Secret;
use crate::run::ToolChange;

type Async<A, R> = Arc<dyn Fn(A) -> BoxFuture<'static, R> + Send + Sync>;
type Observer<A> = Arc<dyn Fn(&A) + Send + Sync>;

/// A hook that may stop what it is asked about.
pub type Gate<A> = Async<A, Result<Verdict, HookError>>;
/// A hook that changes what the model is shown; the stored history stays as it is.
pub type Transform = Async<History, Result<History, HookError>>;
/// A hook that finds the key for a provider, before every call; `None` leaves the model's own.
pub type KeySource = Async<String, Result<Option<Secret>, HookError>>;
/// A hook that may change what a tool gave.
pub type ToolReview = Async<ToolEnded, Result<ToolChange, HookError>>;
/// A source of messages that is asked before each step.
pub type MessageSource = Arc<dyn Fn() -> Vec<AgentMessage> + Send + Sync>;

/// All hooks. Each is absent by default.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Hooks {
    /// Around the whole run.
    pub run: LoopHooks,
    /// Over the prompts, before they enter (REQ-068).
    pub input_filters: Vec<Arc<dyn InputFilter>>,
    /// Around each turn.
    pub turn: TurnHooks,
    /// Before each call of the model.
    pub context: ContextHooks,
    /// Around each tool call.
    pub tool: ToolHooks,
    /// Where else messages come from (REQ-029).
    pub queues: QueueHooks,
}

/// Around the whole run.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct LoopHooks {
    /// Before `AgentStart`.
    pub before: Option<Gate<LoopInfo>>,
    /// After `AgentEnd`.
    pub after: Option<Observer<AgentEnd>>,
}

/// Around each turn.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct TurnHooks {
    /// Before `TurnStart`; limits have been checked.
    pub before: Option<Gate<TurnInfo>>,
    /// After `TurnEnd`, once for each turn, on every path (REQ-092).
    pub after: Option<Observer<TurnEnded>>,
    /// After the `MessageEnd` of a reply that ended in an error (REQ-093).
    pub on_error: Option<Observer<String>>,
}

/// Before each call of the model.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ContextHooks {
    /// Prunes, reorders or adds (REQ-145).
    pub transform: Option<Transform>,
    /// Turns notes into messages; without it notes are not shown (REQ-044, REQ-145).
    pub convert: Option<Transform>,
    /// Finds the key (B-022).
    pub api_key: Option<KeySource>,
}

/// Around each tool call.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ToolHooks {
    /// Before the call; its arguments fit the schema. What [`Verdict::AllowWith`] gives is not checked again (B-093).
    pub before: Option<Gate<ToolCallInfo>>,
    /// After a call that ran.
    pub after: Option<ToolReview>,
    /// Before a partial result is shown; a denial keeps it to itself (REQ-184).
    pub before_update: Option<Gate<ToolUpdateInfo>>,
    /// After a partial result was shown.
    pub after_update: Option<Observer<ToolUpdateInfo>>,
}

/// Where else messages come from.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct QueueHooks {
    /// Steering messages.
    pub steering: Option<MessageSource>,
    /// Follow-ups.
    pub follow_up: Option<MessageSource>,
}

impl Hooks {
    /// No hooks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asked before `AgentStart`; a denial ends the run with `AgentEnd` alone.
    #[must_use]
    pub fn before_loop<F, R>(mut self, hook: impl Fn(LoopInfo) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = R> + Send + 'static,
        R: IntoVerdict,
    {
        self.run.before = Some(gate(hook));
        self
    }

    /// Told after `AgentEnd`, once, whenever there was an `AgentStart`.
    #[must_use]
    pub fn after_loop(mut self, hook: impl Fn(&AgentEnd) + Send + Sync + 'static) -> Self {
        self.run.after = Some(Arc::new(hook));
        self
    }

    /// One more filter over the prompts.
    #[must_use]
    pub fn input_filter(mut self, filter: impl InputFilter + 'static) -> Self {
        self.input_filters.push(Arc::new(filter));
        self
    }

    /// Asked before each `TurnStart`; a denial ends the run.
    #[must_use]
    pub fn before_turn<F, R>(mut self, hook: impl Fn(TurnInfo) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = R> + Send + 'static,
        R: IntoVerdict,
    {
        self.turn.before = Some(gate(hook));
        self
    }

    /// Told after each `TurnEnd`.
    #[must_use]
    pub fn after_turn(mut self, hook: impl Fn(&TurnEnded) + Send + Sync + 'static) -> Self {
        self.turn.after = Some(Arc::new(hook));
        self
    }

    /// Told of a reply that ended in an error.
    #[must_use]
    pub fn on_error(mut self, hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.turn.on_error = Some(Arc::new(move |text: &String| hook(text)));
        self
    }

    /// Changes what the model is shown, before every call.
    #[must_use]
    pub fn transform_context<F>(mut self, hook: impl Fn(History) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<History, HookError>> + Send + 'static,
    {
        self.context.transform = Some(Arc::new(move |history| Box::pin(hook(history))));
        self
    }

    /// Turns notes into messages, before every call and after `transform_context`.
    #[must_use]
    pub fn convert_to_llm<F>(mut self, hook: impl Fn(History) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<History, HookError>> + Send + 'static,
    {
        self.context.convert = Some(Arc::new(move |history| Box::pin(hook(history))));
        self
    }

    /// Finds the key for a provider, before every call.
    #[must_use]
    pub fn api_key<F>(mut self, hook: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Option<Secret>, HookError>> + Send + 'static,
    {
        self.context.api_key = Some(Arc::new(move |provider| Box::pin(hook(provider))));
        self
    }

    /// Asked before each tool call.
    #[must_use]
    pub fn before_tool<F, R>(mut self, hook: impl Fn(ToolCallInfo) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = R> + Send + 'static,
        R: IntoVerdict,
    {
        self.tool.before = Some(gate(hook));
        self
    }

    /// Asked after each call that ran; what it gives changes the result message, not the event.
    #[must_use]
    pub fn after_tool<F, R>(mut self, hook: impl Fn(ToolEnded) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = R> + Send + 'static,
        R: IntoToolChange,
    {
        self.tool.after = Some(Arc::new(move |end| {
            let answer = hook(end);
            Box::pin(async move { answer.await.into_tool_change() })
        }));
        self
    }

    /// Asked before a partial result is shown.
    #[must_use]
    pub fn before_tool_update<F, R>(
        mut self,
        hook: impl Fn(ToolUpdateInfo) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = R> + Send + 'static,
        R: IntoVerdict,
    {
        self.tool.before_update = Some(gate(hook));
        self
    }

    /// Told after a partial result was shown.
    #[must_use]
    pub fn after_tool_update(mut self, hook: impl Fn(&ToolUpdateInfo) + Send + Sync + 'static) -> Self {
        self.tool.after_update = Some(Arc::new(hook));
        self
    }

    /// A source of steering messages, asked before each step.
    #[must_use]
    pub fn steering_messages(
        mut self,
        source: impl Fn() -> Vec<AgentMessage> + Send + Sync + 'static,
    ) -> Self {
        self.queues.steering = Some(Arc::new(source));
        self
    }

    /// A source of follow-ups, asked before each step.
    #[must_use]
    pub fn follow_up_messages(
        mut self,
        source: impl Fn() -> Vec<AgentMessage> + Send + Sync + 'static,
    ) -> Self {
        self.queues.follow_up = Some(Arc::new(source));
        self
    }
}

fn gate<A: Send + 'static, F, R>(hook: impl Fn(A) -> F + Send + Sync + 'static) -> Gate<A>
where
    F: Future<Output = R> + Send + 'static,
    R: IntoVerdict,
{
    Arc::new(move |argument| {
        let answer = hook(argument);
        Box::pin(async move { answer.await.into_verdict() })
    })
}

/// Says which hooks there are.
impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = [
            ("before_loop", self.run.before.is_some()),
            ("after_loop", self.run.after.is_some()),
            ("input_filters", !self.input_filters.is_empty()),
            ("before_turn", self.turn.before.is_some()),
            ("after_turn", self.turn.after.is_some()),
            ("on_error", self.turn.on_error.is_some()),
            ("transform_context", self.context.transform.is_some()),
            ("convert_to_llm", self.context.convert.is_some()),
            ("api_key", self.context.api_key.is_some()),
            ("before_tool", self.tool.before.is_some()),
            ("after_tool", self.tool.after.is_some()),
            ("before_tool_update", self.tool.before_update.is_some()),
            ("after_tool_update", self.tool.after_update.is_some()),
            ("steering_messages", self.queues.steering.is_some()),
            ("follow_up_messages", self.queues.follow_up.is_some()),
        ];
        f.debug_set().entries(named.iter().filter(|(_, there)| *there).map(|(name, _)| name)).finish()
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
