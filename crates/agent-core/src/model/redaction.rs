//! Removes credentials from texts, in every encoding in which programs usually write them.
//!
//! A server that receives a credential can return it in an address, a JSON string or a web page, where it is percent
//! encoded, escaped, or part of a Base64 text. The text is decoded in rounds, each decoded byte keeps its place in the
//! original text, and after each round the forms of the credential are searched for.

use std::fmt;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use memchr::memmem;

use super::Secret;

#[cfg(test)]
mod tests;

/// The number of times a text is decoded: a credential that is encoded more often is not found.
pub const MAX_ENCODINGS: usize = 4;

/// The minimum size of an encoded form, in bytes. Shorter forms occur in ordinary words.
const MIN_FORM_BYTES: usize = 8;

/// The minimum size of a credential, in bytes. Shorter ones are not replaced.
const MIN_SECRET_BYTES: usize = 4;

/// The text that replaces a credential.
const MARK: &str = "****";

/// The maximum size of an escape sequence, in bytes. Longer ones do not stand for one character.
const MAX_ESCAPE_BYTES: usize = 12;

/// Replaces credentials in texts by `****`.
///
/// It finds a credential as it is; percent encoded, also in part or twice, in capital or small letters, with `+` for a
/// blank; escaped as in JSON, JavaScript or HTML; as hexadecimal digits; and in Base64 of both alphabets, also inside of
/// the Base64 text of a longer text such as `user:password`. It cannot find a credential that a server has changed in
/// another way, for example reversed or cut into pieces.
///
/// ```
/// use agent_core::{Redactor, Secret};
/// let redactor = Redactor::new([Secret::new("k/ey+with=signs")]);
/// assert_eq!(redactor.redact("GET /x?key=k%2fey%2Bwith%3Dsigns&n=1"), "GET /x?key=****&n=1");
/// ```
#[derive(Clone, Default)]
pub struct Redactor {
    forms: Vec<Form>,
}

/// Whether a text ends where its author ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TextEnd {
    /// The text is whole.
    #[default]
    Whole,
    /// The text was cut, so its end can be the beginning of a credential.
    Cut,
}

/// One form of a credential, folded.
#[derive(Clone)]
struct Form {
    bytes: Vec<u8>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    /// The characters at both ends also encode neighbouring bytes, so they are not part of the form.
    Base64,
    Hex,
}

impl Redactor {
    /// Creates a redactor of these credentials. Credentials below 4 bytes are ignored, because they occur in ordinary
    /// words.
    #[must_use]
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let mut forms = Vec::new();
        for secret in secrets {
            let bytes = secret.expose().as_bytes();
            if bytes.len() >= MIN_SECRET_BYTES {
                add_forms(bytes, &mut forms);
            }
        }
        Self { forms }
    }

    /// Returns `text` with every occurrence of a credential replaced.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        self.redact_until(text, TextEnd::Whole)
    }

    /// Returns `text` with every occurrence of a credential replaced. If the text was cut, the beginning of a credential
    /// at its end is replaced, too.
    #[must_use]
    pub fn redact_until(&self, text: &str, end: TextEnd) -> String {
        let mut found = Vec::new();
        let mut round = Decoded::of(text);
        for left in (0..MAX_ENCODINGS).rev() {
            self.find(&round, end, &mut found);
            match round.next().filter(|_| left > 0) {
                Some(next) => round = next,
                None => break,
            }
        }
        replaced(text, found)
    }

    /// Adds the ranges of the original text in which a form occurs.
    fn find(&self, text: &Decoded, end: TextEnd, found: &mut Vec<Range<usize>>) {
        let folded: Vec<u8> = text.bytes.iter().copied().map(fold).collect();
        for form in &self.forms {
            let mut add = |range: Range<usize>| {
                let range = if form.kind == Kind::Base64 { widened(&folded, range) } else { range };
                found.push(text.place(range.start)..text.place(range.end));
            };
            for start in memmem::find_iter(&folded, &form.bytes) {
                add(start..start + form.bytes.len());
            }
            if end == TextEnd::Cut {
                let longest = form.bytes.len().min(folded.len() + 1);
                let beginning = (MIN_SECRET_BYTES..longest)
                    .rev()
                    .find(|length| form.bytes.get(..*length).is_some_and(|part| folded.ends_with(part)));
                if let Some(length) = beginning {
                    add(folded.len() - length..folded.len());
                }
            }
        }
    }
}

