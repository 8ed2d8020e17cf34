//! Big outputs of commands: cut in the result, kept whole, paged by the model.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is a part of tests")]
#![allow(clippy::print_stderr, reason = "what a machine cannot show is said in a line")]

mod support;

use agent_tools::{BashTool, CodingTools, OutputStore, ReadOutputTool, Workspace};
use serde_json::{Value, json};
use support::{call, folder, text};

/// The text behind the first line of a page.
fn body(page: &str) -> &str {
    page.split_once('\n').unwrap().1
}

#[test]
fn the_toolset_has_the_six_and_the_reader() {
    let tools = CodingTools::new(Workspace::unconfined()).tools();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
    assert_eq!(
        names,
        ["bash", "read_file", "write_file", "edit_file", "list_files", "search", "read_output"]
    );
    let schema = tools[6].parameters_schema();
    assert_eq!((&schema["type"], &schema["required"]), (&json!("object"), &json!(["key"])));
}

/// B-170, REQ-096.
#[tokio::test]
async fn what_a_command_said_is_shown_cut_and_can_be_read_to_its_end() {
    let folder = folder();
    let tools = CodingTools::new(folder.workspace.clone()).tools();
    let result = call(tools[0].as_ref(), json!({"command": "seq 200000; seq 300000 >&2"})).await.unwrap();
    let shown = result.to_text();
    assert!(shown.len() < 2 * 256 * 1024 + 2048, "{}", shown.len());
    let whole: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    let note = format!(
        "\n... (output truncated)\n[all {} bytes are kept: call read_output with key \"out-1\" and offset 262144 to read on]",
        whole.len()
    );
    assert!(shown.contains(&note), "{}", &shown[shown.len() - 300..]);
    assert_eq!(
        (&result.details["stdout_key"], &result.details["stderr_key"]),
        (&json!("out-1"), &json!("out-2"))
    );

    let mut seen = String::new();
    let mut offset = 0;
    loop {
        let page = call(tools[6].as_ref(), json!({"key": "out-1", "offset": offset, "limit": 200_000}))
            .await
            .unwrap();
        seen.push_str(body(&page.to_text()));
        offset = page.details["end"].as_u64().unwrap();
        if page.to_text().contains("this is the end") {
            break;
        }
    }
    assert_eq!(seen, whole);
    let last = text(call(tools[6].as_ref(), json!({"key": "out-2", "offset": -7})).await);
    assert_eq!(body(&last), "300000\n");
}

#[tokio::test]
async fn the_offset_of_the_note_goes_on_where_the_shown_part_ends_also_inside_of_a_character() {
    let store = OutputStore::new();
    let bash = BashTool::default().with_max_output_bytes(10).with_output_store(store.clone());
    let shown = text(call(&bash, json!({"command": "printf 'a€€€€€€'"})).await);
    assert!(
        shown.starts_with("Exit code: 0\na€€€\n... (output truncated)\n[all 19 bytes are kept"),
        "{shown}"
    );
    assert!(shown.contains("offset 10 "), "{shown}");
    let reader = ReadOutputTool::new(store);
    let rest = text(call(&reader, json!({"key": "out-1", "offset": 10})).await);
    assert_eq!(body(&rest), "€€€");
}

#[tokio::test]
async fn bytes_that_are_no_text_are_kept_as_they_came() {
    let store = OutputStore::new();
    let bash = BashTool::default().with_max_output_bytes(9).with_output_store(store.clone());
    // Four bytes fit, and what replaces them does not.
    let shown = text(call(&bash, json!({"command": "printf '\\xff\\xff\\xff\\xff'"})).await);
    assert!(shown.contains("all 4 bytes are kept") && shown.contains("offset 0 "), "{shown}");
    assert_eq!(store.read("out-1", 0, 100).await.unwrap().output().kept_bytes(), 4);
}

#[tokio::test]
async fn an_output_over_the_stores_bound_says_what_is_lost() {
    let store = OutputStore::new().with_max_output_bytes(1_000_000);
    let bash = BashTool::default().with_output_store(store.clone());
    let shown = text(call(&bash, json!({"command": "yes | head -c 3000000"})).await);
    assert!(
        shown.contains("[of 3000000 bytes the first 1000000 are kept, the rest is lost: "),
        "{}",
        &shown[shown.len() - 300..]
    );
    let end = text(call(&ReadOutputTool::new(store), json!({"key": "out-1", "offset": -2})).await);
    assert!(end.contains("this is the end of what is kept; 2000000 more bytes are lost"), "{end}");
}

#[tokio::test]
async fn what_came_before_a_time_out_is_kept_too() {
    let store = OutputStore::new();
    let bash = BashTool::default().with_output_store(store.clone());
    let command = json!({"command": "seq 100000; sleep 300", "timeout": 3});
    let result = call(&bash, command).await.unwrap();
    assert!(result.is_error && result.to_text().contains("out-1"));
    assert_eq!(
        body(&text(call(&ReadOutputTool::new(store), json!({"key": "out-1", "offset": -7})).await)),
        "100000\n"
    );
}

#[tokio::test]
async fn commands_side_by_side_have_keys_of_their_own() {
    let store = OutputStore::new();
    let work = (0..6).map(|n| {
        let bash = BashTool::default().with_output_store(store.clone());
        tokio::spawn(async move {
            let command = json!({"command": format!("yes {n} | head -c 600000")});
            (n, call(&bash, command).await.unwrap().details["stdout_key"].as_str().unwrap().to_owned())
        })
    });
    for task in work.collect::<Vec<_>>() {
        let (n, key) = task.await.unwrap();
        let page = store.read(&key, 500_000, 100_000).await.unwrap();
        assert_eq!(page.text(), format!("{n}\n").repeat(50_000));
    }
}

#[tokio::test]
async fn a_short_output_and_a_tool_without_a_store_are_as_before() {
    let tools = CodingTools::new(Workspace::unconfined()).tools();
    let result = call(tools[0].as_ref(), json!({"command": "echo hi"})).await.unwrap();
    assert_eq!(
        (result.to_text(), result.details),
        ("Exit code: 0\nhi\n".to_owned(), json!({"exit_code": 0, "success": true}))
    );
    let plain = text(call(&BashTool::default(), json!({"command": "yes | head -c 600000"})).await);
    assert!(plain.ends_with("... (output truncated)"));
    let unknown: Value = json!({"key": "out-7"});
    assert!(call(tools[6].as_ref(), unknown).await.unwrap_err().to_string().contains("none is kept"));
}
