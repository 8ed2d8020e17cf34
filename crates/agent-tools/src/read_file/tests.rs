use std::io::BufReader;

use agent_core::CancellationToken;
use proptest::prelude::*;

use super::window::{Stopped, Wanted, Window, read_window};
use super::*;

fn window(text: &[u8], buffer: usize, first: u64, count: u64, bytes: u64) -> Window {
    let mut reader = BufReader::with_capacity(buffer, text);
    read_window(&mut reader, Wanted { first, count, bytes }, &CancellationToken::new()).unwrap()
}

#[track_caller]
fn check(text: &str, lines: &[&str]) {
    for buffer in [1, 2, 3, 64] {
        let window = window(text.as_bytes(), buffer, 1, u64::MAX, u64::MAX);
        assert_eq!(window.lines().collect::<Vec<_>>(), lines, "{text:?} in parts of {buffer}");
        assert_eq!(window.total, lines.len());
    }
}

#[test]
fn lines_end_with_a_line_end_or_with_the_file() {
    check("", &[]);
    check("a", &["a"]);
    check("a\n", &["a"]);
    check("\n", &[""]);
    check("\n\n", &["", ""]);
    check("a\nb", &["a", "b"]);
    check("a\r\nb\r\n", &["a", "b"]);
    check("a\rb\n", &["a\rb"]);
    check("\u{FEFF}a\n\u{FEFF}b\n", &["a", "\u{FEFF}b"]);
    check("é€😀\n", &["é€😀"]);
}

#[test]
fn a_line_over_the_bound_is_cut_between_characters_with_a_mark() {
    let long = format!("x{}\nnext\n", "é".repeat(MAX_LINE_BYTES));
    let window = window(long.as_bytes(), 1000, 1, 2, u64::MAX);
    let kept = (MAX_LINE_BYTES - 1) / 2 * 2;
    let left = 2 * MAX_LINE_BYTES - kept;
    assert_eq!(
        window.lines().next().unwrap(),
        format!("x{} ... (line cut, {left} bytes left out)", "é".repeat(kept / 2))
    );
    assert_eq!(window.lines().nth(1).unwrap(), "next");
}

#[test]
fn what_does_not_fit_is_left_for_another_call_and_still_counted() {
    let window = window(b"one\ntwo\nthree\nfour\n", 3, 2, u64::MAX, 10);
    assert_eq!(window.lines().collect::<Vec<_>>(), ["two", "three"]);
    assert_eq!((window.total, window.full), (4, true));
}

#[test]
fn reading_stops_when_it_is_told() {
    let stop = CancellationToken::new();
    stop.cancel();
    let wanted = Wanted { first: 1, count: 1, bytes: 1 };
    assert!(matches!(read_window(&mut &b"a\n"[..], wanted, &stop), Err(Stopped::Cancelled)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_window_is_the_same_as_a_slice_of_all_lines(
        text in "(a|é|\n|\r\n){0,40}", first in 1u64..12, count in 0u64..12, buffer in 1usize..9,
    ) {
        let all: Vec<String> = text.lines().map(str::to_owned).collect();
        let window = window(text.as_bytes(), buffer, first, count, u64::MAX);
        let expect: Vec<String> =
            all.iter().skip(usize::try_from(first - 1).unwrap()).take(usize::try_from(count).unwrap()).cloned().collect();
        prop_assert_eq!(window.lines().collect::<Vec<_>>(), expect);
        prop_assert_eq!(window.total, all.len());
    }
}

#[track_caller]
fn check_kind(head: &[u8], kind: Option<&str>) {
    assert_eq!(image_type(head), kind, "{head:?}");
}

/// B-169.
#[test]
fn pictures_are_known_by_their_first_bytes() {
    check_kind(b"\x89PNG\r\n\x1a\n\0\0\0\r", Some("image/png"));
    check_kind(b"\xFF\xD8\xFF\xE0\0\x10JFIF\0\x01", Some("image/jpeg"));
    check_kind(b"GIF89a\x01\0\x01\0\0\0", Some("image/gif"));
    check_kind(b"GIF87a\x01\0\x01\0\0\0", Some("image/gif"));
    check_kind(b"RIFF\x24\0\0\0WEBP", Some("image/webp"));
    check_kind(b"BM\x46\0\0\0\0\0\0\0\x36\0", Some("image/bmp"));
    check_kind(b"BMW is a make of", None);
    check_kind(b"GIF files are ni", None);
    check_kind(b"RIFF\x24\0\0\0WAVE", None);
    check_kind(b"\x89PNG", None);
    check_kind(b"", None);
}
