//! The chat on a terminal: pastes, steering, Ctrl-C, history, commands, resuming, narrow and without color.

use super::terminal::Terminal;
use super::{Model, Project};

fn chat(dir: &Project, model: &Model, words: &[&str]) -> Terminal {
    on(dir, model, 80, &[("NO_COLOR", "1")], words)
}

fn on(dir: &Project, model: &Model, columns: u16, variables: &[(&str, &str)], words: &[&str]) -> Terminal {
    let words: Vec<String> = model.words().into_iter().chain(words.iter().map(|w| (*w).to_owned())).collect();
    Terminal::start(dir, columns, variables, &words)
}

/// Replaces what differs from run to run.
fn steady(text: &str, dir: &Project) -> String {
    let text = text.replace(&dir.path().display().to_string(), "[DIR]");
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        for word in &mut words {
            if word.len() == 8 && word.chars().all(|c| c.is_ascii_hexdigit()) {
                "[ID]".clone_into(word);
            }
        }
        if words.get(1).is_some_and(|word| word == "s,") {
            "[N]".clone_into(&mut words[0]);
        }
        lines.push(words.join(" "));
    }
    lines.join("\n")
}

#[tokio::test]
async fn a_paste_of_sixty_lines_is_one_prompt() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &[]);
    on.prompts().await;
    let text: Vec<String> = (1..=60).map(|n| format!("count line {n}")).collect();
    on.pastes(&text.join("\n"));
    on.shows("count line 60").await;
    assert_eq!(model.asked().len(), 0, "a paste sends nothing");
    on.keys("\r");
    on.sees("There are 60 lines.").await;
    assert_eq!(model.asked().len(), 1);
    on.prompts().await;
    on.keys("\x04");
    assert_eq!(on.ends().await, 0);
}

#[tokio::test]
async fn text_that_is_typed_during_a_run_steers_it_and_a_paste_is_one_message() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &["--yes"]);
    on.prompts().await;
    on.types("sleep 2");
    on.sees("• bash sleep 2; echo slept").await;
    on.pastes("say hello\nand more");
    on.shows("» say hello⏎and more").await;
    on.keys("\r");
    on.sees("It is hello").await;
    on.prompts().await;
    let asked = model.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked[1].ends_with("assistant() tool user(say hello\nand more)"), "{asked:?}");
    // What was typed and not sent is there again at the prompt.
    on.types("sleep 1");
    on.sees("sleep 1; echo slept").await;
    on.keys("half a line");
    on.sees("It ran.").await;
    on.shows("> half a line").await;
}

/// The three levels: the line, the run, the chat.
#[tokio::test]
async fn ctrl_c_clears_the_line_then_interrupts_the_run_then_ends_the_chat() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &["--yes"]);
    on.prompts().await;
    on.keys("half a prompt");
    on.shows("half a prompt").await;
    on.keys("\x03");
    on.prompts().await;
    assert_eq!(model.asked().len(), 0);

    on.types("exec touch began; sleep 50; touch ended");
    on.sees("• bash touch began").await;
    while !dir.path().join("began").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    on.keys("half");
    on.shows("» half").await;
    on.keys("\x03");
    on.keys("\x03");
    on.sees("interrupted; the conversation so far is kept").await;
    on.prompts().await;
    on.types("say more");
    on.sees("It is more.").await;
    on.prompts().await;

    on.keys("\x03");
    on.sees("Ctrl-C again or Ctrl-D ends the chat").await;
    on.types("say again");
    on.sees("It is again.").await;
    on.prompts().await;
    on.keys("\x03");
    on.sees("Ctrl-C again").await;
    on.keys("\x03");
    assert_eq!(on.ends().await, 130);
    assert!(!dir.path().join("ended").exists());
}

#[tokio::test]
async fn a_second_ctrl_c_during_a_run_ends_the_chat() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &["--yes"]);
    on.prompts().await;
    // A command that ignores being asked to end.
    on.types("exec trap '' TERM INT; touch began; sleep 8");
    while !dir.path().join("began").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    on.keys("\x03");
    on.keys("\x03");
    assert_eq!(on.ends().await, 130);
    assert_eq!(dir.session_ids().len(), 1, "the session is kept");
}

