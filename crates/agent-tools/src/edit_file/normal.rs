//! A form of a text in which small differences that models make are gone, and the way back to the bytes.

use std::ops::Range;

/// How much is made alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likeness {
    /// Only `\r\n` and `\n`. The model cannot see which of them a file has.
    LineEnds,
    /// Also blanks at line ends, the styles of quotes, dashes and spaces, and compatibility forms of letters.
    Style,
}

/// A text in such a form. It has the same number of lines as the text that it was made from.
#[derive(Debug, Clone, Default)]
pub(super) struct Normal {
    /// The form.
    pub(super) bytes: Vec<u8>,
    /// For each byte of the form, where the character that it came from begins and ends in the original.
    spans: Vec<(u32, u32)>,
    /// Whether blanks were taken from the end of the last line.
    pub(super) end_trimmed: bool,
}

impl Normal {
    /// The form of `original`. Bytes that are no UTF-8 become U+FFFD, as the model sees them.
    pub(super) fn of(original: &[u8], likeness: Likeness) -> Self {
        let mut normal = Self::default();
        let mut at = 0;
        for chunk in original.utf8_chunks() {
            let mut characters = chunk.valid().chars().peekable();
            while let Some(c) = characters.next() {
                let mut len = c.len_utf8();
                let c = match c {
                    '\r' if characters.peek() == Some(&'\n') => {
                        characters.next();
                        len += 1;
                        '\n'
                    }
                    c => c,
                };
                if c == '\n' && likeness == Likeness::Style {
                    normal.trim_line();
                }
                normal.push(c, at..at + len, likeness);
                at += len;
            }
            if !chunk.invalid().is_empty() {
                normal.push(char::REPLACEMENT_CHARACTER, at..at + chunk.invalid().len(), likeness);
                at += chunk.invalid().len();
            }
        }
        if likeness == Likeness::Style {
            normal.end_trimmed = normal.trim_line();
        }
        normal
    }

    /// The bytes of the original that this part of the form came from.
    pub(super) fn original(&self, part: &Range<usize>) -> Option<Range<usize>> {
        let start = self.spans.get(part.start)?.0;
        let end = self.spans.get(part.end.checked_sub(1)?)?.1;
        Some(start as usize..end as usize)
    }

    /// Whether a character of the original begins here, or the text ends. A character that stands for several, such
    /// as a ligature, cannot be replaced in part.
    pub(super) fn is_boundary(&self, at: usize) -> bool {
        match (at.checked_sub(1).and_then(|before| self.spans.get(before)), self.spans.get(at)) {
            (Some(before), Some(here)) => before.0 != here.0,
            (None, _) | (_, None) => true,
        }
    }

    fn push(&mut self, c: char, from: Range<usize>, likeness: Likeness) {
        let mut buffer = [0; 4];
        let span = (offset(from.start), offset(from.end));
        let mut put = |c: char| {
            let bytes = c.encode_utf8(&mut buffer).as_bytes();
            self.bytes.extend_from_slice(bytes);
            self.spans.extend(bytes.iter().map(|_| span));
        };
        match likeness {
            Likeness::LineEnds => put(c),
            Likeness::Style => match expanded(c) {
                Some(text) => text.chars().for_each(put),
                None => put(plain(c)),
            },
        }
    }

    /// Takes the blanks from the end of the last line; whether there were any.
    fn trim_line(&mut self) -> bool {
        let kept =
            self.bytes.iter().rposition(|byte| !matches!(byte, b' ' | b'\t')).map_or(0, |last| last + 1);
        let trimmed = kept < self.bytes.len();
        self.bytes.truncate(kept);
        self.spans.truncate(kept);
        trimmed
    }
}

/// Files have at most [`MAX_FILE_BYTES`](super::MAX_FILE_BYTES), so this never saturates for them; the texts of the
/// model are only searched for, their offsets are not used.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The plain character for one of its styles.
fn plain(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201B}' | '\u{2032}' | '\u{02BC}' | '\u{00B4}' | '\u{FF07}' => '\'',
        '\u{201C}'..='\u{201F}' | '\u{2033}' | '\u{00AB}' | '\u{00BB}' | '\u{FF02}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{FE58}' | '\u{FE63}' | '\u{FF0D}' => '-',
        '\u{00A0}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => ' ',
        // The full-width forms stand in the order of ASCII.
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(c as u32 - 0xFEE0).unwrap_or(c),
        c => c,
    }
}

/// The characters that one character stands for (a part of NFKC: what editors and models really produce).
fn expanded(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{2026}' => "...",
        '\u{FB00}' => "ff",
        '\u{FB01}' => "fi",
        '\u{FB02}' => "fl",
        '\u{FB03}' => "ffi",
        '\u{FB04}' => "ffl",
        '\u{2122}' => "TM",
        '\u{00B2}' => "2",
        '\u{00B3}' => "3",
        '\u{00B9}' => "1",
        '\u{00BD}' => "1/2",
        '\u{00BC}' => "1/4",
        '\u{00BE}' => "3/4",
        _ => return None,
    })
}
