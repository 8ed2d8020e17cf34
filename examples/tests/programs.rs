//! The examples as programs, without a key and without a model server: what a reader of `docs/examples.md` sees.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "the programs are examples of this package")]
#![allow(clippy::print_stdout, reason = "a test says that it is skipped")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

#[path = "programs/page.rs"]
mod page;
#[path = "programs/repl.rs"]
mod repl;

/// Returns a command that runs an example without the variables of this process. Cargo builds examples before it runs tests;
/// they lie beside the folder of this test.
fn program(name: &str) -> Command {
    let deps = std::env::current_exe().unwrap();
    let folder = deps.parent().and_then(Path::parent).unwrap();
    let mut command = Command::new(folder.join("examples").join(name));
    command.env_clear().stdin(Stdio::null());
    for kept in ["PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH"] {
        if let Some(value) = std::env::var_os(kept) {
            command.env(kept, value);
        }
    }
    command
}

fn text(output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("a script answers"), "it says who answers: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn shown(name: &str) -> String {
    text(program(name).output().unwrap())
}

/// Runs an example with lines on its standard input.
fn shown_with_input(name: &str, arguments: &[&str], input: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("input");
    std::fs::write(&path, input).unwrap();
    text(program(name).args(arguments).stdin(std::fs::File::open(path).unwrap()).output().unwrap())
}

/// The text before a piece that differs from run to run, and the characters of the piece.
type Varying<'a> = (&'a str, fn(char) -> bool);

/// Replaces each piece that differs from run to run.
fn steady(text: &str, pieces: &[Varying<'_>]) -> String {
    pieces.iter().fold(text.to_owned(), |text, (start, is_part)| {
        let mut parts = text.split(start);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |done, part| format!("{done}{start}…{}", part.trim_start_matches(*is_part)))
    })
}

/// Compares with `tests/snapshots`, also for the modules of this test.
fn compare(name: &str, shown: &str) {
    insta::assert_snapshot!(name, shown);
}

#[test]
fn hello_prints_an_answer_and_the_conversation() {
    let shown = shown("hello");
    assert!(shown.contains("assistant: Hello."), "{shown}");
    insta::assert_snapshot!("hello", shown);
}

#[test]
fn a_wrong_argument_comes_back_to_the_model_which_corrects_it() {
    let shown = shown("typed_tool");
    assert!(shown.contains("- unit: must be one of \"feet\", \"miles\""), "{shown}");
    assert!(shown.contains("{\"value\":29031."), "{shown}");
    insta::assert_snapshot!("typed_tool", shown);
}

/// REQ-175. The pipeline of several agents: a specialist works for the desk, and billing takes the conversation over.
#[test]
fn a_specialist_works_for_the_desk_and_billing_takes_the_conversation_over() {
    let shown = shown("handoff");
    let at = |text: &str| shown.find(text).unwrap_or_else(|| panic!("{text} is missing:\n{shown}"));
    assert!(at("[shipping ") < at("[a specialist starts]") && at("[a specialist starts]") < at("[track "));
    assert!(at("Your parcel is in Lyon.") < at("[hand_over ") && at("[hand_over ") < at("Billing here."));
    insta::assert_snapshot!("handoff", shown);
}

#[test]
fn three_reviewers_answer_and_the_judge_selects_one() {
    let shown = shown("review");
    assert!(shown.contains("\nselected: errors\n"), "{shown}");
    assert!(!shown.contains("not followed"), "{shown}");
    insta::assert_snapshot!("review", shown);
}

