//! A serializer for the JSON of a journal.
//!
//! It writes the same JSON as [`pack`](crate::model::texts::pack) of the value, mostly without an intermediate tree:
//! references instead of known long texts, deeply nested parts as text, and marks around objects that look like one of
//! these. It builds a tree only for the parts that need one.

mod object;

use serde::ser::{
    SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple, SerializeTupleStruct,
    SerializeTupleVariant,
};
use serde::{Serialize, Serializer};
use serde_json::{Error, Value, json};

use self::object::Object;
use super::seen::SeenTexts;
use super::text::{write_number, write_text};
use crate::model::texts::{LONG_TEXT, MAX_DEPTH, TEXT, pack_at};

/// The number of remaining levels above which a value is written directly. A variant with fields takes two levels.
const SPARE: usize = 3;

/// Appends `value` to `out`.
pub(crate) fn write<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    value: &T,
    texts: &mut SeenTexts,
) -> Result<(), Error> {
    value.serialize(&mut Writer { out, texts, depth: MAX_DEPTH, is_key: false })
}

/// The serializer.
pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    texts: &'a mut SeenTexts,
    /// The number of levels that remain for the next value.
    depth: usize,
    is_key: bool,
}

impl Writer<'_> {
    #[inline]
    fn child<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        if self.depth <= SPARE { self.deep(value) } else { value.serialize(self) }
    }

    /// Writes a value that can be nested too deeply by way of a tree.
    #[cold]
    fn deep<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let value = serde_json::to_value(value)?;
        self.whole(value)
    }

    fn whole(&mut self, value: Value) -> Result<(), Error> {
        let texts = &mut *self.texts;
        let packed = pack_at(value, self.depth, &mut |text| texts.place_of(text).map(|n| json!(n)));
        serde_json::to_writer(&mut *self.out, &packed)
    }

    /// Writes a key that is a literal of the source code and needs no escapes.
    #[inline]
    fn name(&mut self, name: &'static str) {
        self.out.reserve(name.len() + 3);
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }
}

/// A list or an object that is being written.
pub(super) struct Level<'b, 'a> {
    writer: &'b mut Writer<'a>,
    is_first: bool,
    /// The closing text.
    end: &'static str,
    /// The number of levels that it takes.
    levels: usize,
}

impl<'b, 'a> Level<'b, 'a> {
    #[inline]
    fn open(writer: &'b mut Writer<'a>, begin: &str, end: &'static str, levels: usize) -> Self {
        writer.out.extend_from_slice(begin.as_bytes());
        writer.depth -= levels;
        Self { writer, is_first: true, end, levels }
    }

    #[inline]
    fn comma(&mut self) {
        if !self.is_first {
            self.writer.out.push(b',');
        }
        self.is_first = false;
    }

    #[inline]
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.comma();
        self.writer.child(value)
    }

    #[inline]
    fn field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        self.comma();
        self.writer.name(key);
        self.writer.child(value)
    }

    #[inline]
    fn close(self) {
        self.writer.out.extend_from_slice(self.end.as_bytes());
        self.writer.depth += self.levels;
    }
}

macro_rules! numbers {
    ($($name:ident: $type:ty),* $(,)?) => {
        $(#[inline]
        fn $name(self, v: $type) -> Result<(), Error> {
            if v < 0 {
                self.out.push(b'-');
            }
            write_number(self.out, u64::from(v.unsigned_abs()));
            Ok(())
        })*
    };
}

macro_rules! naturals {
    ($($name:ident: $type:ty),* $(,)?) => {
        $(#[inline]
        fn $name(self, v: $type) -> Result<(), Error> {
            write_number(self.out, u64::from(v));
            Ok(())
        })*
    };
}

macro_rules! rare {
    ($($name:ident: $type:ty),* $(,)?) => {
        $(fn $name(self, v: $type) -> Result<(), Error> {
            serde_json::to_writer(&mut *self.out, &v)
        })*
    };
}

impl<'b, 'a> Serializer for &'b mut Writer<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Level<'b, 'a>;
    type SerializeTuple = Level<'b, 'a>;
    type SerializeTupleStruct = Level<'b, 'a>;
    type SerializeTupleVariant = Level<'b, 'a>;
    type SerializeMap = Object<'b, 'a>;
    type SerializeStruct = Level<'b, 'a>;
    type SerializeStructVariant = Level<'b, 'a>;

    numbers!(serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64);
    naturals!(serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64);
    rare!(serialize_f32: f32, serialize_f64: f64, serialize_i128: i128, serialize_u128: u128);

    #[inline]
    fn serialize_bool(self, v: bool) -> Result<(), Error> {
        self.out.extend_from_slice(if v { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_char(self, v: char) -> Result<(), Error> {
        write_text(self.out, v.encode_utf8(&mut [0; 4]));
        Ok(())
    }

    fn serialize_bytes(self, v: &[u8]) -> Result<(), Error> {
        let mut list = self.serialize_seq(Some(v.len()))?;
        for byte in v {
            list.item(byte)?;
        }
        list.close();
        Ok(())
    }

    #[inline]
    fn serialize_str(self, text: &str) -> Result<(), Error> {
        if text.len() >= LONG_TEXT
            && !self.is_key
            && let Some(number) = self.texts.place_of(text)
        {
            self.out.push(b'{');
            self.name(TEXT);
            write_number(self.out, number);
            self.out.push(b'}');
            return Ok(());
        }
        write_text(self.out, text);
        Ok(())
    }

    #[inline]
    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    #[inline]
    fn serialize_unit(self) -> Result<(), Error> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        write_text(self.out, variant);
        Ok(())
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let mut level = Level::open(self, "{", "}", 1);
        level.field(variant, value)?;
        level.close();
        Ok(())
    }

    #[inline]
    fn serialize_seq(self, _: Option<usize>) -> Result<Level<'b, 'a>, Error> {
        Ok(Level::open(self, "[", "]", 1))
    }

    fn serialize_tuple(self, _: usize) -> Result<Level<'b, 'a>, Error> {
        Ok(Level::open(self, "[", "]", 1))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Level<'b, 'a>, Error> {
        Ok(Level::open(self, "[", "]", 1))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Level<'b, 'a>, Error> {
        self.out.push(b'{');
        self.name(variant);
        Ok(Level::open(self, "[", "]}", 2))
    }

    #[inline]
    fn serialize_map(self, length: Option<usize>) -> Result<Object<'b, 'a>, Error> {
        Ok(Object::Fresh(self, length))
    }

    #[inline]
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Level<'b, 'a>, Error> {
        Ok(Level::open(self, "{", "}", 1))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Level<'b, 'a>, Error> {
        self.out.push(b'{');
        self.name(variant);
        Ok(Level::open(self, "{", "}}", 2))
    }
}

macro_rules! lists {
    ($($trait:ident: $method:ident),* $(,)?) => {
        $(impl $trait for Level<'_, '_> {
            type Ok = ();
            type Error = Error;

            #[inline]
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.item(value)
            }

            #[inline]
            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        })*
    };
}

lists! {
    SerializeSeq: serialize_element, SerializeTuple: serialize_element, SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field,
}

macro_rules! fields {
    ($($trait:ident),* $(,)?) => {
        $(impl $trait for Level<'_, '_> {
            type Ok = ();
            type Error = Error;

            #[inline]
            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
                self.field(key, value)
            }

            #[inline]
            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        })*
    };
}

fields!(SerializeStruct, SerializeStructVariant);
