//! Writes strings and numbers as JSON, eight bytes at a time.

/// Returns a number of eight equal bytes.
const fn all(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Sets the highest bit of each of eight bytes that needs an escape: quotes, backslashes and control characters. Only the
/// lowest set bit is reliable.
fn escapes(eight: u64) -> u64 {
    let is_zero = |x: u64| x.wrapping_sub(all(1)) & !x;
    let below_space = eight.wrapping_sub(all(0x20)) & !eight;
    (below_space | is_zero(eight ^ all(b'"')) | is_zero(eight ^ all(b'\\'))) & all(0x80)
}

/// Fills fewer than eight bytes up with a byte that needs no escape.
fn filled(bytes: &[u8]) -> u64 {
    let mut eight = [b' '; 8];
    for (to, from) in eight.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(eight)
}

/// Appends a text with its quotes.
#[inline]
pub(super) fn write_text(out: &mut Vec<u8>, text: &str) {
    let mut bytes = text.as_bytes();
    // Capacity for some escapes, so that few texts need more.
    out.reserve(bytes.len() + bytes.len() / 16 + 2);
    out.push(b'"');
    let mut plain = 0;
    while let Some(eight) = bytes.get(plain..).and_then(<[u8]>::first_chunk::<8>) {
        let marks = escapes(u64::from_le_bytes(*eight));
        if marks == 0 {
            plain += 8;
            continue;
        }
        // At most 7.
        plain += usize::try_from(marks.trailing_zeros() / 8).unwrap_or_default();
        bytes = write_escaped(out, bytes, plain);
        plain = 0;
    }
    // Fewer than eight bytes behind `plain`.
    while let marks @ 1.. = escapes(filled(bytes.get(plain..).unwrap_or_default())) {
        plain += usize::try_from(marks.trailing_zeros() / 8).unwrap_or_default();
        bytes = write_escaped(out, bytes, plain);
        plain = 0;
    }
    out.extend_from_slice(bytes);
    out.push(b'"');
}

/// Appends so many bytes and the escape of the next one, and returns the rest.
#[inline]
fn write_escaped<'t>(out: &mut Vec<u8>, bytes: &'t [u8], plain: usize) -> &'t [u8] {
    let (before, rest) = bytes.split_at(plain.min(bytes.len()));
    out.extend_from_slice(before);
    let Some((byte, rest)) = rest.split_first() else { return rest };
    write_byte(out, *byte);
    rest
}

/// Appends the escape of a byte that must be escaped.
fn write_byte(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            let digit = |n: u8| if n < 10 { b'0' + n } else { b'a' + n - 10 };
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// The maximum number of digits.
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
