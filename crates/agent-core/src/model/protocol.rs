//! The wire protocols of providers: the built-in ones and those of the application.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The wire protocol of a provider.
///
/// Its serialized form is [`as_str`](Self::as_str): `ollama_chat` for a built-in protocol, `custom:toy` for a custom
/// one. The prefix keeps custom names apart from the built-in ones of every version.
///
/// ```
/// use agent_core::{ApiProtocol, model::InvalidProtocolName};
/// let toy = ApiProtocol::custom("toy")?;
/// assert_eq!((toy.as_str(), toy.provider_id()), ("custom:toy", "toy"));
/// # Ok::<(), InvalidProtocolName>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ApiProtocol {
    /// The Anthropic Messages API.
    AnthropicMessages,
    /// The OpenAI Chat Completions API, which most other servers speak as well.
    OpenAiCompletions,
    /// The OpenAI Responses API.
    OpenAiResponses,
    /// The OpenAI Responses API on Azure.
    AzureOpenAiResponses,
    /// The Google Gemini API.
    GoogleGenerativeAi,
    /// The Google Vertex AI API.
    GoogleVertex,
    /// The Anthropic Messages API on Google Vertex AI.
    AnthropicVertex,
    /// The AWS Bedrock ConverseStream API.
    BedrockConverseStream,
    /// Ollama's native `/api/chat` API.
    OllamaChat,
    /// A protocol of the application, by its name. [`custom`](Self::custom) creates it.
    Custom(ProtocolName),
}

const BUILT_IN: [ApiProtocol; 9] = [
    ApiProtocol::AnthropicMessages,
    ApiProtocol::OpenAiCompletions,
    ApiProtocol::OpenAiResponses,
    ApiProtocol::AzureOpenAiResponses,
    ApiProtocol::GoogleGenerativeAi,
    ApiProtocol::GoogleVertex,
    ApiProtocol::AnthropicVertex,
    ApiProtocol::BedrockConverseStream,
    ApiProtocol::OllamaChat,
];

impl ApiProtocol {
    /// Creates a custom protocol from its name without the prefix, for example `toy`.
    ///
    /// # Errors
    /// Returns [`InvalidProtocolName`] if [`ProtocolName::new`] rejects the name.
    pub fn custom(name: &str) -> Result<Self, InvalidProtocolName> {
        ProtocolName::new(name).map(Self::Custom)
    }

    /// Returns the name of the protocol in session files and messages. A custom protocol has the prefix `custom:`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.built_in().map_or_else(ProtocolName::prefixed, |[name, ..]| name)
    }

    /// Returns the cargo feature of `looptree` and `agent-providers` that contains its provider; `None` for a custom
    /// protocol, whose provider the application registers.
    #[must_use]
    pub fn feature(&self) -> Option<&'static str> {
        self.built_in().ok().map(|[_, feature, _]| feature)
    }

    /// Returns the id of the provider that serves this protocol, for example `ollama`. For a custom protocol it is the
    /// name without the prefix.
    #[must_use]
    pub fn provider_id(&self) -> &str {
        self.built_in().map_or_else(ProtocolName::as_str, |[.., provider]| provider)
    }

    /// Returns the name, the cargo feature and the provider id of a built-in protocol, or the name of a custom one.
    fn built_in(&self) -> Result<[&'static str; 3], &ProtocolName> {
        Ok(match self {
            Self::AnthropicMessages => ["anthropic_messages", "anthropic", "anthropic"],
            Self::OpenAiCompletions => ["openai_completions", "openai-chat", "openai"],
            Self::OpenAiResponses => ["openai_responses", "openai-responses", "openai_responses"],
            Self::AzureOpenAiResponses => ["azure_openai_responses", "azure", "azure_openai"],
            Self::GoogleGenerativeAi => ["google_generative_ai", "google", "google"],
            Self::GoogleVertex => ["google_vertex", "vertex", "google_vertex"],
            Self::AnthropicVertex => ["anthropic_vertex", "vertex", "anthropic_vertex"],
            Self::BedrockConverseStream => ["bedrock_converse_stream", "bedrock", "bedrock"],
            Self::OllamaChat => ["ollama_chat", "ollama", "ollama"],
            Self::Custom(name) => return Err(name),
        })
    }
}

impl fmt::Display for ApiProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ApiProtocol {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ApiProtocol {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if let Some(name) = text.strip_prefix(PREFIX) {
            return Self::custom(name).map_err(D::Error::custom);
        }
        // An earlier version wrote `open_ai` instead of `openai`.
        let name = text.replace("open_ai", "openai");
        BUILT_IN.into_iter().find(|protocol| protocol.as_str() == name).ok_or_else(|| {
            D::Error::custom(format_args!("unknown protocol {text:?}; a custom one starts with {PREFIX:?}"))
        })
    }
}

const PREFIX: &str = "custom:";

/// The maximum length of the name of a custom protocol, in bytes.
pub const MAX_PROTOCOL_NAME: usize = 24;

/// The name of a custom protocol: a letter, then letters, digits, `_` and `-`, all lowercase ASCII and together at most
/// [`MAX_PROTOCOL_NAME`] characters. It is stored in place, so that a protocol stays `Copy`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProtocolName([u8; PREFIX.len() + MAX_PROTOCOL_NAME]);

impl ProtocolName {
    /// Creates a name.
    ///
    /// # Errors
    /// Returns [`InvalidProtocolName`] if the name is empty, is too long, has other characters, or does not start with
    /// a letter.
    pub fn new(name: &str) -> Result<Self, InvalidProtocolName> {
        let letters = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'_' | b'-');
        let valid = name.len() <= MAX_PROTOCOL_NAME
            && name.bytes().next().is_some_and(|c| c.is_ascii_lowercase())
            && name.bytes().all(letters);
        if !valid {
            return Err(InvalidProtocolName(name.to_owned()));
        }
        let mut bytes = [0; PREFIX.len() + MAX_PROTOCOL_NAME];
        for (to, from) in bytes.iter_mut().zip(PREFIX.bytes().chain(name.bytes())) {
            *to = from;
        }
        Ok(Self(bytes))
    }

    /// Returns the name without the prefix.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.prefixed().strip_prefix(PREFIX).unwrap_or_default()
    }

    fn prefixed(&self) -> &str {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }
}

impl fmt::Debug for ProtocolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Display for ProtocolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ProtocolName {
    type Err = InvalidProtocolName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::new(name)
    }
}

/// The error of a name that no custom protocol can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name {0:?} of a protocol must start with a letter and have at most {MAX_PROTOCOL_NAME} of the characters a to z, \
     0 to 9, `_` and `-`"
)]
pub struct InvalidProtocolName(String);
