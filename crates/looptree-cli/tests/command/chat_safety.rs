//! The chat with questions and failures: approvals, consent, a wrong key, a limit, no network.

use super::terminal::Terminal;
use super::{Model, Project};

fn chat(dir: &Project, model: &Model, variables: &[(&str, &str)], words: &[&str]) -> Terminal {
    let words: Vec<String> = model.words().into_iter().chain(words.iter().map(|w| (*w).to_owned())).collect();
    let variables = [&[("NO_COLOR", "1")], variables].concat();
    Terminal::start(dir, 80, &variables, &words)
}

/// Makes the directory a repository.
fn repository(dir: &Project) {
    let git = dir.path().join(".git");
    for folder in ["objects", "refs"] {
        std::fs::create_dir_all(git.join(folder)).unwrap();
    }
    std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(git.join("config"), "[core]\n\trepositoryformatversion = 0\n").unwrap();
}

/// Denies the open question without a reason.
async fn denies(on: &mut Terminal) {
    on.types("n");
    on.sees("Why?").await;
    on.types("");
    on.prompts().await;
}

#[tokio::test]
async fn edits_and_commands_are_asked_about_and_a_diff_is_shown_before_an_edit() {
    let model = Model::start().await;
    let dir = Project::new();
    let notes = dir.path().join("notes.txt");
    std::fs::write(&notes, "one\ntwo\n").unwrap();
    let mut on = chat(&dir, &model, &[], &[]);
    on.sees("you are asked before edits and commands").await;
    on.prompts().await;
    on.types("edit zwei");
    on.sees("Allow this call? notes.txt").await;
    on.sees("-two").await;
    on.sees("+zwei").await;
    on.sees("y yes, n no, a always, s show all:").await;
    assert_eq!(
        std::fs::read_to_string(&notes).unwrap(),
        "one\ntwo\n",
        "nothing is written before the answer"
    );
    on.types("maybe");
    on.sees("Answer y, n").await;
    on.types("n because of the weather");
    on.prompts().await;
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "one\ntwo\n");
    assert!(on.text().contains("because of the weather"), "{}", on.text());
    on.types("edit drei");
    on.sees("+drei").await;
    on.types("s");
    on.sees("new_text").await;
    on.types("y");
    on.prompts().await;
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "one\ndrei\n");
    on.types("run it");
    on.sees("Run this command?").await;
    on.sees("| echo ran >> ran.txt").await;
    denies(&mut on).await;
    assert!(!dir.path().join("ran.txt").exists());
}

#[tokio::test]
async fn always_allows_this_program_and_nothing_more() {
    let model = Model::start().await;
    let dir = Project::new();
    repository(&dir);
    let mut on = chat(&dir, &model, &[], &[]);
    on.prompts().await;
    on.types("exec git status");
    on.sees("a always").await;
    on.types("a");
    on.sees("allowed until the chat ends: commands that run only `git status ...`").await;
    on.prompts().await;
    on.types("exec git status --short");
    on.sees("It ran.").await;
    on.prompts().await;
    // The second line is not hidden, and needs an approval.
    on.pastes("exec git status\ntouch ran.txt");
    on.keys("\r");
    on.sees("| git status").await;
    on.sees("| touch ran.txt").await;
    on.sees("a always").await;
    on.types("n no");
    on.prompts().await;
    assert!(!dir.path().join("ran.txt").exists());
    on.types("/tools");
    on.sees("allowed without a question: commands that run only `git status ...`").await;
    on.prompts().await;
    on.types("write x");
    on.sees("+x").await;
    on.types("always");
    on.sees("every call of write_file").await;
    on.prompts().await;
    on.types("write y");
    on.sees("I wrote y.").await;
    on.prompts().await;
    assert_eq!(std::fs::read_to_string(dir.path().join("notes.txt")).unwrap(), "y\n");
}

