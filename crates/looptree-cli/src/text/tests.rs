use super::*;

/// The rows of a folded line are the line; only a word that is wider than the terminal is broken, and styles take no room.
#[test]
fn a_folded_line_loses_nothing_and_breaks_only_words_that_are_too_wide() {
    for (line, columns, lead, rows) in [
        ("one two three", 9, "", &["one two ", "three"][..]),
        ("    | git commit -m message", 18, "    + ", &["    | git commit ", "    + -m message"]),
        ("short", 9, "  ", &["short"]),
        ("abcdefghijklmnop", 8, "", &["abcdefgh", "ijklmnop"]),
        ("\x1b[1mone two\x1b[0m three", 9, "", &["\x1b[1mone two\x1b[0m ", "three"]),
        ("a  b    c", 8, "", &["a  b    ", "c"]),
        ("", 9, "  ", &[""]),
        ("日本語 日本語", 8, "", &["日本語 ", "日本語"]),
    ] {
        assert_eq!(fold(line, columns, lead), rows, "{line:?}");
    }
}

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
fn a_shortened_text_has_at_most_the_columns() {
    assert_eq!(cut("日本語", 5), "日本…");
    assert_eq!(tail("日本語", 5), "…本語");
}
