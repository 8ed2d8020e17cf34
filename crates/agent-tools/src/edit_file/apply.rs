//! Many replacements at once, all found in the file as it was.

use std::ops::Range;

use super::find::{Found, Haystack};
use super::{EditFileError, Replacement, hint};

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The file with all `edits` made. Bytes outside of them are the same as before, and so are the lines inside of them
/// that an edit repeats unchanged.
///
/// # Errors
/// When an edit has no place, more than one, or a place that overlaps with another's.
pub(super) fn apply(path: &str, file: &[u8], edits: &[Replacement]) -> Result<Vec<u8>, EditFileError> {
    // The mark is no text: it stays, and is never in the way of a match at the beginning.
    let mark = if file.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    let text = file.get(mark..).unwrap_or_default();

    let mut places = located(path, text, edits)?;
    places.sort_by_key(|place| (place.span.start, place.span.end));
    for pair in places.windows(2) {
        if let [a, b] = pair
            && b.span.start < a.span.end
        {
            let (first, second) = (a.number.min(b.number), a.number.max(b.number));
            return Err(EditFileError::Overlap { path: path.to_owned(), first, second });
        }
    }

    let mut out = Vec::with_capacity(file.len());
    out.extend_from_slice(file.get(..mark).unwrap_or_default());
    let mut at = 0;
    for place in &places {
        out.extend_from_slice(text.get(at..place.span.start).unwrap_or_default());
        put(&mut out, text, place);
        at = place.span.end;
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
    Ok(out)
}

struct Place<'a> {
    number: usize,
    span: Range<usize>,
    edit: &'a Replacement,
}

fn located<'a>(path: &str, text: &[u8], edits: &'a [Replacement]) -> Result<Vec<Place<'a>>, EditFileError> {
    let mut haystack = Haystack::new(text);
    let mut places = Vec::with_capacity(edits.len());
    for (number, edit) in (1..).zip(edits) {
        let shown = (edits.len() > 1).then_some(number);
        let old = without_mark(&edit.old_text);
        if old.is_empty() {
            return Err(EditFileError::EmptyOldText { edit: shown });
        }
        match haystack.find(old) {
            Found::Once(span) => places.push(Place { number, span, edit }),
            Found::Many(count) => {
                return Err(EditFileError::Ambiguous { path: path.to_owned(), edit: shown, count });
            }
            Found::Nowhere => {
                let hint = hint::similar(text, old);
                return Err(EditFileError::NotFound { path: path.to_owned(), edit: shown, hint });
            }
        }
    }
    Ok(places)
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{FEFF}').unwrap_or(text)
}

/// Puts what takes the place of `place.span`.
fn put(out: &mut Vec<u8>, text: &[u8], place: &Place<'_>) {
    let was = text.get(place.span.clone()).unwrap_or_default();
    let new = without_mark(&place.edit.new_text);
    if new.contains("\r\n") {
        // Somebody who writes line ends of this kind means them.
        out.extend_from_slice(new.as_bytes());
        return;
    }
    let old = without_mark(&place.edit.old_text).replace("\r\n", "\n");
    let was_lines: Vec<&[u8]> = was.split_inclusive(|byte| *byte == b'\n').collect();
    let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
    let new_lines: Vec<&str> = new.split_inclusive('\n').collect();

    let mut before = 0;
    let mut after = 0;
    // What was found has as many lines as what was looked for; should it ever not, the place is replaced whole.
    if was_lines.len() == old_lines.len() {
        before = old_lines.iter().zip(&new_lines).take_while(|(old, new)| old == new).count();
        let rest = old_lines.len().min(new_lines.len()) - before;
        let backwards = old_lines.iter().rev().zip(new_lines.iter().rev());
        after = backwards.take(rest).take_while(|(old, new)| old == new).count();
    }
    let bytes_of = |lines: &[&[u8]]| lines.iter().map(|line| line.len()).sum::<usize>();
    let kept_before = bytes_of(was_lines.get(..before).unwrap_or_default());
    let kept_after = bytes_of(was_lines.get(was_lines.len() - after..).unwrap_or_default());
    let crlf = uses_crlf(text, &(place.span.start + kept_before..place.span.end - kept_after));
    for line in was_lines.iter().take(before) {
        out.extend_from_slice(line);
    }
    for line in new_lines.iter().take(new_lines.len() - after).skip(before) {
        match line.strip_suffix('\n') {
            Some(line) if crlf => {
                out.extend_from_slice(line.as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            Some(_) | None => out.extend_from_slice(line.as_bytes()),
        }
    }
    for line in was_lines.iter().skip(was_lines.len() - after) {
        out.extend_from_slice(line);
    }
}

/// Which line ends new lines in place of `span` get: those of the lines that they replace, else those next to it.
fn uses_crlf(text: &[u8], span: &Range<usize>) -> bool {
    let end_in = |range: Range<usize>| {
        let at = range.start + memchr::memchr(b'\n', text.get(range)?)?;
        Some(at)
    };
    let end = end_in(span.clone())
        .or_else(|| end_in(span.end..text.len()))
        .or_else(|| memchr::memrchr(b'\n', text.get(..span.start)?));
    end.and_then(|end| end.checked_sub(1)).and_then(|before| text.get(before)) == Some(&b'\r')
}
