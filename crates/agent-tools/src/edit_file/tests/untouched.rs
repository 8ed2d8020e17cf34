//! Bytes that no edit is about.

use proptest::prelude::*;

use super::super::Replacement;
use super::super::apply::apply;
use super::{check, edited};

/// B-171.
#[test]
fn lines_that_an_edit_only_repeats_keep_their_bytes() {
    // Different line ends, blanks at the end, and quotes of another style.
    check("a \r\nb\nc\u{2019}\t\nd", "a\nb\nc'\nd", "a\nB\nc'\nd", "a \r\nB\nc\u{2019}\t\nd");
    check("a \r\nb\n", "a\nb\n", "a\nnew\nb\n", "a \r\nnew\nb\n");
    check("a\t\nb\nc \n", "a\nb\nc\n", "a\nc\n", "a\t\nc \n");
    check("a\na\na", "a\na\na", "a\na", "a\na");
}

#[test]
fn bytes_that_are_no_text_stay_as_they_are() {
    let edits = [Replacement::new("b", "x")];
    assert_eq!(apply("f", b"\xFFa\r\nb\xC3\n\0", &edits).unwrap(), b"\xFFa\r\nx\xC3\n\0");
    // The model sees U+FFFD for them and may use that as context.
    let edits = [Replacement::new("a\u{FFFD}b", "x")];
    assert_eq!(apply("f", b"\xFEa\xFFb", &edits).unwrap(), b"\xFEx");
}

/// A line and its end, of every style that an editor leaves behind.
fn line() -> impl Strategy<Value = String> {
    let text = "[ \t]{0,2}(let|x|é|\u{2019}|\u{201C}|'|\u{2014}|\u{00A0}|ﬁ|😀|[a-c ]){0,6}[ \t]{0,2}";
    (text, prop_oneof!["\n", "\r\n", "\n\n", "\r"]).prop_map(|(text, end)| text + &end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// D25, B-171.
    #[test]
    fn bytes_outside_of_an_edit_are_the_same_as_before(
        mark in prop_oneof![Just(""), Just("\u{FEFF}")],
        before in prop::collection::vec(line(), 0..7),
        after in prop::collection::vec(line(), 0..7),
        last in "[a-c ]{0,4}",
        new in "[x\n]{0,6}",
        old_end in prop_oneof![Just(""), Just("\n")],
    ) {
        let (before, after) = (before.concat(), after.concat());
        let file = format!("{mark}{before}<<old>>\r\n{after}{last}");
        let old = format!("<<old>>{old_end}");
        let changed = edited(&file, &[(&old, &new)]).unwrap();
        let start = format!("{mark}{before}");
        let rest = if old_end.is_empty() { format!("\r\n{after}{last}") } else { format!("{after}{last}") };
        prop_assert!(changed.starts_with(&start) && changed.ends_with(&rest));
        let middle = &changed[start.len()..changed.len() - rest.len()];
        prop_assert_eq!(middle.replace("\r\n", "\n"), new.clone());
        prop_assert!(middle.matches('\n').count() == middle.matches("\r\n").count(), "{:?}", middle);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// D25. The text to replace is what a model would send: line ends, blanks and styles made plain.
    #[test]
    fn a_sloppy_copy_of_a_part_never_changes_another_part(
        lines in prop::collection::vec(line(), 1..10), from in 0usize..10, count in 1usize..4,
    ) {
        let file = lines.concat();
        let from = from % lines.len();
        let to = (from + count).min(lines.len());
        let part = lines[from..to].concat();
        let old: String = part.replace("\r\n", "\n").replace('\u{2019}', "'").replace('\u{00A0}', " ")
            .split_inclusive('\n').map(|line| match line.strip_suffix('\n') {
                Some(line) => line.trim_end_matches([' ', '\t']).to_owned() + "\n",
                None => line.to_owned(),
            }).collect();
        prop_assume!(!old.trim().is_empty());
        // Where the part is not the only one of its kind, or less than a character, an error is right.
        if let Ok(changed) = edited(&file, &[(&old, "NEW")]) {
            let (start, rest) = changed.split_once("NEW").unwrap();
            prop_assert!(file.starts_with(start) && file.ends_with(rest), "{file:?} {old:?} {changed:?}");
        }
    }

    /// Nothing that a model sends may panic.
    #[test]
    fn any_texts_can_be_looked_for_in_any_bytes(
        file in prop::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b' '), Just(b'a'), any::<u8>()], 0..30),
        old in "[a \r\n\u{2019}\u{FFFD}ﬁ]{0,5}", new in "[b\r\n]{0,4}",
    ) {
        drop(apply("f", &file, &[Replacement::new(old.clone(), new), Replacement::new(old, "")]));
    }
}
