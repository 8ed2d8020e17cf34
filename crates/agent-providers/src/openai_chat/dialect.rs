//! The table of differences between vendors.
//!
//! Sources: the API pages of the vendors, and the deviations that other clients have recorded.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use agent_core::{ModelConfig, ModelRequest, ReasoningField, ThinkingFormat, WireKey};

use crate::handoff::wire_key;

/// How one server speaks Chat Completions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dialect {
    /// The base address if the model has none.
    pub(super) base: &'static str,
    /// The header for the key.
    pub(super) auth: Auth,
    /// The name of the field that limits the output.
    pub(super) max_tokens: Cow<'static, str>,
    /// Whether the system prompt has the role `developer`.
    pub(super) developer_role: bool,
    /// Whether the server accepts `reasoning_effort`.
    pub(super) reasoning_effort: bool,
    /// Whether the server accepts `stream_options.include_usage`.
    pub(super) usage_in_stream: bool,
    /// Whether the server accepts `store`.
    pub(super) store: bool,
    /// Whether a tool message contains the name of the tool.
    pub(super) tool_result_name: bool,
    /// Whether an assistant message is required between tool results and a user message.
    pub(super) assistant_after_tool_result: bool,
    /// Whether consecutive messages of the user are sent as one, because the templates of many local models refuse them.
    pub(super) joins_user_messages: bool,
    /// Whether the server accepts `strict` in tools.
    pub(super) strict_tools: bool,
    /// Whether the server accepts `prompt_cache_key`.
    pub(super) prompt_cache_key: bool,
    /// The field in which earlier thinking is sent back.
    pub(super) replay: Replay,
    /// The form in which a request enables thinking.
    pub(super) thinking: ThinkingFormat,
    /// Which tool-call ids are accepted.
    pub(super) ids: Ids,
    /// Whether Anthropic's cache markers are sent.
    pub(super) cache_markers: bool,
    /// Whether a user message accepts files and sounds.
    pub(super) files: bool,
    /// Whether `response_format` accepts a schema. Otherwise a request can only require a JSON object.
    pub(super) json_schema: bool,
}

/// The header for the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Auth {
    /// `Authorization: Bearer`. A call without a key fails before it is sent.
    Bearer,
    /// `Authorization: Bearer` if there is a key.
    OptionalBearer,
    /// The header `api-key`.
    ApiKey,
}

/// The field of an assistant message for its earlier thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replay {
    /// Thinking is not sent back.
    Omit,
    /// The field in which the server sent it.
    AsReceived,
    /// A fixed field.
    Field(&'static str),
}

/// Which tool-call ids are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    /// Characters of `[A-Za-z0-9_-]`, up to this number.
    Word(usize),
    /// Exactly nine letters and digits (Mistral).
    NineAlphanumeric,
}

/// A vendor: the provider name and the hosts that it is known by, and its deviations.
struct Vendor {
    name: &'static str,
    hosts: &'static [&'static str],
    base: &'static str,
    change: fn(&mut Dialect),
}

fn common() -> Dialect {
    Dialect {
        base: "http://localhost:8080/v1",
        auth: Auth::OptionalBearer,
        max_tokens: Cow::Borrowed("max_tokens"),
        developer_role: false,
        reasoning_effort: true,
        usage_in_stream: true,
        store: false,
        tool_result_name: false,
        assistant_after_tool_result: false,
        joins_user_messages: true,
        strict_tools: false,
        prompt_cache_key: false,
        replay: Replay::AsReceived,
        thinking: ThinkingFormat::OpenAi,
        ids: Ids::Word(64),
        cache_markers: false,
        files: false,
        json_schema: true,
    }
}

fn openai(d: &mut Dialect) {
    d.max_tokens = Cow::Borrowed("max_completion_tokens");
    d.developer_role = true;
    d.store = true;
    d.strict_tools = true;
    d.prompt_cache_key = true;
    d.files = true;
    d.replay = Replay::Omit;
    d.ids = Ids::Word(40);
}

fn azure(d: &mut Dialect) {
    openai(d);
    d.auth = Auth::ApiKey;
    d.store = false;
}

fn zai(d: &mut Dialect) {
    d.reasoning_effort = false;
    d.thinking = ThinkingFormat::Zai;
    d.json_schema = false;
    d.replay = Replay::Field("reasoning_content");
}

fn plain(_: &mut Dialect) {}

fn deepseek(d: &mut Dialect) {
    reasoning_content(d);
    d.json_schema = false;
}

fn no_effort(d: &mut Dialect) {
    d.reasoning_effort = false;
}

fn reasoning_content(d: &mut Dialect) {
    d.reasoning_effort = false;
    d.replay = Replay::Field("reasoning_content");
}

