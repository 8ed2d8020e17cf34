//! Token counts as vendors send them.
//!
//! A reply is worth more than its token counts, so a count that cannot be read never fails the reply. It stays unknown, and
//! the decoder reports it as unrecognised.

use std::fmt;
use std::marker::PhantomData;

use agent_core::{EventSink, StreamEvent};
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, Visitor};

#[cfg(test)]
mod tests;

/// The largest count that a float represents exactly. Larger floats are not counts.
const MAX_FLOAT: f64 = 9_007_199_254_740_992.0;

/// A token count in a reply. Fractions are truncated, and strings of digits are parsed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tokens {
    /// The member is missing or null.
    #[default]
    Absent,
    /// The member is a count.
    Known(u64),
    /// The member is not a count: a negative number, a text, a bool, a list or an object.
    Unreadable,
}

impl Tokens {
    /// Returns the count if it is known.
    pub(crate) fn known(self) -> Option<u64> {
        match self {
            Self::Known(count) => Some(count),
            Self::Absent | Self::Unreadable => None,
        }
    }

    /// Returns this count, or the other one if this one is not known.
    pub(crate) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Known(_), _) | (_, Self::Absent) => self,
            _ => other,
        }
    }

    /// Returns the count, or 0 if it is not known.
    pub(crate) fn or_zero(self) -> u64 {
        self.known().unwrap_or(0)
    }
}

/// Returns the largest known one of several names of one count.
pub(crate) fn largest(names: &[Tokens]) -> Option<u64> {
    names.iter().filter_map(|tokens| tokens.known()).max()
}

/// Reports each unreadable count.
pub(crate) fn report(unreadable: usize, sink: &mut EventSink<'_>) {
    for _ in 0..unreadable {
        sink(StreamEvent::Unrecognised { name: "a token count that is not a number" });
    }
}

/// Returns how many of these counts are unreadable.
pub(crate) fn unreadable(counts: &[Tokens]) -> usize {
    counts.iter().filter(|tokens| **tokens == Tokens::Unreadable).count()
}

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TokensVisitor)
    }
}

struct TokensVisitor;

impl<'de> Visitor<'de> for TokensVisitor {
    type Value = Tokens;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a token count")
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Tokens, E> {
        Ok(Tokens::Known(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Tokens, E> {
        Ok(u64::try_from(value).map_or(Tokens::Unreadable, Tokens::Known))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked, and a fraction of a token means nothing"
    )]
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Tokens, E> {
        let fits = (0.0..=MAX_FLOAT).contains(&value);
        Ok(if fits { Tokens::Known(value as u64) } else { Tokens::Unreadable })
    }

    fn visit_unit<E: de::Error>(self) -> Result<Tokens, E> {
        Ok(Tokens::Absent)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Tokens, E> {
        Ok(text.trim().parse().map_or(Tokens::Unreadable, Tokens::Known))
    }

    fn visit_bool<E: de::Error>(self, _value: bool) -> Result<Tokens, E> {
        Ok(Tokens::Unreadable)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Tokens, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Tokens::Unreadable)
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Tokens, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Tokens::Unreadable)
    }
}

/// An object of counts.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counts<T> {
    /// The member is missing, null or an empty list, which some servers write for an empty object.
    #[default]
    Absent,
    /// The member is an object.
    Given(T),
    /// The member has another type.
    Unreadable,
}

impl<T> Counts<T> {
    /// Returns whether the member is present.
    pub(crate) fn is_present(&self) -> bool {
        !matches!(self, Self::Absent)
    }

    /// Returns the object if there is one.
    pub(crate) fn given(self) -> Option<T> {
        match self {
            Self::Given(counts) => Some(counts),
            Self::Absent | Self::Unreadable => None,
        }
    }

    /// Returns 1 if the member is unreadable, otherwise the result of `inside` for the object.
    pub(crate) fn unreadable(&self, inside: impl FnOnce(&T) -> usize) -> usize {
        match self {
            Self::Absent => 0,
            Self::Given(counts) => inside(counts),
            Self::Unreadable => 1,
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Counts<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountsVisitor(PhantomData))
    }
}

struct CountsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for CountsVisitor<T> {
    type Value = Counts<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of token counts")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(de::value::MapAccessDeserializer::new(map)).map(Counts::Given)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Counts::Absent)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut empty = true;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            empty = false;
        }
        Ok(if empty { Counts::Absent } else { Counts::Unreadable })
    }

    fn visit_bool<E: de::Error>(self, _value: bool) -> Result<Self::Value, E> {
        Ok(Counts::Unreadable)
    }

    fn visit_u64<E: de::Error>(self, _value: u64) -> Result<Self::Value, E> {
        Ok(Counts::Unreadable)
    }

    fn visit_i64<E: de::Error>(self, _value: i64) -> Result<Self::Value, E> {
        Ok(Counts::Unreadable)
    }

    fn visit_f64<E: de::Error>(self, _value: f64) -> Result<Self::Value, E> {
        Ok(Counts::Unreadable)
    }

    fn visit_str<E: de::Error>(self, _text: &str) -> Result<Self::Value, E> {
        Ok(Counts::Unreadable)
    }
}
