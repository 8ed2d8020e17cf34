//! Looptree runs a language model in a loop with tools, streams typed events as they happen, and records the tree of loops.
//!
//! ```no_run
//! use looptree::prelude::*;
//!
//! # async fn example(api_key: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let agent = looptree::agent(ModelConfig::anthropic("claude-sonnet-4-6", "Claude Sonnet", api_key))
//!     .with_system_prompt("You are a careful engineer.")
//!     .with_tools(Workspace::open(".")?.tools());
//! let mut events = agent.prompt("Why does the build fail?")?; // returns at once
//! while let Some(event) = events.recv().await {
//!     if let Some(text) = event.text_delta() {
//!         print!("{text}");
//!     }
//! }
//! if let Err(end) = events.end().await.into_reply() {
//!     eprintln!("{end}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! This crate re-exports nine others: the types and the loop from `looptree-core`, the providers from `looptree-providers`, the
//! tools from `looptree-tools`, recording from `looptree-session`, pages from `looptree-view`, simulations from `looptree-sim`,
//! telemetry from `looptree-otel`, durable sessions from `looptree-restate` and the HTTP service from `looptree-serve`. Each of
//! them can be used alone. The root contains the names
//! that most programs need, the modules contain everything, and [`prelude`] is for glob imports.
//!
//! # Features
//!
//! | name | content | default |
//! |---|---|---|
//! | `anthropic` | Anthropic Messages | yes |
//! | `openai-chat` | OpenAI Chat Completions, and compatible servers | yes |
//! | `ollama` | Ollama's native chat | yes |
//! | `google` | Google Gemini | no |
//! | `vertex` | Gemini and Claude on Vertex AI | no |
//! | `openai-responses` | OpenAI Responses, and compatible servers | no |
//! | `openai-responses-ws` | OpenAI Responses over WebSocket; enables `openai-responses` | no |
//! | `azure` | OpenAI Responses on Azure | no |
//! | `bedrock` | AWS Bedrock ConverseStream | no |
//! | `bedrock-config` | the credential chain of the AWS SDK | no |
//! | `remote` | models behind a server that has the API keys | no |
//! | `tools` | bash, read_file, write_file, edit_file, list_files, search | yes |
//! | `skills` | skills: folders of instructions with a `SKILL.md` | no |
//! | `mcp` | tools of MCP (Model Context Protocol) servers | no |
//! | `mcp-oauth` | OAuth login for MCP servers | no |
//! | `mcp-oauth-jwt` | OAuth login for MCP servers with a signed JWT | no |
//! | `openapi` | tools from OpenAPI descriptions of HTTP APIs | no |
//! | `web` | the tool `web_fetch`, which reads pages of the web | no |
//! | `session` | sessions in files, and cassettes | yes |
//! | `pi` | import and export of sessions in the format of pi | no |
//! | `view` | sessions as self-contained HTML pages | no |
//! | `sqlite` | sessions in one SQLite database with full-text search | no |
//! | `postgres` | sessions in a Postgres database, for several processes | no |
//! | `tls-rustls` | TLS with rustls | yes |
//! | `tls-native` | TLS of the operating system | no |
//! | `testing` | a strict scripted provider, a manual clock, event assertions | no |
//! | `sim` | simulation testing of agents | no |
//! | `otel` | traces and metrics by OpenTelemetry | no |
//! | `restate` | sessions on a Restate server, which survive their processes | no |
//! | `serve` | an HTTP service for agents, and a server of models | no |
//! | `full` | all features except `tls-native`, `sim`, `otel`, `restate` and `serve` | no |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "testing")]
#[doc(inline)]
pub use agent_core::testing;
#[doc(inline)]
pub use agent_core::{
    agent, answer, budget, compat, context, drive, environment, evaluation, event, fold, history, hooks,
    identity, journal, limits, message, model, parallel, prefix, provider, retry, route, run, tool, trace,
};
#[cfg(feature = "otel")]
#[doc(inline)]
pub use agent_otel as otel;
#[doc(inline)]
pub use agent_providers as providers;
#[cfg(feature = "restate")]
#[doc(inline)]
pub use agent_restate as restate;
#[cfg(feature = "serve")]
#[doc(inline)]
pub use agent_serve as serve;
#[cfg(feature = "session")]
#[doc(inline)]
pub use agent_session as session;
#[cfg(feature = "sim")]
#[doc(inline)]
pub use agent_sim as sim;
#[cfg(feature = "tools")]
#[doc(inline)]
pub use agent_tools as tools;
#[cfg(feature = "view")]
#[doc(inline)]
pub use agent_view as view;

