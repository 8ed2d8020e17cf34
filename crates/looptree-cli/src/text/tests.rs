use super::*;

#[test]
fn words_are_broken_only_if_they_are_wider_than_the_line() {
    for (line, columns, wrapped) in [
        ("one two three", 9, vec!["one two", "three"]),
        ("one two three", 13, vec!["one two three"]),
        ("", 10, vec![""]),
        ("    indented by four", 12, vec!["    indented", "by four"]),
        ("abcdefghijklmnopqrst uv", 10, vec!["abcdefghij", "klmnopqrst", "uv"]),
        ("日本語日本語日本語", 8, vec!["日本語日", "本語日本", "語"]),
    ] {
        assert_eq!(wrap(line, columns), wrapped, "{line:?} in {columns}");
    }
}

#[test]
fn what_moves_the_cursor_or_hides_is_escaped() {
    assert_eq!(plain("a\u{1b}[2Kb\u{202e}c\r\n\td"), "a\\u{1b}[2Kb\\u{202e}c\\u{d}\n    d");
    assert_eq!(brief("a\n  b"), "a b");
    assert_eq!(cut("日本語", 5), "日本…");
    assert_eq!(tail("日本語", 5), "…本語");
}
