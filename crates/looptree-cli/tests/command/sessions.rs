//! `looptree sessions` and the other commands that show something.

use std::sync::{Arc, Mutex};

use super::{Model, Project};

#[tokio::test]
async fn sessions_are_listed_searched_shown_forked_exported_and_deleted() {
    let model = Model::start().await;
    let dir = Project::new();
    assert_eq!(dir.run(&["sessions"]).await.out, "no sessions yet\n");
    dir.ask(&model, &["-p", "say pineapple"]).await;
    dir.ask(&model, &["-p", "say walnut"]).await;
    dir.ask(&model, &["-p", "-c", "say hazelnut"]).await;
    let list = dir.run(&["sessions", "list"]).await.out;
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 2, "{list}");
    assert!(
        lines[0].contains("say walnut") && lines[0].contains("4 messages"),
        "the newest is first: {list}"
    );
    let id = lines[0].split_whitespace().next().unwrap();

    let found = dir.run(&["sessions", "search", "hazel"]).await.out;
    assert!(found.contains(id) && !found.contains("pineapple"), "{found}");
    assert!(dir.run(&["sessions", "search", "nowhere"]).await.out.contains("no session contains"));

    let shown = dir.run(&["sessions", "show", id]).await.out;
    assert!(shown.contains("It is walnut.") && shown.contains("It is hazelnut."), "{shown}");
    let tree = dir.run(&["sessions", "show", "--tree", id]).await.out;
    assert!(
        tree.contains("  1  > say walnut It is walnut.") && tree.contains("*  2  > say hazelnut"),
        "{tree}"
    );

    let forked = dir.run(&["sessions", "fork", id, "--turn", "1"]).await;
    let fork = forked.out.split(';').next().unwrap().to_owned();
    assert_eq!((forked.code, dir.session_ids().len()), (0, 3), "{forked:?}");
    let said = dir.ask(&model, &["-p", "--resume", &fork, "say cashew"]).await;
    assert_eq!(said.out, "It is cashew.\n", "{said:?}");
    assert_eq!(model.asked().last().unwrap(), "user(say walnut) assistant(It is walnut.) user(say cashew)");
    let said = dir.run(&["sessions", "fork", id, "--turn", "9"]).await;
    assert!(said.code == 1 && said.err.contains("there is no turn 9; the session has 2"), "{said:?}");

    let json = dir.run(&["sessions", "export", id, "--form", "json"]).await.out;
    let session: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(session["session_id"].as_str().unwrap().starts_with(id));
    let pi = dir.run(&["sessions", "export", id, "--form", "pi"]).await.out;
    assert!(pi.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{pi}");
    let head: serde_json::Value = serde_json::from_str(pi.lines().next().unwrap()).unwrap();
    assert_eq!(head["cwd"], dir.path().to_str().unwrap());
    let file = dir.home().join("out.md");
    let words = ["sessions", "export", id, "-o", file.to_str().unwrap()];
    assert_eq!(dir.run(&words).await.code, 0);
    assert!(std::fs::read_to_string(&file).unwrap().contains("hazelnut"));
    let again = dir.run(&words).await;
    assert!(again.code == 1 && again.err.contains("cannot write"), "no file is overwritten: {again:?}");

    let said = dir.run(&["sessions", "delete", id]).await;
    assert_eq!((said.code, dir.session_ids().len()), (0, 2), "{said:?}");
    let said = dir.run(&["sessions", "delete", id]).await;
    assert!(said.code == 2 && said.err.contains("there is no session"), "{said:?}");
}

/// An OTLP receiver. Returns its address and the bytes of all requests.
async fn receiver() -> (String, Arc<Mutex<Vec<u8>>>) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&log);
    let take = move |body: axum::body::Bytes| {
        kept.lock().unwrap().extend_from_slice(&body);
        async {}
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = axum::Router::new().route("/v1/traces", axum::routing::post(take));
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, log)
}

