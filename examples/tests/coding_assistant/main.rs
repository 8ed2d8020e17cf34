//! The coding assistant as a person meets it: on a terminal, and as several processes over one directory.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

mod model;
mod terminal;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use model::Model;
use terminal::Terminal;
use tokio::process::Command;

/// Far more than anything here takes.
const HANG: Duration = Duration::from_secs(60);

/// The program: cargo builds examples before it runs tests. It lies beside the folder of this test.
fn program() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let folder = deps.parent().and_then(Path::parent).unwrap();
    let program = folder.join("examples/coding_assistant");
    assert!(
        program.exists(),
        "{} is not there: run the tests of the whole package, or cargo build --example coding_assistant",
        program.display()
    );
    program
}

fn command(dir: &Path) -> Command {
    let mut command = Command::new(program());
    command.arg("--cwd").arg(dir).env("NO_COLOR", "1").kill_on_drop(true);
    let data = dir.with_file_name("data");
    command.env("XDG_DATA_HOME", &data).env("HOME", &data);
    command
}

/// A directory to work in, and beside it the data directory of the user.
struct Project {
    _folder: tempfile::TempDir,
    work: PathBuf,
}

impl Project {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        std::fs::create_dir(&work).unwrap();
        Self { _folder: folder, work }
    }

    fn path(&self) -> &Path {
        &self.work
    }
}

/// The folder with the sessions of a directory: the only one in the data directory.
fn sessions(dir: &Path) -> PathBuf {
    let all = std::fs::read_dir(dir.with_file_name("data").join("looptree/sessions")).unwrap();
    let all: Vec<_> = all.map(|folder| folder.unwrap().path()).collect();
    assert_eq!(all.len(), 1, "{all:?}");
    all.into_iter().next().unwrap()
}

/// Runs the program where nobody is at a terminal, and gives its exit code and all that it said.
async fn run(dir: &Path, words: &[&str]) -> (i32, String) {
    let mut command = command(dir);
    command.args(words).stdin(Stdio::null());
    let output = tokio::time::timeout(HANG, command.output()).await.expect("it hangs").unwrap();
    let said = [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned()).concat();
    (output.status.code().unwrap_or(-1), said)
}

/// Time travel: the tree, back, on elsewhere, side by side.
#[tokio::test]
async fn a_person_looks_at_the_tree_goes_back_forks_and_compares() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = Terminal::start(command(dir.path()).args(model.words()));
    on.sees("/help names the commands").await;
    on.types("/tree");
    on.sees("nothing has been recorded yet").await;
    on.types("write one");
    on.sees("I wrote one.").await;
    on.types("write two");
    on.sees("I wrote two.").await;
    on.types("/tree");
    on.sees("1  > write one [write_file]").await;
    on.sees("2  I wrote one.").await;
    on.sees("3  > write two [write_file]").await;
    on.sees("*  4  I wrote two.").await;

    on.types("/rewind 2");
    on.sees("back after turn 2; the conversation has 4 messages").await;
    on.sees("warning: notes.txt has other content").await;
    on.types("say three");
    on.sees("It is three.").await;
    on.types("/tree");
    on.sees("4  I wrote two.").await;
    on.sees("*  5    (from 2) > say three It is three.").await;
    on.types("/compare 4 5");
    on.sees("both begin with the same 4 messages").await;
    on.sees("only after turn 4: 4 messages").await;
    on.sees("user: write two").await;
    on.sees("only after turn 5: 2 messages").await;
    on.sees("user: say three").await;

    on.types("/fork 4");
    on.sees("which continues session").await;
    on.types("say four");
    on.sees("It is four.").await;
    on.types("/tree");
    on.sees("forked from session").await;
    on.sees("4  I wrote two.").await;
    on.sees("*  5  > say four It is four.").await;

    // What is wrong is said, and nothing ends by it.
    for (typed, said) in [
        ("/fork 9", "there is no turn 9; the session has 5"),
        ("/rewind x", "is not the number of a turn"),
        ("/compare 1", "wants the numbers of two turns"),
        ("/elsewhere", "there is no command /elsewhere"),
    ] {
        on.types(typed);
        on.sees(said).await;
    }
    on.types("/quit");
    assert_eq!(on.ends().await, 0);
    let asked = model.asked();
    assert_eq!(asked[4], "user(write one) assistant() tool assistant(I wrote one.) user(say three)");
    let last = asked.last().unwrap();
    assert!(
        last.ends_with("user(write two) assistant() tool assistant(I wrote two.) user(say four)"),
        "{last}"
    );
    let files = std::fs::read_dir(sessions(dir.path())).unwrap();
    let names: Vec<_> = files.map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names.iter().filter(|n| n.ends_with(".json")).count(), 2, "{names:?}");
}

