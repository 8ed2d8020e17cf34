//! `looptree -p`: pipes, JSON, continuing, what is denied, how it ends.

use looptree::event::NumberedEvent;
use serde_json::Value;

use super::{Model, Project, finish};

#[tokio::test]
async fn the_answer_and_nothing_else_is_on_the_standard_output() {
    let model = Model::start().await;
    let dir = Project::new();
    let said = dir.ask(&model, &["-p", "say three"]).await;
    assert_eq!((said.code, said.out.as_str()), (0, "It is three.\n"), "{said:?}");
    assert!(said.err.contains("session: ") && said.err.contains("1200 tokens in, 34 out"), "{said:?}");
    let quiet = dir.ask(&model, &["-p", "-q", "say four"]).await;
    assert_eq!((quiet.code, quiet.out.as_str(), quiet.err.as_str()), (0, "It is four.\n", ""));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the workspace is as it was");
}

#[tokio::test]
async fn a_pipe_goes_in_as_the_task_or_beside_it() {
    let model = Model::start().await;
    let dir = Project::new();
    let words = model.words();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = dir.run_with("say five\n", &words).await;
    assert_eq!((said.code, said.out.as_str()), (0, "It is five.\n"), "{said:?}");
    let said = dir.run_with("one\ntwo\n", &[&words[..], &["-p", "count it"]].concat()).await;
    assert_eq!(said.out, "There are 6 lines.\n", "{said:?}");
    assert!(
        model.asked()[1].contains("user(count it\n\n<stdin>\none\ntwo\n</stdin>)"),
        "{:?}",
        model.asked()
    );
    let said = dir.run_with("ignored", &[&words[..], &["--no-stdin", "-p", "say six"]].concat()).await;
    assert_eq!(said.out, "It is six.\n", "{said:?}");
}

#[tokio::test]
async fn json_lines_follow_the_published_schema() {
    let model = Model::start().await;
    let dir = Project::new();
    let said = dir.ask(&model, &["--json", "--yes", "write one"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let schema: Value = serde_json::from_str(include_str!("../../../../docs/schema/events-v1.json")).unwrap();
    assert_eq!(schema, looptree::session::event_schema(), "the schema is the published one");
    let kinds = kinds_of(&schema);
    let mut seen = Vec::new();
    for line in said.out.lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let kind = value["type"].as_str().unwrap().to_owned();
        assert!(kinds.contains(&kind), "{kind} is not in the schema");
        // The type that the schema is made of reads each line, and writes the same.
        let event: NumberedEvent = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_value(&event).unwrap(), value);
        seen.push(kind);
    }
    assert_eq!(seen.first().map(String::as_str), Some("agent_start"));
    assert_eq!(seen.last().map(String::as_str), Some("agent_end"));
    assert!(seen.iter().any(|kind| kind == "tool_execution_end"), "{seen:?}");
}

/// The values of `type` that a schema of events names.
fn kinds_of(schema: &Value) -> Vec<String> {
    let mut kinds = Vec::new();
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        if let Some(kind) = value.pointer("/properties/type/const").and_then(Value::as_str) {
            kinds.push(kind.to_owned());
        }
        match value {
            Value::Object(object) => open.extend(object.values()),
            Value::Array(values) => open.extend(values),
            _ => {}
        }
    }
    kinds
}

#[tokio::test]
async fn a_session_is_continued_as_the_newest_or_by_the_beginning_of_its_id() {
    let model = Model::start().await;
    let dir = Project::new();
    let said = dir.run(&["-p", "--continue", "say x"]).await;
    assert!(said.code == 2 && said.err.contains("no session to continue"), "{said:?}");
    dir.ask(&model, &["-p", "say one"]).await;
    let first = dir.session_ids().remove(0);
    let said = dir.ask(&model, &["-p", "--continue", "say two"]).await;
    assert_eq!(said.out, "It is two.\n", "{said:?}");
    dir.ask(&model, &["-p", "say other"]).await;
    let said = dir.ask(&model, &["-p", "--resume", &first[..8], "say three"]).await;
    assert_eq!(said.out, "It is three.\n", "{said:?}");
    let asked = model.asked();
    assert_eq!(asked[1], "user(say one) assistant(It is one.) user(say two)");
    assert!(asked[3].ends_with("user(say two) assistant(It is two.) user(say three)"), "{asked:?}");
    for (id, text) in [("abc", "too short"), ("zzzzzz", "there is no session")] {
        let said = dir.ask(&model, &["-p", "--resume", id, "say x"]).await;
        assert!(said.code == 2 && said.err.contains(text), "{said:?}");
    }
    let said = dir.ask(&model, &["--resume", "-p", "say x"]).await;
    assert!(said.code == 2 && said.err.contains("say one") && said.err.contains("--resume ID"), "{said:?}");
}

