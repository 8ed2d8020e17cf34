//! The serialized form of a [`ModelConfig`], which contains no secret.
//!
//! Keys are stored by the name of an environment variable, and so are headers, except those of [`PLAIN_HEADERS`]. A
//! configuration that would contain a secret is not serialized.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, IgnoredAny, MapAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::providers::{model_of, split};
use super::{
    AnthropicAuth, ApiProtocol, ChatDialect, CostConfig, InvalidModelName, ModelConfig, ModelFact, Redactor,
    Secret, ThinkingForm, ThinkingLevel,
};

/// The headers that a file contains by value, because they are no credentials.
const PLAIN_HEADERS: &[&str] = &[
    "anthropic-beta",
    "anthropic-version",
    "http-referer",
    "openai-beta",
    "openai-organization",
    "openai-project",
    "user-agent",
    "x-amzn-bedrock-projectidentifier",
    "x-goog-user-project",
    "x-title",
];

/// The parameters of an address that a file contains.
const PLAIN_PARAMETERS: &[&str] = &["api-version", "beta"];

/// The form in a file. Members that are absent have the value of the constructor for the provider.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    /// The provider and the id of the model, with a slash between them.
    model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    api: Option<ApiProtocol>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    api_key_env: Option<String>,
    /// Rejected with advice, so that no file contains a key.
    #[serde(default, skip_serializing)]
    api_key: Option<IgnoredAny>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, Option<Header>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    api_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context_window: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    images: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thinking: Option<ThinkingForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thinking_levels: Option<Vec<ThinkingLevel>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prompt_cache: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cost: Option<CostConfig>,
    #[serde(default, skip_serializing_if = "is_default")]
    dialect: ChatDialect,
    #[serde(default, skip_serializing_if = "is_default")]
    anthropic_auth: AnthropicAuth,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    region: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project: Option<String>,
}

/// The value of a header in a file: a text, or the variable that holds it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Header {
    Plain(String),
    Variable { env: String },
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_plain(name: &str) -> bool {
    PLAIN_HEADERS.iter().any(|plain| name.eq_ignore_ascii_case(plain))
}

/// Returns whether an address has neither a user nor parameters that may hold a credential.
fn is_plain_address(url: &str) -> bool {
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let names = query.split('&').filter_map(|pair| pair.split('=').next()).filter(|name| !name.is_empty());
    let mut names = names;
    !authority.contains('@') && !url.contains('#') && names.all(|name| PLAIN_PARAMETERS.contains(&name))
}

impl Stored {
    fn of(model: &ModelConfig) -> Result<Self, String> {
        let usual = model_of(&model.provider, &model.id, Some(model.api));
        let usual = usual.unwrap_or_else(|| ModelConfig::new(model.api, &*model.provider, &*model.id));
        let mut headers = BTreeMap::new();
        for (name, value) in &model.headers {
            let value = match value {
                _ if model.header_env.contains_key(name) => continue,
                Some(text) if is_plain(name) => Some(Header::Plain(text.clone())),
                Some(_) => {
                    return Err(format!(
                        "the value of the header {name:?} may be a secret and is not written; name the variable that \
                         holds it with with_header_from"
                    ));
                }
                None => None,
            };
            headers.insert(name.clone(), value);
        }
        let variables = model.header_env.iter();
        headers
            .extend(variables.map(|(name, env)| (name.clone(), Some(Header::Variable { env: env.clone() }))));
        if model.base_url.as_deref().is_some_and(|url| !is_plain_address(url)) {
            return Err(
                "the address may hold a secret and is not written; give the credential as a key".to_owned()
            );
        }
        let sets = |fact| model.sets(fact);
        let limit = |limit: Option<u32>| limit.or_else(|| sets(ModelFact::Limits).then_some(0));
        let thinks = sets(ModelFact::Thinking)
            || (model.thinking, &model.thinking_levels) != (usual.thinking, &usual.thinking_levels);
        Ok(Self {
            model: format!("{}/{}", model.provider, model.id),
            api: Some(model.api),
            name: (model.name != usual.name).then(|| model.name.clone()),
            base_url: model.base_url.clone().filter(|url| Some(url) != usual.base_url.as_ref()),
            api_key_env: model.api_key_env.clone(),
            api_key: None,
            headers,
            api_version: model.api_version.clone(),
            context_window: limit(model.context_window),
            max_tokens: limit(model.max_tokens),
            images: (sets(ModelFact::Images) || model.images != usual.images).then_some(model.images),
            thinking: thinks.then_some(model.thinking),
            thinking_levels: thinks.then(|| model.thinking_levels.clone()),
            prompt_cache: (model.prompt_cache != usual.prompt_cache).then_some(model.prompt_cache),
            cost: (sets(ModelFact::Cost) || model.cost != usual.cost).then(|| model.cost.clone()),
            dialect: model.dialect.clone(),
            anthropic_auth: model.anthropic_auth,
            region: model.region.clone(),
            project: model.project.clone(),
        })
    }

