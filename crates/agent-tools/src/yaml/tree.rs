//! Builds a tree of JSON values from a YAML text, with limits on its size.
//!
//! An alias repeats the values of its anchor, so a short text can describe a large tree. The values and the bytes of
//! texts are therefore counted while the tree is built.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The number of values and the bytes of texts that are still allowed.
pub(crate) struct Budget {
    values: usize,
    bytes: usize,
    spent: Option<Limit>,
}

/// The limit that a text exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Values,
    Bytes,
}

impl Budget {
    pub(crate) fn new(values: usize, bytes: usize) -> Self {
        Self { values, bytes, spent: None }
    }

    /// Returns the limit that the text exceeded, which is then the cause of the parser's error.
    #[cfg(feature = "openapi")]
    pub(crate) fn exceeded(&self) -> Option<Limit> {
        self.spent
    }

    fn value<E: Error>(&mut self) -> Result<(), E> {
        match self.values.checked_sub(1) {
            Some(left) => self.values = left,
            None => return Err(self.spent(Limit::Values)),
        }
        Ok(())
    }

    fn text<E: Error>(&mut self, text: &str) -> Result<(), E> {
        match self.bytes.checked_sub(text.len()) {
            Some(left) => self.bytes = left,
            None => return Err(self.spent(Limit::Bytes)),
        }
        Ok(())
    }

    fn spent<E: Error>(&mut self, limit: Limit) -> E {
        self.spent = Some(limit);
        E::custom("it has too many values, or its aliases expand to too much; write it shorter")
    }
}

/// Builds a value within a budget.
pub(crate) struct Tree<'a>(pub(crate) &'a mut Budget);

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.0.value()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Value, E> {
        Number::from_i128(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Value, E> {
        Number::from_u128(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.0.text(value)?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Tree(&mut *self.0))? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key_seed(Name(&mut *self.0))? {
            object.insert(name, fields.next_value_seed(Tree(&mut *self.0))?);
        }
        Ok(Value::Object(object))
    }
}

/// The name of a field. A number such as the `200` of a response is taken as its text.
struct Name<'a>(&'a mut Budget);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text as the name of a field")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<String, E> {
        self.0.text(value)?;
        Ok(value.to_owned())
    }
}

/// Replaces each `<<` by the fields of its value. The fields of the object itself take precedence, and those of earlier
/// values over those of later ones. Values are moved, so the tree does not grow.
#[cfg(feature = "openapi")]
pub(crate) fn merged(value: Value) -> Result<Value, yaml_serde::Error> {
    match value {
        Value::Array(items) => items.into_iter().map(merged).collect::<Result<_, _>>().map(Value::Array),
        Value::Object(fields) => {
            let (mut object, mut sources) = (Map::new(), Vec::new());
            for (name, value) in fields {
                match (name.as_str(), merged(value)?) {
                    ("<<", Value::Array(items)) => sources.extend(items),
                    ("<<", source) => sources.push(source),
                    (_, value) => {
                        object.insert(name, value);
                    }
                }
            }
            for source in sources {
                let Value::Object(fields) = source else {
                    return Err(Error::custom(
                        "the value of a merge key is neither an object nor a list of objects",
                    ));
                };
                for (name, value) in fields {
                    object.entry(name).or_insert(value);
                }
            }
            Ok(Value::Object(object))
        }
        other => Ok(other),
    }
}