/// Without a terminal, calls that change something are denied, and the model receives the reason.
#[tokio::test]
async fn what_would_be_asked_about_is_denied_without_a_terminal() {
    let model = Model::start().await;
    let dir = Project::new();
    let ran = dir.path().join("ran.txt");
    let said = dir.ask(&model, &["-p", "run it"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(!ran.exists() && said.err.contains("--yes"), "{said:?}");
    let said = dir.ask(&model, &["-p", "write x"]).await;
    assert!(!dir.path().join("notes.txt").exists(), "{said:?}");
    let said = dir.ask(&model, &["-p", "--approve", "commands", "write x"]).await;
    assert!(dir.path().join("notes.txt").exists(), "{said:?}");
    let said = dir.ask(&model, &["-p", "--approve", "commands", "run it"]).await;
    assert!(!ran.exists(), "{said:?}");
    let said = dir.ask(&model, &["-p", "--yes", "--plan-only", "run it"]).await;
    assert!(!ran.exists() && said.err.contains("Only a plan is wanted"), "{said:?}");
    let said = dir.ask(&model, &["-p", "--yes", "run it"]).await;
    assert_eq!((said.code, said.out.as_str()), (0, "It ran.\n"), "{said:?}");
    assert_eq!(std::fs::read_to_string(ran).unwrap(), "ran\n", "once");
}

#[tokio::test]
async fn in_a_sandbox_a_command_runs_without_a_question_and_cannot_leave_the_directory() {
    let model = Model::start().await;
    let dir = Project::new();
    let outside = dir.home().join("outside.txt");
    let task = format!("exec echo x > ran.txt; echo x > {}", outside.display());
    let said = dir.ask(&model, &["-p", "--sandbox", &task]).await;
    if said.err.contains("commands cannot be restricted") {
        assert!(said.code == 1 && !dir.path().join("ran.txt").exists(), "no sandbox, no command: {said:?}");
        return;
    }
    assert_eq!(said.code, 0, "{said:?}");
    assert!(dir.path().join("ran.txt").exists() && !outside.exists(), "{said:?}");
}

/// Attack of a model: without bubblewrap a weaker sandbox was chosen, in which services outside can be reached.
#[tokio::test]
async fn without_bubblewrap_the_flag_names_what_the_other_sandbox_does_not_cover_and_runs_nothing() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut command = dir.command();
    command.env("PATH", dir.home()).args(model.words()).args(["-p", "--sandbox", "exec echo x > ran.txt"]);
    let said = finish(command, "").await;
    assert!(said.code == 1 && !dir.path().join("ran.txt").exists(), "{said:?}");
    for text in ["install bubblewrap", "--sandbox=landlock", "UDP", "owners and times", ".looptree"] {
        assert!(said.err.contains(text), "{text}: {said:?}");
    }
    assert!(model.asked().is_empty() && !dir.path().join(".looptree").exists());
}

/// Attack of a model: an activated `.venv` is first in `PATH`, and a command writes a `bwrap` there.
#[tokio::test]
async fn a_bwrap_of_the_project_is_not_started() {
    let model = Model::start().await;
    let dir = Project::new();
    let place = dir.path().join(".venv/bin/bwrap");
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    let escaped = dir.home().join("escaped");
    std::fs::write(&place, format!("#!/bin/sh\necho x > {}\n", escaped.display())).unwrap();
    std::fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    for path in [format!("{}:{path}", place.parent().unwrap().display()), format!(".venv/bin:{path}")] {
        let mut command = dir.command();
        command.env("PATH", path).args(model.words()).args([
            "-p",
            "--sandbox=bwrap",
            "exec echo x > ran.txt",
        ]);
        let said = finish(command, "").await;
        assert!(!escaped.exists(), "{said:?}");
    }
}

/// Attack of a model: a command writes settings that the next start would apply.
#[tokio::test]
async fn a_command_in_bwrap_cannot_write_the_settings_of_the_project() {
    let model = Model::start().await;
    let dir = Project::new();
    let task = "exec mkdir -p .looptree; echo x > .looptree/config.toml; mv .looptree old; echo x > ran.txt";
    let said = dir.ask(&model, &["-p", "--sandbox=bwrap", task]).await;
    if said.err.contains("commands cannot be restricted") {
        return;
    }
    assert!(dir.path().join("ran.txt").exists() && !dir.path().join("old").exists(), "{said:?}");
    assert_eq!(std::fs::read_dir(dir.path().join(".looptree")).unwrap().count(), 0, "{said:?}");
    std::fs::remove_dir(dir.path().join(".looptree")).unwrap();
    std::os::unix::fs::symlink(dir.home(), dir.path().join(".looptree")).unwrap();
    let said = dir.ask(&model, &["-p", "--sandbox=bwrap", "exec cat .looptree/x"]).await;
    assert!(said.code == 1 && said.err.contains("is a symbolic link"), "{said:?}");
}

#[tokio::test]
async fn the_exit_code_says_how_it_ended() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut command = dir.command();
    command.args(model.words()).args(["-p", "--api-key-env", "KEY", "say x"]).env("KEY", "wrong");
    let said = finish(command, "").await;
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
    assert!(said.err.contains("Incorrect API key"), "{said:?}");

    let nobody = ["--base-url", "http://127.0.0.1:9/v1", "--model", "local/x", "--max-turns", "3"];
    let said = dir.run(&[&nobody[..], &["-p", "say x"]].concat()).await;
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
    assert!(said.err.contains("127.0.0.1:9") || said.err.contains("connect"), "{said:?}");

    for (words, text) in [
        (&["-p", "say x"][..], "there is no model to work with"),
        (&["-p", "--model", "nonsense", "x"], "is no model"),
        (&["-p", "--model", "anthropic/claude-sonnet-4-6", "x"], "ANTHROPIC_API_KEY is not set"),
        (&["--cwd", "nowhere", "-p", "x"], "cannot open the directory"),
        (&["--modle", "x"], "--modle"),
        (&["--budget", "much", "-p", "x"], "--budget"),
        (&["-p", " "], "the task is empty"),
        (&["-p", "one", "two"], "two"),
    ] {
        let said = dir.run(words).await;
        assert!(said.code == 2 && said.err.contains(text) && said.out.is_empty(), "{words:?}: {said:?}");
    }
    let said = dir.ask(&model, &["-p"]).await;
    assert!(said.code == 2 && said.err.contains("there is no task"), "{said:?}");
    let said = dir.ask(&model, &["-p", "--max-tokens-total", "10", "say x"]).await;
    assert!(said.code == 1 && said.err.contains("stopped"), "{said:?}");
}

