//! From a Rust type to the form that a model is held to, and from its answer back to the type.

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

/// How often an answer that does not fit is asked for again, unless the caller says otherwise.
pub const ANSWER_RETRIES: u32 = 1;

/// The longest name of a schema that OpenAI's servers take, in characters.
const MAX_NAME: usize = 64;

/// The form of an answer that is to be a `T`.
///
/// The schema is that of the type, by `schemars`, with types within it written out. Where a vendor enforces schemas it
/// takes closed ones only, so objects are closed and every member is demanded; an `Option` may be null. What such a
/// vendor does not take in a schema (lengths of texts, formats of numbers, defaults) is said in the description, and
/// checked when the answer is read. A type that has no closed form, a map or a [`Value`] for example, is asked for
/// without being enforced. A type that is no plain object is wrapped in one, as its property `value`.
pub struct AnswerForm<T> {
    name: String,
    /// The whole schema; the answer is checked against it.
    schema: Value,
    /// What vendors that enforce schemas are sent.
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
    /// The form of a `T`, named after the type.
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

    /// The same under another name. Characters that vendors do not take become `_`.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = fitting(name);
        self
    }

    /// How often an answer that does not fit is asked for again.
    #[must_use]
    pub fn with_retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// How often an answer that does not fit is asked for again.
    #[must_use]
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// The schema that an answer is checked against.
    #[must_use]
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// What a model is told.
    #[must_use]
    pub fn format(&self) -> ResponseFormat {
        ResponseFormat::JsonSchema {
            name: self.name.clone(),
            schema: self.strict.as_ref().unwrap_or(&self.schema).clone(),
            strict: self.strict.is_some(),
        }
    }

    /// Reads the text of a reply. Small slips are put right, as with the arguments of a tool, and what stands around
    /// the JSON of a model that cannot be held to a form is passed over: a fence, a sentence before it.
    ///
    /// # Errors
    /// When it is no such answer; the error shows what came.
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
    /// The form of a `T`; see [`AnswerForm`].
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

/// A name that vendors take: letters, digits, `_` and `-`.
fn fitting(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name: String = name.chars().take(MAX_NAME).map(|c| if fits(c) { c } else { '_' }).collect();
    if name.is_empty() { "answer".to_owned() } else { name }
}

/// The schema with a plain object as its root, as vendors demand it, and whether it had to be wrapped.
fn rooted(schema: Value) -> (Value, bool) {
    const COMPOSED: &[&str] = &["anyOf", "oneOf", "allOf", "$ref", "enum", "const"];
    let mut members = match schema {
        Value::Object(members) => members,
        // The schema `true`: anything.
        _ => Map::new(),
    };
    if members.get("type").is_some_and(|t| t == "object")
        && !COMPOSED.iter().any(|k| members.contains_key(*k))
    {
        members.entry("properties").or_insert_with(|| json!({}));
        return (Value::Object(members), false);
    }
    // References are to the root, so the definitions move there; one to the whole has to follow it.
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

/// Turns references to what was the root into references to where it is now.
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

/// Whether this is the wrapping object and not the value itself.
fn is_wrapped(found: &Value) -> bool {
    found.as_object().is_some_and(|o| o.len() == 1 && o.contains_key("value"))
}

/// The JSON of a text: all of it, what stands in a fence, or what begins at the first bracket.
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

/// What stands in the first fence.
fn fenced(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("```")?;
    let (_, body) = rest.split_once('\n')?;
    Some(body.rsplit_once("```").map_or(body, |(inner, _)| inner).trim())
}
