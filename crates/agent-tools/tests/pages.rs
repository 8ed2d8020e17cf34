//! What the pages in `docs/tools` say of the tools, held against the tools.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests say what is wrong by ending"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use agent_core::AgentTool;
use agent_tools::{
    ApplyPatchTool, AskUserTool, EditFileTool, ListFilesTool, MemoryTool, PlanTool, ReadFileTool, SearchTool,
    WriteFileTool, apply_patch, ask_user, edit_file, list_files, memory, plan, read_file, search,
};
use serde_json::{Value, json};
use support::{Folder, call, folder};

/// The page of a tool, the folder of its source, and the values of its constants.
struct Page {
    tool: fn(&Folder) -> Box<dyn AgentTool>,
    constants: Vec<(&'static str, String)>,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages() -> Vec<Page> {
    let mut pages = file_pages();
    pages.extend(other_pages());
    pages
}

fn other_pages() -> Vec<Page> {
    vec![
        Page {
            tool: |folder| Box::new(ApplyPatchTool::new(folder.workspace.clone())),
            constants: vec![
                ("apply_patch::MAX_PATCH_BYTES", bytes(apply_patch::MAX_PATCH_BYTES as u64)),
                ("apply_patch::MAX_FILES", apply_patch::MAX_FILES.to_string()),
                ("apply_patch::MAX_FILE_BYTES", bytes(apply_patch::MAX_FILE_BYTES)),
                ("apply_patch::MAX_TOTAL_BYTES", bytes(apply_patch::MAX_TOTAL_BYTES as u64)),
            ],
        },
        Page {
            tool: |_| Box::new(PlanTool::new()),
            constants: vec![
                ("plan::MAX_STEPS", plan::MAX_STEPS.to_string()),
                ("plan::MAX_STEP_BYTES", bytes(plan::MAX_STEP_BYTES as u64)),
                ("plan::MAX_EXPLANATION_BYTES", bytes(plan::MAX_EXPLANATION_BYTES as u64)),
            ],
        },
        Page {
            tool: |_| Box::new(AskUserTool::new()),
            constants: vec![
                ("ask_user::MAX_CHOICES", ask_user::MAX_CHOICES.to_string()),
                ("ask_user::MAX_QUESTION_BYTES", bytes(ask_user::MAX_QUESTION_BYTES as u64)),
                ("ask_user::MAX_ANSWER_BYTES", bytes(ask_user::MAX_ANSWER_BYTES as u64)),
            ],
        },
        Page {
            tool: |folder| Box::new(MemoryTool::new(folder.workspace.clone()).unwrap()),
            constants: vec![
                ("memory::MAX_FILE_BYTES", bytes(memory::MAX_FILE_BYTES)),
                ("memory::MAX_FILES", memory::MAX_FILES.to_string()),
                ("memory::MAX_LISTED", memory::MAX_LISTED.to_string()),
            ],
        },
        #[cfg(feature = "web")]
        web_page(),
    ]
}

#[cfg(feature = "web")]
fn web_page() -> Page {
    use agent_tools::web_fetch::{self, WebFetchTool};
    Page {
        tool: |_| Box::new(WebFetchTool::new().unwrap()),
        constants: vec![
            ("web_fetch::MAX_URL_BYTES", bytes(web_fetch::MAX_URL_BYTES as u64)),
            ("web_fetch::MAX_BYTES", bytes(web_fetch::MAX_BYTES as u64)),
            ("web_fetch::MAX_TEXT_BYTES", bytes(web_fetch::MAX_TEXT_BYTES as u64)),
            ("web_fetch::MAX_REDIRECTS", web_fetch::MAX_REDIRECTS.to_string()),
            ("web_fetch::TIMEOUT", seconds(web_fetch::TIMEOUT)),
            ("web_fetch::PORTS", web_fetch::PORTS.map(|port| port.to_string()).join(", ")),
        ],
    }
}

fn file_pages() -> Vec<Page> {
    vec![
        Page {
            tool: |folder| Box::new(ReadFileTool::new(folder.workspace.clone())),
            constants: vec![
                ("read_file::MAX_TEXT_BYTES", bytes(read_file::MAX_TEXT_BYTES)),
                ("read_file::MAX_IMAGE_BYTES", bytes(read_file::MAX_IMAGE_BYTES)),
                ("read_file::MAX_LINE_BYTES", bytes(read_file::MAX_LINE_BYTES as u64)),
            ],
        },
        Page { tool: |folder| Box::new(WriteFileTool::new(folder.workspace.clone())), constants: Vec::new() },
        Page {
            tool: |folder| Box::new(EditFileTool::new(folder.workspace.clone())),
            constants: vec![
                ("edit_file::MAX_FILE_BYTES", bytes(edit_file::MAX_FILE_BYTES)),
                ("edit_file::MAX_EDITS", edit_file::MAX_EDITS.to_string()),
            ],
        },
        Page {
            tool: |folder| Box::new(ListFilesTool::new(folder.workspace.clone())),
            constants: vec![
                ("list_files::MAX_RESULTS", list_files::MAX_RESULTS.to_string()),
                ("list_files::DEFAULT_DEPTH", list_files::DEFAULT_DEPTH.to_string()),
                ("list_files::TIMEOUT", seconds(list_files::TIMEOUT)),
            ],
        },
        Page {
            tool: |folder| Box::new(SearchTool::new(folder.workspace.clone())),
            constants: vec![
                ("search::MAX_MATCHES", search::MAX_MATCHES.to_string()),
                ("search::TIMEOUT", seconds(search::TIMEOUT)),
                ("search::MAX_LINE_BYTES", bytes(search::MAX_LINE_BYTES as u64)),
                ("search::MAX_SEARCHED_LINE_BYTES", bytes(search::MAX_SEARCHED_LINE_BYTES as u64)),
                ("search::MAX_PATTERN_BYTES", bytes(search::MAX_PATTERN_BYTES as u64)),
                ("search::MAX_NESTING", search::MAX_NESTING.to_string()),
                ("search::MAX_REGEX_BYTES", bytes(search::MAX_REGEX_BYTES as u64)),
            ],
        },
    ]
}

fn bytes(number: u64) -> String {
    match number {
        n if n % (1024 * 1024) == 0 => format!("{} MiB", n / (1024 * 1024)),
        n if n % 1024 == 0 => format!("{} KiB", n / 1024),
        n => format!("{n} bytes"),
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs())
}

/// The text of a tool's page.
fn text_of(tool: &dyn AgentTool) -> String {
    let path = root().join("docs/tools").join(format!("{}.md", tool.name().replace('_', "-")));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The part of a page below a heading.
#[track_caller]
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) =
        page.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no section `{heading}`"));
    rest.split("\n## ").next().unwrap()
}