    fn into_model(self) -> Result<ModelConfig, String> {
        if self.api_key.is_some() {
            return Err("a file has no keys; name the variable that holds it in `api_key_env`".to_owned());
        }
        let (provider, id) = split(&self.model).map_err(|error| error.to_string())?;
        let mut model = model_of(provider, id, self.api)
            .ok_or_else(|| InvalidModelName::Provider(provider.to_owned()).to_string())?;
        for (name, value) in self.headers {
            match value {
                Some(Header::Plain(text)) if is_plain(&name) => model.headers.insert(name, Some(text)),
                Some(Header::Plain(_)) => {
                    return Err(format!(
                        "the header {name:?} may hold a secret; write {{\"env\": \"VARIABLE\"}} instead of its value"
                    ));
                }
                Some(Header::Variable { env }) => {
                    model.header_env.insert(name, env);
                    None
                }
                None => model.headers.insert(name, None),
            };
        }
        if self.base_url.as_deref().is_some_and(|url| !is_plain_address(url)) {
            return Err("the address may hold a secret; give the credential by `api_key_env`".to_owned());
        }
        model.name = self.name.unwrap_or(model.name);
        model.base_url = self.base_url.or(model.base_url);
        model.api_key_env = self.api_key_env;
        model.api_version = self.api_version;
        model.prompt_cache = self.prompt_cache.unwrap_or(model.prompt_cache);
        model.dialect = self.dialect;
        model.anthropic_auth = self.anthropic_auth;
        model.region = self.region.or(model.region);
        model.project = self.project.or(model.project);
        if self.context_window == Some(0) || self.max_tokens == Some(0) {
            model.set.add(ModelFact::Limits);
        }
        model.context_window = self.context_window.filter(|limit| *limit > 0);
        model.max_tokens = self.max_tokens.filter(|limit| *limit > 0);
        if let Some(images) = self.images {
            model = model.with_images(images);
        }
        if self.thinking.is_some() || self.thinking_levels.is_some() {
            let form = self.thinking.unwrap_or(model.thinking);
            model = model.with_thinking_form(form, self.thinking_levels.unwrap_or_default());
        }
        if let Some(cost) = self.cost {
            model = model.with_cost(cost);
        }
        Ok(model)
    }
}

/// Returns whether a text of `value` contains one of the secrets of the model.
fn leaks(value: &Value, redactor: &Redactor) -> bool {
    match value {
        Value::String(text) => redactor.redact(text) != *text,
        Value::Array(items) => items.iter().any(|item| leaks(item, redactor)),
        Value::Object(members) => {
            members.iter().any(|(name, item)| redactor.redact(name) != *name || leaks(item, redactor))
        }
        _ => false,
    }
}

/// Writes the names of environment variables instead of keys and headers.
///
/// # Errors
/// Serialization fails if a header or the address may hold a secret, or if another member contains the key.
impl Serialize for ModelConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stored = Stored::of(self).map_err(S::Error::custom)?;
        let secret_headers = self.headers.iter().filter(|(name, _)| !is_plain(name));
        let values = secret_headers.filter_map(|(_, value)| value.as_deref().map(Secret::new));
        let redactor = Redactor::new(self.api_key.iter().cloned().chain(values));
        let value = serde_json::to_value(&stored).map_err(S::Error::custom)?;
        if leaks(&value, &redactor) {
            return Err(S::Error::custom("a member of the model contains its key, which is not written"));
        }
        stored.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ModelConfig {
    /// Reads the form in a file, or a model string such as `anthropic/claude-sonnet-5-5`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = ModelConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a model string such as anthropic/claude-sonnet-5-5, or an object with one in `model`",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ModelConfig, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ModelConfig, A::Error> {
                let stored = Stored::deserialize(MapAccessDeserializer::new(map))?;
                stored.into_model().map_err(de::Error::custom)
            }
        }
        deserializer.deserialize_any(Form)
    }
}
