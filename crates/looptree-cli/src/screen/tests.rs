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

/// The renderer and the list of codes that pass are not in step otherwise.
#[test]
fn everything_that_markdown_renders_is_shown_and_nothing_of_the_model_is() {
    let screen = Screen { colors: true, live: true, ..Screen::new(Stream::Out, Color::Always) };
    let text = "# Head\n\n**bold** *it* ***both*** ~~gone~~ `code` [a](http://b)\n\n- one\n  - two `x`\n    - *three*\n\n1. `y`\n\n\
        > quoted *text*\n\n---\n\n| a | b |\n|---|---|\n| `c` | **d** |\n\n```rust\nfn f() {}\n```\nend\n";
    let mut markdown = Markdown::default();
    let shown = markdown.push(text, &screen) + &markdown.end(&screen);
    assert_eq!(styled(&shown), shown);
    for part in ["\x1b[1mbold", "\x1b[3mit", "\x1b[9mgone", "\x1b[38;5;6mcode\x1b[39m", "\x1b[36mfn f() {}"] {
        assert!(shown.contains(part), "{part:?} is not in {shown:?}");
    }
    let hostile = "*a*\x1b[8mhidden\x1b[0m `\x1b[2J` | \x1b]0;t\x07 |\n";
    let shown = markdown.push(hostile, &screen) + &markdown.end(&screen);
    assert!(
        !shown.contains("\x1b[8m") && !shown.contains("\x1b[2J") && !shown.contains("\x1b]"),
        "{shown:?}"
    );
}
