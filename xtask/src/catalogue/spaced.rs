//! JSON as the list is kept: an entry a line, a blank after each comma and colon, so that a change is a line in a diff.

use serde::Serialize as _;
use serde_json::ser::{Formatter, Serializer};

use super::Entry;

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + std::io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, out: &mut W) -> std::io::Result<()> {
        out.write_all(b": ")
    }
}

/// The whole list.
pub(super) fn lines(entries: &[Entry]) -> anyhow::Result<String> {
    let mut out = Vec::from(*b"[\n");
    for (n, entry) in entries.iter().enumerate() {
        out.extend_from_slice(b"  ");
        entry.serialize(&mut Serializer::with_formatter(&mut out, Spaced))?;
        out.extend_from_slice(if n + 1 < entries.len() { b",\n" } else { b"\n" });
    }
    out.extend_from_slice(b"]\n");
    Ok(String::from_utf8(out)?)
}
