//! Counts the values of a JSON text without parsing it.

/// Returns whether a JSON text has more than `max` values. Each value is preceded by a comma or the beginning of a list
/// or an object, so no value needs to be read.
pub(crate) fn exceed(text: &[u8], max: usize) -> bool {
    let mut values = 1_usize;
    let mut rest = text;
    loop {
        // Outside of strings.
        let Some(quote) = memchr::memchr(b'"', rest) else {
            return values.saturating_add(separators(rest)) > max;
        };
        let (before, after) = rest.split_at(quote);
        values = values.saturating_add(separators(before));
        if values > max {
            return true;
        }
        rest = after.get(1..).unwrap_or_default();
        // Inside of a string.
        loop {
            let Some(place) = memchr::memchr2(b'"', b'\\', rest) else { return false };
            let is_escape = rest.get(place) == Some(&b'\\');
            rest = rest.get(place + 1 + usize::from(is_escape)..).unwrap_or_default();
            if !is_escape {
                break;
            }
        }
    }
}

fn separators(text: &[u8]) -> usize {
    text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count()
}
