//! Which protocols have which tools and options.

use super::{
    CodeExecution, ComputerEnvironment, ComputerUse, Mcp, McpApproval, ServerTool, ToolSearchVariant,
    WebFetch, WebSearch,
};
use crate::model::{ApiProtocol, ModelConfig};

/// Why a request cannot have a tool of a vendor. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerToolError {
    /// The protocol does not have the tool, or the model of this protocol does not.
    #[error("the protocol {protocol} has no tool {tool} for this model")]
    NoTool {
        /// The [name](ServerTool::name) of the tool.
        tool: &'static str,
        /// The protocol of the model.
        protocol: ApiProtocol,
    },
    /// The protocol has the tool without this option.
    #[error("the tool {tool} of the protocol {protocol} has no option {option}")]
    NoOption {
        /// The [name](ServerTool::name) of the tool.
        tool: &'static str,
        /// The protocol of the model.
        protocol: ApiProtocol,
        /// The name of the option.
        option: &'static str,
    },
    /// The options are incomplete or contradict each other.
    #[error("the tool {tool} cannot be used so: {reason}")]
    Options {
        /// The [name](ServerTool::name) of the tool.
        tool: &'static str,
        /// What is wrong with the options.
        reason: &'static str,
    },
    /// The request has the tool twice.
    #[error("the request has the tool {tool} twice")]
    Twice {
        /// The [name](ServerTool::name) of the tool.
        tool: &'static str,
    },
    /// The vendor does not execute the tool, and no local tool has the name that the vendor requires.
    #[error("the vendor does not execute the tool {tool}, and the request has no local tool named {name:?}")]
    NoLocalTool {
        /// The [name](ServerTool::name) of the tool.
        tool: &'static str,
        /// The name that the local tool must have.
        name: &'static str,
    },
    /// Only code may call a local tool, and this request gives the model no way to run code.
    #[error(
        "only code may call the tool {name:?}, and with the protocol {protocol} this request has no code"
    )]
    NoCode {
        /// The name of the local tool.
        name: String,
        /// The protocol of the model.
        protocol: ApiProtocol,
    },
}

impl ServerToolError {
    /// Returns what the caller can do about the error.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self {
            Self::NoTool { .. } => "remove the tool from server_tools, or call a model that has it",
            Self::NoOption { .. } => "leave the option out, or call a model of another protocol",
            Self::Options { .. } => "correct the options of the tool",
            Self::Twice { .. } => "add each tool once; only MCP servers with different labels may be several",
            Self::NoLocalTool { .. } => "give the agent a tool of this name that executes the calls",
            Self::NoCode { .. } => "add ServerTool::CodeExecution, or let the model call the tool itself",
        }
    }
}

use ApiProtocol as Api;

impl ServerTool {
    /// Checks whether the protocol of the model has this tool and its options. A custom protocol is not checked: its
    /// provider decides.
    ///
    /// # Errors
    /// Returns [`ServerToolError::NoTool`], [`ServerToolError::NoOption`] or [`ServerToolError::Options`].
    pub fn check(&self, model: &ModelConfig) -> Result<(), ServerToolError> {
        let (tool, protocol) = (self.name(), model.api);
        if matches!(protocol, Api::Custom(_)) {
            return Ok(());
        }
        if !self.exists(model) {
            return Err(ServerToolError::NoTool { tool, protocol });
        }
        if let Some(option) = self.foreign_option(protocol) {
            return Err(ServerToolError::NoOption { tool, protocol, option });
        }
        self.fault().map_or(Ok(()), |reason| Err(ServerToolError::Options { tool, reason }))
    }