#[tokio::test]
async fn a_session_is_sent_as_one_trace_for_each_prompt_and_its_text_only_on_request() {
    let model = Model::start().await;
    let dir = Project::new();
    dir.ask(&model, &["-p", "say walnut"]).await;
    dir.ask(&model, &["-p", "-c", "say hazelnut"]).await;
    let id = dir.session_ids().remove(0);
    for (words, has_text) in [(&[][..], false), (&["--content"][..], true)] {
        let (url, log) = receiver().await;
        let mut command = vec!["sessions", "export", id.as_str(), "--otlp", url.as_str()];
        command.extend(words);
        let said = dir.run(&command).await;
        assert!(said.code == 0 && said.out.contains("spans in 2 traces"), "{said:?}");
        let sent = log.lock().unwrap().clone();
        let has = |text: &str| sent.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(has("invoke_agent") && has("gen_ai.usage.input_tokens"));
        assert_eq!((has("hazelnut"), has("It is walnut.")), (has_text, has_text));
    }
    let said = dir.run(&["sessions", "export", id.as_str(), "--otlp", "http://127.0.0.1:9"]).await;
    assert!(said.code == 1 && said.err.contains("cannot send to http://127.0.0.1:9"), "{said:?}");
    let both = ["sessions", "export", id.as_str(), "--otlp", "http://127.0.0.1:9", "--form", "json"];
    assert_eq!(dir.run(&both).await.code, 2);
}

/// Attacks 6 and 7: the sessions are in the user's data directory, for its owner only, and the tools do not find them.
#[tokio::test]
async fn sessions_are_not_in_the_workspace() {
    use std::os::unix::fs::PermissionsExt as _;
    let model = Model::start().await;
    let dir = Project::new();
    let said = dir.ask(&model, &["-p", "find secret-of-mine"]).await;
    assert!(said.code == 0 && said.err.contains("No matches found"), "{said:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the workspace is as it was");
    assert_eq!(std::fs::metadata(dir.sessions()).unwrap().permissions().mode() & 0o777, 0o700);
    let elsewhere = dir.home().join("elsewhere");
    let said = dir.run(&["--sessions", elsewhere.to_str().unwrap(), "pending"]).await;
    assert!(said.out.trim() == "no question waits" && elsewhere.is_dir(), "{said:?}");
    let inside = dir.path().join("a/b");
    let said = dir.run(&["--sessions", inside.to_str().unwrap(), "pending"]).await;
    assert!(said.code == 2 && said.err.contains("is inside of the directory"), "{said:?}");
    // A data directory inside of the workspace is refused.
    let mut command = dir.command();
    command.arg("pending").env("XDG_DATA_HOME", dir.path().join("data"));
    let said = super::finish(command, "").await;
    assert!(
        said.code == 1 && said.err.contains("is inside of") && said.err.contains("--sessions"),
        "{said:?}"
    );
}

#[tokio::test]
async fn models_completions_and_the_version_are_printed() {
    let dir = Project::new();
    let mut command = dir.command();
    command.args(["models", "claude-sonnet"]).env("ANTHROPIC_API_KEY", "a-secret-key");
    let said = super::finish(command, "").await;
    let line = said.out.lines().find(|line| line.contains("anthropic/claude-sonnet-4-6")).unwrap();
    assert!(line.starts_with('*') && line.contains("per million"), "{line}");
    assert!(!said.out.contains("a-secret-key") && !said.out.contains("ollama/"), "{said:?}");
    let without = dir.run(&["models", "anthropic/claude-sonnet-4-6"]).await.out;
    assert!(without.starts_with(' '), "{without}");
    for shell in ["bash", "zsh", "fish"] {
        let said = dir.run(&["completions", shell]).await;
        assert!(said.code == 0 && said.out.contains("sessions") && said.out.contains("looptree"), "{shell}");
    }
    let said = dir.run(&["--version"]).await;
    assert_eq!((said.code, said.out), (0, format!("looptree {}\n", env!("CARGO_PKG_VERSION"))));
    let help = dir.run(&["--help"]).await.out;
    for word in ["--continue", "--resume", "sessions", "completions", "Exit codes"] {
        assert!(help.contains(word), "{word} is missing: {help}");
    }
}

