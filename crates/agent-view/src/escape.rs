//! The two ways in which text enters the document: escaped HTML, and JSON without `<`.

use std::io::{self, Write};

/// Appends `text` to `out` as the text of an HTML element or of a quoted attribute.
pub(crate) fn html(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\0' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

/// A writer for JSON inside of a `script` element. It replaces each `<` by its JSON escape, so that no data can end the
/// element or begin a comment. In JSON, `<` occurs in strings only.
#[derive(Debug)]
pub(crate) struct ScriptData<W> {
    out: W,
}

impl<W: Write> ScriptData<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out }
    }
}

impl<W: Write> Write for ScriptData<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut rest = data;
        while let Some(at) = memchr::memchr(b'<', rest) {
            let (before, after) = rest.split_at(at);
            self.out.write_all(before)?;
            self.out.write_all(b"\\u003c")?;
            rest = after.get(1..).unwrap_or_default();
        }
        self.out.write_all(rest)?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests;
