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
//!     if let AgentEvent::MessageUpdate { delta: StreamDelta::Text { delta }, .. } = event {
//!         print!("{delta}");
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! This crate only re-exports: the types and the loop from `agent-core`, the providers from `agent-providers`, the tools
//! from `agent-tools`, recording from `agent-session`. Take those crates alone where you want less.
//!
//! # Features
//!
//! | name | what | default |
//! |---|---|---|
//! | `anthropic` | Anthropic Messages | yes |
//! | `openai-chat` | OpenAI Chat Completions, and the servers that speak it | yes |
//! | `ollama` | Ollama's native chat | yes |
//! | `google` | Google Gemini | no |
//! | `vertex` | Gemini on Vertex AI | no |
//! | `openai-responses` | OpenAI Responses, and the servers that speak it | no |
//! | `azure` | OpenAI Responses on Azure | no |
//! | `bedrock` | AWS Bedrock ConverseStream | no |
//! | `bedrock-config` | AWS's own chain of credentials | no |
//! | `remote` | models behind a server that holds the keys | no |
//! | `tools` | bash, read_file, write_file, edit_file, list_files, search | yes |
//! | `skills` | skills: folders with a `SKILL.md` | no |
//! | `mcp` | tools of servers that speak the Model Context Protocol | no |
//! | `mcp-oauth` | logging in to such servers with OAuth | no |
//! | `session` | recording loop trees to files | yes |
//! | `sqlite` | sessions in one SQLite database, with search | no |
//! | `tls-rustls` | TLS by rustls | yes |
//! | `tls-native` | TLS by the operating system | no |
//! | `testing` | a strict scripted provider, a manual clock, event assertions | no |
//! | `full` | all of them but `tls-native` | no |

#[doc(inline)]
pub use agent_core::*;
#[doc(inline)]
pub use agent_providers as providers;
#[doc(inline)]
pub use agent_providers::{ProviderRegistry, agent};
#[cfg(feature = "session")]
#[doc(inline)]
pub use agent_session as session;
#[cfg(feature = "tools")]
#[doc(inline)]
pub use agent_tools as tools;

/// The names that a program with an agent uses most.
pub mod prelude {
    pub use agent_core::{
        AgentError, AgentEvent, AgentMessage, AgentTool, Answer, AnswerForm, BasicAgent, CancellationToken,
        ChatToken, Content, Ended, ErrorKind, ExecutionLimits, Finished, Hooks, ImageContent, Message,
        ModelConfig, Question, Route, StreamDelta, ThinkingLevel, Tool, ToolContext, ToolError,
        ToolExecutionStrategy, ToolResult, Toolkit, Verdict, tool_fn,
    };
    pub use agent_providers::ProviderRegistry;
    #[cfg(feature = "session")]
    pub use agent_session::{
        JsonStore, RestoreSession, SaveContext, SessionError, SessionRecorder, SessionStore,
    };
    #[cfg(feature = "mcp")]
    pub use agent_tools::mcp::{McpConfig, McpServer, McpServers, WithMcp};
    #[cfg(feature = "tools")]
    pub use agent_tools::{Workspace, default_tools};
}

/// The examples of the README, which must compile.
#[cfg(all(doctest, feature = "tools", feature = "session", feature = "anthropic"))]
#[doc = include_str!("../../../README.md")]
struct ReadmeExamples;