#[tokio::test]
async fn a_server_is_checked() {
    let model = Model::start().await;
    let dir = Project::new();
    let said = dir.run(&["check", model.url(), "--model", "local/scripted", "--patience", "20"]).await;
    assert!(said.out.contains("scripted"), "{said:?}");
    let said = dir.run(&["check", "http://127.0.0.1:9/v1", "--model", "x"]).await;
    assert!(said.code == 1 && !said.err.is_empty(), "{said:?}");
}

/// Flips a bit in the line of a file that contains a text.
fn damage(file: &std::path::Path, text: &str) {
    let mut bytes = std::fs::read(file).unwrap();
    let at = bytes.windows(text.len()).position(|w| w == text.as_bytes()).unwrap();
    bytes[at] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

#[tokio::test]
async fn what_can_be_read_of_a_damaged_session_becomes_a_new_one() {
    let model = Model::start().await;
    let dir = Project::new();
    dir.ask(&model, &["-p", "say walnut"]).await;
    dir.ask(&model, &["-p", "-c", "say hazelnut"]).await;
    let id = dir.session_ids().remove(0);
    let said = dir.run(&["sessions", "salvage", &id]).await;
    assert!(said.code == 0 && said.out.contains("is not damaged; nothing was written"), "{said:?}");
    assert_eq!(dir.session_ids().len(), 1);

    let file = dir.sessions().join(format!("{id}.json"));
    damage(&file, "It is hazelnut.");
    let before = std::fs::read(&file).unwrap();
    let refused = dir.run(&["sessions", "show", &id]).await;
    assert!(refused.code == 1 && refused.err.contains("is damaged at"), "{refused:?}");
    let said = dir.run(&["sessions", "salvage", &id[..8]]).await;
    assert_eq!(said.code, 4, "{said:?}");
    let lost = said.out.lines().find(|line| line.starts_with("lost: ")).unwrap();
    assert!(lost.contains(": line ") && lost.contains("checksum"), "{lost}");
    assert_eq!(lost.matches(file.to_str().unwrap()).count(), 1, "the file is named once: {lost}");
    assert_eq!(std::fs::read(&file).unwrap(), before, "the damaged file is unchanged");
    let new = dir.session_ids().into_iter().find(|new| *new != id).unwrap();
    assert!(said.out.contains(&format!("session {new} has the ")), "{said:?}");
    let shown = dir.run(&["sessions", "show", &new]).await;
    // The prompt and the reply of a turn are in one line.
    assert!(shown.code == 0 && shown.out.contains("It is walnut."), "{shown:?}");
    assert!(shown.out.contains("### Missing") && !shown.out.contains("hazelnut"), "{shown:?}");
    let continues = dir.ask(&model, &["-p", "--resume", &new, "say cashew"]).await;
    let can = said.out.contains(&format!("looptree --resume {new} continues it"));
    assert_eq!(can, continues.code == 0, "{said:?} {continues:?}");

    // A file of it does, too, and the rest goes to a file.
    let rest = dir.home().join("rest.json");
    let words = ["sessions", "salvage", file.to_str().unwrap(), "-o", rest.to_str().unwrap()];
    let said = dir.run(&words).await;
    assert!(said.code == 4 && said.out.contains("written: "), "{said:?}");
    let document: serde_json::Value = serde_json::from_slice(&std::fs::read(&rest).unwrap()).unwrap();
    assert_ne!(document["session_id"], id.as_str());
    assert_eq!(dir.run(&words).await.code, 1, "no file is overwritten");
    assert_eq!(dir.session_ids().len(), 2);

    // Nothing is left, or it is something else.
    std::fs::write(&file, "nothing").unwrap();
    let said = dir.run(&["sessions", "salvage", &id]).await;
    assert!(said.code == 1 && said.err.contains("can be salvaged"), "{said:?}");
    let other = dir.home().join("other.txt");
    std::fs::write(&other, "x").unwrap();
    let said = dir.run(&["sessions", "salvage", other.to_str().unwrap()]).await;
    assert!(said.code == 2 && said.err.contains("is no file of a session"), "{said:?}");
    assert_eq!(dir.session_ids().len(), 2);
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_session_of_a_database_is_salvaged_into_the_folder_of_the_directory() {
    use looptree::session::{BlockingSessionStore as _, JsonStore, SqliteStore};
    let model = Model::start().await;
    let dir = Project::new();
    dir.ask(&model, &["-p", "say walnut"]).await;
    dir.ask(&model, &["-p", "-c", "say hazelnut"]).await;
    let id = dir.session_ids().remove(0);
    let session = JsonStore::open(dir.sessions()).unwrap().load_session(&id).unwrap();
    let database = dir.home().join("sessions.db");
    let store = SqliteStore::open(&database).unwrap();
    store.save_session(&session).unwrap();
    drop(store);
    let name = database.to_str().unwrap();
    let said = dir.run(&["sessions", "salvage", name]).await;
    assert!(said.code == 0 && said.out.contains("is not damaged"), "{said:?}");
    damage(&database, "It is hazelnut.");
    let said = dir.run(&["sessions", "salvage", name, "--id", &id]).await;
    assert_eq!(said.code, 4, "{said:?}");
    let lost = said.out.lines().find(|line| line.starts_with("lost: ")).unwrap();
    assert_eq!(lost.matches(name).count(), 1, "{lost}");
    let new = dir.session_ids().into_iter().find(|new| *new != id).unwrap();
    assert!(dir.run(&["sessions", "show", &new]).await.out.contains("It is walnut."));
}

/// The conversation has a message about the end of a stopped run, which the user did not write.
#[tokio::test]
async fn the_note_of_a_stopped_run_is_not_shown_as_a_message_of_the_user() {
    let model = Model::start().await;
    let dir = Project::new();
    let said = dir.ask(&model, &["-p", "--yes", "--max-turns", "1", "run it"]).await;
    assert_eq!(said.code, 1, "{said:?}");
    let id = dir.session_ids().remove(0);
    let tree = dir.run(&["sessions", "show", "--tree", &id]).await.out;
    assert!(tree.contains("1  > run it [bash]  (stopped: max turns exceeded)"), "{tree}");
    let shown = dir.run(&["sessions", "show", &id]).await.out;
    assert!(shown.contains("### Stopped\n\nThe run was stopped: max turns exceeded"), "{shown}");
    assert_eq!(shown.matches("### User").count(), 1, "{shown}");
    let page = dir.run(&["view", &id]).await.out;
    assert!(page.contains("The run was stopped") && !page.contains("[Agent stopped"), "{page}");
    let mut on = super::terminal::Terminal::start(
        &dir,
        80,
        &[("NO_COLOR", "1")],
        &[&model.words()[..], &["--continue".to_owned()]].concat(),
    );
    on.sees("> run it").await;
    on.sees("stopped: max turns exceeded").await;
    on.prompts().await;
    assert!(!on.text().contains("[Agent stopped"), "{}", on.text());
}

#[tokio::test]
async fn a_session_whose_file_is_empty_is_listed_as_unreadable() {
    let model = Model::start().await;
    let dir = Project::new();
    dir.ask(&model, &["-p", "say x"]).await;
    let id = dir.session_ids().remove(0);
    let folder = dir.run(&["config", "--paths"]).await.out;
    let folder = folder.lines().find_map(|line| line.strip_prefix("sessions: ")).unwrap();
    let folder = std::path::Path::new(folder.split(" (").next().unwrap());
    std::fs::write(folder.join(format!("{id}.json")), "").unwrap();
    let said = dir.run(&["sessions"]).await;
    assert!(said.out.contains(&format!("{id} cannot be read")), "{said:?}");
    let said = dir.run(&["sessions", "show", &id[..8]]).await;
    assert!(said.code == 1 && !said.err.contains("there is no session"), "{said:?}");
}