/// A call that does not fit on the screen is not allowed before its rest was shown.
#[tokio::test]
async fn nothing_is_allowed_that_was_not_on_the_screen() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &[], &[]);
    on.prompts().await;
    on.types("long it");
    on.sees("more lines; s shows all").await;
    assert!(!on.text().contains("echo line 59"));
    on.types("y");
    on.sees("| echo line 59").await;
    on.sees("That was the rest of the call. Now answer.").await;
    denies(&mut on).await;
    on.types("hide it");
    on.sees("| touch ran.txt \\u{202e}\\u{1b}[2K").await;
    denies(&mut on).await;
    assert!(!dir.path().join("ran.txt").exists());
}

/// The diff of a question, the call, its result and the prompt show no invisible character as it is.
#[tokio::test]
async fn nothing_invisible_of_an_edit_reaches_the_screen() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &[], &[]);
    on.prompts().await;
    let hidden = [
        '\u{ad}',
        '\u{34f}',
        '\u{115f}',
        '\u{17b4}',
        '\u{180e}',
        '\u{200b}',
        '\u{200d}',
        '\u{2800}',
        '\u{3164}',
        '\u{fe0f}',
        '\u{ffa0}',
        '\u{fff9}',
        '\u{fffc}',
        '\u{13441}',
        '\u{1d173}',
        '\u{e0001}',
        '\u{e0061}',
        '\u{202e}',
    ];
    on.pastes(&format!("write {}", String::from_iter(hidden)));
    on.keys("\r");
    on.sees("+\\u{ad}\\u{34f}\\u{115f}\\u{17b4}\\u{180e}").await;
    on.sees("every call of write_file").await;
    let shown = on.text();
    let question = shown.split("Allow this call?").nth(1).unwrap();
    assert!(!question.contains(hidden), "{question:?}");
    denies(&mut on).await;
}

/// "Always" for a command that runs another program is for this command alone.
#[tokio::test]
async fn always_for_a_program_that_runs_programs_is_this_command_alone() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &[], &[]);
    on.prompts().await;
    on.types("exec env true");
    on.sees("always would allow, until the chat ends: exactly this command: env true").await;
    on.types("a");
    on.prompts().await;
    on.types("exec env true");
    on.sees("It ran.").await;
    on.prompts().await;
    on.types("exec env touch ran.txt");
    on.sees("| env touch ran.txt").await;
    on.sees("y yes, n no").await;
    denies(&mut on).await;
    assert!(!dir.path().join("ran.txt").exists());
}

/// A name says nothing where a command can put another program of this name: "always" is for this command alone.
#[tokio::test]
async fn always_covers_no_name_where_the_path_has_a_folder_of_the_project() {
    let model = Model::start().await;
    let dir = Project::new();
    repository(&dir);
    std::fs::create_dir(dir.path().join("bin")).unwrap();
    let usual = std::env::var("PATH").unwrap();
    let inside = dir.path().join("bin").display().to_string();
    for folder in [&*inside, "."] {
        for path in [format!("{folder}:{usual}"), format!("{usual}:{folder}")] {
            let mut on = chat(&dir, &model, &[("PATH", &path)], &[]);
            on.prompts().await;
            on.types("exec git status");
            on.sees("exactly this command: git status").await;
            assert!(!on.text().contains("only `git status ...`"), "{path}: {}", on.text());
            denies(&mut on).await;
        }
    }
}

/// A question never shows a part of a file only.
#[tokio::test]
async fn a_file_of_a_project_that_is_longer_than_the_screen_is_not_asked_about() {
    let model = Model::start().await;
    let dir = Project::new();
    let file = dir.path().join(".looptree/config.toml");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    let lines = |number: usize| "# a line\n".repeat(number - 1) + "approve = \"none\"\n";
    for (number, end) in [(60, "Use them?"), (61, "It has 61 lines, and a question shows at most 60")] {
        std::fs::write(&file, lines(number)).unwrap();
        let mut on = chat(&dir, &model, &[], &[]);
        on.sees(end).await;
        if number == 60 {
            on.types("n");
        }
        on.sees("you are asked before edits and commands").await;
        on.prompts().await;
        assert_eq!(on.text().contains("Use them?"), number == 60, "{}", on.text());
        on.keys("\x04");
        on.ends().await;
    }
}