#[tokio::test]
async fn an_interrupt_ends_the_command_too_and_keeps_the_session() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut command = dir.command();
    command.args(model.words()).args(["-p", "--yes", "exec touch began; sleep 50; touch ended"]);
    let pid = std::sync::Arc::new(std::sync::Mutex::new(None));
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    *pid.lock().unwrap() = child.id();
    while !dir.path().join("began").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let pid = rustix::process::Pid::from_raw(pid.lock().unwrap().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = tokio::time::timeout(super::HANG, child.wait_with_output()).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(dir.session_ids().len(), 1);
    let said = dir.ask(&model, &["-p", "--continue", "say more"]).await;
    assert_eq!(said.out, "It is more.\n", "{said:?}");
}

#[tokio::test]
async fn without_a_model_and_a_task_the_demo_repairs_a_project() {
    let dir = Project::new();
    let mut command = dir.command();
    // The demo runs cargo, which is found by the user's own home.
    for name in ["CARGO_HOME", "RUSTUP_HOME"] {
        let usual = || {
            Some(std::path::PathBuf::from(std::env::var_os("HOME")?).join(if name == "CARGO_HOME" {
                ".cargo"
            } else {
                ".rustup"
            }))
        };
        if let Some(folder) = std::env::var_os(name).map(Into::into).or_else(usual) {
            command.env(name, folder);
        }
    }
    command.env("TMPDIR", dir.home());
    let said = finish(command, "").await;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("This is a recorded demo"), "{said:?}");
    assert!(
        said.out.contains("`cargo test` there fails now")
            && said.out.contains("`cargo test` there passes now"),
        "{said:?}"
    );
    assert!(said.out.contains("Three ways to a real model"), "{said:?}");
}

