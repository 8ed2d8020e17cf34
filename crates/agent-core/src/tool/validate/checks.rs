//! Checks of a single value, without its members or items.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::coerce::Type;

/// Returns a reason for each bound that the value violates.
pub(super) fn broken_bounds(schema: &Map<String, Value>, value: &Value) -> Vec<String> {
    match value {
        Value::Number(_) => broken_number_bounds(schema, value.as_f64().unwrap_or_default()),
        Value::String(text) => {
            broken_lengths(schema, ["minLength", "maxLength"], || text.chars().count(), "character")
        }
        Value::Array(items) => broken_lengths(schema, ["minItems", "maxItems"], || items.len(), "item"),
        Value::Null | Value::Bool(_) | Value::Object(_) => Vec::new(),
    }
}

/// Checks a length. A bound that is not a whole number is ignored.
fn broken_lengths(
    schema: &Map<String, Value>,
    [least, most]: [&str; 2],
    length: impl Fn() -> usize,
    unit: &str,
) -> Vec<String> {
    let bound = |key: &str| keyword(schema, key).and_then(Value::as_u64);
    let less = bound(least).filter(|n| (length() as u64) < *n);
    let more = bound(most).filter(|n| (length() as u64) > *n);
    let less = less.map(|n| format!("must have at least {n} {unit}(s)"));
    less.into_iter().chain(more.map(|n| format!("must have at most {n} {unit}(s)"))).collect()
}

fn broken_number_bounds(schema: &Map<String, Value>, n: f64) -> Vec<String> {
    let mut out = Vec::new();
    let mut check = |key: &str, holds: &dyn Fn(f64) -> bool, sign: &str| {
        if let Some(bound) = keyword(schema, key)
            && bound.as_f64().is_some_and(|b| !holds(b))
        {
            out.push(format!("must be {sign} {bound}"));
        }
    };
    // In draft 4, an exclusive bound is a flag beside the bound.
    let flag = |key: &str| keyword(schema, key).and_then(Value::as_bool).unwrap_or(false);
    if flag("exclusiveMinimum") {
        check("minimum", &|b| n > b, ">");
    } else {
        check("minimum", &|b| n >= b, ">=");
    }
    if flag("exclusiveMaximum") {
        check("maximum", &|b| n < b, "<");
    } else {
        check("maximum", &|b| n <= b, "<=");
    }
    check("exclusiveMinimum", &|b| n > b, ">");
    check("exclusiveMaximum", &|b| n < b, "<");
    check("multipleOf", &|b| is_multiple(n, b), "a multiple of");
    out
}

/// Returns whether `n` is a multiple of `of`, within the precision of a double: 0.3 is a multiple of 0.1.
fn is_multiple(n: f64, of: f64) -> bool {
    if of <= 0.0 || !of.is_finite() || !n.is_finite() {
        return true;
    }
    let ratio = n / of;
    (ratio - ratio.round()).abs() <= 1e-9 * ratio.abs().max(1.0)
}

/// Returns a keyword of a schema. Most schemas have few keywords, and comparing all of them is faster than hashing
/// one.
pub(super) fn keyword<'s>(schema: &'s Map<String, Value>, name: &str) -> Option<&'s Value> {
    const FEW: usize = 8;
    if schema.len() > FEW {
        return schema.get(name);
    }
    schema.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// Returns the types that a schema allows; empty if it allows all types.
pub(super) fn types(schema: &Map<String, Value>) -> Cow<'static, [Type]> {
    let types: Cow<'static, [Type]> = match keyword(schema, "type") {
        Some(Value::String(name)) => Cow::Borrowed(Type::named(name).map_or(&[], std::slice::from_ref)),
        Some(Value::Array(names)) => {
            let known: Vec<Type> =
                names.iter().filter_map(Value::as_str).filter_map(Type::named).copied().collect();
            // A list with an unknown name may allow a type that cannot be checked here.
            if known.len() == names.len() { Cow::Owned(known) } else { Cow::Borrowed(&[]) }
        }
        _ => Cow::Borrowed(&[]),
    };
    if !types.is_empty() && keyword(schema, "nullable").and_then(Value::as_bool).unwrap_or(false) {
        let mut types = types.into_owned();
        types.push(Type::Null);
        return Cow::Owned(types);
    }
    types
}

/// Returns whether two values are equal as JSON Schema defines it: 1 and 1.0 are the same number.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            x == y
                || (x.is_f64() || y.is_f64())
                    && x.as_f64().zip(y.as_f64()).is_some_and(|(x, y)| x.total_cmp(&y).is_eq())
        }
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(k, v)| y.get(k).is_some_and(|w| same(v, w)))
        }
        _ => a == b,
    }
}
