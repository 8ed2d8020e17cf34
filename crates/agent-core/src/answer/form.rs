//! Derives the answer format from a Rust type, and parses the answer into the type.

use std::fmt;
use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::error::{AnswerError, AnswerFault};
use super::strict;
use crate::model::ResponseFormat;
use crate::tool::plain_schema;
use crate::tool::validate::{ArgumentError, ArgumentValidator, SchemaValidator};

/// The default number of retries after an answer that does not fit.
pub const ANSWER_RETRIES: u32 = 1;

/// The maximum length of a schema name on OpenAI's servers, in characters.
const MAX_NAME: usize = 64;

/// The answer format of a type `T`.
///
/// `schemars` derives the schema from the type, with all nested types inlined. Vendors enforce only closed schemas,
/// so objects are closed and every member is required; an `Option` may be null. Constraints that vendors do not
/// support (lengths of texts, formats of numbers, defaults) are added to the description and checked when the answer
/// is parsed. A type without a closed form, such as a map or a [`Value`], is requested without enforcement. A type
/// that is not a plain object is wrapped in one, as its property `value`.
pub struct AnswerForm<T> {
    name: String,
    /// The complete schema, against which the answer is validated.
    schema: Value,
    /// The schema for vendors that enforce it.
    strict: Option<Value>,
    wrapped: bool,
    retries: u32,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for AnswerForm<T> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            schema: self.schema.clone(),
            strict: self.strict.clone(),
            wrapped: self.wrapped,
            retries: self.retries,
            of: PhantomData,
        }
    }
}

impl<T> fmt::Debug for AnswerForm<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerForm")
            .field("name", &self.name)
            .field("schema", &self.schema)
            .field("retries", &self.retries)
            .finish_non_exhaustive()
    }
}

impl<T: JsonSchema + DeserializeOwned> Default for AnswerForm<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: JsonSchema + DeserializeOwned> AnswerForm<T> {
    /// Creates the format of `T`, named after the type.
    #[must_use]
    pub fn new() -> Self {
        let (schema, wrapped) = rooted(plain_schema::<T>());
        Self {
            name: fitting(&T::schema_name()),
            strict: strict::of(&schema),
            schema,
            wrapped,
            retries: ANSWER_RETRIES,
            of: PhantomData,
        }
    }

    /// Sets the name of the schema. Characters that vendors do not support become `_`.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = fitting(name);
        self
    }

    /// Sets how often an answer that does not fit is requested again.
    #[must_use]
    pub fn with_retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Returns how often an answer that does not fit is requested again.
    #[must_use]
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// Returns whether the type is wrapped in an object, as its property `value`.
    #[cfg(feature = "partial-answers")]
    pub(crate) fn is_wrapped(&self) -> bool {
        self.wrapped
    }

    /// Returns the schema against which an answer is validated.
    #[must_use]
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Returns the format for a model request.
    #[must_use]
    pub fn format(&self) -> ResponseFormat {
        ResponseFormat::JsonSchema {
            name: self.name.clone(),
            schema: self.strict.as_ref().unwrap_or(&self.schema).clone(),
            strict: self.strict.is_some(),
        }
    }

    /// Parses the text of a reply. Corrects small mistakes like those in tool arguments, and ignores what surrounds
    /// the JSON of a model without enforcement, such as a code fence or an introduction.
    ///
    /// # Errors
    /// Returns an error if the text is not such an answer; the error contains the text.
    pub fn read(&self, text: &str) -> Result<T, AnswerError> {
        self.read_with(&SchemaValidator, text)
    }

    pub(crate) fn read_with(&self, validator: &dyn ArgumentValidator, text: &str) -> Result<T, AnswerError> {
        let wrong = |fault| AnswerError::new(fault, text);
        if text.trim().is_empty() {
            return Err(wrong(AnswerFault::Empty));
        }
        let found = json_in(text).map_err(|e| wrong(AnswerFault::NotJson { reason: e.to_string() }))?;
        let found = if self.wrapped && !is_wrapped(&found) { json!({ "value": found }) } else { found };
        let value = validator.validate(&self.schema, found).map_err(|errors| {
            let mut faults = errors.errors().to_vec();
            if faults.is_empty() {
                faults.push(ArgumentError::new("(root)", errors.to_string(), Value::Null));
            }
            wrong(AnswerFault::DoesNotFit { faults })
        })?;
        let inner = if self.wrapped { value.get("value").unwrap_or(&Value::Null) } else { &value };
        T::deserialize(inner).map_err(|e| wrong(AnswerFault::Refused { reason: e.to_string() }))
    }
}

