//! The types and the agent loop of Looptree.
//!
//! An agent calls a language model in a loop: it sends the conversation, executes the tool calls in the reply, and
//! repeats until a reply contains no tool calls. This crate implements the loop as a pure step function ([`run`]), an
//! async driver that performs its steps ([`drive`]), and the agent around both ([`agent`]). It performs no I/O: models
//! are called through a [`StreamProvider`], and time, tasks and random ids come from an [`Environment`].
//!
//! # Owner and handle
//!
//! [`BasicAgent`] owns the settings of an agent: the model, the tools, the system prompt and the hooks. It is not
//! `Clone`, and its setters take effect with the next run. [`BasicAgent::handle`] returns an [`AgentHandle`], a cheap
//! clone of which can start, steer, observe and abort runs from any thread.
//!
//! # How a run ends
//!
//! Every run ends as a [`RunEnd`]: completed with a reply, suspended with questions, stopped by a limit or a hook,
//! aborted by the caller, or failed. [`EventReceiver::end`] returns it, and the error of [`AgentHandle::chat`] contains
//! it. The typed events of a run ([`AgentEvent`]) are sufficient to rebuild its messages.
//!
//! # Hooks add up
//!
//! [`BasicAgent::with_hooks`] adds to the hooks that the agent already has, and the hooks of one point run in the order
//! in which they were added. If several `before_tool` hooks decide about a call, any denial denies it. See [`hooks`].
//!
//! # Modules
//!
//! The modules build on each other. Read them in this order: [`message`], [`history`], [`tool`], [`model`],
//! [`provider`], [`event`], [`run`], [`hooks`], [`drive`], [`context`], [`budget`], [`parallel`], [`evaluation`],
//! [`agent`], and `testing` for tests. [`compat`] has older names for some methods and types.
//!
//! # Features
//!
//! | name | purpose | default |
//! |---|---|---|
//! | `system` | `SystemEnvironment`: time, tasks and random ids from tokio and the operating system | yes |
//! | `testing` | a strict scripted provider, a manual clock, and assertions on events | no |

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod agent;
pub mod answer;
pub mod budget;
pub mod compat;
pub mod context;
pub mod drive;
pub mod environment;
pub mod evaluation;
pub mod event;
pub mod fold;
pub mod history;
pub mod hooks;
pub mod identity;
pub mod journal;
pub mod limits;
pub mod message;
pub mod model;
pub mod parallel;
pub mod prefix;
pub mod provider;
pub mod retry;
pub mod route;
pub mod run;
mod shared;
mod tagged;
#[cfg(feature = "testing")]
pub mod testing;
pub mod tool;
pub mod trace;
mod value_depth;
mod wire;

