//! Objects whose keys are data, so that a key can look like a mark.

use serde::Serialize;
use serde::ser::{Error as _, SerializeMap};
use serde_json::{Error, Map, Value};

use super::{Level, Writer};
use crate::model::texts::is_marked_key;

/// An object whose keys are data.
pub(in crate::store::journal) enum Object<'b, 'a> {
    /// The first key is not known yet.
    Fresh(&'b mut Writer<'a>, Option<usize>),
    Open(Level<'b, 'a>),
    /// The object looks like a mark and is collected, to be written as a whole.
    Whole {
        writer: &'b mut Writer<'a>,
        map: Map<String, Value>,
        key: String,
    },
    /// The state during a call.
    Gone,
}

/// Writes a key as a JSON string, and returns it if it looks like a mark.
fn write_key<T: Serialize + ?Sized>(writer: &mut Writer<'_>, key: &T) -> Result<Option<String>, Error> {
    let from = writer.out.len();
    writer.is_key = true;
    let written = key.serialize(&mut *writer);
    writer.is_key = false;
    written?;
    let is_text = writer.out.get(from) == Some(&b'"');
    if !is_text {
        writer.out.insert(from, b'"');
        writer.out.push(b'"');
        return Ok(None);
    }
    let inner = writer.out.get(from + 1..writer.out.len() - 1).unwrap_or_default();
    if inner.first() != Some(&b'$') {
        return Ok(None);
    }
    Ok(std::str::from_utf8(inner).ok().filter(|k| is_marked_key(k)).map(str::to_owned))
}

fn misused() -> Error {
    Error::custom("a value of an object came without its key")
}

impl SerializeMap for Object<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        match std::mem::replace(self, Object::Gone) {
            Object::Fresh(writer, length) => {
                let from = writer.out.len();
                writer.out.push(b'{');
                let marked = write_key(writer, key)?;
                // Only an object of one key can look like a mark.
                if length.is_none_or(|n| n == 1)
                    && let Some(key) = marked
                {
                    writer.out.truncate(from);
                    *self = Object::Whole { writer, map: Map::new(), key };
                    return Ok(());
                }
                writer.out.push(b':');
                let mut level = Level::open(writer, "", "}", 1);
                level.is_first = false;
                *self = Object::Open(level);
            }
            Object::Open(mut level) => {
                level.comma();
                write_key(level.writer, key)?;
                level.writer.out.push(b':');
                *self = Object::Open(level);
            }
            Object::Whole { writer, map, .. } => {
                let key = match serde_json::to_value(key)? {
                    Value::String(key) => key,
                    other => other.to_string(),
                };
                *self = Object::Whole { writer, map, key };
            }
            Object::Gone => return Err(misused()),
        }
        Ok(())
    }

    #[inline]
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        match self {
            Object::Open(level) => level.writer.child(value),
            Object::Whole { map, key, .. } => {
                map.insert(std::mem::take(key), serde_json::to_value(value)?);
                Ok(())
            }
            Object::Fresh(..) | Object::Gone => Err(misused()),
        }
    }

    fn end(self) -> Result<(), Error> {
        match self {
            Object::Fresh(writer, _) => writer.out.extend_from_slice(b"{}"),
            Object::Open(level) => level.close(),
            Object::Whole { writer, map, .. } => writer.whole(Value::Object(map))?,
            Object::Gone => return Err(misused()),
        }
        Ok(())
    }
}