/// Esc interrupts a run, and a second one does not end the chat.
#[tokio::test]
async fn escape_clears_the_line_and_interrupts_the_run() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &["--yes"]);
    on.prompts().await;
    on.types("exec touch began; sleep 50; touch ended");
    while !dir.path().join("began").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    on.keys("half");
    on.shows("» half").await;
    for _ in 0..3 {
        on.keys("\x1b");
        // Without a pause, the second one would be the beginning of a sequence of keys.
        tokio::time::sleep(std::time::Duration::from_millis(150)).await;
    }
    on.sees("interrupted; the conversation so far is kept").await;
    on.prompts().await;
    on.types("say more");
    on.sees("It is more.").await;
    assert!(!dir.path().join("ended").exists());
}

#[tokio::test]
async fn the_history_outlasts_the_chat_and_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &[]);
    on.prompts().await;
    on.types("say first");
    on.sees("It is first.").await;
    on.prompts().await;
    on.keys("\x04");
    assert_eq!(on.ends().await, 0);
    let file = dir.home().join(".local/share/looptree/history.txt");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let mut on = chat(&dir, &model, &[]);
    on.prompts().await;
    on.keys("\x1b[A");
    on.shows("> say first").await;
    on.keys("\r");
    on.sees("It is first.").await;
    assert_eq!(model.asked().len(), 2);
}

#[tokio::test]
async fn a_continued_session_shows_its_conversation() {
    let model = Model::start().await;
    let dir = Project::new();
    let said = dir.ask(&model, &["-p", "--yes", "write one"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let mut on = chat(&dir, &model, &["--continue"]);
    on.prompts().await;
    let shown = steady(&on.text(), &dir);
    insta::assert_snapshot!("continued", shown);
    on.types("say two");
    on.sees("It is two.").await;
    assert_eq!(
        model.asked().last().unwrap(),
        "user(write one) assistant() tool assistant(I wrote one.) user(say two)"
    );
}

/// Time travel: the tree, back, on elsewhere, side by side.
#[tokio::test]
async fn a_person_looks_at_the_tree_goes_back_forks_and_compares() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = on(&dir, &model, 110, &[("NO_COLOR", "1")], &["--yes"]);
    on.prompts().await;
    on.types("/tree");
    on.sees("nothing has been recorded yet").await;
    on.prompts().await;
    for number in ["one", "two"] {
        on.types(&format!("write {number}"));
        on.sees(&format!("I wrote {number}.")).await;
        on.prompts().await;
    }
    on.types("/tree");
    on.sees("1  > write one [write_file]").await;
    on.sees("2  I wrote one.").await;
    on.sees("3  > write two [write_file]").await;
    on.sees("*  4  I wrote two.").await;
    on.prompts().await;
    on.types("/diff");
    on.sees("+one").await;
    on.sees("-one").await;
    on.sees("+two").await;
    on.prompts().await;
    on.types("/rewind 2");
    on.sees("back after turn 2; the conversation has 4 messages").await;
    on.sees("warning: notes.txt has other content").await;
    on.prompts().await;
    on.types("say three");
    on.sees("It is three.").await;
    on.prompts().await;
    on.types("/tree");
    on.sees("*  5    (from 2) > say three It is three.").await;
    on.prompts().await;
    on.types("/compare 4 5");
    on.sees("both begin with the same 4 messages").await;
    on.sees("only after turn 4: 4 messages").await;
    on.sees("user: say three").await;
    on.prompts().await;
    on.types("/fork 4");
    on.sees("which continues session").await;
    on.prompts().await;
    on.types("say four");
    on.sees("It is four.").await;
    on.prompts().await;
    // Each mistake has a message, and the chat continues.
    for (typed, said) in [
        ("/fork 9", "there is no turn 9; the session has 5"),
        ("/rewind x", "is not the number of a turn"),
        ("/compare 1", "wants the numbers of two turns"),
        ("/elsewhere", "there is no command /elsewhere"),
        ("/model nonsense/x", "there is no provider"),
        ("/compact", "there is nothing to shorten"),
    ] {
        on.types(typed);
        on.sees(said).await;
        on.prompts().await;
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
    assert_eq!(dir.session_ids().len(), 2);
}

#[tokio::test]
async fn the_other_commands_show_and_change_what_they_say() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &["--yes"]);
    on.prompts().await;
    for (typed, said) in [
        ("/help", "/compare A B"),
        ("/tools", "write_file: "),
        ("/model", "no key of a provider is set"),
        ("/model", "local/scripted, context window unknown"),
        ("/model local/other", "local/other"),
        ("/plan", "there is no plan"),
        ("/plan on", "tools that change something are denied"),
        ("run it", "Only a plan is wanted"),
        ("/plan off", "you are not asked: every call runs"),
        ("run it", "It ran."),
        ("/cost", "tokens in"),
    ] {
        on.types(typed);
        on.sees(said).await;
        on.prompts().await;
    }
    assert_eq!(std::fs::read_to_string(dir.path().join("ran.txt")).unwrap(), "ran\n", "once");
    let long = "word ".repeat(1_500);
    for _ in 0..3 {
        on.pastes(&format!("say {long}"));
        on.keys("\r");
        on.sees("tokens in").await;
        on.prompts().await;
    }
    on.types("/compact");
    on.sees("conversation shortened: ").await;
    on.prompts().await;
    on.types("say after");
    on.sees("It is after.").await;
    assert!(model.asked().last().unwrap().contains("[Summary"), "{}", model.asked().last().unwrap());
}

