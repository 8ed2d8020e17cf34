//! What `CodingTools` and the tools in it make of settings that meet, in either order.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "these are tests")]

mod support;

use std::sync::Arc;

use agent_core::AgentTool;
use agent_tools::sandbox::{Sandbox, SandboxRules};
use agent_tools::{BashTool, CodingTools, OutputStore, Workspace};
use serde_json::json;

use support::{call, folder, text};

fn workspace() -> Workspace {
    Workspace::unconfined()
}

/// The description of a shell says whether it runs in a sandbox.
#[track_caller]
fn check_confined(tools: &CodingTools, confined: bool) {
    let tools = tools.tools();
    let bash = tools.iter().find(|tool| tool.name() == "bash").unwrap();
    assert_eq!(bash.description().contains("in a sandbox"), confined, "{}", bash.description());
}

#[test]
fn a_shell_gets_the_sandbox_of_the_set_in_either_order() {
    let sandbox = || Sandbox::landlock(SandboxRules::new());
    let bash = || BashTool::new(workspace());
    let set = || CodingTools::new(workspace());
    check_confined(&set(), false);
    check_confined(&set().with_bash(bash()), false);
    check_confined(&set().with_sandbox(sandbox()), true);
    check_confined(&set().with_sandbox(sandbox()).with_bash(bash()), true);
    check_confined(&set().with_bash(bash()).with_sandbox(sandbox()), true);
}

#[test]
fn a_sandbox_that_the_shell_brings_wins() {
    let sandbox = || Sandbox::landlock(SandboxRules::new());
    let free = || BashTool::new(workspace()).with_sandbox(Sandbox::none());
    let confined = || BashTool::new(workspace()).with_sandbox(sandbox());
    let set = || CodingTools::new(workspace());
    check_confined(&set().with_sandbox(sandbox()).with_bash(free()), false);
    check_confined(&set().with_bash(free()).with_sandbox(sandbox()), false);
    check_confined(&set().with_sandbox(Sandbox::none()).with_bash(confined()), true);
    check_confined(&set().with_bash(confined()).with_sandbox(Sandbox::none()), true);
}

/// The key of an output that the shell has cut, read by `read_output` of the same set.
async fn read_back(tools: &[Arc<dyn AgentTool>]) -> String {
    let named = |name: &str| tools.iter().find(|tool| tool.name() == name).unwrap();
    let cut = call(&**named("bash"), json!({"command": "printf 0123456789"})).await.unwrap();
    let key = cut.details["stdout_key"].clone();
    text(call(&**named("read_output"), json!({"key": key})).await)
}

#[tokio::test]
async fn whichever_store_is_used_read_output_has_it() {
    let folder = folder();
    let bash = || BashTool::new(folder.workspace.clone()).with_max_output_bytes(4);
    let set = || CodingTools::new(folder.workspace.clone());
    let whole = "[out-1: bytes 0 to 10 of 10; this is the end]\n0123456789";
    assert_eq!(read_back(&set().with_bash(bash()).tools()).await, whole);

    let own = OutputStore::new();
    let tools = set().with_bash(bash().with_output_store(own.clone())).tools();
    assert_eq!(read_back(&tools).await, whole);
    assert!(own.read("out-1", 0, 4).await.is_ok(), "the shell's own store is used");

    for shell_first in [true, false] {
        let (own, shared) = (OutputStore::new(), OutputStore::new());
        let bash = bash().with_output_store(own.clone());
        let tools = if shell_first {
            set().with_bash(bash).with_output_store(shared.clone())
        } else {
            set().with_output_store(shared.clone()).with_bash(bash)
        };
        assert_eq!(read_back(&tools.tools()).await, whole);
        assert!(shared.read("out-1", 0, 4).await.is_ok(), "a store of the set is for all of its tools");
        assert!(own.read("out-1", 0, 4).await.is_err());
    }
}

#[tokio::test]
async fn a_pattern_that_was_denied_stays_denied_when_the_defaults_are_replaced() {
    use agent_tools::DenyPattern;
    let pattern = || DenyPattern::text("forbidden");
    for bash in [
        BashTool::new(workspace()).deny(pattern()).with_deny_patterns([]),
        BashTool::new(workspace()).with_deny_patterns([]).deny(pattern()),
    ] {
        let error = call(&bash, json!({"command": "echo forbidden"})).await.unwrap_err().to_string();
        assert!(error.contains("contains 'forbidden'"), "{error}");
    }
}

#[test]
fn tools_are_added_by_name_and_once() {
    let memory = || agent_tools::MemoryTool::new(folder().workspace).unwrap();
    let set = CodingTools::new(workspace()).with_apply_patch().with_plan().with_ask_user().with_plan();
    let set = set.with_memory(memory()).with_memory(memory());
    let names: Vec<String> = set.tools().iter().map(|tool| tool.name().to_owned()).collect();
    assert_eq!(names[7..], ["apply_patch", "ask_user", "plan", "memory"]);
}

/// An approver is shown the folder in which a call works.
#[test]
fn tools_of_files_and_commands_name_the_folder_in_which_they_work() {
    let dir = folder();
    let root = dir.path().canonicalize().unwrap();
    for (workspace, expected) in
        [(Workspace::open(&root).unwrap(), root.clone()), (workspace(), std::env::current_dir().unwrap())]
    {
        let tools = CodingTools::new(workspace).tools();
        let named: Vec<&str> = tools
            .iter()
            .filter(|tool| tool.working_directory().as_ref() == Some(&expected))
            .map(AgentTool::name)
            .collect();
        assert_eq!(named, ["bash", "read_file", "write_file", "edit_file", "list_files", "search"]);
        assert!(tools.iter().all(|tool| tool.working_directory().is_none_or(|folder| folder == expected)));
    }
}
