//! The descriptions of tools that a server sends.

use agent_core::Effects;
use serde_json::{Map, Value, json};

/// The description of a tool that a server sends.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct McpToolInfo {
    /// The server's name for it.
    pub name: String,
    /// The name for display.
    pub title: Option<String>,
    /// The description of the tool for the model.
    pub description: Option<String>,
    /// The JSON schema of the arguments, always an object with `type` and `properties`.
    pub input_schema: Value,
    /// The JSON schema of the structured results, if the tool has them.
    pub output_schema: Option<Value>,
    /// The server's hints about the effects of the tool; see [`AnnotationTrust`](super::AnnotationTrust).
    pub annotations: McpAnnotations,
}

/// The annotations of a server about the effects of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct McpAnnotations {
    /// The tool changes nothing.
    pub read_only: Option<bool>,
    /// The tool may delete or overwrite data.
    pub destructive: Option<bool>,
    /// A second call with the same arguments has no further effect.
    pub idempotent: Option<bool>,
    /// The tool interacts with systems outside of the server.
    pub open_world: Option<bool>,
}

impl McpAnnotations {
    /// Returns the side effects of a call according to the annotations.
    #[must_use]
    pub fn effects(&self) -> Effects {
        if self.read_only == Some(true) {
            Effects::ReadOnly
        } else if self.idempotent == Some(true) {
            Effects::Idempotent
        } else {
            Effects::Once
        }
    }
}

impl McpToolInfo {
    /// Reads an entry of `tools/list`.
    ///
    /// # Errors
    /// Returns the part that is missing.
    pub(super) fn read(value: &Value) -> Result<Self, String> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let name = text("name").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| "a tool without a name".to_owned())?;
        let input_schema = match value.get("inputSchema") {
            None | Some(Value::Null) => normal_schema(&Map::new()),
            Some(Value::Object(schema)) => normal_schema(schema),
            Some(_) => return Err(format!("`{name}`, whose inputSchema is not an object")),
        };
        if input_schema.get("type") != Some(&json!("object")) {
            return Err(format!("`{name}`, whose inputSchema does not describe an object"));
        }
        let hints = value.get("annotations");
        let hint = |key: &str| hints.and_then(|hints| hints.get(key)).and_then(Value::as_bool);
        let hinted_title = hints.and_then(|hints| hints.get("title")).and_then(Value::as_str);
        Ok(Self {
            title: text("title").or_else(|| hinted_title.map(str::to_owned)),
            description: text("description").filter(|text| !text.is_empty()),
            input_schema,
            output_schema: value.get("outputSchema").filter(|schema| schema.is_object()).cloned(),
            annotations: McpAnnotations {
                read_only: hint("readOnlyHint"),
                destructive: hint("destructiveHint"),
                idempotent: hint("idempotentHint"),
                open_world: hint("openWorldHint"),
            },
            name,
        })
    }
}

/// Returns an object schema with explicit `type` and `properties`, because some providers reject a schema without them.
fn normal_schema(schema: &Map<String, Value>) -> Value {
    let mut schema = schema.clone();
    schema.entry("type").or_insert_with(|| json!("object"));
    schema.entry("properties").or_insert_with(|| json!({}));
    Value::Object(schema)
}
