//! Lists of tools: pages, names, hostile entries.

use std::collections::BTreeSet;

use agent_core::AgentTool as _;
use agent_tools::mcp::{McpError, McpLimit, tool_name};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{call, child, connect, text, tools};

/// REQ-116.
#[tokio::test]
async fn all_pages_are_read() {
    let client = connect(child("sdk")).await;
    let names: Vec<String> =
        client.list_tools().await.unwrap().tools.into_iter().map(|tool| tool.name).collect();
    assert_eq!(names.len(), 17, "{names:?}");
    assert_eq!(names.first().unwrap(), "echo");
    assert_eq!(names.last().unwrap(), "große.Datei/öffnen");
}

/// REQ-133.
#[tokio::test]
async fn names_carry_the_prefix_fit_every_provider_and_lead_back() {
    let client = connect(child("sdk").with_prefix("test")).await;
    let tools = tools(&client).await;
    assert_eq!(tools[0].name(), "test__echo");
    for tool in &tools {
        let name = tool.name();
        assert!((1..=64).contains(&name.len()), "{name}");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{name}");
    }
    let odd = tools.last().unwrap();
    assert_eq!(odd.name(), "test__gro_e_Datei__ffnen");
    let ctx = crate::support::context(odd);
    assert_eq!(text(odd.execute(json!({}), ctx).await), "große.Datei/öffnen {}");
}

/// Anthropic refuses a request with such a name in it, and with it every other tool.
#[tokio::test]
async fn arguments_are_told_by_names_that_fit_every_provider_and_sent_by_the_servers_own() {
    let client = connect(child("sdk")).await;
    let tools = tools(&client).await;
    let odd = tools.last().unwrap();
    let named = |schema: &serde_json::Value| {
        schema["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(named(&odd.parameters_schema()), ["filter_name_"]);
    assert_eq!(named(&odd.info().input_schema), ["filter[name]"]);
    let ctx = crate::support::context(odd);
    let said = text(odd.execute(json!({"filter_name_": "x"}), ctx).await);
    assert_eq!(said, r#"große.Datei/öffnen {"filter[name]":"x"}"#);
}

#[test]
fn names_that_would_be_alike_differ_and_stay_the_same() {
    #[track_caller]
    fn check(prefix: Option<&str>, names: &[&str], expected: &[&str]) {
        let mut taken = BTreeSet::new();
        for (name, expected) in names.iter().zip(expected) {
            let given = tool_name(prefix, name, &taken);
            assert_eq!(given, *expected);
            assert!(taken.insert(given));
        }
    }
    check(None, &["a.b", "a/b", "a_b"], &["a_b", "a_b_7f9c50d1", "a_b_8f0abe81"]);
    check(Some(""), &["a"], &["a"]);
    check(None, &["7zip", "-x", ""], &["_7zip", "_-x", "_"]);
    let long = "x".repeat(70);
    let cut = tool_name(Some("p"), &long, &BTreeSet::new());
    assert_eq!(cut.len(), 64);
    assert_ne!(cut, tool_name(Some("p"), &"x".repeat(71), &BTreeSet::new()));
}

proptest! {
    /// REQ-133.
    #[test]
    fn whatever_servers_call_their_tools_every_name_is_valid_and_no_two_are_alike(
        prefix in prop::option::of(".{0,80}"),
        names in prop::collection::vec(prop_oneof![".{0,80}", "[a.]{1,3}", "x{60,70}"], 0..40),
    ) {
        let mut taken = BTreeSet::new();
        for name in &names {
            let given = tool_name(prefix.as_deref(), name, &taken);
            prop_assert!((1..=64).contains(&given.len()), "{given}");
            prop_assert!(given.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{given}");
            prop_assert!(!given.starts_with(|c: char| c.is_ascii_digit() || c == '-'), "{given}");
            prop_assert_eq!(&given, &tool_name(prefix.as_deref(), name, &taken));
            prop_assert!(taken.insert(given));
        }
    }
}

#[tokio::test]
async fn entries_that_cannot_be_used_are_named_and_the_others_used() {
    let client = connect(child("raw_list")).await;
    let list = client.list_tools().await.unwrap();
    let names: Vec<&str> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["plain", "bare", "empty", "titled"]);
    assert_eq!(
        list.skipped,
        [
            "a tool without a name",
            "`odd`, whose inputSchema is not an object",
            "`listing`, whose inputSchema does not describe an object",
        ]
    );
    for tool in &list.tools {
        assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
        assert!(tool.input_schema["properties"].is_object(), "{}", tool.name);
    }
    let tools = tools(&client).await;
    assert_eq!(tools[1].description(), "MCP tool (no description)");
    assert_eq!(tools[3].label(), "A title");
    assert_eq!(tools[3].info().annotations.read_only, None, "a hint of another type is none");
}

#[tokio::test]
async fn a_server_without_tools_has_none() {
    let client = connect(child("raw_no_tools")).await;
    assert_eq!(client.list_tools().await.unwrap().tools, []);
}

#[tokio::test]
async fn lists_without_end_are_an_error() {
    let client = connect(child("raw_no_list")).await;
    let error = client.list_tools().await.unwrap_err();
    assert!(matches!(error, McpError::Protocol { .. }), "{error:?}");
    for (mode, expected) in [("raw_endless", McpLimit::ListPages), ("raw_many", McpLimit::ListTools)] {
        let client = connect(child(mode)).await;
        let error = client.list_tools().await.unwrap_err();
        assert!(matches!(error, McpError::TooLarge { limit, .. } if limit == expected), "{mode}: {error:?}");
    }
}

#[tokio::test]
async fn the_tools_before_a_bad_page_are_used() {
    for (mode, skipped) in [
        ("raw_last_cursor", None),
        ("raw_loop", Some("named a page twice")),
        ("raw_second_page", Some("no such page")),
    ] {
        let list = connect(child(mode)).await.list_tools().await.unwrap();
        let names: Vec<&str> = list.tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["a"], "{mode}");
        match skipped {
            None => assert!(list.skipped.is_empty(), "{mode}: {:?}", list.skipped),
            Some(why) => assert!(list.skipped.last().unwrap().contains(why), "{mode}: {:?}", list.skipped),
        }
    }
}

#[tokio::test]
async fn a_server_whose_greeting_lacks_members_or_that_answers_with_batches_is_used() {
    for mode in ["raw_bare", "raw_half", "raw_batch"] {
        let client = connect(child(mode)).await;
        let names: Vec<String> = tools(&client).await.iter().map(|tool| tool.name().to_owned()).collect();
        assert_eq!(names, ["plain", "bare", "empty", "titled"], "{mode}");
        assert_eq!(text(call(&client, "bare", json!({})).await), "ok", "{mode}");
    }
}

#[tokio::test]
async fn only_the_tools_that_are_wanted_are_taken() {
    let client = connect(child("sdk").with_only_tools(["echo", "image", "no_such"])).await;
    let names: Vec<String> = tools(&client).await.iter().map(|tool| tool.name().to_owned()).collect();
    assert_eq!(names, ["echo", "image"]);
    assert_eq!(text(call(&client, "echo", json!({"text": "x"})).await), "x");
}
