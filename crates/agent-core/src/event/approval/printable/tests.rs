use proptest::prelude::*;
use regex_syntax::hir::{Class, HirKind};

use super::*;

/// The characters of a class of Unicode, from the tables of another library.
fn class(name: &str) -> Vec<char> {
    let hir = regex_syntax::Parser::new().parse(name).unwrap();
    let HirKind::Class(Class::Unicode(class)) = hir.kind() else { panic!("{name} is no class") };
    class.ranges().iter().flat_map(|range| range.start()..=range.end()).collect()
}

fn shows(text: &Printable, c: char) -> bool {
    text.as_str().contains(c)
}

/// The tables of the standard library are compared with those of `regex-syntax`, over all characters.
#[test]
fn no_character_that_unicode_counts_as_invisible_stays_as_it_is() {
    for name in [
        r"\p{Cc}",
        r"\p{Cf}",
        r"\p{Co}",
        r"[\p{Zl}\p{Zp}]",
        r"[\p{Zs}--\x20]",
        r"\p{Default_Ignorable_Code_Point}",
        r"\p{Bidi_Control}",
        r"\p{Variation_Selector}",
        r"\p{Grapheme_Extend}",
        "[\u{2800}\u{fffc}\u{1d159}\u{13430}-\u{13442}]",
    ] {
        let chars = class(name);
        assert!(!chars.is_empty(), "{name}");
        for c in chars {
            let text = format!("a{c}b");
            let line = Printable::line(&text);
            assert_eq!(line.as_str(), format!("a\\u{{{:x}}}b", u32::from(c)), "{name}");
        }
    }
}

/// Prose keeps line ends and marks on letters; of invisible characters it keeps none outside of an emoji.
#[test]
fn prose_keeps_no_invisible_character_outside_of_emoji() {
    for name in
        [r"[\p{Cc}--[\n\t]]", r"\p{Cf}", r"\p{Co}", r"[\p{Zl}\p{Zp}]", r"\p{Default_Ignorable_Code_Point}"]
    {
        for c in class(name) {
            for text in [
                format!("a{c}b"),
                format!("{c}"),
                format!("1{c}2"),
                format!("a{c}{c}\u{301}"),
                format!("न{c}न"),
            ] {
                assert!(!shows(&Printable::prose(&text), c), "{name} {text:?}");
            }
        }
    }
    for kept in [
        "👩\u{200d}💻",
        "❤\u{fe0f}",
        "🏳\u{fe0f}\u{200d}🌈",
        "1\u{fe0f}\u{20e3}",
        "e\u{301}",
        "ที่",
        "हिन्दी",
        "a\nb",
    ] {
        assert_eq!(Printable::prose(kept).as_str(), kept);
        assert!(kept == "हिन्दी" || Printable::line(kept).as_str() != kept, "{kept:?}");
    }
    for (text, shown) in [
        ("👩\u{200d}x", "👩\\u{200d}x"),
        ("❤\u{fe0f}\u{fe0f}", "❤\u{fe0f}\\u{fe0f}"),
        ("🏴\u{e0067}", "🏴\\u{e0067}"),
        ("a\tb\r\nc\rd", "a    b\nc\\u{d}d"),
        ("e\u{301}\u{302}\u{303}\u{304}", "e\u{301}\u{302}\u{303}\\u{304}"),
        (" \u{301}", " \\u{301}"),
    ] {
        assert_eq!(Printable::prose(text).as_str(), shown, "{text:?}");
    }
}

/// Removes the escapes again.
fn read(shown: &str) -> String {
    let mut out = String::new();
    let mut rest = shown;
    while let Some(at) = rest.find('\\') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let after = from.trim_start_matches('\\');
        let slashes = from.len() - after.len();
        rest = after;
        if !after.starts_with("u{") {
            out.push_str(&"\\".repeat(slashes));
            continue;
        }
        out.push_str(&"\\".repeat(slashes / 2));
        if slashes % 2 == 1 {
            let (digits, behind) = after.trim_start_matches("u{").split_once('}').unwrap();
            out.push(char::from_u32(u32::from_str_radix(digits, 16).unwrap()).unwrap());
            rest = behind;
        }
    }
    out + rest
}

proptest! {
    /// The text can be read from what is shown, so two different texts never look the same.
    #[test]
    fn a_line_is_unambiguous(text in r"([\\u{}0-9a-f]|\PC|\pC|[\u{200b}\u{202e}\u{301}\n\t])*") {
        let shown = Printable::line(&text);
        prop_assert_eq!(read(shown.as_str()), text);
        prop_assert!(!shown.as_str().chars().any(is_hidden));
    }
}