#[doc(inline)]
pub use agent_core::{
    AgentError, AgentEvent, AgentHandle, AgentLoopConfig, AgentMessage, AgentState, AgentTool, Answer,
    AnswerForm, BasicAgent, BranchSpec, Budget, BudgetLimits, CancellationToken, Content, Effects, ErrorKind,
    EventReceiver, EventSender, ExecutionLimits, Hooks, ImageContent, Message, ModelConfig, ProviderError,
    Question, Route, RunEnd, RunFailure, RunReply, StopCause, StreamDelta, StreamProvider, ThinkingLevel,
    Timestamp, Tool, ToolContext, ToolError, ToolPolicy, ToolResult, ToolRule, Tools, Usage, Verdict,
    event_channel, tool_fn,
};
#[doc(inline)]
pub use agent_providers::{ProviderRegistry, agent};

/// The names that most programs need. None of them shadows a name of std.
///
/// Extension traits are imported without a name: their methods can be called, and nothing else is added.
pub mod prelude {
    pub use agent_core::{
        AgentError, AgentEvent, AgentHandle, AgentTool, Answer, BasicAgent, BranchSpec, Budget, BudgetLimits,
        Effects, EventReceiver, ExecutionLimits, Hooks, ModelConfig, Route, RunEnd, StopCause, StreamDelta,
        ThinkingLevel, Tool, ToolContext, ToolError, ToolResult, Usage, Verdict, tool_fn,
    };
    #[cfg(feature = "otel")]
    pub use agent_otel::WithTelemetry as _;
    #[cfg(feature = "session")]
    pub use agent_session::{
        JsonStore, OpenRuns as _, RestoreSession as _, SaveContext as _, SessionRecorder, SessionStore as _,
        TimeTravel as _,
    };
    #[cfg(feature = "mcp")]
    pub use agent_tools::mcp::WithMcp as _;
    #[cfg(feature = "openapi")]
    pub use agent_tools::openapi::WithOpenApi as _;
    #[cfg(feature = "skills")]
    pub use agent_tools::skills::WithSkills as _;
    #[cfg(feature = "tools")]
    pub use agent_tools::{CodingTools, Sandbox, Workspace, default_tools};
}

/// Compiles the programs that must be rejected, each with a twin that is accepted.
#[cfg(all(doctest, feature = "session", feature = "testing"))]
#[doc = include_str!("../tests/traps.md")]
struct Traps;

/// Runs the examples of the page about branches.
#[cfg(all(doctest, feature = "tools", feature = "session", feature = "testing"))]
#[doc = include_str!("../../../docs/concepts/branches.md")]
struct BranchesPage;

/// Compiles the examples of the README.
#[cfg(all(doctest, feature = "tools", feature = "session", feature = "anthropic"))]
#[doc = include_str!("../../../README.md")]
struct ReadmeExamples;

/// Runs the example of the page about cassettes.
#[cfg(all(doctest, feature = "testing", feature = "session", feature = "ollama"))]
#[doc = include_str!("../../../docs/concepts/replay.md")]
struct ReplayPage;

/// Compiles the program of the guide to a web service.
#[cfg(all(doctest, feature = "serve", feature = "anthropic"))]
#[doc = include_str!("../../../docs/guides/web-service.md")]
struct WebServiceGuide;

/// Compiles the programs of the page about skills.
#[cfg(all(doctest, feature = "skills", feature = "anthropic"))]
#[doc = include_str!("../../../docs/tools/skills.md")]
struct SkillsPage;