/// Neither a paste nor a text that was begun before the question was to be seen is an answer.
#[tokio::test]
async fn a_paste_and_a_half_typed_text_do_not_answer_a_question() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &[], &[]);
    on.prompts().await;
    on.types("run it");
    on.sees("Run this command?").await;
    on.shows("y yes, n no").await;
    on.pastes("y\ny\ny\n");
    on.shows("y⏎y⏎y⏎").await;
    on.keys("\r");
    on.sees("A paste does not answer").await;
    for paste in ["y", "a", "yes"] {
        on.pastes(paste);
        on.shows(&format!("s show all: {paste}")).await;
        on.keys("\r");
        on.sees("A paste does not answer").await;
    }
    // Half of it, typed, makes it no better.
    on.keys("y");
    on.pastes("es");
    on.keys("\r");
    on.sees("A paste does not answer").await;
    assert!(!dir.path().join("ran.txt").exists(), "{}", on.text());
    on.keys("\x03");
    on.sees("interrupted").await;
    on.prompts().await;
    assert!(!dir.path().join("ran.txt").exists());

    // The first command is allowed; while it runs a text is begun, and the second one asks.
    let mut on = chat(&dir, &model, &[], &[]);
    on.prompts().await;
    on.types("twice sleep 1");
    on.sees("| sleep 1").await;
    on.shows("y yes, n no").await;
    on.types("y");
    on.sees("y yes, n no, a always, s show all: y").await;
    on.keys("y");
    on.sees("| echo ran >> ran.txt").await;
    on.shows("y yes, n no").await;
    on.keys("\r");
    on.sees("Answer y, n").await;
    assert!(!dir.path().join("ran.txt").exists(), "{}", on.text());
    on.types("n no");
    on.shows("> y").await;
    assert!(!dir.path().join("ran.txt").exists());
}

#[tokio::test]
async fn a_project_is_trusted_once_for_each_content_of_its_file() {
    let model = Model::start().await;
    let dir = Project::new();
    let file = dir.path().join(".looptree/config.toml");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "approve = \"none\"\n").unwrap();
    let mut on = chat(&dir, &model, &[], &[]);
    on.sees("| approve = \"none\"").await;
    on.sees("Use them?").await;
    on.pastes("y\n");
    on.sees("A paste does not answer").await;
    on.sees("ignored in").await;
    on.sees("you are asked before edits and commands").await;
    on.prompts().await;
    on.keys("\x04");
    on.ends().await;
    let mut on = chat(&dir, &model, &[], &[]);
    on.sees("Use them?").await;
    on.types("n");
    on.sees("ignored in").await;
    on.prompts().await;
    on.keys("\x04");
    on.ends().await;
    let mut on = chat(&dir, &model, &[], &[]);
    on.sees("Use them?").await;
    on.types("y");
    on.sees("you are not asked: every call runs").await;
    on.prompts().await;
    on.keys("\x04");
    on.ends().await;
    let mut on = chat(&dir, &model, &[], &[]);
    on.sees("you are not asked: every call runs").await;
    on.prompts().await;
    assert!(!on.text().contains("Use them?"), "{}", on.text());
    // Another content is another question, also for a run that cannot ask.
    std::fs::write(&file, "approve = \"none\"\nsandbox_network = true\n").unwrap();
    let said = dir.ask(&model, &["-p", "run it"]).await;
    assert!(said.err.contains("ignored in") && !dir.path().join("ran.txt").exists(), "{said:?}");
}

