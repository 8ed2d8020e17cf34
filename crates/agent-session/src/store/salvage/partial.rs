//! Reads the beginning of a truncated or invalid JSON text.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The depth of the lists whose last item is dropped if it is incomplete: the lists of a loop. Incomplete items of lists
/// above this depth are retained; those of lists below are dropped with the item that contains them.
const WHOLE_ITEMS: usize = 3;

/// Returns the value of the text up to the first error.
pub(super) fn read(bytes: &[u8]) -> Value {
    let mut value = Value::Null;
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    // The caller has the error from reading the whole text.
    let _ = Grow { into: &mut value, depth: 0 }.deserialize(&mut reader);
    value
}

/// Fills a value while reading, so that the parts before an error are retained.
struct Grow<'a> {
    into: &'a mut Value,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Grow<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Grow<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, v: bool) -> Result<(), E> {
        *self.into = Value::Bool(v);
        Ok(())
    }

    fn visit_i64<E>(self, v: i64) -> Result<(), E> {
        *self.into = v.into();
        Ok(())
    }

    fn visit_u64<E>(self, v: u64) -> Result<(), E> {
        *self.into = v.into();
        Ok(())
    }

    fn visit_f64<E>(self, v: f64) -> Result<(), E> {
        *self.into = v.into();
        Ok(())
    }

    fn visit_str<E>(self, v: &str) -> Result<(), E> {
        *self.into = Value::String(v.to_owned());
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        *self.into = Value::Null;
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        *self.into = Value::Array(Vec::new());
        let Value::Array(list) = self.into else { return Ok(()) };
        loop {
            list.push(Value::Null);
            let Some(last) = list.last_mut() else { return Ok(()) };
            match items.next_element_seed(Grow { into: last, depth: self.depth + 1 }) {
                Ok(Some(())) => {}
                Ok(None) => {
                    list.pop();
                    return Ok(());
                }
                Err(error) => {
                    if self.depth == WHOLE_ITEMS || last.is_null() {
                        list.pop();
                    }
                    return Err(error);
                }
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        *self.into = Value::Object(Map::new());
        let Value::Object(map) = self.into else { return Ok(()) };
        let mut last: Option<String> = None;
        loop {
            let key = match fields.next_key::<String>() {
                Ok(Some(key)) => key,
                Ok(None) => return Ok(()),
                Err(error) => {
                    // A number at the end of the text can be incomplete.
                    if let Some(last) = last
                        && map.get(&last).is_some_and(Value::is_number)
                    {
                        map.shift_remove(&last);
                    }
                    return Err(error);
                }
            };
            let mut value = Value::Null;
            let read = fields.next_value_seed(Grow { into: &mut value, depth: self.depth + 1 });
            // Of incomplete values only lists are useful.
            if read.is_ok() || value.is_array() {
                map.insert(key.clone(), value);
            }
            read?;
            last = Some(key);
        }
    }
}