/// Compiles the programs of the page about MCP servers.
#[cfg(all(doctest, feature = "mcp", feature = "anthropic"))]
#[doc = include_str!("../../../docs/tools/mcp.md")]
struct McpPage;

/// Runs the examples of the page about budgets.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/concepts/budgets.md")]
#[doc = include_str!("../../../docs/concepts/context.md")]
struct BudgetsPage;

/// Runs the examples of the page about models.
#[cfg(all(doctest, feature = "anthropic"))]
#[doc = include_str!("../../../docs/concepts/models.md")]
struct ModelsPage;

/// Runs the examples of the page about prompt caches.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/concepts/cache.md")]
struct CachePage;

/// Runs the examples of the page about the loop.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/concepts/loop.md")]
struct LoopPage;

/// Compiles the examples of the pages about answers and the wire.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/concepts/answers.md")]
#[doc = include_str!("../../../docs/concepts/wire.md")]
struct AnswerAndWirePages;

/// Compiles the programs of the pages about tools.
#[cfg(all(doctest, feature = "tools", feature = "web"))]
#[doc = include_str!("../../../docs/tools/web-fetch.md")]
#[doc = include_str!("../../../docs/tools/ask-user.md")]
#[doc = include_str!("../../../docs/tools/plan.md")]
mod added_tool_pages {}

#[cfg(all(doctest, feature = "testing", feature = "openapi"))]
#[doc = include_str!("../../../docs/tools/openapi.md")]
#[doc = include_str!("../../../docs/tools/bash.md")]
#[doc = include_str!("../../../docs/tools.md")]
struct ToolPages;

/// Runs the example of the page about events.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/concepts/events.md")]
struct EventsPage;

/// Runs the example of the guide to a provider.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/own-provider.md")]
struct ProviderGuide;

/// Runs the example of the guide to a tool.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/own-tool.md")]
struct ToolGuide;

/// Runs the example of the guide to documents and citations.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/documents.md")]
struct DocumentsGuide;

/// Runs the examples of the guide to the tools of model vendors.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/server-tools.md")]
struct ServerToolsGuide;

/// Runs the example of the guide to deferred results.
#[cfg(all(doctest, feature = "testing", feature = "session"))]
#[doc = include_str!("../../../docs/guides/deferred.md")]
struct DeferredGuide;

/// Runs the examples of the guides to background work and to several agents.
#[cfg(all(doctest, unix, feature = "testing", feature = "tools", feature = "anthropic"))]
#[doc = include_str!("../../../docs/guides/background.md")]
#[doc = include_str!("../../../docs/guides/multi-agent.md")]
struct BackgroundAndAgentsGuides;

/// Runs the examples of the guide to deferred tools.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/many-tools.md")]
struct ManyToolsGuide;

/// Runs the example of the guide to a compaction strategy and a token counter.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/own-compaction.md")]
struct CompactionGuide;

/// Runs the example of the guide to an evaluation strategy.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/own-evaluation.md")]
struct EvaluationGuide;

/// Runs the example of the guide to a journal.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/own-journal.md")]
struct JournalGuide;

/// Runs the example of the guide to tracing.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/tracing.md")]
struct TracingGuide;

/// Compiles the examples of the guide to telemetry.
#[cfg(all(doctest, feature = "otel", feature = "anthropic", feature = "session", feature = "tools"))]
#[doc = include_str!("../../../docs/guides/telemetry.md")]
struct TelemetryGuide;

/// Runs the example of the guide to a driver.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/own-driver.md")]
struct DriverGuide;

/// Runs the example of the guide to an environment.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/own-environment.md")]
struct EnvironmentGuide;

/// Runs the examples of the guide to simulations.
#[cfg(all(doctest, feature = "sim"))]
#[doc = include_str!("../../../docs/guides/simulation.md")]
struct SimulationGuide;

/// Compiles the example of the guide to durable sessions.
#[cfg(all(doctest, feature = "restate", feature = "tools", feature = "anthropic"))]
#[doc = include_str!("../../../docs/guides/scale-out.md")]
struct ScaleOutGuide;