    /// Checks the tools of a request: each of them, that none is twice, and that `has_local` is true for the name of each
    /// local tool that is needed.
    ///
    /// # Errors
    /// Returns the first error of a tool.
    pub fn check_all(
        tools: &[Self],
        model: &ModelConfig,
        has_local: impl Fn(&str) -> bool,
    ) -> Result<(), ServerToolError> {
        for (at, tool) in tools.iter().enumerate() {
            tool.check(model)?;
            if tools.iter().take(at).any(|other| other.is_same(tool)) {
                return Err(ServerToolError::Twice { tool: tool.name() });
            }
            if let Some(name) = tool.local_name().filter(|name| !has_local(name)) {
                return Err(ServerToolError::NoLocalTool { tool: tool.name(), name });
            }
        }
        Ok(())
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Mcp(a), Self::Mcp(b)) => a.label == b.label,
            (Self::Vendor(a), Self::Vendor(b)) => a == b,
            _ => self.name() == other.name(),
        }
    }

    /// Returns whether the protocol has the tool for this model.
    fn exists(&self, model: &ModelConfig) -> bool {
        let api = model.api;
        let claude = matches!(api, Api::AnthropicMessages | Api::AnthropicVertex);
        let openai = matches!(api, Api::OpenAiResponses | Api::AzureOpenAiResponses);
        let gemini = matches!(api, Api::GoogleGenerativeAi | Api::GoogleVertex);
        let nova = || {
            let has = |name: &str| name.to_lowercase().contains("nova");
            api == Api::BedrockConverseStream && (has(&model.id) || has(&model.name))
        };
        match self {
            Self::WebSearch(_) => claude || openai || gemini || api == Api::OpenAiCompletions || nova(),
            Self::WebFetch(_) => api == Api::AnthropicMessages || gemini,
            Self::CodeExecution(_) => api == Api::AnthropicMessages || openai || gemini || nova(),
            Self::FileSearch(_) => openai || api == Api::GoogleGenerativeAi,
            Self::ImageGeneration(_) => openai,
            Self::Mcp(_) => api == Api::AnthropicMessages || openai || api == Api::GoogleGenerativeAi,
            Self::Bash => claude || openai,
            Self::ApplyPatch => openai,
            Self::ComputerUse(_) => claude || openai || gemini,
            Self::TextEditor(_) | Self::Memory => claude,
            Self::ToolSearch(_) => claude || openai,
            Self::Vendor(_) => api != Api::OllamaChat,
        }
    }

    /// Returns the name of an option that the protocol does not have.
    fn foreign_option(&self, api: ApiProtocol) -> Option<&'static str> {
        let options: &[(&'static str, bool, &[Api])] = match self {
            Self::WebSearch(search) => &search_options(search),
            Self::WebFetch(fetch) => &fetch_options(fetch),
            Self::CodeExecution(CodeExecution { container, file_ids, version }) => &[
                ("container", container.is_some(), &[Api::AnthropicMessages, OPENAI[0], OPENAI[1]]),
                ("file_ids", !file_ids.is_empty(), OPENAI),
                ("version", version.is_some(), CLAUDE),
            ],
            Self::Mcp(Mcp { allowed_tools, approval, .. }) => &[
                ("allowed_tools", !allowed_tools.is_empty(), &[Api::AnthropicMessages, OPENAI[0], OPENAI[1]]),
                ("approval", *approval == McpApproval::Always, OPENAI),
            ],
            Self::ComputerUse(computer) => &computer_options(computer),
            Self::ToolSearch(search) => &[("variant", search.variant != ToolSearchVariant::Usual, CLAUDE)],
            _ => &[],
        };
        options.iter().find(|(_, is_set, of)| *is_set && !of.contains(&api)).map(|(name, ..)| *name)
    }

    /// Returns what is wrong with the options, whatever the protocol.
    fn fault(&self) -> Option<&'static str> {
        let both = |allowed: &[String], blocked: &[String]| {
            (!allowed.is_empty() && !blocked.is_empty())
                .then_some("it has allowed and blocked domains; set only one of them")
        };
        let version = |version: &Option<String>, prefix: &str| {
            let digits = version.as_deref()?.strip_prefix(prefix);
            let is_date = |date: &str| date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit());
            (!digits.is_some_and(is_date)).then_some("the version is not the name of the tool with a date")
        };
        match self {
            Self::WebSearch(search) => both(&search.allowed_domains, &search.blocked_domains)
                .or_else(|| version(&search.version, "web_search_")),
            Self::WebFetch(fetch) => both(&fetch.allowed_domains, &fetch.blocked_domains)
                .or_else(|| version(&fetch.version, "web_fetch_")),
            Self::CodeExecution(CodeExecution { container: Some(_), file_ids, .. })
                if !file_ids.is_empty() =>
            {
                Some("files can only be given to a new container")
            }
            Self::CodeExecution(code) => version(&code.version, "code_execution_"),
            Self::FileSearch(search) => search.stores.is_empty().then_some("it names no store to search"),
            Self::ComputerUse(computer) => {
                (computer.width == 0 || computer.height == 0).then_some("the screen has no size")
            }
            Self::Mcp(mcp) if mcp.label.trim().is_empty() => Some("the server has no label"),
            Self::Mcp(mcp) if !mcp.url.starts_with("https://") => {
                Some("the address of the server does not begin with https://")
            }
            Self::Vendor(definition) if !definition.is_object() => Some("the definition is no object"),
            _ => None,
        }
    }
}