/// The reply that asks for the call was paid for.
#[tokio::test]
async fn the_usage_is_reported_while_a_question_waits() {
    let model = Model::start().await;
    let dir = Project::new();
    for json in [&[][..], &["--json"]] {
        let said =
            dir.ask(&model, &[&["-p", "--wait", "--price", "10,100", "run it"][..], json].concat()).await;
        assert_eq!(said.code, 3, "{said:?}");
        assert!(said.err.contains("usage: 1200 tokens in, 34 out, $0.0154"), "{said:?}");
    }
    // The process that continues reports only its own.
    let id = dir.session_ids().remove(0);
    dir.run(&["answer", &id, "no"]).await;
    let said = dir.ask(&model, &["-p", "--resume", &id]).await;
    assert!(said.code == 0 && said.err.contains("usage: 1200 tokens in, 34 out"), "{said:?}");
}

#[tokio::test]
async fn retries_and_the_longest_wait_are_settings() {
    let (model, dir) = (Model::start().await, Project::new());
    let began = std::time::Instant::now();
    let said = dir.ask(&model, &["-p", "--max-retries", "1", "limit it"]).await;
    assert!(said.code == 1 && said.err.contains("gave up after 2 attempts"), "{said:?}");
    assert_eq!(model.asked().len(), 2);
    // The server asks for no wait at all, and the own one is kept.
    assert!(began.elapsed() >= std::time::Duration::from_millis(800), "{:?}", began.elapsed());
    let said = dir.ask(&model, &["-p", "--max-retries", "0", "limit it"]).await;
    assert_eq!((said.code, model.asked().len()), (1, 3));
    let said = dir.run(&["config", "--max-retry-wait", "300"]).await;
    assert!(said.out.contains("max_retry_wait = 300"), "{said:?}");
}

/// A run that was stopped continues without a task; one that is complete needs a task.
#[tokio::test]
async fn a_stopped_run_continues_without_a_task_and_a_complete_one_needs_one() {
    let model = Model::start().await;
    let dir = Project::new();
    let said = dir.ask(&model, &["-p", "--yes", "--max-turns", "1", "write one"]).await;
    assert_eq!(said.code, 1, "{said:?}");
    let said = dir.ask(&model, &["-p", "--yes", "--continue"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(!said.out.trim().is_empty(), "{said:?}");
    let said = dir.ask(&model, &["-p", "--continue"]).await;
    assert!(
        said.code == 2 && said.err.contains("there is no task, and no failed or stopped run"),
        "{said:?}"
    );
}

/// The failed reply is left out, and the task is not there twice.
#[tokio::test]
async fn a_failed_run_continues_without_a_task() {
    let model = Model::start().await;
    let dir = Project::new();
    assert_eq!(dir.ask(&model, &["-p", "fail it"]).await.code, 1);
    let said = dir.ask(&model, &["-p", "--continue"]).await;
    assert!(said.code == 1 && said.err.contains("out of order"), "{said:?}");
    assert_eq!(model.asked(), ["user(fail it)", "user(fail it)"]);
}

#[tokio::test]
async fn a_cut_off_answer_is_a_failure_and_an_empty_one_is_reported() {
    let model = Model::start().await;
    let dir = Project::new();
    let said = dir.ask(&model, &["-p", "cut short"]).await;
    assert_eq!((said.code, said.out.as_str()), (1, "It is short.\n"), "{said:?}");
    assert!(said.err.contains("cut off at the output limit"), "{said:?}");
    let said = dir.ask(&model, &["-p", "mute"]).await;
    assert!(said.err.contains("the answer is empty"), "{said:?}");
}

#[tokio::test]
async fn a_kind_of_sandbox_without_its_equals_sign_is_no_task() {
    let model = Model::start().await;
    let dir = Project::new();
    let said = dir.ask(&model, &["-p", "--sandbox", "landlock"]).await;
    assert!(said.code == 2 && said.err.contains("--sandbox=landlock"), "{said:?}");
    assert!(model.asked().is_empty());
}
