//! Merges schemas: the parts of `allOf`, and the sibling keywords of a reference.

use serde_json::{Map, Value, json};

use super::{Shape, clean};

/// Keywords that describe and do not validate. The outer ones take precedence.
const DESCRIBING: [&str; 2] = ["description", "default"];

/// Merges the sibling keywords of a reference into the target of the reference.
pub(super) fn beside(shape: &mut Shape, mut rest: Shape) {
    for word in DESCRIBING {
        if let Some(value) = rest.keys.remove(word) {
            shape.keys.insert(word.to_owned(), value);
        }
    }
    if !rest.keys.is_empty() {
        all_of(shape, vec![rest]);
    }
}

/// Merges parts into the existing schema: as one object if they do not contradict each other, otherwise as `allOf`.
/// Models handle one object better.
pub(super) fn all_of(shape: &mut Shape, parts: Vec<Shape>) {
    for part in &parts {
        shape.hidden.extend(part.hidden.iter().cloned());
    }
    let mut whole = shape.keys.clone();
    let mut is_one = true;
    for part in &parts {
        is_one = is_one && merged(&mut whole, &part.keys);
    }
    if is_one {
        if parts.len() > 1 || shape.keys.contains_key("properties") {
            // `additionalProperties: false` in one part would forbid the properties of the others.
            if whole.get("additionalProperties") == Some(&Value::Bool(false)) {
                whole.remove("additionalProperties");
            }
        }
        shape.keys = whole;
    } else {
        let parts = parts.into_iter().map(|part| Value::Object(part.keys)).collect();
        match shape.keys.get_mut("allOf") {
            Some(Value::Array(there)) => there.extend::<Vec<Value>>(parts),
            _ => {
                shape.keys.insert("allOf".to_owned(), Value::Array(parts));
            }
        }
    }
    let hidden = std::mem::take(&mut shape.hidden);
    if let Some(Value::Object(fields)) = shape.keys.get_mut("properties") {
        fields.retain(|name, _| !hidden.contains(name));
    }
    clean::finish(&mut shape.keys, &hidden);
    shape.hidden = hidden;
}

/// Merges `part` into `whole`. Returns whether this was possible.
fn merged(whole: &mut Map<String, Value>, part: &Map<String, Value>) -> bool {
    for (key, value) in part {
        let Some(there) = whole.get_mut(key) else {
            whole.insert(key.clone(), value.clone());
            continue;
        };
        if there == value || DESCRIBING.contains(&key.as_str()) {
            continue;
        }
        match (key.as_str(), there, value) {
            ("properties", Value::Object(there), Value::Object(more)) => {
                for (name, schema) in more {
                    match there.get(name) {
                        None => {
                            there.insert(name.clone(), schema.clone());
                        }
                        Some(same) if same == schema || *schema == json!({}) => {}
                        Some(open) if *open == json!({}) => {
                            there.insert(name.clone(), schema.clone());
                        }
                        Some(_) => return false,
                    }
                }
            }
            ("required", Value::Array(there), Value::Array(more)) => {
                for name in more {
                    if !there.contains(name) {
                        there.push(name.clone());
                    }
                }
            }
            ("additionalProperties", there, value) => {
                // The stricter of the two is used.
                if *there == Value::Bool(true) {
                    *there = value.clone();
                }
            }
            _ => return false,
        }
    }
    true
}