/// Hides the credentials.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

fn add_forms(secret: &[u8], forms: &mut Vec<Form>) {
    let mut add = |bytes: Vec<u8>, kind| {
        if kind == Kind::Plain || bytes.len() >= MIN_FORM_BYTES {
            forms.push(Form { bytes: bytes.into_iter().map(fold).collect(), kind });
        }
    };
    add(secret.to_vec(), Kind::Plain);
    // What looks like an escape sequence in the credential is decoded with the text around it.
    let mut round = Decoded { bytes: secret.to_vec(), places: None, whole: secret.len() };
    for _ in 1..MAX_ENCODINGS {
        let Some(next) = round.next().filter(|next| next.bytes.len() >= MIN_SECRET_BYTES) else { break };
        add(next.bytes.clone(), Kind::Plain);
        round = next;
    }
    for digits in [b"0123456789abcdef", b"0123456789ABCDEF"] {
        let digit = |value: u8| digits.get(usize::from(value)).copied().unwrap_or_default();
        add(secret.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect(), Kind::Hex);
    }
    for before in 0..3_usize {
        // Bytes before the credential shift it. Only characters that encode nothing but the credential are searched for.
        let mut shifted = vec![0; before];
        shifted.extend_from_slice(secret);
        let encoded = STANDARD_NO_PAD.encode(&shifted).into_bytes();
        let first = (before * 8).div_ceil(6);
        let last = shifted.len() * 8 / 6;
        add(encoded.get(first..last).unwrap_or_default().to_vec(), Kind::Base64);
    }
}

/// Makes bytes equal that stand for each other: a blank is `+` in a query, and the two alphabets of Base64 differ in two
/// characters.
fn fold(byte: u8) -> u8 {
    match byte {
        b'+' | b'-' => b' ',
        b'_' => b'/',
        other => other,
    }
}

/// Adds the characters of a Base64 text that partly encode the credential, and the padding.
fn widened(folded: &[u8], range: Range<usize>) -> Range<usize> {
    let is_base64 = |place: usize| {
        folded.get(place).is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'/'))
    };
    let start = match range.start.checked_sub(1) {
        Some(before) if is_base64(before) => before,
        _ => range.start,
    };
    let mut end = if is_base64(range.end) { range.end + 1 } else { range.end };
    while folded.get(end) == Some(&b'=') {
        end += 1;
    }
    start..end
}

/// Returns the text without these ranges, which may overlap.
fn replaced(text: &str, mut found: Vec<Range<usize>>) -> String {
    if found.is_empty() {
        return text.to_owned();
    }
    found.sort_by_key(|range| (range.start, range.end));
    let mut result = String::with_capacity(text.len());
    let mut done = 0;
    let mut marked_to = None;
    for range in found {
        let (start, end) = (text.floor_char_boundary(range.start), text.ceil_char_boundary(range.end));
        if marked_to.is_none_or(|marked| start >= marked) {
            result.push_str(text.get(done..start).unwrap_or_default());
            result.push_str(MARK);
        }
        done = done.max(end);
        marked_to = Some(done);
    }
    result.push_str(text.get(done..).unwrap_or_default());
    result
}

/// A text after some rounds of decoding.
struct Decoded {
    bytes: Vec<u8>,
    /// The place in the original text at which each byte begins; `None` before the first round.
    places: Option<Vec<usize>>,
    /// The size of the original text.
    whole: usize,
}

impl Decoded {
    fn of(text: &str) -> Self {
        Self { bytes: text.as_bytes().to_vec(), places: None, whole: text.len() }
    }

    /// Returns the place in the original text of a byte, or the end of the text.
    fn place(&self, at: usize) -> usize {
        match &self.places {
            None => at,
            Some(places) => places.get(at).copied().unwrap_or(self.whole),
        }
    }

