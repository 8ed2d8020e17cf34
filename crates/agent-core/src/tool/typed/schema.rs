//! Derives the JSON schema of an argument type, and parses the arguments of a call into that type.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::message::MAX_ARGUMENTS_SHOWN;
use crate::tool::ToolError;
use crate::tool::validate::shown;

/// Derives the JSON schema (draft 2020-12) of a tool's arguments.
///
/// The schema is an object without `$schema` and `title`. Nested types are inlined, except recursive ones. A type that
/// is not an object is wrapped in an object with the single property `value`.
///
/// ```
/// #[derive(schemars::JsonSchema)]
/// struct Place {
///     city: String,
/// }
/// assert_eq!(
///     agent_core::argument_schema::<Place>(),
///     serde_json::json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}),
/// );
/// ```
#[must_use]
pub fn argument_schema<A: JsonSchema>() -> Value {
    Arguments::of::<A>().schema
}

/// Derives the schema of a type, without `$schema` and `title`. Nested types are inlined, except recursive ones.
pub(crate) fn plain_schema<A: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12()
        .with(|s| {
            s.inline_subschemas = true;
            s.meta_schema = None;
        })
        .into_generator();
    let mut schema = Value::from(generator.into_root_schema_for::<A>());
    if let Some(members) = schema.as_object_mut() {
        members.shift_remove("$schema");
        members.shift_remove("title");
    }
    schema
}

/// The argument type of a tool: its schema, and how the type maps to the object that a model sends.
#[derive(Debug, Clone)]
pub(super) struct Arguments {
    schema: Value,
    shape: Shape,
}

/// How the argument type maps to the object that a model sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// The type is the object.
    Object,
    /// The type has no content, like `()`: the object is empty.
    Nothing,
    /// The type is the property `value` of the object.
    Wrapped,
}

impl Arguments {
    /// Returns the arguments of `A`. The schema is derived on the first call for a type and cached for the process.
    pub(super) fn cached<A: JsonSchema + 'static>() -> Arc<Self> {
        static CACHE: RwLock<BTreeMap<TypeId, Arc<Arguments>>> = RwLock::new(BTreeMap::new());

        let key = TypeId::of::<A>();
        if let Some(known) = CACHE.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Arc::clone(known);
        }
        // Derived without the lock, because `A` may run code of its own.
        let derived = Arc::new(Self::of::<A>());
        let mut cache = CACHE.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(cache.entry(key).or_insert(derived))
    }

    pub(super) fn of<A: JsonSchema>() -> Self {
        match plain_schema::<A>() {
            Value::Object(schema) => Self::shaped(schema),
            // The schema `true`: anything.
            _ => Self::shaped(Map::new()),
        }
    }

    fn shaped(mut schema: Map<String, Value>) -> Self {
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => {
                schema.entry("properties").or_insert_with(|| json!({}));
                Self { schema: Value::Object(schema), shape: Shape::Object }
            }
            Some("null") => {
                Self { schema: json!({"type": "object", "properties": {}}), shape: Shape::Nothing }
            }
            // Alternatives and references have `type` inside; an enum of structs is an object nevertheless.
            None if !holds_scalar(&schema) => {
                let mut object = Map::new();
                object.insert("type".into(), "object".into());
                object.extend(schema);
                if !["anyOf", "oneOf", "allOf", "$ref"].iter().any(|key| object.contains_key(*key)) {
                    object.entry("properties").or_insert_with(|| json!({}));
                }
                Self { schema: Value::Object(object), shape: Shape::Object }
            }
            _ => {
                // References start at the root, so the definitions move there.
                let definitions = schema.shift_remove("$defs");
                let mut object = Map::new();
                object.insert("type".into(), "object".into());
                object.insert("properties".into(), json!({ "value": schema }));
                object.insert("required".into(), json!(["value"]));
                object.extend(definitions.map(|d| (String::from("$defs"), d)));
                Self { schema: Value::Object(object), shape: Shape::Wrapped }
            }
        }
    }

    pub(super) fn schema(&self) -> Value {
        self.schema.clone()
    }

    /// Parses the arguments of a call into the type.
    pub(super) fn parse<A: DeserializeOwned>(&self, arguments: &Value) -> Result<A, ToolError> {
        let parsed = match self.shape {
            Shape::Object => A::deserialize(arguments),
            Shape::Nothing => A::deserialize(&Value::Null),
            Shape::Wrapped => A::deserialize(arguments.get("value").unwrap_or(&Value::Null)),
        };
        parsed.map_err(|e| {
            let text = shown(&arguments.to_string(), MAX_ARGUMENTS_SHOWN);
            ToolError::InvalidArgs(format!("The arguments do not fit: {e}\nReceived: {text}"))
        })
    }
}

/// Returns whether an alternative is not an object, in which case the whole type must be wrapped.
fn holds_scalar(schema: &Map<String, Value>) -> bool {
    if schema.get("enum").is_some()
        || schema.get("const").is_some()
        || schema.get("type").is_some_and(Value::is_array)
    {
        return true;
    }
    ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(*key)?.as_array()).flatten().any(|part| {
        let named = part.get("type").and_then(Value::as_str);
        named.is_some_and(|t| t != "object")
            || part.as_object().is_some_and(|p| named.is_none() && holds_scalar(p))
    })
}