const CLAUDE: &[Api] = &[Api::AnthropicMessages, Api::AnthropicVertex];
const GEMINI: &[Api] = &[Api::GoogleGenerativeAi, Api::GoogleVertex];
const OPENAI: &[Api; 2] = &[Api::OpenAiResponses, Api::AzureOpenAiResponses];

/// The options of a search, whether each is set, and the protocols that have it.
fn search_options(search: &WebSearch) -> [(&'static str, bool, &'static [Api]); 6] {
    const DOMAINS: &[Api] =
        &[Api::AnthropicMessages, Api::AnthropicVertex, Api::OpenAiResponses, Api::AzureOpenAiResponses];
    const BLOCKED: &[Api] = &[Api::AnthropicMessages, Api::AnthropicVertex, Api::GoogleVertex];
    const LOCATION: &[Api] = &[
        Api::AnthropicMessages,
        Api::AnthropicVertex,
        Api::OpenAiResponses,
        Api::AzureOpenAiResponses,
        Api::OpenAiCompletions,
    ];
    const CONTEXT: &[Api] = &[Api::OpenAiResponses, Api::AzureOpenAiResponses, Api::OpenAiCompletions];
    [
        ("max_uses", search.max_uses.is_some(), CLAUDE),
        ("allowed_domains", !search.allowed_domains.is_empty(), DOMAINS),
        ("blocked_domains", !search.blocked_domains.is_empty(), BLOCKED),
        ("user_location", search.user_location.is_some(), LOCATION),
        ("context", search.context.is_some(), CONTEXT),
        ("version", search.version.is_some(), CLAUDE),
    ]
}

/// The options of controlling a computer, except the size of the screen.
fn computer_options(computer: &ComputerUse) -> [(&'static str, bool, &'static [Api]); 5] {
    const WITH_ENVIRONMENT: &[Api] =
        &[Api::OpenAiResponses, Api::AzureOpenAiResponses, Api::GoogleGenerativeAi, Api::GoogleVertex];
    let mobile = computer.environment == Some(ComputerEnvironment::Mobile);
    [
        ("display", computer.display.is_some(), CLAUDE),
        ("zoom", computer.zoom, CLAUDE),
        ("environment", computer.environment.is_some(), WITH_ENVIRONMENT),
        ("environment mobile", mobile, GEMINI),
        ("excluded_actions", !computer.excluded_actions.is_empty(), GEMINI),
    ]
}

/// The options of reading pages; only Anthropic has any.
fn fetch_options(fetch: &WebFetch) -> [(&'static str, bool, &'static [Api]); 6] {
    [
        ("max_uses", fetch.max_uses.is_some(), CLAUDE),
        ("allowed_domains", !fetch.allowed_domains.is_empty(), CLAUDE),
        ("blocked_domains", !fetch.blocked_domains.is_empty(), CLAUDE),
        ("citations", fetch.citations, CLAUDE),
        ("max_content_tokens", fetch.max_content_tokens.is_some(), CLAUDE),
        ("version", fetch.version.is_some(), CLAUDE),
    ]
}