/// The rows of the tables of a text, without their heads.
fn rows(text: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    let body = lines.iter().position(|line| line.starts_with("|---")).map_or(lines.len(), |rule| rule + 1);
    lines[body..].iter().map(|line| cells(line)).collect()
}

fn unquoted(cell: &str) -> &str {
    cell.trim_matches('`')
}

#[test]
fn every_page_has_its_parts() {
    let folder = folder();
    for page in pages() {
        let text = text_of((page.tool)(&folder).as_ref());
        for heading in ["Arguments", "Limits", "Output", "Errors", "Effects", "What it does not do"] {
            assert!(!section(&text, heading).trim().is_empty(), "{heading}");
        }
    }
}

#[test]
fn a_page_names_the_arguments_of_the_schema_with_their_types_and_which_are_needed() {
    let folder = folder();
    for page in pages() {
        let tool = (page.tool)(&folder);
        let schema = tool.parameters_schema();
        let text = text_of(tool.as_ref());
        let said: BTreeMap<String, (String, bool)> = rows(section(&text, "Arguments"))
            .iter()
            .map(|row| {
                let [name, kind, default, ..] = row.as_slice() else { panic!("{row:?}") };
                let kind = match kind.split_once(", ") {
                    Some((kind, range)) => {
                        assert_eq!(range, "1 and more");
                        assert_eq!(schema["properties"][unquoted(name)]["minimum"], json!(1));
                        kind
                    }
                    None => kind,
                };
                (unquoted(name).to_owned(), (kind.to_owned(), default == "required"))
            })
            .collect();
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let real: BTreeMap<String, (String, bool)> = schema["properties"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, field)| {
                let kind = field["type"].as_str().unwrap().to_owned();
                (name.clone(), (kind, required.contains(&name.as_str())))
            })
            .collect();
        assert_eq!(said, real, "{}", tool.name());
        // Defaults that the model reads in the schema are those that the page names.
        for row in rows(section(&text, "Arguments")) {
            let described = schema["properties"][unquoted(&row[0])]["description"].as_str().unwrap();
            if let Some((_, default)) = described.split_once("Default: ") {
                assert_eq!(unquoted(&row[2]), default, "{}: {}", tool.name(), row[0]);
            }
        }
    }
}

#[test]
fn a_page_names_every_limit_with_the_value_of_its_constant() {
    let folder = folder();
    for page in pages() {
        let tool = (page.tool)(&folder);
        let text = text_of(tool.as_ref());
        let said: BTreeMap<String, String> = rows(section(&text, "Limits"))
            .iter()
            .map(|row| (unquoted(&row[1]).to_owned(), row[2].clone()))
            .collect();
        let real: BTreeMap<String, String> =
            page.constants.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        assert_eq!(said, real, "{}", tool.name());

        // No constant of the module was forgotten in the list above.
        let source = root().join("crates/agent-tools/src").join(format!("{}.rs", tool.name()));
        let source = std::fs::read_to_string(source).unwrap();
        let declared: BTreeSet<String> = source
            .lines()
            .filter_map(|line| line.strip_prefix("pub const ")?.split(':').next())
            .map(|name| format!("{}::{name}", tool.name()))
            .collect();
        assert_eq!(real.into_keys().collect::<BTreeSet<_>>(), declared, "{}", tool.name());

        // Builders are there.
        for row in rows(section(&text, "Limits")) {
            let builder = unquoted(row.get(3).map_or("", |cell| cell.trim_end_matches('|').trim()));
            assert!(builder.is_empty() || source.contains(&format!("pub fn {builder}(")), "{builder}");
        }
    }
}