#[test]
fn an_approval_is_given_in_another_process() {
    for (word, end) in [
        ("yes", "(deploys version 7)\nVersion 7 is in production.\n"),
        ("no", "I did not deploy version 7.\n"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let run = |arguments: &[&str]| {
            text(program("approval").env("TMPDIR", folder.path()).args(arguments).output().unwrap())
        };
        let asked = run(&[]);
        assert!(asked.contains("waits for an approval") && !asked.contains("deploys"), "{asked}");
        let answered = run(&[word]);
        assert!(
            answered.contains("deploy") && answered.contains('7') && answered.ends_with(end),
            "{answered}"
        );
        assert_eq!(answered.contains("(deploys version 7)"), word == "yes", "{answered}");
        // Nothing waits any more.
        let again = program("approval").env("TMPDIR", folder.path()).arg(word).output().unwrap();
        assert!(!again.status.success());
        assert!(String::from_utf8_lossy(&again.stderr).contains("no run waits"));
        if word == "yes" {
            let session: fn(char) -> bool = |c| c.is_ascii_hexdigit() || c == '-';
            insta::assert_snapshot!("approval", steady(&asked, &[("session ", session)]));
            insta::assert_snapshot!("approval_yes", answered);
        }
    }
}

#[test]
fn a_provider_of_ones_own_answers_and_passes_on_what_it_cannot() {
    let shown = shown("own_provider");
    assert!(shown.contains("-> 42 (adder-1)"), "{shown}");
    assert!(shown.contains("another model"), "{shown}");
    insta::assert_snapshot!("own_provider", shown);
}

#[test]
fn the_operations_of_an_api_are_called() {
    let shown = shown("openapi_agent");
    assert!(
        shown.contains("200 OK") && shown.contains(r#""order":71,"of":{"item":"lamp","pieces":8}"#),
        "{shown}"
    );
    insta::assert_snapshot!("openapi_agent", steady(&shown, &[("127.0.0.1:", |c| c.is_ascii_digit())]));
}

#[test]
fn the_tool_of_a_child_process_is_called() {
    let shown = shown("mcp_agent");
    assert!(shown.contains("[-> The code of the door is 4711.]"), "{shown}");
    insta::assert_snapshot!("mcp_agent", shown);
}

fn has_bash() -> bool {
    let found =
        Command::new("bash").arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success());
    if !found {
        println!("skipped: no bash");
    }
    found
}

#[test]
fn a_command_in_the_background_is_read_while_it_runs() {
    if !has_bash() {
        return;
    }
    let shown = shown("background");
    // The file that lets the command continue is written after this.
    let (first, rest) = shown.split_once("Two frames so far.\n").expect(&shown);
    assert!(
        first.contains("running: ") && first.contains("frame 1 | frame 2") && !first.contains("frame 3 |"),
        "{shown}"
    );
    assert!(rest.contains("It is complete"), "{shown}");
    insta::assert_snapshot!("background", shown);
}

/// REQ-175. The coding assistant with all built-in tools.
#[test]
fn the_assistant_uses_all_built_in_tools_and_asks_before_it_changes_something() {
    if !has_bash() {
        return;
    }
    let shown = shown_with_input("assistant", &[], "y\ny\ny\ny\n");
    for tool in ["bash", "read_file", "write_file", "edit_file", "list_files", "search"] {
        assert!(shown.contains(&format!("[{tool} ")), "{tool} is not called:\n{shown}");
    }
    assert_eq!(shown.matches("Allow? [y/N]").count(), 4, "two commands and two changes:\n{shown}");
    assert!(shown.ends_with("The test passes now.\n"), "{shown}");

    // On a folder of the user, and without a yes: nothing changes.
    let project = tempfile::tempdir().unwrap();
    std::fs::write(project.path().join("greet.sh"), "echo Helo, world\n").unwrap();
    let folder = project.path().to_str().unwrap();
    let denied = shown_with_input("assistant", &[folder, "Make the test pass."], "n\nn\nn\nn\n");
    assert!(denied.ends_with("The test does not pass.\n"), "{denied}");
    assert_eq!(std::fs::read_to_string(project.path().join("greet.sh")).unwrap(), "echo Helo, world\n");
    assert!(!project.path().join("NOTES").exists());
    let temporary = std::env::temp_dir().display().to_string();
    let name: fn(char) -> bool = |c| c.is_ascii_alphanumeric() || c == '.';
    let hash: fn(char) -> bool = |c| c.is_ascii_hexdigit();
    insta::assert_snapshot!(
        "assistant",
        steady(&shown, &[(&format!("{temporary}/"), name), ("hash: ", hash)])
    );
}
