//! Texts and numbers as JSON has them, at the speed of memory.

/// Eight times the same byte.
const fn all(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Whether one of eight bytes must be escaped: a quote, a backslash, or below a space.
fn has_escape(eight: u64) -> bool {
    let is_zero = |x: u64| x.wrapping_sub(all(1)) & !x & all(0x80);
    let below_space = eight.wrapping_sub(all(0x20)) & !eight & all(0x80);
    (below_space | is_zero(eight ^ all(b'"')) | is_zero(eight ^ all(b'\\'))) != 0
}

/// The first eight bytes or fewer, filled up with a byte that needs no escape.
fn filled(bytes: &[u8]) -> u64 {
    let mut eight = [b' '; 8];
    for (to, from) in eight.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_ne_bytes(eight)
}

/// Appends a text with its quotes.
#[inline]
pub(super) fn write_text(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let (chunks, rest) = bytes.as_chunks::<8>();
    let plain = chunks.iter().all(|c| !has_escape(u64::from_ne_bytes(*c)))
        && match bytes.last_chunk::<8>() {
            Some(last) => !has_escape(u64::from_ne_bytes(*last)),
            None => !has_escape(filled(rest)),
        };
    if plain {
        out.extend_from_slice(bytes);
    } else {
        write_escaped(out, bytes);
    }
    out.push(b'"');
}

fn write_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    let (chunks, rest) = bytes.as_chunks::<8>();
    // Where the bytes begin that need no escape and are not copied yet.
    let mut from = 0;
    for (n, chunk) in chunks.iter().enumerate() {
        if has_escape(u64::from_ne_bytes(*chunk)) {
            let at = n * 8;
            out.extend_from_slice(bytes.get(from..at).unwrap_or_default());
            chunk.iter().for_each(|b| write_byte(out, *b));
            from = at + 8;
        }
    }
    out.extend_from_slice(bytes.get(from..chunks.len() * 8).unwrap_or_default());
    rest.iter().for_each(|b| write_byte(out, *b));
}

fn write_byte(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0..0x20 => {
            let digit = |n: u8| if n < 10 { b'0' + n } else { b'a' + n - 10 };
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
            return;
        }
        plain => {
            out.push(plain);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// The most digits that a number has.
const DIGITS: usize = 20;

/// Appends a number.
pub(super) fn write_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; DIGITS];
    let mut used = 0;
    for digit in digits.iter_mut().rev() {
        // A digit fits a byte.
        *digit = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
        used += 1;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(DIGITS - used..).unwrap_or_default());
}
