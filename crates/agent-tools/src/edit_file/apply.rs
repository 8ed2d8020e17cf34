//! Applies several replacements at once. All of them refer to the file before the call.

use std::ops::Range;

use super::matching::{Found, Haystack, similar_lines};
use super::{EditFileError, Replacement};

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Returns the file with all `edits` applied. Bytes outside of them are unchanged, and so are the lines inside of them
/// that an edit repeats unchanged.
///
/// # Errors
/// Returns an error if an edit matches no place, several places, or a place that overlaps with that of another edit.
pub(super) fn apply(path: &str, file: &[u8], edits: &[Replacement]) -> Result<Vec<u8>, EditFileError> {
    // The mark is preserved and not part of the text, so that an edit can match at the beginning.
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
                let hint = similar_lines(text, old);
                return Err(EditFileError::NotFound { path: path.to_owned(), edit: shown, hint });
            }
        }
    }
    Ok(places)
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{FEFF}').unwrap_or(text)
}

/// Appends the replacement of `place.span`.
fn put(out: &mut Vec<u8>, text: &[u8], place: &Place<'_>) {
    let was = text.get(place.span.clone()).unwrap_or_default();
    let new = without_mark(&place.edit.new_text);
    if new.contains("\r\n") {
        // A replacement with such line ends is taken literally.
        out.extend_from_slice(new.as_bytes());
        return;
    }
    let old = without_mark(&place.edit.old_text).replace("\r\n", "\n");
    let was_lines: Vec<&[u8]> = was.split_inclusive(|byte| *byte == b'\n').collect();
    let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
    let new_lines: Vec<&str> = new.split_inclusive('\n').collect();

    let mut before = 0;
    let mut after = 0;
    // A match has as many lines as the text that was searched for. Should it not, the whole match is replaced.
    if was_lines.len() == old_lines.len() {
        before = old_lines.iter().zip(&new_lines).take_while(|(old, new)| old == new).count();
        let rest = old_lines.len().min(new_lines.len()) - before;
        let backwards = old_lines.iter().rev().zip(new_lines.iter().rev());
        after = backwards.take(rest).take_while(|(old, new)| old == new).count();
    }
    let bytes_of = |lines: &[&[u8]]| lines.iter().map(|line| line.len()).sum::<usize>();
    let unchanged_before = bytes_of(was_lines.get(..before).unwrap_or_default());
    let unchanged_after = bytes_of(was_lines.get(was_lines.len() - after..).unwrap_or_default());
    let crlf = uses_crlf(text, &(place.span.start + unchanged_before..place.span.end - unchanged_after));
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