/// The fixed parts of the texts of an enum of errors.
fn error_texts(source: &str) -> Vec<Vec<String>> {
    let texts = source.split("#[error(").skip(1).filter_map(|rest| {
        let rest = rest.trim_start().strip_prefix('"')?;
        let end = (0..rest.len()).find(|at| rest[*at..].starts_with('"') && !rest[..*at].ends_with('\\'))?;
        Some(&rest[..end])
    });
    let fixed = |text: &str| {
        let parts = text.split('{').enumerate().map(|(index, part)| match index {
            0 => part,
            _ => part.split_once('}').map_or("", |(_, after)| after),
        });
        parts.map(str::to_owned).filter(|part| part.trim().len() > 1).collect()
    };
    texts.map(fixed).collect()
}

#[track_caller]
fn check_errors(source: &str, table: &[Vec<String>]) {
    let source = std::fs::read_to_string(root().join("crates/agent-tools/src").join(source)).unwrap();
    let texts = error_texts(&source);
    assert!(!texts.is_empty(), "no texts");
    for parts in texts {
        let is_said = table.iter().any(|row| {
            let mut rest = row[0].as_str();
            parts.iter().all(|part| match rest.split_once(part.as_str()) {
                Some((_, after)) => {
                    rest = after;
                    true
                }
                None => false,
            })
        });
        assert!(is_said, "no row for {parts:?} in {table:#?}");
    }
}

#[test]
fn a_page_names_every_error_in_its_own_words() {
    let folder = folder();
    for page in pages() {
        let tool = (page.tool)(&folder);
        let beside = format!("{}/error.rs", tool.name());
        let is_apart = root().join("crates/agent-tools/src").join(&beside).exists();
        let source = if is_apart { beside } else { format!("{}.rs", tool.name()) };
        check_errors(&source, &rows(section(&text_of(tool.as_ref()), "Errors")));
    }
    let tools = std::fs::read_to_string(root().join("docs/tools.md")).unwrap();
    let workspace = section(&tools, "The workspace");
    let table: Vec<Vec<String>> = rows(workspace);
    check_errors("workspace/error.rs", &table);
}

#[test]
fn a_page_names_the_effects_that_the_tool_declares() {
    let folder = folder();
    for page in pages() {
        let tool = (page.tool)(&folder);
        let text = text_of(tool.as_ref());
        let said = section(&text, "Effects").trim().split(':').next().unwrap();
        let arguments = json!({"path": "notes.txt", "content": "x", "pattern": "x", "input": "x", "steps": [],
            "question": "x", "url": "http://a.example", "command": "view"});
        assert_eq!(unquoted(said), format!("{:?}", tool.effects(&arguments)), "{}", tool.name());
    }
}

/// Calls and what the page says comes of them.
fn examples(page: &str) -> Vec<(Value, &str)> {
    let calls = page.split("```json\n").skip(1).map(|rest| {
        let (call, rest) = rest.split_once("```\n```text\n").expect("a call is followed by its answer");
        (serde_json::from_str(call).unwrap(), rest.split_once("\n```").unwrap().0)
    });
    calls.collect()
}

#[tokio::test]
async fn the_examples_of_a_page_come_out_as_it_says() {
    for page in pages() {
        let folder = folder();
        folder.put("notes.txt", "one\ntwo\ndrei äöü\n");
        let tool = (page.tool)(&folder);
        if matches!(tool.name(), "list_files" | "search") {
            folder.put("Cargo.toml", "[package]\n");
            folder.put("src/lib.rs", "pub fn one() {}\n");
            folder.put("src/tree/mod.rs", "// Two.\nfn two() {}\n");
        }
        let text = text_of(tool.as_ref());
        let examples = examples(&text);
        assert!(examples.len() > 1, "{} has examples", tool.name());
        for (arguments, expected) in examples {
            let answer = match call(tool.as_ref(), arguments.clone()).await {
                Ok(result) => result.to_text(),
                Err(error) => error.to_string(),
            };
            // A hint for the model may follow.
            let is_same = answer == expected || (expected.ends_with('.') && answer.starts_with(expected));
            assert!(is_same, "{} {arguments}:\n{answer}\nin place of\n{expected}", tool.name());
        }
    }
}
