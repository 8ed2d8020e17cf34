use super::*;

#[test]
fn a_unified_diff_is_split_into_its_parts_with_lines_and_missing_line_ends() {
    let diff = "@@ -1,3 +1,2 @@\n one\n-two\n--- three\n+2\n@@ -10,1 +9,1 @@\n-last\n\\ No newline at end of file\n+last\n";
    let expected = [
        Hunk { line: 1, before: "one\ntwo\n-- three\n".to_owned(), after: "one\n2\n".to_owned() },
        Hunk { line: 9, before: "last".to_owned(), after: "last\n".to_owned() },
    ];
    assert_eq!(hunks(diff), expected);
    assert_eq!(hunks(""), []);
}

#[test]
fn a_text_with_fences_stands_in_a_longer_fence_and_control_characters_are_escaped() {
    assert_eq!(fenced("a\n```\nb\n"), "````\na\n```\nb\n````");
    assert_eq!(fenced("a"), "```\na\n```");
    assert_eq!(plain_text("a\tb\r\n\u{1b}[2K\u{202e}"), "a\tb\n\\u{1b}[2K\\u{202e}");
}

#[test]
fn an_id_that_a_model_uses_twice_is_two_ids_for_the_editor() {
    let mut updates = Updates::new(PathBuf::from("/work"));
    let (first, is_new) = updates.opened("call_1");
    assert!(is_new);
    assert_eq!(updates.opened("call_1"), (first.clone(), false));
    updates.open.clear();
    let (second, is_new) = updates.opened("call_1");
    assert!(is_new);
    assert_ne!(first, second);
    assert_eq!(updates.left_open().len(), 1);
    assert_eq!(updates.left_open(), []);
}