#[doc(inline)]
pub use agent::{
    AgentError, AgentHandle, AgentSnapshot, AgentState, BasicAgent, BranchSpec, ChatToken, Exploration,
    ExploredBranch, IntoPrompt, Request, SNAPSHOT_VERSION, Subscription, TypedRequest, TypedRun, WeakAgent,
};
#[doc(inline)]
pub use answer::{ANSWER_RETRIES, AnswerError, AnswerFault, AnswerForm};
#[doc(inline)]
pub use budget::{
    AccountState, Ask, AtLimit, Budget, BudgetError, BudgetLimit, BudgetLimits, BudgetRefusal,
    BudgetSnapshot, LEAST_OUTPUT, MeteredProvider, Money, MoneyError, Reservation, Spending,
};
#[doc(inline)]
pub use context::{
    CompactionChange, CompactionContext, CompactionError, CompactionOutcome, CompactionStrategy,
    ContextConfig, ContextTracker, DefaultCompaction, HeuristicTokenCounter, SyncCompaction, TokenCounter,
    compact_history, compact_history_within, compact_messages, content_tokens, estimate_tokens,
    message_tokens, splices_between,
};
#[doc(inline)]
pub use drive::{
    AgentContext, AgentLoopConfig, AgentLoopResult, AgentLoopStream, EventReceiver, EventSender, LoopError,
    Services, agent_loop, agent_loop_answer, agent_loop_continue, agent_loop_stream, event_channel,
    merging_channel,
};
#[cfg(feature = "system")]
#[doc(inline)]
pub use environment::SystemEnvironment;
#[doc(inline)]
pub use environment::{BoxFuture, Environment, NoRuntime, TaskHandle};
#[doc(inline)]
pub use evaluation::{
    DEFAULT_JUDGE_PROMPT, Evaluated, Evaluation, EvaluationDecision, EvaluationError, EvaluationStrategy,
    LlmJudgeEvaluation, MostTokensEvaluation, OnlyBranchEvaluation, PickFirstEvaluation,
    TokenEfficientEvaluation,
};
#[doc(inline)]
pub use event::{
    AgentEnd, AgentEvent, AgentStart, Answer, BudgetEvent, BudgetNote, CompactionEnded, CompactionReason,
    Ended, LoopConfigSnapshot, ParallelLoopEnd, ParallelLoopStart, Question, RetryNote, RouteChange, RunEnd,
    RunFailure, RunReply, StopCause, StreamDelta, ToolExecutionEnd,
};
#[doc(inline)]
pub use history::{Entry, History, HistoryError, MessageRef, Repair, Splice, SpliceError, Unit, UnitKind};
#[doc(inline)]
pub use hooks::{Decision, FilterResult, HookError, Hooks, InputFilter, ToolPolicy, ToolRule, Verdict};
#[doc(inline)]
pub use identity::{
    AgentId, ContinuationKind, DeferredHandle, GroupMember, GroupRole, LoopId, QuestionId, SessionId,
    SessionOrigin, StepKey, Timestamp, ToolCallId, ToolName, TurnId, TurnTrigger,
};
#[doc(inline)]
pub use limits::{ExecutionLimits, ExecutionTracker, LimitReason};
#[doc(inline)]
pub use message::{
    AgentMessage, AssistantMessage, Citation, CitationSource, CitedPlace, CitedRange, Citing, Content, Cost,
    CostConfig, CostTier, DeferredCall, DeferredState, DocumentContent, ExtensionMessage, FileSource,
    ImageContent, LlmMessage, MAX_ARGUMENTS_SHOWN, MediaContent, Message, OpaqueContent, RangeUnit,
    SearchResultContent, StopReason, TextContent, ThinkingContent, ToolArguments, ToolCall,
    ToolResultMessage, Usage, UserMessage,
};
#[doc(inline)]
pub use model::{
    AnthropicAuth, ApiProtocol, CacheBreakpoints, CacheConfig, CacheDiagnostics, CacheStrategy, CacheTtl,
    ChatDialect, ModelConfig, ModelFact, ReasoningField, Redactor, ResponseFormat, Secret, TextEnd,
    ThinkingBudgets, ThinkingForm, ThinkingFormat, ThinkingLevel, ToolChoice,
};
#[doc(inline)]
pub use parallel::{
    Branch, BranchEnd, ParallelError, ParallelLoopOutcome, ParallelLoopResult, ParallelUsage,
    agent_loop_parallel,
};
#[doc(inline)]
pub use prefix::{CacheBreak, CacheBreakCause, CacheFigures};
#[doc(inline)]
pub use provider::{
    CacheMiss, Completion, ErrorContext, ErrorKind, ErrorRecord, EventSink, MessageSnapshot, ModelRequest,
    OnRequest, OnResponse, OwnedStreamEvent, ProviderError, Received, ReceivedPart, ReplyLog, RequestHook,
    RequestOptions, SentRequest, StreamEvent, StreamProvider, WireHooks, complete, stream_to,
};
#[doc(inline)]
pub use retry::RetryConfig;
pub use route::{Route, RouteName, RouteSetup};
pub use run::{LoopPolicy, QueueKind, QueueMode, SteeringPolicy, ToolChange, ToolQuestion};
pub use shared::Shared;
#[doc(inline)]
pub use tokio_util::sync::CancellationToken;
#[doc(inline)]
pub use tool::validate::{
    ArgumentError, ArgumentErrors, ArgumentValidator, MAX_ARGUMENT_ERRORS, SchemaValidator,
};
#[doc(inline)]
pub use tool::{
    AgentTool, DeferTools, Effects, TOOL_SEARCH, ToolCallers, ToolConcurrency, ToolContext, ToolDefinition,
    ToolDefinitions, ToolError, ToolExecutionStrategy, ToolLoading, ToolResult, ToolSearchForm, ToolSignal,
    ToolUpdates, Tools, found_tools,
};
#[doc(inline)]
pub use tool::{Tool, argument_schema, tool_fn};
pub use value_depth::{MAX_ARGUMENT_VALUES, MAX_VALUE_DEPTH};
#[doc(inline)]
pub use wire::{Encoded, WireCache, WireKey};
