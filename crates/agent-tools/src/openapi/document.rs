//! A description as a tree of JSON values, with the resolution of its references.
//!
//! oas3 parses a description as a whole and only in the form of 3.1. This module walks the tree instead, so that a
//! broken part does not affect the others, and uses the types of oas3 for parameters, servers, security schemes and
//! encodings.

use agent_core::message::has_more_values;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::error::OpenApiError;
use super::{MAX_REF_HOPS, MAX_SPEC_BYTES, MAX_SPEC_VALUES};

/// A parsed description.
#[derive(Debug)]
pub(super) struct Document {
    root: Value,
}

/// The reason why a reference cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RefProblem {
    #[error("the reference `{0}` leads out of the description")]
    External(String),
    #[error("the reference `{0}` leads to nothing")]
    Missing(String),
    #[error("the reference `{0}` leads in a circle, or through too many others")]
    Endless(String),
    #[error("it is not an object")]
    NotAnObject,
}

impl Document {
    /// Parses a description: as JSON if it begins with `{` or `[`, otherwise as YAML.
    pub(super) fn parse(text: &str) -> Result<Self, OpenApiError> {
        if text.len() > MAX_SPEC_BYTES {
            return Err(OpenApiError::TooLarge { limit: MAX_SPEC_BYTES });
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let root: Value = if text.trim_start().starts_with(['{', '[']) {
            if has_more_values(text.as_bytes(), MAX_SPEC_VALUES) {
                return Err(OpenApiError::TooManyValues { limit: MAX_SPEC_VALUES });
            }
            serde_json::from_str(text).map_err(|source| OpenApiError::Json { source })?
        } else {
            super::yaml::parse(text)?
        };
        let Some(object) = root.as_object() else {
            return Err(OpenApiError::NotOpenApi { detail: "it is not an object" });
        };
        match object.get("openapi").map(version) {
            Some(Some(version)) if is_understood(&version) => Ok(Self { root }),
            Some(Some(version)) => Err(OpenApiError::Version { version }),
            _ => match object.get("swagger").and_then(version) {
                Some(version) => Err(OpenApiError::Version { version }),
                None => Err(OpenApiError::NotOpenApi { detail: "the field `openapi` is missing" }),
            },
        }
    }

    /// Returns a field of the root.
    pub(super) fn field(&self, name: &str) -> Option<&Value> {
        self.root.get(name)
    }

    /// Returns the target of a local reference.
    pub(super) fn at(&self, reference: &str) -> Result<&Value, RefProblem> {
        let Some(pointer) = reference.strip_prefix('#') else {
            return Err(RefProblem::External(reference.to_owned()));
        };
        // A pointer in a reference is percent-encoded where necessary.
        let decoded = percent_decode_str(pointer).decode_utf8();
        self.root
            .pointer(decoded.as_deref().unwrap_or(pointer))
            .ok_or_else(|| RefProblem::Missing(reference.to_owned()))
    }

    /// Returns the object itself, or the target of its chain of references.
    pub(super) fn object<'a>(&'a self, value: &'a Value) -> Result<&'a Map<String, Value>, RefProblem> {
        let mut value = value;
        for _ in 0..MAX_REF_HOPS {
            let object = value.as_object().ok_or(RefProblem::NotAnObject)?;
            match object.get("$ref").and_then(Value::as_str) {
                None => return Ok(object),
                Some(reference) => value = self.at(reference)?,
            }
        }
        let last = value.get("$ref").and_then(Value::as_str).unwrap_or_default();
        Err(RefProblem::Endless(last.to_owned()))
    }
}

/// Returns a version as text. In YAML, `openapi: 3.1` is a number.
fn version(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.chars().take(32).collect()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn is_understood(version: &str) -> bool {
    ["3.0", "3.1"].iter().any(|known| {
        version.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
    })
}