/// Compiles the example of the guide to sessions on Postgres.
#[cfg(all(doctest, feature = "testing", feature = "postgres"))]
#[doc = include_str!("../../../docs/guides/postgres.md")]
struct PostgresGuide;

/// Runs the examples of the pages about sessions, checkpoints and stores.
#[cfg(all(doctest, feature = "testing", feature = "sqlite"))]
#[doc = include_str!("../../../docs/concepts/sessions.md")]
#[doc = include_str!("../../../docs/concepts/checkpoints.md")]
#[doc = include_str!("../../../docs/guides/own-store.md")]
struct SessionPages;

/// Runs the example of the page about the viewer.
#[cfg(all(doctest, feature = "testing", feature = "view"))]
#[doc = include_str!("../../../docs/viewer.md")]
struct ViewerPage;

/// Compiles the example of the page about sub-agents.
#[cfg(all(doctest, feature = "tools", feature = "anthropic"))]
#[doc = include_str!("../../../docs/tools/sub-agent.md")]
struct SubAgentPage;

/// Runs the examples of the page about the first steps.
#[cfg(all(doctest, feature = "testing", feature = "tools"))]
#[doc = include_str!("../../../docs/getting-started.md")]
struct GettingStartedPage;

/// Compiles the programs of the tutorial.
#[cfg(all(doctest, feature = "tools", feature = "session"))]
#[doc = include_str!("../../../docs/tutorial.md")]
struct TutorialPage;

/// Runs the examples of the pages about retries, hooks and steering.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/concepts/retries.md")]
#[doc = include_str!("../../../docs/concepts/hooks.md")]
#[doc = include_str!("../../../docs/concepts/steering.md")]
struct RetryHookAndSteeringPages;

/// Runs the examples of the pages about approvals.
#[cfg(all(doctest, feature = "testing", feature = "tools", feature = "session"))]
#[doc = include_str!("../../../docs/concepts/approvals.md")]
#[doc = include_str!("../../../docs/guides/approvals.md")]
struct ApprovalPages;

/// Runs the examples of the guides to budgets and tests.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/budgets.md")]
#[doc = include_str!("../../../docs/guides/testing.md")]
struct BudgetAndTestGuides;

/// Runs the examples of the guides to sandboxes and local models.
#[cfg(all(doctest, feature = "tools"))]
#[doc = include_str!("../../../docs/guides/sandbox.md")]
#[doc = include_str!("../../../docs/guides/local-models.md")]
struct SandboxAndLocalModelGuides;

/// Runs the examples of the page about cut outputs.
#[cfg(all(doctest, feature = "mcp"))]
#[doc = include_str!("../../../docs/tools/read-output.md")]
struct ReadOutputPage;

/// Runs the examples of the pages about providers.
#[cfg(all(doctest, feature = "openai-responses-ws", feature = "remote", feature = "anthropic"))]
#[doc = include_str!("../../../docs/providers/openai-responses.md")]
#[doc = include_str!("../../../docs/providers/remote.md")]
struct ProviderPages;

/// Runs the examples of the runbook.
#[cfg(all(doctest, feature = "testing", feature = "session"))]
#[doc = include_str!("../../../docs/runbook/providers.md")]
#[doc = include_str!("../../../docs/runbook/costs.md")]
#[doc = include_str!("../../../docs/runbook/stuck-runs.md")]
#[doc = include_str!("../../../docs/runbook/sessions.md")]
#[doc = include_str!("../../../docs/runbook/durable.md")]
struct RunbookPages;

/// Runs the programs of the pages about other libraries.
#[cfg(all(doctest, feature = "testing", feature = "tools"))]
#[doc = include_str!("../../../docs/migration/rig.md")]
#[doc = include_str!("../../../docs/migration/pi.md")]
#[doc = include_str!("../../../docs/migration/phi-core.md")]
#[doc = include_str!("../../../docs/migration/own-loop.md")]
struct MigrationPages;