#[tokio::test]
async fn the_models_with_a_key_are_listed_and_those_of_other_providers_are_not() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = on(&dir, &model, 80, &[("NO_COLOR", "1"), ("GROQ_API_KEY", "a-key-of-groq")], &[]);
    on.prompts().await;
    on.types("/model");
    on.sees("models with a key: groq/").await;
    on.prompts().await;
    let text = on.text();
    assert!(!["anthropic/", "ollama/", "a-key-of-groq"].iter().any(|other| text.contains(other)), "{text}");
}

#[tokio::test]
async fn a_page_at_eighty_columns() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &[]);
    on.prompts().await;
    on.types("page it");
    on.sees("s, 1200 tokens in").await;
    on.prompts().await;
    insta::assert_snapshot!("page_80", steady(&on.text(), &dir));
}

#[tokio::test]
async fn the_help_breaks_no_word_at_eighty_columns() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &[]);
    on.prompts().await;
    on.types("/help");
    on.sees("Ctrl-R").await;
    on.prompts().await;
    let lines = on.text();
    let joined = lines.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    for sentence in [
        "/plan [on|off]   shows the plan; on: tools that change something are denied; off: they are not",
        "/rewind N        goes back to the end of turn N, 0 for the beginning; later turns stay in the session",
        "Ctrl-C clears the line, then interrupts the run, and so does Esc during a run.",
        "and so does Ctrl-D. Ctrl-R searches the history.",
    ] {
        assert!(joined.contains(sentence), "{lines}");
    }
}

#[tokio::test]
async fn at_forty_columns_no_word_is_broken() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = on(&dir, &model, 40, &[("NO_COLOR", "1")], &[]);
    on.prompts().await;
    on.types("page it");
    on.sees("s, 1200 tokens in").await;
    on.prompts().await;
    on.types("/help");
    on.sees("Ctrl-R").await;
    on.prompts().await;
    let text = on.text();
    for words in ["because", "`next_line`", "drained", "numbered", "broken", "interrupts"] {
        assert!(text.contains(words.trim_matches('`')), "{words} is broken:\n{text}");
    }
    // The directory has no blanks to break at, so its rows are not part of the picture.
    let from = text.find("> page it").unwrap();
    insta::assert_snapshot!("page_40", steady(&text[from..], &dir));
}

#[tokio::test]
async fn without_color_there_is_no_color_and_with_it_a_diff_is_green_and_red() {
    let model = Model::start().await;
    let dir = Project::new();
    std::fs::write(dir.path().join("notes.txt"), "one\ntwo\n").unwrap();
    let mut plain = chat(&dir, &model, &["--yes"]);
    plain.prompts().await;
    plain.types("edit zwei");
    plain.sees("+zwei").await;
    plain.prompts().await;
    plain.types("page it");
    plain.sees("s, 1200 tokens in").await;
    plain.prompts().await;
    assert_eq!(plain.styles(), Vec::<String>::new(), "{}", plain.bytes());
    std::fs::write(dir.path().join("notes.txt"), "one\ntwo\n").unwrap();
    let mut colored = on(&dir, &model, 80, &[], &["--yes"]);
    colored.prompts().await;
    colored.types("edit zwei");
    colored.sees("+zwei").await;
    assert!(!colored.styles().is_empty());
    let bytes = colored.bytes();
    assert!(bytes.contains("\x1b[31m-two\x1b[0m") && bytes.contains("\x1b[32m+zwei\x1b[0m"), "{bytes:?}");
}

