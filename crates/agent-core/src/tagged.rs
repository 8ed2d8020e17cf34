//! Reads objects in which one field, the tag, determines the type of the others.
//!
//! Serde's own tagged enums copy every object before they read it, and each level of a message is such an object. Here
//! an object is read directly if its tag is the first field, as this library writes it, and copied otherwise.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};

/// A type whose JSON object has a tag.
pub(crate) trait Tagged: Sized {
    /// The name of the field with the tag.
    const TAG: &'static str;
    /// The values of the tag.
    type Tag: DeserializeOwned;

    /// Reads the fields of an object with this tag.
    fn read<'de, D: Deserializer<'de>>(tag: Self::Tag, fields: D) -> Result<Self, D::Error>;

    /// Returns the error of an object without a tag.
    fn missing() -> String {
        format!("missing field `{}`", Self::TAG)
    }
}

/// Reads an object with a tag.
pub(crate) fn deserialize<'de, T: Tagged, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_map(Object(PhantomData))
}

struct Object<T>(PhantomData<T>);

impl<'de, T: Tagged> Visitor<'de> for Object<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with the field `{}`", T::TAG)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let Some(first) = map.next_key::<String>()? else { return Err(A::Error::custom(T::missing())) };
        if first == T::TAG {
            let tag = map.next_value()?;
            return T::read(tag, MapAccessDeserializer::new(map));
        }
        let mut fields = Map::new();
        fields.insert(first, map.next_value()?);
        while let Some((key, value)) = map.next_entry::<String, Value>()? {
            fields.insert(key, value);
        }
        let tag = fields.shift_remove(T::TAG).ok_or_else(|| A::Error::custom(T::missing()))?;
        let tag = T::Tag::deserialize(tag).map_err(A::Error::custom)?;
        T::read(tag, Value::Object(fields)).map_err(A::Error::custom)
    }
}
