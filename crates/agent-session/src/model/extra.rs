//! Unknown parts of a file, which a later version wrote: retained beside the known parts and written back.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The parts of a JSON value that were not understood.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Extra {
    #[default]
    Nothing,
    /// A value under a key that is not known.
    Whole(Value),
    /// By key.
    Fields(Vec<(String, Extra)>),
    /// By place in a list.
    Items(BTreeMap<usize, Extra>),
}

impl Extra {
    /// Returns the parts of `read` that are not in `known`. Where both have a value, the known one is used.
    pub(crate) fn between(read: &Value, known: &Value) -> Self {
        match (read, known) {
            (Value::Object(read), Value::Object(known)) => {
                let mut fields = Vec::new();
                for (key, value) in read {
                    let extra = match known.get(key) {
                        Some(known) => Self::between(value, known),
                        None => Self::Whole(value.clone()),
                    };
                    if extra != Self::Nothing {
                        fields.push((key.clone(), extra));
                    }
                }
                if fields.is_empty() { Self::Nothing } else { Self::Fields(fields) }
            }
            (Value::Array(read), Value::Array(known)) => {
                let items: BTreeMap<usize, Self> = read
                    .iter()
                    .zip(known)
                    .map(|(r, k)| Self::between(r, k))
                    .enumerate()
                    .filter(|(_, e)| *e != Self::Nothing)
                    .collect();
                if items.is_empty() { Self::Nothing } else { Self::Items(items) }
            }
            _ => Self::Nothing,
        }
    }

    /// Inserts the parts where `value` has none of its own.
    pub(crate) fn merge_into(&self, value: &mut Value) {
        match (self, value) {
            (Self::Fields(fields), Value::Object(map)) => {
                for (key, extra) in fields {
                    extra.merge_field(map, key);
                }
            }
            (Self::Items(items), Value::Array(list)) => {
                for (at, extra) in items {
                    if let Some(item) = list.get_mut(*at) {
                        extra.merge_into(item);
                    }
                }
            }
            _ => {}
        }
    }

    fn merge_field(&self, map: &mut Map<String, Value>, key: &str) {
        match (self, map.get_mut(key)) {
            (Self::Whole(value), None) => {
                map.insert(key.to_owned(), value.clone());
            }
            (_, Some(known)) => self.merge_into(known),
            _ => {}
        }
    }
}
