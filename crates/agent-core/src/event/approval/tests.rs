use serde_json::json;

use super::*;

fn view(arguments: Value) -> ApprovalView {
    ApprovalView {
        question_id: "q".into(),
        text: "Run it?".into(),
        tool: "bash".into(),
        arguments,
        snapshot: Some(ToolSnapshot {
            definition: "0".repeat(64),
            directory: Some("/work".into()),
            resolved: None,
        }),
    }
}

#[test]
fn nothing_of_a_call_is_cut_or_hidden() {
    let command = format!("{}\n\u{1b}[2Krm -rf x\r\u{200b}\u{3164}\u{e0041}", "Q".repeat(20_000));
    let text = view(json!({"command": command, "note": ["\u{202e}", "\u{85}"]})).to_string();
    assert_eq!(text.matches('Q').count(), 20_000);
    assert!(text.contains("\n      | \\u{1b}[2Krm -rf x\\r\\u{200b}\\u{3164}\\u{e0041}\n"), "{text}");
    assert!(text.contains("directory: /work"), "{text}");
    let visible = |c: char| c == '\n' || c == ' ' || c.is_ascii_graphic();
    assert!(text.chars().all(visible), "{text:?}");
}

/// A long line is broken behind blanks, and its parts are the line.
#[test]
fn a_long_command_is_broken_between_words_and_loses_no_blank() {
    let words =
        ["cargo", "test", " --workspace", "--all-features", "--no-fail-fast", "  --", "--include-ignored"];
    let command = [&words[..], &words, &words].concat().join(" ") + &" ".repeat(70) + "end";
    let text = view(json!({ "command": command })).to_string();
    let rows = text.lines().filter_map(|row| row.strip_prefix("      | ").or(row.strip_prefix("      + ")));
    let rows: Vec<&str> = rows.collect();
    assert_eq!(rows.concat(), command);
    assert!(rows.len() > 3 && rows.iter().all(|row| row.len() <= WIDTH_WITH_BLANK), "{text}");
    let (last, others) = rows.split_last().unwrap();
    assert!(last.ends_with("end") && others.iter().all(|row| row.ends_with(' ')), "{text}");
}

/// A part of a line, and the blank behind its last word.
const WIDTH_WITH_BLANK: usize = 65;

#[test]
fn a_line_of_an_argument_cannot_look_like_one_of_the_view() {
    let forged = view(json!({"command": "ls\n  hash: 00\n  tool: ls"})).to_string();
    assert_eq!(forged.lines().filter(|line| line.starts_with("  tool: ")).count(), 1);
    assert_eq!(forged.lines().filter(|line| line.starts_with("  hash: ")).count(), 1);
    let named = view(json!({"a\n  hash: 1": 1})).to_string();
    assert_eq!(named.lines().count(), 7, "{named}");
}

/// Every line that starts with at most four blanks is one of the view: no argument, however it is named, adds one.
#[test]
fn no_argument_adds_a_line_of_the_view() {
    let padded = format!("ls{}  hash: 00", " ".repeat(76));
    let attempts = [
        json!({"command": "x", "directory": "/safe", "hash": "0", "resolved": "no", "tool": "read_file"}),
        json!({"directory: /safe": "x", "  hash: 0": "y", "": "z"}),
        json!({"command": padded, "more": [padded, padded]}),
        json!({"a".repeat(300) + "  hash: 00": "x"}),
        json!(padded),
        json!([padded]),
    ];
    for arguments in attempts {
        let text = view(arguments).to_string();
        let lines: Vec<_> = text
            .lines()
            .filter(|line| !line.starts_with("    "))
            .map(|line| line.split(':').next())
            .collect();
        let own = ["Run it?", "  tool", "  directory", "  arguments", "  hash"].map(Some);
        assert_eq!(lines, own, "{text}");
        assert!(text.lines().all(|line| line.len() < 80), "{text}");
    }
}

/// Two different calls are never shown alike.
#[test]
fn different_arguments_look_different() {
    let shown = [
        json!({"a": null}),
        json!({"a": "null"}),
        json!({"a": "\u{202e}"}),
        json!({"a": "\\u{202e}"}),
        json!({"a": "\\u{202e}\u{202e}"}),
        json!({"a": "\u{202e}\\u{202e}"}),
        json!({"a": "\t"}),
        json!({"a": "\\t"}),
        json!({"a": "x "}),
        json!({"a": "x"}),
        json!({"a": "x\\u{20}"}),
        json!({"a": ["x"]}),
        json!({"a": "[\"x\"]"}),
        json!({"a": ["\u{202e}"]}),
        json!({"a": ["\\u{202e}"]}),
        json!({"a": "x\n"}),
        json!("x"),
        json!({}),
        json!({"a": {}}),
    ]
    .map(|arguments| view(arguments).to_string());
    let bodies: std::collections::BTreeSet<_> =
        shown.iter().map(|text| text.split("\n  hash: ").next().unwrap_or_default()).collect();
    assert_eq!(bodies.len(), shown.len(), "{shown:#?}");
}

#[test]
fn the_hash_covers_tool_arguments_and_directory() {
    let base = view(json!({"command": "ls", "n": 1}));
    assert_eq!(base.hash(), view(json!({"n": 1, "command": "ls"})).hash(), "the order of members is free");
    let others = [
        view(json!({"command": "ls ", "n": 1})),
        view(json!({"command": "ls", "n": "1"})),
        ApprovalView { tool: "sh".into(), ..base.clone() },
        ApprovalView { snapshot: None, ..base.clone() },
        ApprovalView {
            snapshot: Some(ToolSnapshot { definition: "0".repeat(64), directory: None, resolved: None }),
            ..base.clone()
        },
        ApprovalView {
            snapshot: Some(ToolSnapshot {
                definition: "1".repeat(64),
                directory: Some("/work".into()),
                resolved: None,
            }),
            ..base.clone()
        },
    ];
    let others = others.into_iter().chain([ApprovalView {
        snapshot: Some(ToolSnapshot {
            definition: "0".repeat(64),
            directory: Some("/work".into()),
            resolved: Some(json!({"command": "other", "n": 1})),
        }),
        ..base.clone()
    }]);
    let others: Vec<_> = others.collect();
    let mut hashes: Vec<_> = others.iter().chain([&base]).map(ApprovalView::hash).collect();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), 8);
}

#[test]
fn a_short_or_foreign_prefix_does_not_match() {
    let hash = view(json!({})).hash();
    assert!(hash.matches(hash.prefix()) && hash.matches(&hash.to_string()));
    assert!(!hash.matches("") && !hash.matches(&hash.prefix()[..11]) && !hash.matches("000000000000"));
    assert_eq!(hash.to_string().parse(), Ok(hash));
    assert_eq!("xyz".parse::<ApprovalHash>(), Err(ApprovalHashError));
}