impl ResponseFormat {
    /// Creates the format of `T`; see [`AnswerForm`].
    ///
    /// ```
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Verdict {
    ///     good: bool,
    /// }
    /// let format = agent_core::ResponseFormat::of::<Verdict>();
    /// assert!(matches!(format, agent_core::ResponseFormat::JsonSchema { strict: true, .. }));
    /// ```
    #[must_use]
    pub fn of<T: JsonSchema + DeserializeOwned>() -> Self {
        AnswerForm::<T>::new().format()
    }
}

/// Returns a name that vendors support: letters, digits, `_` and `-`.
fn fitting(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name: String = name.chars().take(MAX_NAME).map(|c| if fits(c) { c } else { '_' }).collect();
    if name.is_empty() { "answer".to_owned() } else { name }
}

/// Returns the schema with a plain object as its root, as vendors require, and whether it was wrapped.
fn rooted(schema: Value) -> (Value, bool) {
    const COMPOSED: &[&str] = &["anyOf", "oneOf", "allOf", "$ref", "enum", "const"];
    let mut members = match schema {
        Value::Object(members) => members,
        // The schema `true` allows anything.
        _ => Map::new(),
    };
    if members.get("type").is_some_and(|t| t == "object")
        && !COMPOSED.iter().any(|k| members.contains_key(*k))
    {
        members.entry("properties").or_insert_with(|| json!({}));
        return (Value::Object(members), false);
    }
    // References point to the root, so the definitions move there, and references to the root are adjusted.
    let definitions = members.shift_remove("$defs");
    let mut inner = Value::Object(members);
    moved(&mut inner);
    let mut object = Map::new();
    object.insert("type".into(), "object".into());
    object.insert("properties".into(), json!({ "value": inner }));
    object.insert("required".into(), json!(["value"]));
    if let Some(mut definitions) = definitions {
        moved(&mut definitions);
        object.insert("$defs".into(), definitions);
    }
    (Value::Object(object), true)
}

/// Adjusts references to the former root.
fn moved(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref")
                && reference == "#"
            {
                "#/properties/value".clone_into(reference);
            }
            members.values_mut().for_each(moved);
        }
        Value::Array(items) => items.iter_mut().for_each(moved),
        _ => {}
    }
}

/// Returns whether this is the wrapping object and not the value itself.
pub(crate) fn is_wrapped(found: &Value) -> bool {
    found.as_object().is_some_and(|o| o.len() == 1 && o.contains_key("value"))
}

/// Parses the JSON in a text: the whole text, the content of a code fence, or the text from the first bracket.
fn json_in(text: &str) -> Result<Value, serde_json::Error> {
    let whole = serde_json::from_str(text.trim());
    let Err(error) = whole else { return whole };
    if let Some(inner) = fenced(text)
        && let Ok(value) = serde_json::from_str(inner)
    {
        return Ok(value);
    }
    let begins = text.find(['{', '[']).and_then(|at| text.get(at..)).unwrap_or_default();
    let mut values = serde_json::Deserializer::from_str(begins).into_iter::<Value>();
    match values.next() {
        Some(Ok(value)) => Ok(value),
        _ => Err(error),
    }
}

/// Returns the content of the first code fence.
pub(crate) fn fenced(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("```")?;
    let (_, body) = rest.split_once('\n')?;
    Some(body.rsplit_once("```").map_or(body, |(inner, _)| inner).trim())
}
