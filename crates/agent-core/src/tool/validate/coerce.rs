//! Converts values whose intended type is unambiguous.

use serde_json::{Number, Value};

/// A type of JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

static ALL: [Type; 7] =
    [Type::Null, Type::Boolean, Type::Integer, Type::Number, Type::String, Type::Array, Type::Object];

impl Type {
    /// Returns the type with this name in schemas.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|t| t.name() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }

    /// Returns the narrowest type of a value.
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(n) if is_integer(n) => Self::Integer,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        }
    }

    /// Returns whether a value has this type. An integer is also a number.
    pub(super) fn holds(self, value: &Value) -> bool {
        let narrowest = Self::of(value);
        narrowest == self || (self == Self::Number && narrowest == Self::Integer)
    }
}

fn is_integer(n: &Number) -> bool {
    n.is_i64() || n.is_u64() || n.as_f64().is_some_and(|f| f.fract() == 0.0)
}

/// Converts a value that has none of the `wanted` types into one of them, if the conversion is lossless and
/// unambiguous.
pub(super) fn coerced(value: &Value, wanted: &[Type]) -> Option<Value> {
    let wants = |t: Type| wanted.contains(&t);
    match value {
        Value::String(text) => {
            let trimmed = text.trim();
            if (wants(Type::Integer) || wants(Type::Number))
                && let Some(number) = number(trimmed, wants(Type::Number))
            {
                return Some(number);
            }
            if wants(Type::Boolean) {
                match trimmed {
                    "true" | "True" => return Some(Value::Bool(true)),
                    "false" | "False" => return Some(Value::Bool(false)),
                    _ => {}
                }
            }
            if wants(Type::Null) && matches!(trimmed, "null" | "None") {
                return Some(Value::Null);
            }
            structure(trimmed, wants(Type::Object), wants(Type::Array))
        }
        Value::Number(n) if wants(Type::String) => Some(Value::String(n.to_string())),
        Value::Bool(b) if wants(Type::String) => Some(Value::String(b.to_string())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns a number such as `3.0` as an integer, because serde accepts only that form for an integer type.
pub(super) fn whole(value: &Value) -> Option<Value> {
    /// The largest number up to which a double represents every integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let Value::Number(number) = value else { return None };
    let float = number.as_f64().filter(|f| number.is_f64() && f.fract() == 0.0 && f.abs() <= EXACT)?;
    #[expect(clippy::cast_possible_truncation, reason = "the value is whole and in the range of an i64")]
    let integer = float as i64;
    Some(Value::from(integer))
}

/// Parses a number in JSON syntax. Texts such as `1_000`, `inf` and `0x10` are not numbers.
fn number(text: &str, fractions: bool) -> Option<Value> {
    let number: Number = serde_json::from_str(text).ok()?;
    if !fractions && !is_integer(&number) {
        return None;
    }
    let number = Value::Number(number);
    Some(if fractions { number } else { whole(&number).unwrap_or(number) })
}

/// Returns the object that a model has sent as the text of a JSON string; other values as they are.
pub(crate) fn unquoted(value: &Value) -> Value {
    let object = value.as_str().and_then(|text| structure(text.trim(), true, false));
    object.unwrap_or_else(|| value.clone())
}

/// Parses an object or a list that was sent as text.
fn structure(text: &str, object: bool, array: bool) -> Option<Value> {
    let likely = (object && text.starts_with('{')) || (array && text.starts_with('['));
    if !likely {
        return None;
    }
    serde_json::from_str(text).ok()
}
