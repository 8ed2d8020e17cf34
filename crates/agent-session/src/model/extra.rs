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

    /// Returns the parts of an event of a loop, by its position. In form 1, the event is a member of an object with its
    /// number; unknown members of that object become members of the event.
    pub(crate) fn of_event(&self, at: usize) -> Option<Self> {
        let Self::Fields(fields) = self.item("events", at)? else { return None };
        let mut parts = Vec::new();
        for (key, extra) in fields {
            match extra {
                Self::Fields(inner) if key == "event" => parts.extend(inner.iter().cloned()),
                other => parts.push((key.clone(), other.clone())),
            }
        }
        Some(Self::Fields(parts))
    }

    /// Returns the parts of an item of a loop's list, by its position.
    pub(crate) fn item(&self, list: &str, at: usize) -> Option<&Self> {
        match self.field(list)? {
            Self::Items(items) => items.get(&at),
            _ => None,
        }
    }

    /// Returns whether a member of an object has parts that are not known.
    pub(crate) fn has_field(&self, name: &str) -> bool {
        self.field(name).is_some()
    }

    /// Adds members of an object.
    pub(crate) fn add(&mut self, more: Self) {
        match (&mut *self, more) {
            (Self::Fields(fields), Self::Fields(more)) => fields.extend(more),
            (Self::Nothing, more) => *self = more,
            _ => {}
        }
    }

    /// Returns the parts without members that are null: they say that a known member is absent.
    pub(crate) fn without_nulls(self) -> Self {
        match self {
            Self::Fields(fields) => {
                let fields: Vec<_> =
                    fields.into_iter().filter(|(_, extra)| *extra != Self::Whole(Value::Null)).collect();
                if fields.is_empty() { Self::Nothing } else { Self::Fields(fields) }
            }
            other => other,
        }
    }

    fn field(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Fields(fields) => fields.iter().find(|(key, _)| key == name).map(|(_, extra)| extra),
            _ => None,
        }
    }

    /// Returns the parts without those of the lists of a loop.
    pub(crate) fn without_lists(&self) -> Self {
        match self {
            Self::Fields(fields) => {
                let is_list = |key: &str| matches!(key, "messages" | "other_messages" | "events");
                Self::Fields(fields.iter().filter(|(key, _)| !is_list(key)).cloned().collect())
            }
            other => other.clone(),
        }
    }

    /// Adds the parts of an item of a loop's list.
    pub(crate) fn put_item(&mut self, list: &str, at: usize, extra: Self) {
        if extra == Self::Nothing {
            return;
        }
        if !matches!(self, Self::Fields(_)) {
            *self = Self::Fields(Vec::new());
        }
        let Self::Fields(fields) = self else { return };
        let place = match fields.iter().position(|(key, _)| key == list) {
            Some(place) => place,
            None => {
                fields.push((list.to_owned(), Self::Items(BTreeMap::new())));
                fields.len() - 1
            }
        };
        if let Some((_, Self::Items(items))) = fields.get_mut(place) {
            items.insert(at, extra);
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
