use super::parse::{Hunk, Line, parse};
use super::*;
use proptest::prelude::*;

fn hunks(body: &str) -> Vec<Hunk> {
    let patch = format!("*** Begin Patch\r\n*** Update File: f\r\n{body}*** End Patch\r\n");
    match parse(&patch).unwrap().remove(0).action {
        Action::Update { hunks, .. } => hunks,
        other => panic!("{other:?}"),
    }
}

#[test]
fn hunks_have_contexts_lines_and_ends() {
    let read = hunks("@@ class A\n@@ def f\n-a\n\n+b\n*** End of File\n@@\n x\n");
    assert_eq!(read[0].contexts, ["class A", "def f"]);
    let (keep, remove) = (Line::Keep(String::new()), Line::Remove("a".to_owned()));
    assert_eq!(read[0].lines, [remove, keep, Line::Add("b".to_owned())]);
    assert!(read[0].at_end && !read[1].at_end && read[1].contexts.is_empty());
}

#[test]
fn places_are_found_in_repeating_lines() {
    let old = "a\na\nb\na\na\nb\na\n";
    let apply = |body: &str| {
        matching::apply("f", old.as_bytes(), &hunks(body), &mut matching::Work::new(&|| false))
            .map(|new| String::from_utf8(new).unwrap())
    };
    assert_eq!(apply("@@\n a\n a\n-b\n+c\n a\n a\n").unwrap(), "a\na\nc\na\na\nb\na\n");
    assert!(matches!(apply("@@\n a\n-b\n a\n"), Err(PatchError::Ambiguous { count: 2, .. })));
    assert_eq!(apply("@@\n a\n-b\n a\n*** End of File\n").unwrap(), "a\na\nb\na\na\na\n");
    // The second is searched for behind the first.
    assert!(
        matches!(apply("@@\n a\n a\n-b\n a\n a\n@@\n-b\n+c\n"), Ok(text) if text == "a\na\na\na\nc\na\n")
    );
}

proptest! {
    /// No text that a model sends makes the parser or the search panic.
    #[test]
    fn any_patch_is_read_or_refused(
        body in "(\\*\\*\\* (Update|Add|Delete) File: f\n|\\*\\*\\* Move to: g\n|@@ ?a?\n|[ +-]?[abé]{0,2}\n|\\*\\*\\* End of File\n|\n|<<a\n){0,12}",
        file in "[ab\r\n\u{e9}]{0,20}",
    ) {
        for patch in [format!("*** Begin Patch\n{body}*** End Patch"), body] {
            for section in parse(&patch).unwrap_or_default() {
                if let Action::Update { hunks, .. } = section.action {
                    drop(matching::apply("f", file.as_bytes(), &hunks, &mut matching::Work::new(&|| false)));
                }
            }
        }
    }
}
