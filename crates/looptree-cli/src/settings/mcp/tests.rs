use serde_json::json;

use super::{KEYS, key_of, shown_entry, unknown_key};

#[test]
fn a_shown_server_has_no_value_that_can_be_a_secret() {
    for (entry, expected) in [
        (
            json!({"command": "npx", "args": ["-y", "--key=s3cret", "${KEY}"], "cwd": "sub", "timeout": 5}),
            r#"{ args = ["(hidden)", "(hidden)", "${KEY}"], command = "npx", cwd = "sub", timeout = 5 }"#,
        ),
        (
            json!({"command": "x", "env": {"A": "s3cret", "B": "${B}", "C": "${C:-s3cret}", "D": 7}}),
            r#"{ command = "x", env = { A = "(hidden)", B = "${B}", C = "(hidden)", D = "(hidden)" } }"#,
        ),
        (
            json!({"url": "https://me:s3cret@example.com:1/s3cret?k=s3cret", "headers": {
                "Authorization": "Bearer ${TOKEN}", "X Y": "Bearer s3cret"}}),
            r#"{ headers = { "X Y" = "(hidden)", Authorization = "Bearer ${TOKEN}" }, url = "https://example.com:1/(hidden)" }"#,
        ),
        (json!({"url": "https://example.com?k=s3cret"}), r#"{ url = "https://example.com/(hidden)" }"#),
        (json!({"url": "https://example.com/"}), r#"{ url = "https://example.com/" }"#),
        (json!({"url": "${URL}"}), r#"{ url = "${URL}" }"#),
        (json!({"url": "s3cret", "bearer": "s3cret"}), r#"{ bearer = "(hidden)", url = "(hidden)" }"#),
        (json!("s3cret"), r#""(hidden)""#),
    ] {
        assert_eq!(shown_entry(&entry), expected);
    }
    assert_eq!((key_of("a-b_1"), key_of("a.b")), ("a-b_1".to_owned(), "\"a.b\"".to_owned()));
}

#[test]
fn a_key_without_a_meaning_is_named_with_those_that_have_one() {
    assert_eq!(unknown_key(&json!({"command": "x", "args": []})), None);
    let unknown = unknown_key(&json!({"command": "x", "enabled": false})).unwrap();
    assert!(unknown.starts_with("enabled: there is no such key; known are args, command, "), "{unknown}");
}

/// The library ignores a key that it does not know, so the list here has to be that of the page about the file.
#[test]
fn the_keys_of_a_server_are_those_of_the_page() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tools/mcp.md");
    let page = std::fs::read_to_string(page).unwrap();
    let table = page.split("\n## The file\n").nth(1).unwrap().split("\n| key | meaning |\n").nth(1).unwrap();
    let rows = table.lines().skip(1).map_while(|row| row.strip_prefix("| ")?.split(" |").next());
    let mut keys: Vec<&str> = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    keys.sort_unstable();
    assert_eq!(keys, KEYS);
}
