//! The wire protocols of providers: the built-in ones and those of the application.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The wire protocol of a provider.
///
/// Its serialized form is [`as_str`](Self::as_str): `ollama_chat` for a built-in protocol, `custom:toy` for a custom one.
/// The prefix keeps custom names apart from the built-in ones of every version.
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
    /// The AWS Bedrock ConverseStream API.
    BedrockConverseStream,
    /// Ollama's native `/api/chat` API.
    OllamaChat,
    /// A protocol of the application, by its name. [`custom`](Self::custom) creates it.
    Custom(ProtocolName),
}

/// The built-in protocols with their names in records; the second name is only read.
const BUILT_IN: [(ApiProtocol, &str, &str); 8] = [
    (ApiProtocol::AnthropicMessages, "anthropic_messages", "anthropic_messages"),
    (ApiProtocol::OpenAiCompletions, "openai_completions", "open_ai_completions"),
    (ApiProtocol::OpenAiResponses, "openai_responses", "open_ai_responses"),
    (ApiProtocol::AzureOpenAiResponses, "azure_openai_responses", "azure_open_ai_responses"),
    (ApiProtocol::GoogleGenerativeAi, "google_generative_ai", "google_generative_ai"),
    (ApiProtocol::GoogleVertex, "google_vertex", "google_vertex"),
    (ApiProtocol::BedrockConverseStream, "bedrock_converse_stream", "bedrock_converse_stream"),
    (ApiProtocol::OllamaChat, "ollama_chat", "ollama_chat"),
];

impl ApiProtocol {
    /// Creates a custom protocol from its name without the prefix, for example `toy`.
    ///
    /// # Errors
    /// [`InvalidProtocolName`] as for [`ProtocolName::new`].
    pub fn custom(name: &str) -> Result<Self, InvalidProtocolName> {
        ProtocolName::new(name).map(Self::Custom)
    }

    /// Returns the name of the protocol in session files and messages. A custom protocol has the prefix `custom:`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::AnthropicMessages => "anthropic_messages",
            Self::OpenAiCompletions => "openai_completions",
            Self::OpenAiResponses => "openai_responses",
            Self::AzureOpenAiResponses => "azure_openai_responses",
            Self::GoogleGenerativeAi => "google_generative_ai",
            Self::GoogleVertex => "google_vertex",
            Self::BedrockConverseStream => "bedrock_converse_stream",
            Self::OllamaChat => "ollama_chat",
            Self::Custom(name) => name.prefixed(),
        }
    }

    /// Returns the cargo feature of `looptree` and `agent-providers` that contains its provider; `None` for a custom
    /// protocol, whose provider the application registers.
    #[must_use]
    pub fn feature(&self) -> Option<&'static str> {
        Some(match self {
            Self::AnthropicMessages => "anthropic",
            Self::OpenAiCompletions => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
            Self::AzureOpenAiResponses => "azure",
            Self::GoogleGenerativeAi => "google",
            Self::GoogleVertex => "vertex",
            Self::BedrockConverseStream => "bedrock",
            Self::OllamaChat => "ollama",
            Self::Custom(_) => return None,
        })
    }

    /// Returns the id of the provider that serves this protocol, for example `ollama`. For a custom protocol it is the
    /// name without the prefix.
    #[must_use]
    pub fn provider_id(&self) -> &str {
        match self {
            Self::AnthropicMessages => "anthropic",
            Self::OpenAiCompletions => "openai",
            Self::OpenAiResponses => "openai_responses",
            Self::AzureOpenAiResponses => "azure_openai",
            Self::GoogleGenerativeAi => "google",
            Self::GoogleVertex => "google_vertex",
            Self::BedrockConverseStream => "bedrock",
            Self::OllamaChat => "ollama",
            Self::Custom(name) => name.as_str(),
        }
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
        struct Name;

        impl de::Visitor<'_> for Name {
            type Value = ApiProtocol;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a protocol")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ApiProtocol, E> {
                if let Some(name) = text.strip_prefix(PREFIX) {
                    return ApiProtocol::custom(name).map_err(E::custom);
                }
                let found = BUILT_IN.iter().find(|(_, name, alias)| [name, alias].contains(&&text));
                found.map(|(protocol, ..)| *protocol).ok_or_else(|| {
                    E::custom(format_args!("unknown protocol {text:?}; a custom one starts with {PREFIX:?}"))
                })
            }
        }

        deserializer.deserialize_str(Name)
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
    /// [`InvalidProtocolName`] if the name is empty, is too long, has other characters, or does not start with a letter.
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
