use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Decision, ToolPolicy, ToolRule, like};
use crate::history::History;
use crate::hooks::{ToolCallInfo, Verdict};
use crate::message::ToolCall;
use crate::tool::{Effects, FileAccess};

fn call(tool: &str, arguments: Value, effects: Effects) -> ToolCallInfo {
    ToolCallInfo {
        loop_id: "s.a.1".into(),
        step_key: "tool-0-c".into(),
        call: ToolCall::new("c", tool, arguments.clone()),
        arguments,
        resolved_arguments: None,
        effects,
        history: History::new(),
    }
}

#[track_caller]
fn check(policy: &ToolPolicy, tool: &str, arguments: Value, effects: Effects, expect: &str) {
    let verdict = match policy.decide(&call(tool, arguments, effects)) {
        Verdict::Allow => "go".to_owned(),
        Verdict::Ask(text) => format!("ask {text}"),
        Verdict::Deny(text) => format!("deny {text}"),
        other => format!("{other:?}"),
    };
    assert!(verdict.starts_with(expect), "{verdict}");
}

/// X5, X6.
#[test]
fn a_denial_wins_and_then_the_first_rule_that_fits_and_then_what_was_said_for_the_rest() {
    let policy = ToolPolicy::new(Decision::Ask)
        .allow(ToolRule::any().effects(Effects::ReadOnly))
        .allow(ToolRule::tool("write_file").argument("/path", "docs/*"))
        .deny(ToolRule::any().argument("/path", "*.env").saying("secrets stay"))
        .deny(ToolRule::tool("mcp__*"))
        .ask(ToolRule::tool("bash").saying("Run it?"))
        .allow(ToolRule::tool("bash"));
    let path = |path: &str| json!({"path": path});
    check(&policy, "read_file", path("a.txt"), Effects::ReadOnly, "go");
    check(&policy, "read_file", path("x/.env"), Effects::ReadOnly, "deny secrets stay");
    check(&policy, "write_file", path("docs/a.md"), Effects::Idempotent, "go");
    check(&policy, "write_file", path("docs/.env"), Effects::Idempotent, "deny secrets stay");
    check(&policy, "write_file", path("src/a.rs"), Effects::Idempotent, "ask Run this call of write_file?");
    check(&policy, "mcp__x__y", json!({}), Effects::ReadOnly, "deny This call of mcp__x__y");
    check(&policy, "bash", json!({"command": "ls"}), Effects::Once, "ask Run it?");
    check(&ToolPolicy::new(Decision::Deny), "bash", json!({}), Effects::Once, "deny");
    check(&ToolPolicy::default(), "bash", json!({}), Effects::ReadOnly, "ask");
}

#[test]
fn an_argument_that_is_not_there_fits_nothing_and_one_that_is_no_text_is_compared_as_json() {
    let policy = ToolPolicy::new(Decision::Deny)
        .allow(ToolRule::any().argument("/depth", "?").argument("/in/0", "a*"));
    check(&policy, "t", json!({"depth": 3, "in": ["abc"]}), Effects::Once, "go");
    check(&policy, "t", json!({"depth": 30, "in": ["abc"]}), Effects::Once, "deny");
    check(&policy, "t", json!({"depth": 3}), Effects::Once, "deny");
    check(&policy, "t", Value::Null, Effects::Once, "deny");
    let odd = ToolPolicy::new(Decision::Deny).allow(ToolRule::any().when(|args| args["n"] == 1));
    check(&odd, "t", json!({"n": 1}), Effects::Once, "go");
    check(&odd, "t", json!({"n": 2}), Effects::Once, "deny");
}