#[tokio::test]
async fn a_wrong_key_a_limit_and_a_dead_network_are_said_and_the_chat_goes_on() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &[("KEY", "wrong")], &["--api-key-env", "KEY"]);
    on.prompts().await;
    on.types("say x");
    on.sees("Incorrect API key provided").await;
    on.prompts().await;
    assert!(!on.text().contains("wrong\n"));

    let mut on = chat(&dir, &model, &[], &[]);
    on.prompts().await;
    on.types("limit it");
    on.sees("trying again in").await;
    on.sees("Rate limit reached").await;
    on.keys("\x03");
    on.prompts().await;
    on.types("say fine");
    on.sees("It is fine.").await;

    let words = ["--base-url", "http://127.0.0.1:9/v1", "--model", "local/x"].map(str::to_owned);
    let mut on = Terminal::start(&dir, 80, &[("NO_COLOR", "1")], &words);
    on.prompts().await;
    on.types("say lost");
    on.sees("trying again in").await;
    on.keys("\x03");
    on.sees("interrupted").await;
    on.prompts().await;
}

#[tokio::test]
async fn escape_at_a_question_denies_the_call_and_interrupts_the_run() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &[], &[]);
    on.prompts().await;
    on.types("run it");
    on.shows("y yes, n no").await;
    on.keys("\x1b");
    on.sees("interrupted").await;
    on.prompts().await;
    assert!(!dir.path().join("ran.txt").exists());
}

#[tokio::test]
async fn a_question_of_an_earlier_process_is_asked_in_the_chat() {
    let model = Model::start().await;
    let dir = Project::new();
    let said = dir.ask(&model, &["-p", "--wait", "run it"]).await;
    assert_eq!(said.code, 3, "{said:?}");
    let mut on = chat(&dir, &model, &[], &["--continue"]);
    on.sees("the open run of this session continues").await;
    on.sees("Run this command?").await;
    on.sees("y yes").await;
    on.types("y");
    on.sees("It ran.").await;
    on.prompts().await;
    assert_eq!(std::fs::read_to_string(dir.path().join("ran.txt")).unwrap(), "ran\n", "once");
}

#[tokio::test]
async fn a_pasted_reason_denies() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &[], &[]);
    on.prompts().await;
    on.types("run it");
    on.shows("y yes, n no").await;
    on.keys("n ");
    on.pastes("because of the weather");
    on.keys("\r");
    on.sees("It was refused").await;
    on.prompts().await;
    assert!(on.text().contains("because of the weather"), "{}", on.text());
    assert!(!dir.path().join("ran.txt").exists());
}

/// A long command, at forty columns: no word is broken, and nothing is lost.
#[tokio::test]
async fn a_question_breaks_no_word_on_a_narrow_terminal() {
    let model = Model::start().await;
    let dir = Project::new();
    let words: Vec<String> = model.words();
    let mut on = Terminal::start(&dir, 40, &[("NO_COLOR", "1")], &words);
    on.prompts().await;
    on.pastes("exec echo this command has enough words to be broken several times on forty columns");
    on.keys("\r");
    on.sees("y, n, a or s:").await;
    let text = on.text();
    for word in ["command", "enough", "several", "columns", "always would", "directory"] {
        assert!(text.contains(word), "{word} is broken:\n{text}");
    }
    denies(&mut on).await;
}

/// The command is deaf to all signals that can be ignored, and has a part that left its group.
#[tokio::test]
async fn a_command_that_the_next_chat_offers_to_run_again_has_ended_with_the_chat() {
    const COMMAND: &str = "exec trap '' TERM HUP INT; setsid bash -c 'echo $$ > left; sleep 300; true' & \
        until [ -s left ]; do sleep 0.01; done; echo $$ > pid; sleep 300; true";
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &[], &["--yes"]);
    on.prompts().await;
    on.types(COMMAND);
    let pid = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap_or_default();
    let ready = async {
        while pid("pid").trim().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(super::HANG, ready).await.expect("it does not start");
    on.signals(rustix::process::Signal::KILL);
    on.ends().await;
    let mut on = chat(&dir, &model, &[], &["-c"]);
    on.sees("the open run of this session continues").await;
    on.sees("y yes, n no").await;
    for name in ["pid", "left"] {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid(name).trim())).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z "), "{name} runs while it is offered again: {stat}");
    }
    denies(&mut on).await;
}