    /// Decodes the text once. Returns `None` if it has no encoded character.
    fn next(&self) -> Option<Self> {
        memchr::memchr3(b'%', b'\\', b'&', &self.bytes)?;
        let mut bytes = Vec::with_capacity(self.bytes.len());
        let mut places = Vec::with_capacity(self.bytes.len());
        let mut has_changed = false;
        let mut at = 0;
        while let Some(byte) = self.bytes.get(at) {
            let rest = self.bytes.get(at..).unwrap_or_default();
            let escape = match byte {
                b'%' => percent(rest),
                b'\\' => backslash(rest),
                b'&' => entity(rest),
                _ => None,
            };
            has_changed |= escape.is_some();
            let (character, size) = escape.unwrap_or((Escaped::Byte(*byte), 1));
            character.push_to(&mut bytes);
            // All bytes of a character begin at its escape sequence.
            places.resize(bytes.len(), self.place(at));
            at += size;
        }
        has_changed.then_some(Self { bytes, places: Some(places), whole: self.whole })
    }
}

/// What an escape sequence stands for.
#[derive(Clone, Copy)]
enum Escaped {
    Byte(u8),
    Char(char),
}

impl Escaped {
    fn push_to(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Byte(byte) => bytes.push(byte),
            Self::Char(c) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Reads `%2F` or `%u002F`.
fn percent(text: &[u8]) -> Option<(Escaped, usize)> {
    if let Some(value) = hex(text.get(1..3)) {
        return Some((Escaped::Byte(u8::try_from(value).ok()?), 3));
    }
    let (c, size) = unicode(text)?;
    Some((Escaped::Char(c), size))
}

/// Reads `\/`, `\n`, `\x2f` or `\u002f`.
fn backslash(text: &[u8]) -> Option<(Escaped, usize)> {
    let byte = match text.get(1)? {
        b'u' => return unicode(text).map(|(c, size)| (Escaped::Char(c), size)),
        b'x' => return Some((Escaped::Byte(u8::try_from(hex(text.get(2..4))?).ok()?), 4)),
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        byte if byte.is_ascii_punctuation() => *byte,
        _ => return None,
    };
    Some((Escaped::Byte(byte), 2))
}

/// Reads four digits after one byte and `u`, and the second half of a surrogate pair.
fn unicode(text: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let is_unit = text.get(at + 1) == Some(&b'u') && text.get(at) == text.first();
        hex(text.get(at + 2..at + 6)).filter(|_| is_unit).and_then(|unit| u16::try_from(unit).ok())
    };
    let first = unit(0)?;
    let pair = [first, unit(6).unwrap_or_default()];
    match char::decode_utf16(pair).next()? {
        Ok(c) => Some((c, 6 * c.len_utf16())),
        Err(_) => None,
    }
}

/// Reads `&amp;`, `&#47;` or `&#x2f;`.
fn entity(text: &[u8]) -> Option<(Escaped, usize)> {
    let limit = text.get(..MAX_ESCAPE_BYTES.min(text.len()))?;
    let end = memchr::memchr(b';', limit)?;
    let name = text.get(1..end)?;
    let c = match name {
        b"amp" => '&',
        b"lt" => '<',
        b"gt" => '>',
        b"quot" => '"',
        b"apos" => '\'',
        b"sol" => '/',
        b"plus" => '+',
        b"equals" => '=',
        b"num" => '#',
        b"percnt" => '%',
        b"colon" => ':',
        b"bsol" => '\\',
        [b'#', b'x' | b'X', digits @ ..] => char::from_u32(hex(Some(digits))?)?,
        [b'#', digits @ ..] => {
            let digits = std::str::from_utf8(digits).ok()?;
            char::from_u32(digits.parse().ok()?)?
        }
        _ => return None,
    };
    Some((Escaped::Char(c), end + 1))
}

/// Reads hexadecimal digits, without a sign.
fn hex(digits: Option<&[u8]>) -> Option<u32> {
    let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