#[test]
fn a_policy_is_data() {
    let text = r#"{"otherwise": "ask", "rules": [
        {"decision": "deny", "tool": "bash", "text": "no shell"},
        {"decision": "allow", "effects": "readOnly"},
        {"decision": "allow", "tool": "write_file", "arguments": {"/path": "docs/*"}}
    ]}"#;
    let policy: ToolPolicy = serde_json::from_str(text).unwrap();
    let built = ToolPolicy::new(Decision::Ask)
        .deny(ToolRule::tool("bash").saying("no shell"))
        .allow(ToolRule::any().effects(Effects::ReadOnly))
        .allow(ToolRule::tool("write_file").argument("/path", "docs/*"));
    assert_eq!(policy, built);
    let again: ToolPolicy = serde_json::from_value(serde_json::to_value(&policy).unwrap()).unwrap();
    assert_eq!(again, policy);
    let odd = ToolPolicy::new(Decision::Ask).allow(ToolRule::any().when(|_| true));
    assert!(serde_json::to_value(&odd).unwrap_err().to_string().contains("predicate"));
    assert!(serde_json::from_str::<ToolPolicy>(r#"{"otherwise": "perhaps"}"#).is_err());
    assert!(serde_json::from_str::<ToolPolicy>(r#"{"otherwise": "ask", "rulse": []}"#).is_err());
}

#[test]
fn a_pattern_fits_whole_texts() {
    #[track_caller]
    fn check(pattern: &str, text: &str, expect: bool) {
        assert_eq!(like(pattern, text), expect, "{pattern} {text}");
    }
    check("", "", true);
    check("", "a", false);
    check("*", "", true);
    check("a*", "abc", true);
    check("a*c", "abcbc", true);
    check("a*c", "abcb", false);
    check("*b*", "abc", true);
    check("a?c", "aéc", true);
    check("a?c", "ac", false);
    check("**", "anything", true);
    check("a*b*c*d", "axxbyyczzd", true);
    check("A", "a", false);
}

proptest! {
    #[test]
    fn a_pattern_made_of_a_text_fits_it(text in "[ab]{0,12}", holes in proptest::collection::vec(any::<bool>(), 12)) {
        let pattern: String = text.chars().zip(holes.iter().chain(std::iter::repeat(&false))).map(|(c, hole)| if *hole { '*' } else { c }).collect();
        prop_assert!(like(&pattern, &text));
    }

    #[test]
    fn a_hostile_pattern_ends(pattern in "[a*?]{0,40}", text in "a{0,200}") {
        let _ = like(&pattern, &text);
    }
}

fn resolved(tool: &str, path: &str, real: &str) -> ToolCallInfo {
    let mut info = call(tool, json!({"path": path}), Effects::Once);
    info.resolved_arguments = Some(json!({"path": real}));
    info
}

/// Attack 8.
#[test]
fn patterns_match_the_resolved_path() {
    let policy = ToolPolicy::new(Decision::Ask)
        .deny(ToolRule::any().argument("/path", "*.env"))
        .allow(ToolRule::tool("write_file").argument("/path", "docs/*"));
    let decided = |path: &str, real: &str| policy.decide(&resolved("write_file", path, real));
    assert_eq!(decided("docs/a.md", "docs/a.md"), Verdict::Allow);
    assert_eq!(decided("x/../docs/a.md", "docs/a.md"), Verdict::Allow);
    assert!(matches!(decided("docs/../build.rs", "build.rs"), Verdict::Ask(_)));
    assert!(matches!(decided("docs/link", "secret.env"), Verdict::Deny(_)));
    assert!(
        matches!(decided("docs/a.env", "docs/a.txt"), Verdict::Deny(_)),
        "the name in the call counts, too"
    );
}

/// Attack 8: a search reads what a rule about reading denies.
#[test]
fn a_rule_about_a_path_denies_the_file_to_tools_that_find_files() {
    let denies = |rule: ToolRule, path: &str| {
        ToolPolicy::new(Decision::Allow)
            .deny(rule)
            .denies_file(&"search".into(), path, FileAccess::Find)
            .is_some()
    };
    let env = |tool: &str| ToolRule::tool(tool).argument("/path", "*.env");
    assert!(denies(env("*"), "config/prod.env"));
    assert!(denies(env("read_file"), "prod.env"));
    assert!(denies(env("search"), "prod.env"));
    assert!(!denies(env("write_file"), "prod.env"), "a rule about writing");
    assert!(!denies(env("*"), "prod.env.md"));
    assert!(!denies(ToolRule::tool("read_file"), "a.txt"), "a rule about the tool and not about a file");
    assert!(denies(ToolRule::any().when(|a| a["path"].as_str().is_some_and(|p| p.contains("key"))), "a/key"));
    let asks = ToolPolicy::new(Decision::Allow).ask(env("read_file"));
    assert!(
        asks.denies_file(&"search".into(), "a.env", FileAccess::Find).is_some(),
        "a search cannot ask about each file"
    );
    let allowed =
        ToolPolicy::new(Decision::Ask).allow(ToolRule::any().effects(Effects::ReadOnly)).ask(env("*"));
    assert_eq!(
        allowed.denies_file(&"search".into(), "a.env", FileAccess::Find),
        None,
        "the first rule allows it"
    );
    let read = |tool: &str| asks.denies_file(&tool.into(), "a.env", FileAccess::Read);
    assert!(read("search").is_some(), "the question of a search is not that of a read");
    assert_eq!(read("read_file"), None, "it was asked before the call");
    let written = ToolPolicy::new(Decision::Allow).deny(env("write_file"));
    assert!(written.denies_file(&"write_file".into(), "a.env", FileAccess::Write).is_some());
    assert_eq!(written.denies_file(&"edit_file".into(), "a.env", FileAccess::Write), None);
    assert_eq!(ToolPolicy::new(Decision::Ask).denies_file(&"search".into(), "a.env", FileAccess::Find), None);
}
