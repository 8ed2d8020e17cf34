//! Renames a server's arguments for the model.
//!
//! A server may name an argument `filter[name]` or `$top`. Some vendors reject the whole request because of one such
//! name, so the model receives another name, which is converted back for the server. Vendors check only the names at
//! the top of the schema, so deeper names do not change.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::names::{ArgumentNames, argument_name};

/// The maximum nesting of alternatives at the root.
const MAX_DEPTH: usize = 16;

/// The maximum number of references at the root that are followed. References that double at each step are a known
/// attack.
const MAX_REFERENCES: usize = 64;

/// The maximum size of a schema in which references are followed, in bytes. Each reference may be replaced by the whole
/// schema.
const MAX_FOLLOWED: usize = 64 * 1024;

/// The names of one tool's arguments for the model and for the server.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    /// The schema for the model, if it differs from the server's.
    schema: Option<Value>,
    /// The server's name for each of the model's names that differs.
    theirs: BTreeMap<String, String>,
}

impl Arguments {
    pub(super) fn new(of_server: &Value) -> Self {
        let mut schema = of_server.clone();
        let mut left = if of_server.to_string().len() <= MAX_FOLLOWED { MAX_REFERENCES } else { 0 };
        write_out(&mut schema, of_server, MAX_DEPTH, &mut left);
        let mut names = Vec::new();
        collect(&schema, MAX_DEPTH, &mut names);
        let (good, bad): (Vec<&str>, Vec<&str>) =
            names.into_iter().partition(|name| argument_name(name) == *name);
        if bad.is_empty() {
            return Self::default();
        }
        // Valid names do not change, whatever their position.
        let mut taken = ArgumentNames::default();
        for name in good {
            taken.take(name);
        }
        let mut ours: BTreeMap<&str, String> = BTreeMap::new();
        for name in bad {
            ours.entry(name).or_insert_with(|| taken.first_free(&argument_name(name)));
        }
        let mut renamed = schema.clone();
        rename(&mut renamed, MAX_DEPTH, &ours);
        let theirs = ours.into_iter().map(|(theirs, ours)| (ours, theirs.to_owned())).collect();
        Self { schema: Some(renamed), theirs }
    }

    /// Returns the schema for the model. `of_server` is the schema that was passed to `new`.
    pub(super) fn schema<'a>(&'a self, of_server: &'a Value) -> &'a Value {
        self.schema.as_ref().unwrap_or(of_server)
    }

    /// Returns the arguments of the model with the names of the server.
    pub(super) fn for_server(&self, arguments: Value) -> Value {
        match arguments {
            Value::Object(fields) if !self.theirs.is_empty() => {
                let named = fields.into_iter().map(|(name, value)| match self.theirs.get(&name) {
                    Some(theirs) => (theirs.clone(), value),
                    None => (name, value),
                });
                Value::Object(named.collect())
            }
            other => other,
        }
    }
}

/// The schemas that describe the same object as this one.
const SAME_OBJECT: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Merges the target of a reference with its sibling keywords, so a vendor receives the same object.
fn write_out(schema: &mut Value, document: &Value, depth: usize, left: &mut usize) {
    let Some(schema) = schema.as_object_mut() else { return };
    let reference = schema.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix('#'));
    if let Some(target) = reference.and_then(|pointer| document.pointer(pointer))
        && *left > 0
    {
        *left -= 1;
        schema.shift_remove("$ref");
        let parts = schema.entry("allOf").or_insert_with(|| Value::Array(Vec::new()));
        if let Some(parts) = parts.as_array_mut() {
            parts.push(target.clone());
        }
    }
    if depth > 0 {
        for key in SAME_OBJECT {
            let parts = schema.get_mut(key).and_then(Value::as_array_mut);
            parts.into_iter().flatten().for_each(|part| write_out(part, document, depth - 1, left));
        }
    }
}

/// Collects the names of the properties at the top, including those of alternatives.
fn collect<'a>(schema: &'a Value, depth: usize, names: &mut Vec<&'a str>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    names.extend(properties.into_iter().flat_map(Map::keys).map(String::as_str));
    if depth > 0 {
        let parts = SAME_OBJECT.iter().filter_map(|key| schema.get(key)?.as_array()).flatten();
        parts.for_each(|part| collect(part, depth - 1, names));
    }
}

fn rename(schema: &mut Value, depth: usize, ours: &BTreeMap<&str, String>) {
    let Some(schema) = schema.as_object_mut() else { return };
    for key in ["properties", "dependentRequired", "dependentSchemas"] {
        if let Some(Value::Object(named)) = schema.get_mut(key) {
            *named = std::mem::take(named)
                .into_iter()
                .map(|(name, value)| (ours.get(name.as_str()).cloned().unwrap_or(name), value))
                .collect();
        }
    }
    let required = schema.get_mut("required").into_iter();
    let lists = required.filter_map(Value::as_array_mut).flatten();
    lists.for_each(|name| rename_text(name, ours));
    if let Some(Value::Object(dependent)) = schema.get_mut("dependentRequired") {
        let lists = dependent.values_mut().filter_map(Value::as_array_mut).flatten();
        lists.for_each(|name| rename_text(name, ours));
    }
    if depth > 0 {
        for key in SAME_OBJECT {
            let parts = schema.get_mut(key).and_then(Value::as_array_mut);
            parts.into_iter().flatten().for_each(|part| rename(part, depth - 1, ours));
        }
        for key in ["if", "then", "else", "not"] {
            if let Some(part) = schema.get_mut(key) {
                rename(part, depth - 1, ours);
            }
        }
        if let Some(Value::Object(dependent)) = schema.get_mut("dependentSchemas") {
            dependent.values_mut().for_each(|part| rename(part, depth - 1, ours));
        }
    }
}

fn rename_text(name: &mut Value, ours: &BTreeMap<&str, String>) {
    if let Some(ours) = name.as_str().and_then(|name| ours.get(name)) {
        *name = Value::String(ours.clone());
    }
}

#[cfg(test)]
mod tests;
