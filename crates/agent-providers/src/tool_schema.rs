//! Converts a tool's schema to a form that every vendor accepts.
//!
//! Typed tools, MCP servers and OpenAPI documents use different parts of JSON Schema. A vendor that does not support a part
//! rejects the whole request, including all other tools. The converted schema:
//!
//! - **has no references**: each `$ref` is replaced by its target (Nova and Ollama do not support it), and a recursive type ends
//!   in an unrestricted object;
//! - **is an object at the root**, by `type`, `properties` and `required` alone: OpenAI and Anthropic refuse `anyOf`, `oneOf` and
//!   `allOf` there, OpenAI also `enum` and `not`. Alternatives become one object with the fields of all, and the fields say to
//!   which alternative they belong;
//! - **is valid in draft 2020-12**, which Anthropic checks: older forms of `items`, `exclusiveMinimum` and others are converted;
//! - **has no boolean schemas**, which Ollama cannot parse, and has `items` in every array, which OpenAI requires.
//!
//! The agent validates arguments against the tool's original schema, so rules that are dropped here still apply.

mod node;
mod root;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

#[cfg(any(feature = "anthropic", feature = "google"))]
use crate::json::Members;

/// The maximum depth of a schema. Deeper parts become unrestricted.
const MAX_DEPTH: usize = 64;

/// The maximum number of schemas after the references are replaced. References that double at each step are a known attack.
/// Parts beyond the limit become unrestricted.
const MAX_NODES: usize = 20_000;

/// Returns the schema of a tool's arguments for vendors. Equal `parameters` give equal results.
pub(crate) fn declared(parameters: &Value) -> Value {
    let empty = Map::new();
    let whole = parameters.as_object().unwrap_or(&empty);
    let mut writer = node::Writer::new(parameters);
    let mut schema = writer.object(whole, 0);
    root::flatten(&mut schema);
    let mut out = Map::new();
    out.insert("type".to_owned(), "object".into());
    let left_out = |key: &str| matches!(key, "type" | "$schema" | "$id" | "$defs" | "definitions" | "title");
    out.extend(schema.into_iter().filter(|(key, _)| !left_out(key)));
    if !out.get("properties").is_some_and(Value::is_object) {
        out.insert("properties".to_owned(), Value::Object(Map::new()));
    }
    Value::Object(out)
}

/// Writes a tool as an object with its name, its description and, as `member`, its declared schema.
#[cfg(any(feature = "anthropic", feature = "google"))]
pub(crate) fn write_declaration(
    out: &mut Vec<u8>,
    name: &str,
    description: &str,
    member: &'static str,
    parameters: &Value,
) {
    let mut tool = Members::open(out);
    tool.field("name", name);
    if !description.trim().is_empty() {
        tool.field("description", description);
    }
    tool.field(member, &declared(parameters));
    tool.close();
}