/// The terminal is closed, or the system shuts down: during a run and at the prompt.
#[tokio::test]
async fn a_signal_ends_the_chat_its_command_and_keeps_the_session() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &["--yes"]);
    on.prompts().await;
    on.types("exec touch began; sleep 50; touch ended");
    while !dir.path().join("began").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    on.signals(rustix::process::Signal::HUP);
    assert_eq!(on.ends().await, 130);
    assert_eq!(dir.session_ids().len(), 1);
    let mut on = chat(&dir, &model, &["--continue"]);
    on.prompts().await;
    on.types("say more");
    on.sees("It is more.").await;
    on.prompts().await;
    on.signals(rustix::process::Signal::TERM);
    assert_eq!(on.ends().await, 130);
    assert!(!dir.path().join("ended").exists());
}

/// Tables, links, and the help of the command line, at forty columns.
#[tokio::test]
async fn tables_links_and_the_help_of_the_command_break_no_word_at_forty_columns() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut narrow = on(&dir, &model, 40, &[("NO_COLOR", "1")], &[]);
    narrow.prompts().await;
    narrow.types("table it");
    narrow.sees("s, 1200 tokens in").await;
    narrow.prompts().await;
    let text = narrow.text();
    let from = text.find("> table it").unwrap();
    insta::assert_snapshot!("table_40", steady(&text[from..], &dir));
    let mut help = on(&dir, &model, 40, &[], &["--help"]);
    assert_eq!(help.ends().await, 0);
    let text = help.text();
    for words in ["configuration", "approvals", "interrupted", "directory"] {
        assert!(text.contains(words), "{words} is broken:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
}

#[tokio::test]
async fn a_command_that_is_typed_during_a_run_is_no_message_and_is_there_at_the_next_prompt() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &["--yes"]);
    on.prompts().await;
    on.types("sleep 1");
    on.sees("sleep 1; echo slept").await;
    on.types("/cost");
    on.sees("/cost is in the next prompt").await;
    on.shows("» /cost").await;
    on.keys("x");
    on.sees("It ran.").await;
    on.shows("> /costx").await;
    on.keys("\x7f\r");
    on.shows("this chat:").await;
    assert!(!model.asked().iter().any(|asked| asked.contains("/cost")));
}

#[tokio::test]
async fn a_text_that_did_not_reach_an_interrupted_run_is_announced_for_the_next_one() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &["--yes"]);
    on.prompts().await;
    on.types("exec touch began; sleep 50");
    while !dir.path().join("began").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    on.types("say later");
    on.sees("» say later").await;
    on.keys("\x03");
    on.sees("the model gets this with your next task: say later").await;
    on.prompts().await;
}

#[tokio::test]
async fn a_failed_run_is_repeated_by_retry() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = chat(&dir, &model, &[]);
    on.prompts().await;
    on.types("/retry");
    on.sees("there is no failed or interrupted run").await;
    on.types("fail it");
    on.sees("out of order").await;
    on.prompts().await;
    on.types("/retry");
    on.sees("out of order").await;
    on.prompts().await;
    assert_eq!(model.asked(), ["user(fail it)", "user(fail it)"]);
    on.types("/modle");
    on.sees("a similar one is /model").await;
}

/// A row that is wider than the terminal would be drawn again below itself with each key.
#[tokio::test]
async fn an_answer_stays_in_one_row_on_a_narrow_terminal() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut on = on(&dir, &model, 40, &[("NO_COLOR", "1")], &[]);
    on.prompts().await;
    on.types("run it");
    on.sees("y, n, a or s:").await;
    on.keys("n please do something else instead of it");
    on.shows("instead of it").await;
    tokio::time::sleep(std::time::Duration::from_millis(400)).await;
    assert_eq!(on.text().matches("y, n, a or s:").count(), 1, "{}", on.text());
}