/// X5: one process asks and ends, another one answers, a third goes on.
#[tokio::test]
async fn a_question_waits_until_somebody_answers_it_from_another_process() {
    let model = Model::start().await;
    let dir = Project::new();
    let with_model = |words: &[&'static str]| -> Vec<String> {
        model.words().into_iter().chain(words.iter().map(|w| (*w).to_owned())).collect()
    };
    let (code, said) = run(dir.path(), &["--pending"]).await;
    assert_eq!((code, said.trim()), (0, "no question waits"));

    let words = with_model(&["--wait", "run it"]);
    let (code, said) = run(dir.path(), &words.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(code, 3, "{said}");
    assert!(!dir.path().join("ran.txt").exists());

    let (code, said) = run(dir.path(), &["--pending"]).await;
    assert!(code == 0 && said.contains("| echo ran >> ran.txt"), "{said}");
    let id = said.split_whitespace().nth(1).unwrap().to_owned();
    let answer = format!("--answer {id} yes|no --hash ");
    let hash = said.split_once(&answer).unwrap().1.split_whitespace().next().unwrap().to_owned();

    let (code, said) = run(dir.path(), &["--answer", &id, "perhaps"]).await;
    assert!(code == 1 && said.contains("the answer is yes or no"), "{said}");
    for hash in [None, Some("000000000000")] {
        let words: Vec<_> =
            ["--answer", &id, "yes"].into_iter().chain(hash.iter().flat_map(|h| ["--hash", h])).collect();
        let (code, said) = run(dir.path(), &words).await;
        assert!(code == 1 && said.contains("| echo ran >> ran.txt"), "{said}");
    }
    let (code, said) = run(dir.path(), &["--answer", &id, "yes", "--hash", &hash]).await;
    assert!(code == 0 && said.contains(&format!("--resume {id}")), "{said}");
    let (code, said) = run(dir.path(), &["--answer", &id, "yes", "--hash", &hash]).await;
    assert!(code == 1 && said.contains("waits for no answer"), "{said}");
    assert!(!dir.path().join("ran.txt").exists(), "an answer runs nothing by itself");
    let (_, said) = run(dir.path(), &["--pending"]).await;
    assert!(said.contains("no question waits") && said.contains("can be continued"), "{said}");

    let mut words = with_model(&["--resume"]);
    words.push(id.clone());
    let (code, said) = run(dir.path(), &words.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert!(code == 0 && said.contains("It ran."), "{said}");
    assert_eq!(std::fs::read_to_string(dir.path().join("ran.txt")).unwrap(), "ran\n", "once");
    let (_, said) = run(dir.path(), &["--pending"]).await;
    assert_eq!(said.trim(), "no question waits");
}

/// Attack 6: a question is shown whole, with its second line and its control characters, wherever it is shown.
#[tokio::test]
async fn nothing_of_a_command_is_hidden_from_the_approver() {
    let model = Model::start().await;
    let dir = Project::new();
    let words: Vec<String> = model.words().into_iter().chain(["--wait".into(), "hide it".into()]).collect();
    let (code, said) = run(dir.path(), &words.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(code, 3, "{said}");
    let (_, pending) = run(dir.path(), &["--pending"]).await;
    let id = pending.split_whitespace().nth(1).unwrap().to_owned();
    let (_, refused) = run(dir.path(), &["--answer", &id, "yes"]).await;
    for said in [said, pending, refused] {
        let work = dir.path().canonicalize().unwrap();
        assert!(said.contains(&format!("directory: {}", work.display())), "{said}");
        assert!(said.replace("\n        + ", "").contains(&format!("| ls {}", "a".repeat(300))), "{said}");
        assert!(said.contains("\n        | touch ran.txt \\u{202e}\\u{1b}[2K\n"), "{said}");
    }
    assert!(!dir.path().join("ran.txt").exists());
}

/// Attacks 6 and 7: the sessions are in the user's data directory, for its owner only, and the tools do not find them.
#[tokio::test]
async fn sessions_are_not_in_the_workspace() {
    use std::os::unix::fs::PermissionsExt as _;
    let model = Model::start().await;
    let dir = Project::new();
    let words: Vec<String> = model.words().into_iter().chain(["find secret-of-mine".into()]).collect();
    let (code, said) = run(dir.path(), &words.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert!(code == 0 && said.contains("No matches found"), "{said}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the workspace is as it was");
    let folder = sessions(dir.path());
    assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let elsewhere = dir.path().with_file_name("elsewhere");
    let named = ["--sessions", elsewhere.to_str().unwrap(), "--pending"];
    assert_eq!(run(dir.path(), &named).await.1.trim(), "no question waits");
    assert!(elsewhere.is_dir());
    let inside = dir.path().join("a/b");
    let (code, said) = run(dir.path(), &["--sessions", inside.to_str().unwrap(), "--pending"]).await;
    assert!(code != 0 && said.contains("is inside of the directory"), "{said}");
    // A data directory inside of the workspace is refused.
    let mut inside = command(dir.path());
    inside.args(["--pending"]).env("XDG_DATA_HOME", dir.path().join("data")).env("HOME", dir.path());
    let output = inside.output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("is inside of") && said.contains("--sessions"), "{said}");
}

/// X2: a task with a question is recorded on a terminal, and replayed where there is no model, and no file is touched.
#[tokio::test]
async fn a_recorded_task_is_replayed_without_its_model_and_its_tools() {
    let model = Model::start().await;
    let dir = Project::new();
    let file = dir.path().join("task.json");
    let mut on =
        Terminal::start(command(dir.path()).args(model.words()).arg("--record").arg(&file).arg("run it"));
    on.sees("| echo ran >> ran.txt").await;
    on.types("yes");
    on.sees("It ran.").await;
    on.sees("recording: ").await;
    assert_eq!(on.ends().await, 0);
    let asked = model.asked().len();
    drop(model);
    std::fs::remove_file(dir.path().join("ran.txt")).unwrap();

    let (code, said) = run(dir.path(), &["--replay", &file.to_string_lossy()]).await;
    assert!(code == 0 && said.contains("It ran."), "{said}");
    let end = format!("the replay went the way of the recording: {asked} calls of the model, 1 of tools");
    assert!(said.contains(&end), "{said}");
    assert!(!dir.path().join("ran.txt").exists(), "a replay runs nothing");

    // Another answer than the one that was given is another run.
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"yes\"", "\"no\"")).unwrap();
    let (code, said) = run(dir.path(), &["--replay", &file.to_string_lossy()]).await;
    assert!(code == 1 && said.contains("the replay differs from the cassette at model call 2"), "{said}");
    assert!(said.contains("+ ") && said.contains("The user did not allow this command."), "{said}");

    for (text, expect) in
        [("{\"version\": 1}", "is not a recording of this program"), ("[", "is damaged at line 1")]
    {
        std::fs::write(&file, text).unwrap();
        let (code, said) = run(dir.path(), &["--replay", &file.to_string_lossy()]).await;
        assert!(code == 1 && said.contains(expect) && said.contains("task.json"), "{said}");
    }
    let (code, said) = run(dir.path(), &["--record", "x.json"]).await;
    assert!(code == 2 && said.contains("--record wants a task"), "{said}");
}

#[tokio::test]
async fn what_cannot_be_read_of_the_command_line_is_said_and_nothing_is_done() {
    let dir = Project::new();
    let (code, said) = run(dir.path(), &["--cwd=.", "--pending"]).await;
    assert_eq!((code, said.trim()), (0, "no question waits"));
    for (words, expect) in [
        (&["--yes=1", "task"][..], "--yes takes no value"),
        (&["--modle=x"], "there is no option --modle"),
        (&["--model"], "--model wants a value"),
        (&["--budget=much"], "--budget: "),
        (&["one", "two"], "one task at a time"),
        (&["--yes", "--wait", "--", "-x"], "--yes asks nobody"),
        (&["--", " "], "the task is empty"),
    ] {
        let (code, said) = run(dir.path(), words).await;
        assert!(code == 2 && said.contains(expect), "{words:?}: {code} {said}");
    }
}
