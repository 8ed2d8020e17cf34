use super::*;

/// The address stands behind the text; what is code, escaped or incomplete is not a link.
#[test]
fn a_link_is_its_text_and_its_address() {
    for (text, shown) in [
        (
            "see [the book](https://doc.rust-lang.org/book) first",
            "see the book (https://doc.rust-lang.org/book) first",
        ),
        ("[a](u) and [b](v)", "a (u) and b (v)"),
        ("[https://x.y](https://x.y)", "https://x.y"),
        ("[](https://x.y)", "https://x.y"),
        ("![a picture](p.png)", "a picture (p.png)"),
        ("[titled](https://x.y \"A title\")", "titled (https://x.y)"),
        ("[wiki](https://x.y/a_(b))", "wiki (https://x.y/a_(b))"),
        ("[angle](<https://x.y>)", "angle (https://x.y)"),
        ("[nested [text]](u)", "nested [text] (u)"),
        ("[stars](https://x.y/*a*)", "stars (`https://x.y/*a*`)"),
        ("`[code](u)` [b](v)", "`[code](u)` b (v)"),
        ("\\[no](u)", "\\[no](u)"),
        ("[x] done (really)", "[x] done (really)"),
        ("[open](u", "[open](u"),
        ("[open [a](u)", "[open a (u)"),
        ("call(a[0](b))", "call(a[0](b))"),
        ("é [ü](ö) `", "é ü (ö) `"),
    ] {
        assert_eq!(links(text), shown, "{text}");
    }
}

/// A hostile address cannot move the cursor, hide text or end the line.
#[test]
fn an_address_with_control_characters_is_shown_escaped() {
    let mut screen = Screen::new(crate::screen::Stream::Out, crate::args::Color::Always);
    screen.live = true;
    let mut markdown = Markdown::default();
    let text = "[safe](https://x.y/\u{1b}]8;;evil\u{7}\u{202e}\rgone)\n";
    let shown = markdown.push(text, &screen);
    let shown = shown.as_str();
    assert!(shown.contains("safe (https://x.y/"), "{shown:?}");
    assert!(!shown.contains(['\u{7}', '\u{202e}', '\r']), "{shown:?}");
    assert!(!shown.contains("\u{1b}]"), "{shown:?}");
}

/// The text is one line in small pieces, as a model can send it. Work that grows with the square of the line takes minutes.
#[test]
fn a_line_of_a_million_brackets_is_shown_whole_within_bounded_work() {
    let mut screen = Screen::new(crate::screen::Stream::Out, crate::args::Color::Always);
    screen.live = true;
    for (piece, end) in [("[[[[[[[[", "](u)"), ("|a|a|a|\n", "|"), ("********", "*")] {
        let mut markdown = Markdown::default();
        let mut shown = String::new();
        for _ in 0..125_000 {
            shown.push_str(markdown.push(piece, &screen).as_str());
            assert!(markdown.unfinished().len() <= MAX_RENDERED);
        }
        shown.push_str(markdown.push(end, &screen).as_str());
        shown.push_str(markdown.end(&screen).as_str());
        assert!(shown.len() > 100_000, "{piece}: {}", shown.len());
    }
}
