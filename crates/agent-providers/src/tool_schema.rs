//! A tool's schema in the form that every vendor takes.
//!
//! A typed tool, a server of the Model Context Protocol and an OpenAPI document each write the JSON Schema that suits them; a
//! vendor that does not take a part of it refuses the whole request, with every other tool in it. What is made here is:
//!
//! - **written out**: no `$ref` (Nova and Ollama know none), and where a type holds itself it ends in an object without rules;
//! - **an object at the root**, by `type`, `properties` and `required` alone: OpenAI and Anthropic refuse `anyOf`, `oneOf` and
//!   `allOf` there, OpenAI also `enum` and `not`. Alternatives become one object with the fields of all, and the fields say to
//!   which alternative they belong;
//! - **draft 2020-12**, which Anthropic checks: lists of `items`, boolean `exclusiveMinimum` and the like are put right;
//! - **without boolean schemas**, which Ollama cannot read, and with `items` in every array, which OpenAI demands.
//!
//! The agent checks arguments against the tool's own schema, so what is loosened here is still held.

mod node;
mod root;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

/// How deep a schema may be; what is deeper becomes a schema that takes everything.
const MAX_DEPTH: usize = 64;

/// How many schemas one tool's may become when its references are written out. References that double at each step are a
/// known attack; what is over the bound becomes a schema that takes everything.
const MAX_NODES: usize = 20_000;

/// The schema of a tool's arguments as it is declared to a vendor. It is the same value for the same `parameters`.
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
