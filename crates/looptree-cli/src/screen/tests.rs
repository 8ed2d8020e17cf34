use super::*;

fn colored() -> Screen {
    Screen { colors: true, live: true, ..Screen::new(Stream::Out, Color::Always) }
}

/// Only the program sets styles and ends lines: neither a string nor prose does.
#[test]
fn a_text_from_outside_sets_no_style_and_ends_no_line() {
    let screen = colored();
    for (text, shown) in [
        ("\x1b[1mbold\x1b[0m", "\\u{1b}[1mbold\\u{1b}[0m"),
        ("a\x1b[2Jb", "a\\u{1b}[2Jb"),
        ("\x1b]0;title\x07", "\\u{1b}]0;title\\u{7}"),
        ("one\rtwo\u{202e}three", "one\\u{d}two\\u{202e}three"),
        ("two\nlines\tand a tab", "two\\u{a}lines\\u{9}and a tab"),
        ("\\u{1b}", "\\\\u{1b}"),
    ] {
        assert_eq!(Styled::from(text).as_str(), shown, "{text:?}");
        let painted = screen.paint(Style::Red, text);
        assert_eq!(painted.as_str(), format!("\x1b[31m{shown}\x1b[0m"));
        assert_eq!((Styled::from("• ") + painted).as_str(), format!("• \x1b[31m{shown}\x1b[0m"));
    }
    assert_eq!(Styled::prose("two\nlines\tand\x1b[0m").as_str(), "two\nlines    and\\u{1b}[0m");
    assert_eq!(brief("a\n  b\u{202e}").as_str(), "a b\\u{202e}");
    assert!(brief(&"\u{200b}".repeat(100_000)).width() <= 100);
    assert_eq!(Styled::row("\tx\r").as_str(), "    x\\u{d}");
}

/// A line of a file that looks like the head of a diff is a line of the file.
#[test]
fn a_diff_shows_every_line_for_what_it_is() {
    let shown = diff_lines("@@ -1 +1 @@\n--- a\n+++ b\u{ad}\n", &colored(), None);
    let shown: Vec<_> = shown.iter().map(Styled::as_str).collect();
    let expected =
        ["  \x1b[36m@@ -1 +1 @@\x1b[0m", "  \x1b[31m--- a\x1b[0m", "  \x1b[32m+++ b\\u{ad}\x1b[0m"];
    assert_eq!(shown, expected);
}

#[test]
fn everything_that_markdown_renders_is_shown_and_nothing_of_the_model_is() {
    let screen = colored();
    let text = "# Head\n\n**bold** *it* ***both*** ~~gone~~ `code` [a](http://b)\n\n- one\n  - two `x`\n    - *three*\n\n1. `y`\n\n\
        > quoted *text*\n\n---\n\n| a | b |\n|---|---|\n| `c` | **d** |\n\n```rust\nfn f() {}\n```\nend\n";
    let mut markdown = Markdown::default();
    let shown = markdown.push(text, &screen) + markdown.end(&screen);
    for part in ["\x1b[1mbold", "\x1b[3mit", "\x1b[9mgone", "\x1b[38;5;6mcode\x1b[39m", "\x1b[36mfn f() {}"] {
        assert!(shown.as_str().contains(part), "{part:?} is not in {shown:?}");
    }
    let hostile = "*a*\x1b[8mhidden\x1b[0m `\x1b[2J` | \x1b]0;t\x07 |\n";
    let shown = markdown.push(hostile, &screen) + markdown.end(&screen);
    let shown = shown.as_str();
    assert!(
        !shown.contains("\x1b[8m") && !shown.contains("\x1b[2J") && !shown.contains("\x1b]"),
        "{shown:?}"
    );
}
