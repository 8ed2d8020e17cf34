//! Configuration files: precedence, profiles, what a project may not set unasked, AGENTS.md and skills.

use super::{Model, Project, finish};

fn write(path: &std::path::Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[tokio::test]
async fn each_setting_has_a_value_and_a_place_where_it_comes_from() {
    let dir = Project::new();
    write(
        &dir.user_config(),
        "model = \"anthropic/a\"\nbudget = \"0.50\"\nthinking = \"high\"\n[profiles.fast]\nmodel = \"groq/b\"\nmax_turns = 9\n",
    );
    write(&dir.path().join(".looptree/config.toml"), "thinking = \"low\"\n");
    let said = dir.run(&["config"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let user = dir.user_config().display().to_string();
    let project = dir.path().join(".looptree/config.toml").display().to_string();
    let has = |out: &str, line: &str| assert!(out.lines().any(|l| l == line), "{line} is not in {out}");
    has(&said.out, &format!("model = \"anthropic/a\"  # {user}"));
    has(&said.out, &format!("budget = \"0.50\"  # {user}"));
    has(&said.out, &format!("thinking = \"low\"  # {project}"));
    has(&said.out, "max_turns = 200  # default");
    has(&said.out, "approve = \"ask\"  # default");
    let said = dir.run(&["config", "--profile", "fast", "--model", "xai/c", "--sandbox"]).await;
    has(&said.out, "model = \"xai/c\"  # command line");
    has(&said.out, &format!("max_turns = 9  # {user}, profile fast"));
    has(&said.out, "sandbox = \"auto\"  # command line");
    has(&said.out, "approve = \"none\"  # default");
    let said = dir.run(&["config", "--profile", "slow"]).await;
    assert!(said.code == 2 && said.err.contains("there is no profile \"slow\"; known are fast"), "{said:?}");
    for (text, expect) in [
        ("modle = \"x\"", "modle"),
        ("approve = \"never\"", "approve"),
        ("budget = \"much\"", "much"),
        ("a = ", "line 1"),
        ("profile = 1", "profile"),
    ] {
        write(&dir.user_config(), text);
        let said = dir.run(&["config"]).await;
        assert!(
            said.code == 2 && said.err.contains(expect) && said.err.contains("config.toml"),
            "{text}: {said:?}"
        );
    }
    let said = dir.run(&["--config", "nowhere.toml", "config"]).await;
    assert!(said.code == 2 && said.err.contains("nowhere.toml"), "{said:?}");
}

/// A file of a project reaches the terminal in error messages and in the name of the model, before the user has agreed to anything.
#[tokio::test]
async fn a_project_cannot_send_control_sequences_to_the_terminal() {
    let dir = Project::new();
    for (text, code) in [
        ("a = \n# \u{1b}[2J\u{1b}[H hidden", 2),
        ("# \u{1b}[2J hidden\na = ", 2),
        ("\"\\u001b[2Jkey\" = 1", 2),
        ("model = \"local/\\u001b[2Jx\\nyou are safe\"", 2),
        ("model = \"anthropic/\\u001b[2Jx\\nyou are safe\"", 2),
    ] {
        write(&dir.path().join(".looptree/config.toml"), text);
        for words in [&["config"][..], &["-p", "hello"], &["sessions"]] {
            let said = dir.run(words).await;
            assert!(!said.err.contains('\u{1b}') && !said.out.contains('\u{1b}'), "{text}: {said:?}");
            assert!(!said.err.lines().any(|line| line.starts_with("you are safe")), "{text}: {said:?}");
            assert!(words != ["-p", "hello"] || said.code == code, "{text}: {said:?}");
        }
    }
}

/// Every key of a project that could loosen the policy or the sandbox, or send a key elsewhere, is left out.
#[tokio::test]
async fn a_project_cannot_loosen_what_protects_the_user() {
    let model = Model::start().await;
    let dir = Project::new();
    let project = dir.path().join(".looptree/config.toml");
    write(&dir.user_config(), "[profiles.loose]\napprove = \"none\"\n");
    for text in [
        "approve = \"none\"",
        "approve = \"commands\"",
        "sandbox = \"none\"",
        "sandbox_network = true",
        "sandbox_write = [\"/\"]",
        "sandbox_read = [\"/\"]",
        "base_url = \"http://127.0.0.1:1/v1\"",
        "api_key_env = \"OTHER\"",
        "sessions = \"/tmp/x\"",
        "budget = \"1000\"",
        "plan_only = false",
        "thinking = \"low\"",
        "project_context = true",
        "max_turns = 9",
        "prices = { \"*\" = \"0\" }",
        "model = '{\"model\": \"local/x\", \"base_url\": \"http://127.0.0.1:1\"}'",
        "skills = [\"/\"]",
        "profile = \"loose\"",
        "[profiles.loose]\napprove = \"none\"\nsandbox_network = true",
    ] {
        write(&project, text);
        let profile: &[&str] = if text.starts_with('[') { &["--profile", "loose"] } else { &[] };
        let flags = ["config", "--sandbox=bwrap", "--approve=ask"];
        let said = dir.run(&[&flags[..], profile].concat()).await;
        let key = text.trim_start_matches("[profiles.loose]\n").split(' ').next().unwrap();
        assert!(said.out.contains("ignored in") && said.out.contains(key), "{text}: {said:?}");
        let rows = said.out.lines().filter(|line| line.contains(" = "));
        for row in rows {
            assert!(!row.contains(".looptree/config.toml"), "{text}: {row}");
        }
    }
    // The run itself: nothing is written.
    write(&project, "approve = \"none\"");
    let said = dir.ask(&model, &["-p", "run it"]).await;
    assert!(!dir.path().join("ran.txt").exists() && said.err.contains("ignored in"), "{said:?}");
    // What is stricter applies.
    write(&project, "plan_only = true\napprove = \"ask\"");
    let said = dir.ask(&model, &["-p", "--yes", "run it"]).await;
    assert!(!dir.path().join("ran.txt").exists() && said.err.contains("Only a plan"), "{said:?}");
    // The user can take it for one run.
    write(&project, "approve = \"none\"");
    let said = dir.ask(&model, &["-p", "--trust-project", "run it"]).await;
    assert!(dir.path().join("ran.txt").exists() && !said.err.contains("ignored in"), "{said:?}");
}

#[tokio::test]
async fn agents_md_and_skills_of_the_project_are_in_the_prompt_but_no_file_from_elsewhere() {
    let model = Model::start().await;
    let dir = Project::new();
    write(&dir.path().join("AGENTS.md"), "Mind the secret-instruction.");
    write(
        &dir.path().join(".looptree/skills/review/SKILL.md"),
        "---\nname: review\ndescription: Reviews code.\n---\nLook twice.\n",
    );
    let said = dir.ask(&model, &["-p", "say x"]).await;
    assert!(said.err.contains("instructions: ") && said.err.contains("skills: review"), "{said:?}");
    assert!(model.asked()[0].starts_with("system(secret-instruction)"), "{:?}", model.asked());
    let said = dir.ask(&model, &["-p", "--no-project-context", "say x"]).await;
    assert!(!said.err.contains("instructions: ") && !model.asked()[1].contains("secret"), "{said:?}");

    std::fs::remove_file(dir.path().join("AGENTS.md")).unwrap();
    let secret = dir.home().join("id_rsa");
    std::fs::write(&secret, "secret-instruction").unwrap();
    std::os::unix::fs::symlink(&secret, dir.path().join("AGENTS.md")).unwrap();
    let said = dir.ask(&model, &["-p", "say x"]).await;
    assert!(!model.asked()[2].contains("secret") && !said.err.contains("instructions: "), "{said:?}");
}

#[tokio::test]
async fn a_key_is_in_no_output_and_no_session() {
    let model = Model::start().await;
    let dir = Project::new();
    let mut command = dir.command();
    command
        .args(model.words())
        .args(["--api-key-env", "KEY", "--json", "say x"])
        .env("KEY", "sk-very-secret-key");
    let said = finish(command, "").await;
    assert_eq!(said.code, 0, "{said:?}");
    let mut all = said.out + &said.err;
    for file in std::fs::read_dir(dir.sessions()).unwrap() {
        all.push_str(&String::from_utf8_lossy(&std::fs::read(file.unwrap().path()).unwrap()));
    }
    assert!(!all.contains("sk-very-secret-key"));
}

/// An address and the description of a model can have secrets of their own.
#[tokio::test]
async fn the_settings_are_shown_without_the_secrets_in_an_address_or_a_description() {
    let dir = Project::new();
    for text in [
        "model = \"local/x\"\nbase_url = \"http://user:s3cret@127.0.0.1:9/v1?token=s3cret\"\n",
        "base_url = \"user:s3cret@127.0.0.1:9/v1\"\n",
        "model = '{\"model\": \"local/x\", \"base_url\": \"http://u@a\", \"headers\": {\"x-key\": \"s3cret\"}}'\n",
        "model = '{\"model\": 5, \"headers\": {\"x-key\": \"s3cret\"}}'\n",
    ] {
        write(&dir.user_config(), text);
        for words in [&["config"][..], &["-p", "hello"]] {
            let said = dir.run(words).await;
            assert!(
                !said.out.contains("s3cret") && !said.err.contains("s3cret"),
                "{text} {words:?}: {said:?}"
            );
        }
        assert!(dir.run(&["config"]).await.out.contains("127.0.0.1:9/v1\"") || text.starts_with("model = '"));
    }
}

#[tokio::test]
async fn the_folder_with_the_sessions_and_its_origin_are_shown() {
    let model = Model::start().await;
    let dir = Project::new();
    let said = dir.run(&["config", "--paths"]).await;
    let line = said.out.lines().find(|line| line.starts_with("sessions: ")).unwrap().to_owned();
    assert!(line.ends_with("(default; does not exist yet)"), "{said:?}");
    dir.ask(&model, &["-p", "say x"]).await;
    let folder = dir.sessions().display().to_string();
    let said = dir.run(&["config", "--paths"]).await;
    assert!(said.out.contains(&format!("sessions: {folder} (default)\n")), "{said:?}");
    let said = dir.run(&["config"]).await;
    assert!(said.out.contains(&format!("sessions = \"{folder}\"  # default\n")), "{said:?}");
    let other = dir.home().join("other").display().to_string();
    write(&dir.user_config(), &format!("sessions = \"{other}\"\n"));
    let said = dir.run(&["config", "--paths"]).await;
    let user = dir.user_config().display().to_string();
    assert!(said.out.contains(&format!("sessions: {other} ({user}; does not exist yet)")), "{said:?}");
    let said = dir.run(&["config", "--paths", "--sessions", &folder]).await;
    assert!(said.out.contains(&format!("sessions: {folder} (command line)")), "{said:?}");
}

/// A file that a stranger broke is no reason not to list one's own sessions. A run, which would use its settings, does not start.
#[tokio::test]
async fn a_broken_file_of_a_project_does_not_stop_the_commands_that_do_not_need_it() {
    let model = Model::start().await;
    let dir = Project::new();
    dir.ask(&model, &["-p", "say pineapple"]).await;
    let id = dir.session_ids().remove(0);
    write(&dir.path().join(".looptree/config.toml"), "model = ");
    let commands: [&[&str]; 9] = [
        &["sessions"],
        &["sessions", "search", "pineapple"],
        &["sessions", "show", &id],
        &["sessions", "fork", &id],
        &["view", &id],
        &["pending"],
        &["models", "anthropic"],
        &["config", "--paths"],
        &["completions", "bash"],
    ];
    for words in commands {
        let said = dir.run(words).await;
        assert_eq!(said.code, 0, "{words:?}: {said:?}");
        let warned = said.err.contains("warning: the configuration") && said.err.contains("is left out");
        assert!(warned || words[0] == "completions", "{words:?}: {said:?}");
    }
    for words in [&["-p", "say x"][..], &["config"]] {
        let said = dir.run(words).await;
        assert!(said.code == 2 && said.err.contains("cannot be used"), "{words:?}: {said:?}");
    }
    // The user's own file can name the folder with the sessions.
    std::fs::remove_file(dir.path().join(".looptree/config.toml")).unwrap();
    write(&dir.user_config(), "model = ");
    assert_eq!(dir.run(&["sessions"]).await.code, 2);
    assert_eq!(dir.run(&["models", "anthropic"]).await.code, 0);
    assert_eq!(dir.run(&["config", "--paths"]).await.code, 0);
    // These read no configuration at all.
    write(&dir.path().join(".looptree/config.toml"), "model = ");
    for words in [&["--version"][..], &["--help"], &["sessions", "--help"]] {
        let said = dir.run(words).await;
        assert!(said.code == 0 && said.err.is_empty(), "{words:?}: {said:?}");
    }
}

#[tokio::test]
async fn a_budget_of_money_needs_prices_which_a_flag_or_a_file_can_set() {
    let model = Model::start().await;
    let dir = Project::new();
    let said = dir.ask(&model, &["-p", "--budget", "1", "say x"]).await;
    assert_eq!(said.code, 2, "{said:?}");
    for advice in ["--price INPUT,OUTPUT", "[prices]", "\"local/scripted\" = ", "--max-tokens-total"] {
        assert!(said.err.contains(advice), "{advice}: {said:?}");
    }
    assert!(!said.err.contains("with_cost") && model.asked().is_empty(), "{said:?}");
    // 1,200 tokens at 10 dollars a million, and 34 at 100.
    let said = dir.ask(&model, &["-p", "--budget", "1", "--price", "10,100", "say x"]).await;
    assert!(said.code == 0 && said.err.contains("34 out, $0.0154"), "{said:?}");
    assert!(said.err.contains("budget: $0.0154 of $1.00"), "{said:?}");
    let said = dir.ask(&model, &["-p", "--budget", "1", "--price", "local/other=1,2", "say x"]).await;
    assert_eq!(said.code, 2, "{said:?}");
    let said = dir.ask(&model, &["-p", "--budget", "1", "--price", "0", "say x"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let said = dir.ask(&model, &["-p", "--price", "much", "say x"]).await;
    assert!(said.code == 2 && said.err.contains("much"), "{said:?}");
    let said = dir.ask(&model, &["-p", "--price", "1", "say x"]).await;
    assert!(said.code == 2 && said.err.contains("INPUT,OUTPUT"), "{said:?}");

    write(&dir.user_config(), "budget = \"1\"\n[prices]\n\"local/scripted\" = \"10,100\"\n");
    let said = dir.ask(&model, &["-p", "say x"]).await;
    assert!(said.code == 0 && said.err.contains("$0.0154"), "{said:?}");
    let said = dir.run(&["config"]).await;
    assert!(
        said.out.contains("prices = { \"local/scripted\" = \"10.00,100.00,10.00,10.00\" }  # "),
        "{said:?}"
    );
    // A project cannot lower the prices, which would raise the budget.
    std::fs::remove_file(dir.user_config()).unwrap();
    write(&dir.path().join(".looptree/config.toml"), "[prices]\n\"*\" = \"0\"\n");
    let said = dir.ask(&model, &["-p", "--budget", "1", "say x"]).await;
    assert_eq!(said.code, 2, "{said:?}");
}

#[tokio::test]
async fn flags_without_an_effect_and_words_that_are_almost_commands_are_refused() {
    let model = Model::start().await;
    let dir = Project::new();
    for flag in ["--sandbox-network", "--sandbox-read=/", "--sandbox-write=/"] {
        let said = dir.ask(&model, &["-p", flag, "say x"]).await;
        assert!(said.code == 2 && said.err.contains("has no effect without a sandbox"), "{said:?}");
    }
    for (word, name) in [("sesions", "sessions"), ("modles", "models"), ("anwser", "answer")] {
        let said = dir.ask(&model, &["-p", word]).await;
        assert!(said.code == 2 && said.err.contains(&format!("`looptree {name}`")), "{said:?}");
    }
    assert!(model.asked().is_empty(), "no word was sent to the model");
    for words in [&["-p", "--", "modles"][..], &["-p", "review"], &["-p", "say modles"]] {
        dir.ask(&model, words).await;
    }
    assert_eq!(model.asked().len(), 3);
}

#[tokio::test]
async fn a_hint_to_continue_has_the_flags_of_the_model() {
    let model = Model::start().await;
    let dir = Project::new();
    let said = dir.ask(&model, &["-p", "--price", "0.20,0.60", "say x"]).await;
    let id = dir.session_ids().remove(0);
    let url = model.url();
    let line = format!(
        "looptree --base-url {url} --model local/scripted --price 0.20,0.60,0.20,0.20 --resume {id} continues it"
    );
    assert!(said.err.contains(&line), "{said:?}");
}

#[tokio::test]
async fn a_model_that_the_build_cannot_call_is_refused_and_not_listed() {
    let dir = Project::new();
    let has_clouds = cfg!(feature = "clouds");
    let names = ["bedrock/x", "google_vertex/x", "azure/x", "anthropic_vertex/x"];
    for name in names.iter().filter(|_| !has_clouds) {
        let said = dir.run(&["-p", "--model", name, "say x"]).await;
        assert!(said.code == 2 && said.err.contains("--features clouds"), "{said:?}");
    }
    let said = dir.run(&["models"]).await;
    assert_eq!(said.out.contains("bedrock/"), has_clouds, "{said:?}");
    assert_eq!(said.out.contains("google_vertex/"), has_clouds, "{said:?}");
}
