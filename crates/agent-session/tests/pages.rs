//! The pages about sessions, held against the code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use agent_core::AgentHandle;
use std::path::Path;

use agent_core::{AgentEvent, LoopId, SessionId, Timestamp};
use agent_session::{BlockingSessionStore, LoopRecord, Session, SessionRecorder, session_schema};
use serde_json::Value;

fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
}

/// The part of a page below this title.
#[track_caller]
fn part<'a>(page: &'a str, title: &str) -> &'a str {
    let (_, after) = page.split_once(&format!("\n{title}\n")).unwrap_or_else(|| panic!("no part {title:?}"));
    let level = title.split(' ').next().unwrap();
    after.split_once(&format!("\n{level} ")).map_or(after, |(part, _)| part)
}

#[track_caller]
fn assert_names<'a>(part: &str, names: impl IntoIterator<Item = &'a str>) {
    let names: Vec<_> = names.into_iter().collect();
    assert!(!names.is_empty());
    for name in names {
        assert!(part.contains(&format!("`{name}`")), "the page does not name {name}");
    }
}

/// The names that a schema lists: of the values of an `enum`, or of the keys of its alternatives.
fn alternatives(schema: &Value) -> Vec<&str> {
    let values = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let shapes = schema["anyOf"].as_array().into_iter().flatten();
    values
        .chain(shapes.flat_map(|s| {
            let keys = s["properties"].as_object().into_iter().flat_map(|map| map.keys().map(String::as_str));
            alternatives(s).into_iter().chain(keys)
        }))
        .collect()
}

/// REQ-219.
#[test]
fn the_page_about_sessions_names_all_that_a_session_holds() {
    let page = page("concepts/sessions.md");
    let schema = session_schema();
    let formed = alternatives(&schema["properties"]["formation"]);
    assert_eq!(formed.len(), 3, "{formed:?}");
    assert_names(part(&page, "## How a session is formed"), formed);

    let loops = &schema["$defs"]["loop"]["properties"];
    let anatomy = part(&page, "## What a loop holds");
    assert_names(anatomy, loops.as_object().unwrap().keys().map(String::as_str));
    assert_names(anatomy, alternatives(&loops["status"]));
    assert_names(anatomy, alternatives(&loops["continuation_kind"]));
    assert_names(anatomy, ["LoopConfigSnapshot"]);
    let tree = part(&page, "## Walking the tree");
    for method in ["root_loops", "children_of", "parallel_siblings", "get_loop", "loop_chain_to"] {
        assert!(tree.contains(&format!("`{method}(")), "{method}");
    }
    assert_names(part(&page, "## Sub-agents in sessions of their own"), ["Session::parent_spawn_ref"]);
    assert_names(part(&page, "## Parallel groups"), ["group", "ParallelGroupRecord"]);
    assert!(part(&page, "## Recording").contains("SessionRecorder::attach("));
    let stores = ["save_session", "load_session", "list_session_ids", "delete_session"];
    assert_names(part(&page, "## Files"), stores);

    let decisions = part(&page, "## Decisions");
    for n in 1..=9 {
        let (_, this) = decisions.split_once(&format!("\n{n}. **")).unwrap_or_else(|| panic!("decision {n}"));
        let this = this.split_once(&format!("\n{}. **", n + 1)).map_or(this, |(this, _)| this);
        let this = this.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(this.contains(" Why: ") && this.contains(" Rejected: "), "decision {n}");
    }
}

/// REQ-220: what the page about the architecture names of sessions is there under these names.
#[test]
fn the_page_about_the_architecture_names_the_parts_that_sessions_are_made_of() {
    let page = page("architecture.md");
    let part = part(&page, "### agent-session");
    let _: fn(&dyn BlockingSessionStore, &Session) -> _ = |store, session| store.save_session(session);
    let _: fn(&Session) -> Option<&LoopRecord> = Session::head;
    let _: fn() -> SessionRecorder = SessionRecorder::new;
    let _: fn(&AgentEvent) -> &LoopId = AgentEvent::loop_id;
    let _: fn(&AgentHandle) -> SessionId = <AgentHandle as agent_core::compat::SeedVerbs>::new_session;
    let _ = agent_core::compat::SeedVerbs::last_active_at as fn(&AgentHandle) -> Option<Timestamp>;
    let _ = <AgentHandle as agent_core::compat::SeedVerbs>::check_and_rotate;
    let names = [
        "SessionStore",
        "Session",
        "LoopRecord",
        "SessionRecorder",
        "AgentEvent::loop_id",
        "new_session",
        "check_and_rotate",
        "last_active_at",
    ];
    assert_names(part, names);
    // What it may depend on.
    assert!(page.contains("agent-session know the provider layer by traits only"));
}
