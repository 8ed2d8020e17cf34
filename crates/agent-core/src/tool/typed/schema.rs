//! From a Rust type to the schema that a model is told of, and from a model's arguments back to the type.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::message::MAX_ARGUMENTS_SHOWN;
use crate::tool::ToolError;

/// The JSON schema (draft 2020-12) of a tool's arguments. It is an object without `$schema` and `title`; types
/// within it are written out where they are used, except those that hold themselves. A type that is no object is
/// wrapped in one, as its property `value`.
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

/// The schema of a type, without `$schema` and `title`; types within it are written out where they are used, except
/// those that hold themselves.
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

/// The arguments of one tool.
#[derive(Debug, Clone)]
pub(super) struct Arguments {
    schema: Value,
    shape: Shape,
}

/// How the type lies in the object that a model sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// It is the object.
    Object,
    /// It is `()` or the like: the object is empty.
    Nothing,
    /// It is the property `value`.
    Wrapped,
}

impl Arguments {
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
            // Alternatives and references say `type` inside; an enum of structs is an object all the same.
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
                // References are to the root, so the definitions move there.
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

    /// The arguments as the type.
    pub(super) fn parse<A: DeserializeOwned>(&self, arguments: &Value) -> Result<A, ToolError> {
        let parsed = match self.shape {
            Shape::Object => A::deserialize(arguments),
            Shape::Nothing => A::deserialize(&Value::Null),
            Shape::Wrapped => A::deserialize(arguments.get("value").unwrap_or(&Value::Null)),
        };
        parsed.map_err(|e| {
            let mut text = arguments.to_string();
            if text.len() > MAX_ARGUMENTS_SHOWN {
                text.truncate(text.floor_char_boundary(MAX_ARGUMENTS_SHOWN));
                text.push('…');
            }
            ToolError::InvalidArgs(format!("The arguments do not fit: {e}\nReceived: {text}"))
        })
    }
}

/// Whether some alternative is not an object: then the whole has to be wrapped.
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
