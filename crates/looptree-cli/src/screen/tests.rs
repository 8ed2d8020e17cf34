use super::*;

/// Only whole codes of the styles pass; a longer or another sequence is escaped.
#[test]
fn control_sequences_are_escaped_except_those_of_the_styles() {
    for (text, shown) in [
        ("\x1b[1mbold\x1b[0m and \x1b[31mred\x1b[0m", "\x1b[1mbold\x1b[0m and \x1b[31mred\x1b[0m"),
        ("a\x1b[2Jb", "a\\u{1b}[2Jb"),
        ("\x1b[1;31mx", "\\u{1b}[1;31mx"),
        ("\x1b]0;title\x07", "\\u{1b}]0;title\\u{7}"),
        ("x\x1b", "x\\u{1b}"),
        ("\x1b\x1b[0m", "\\u{1b}\x1b[0m"),
        ("one\rtwo\u{202e}three", "one\\u{d}two\\u{202e}three"),
        ("two\nlines\tand a tab", "two\nlines    and a tab"),
    ] {
        assert_eq!(styled(text), shown, "{text:?}");
    }
}