const VENDORS: &[Vendor] = &[
    Vendor { name: "openai", hosts: &["api.openai.com"], base: "https://api.openai.com/v1", change: openai },
    Vendor {
        name: "azure",
        hosts: &["openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com"],
        base: "https://RESOURCE.openai.azure.com/openai/v1",
        change: azure,
    },
    Vendor {
        name: "openrouter",
        hosts: &["openrouter.ai"],
        base: "https://openrouter.ai/api/v1",
        change: |d| {
            d.thinking = ThinkingFormat::OpenRouter;
            d.replay = Replay::Field("reasoning");
            d.cache_markers = true;
            d.files = true;
        },
    },
    Vendor {
        name: "groq",
        hosts: &["api.groq.com"],
        base: "https://api.groq.com/openai/v1",
        change: |d| {
            d.max_tokens = Cow::Borrowed("max_completion_tokens");
            d.replay = Replay::Omit;
        },
    },
    Vendor {
        name: "cerebras",
        hosts: &["api.cerebras.ai"],
        base: "https://api.cerebras.ai/v1",
        change: |d| {
            d.max_tokens = Cow::Borrowed("max_completion_tokens");
            d.replay = Replay::Omit;
        },
    },
    Vendor {
        name: "xai",
        hosts: &["api.x.ai"],
        base: "https://api.x.ai/v1",
        change: |d| {
            d.max_tokens = Cow::Borrowed("max_completion_tokens");
            d.replay = Replay::Omit;
        },
    },
    Vendor {
        name: "mistral",
        hosts: &["api.mistral.ai"],
        base: "https://api.mistral.ai/v1",
        change: |d| {
            d.reasoning_effort = false;
            d.usage_in_stream = false;
            d.replay = Replay::Omit;
            d.ids = Ids::NineAlphanumeric;
        },
    },
    Vendor {
        name: "deepseek",
        hosts: &["api.deepseek.com"],
        base: "https://api.deepseek.com/v1",
        change: deepseek,
    },
    Vendor {
        name: "zai",
        hosts: &["api.z.ai", "open.bigmodel.cn"],
        base: "https://api.z.ai/api/paas/v4",
        change: zai,
    },
    Vendor {
        name: "qwen",
        hosts: &["dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "dashscope-us.aliyuncs.com"],
        base: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        change: |d| {
            d.reasoning_effort = false;
            d.thinking = ThinkingFormat::Qwen;
            d.json_schema = false;
        },
    },
    Vendor {
        name: "together",
        hosts: &["api.together.xyz", "api.together.ai"],
        base: "https://api.together.xyz/v1",
        change: plain,
    },
    Vendor {
        name: "fireworks",
        hosts: &["api.fireworks.ai"],
        base: "https://api.fireworks.ai/inference/v1",
        change: plain,
    },
    Vendor {
        name: "moonshot",
        hosts: &["api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"],
        base: "https://api.moonshot.ai/v1",
        change: reasoning_content,
    },
    Vendor {
        name: "minimax",
        hosts: &["api.minimax.io", "api.minimaxi.com", "api.minimax.chat"],
        base: "https://api.minimax.io/v1",
        change: |d| {
            d.reasoning_effort = false;
            d.json_schema = false;
        },
    },
    Vendor {
        name: "huggingface",
        hosts: &["router.huggingface.co"],
        base: "https://router.huggingface.co/v1",
        change: plain,
    },
    Vendor {
        name: "vercel",
        hosts: &["ai-gateway.vercel.sh"],
        base: "https://ai-gateway.vercel.sh/v1",
        change: plain,
    },
    Vendor {
        name: "github_copilot",
        hosts: &["api.githubcopilot.com", "api.individual.githubcopilot.com", "models.github.ai"],
        base: "https://api.githubcopilot.com",
        change: |d| d.replay = Replay::Omit,
    },
    Vendor {
        name: "perplexity",
        hosts: &["api.perplexity.ai"],
        base: "https://api.perplexity.ai",
        change: |d| d.replay = Replay::Omit,
    },
    Vendor {
        name: "nvidia",
        hosts: &["integrate.api.nvidia.com"],
        base: "https://integrate.api.nvidia.com/v1",
        change: no_effort,
    },
    Vendor {
        name: "google",
        hosts: &["generativelanguage.googleapis.com"],
        base: "https://generativelanguage.googleapis.com/v1beta/openai",
        change: |d| d.replay = Replay::Omit,
    },
];

/// Returns whether the model itself takes Anthropic's cache markers.
fn takes_markers(model: &ModelConfig) -> bool {
    model.prompt_cache && model.id.starts_with("anthropic/")
}

impl Dialect {
    /// Returns the dialect of this model's server: the vendor's defaults, overridden by the caller's settings.
    pub(super) fn of(model: &ModelConfig) -> Self {
        let mut dialect = common();
        if let Some(vendor) = vendor(model) {
            dialect.base = vendor.base;
            dialect.auth = Auth::Bearer;
            dialect.joins_user_messages = false;
            (vendor.change)(&mut dialect);
        }
        dialect.set(model);
        dialect.cache_markers &= takes_markers(model);
        dialect
    }

    /// Returns whether requests to this model have Anthropic's cache markers. The rest of the dialect is only resolved for a
    /// model that can have them.
    pub(super) fn marks_caches(model: &ModelConfig) -> bool {
        takes_markers(model) && Self::of(model).cache_markers
    }

    fn set(&mut self, model: &ModelConfig) {
        let set = &model.dialect;
        let put = |field: &mut bool, value: Option<bool>| *field = value.unwrap_or(*field);
        put(&mut self.developer_role, set.developer_role);
        put(&mut self.reasoning_effort, set.reasoning_effort);
        put(&mut self.usage_in_stream, set.usage_in_stream);
        put(&mut self.store, set.store);
        put(&mut self.tool_result_name, set.tool_result_name);
        put(&mut self.assistant_after_tool_result, set.assistant_after_tool_result);
        put(&mut self.strict_tools, set.strict_tools);
        put(&mut self.prompt_cache_key, set.prompt_cache_key);
        put(&mut self.json_schema, set.json_schema);
        put(&mut self.files, set.files);
        if let Some(field) = &set.max_tokens_field {
            self.max_tokens = Cow::Owned(field.clone());
        }
        if let Some(format) = set.thinking_format {
            self.thinking = format;
        }
        if let Some(max) = set.max_tool_call_id {
            self.ids = Ids::Word(max);
        }
        match set.reasoning_field {
            Some(ReasoningField::Omit) => self.replay = Replay::Omit,
            Some(ReasoningField::ReasoningContent) => self.replay = Replay::Field("reasoning_content"),
            Some(ReasoningField::Reasoning) => self.replay = Replay::Field("reasoning"),
            Some(ReasoningField::ReasoningText) => self.replay = Replay::Field("reasoning_text"),
            Some(_) | None => {}
        }
    }

    /// The key of everything that the bytes of a unit depend on.
    pub(super) fn unit_key(&self, request: &ModelRequest) -> WireKey {
        let (replay, field) = match self.replay {
            Replay::Omit => ("omit", ""),
            Replay::AsReceived => ("as received", ""),
            Replay::Field(field) => ("in", field),
        };
        let ids = match self.ids {
            Ids::NineAlphanumeric => Cow::Borrowed("nine"),
            // The limits in the table, which avoid an allocation for each request.
            Ids::Word(40) => Cow::Borrowed("40"),
            Ids::Word(64) => Cow::Borrowed("64"),
            Ids::Word(max) => Cow::Owned(max.to_string()),
        };
        let name = if self.tool_result_name { "named" } else { "" };
        let marked = if self.cache_markers { "marked" } else { "" };
        let points = if super::encode::places_breakpoints(request) { "points" } else { "" };
        let files = if self.files { "files" } else { "" };
        wire_key(request, &["chat", replay, field, &ids, name, marked, points, files])
    }
}

/// Returns the vendor of the address, or of the provider name if there is no address. A vendor's name with an unknown
/// address means a proxy for that vendor.
fn vendor(model: &ModelConfig) -> Option<&'static Vendor> {
    let by_name = || {
        let name = match model.provider.as_str() {
            "azure_openai" => "azure",
            "kimi" | "moonshotai" => "moonshot",
            "alibaba" | "dashscope" => "qwen",
            "grok" => "xai",
            "hf" => "huggingface",
            "copilot" | "github-copilot" => "github_copilot",
            name => name,
        };
        VENDORS.iter().find(|v| v.name == name)
    };
    let Some(base) = &model.base_url else { return by_name() };
    let host = host(base);
    // A numeric address belongs to no vendor.
    if host.bytes().next_back().is_none_or(|last| last.is_ascii_digit()) {
        return by_name();
    }
    VENDORS.iter().find(|v| v.hosts.iter().any(|h| is_under(host, h))).or_else(by_name)
}

/// Returns the host of an address.
fn host(base: &str) -> &str {
    let rest = base.split_once(':').and_then(|(_, rest)| rest.strip_prefix("//")).unwrap_or(base);
    rest.split(['/', '?', '#', ':']).next().unwrap_or_default()
}

/// Returns whether `host` is `domain` or one of its subdomains.
fn is_under(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}
