//! Schemas for the model: complete, without references, in JSON Schema 2020-12 and of limited size.
//!
//! Read-only fields are omitted, because the model cannot send them.

mod clean;
mod merge;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::document::Document;
use super::{MAX_REF_HOPS, MAX_SCHEMA_BYTES};

/// The maximum length of the description of a field, in bytes.
const MAX_FIELD_DESCRIPTION: usize = 400;

/// The keywords that a `not` may contain.
const PLAIN_NOT: [&str; 4] = ["type", "enum", "const", "required"];

/// How much of a schema is included. The first form that is short enough is used.
const MEASURES: [Measure; 8] = [
    Measure { depth: 16, words: Words::Kept },
    Measure { depth: 8, words: Words::Kept },
    Measure { depth: 5, words: Words::Kept },
    Measure { depth: 3, words: Words::Kept },
    Measure { depth: 5, words: Words::LeftOut },
    Measure { depth: 3, words: Words::LeftOut },
    Measure { depth: 2, words: Words::LeftOut },
    Measure { depth: 1, words: Words::LeftOut },
];

/// The depth of a schema, and whether it contains descriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measure {
    depth: usize,
    words: Words,
}

impl Measure {
    /// Returns the description of a field, unless descriptions are omitted.
    pub(super) fn description(self, text: Option<&str>) -> Option<Value> {
        let text = text.map(str::trim).filter(|text| !text.is_empty() && self.words == Words::Kept)?;
        Some(Value::String(short(text, MAX_FIELD_DESCRIPTION)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Words {
    Kept,
    LeftOut,
}

/// The remaining work for one description.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) nodes: usize,
}

/// A schema, and whether it is complete.
#[derive(Debug)]
pub(super) struct Fitted {
    pub(super) schema: Value,
    pub(super) is_whole: bool,
}

/// Creates the most complete schema that fits. Returns `None` if even the smallest form is too long or the work is used
/// up.
pub(super) fn fitted(
    document: &Document,
    work: &mut Work,
    mut make: impl FnMut(&mut Inliner<'_>) -> Value,
) -> Option<Fitted> {
    for (n, measure) in MEASURES.into_iter().enumerate() {
        let mut inliner = Inliner::new(document, measure, work.nodes);
        let schema = make(&mut inliner);
        work.nodes = work.nodes.saturating_sub(inliner.visited);
        if work.nodes == 0 {
            return None;
        }
        if inliner.room > 0 && schema.to_string().len() <= MAX_SCHEMA_BYTES {
            return Some(Fitted { schema, is_whole: n == 0 });
        }
    }
    None
}

/// Replaces references in schemas by their targets.
#[derive(Debug)]
pub(super) struct Inliner<'a> {
    document: &'a Document,
    pub(super) measure: Measure,
    /// The references that are being resolved, outermost first.
    open: Vec<String>,
    visited: usize,
    most_visits: usize,
    /// The approximate number of bytes left. At 0 the rest is skipped.
    room: usize,
}

/// A schema under construction, and the fields that it hides.
#[derive(Debug, Default, Clone)]
struct Shape {
    keys: Map<String, Value>,
    hidden: BTreeSet<String>,
}

impl<'a> Inliner<'a> {
    fn new(document: &'a Document, measure: Measure, most_visits: usize) -> Self {
        Self { document, measure, open: Vec::new(), visited: 0, most_visits, room: MAX_SCHEMA_BYTES }
    }

    /// Returns a schema with its references replaced.
    pub(super) fn inline(&mut self, schema: &Value) -> Value {
        Value::Object(self.shape(schema, self.measure.depth).keys)
    }

    fn shape(&mut self, schema: &Value, depth: usize) -> Shape {
        self.visited += 1;
        if self.visited >= self.most_visits {
            self.room = 0;
        }
        self.room = self.room.saturating_sub("{},".len());
        let object = match schema {
            Value::Object(object) if self.room > 0 => object,
            Value::Bool(false) => {
                let keys = Map::from_iter([("not".to_owned(), json!({}))]);
                return Shape { keys, ..Shape::default() };
            }
            _ => return Shape::default(),
        };
        match object.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.referred(reference, object, depth),
            None => self.own(object, depth),
        }
    }

    /// Returns the target of a reference, merged with the reference's sibling keywords.
    fn referred(&mut self, reference: &str, beside: &Map<String, Value>, depth: usize) -> Shape {
        let Ok(target) = self.document.at(reference) else { return Shape::default() };
        let is_circle = self.open.iter().any(|open| open == reference) || self.open.len() >= MAX_REF_HOPS;
        let mut shape = if is_circle {
            // A recursive reference is not followed; only its own keywords are included.
            target.as_object().map(|object| self.own(object, 0)).unwrap_or_default()
        } else {
            self.open.push(reference.to_owned());
            let shape = self.shape(target, depth);
            self.open.pop();
            shape
        };
        if beside.len() > 1 {
            let mut rest = beside.clone();
            rest.remove("$ref");
            let rest = self.own(&rest, depth);
            merge::beside(&mut shape, rest);
            if beside.get("nullable") == Some(&Value::Bool(true)) {
                clean::make_nullable(&mut shape.keys);
            }
        }
        shape
    }

    /// Returns the keywords of a schema without a reference.
    fn own(&mut self, object: &Map<String, Value>, depth: usize) -> Shape {
        let mut shape = Shape::default();
        clean::plain_keywords(object, &mut shape.keys);
        if let Some(text) = self.measure.description(object.get("description").and_then(Value::as_str)) {
            shape.keys.insert("description".to_owned(), text);
        }
        if self.measure.words == Words::LeftOut {
            clean::drop_long_lists(&mut shape.keys);
        }
        self.room = self.room.saturating_sub(length(&shape.keys));
        if depth > 0 {
            self.properties(object, depth - 1, &mut shape);
            self.items(object, depth - 1, &mut shape);
            self.choices(object, depth - 1, &mut shape);
        }
        clean::finish(&mut shape.keys, &shape.hidden);
        if object.get("nullable") == Some(&Value::Bool(true)) {
            clean::make_nullable(&mut shape.keys);
        }
        shape
    }

    fn properties(&mut self, object: &Map<String, Value>, depth: usize, shape: &mut Shape) {
        if let Some(fields) = object.get("properties").and_then(Value::as_object) {
            let mut properties = Map::new();
            for (name, schema) in fields {
                if self.room == 0 {
                    return;
                }
                if self.is_read_only(schema) {
                    shape.hidden.insert(name.clone());
                    continue;
                }
                self.room = self.room.saturating_sub(name.len() + 4);
                let field = self.shape(schema, depth).keys;
                properties.insert(name.clone(), Value::Object(field));
            }
            shape.keys.insert("properties".to_owned(), Value::Object(properties));
        }
        match object.get("additionalProperties") {
            Some(Value::Bool(any)) => {
                shape.keys.insert("additionalProperties".to_owned(), Value::Bool(*any));
            }
            Some(schema @ Value::Object(_)) => {
                let schema = self.shape(schema, depth).keys;
                shape.keys.insert("additionalProperties".to_owned(), Value::Object(schema));
            }
            _ => {}
        }
    }

    fn items(&mut self, object: &Map<String, Value>, depth: usize, shape: &mut Shape) {
        if let Some(items @ (Value::Object(_) | Value::Bool(_))) = object.get("items") {
            let items = self.shape(items, depth).keys;
            shape.keys.insert("items".to_owned(), Value::Object(items));
        }
        // JSON Schema forbids an empty `prefixItems`.
        if let Some(first) = object.get("prefixItems").and_then(Value::as_array)
            && !first.is_empty()
        {
            let first = first.iter().map(|item| Value::Object(self.shape(item, depth).keys)).collect();
            shape.keys.insert("prefixItems".to_owned(), Value::Array(first));
        }
    }

    fn choices(&mut self, object: &Map<String, Value>, depth: usize, shape: &mut Shape) {
        for keyword in ["anyOf", "oneOf"] {
            let Some(branches) = object.get(keyword).and_then(Value::as_array) else { continue };
            let branches: Vec<Value> =
                branches.iter().map(|branch| Value::Object(self.shape(branch, depth).keys)).collect();
            // Branches whose inner parts are left open may be equal, so `oneOf` becomes `anyOf`. An empty branch
            // accepts everything, so the alternatives are omitted.
            if !branches.is_empty() && !branches.contains(&json!({})) && !shape.keys.contains_key("anyOf") {
                shape.keys.insert("anyOf".to_owned(), Value::Array(branches));
            }
        }
        // A part that is left open inside of a `not` would forbid more than the description does.
        if let Some(Value::Object(not)) = object.get("not")
            && not.keys().all(|keyword| PLAIN_NOT.contains(&keyword.as_str()))
        {
            let mut keys = Map::new();
            clean::plain_keywords(not, &mut keys);
            if !keys.is_empty() && keys.len() == not.len() {
                shape.keys.insert("not".to_owned(), Value::Object(keys));
            }
        }
        if let Some(parts) = object.get("allOf").and_then(Value::as_array) {
            // The parts describe the same object, so they have the same depth; the number of references is limited.
            let parts = parts.iter().map(|part| self.shape(part, depth)).collect();
            merge::all_of(shape, parts);
        }
    }

    /// Returns whether a field is read-only.
    fn is_read_only(&self, schema: &Value) -> bool {
        let says = |schema: &Value| schema.get("readOnly") == Some(&Value::Bool(true));
        says(schema)
            || schema
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|reference| self.document.at(reference).ok())
                .is_some_and(says)
    }
}

/// Estimates the length of an object as JSON.
fn length(keys: &Map<String, Value>) -> usize {
    keys.iter().map(|(key, value)| key.len() + 4 + value.to_string().len()).sum()
}

/// Truncates a text and marks the end with `…`.
pub(super) fn short(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    format!("{}…", crate::text::head(text, max.saturating_sub('…'.len_utf8())).trim_end())
}
