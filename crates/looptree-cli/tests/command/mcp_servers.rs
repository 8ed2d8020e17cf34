//! The MCP servers of the settings and of `--mcp-config`: which are used, approvals, failures, secrets.

use serde_json::json;

use super::terminal::Terminal;
use super::tiny_server::Tiny;
use super::{Model, Project, finish};

pub(crate) fn write(path: &std::path::Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A project whose user has configured a server.
pub(crate) fn with_server(behaviour: &str) -> (Project, Tiny) {
    let dir = Project::new();
    let tiny = Tiny::new(&dir, "tiny");
    write(&dir.user_config(), &tiny.toml("tiny", behaviour));
    (dir, tiny)
}

pub(crate) fn chat(dir: &Project, model: &Model, words: &[&str]) -> Terminal {
    let words: Vec<String> = model.words().into_iter().chain(words.iter().map(|w| (*w).to_owned())).collect();
    Terminal::start(dir, 100, &[("NO_COLOR", "1")], &words)
}

#[tokio::test]
async fn a_server_of_the_user_is_connected_and_its_calls_are_denied_without_an_approver() {
    let model = Model::start().await;
    let (dir, tiny) = with_server("");
    let said = dir.ask(&model, &["-p", "use tiny__run it"]).await;
    assert_eq!((said.code, tiny.calls()), (0, 0), "{said:?}");
    assert!(said.err.contains("MCP servers: tiny (1 tool)\n"), "{said:?}");
    assert!(said.out.contains("No approver is available") && said.out.contains("with --yes."), "{said:?}");
    for words in [["--approve", "commands"], ["--approve", "ask"], ["--yes", "--plan-only"]] {
        let said = dir.ask(&model, &[&words[..], &["-p", "use tiny__run it"]].concat()).await;
        assert_eq!((said.code, tiny.calls()), (0, 0), "{words:?}: {said:?}");
    }
    let said = dir.ask(&model, &["-p", "--plan-only", "use tiny__run it"]).await;
    assert!(said.out.contains("a tool of an MCP server may change something"), "{said:?}");
    let said = dir.ask(&model, &["-p", "--yes", "use tiny__run it"]).await;
    assert_eq!((said.code, tiny.calls()), (0, 1), "{said:?}");
    assert_eq!(said.out, "The other one said: tiny has done it\n", "{said:?}");
    let folders: std::collections::BTreeSet<_> = tiny.folders().into_iter().collect();
    assert_eq!(folders.len(), 6, "each start has a directory of its own: {folders:?}");
    for folder in folders {
        assert!(folder.contains("/looptree-mcp-") && !std::path::Path::new(&folder).exists(), "{folder}");
    }
    assert!(!tiny.runs());
}

/// The sandbox confines commands and not the servers, which the program starts outside of it.
#[tokio::test]
async fn a_sandbox_allows_no_call_of_a_server() {
    let model = Model::start().await;
    let (dir, tiny) = with_server("");
    let said = dir.ask(&model, &["-p", "--sandbox", "use tiny__run it"]).await;
    if said.err.contains("commands cannot be restricted") {
        return;
    }
    assert_eq!((said.code, tiny.calls()), (0, 0), "{said:?}");
    assert!(said.out.contains("with --yes.") && !said.out.contains("or --sandbox"), "{said:?}");
    let said = dir.ask(&model, &["-p", "--sandbox", "run it"]).await;
    assert!(dir.path().join("ran.txt").exists(), "{said:?}");
    let mut on = chat(&dir, &model, &["--sandbox"]);
    on.sees("you are asked only before tools of MCP servers, which the sandbox does not confine").await;
    on.prompts().await;
    on.types("use tiny__run it");
    on.sees("Allow this call?").await;
    on.types("y");
    on.sees("tiny has done it").await;
    assert_eq!(tiny.calls(), 1);
}

#[tokio::test]
async fn the_chat_asks_about_a_tool_of_a_server_and_always_holds_for_that_call() {
    let model = Model::start().await;
    let (dir, tiny) = with_server("");
    let mut on = chat(&dir, &model, &[]);
    on.sees("MCP servers: tiny (1 tool)").await;
    on.sees("you are asked before edits, commands and tools of MCP servers").await;
    on.prompts().await;
    on.types("/mcp");
    on.sees("tiny: connected, 1 tool").await;
    on.types("/tools");
    on.sees("of the MCP server tiny:").await;
    on.sees("tiny__run: Runs it.").await;
    on.prompts().await;
    on.types("use tiny__run it");
    on.sees("tiny__run").await;
    on.sees("y yes, n no").await;
    assert_eq!(tiny.calls(), 0);
    on.types("a");
    on.sees("allowed until the chat ends: exactly this call of tiny__run").await;
    on.sees("tiny has done it").await;
    on.prompts().await;
    on.types("use tiny__run it");
    on.sees("tiny has done it").await;
    on.prompts().await;
    assert_eq!(tiny.calls(), 2);
    on.types("use tiny__run something else");
    on.sees("y yes, n no").await;
    assert_eq!(tiny.calls(), 2);
}

/// A server of a project is a program that it would start.
#[tokio::test]
async fn a_server_of_a_project_is_not_started_without_consent() {
    let model = Model::start().await;
    let dir = Project::new();
    let tiny = Tiny::new(&dir, "tiny");
    let file = dir.path().join(".looptree/config.toml");
    write(&file, &tiny.toml("tiny", ""));
    let profile = tiny.toml("tiny", "").replace("[mcp_servers", "[profiles.ci.mcp_servers");
    for (text, words) in [
        (tiny.toml("tiny", ""), &["-p", "say x"][..]),
        (tiny.toml("tiny", ""), &["config"]),
        (profile, &["-p", "--profile", "ci", "say x"]),
    ] {
        write(&file, &text);
        let said = dir.ask(&model, words).await;
        let shown = said.out + &said.err;
        assert!(shown.contains("ignored in") && shown.contains(": mcp_servers."), "{words:?}: {shown}");
        assert_eq!(tiny.starts(), 0);
    }
    write(&file, &tiny.toml("tiny", ""));
    let mut on = chat(&dir, &model, &[]);
    on.sees("| [mcp_servers.tiny]").await;
    on.sees("These settings can reduce your protection: mcp_servers.").await;
    on.sees("Use them?").await;
    assert_eq!(tiny.starts(), 0);
    on.types("n");
    on.sees("ignored in").await;
    on.prompts().await;
    on.types("/mcp");
    on.sees("no MCP server is configured").await;
    on.keys("\x04");
    on.ends().await;
    assert_eq!(tiny.starts(), 0);
    let mut on = chat(&dir, &model, &[]);
    on.sees("Use them?").await;
    on.types("y");
    on.sees("MCP servers: tiny (1 tool)").await;
    on.prompts().await;
    on.keys("\x04");
    on.ends().await;
    // The user has agreed to this content and to no other.
    let said = dir.ask(&model, &["-p", "say x"]).await;
    assert!(said.err.contains("MCP servers: tiny (1 tool)"), "{said:?}");
    write(&file, &format!("# another content\n{}", tiny.toml("tiny", "")));
    let said = dir.ask(&model, &["-p", "say x"]).await;
    assert!(said.err.contains("ignored in") && tiny.starts() == 2, "{said:?}");
    let said = dir.ask(&model, &["-p", "--trust-project", "say x"]).await;
    assert!(!said.err.contains("ignored in") && tiny.starts() == 3, "{said:?}");
}

/// A project's table takes the place of the user's, as its other settings do.
#[tokio::test]
async fn the_table_of_a_project_replaces_the_one_of_the_user() {
    let model = Model::start().await;
    let (dir, tiny) = with_server("");
    let other = Tiny::new(&dir, "other");
    write(&dir.path().join(".looptree/config.toml"), &other.toml("other", ""));
    let said = dir.ask(&model, &["-p", "say x"]).await;
    assert!(said.err.contains("MCP servers: tiny (1 tool)"), "{said:?}");
    let said = dir.ask(&model, &["-p", "--trust-project", "say x"]).await;
    assert!(said.err.contains("MCP servers: other (1 tool)\n"), "{said:?}");
    assert_eq!((tiny.starts(), other.starts()), (1, 1));
}

#[tokio::test]
async fn each_server_that_cannot_be_used_is_one_line_and_the_run_goes_on() {
    let model = Model::start().await;
    let dir = Project::new();
    let (tiny, dead) = (Tiny::new(&dir, "tiny"), Tiny::new(&dir, "dead"));
    let broken = "[mcp_servers.gone]\ncommand = \"no-such-program\"\n\
        [mcp_servers.lost]\ncommand = \"sh\"\ncwd = \"nowhere\"\n\
        [mcp_servers.unset]\ncommand = \"sh\"\nenv = { A = \"${NOT_SET}\" }\n\
        [mcp_servers.misspelt]\ncommand = \"sh\"\nenabled = false\n\
        [mcp_servers.off]\ncommand = \"sh\"\ndisabled = true\n\
        [mcp_servers.port]\nurl = \"http://127.0.0.1:9/mcp\"\n";
    write(&dir.user_config(), &format!("{broken}{}{}", tiny.toml("tiny", ""), dead.toml("dead", "dead")));
    let said = dir.ask(&model, &["-p", "--quiet", "--yes", "use tiny__run it"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(said.out, "The other one said: tiny has done it\n");
    let lines: Vec<&str> = said.err.lines().collect();
    let cwd = dir.path().join("nowhere").display().to_string();
    for (line, expected) in lines.iter().zip([
        "warning: the MCP server dead cannot be used: it exited with code 3 before it answered; the last line that it \
         wrote: the database is locked"
            .to_owned(),
        "warning: the MCP server gone cannot be used: the program `no-such-program` was not found"
            .to_owned(),
        format!("warning: the MCP server lost cannot be used: cwd: {cwd} is not a directory"),
        "warning: the MCP server misspelt cannot be used: enabled: there is no such key; known are args, command, cwd, \
         deferred, disabled, env, headers, sandbox, startupTimeout, startup_timeout, timeout, tools, type, url"
            .to_owned(),
        "warning: the MCP server port cannot be used: ".to_owned(),
        "warning: the MCP server unset cannot be used: env.A: the variable NOT_SET is not set; set it or write \
         ${NOT_SET:-default}"
            .to_owned(),
    ]) {
        assert!(line.starts_with(&expected), "{line}\nis not\n{expected}");
    }
    assert_eq!(lines.len(), 6, "{said:?}");
    let mut on = chat(&dir, &model, &[]);
    on.sees("the MCP server gone cannot be used").await;
    on.prompts().await;
    on.types("/mcp");
    for state in [
        "dead: failed: it exited with code 3",
        "off: disabled in the configuration",
        "tiny: connected, 1 tool",
    ] {
        on.sees(state).await;
    }
}

#[tokio::test]
async fn a_file_of_other_agents_adds_servers_for_a_run_and_replaces_those_of_the_same_name() {
    let model = Model::start().await;
    let (dir, tiny) = with_server("dead");
    let more = Tiny::new(&dir, "more");
    let file = dir.path().join("mcp.json");
    write(&file, &json!({"mcpServers": {"tiny": tiny.json(), "more": more.json()}}).to_string());
    let said = dir.ask(&model, &["-p", "say x"]).await;
    assert!(said.err.contains("the MCP server tiny cannot be used"), "{said:?}");
    let said = dir.ask(&model, &["-p", "--mcp-config", "mcp.json", "say x"]).await;
    assert!(said.err.contains("MCP servers: more (1 tool), tiny (1 tool)\n"), "{said:?}");
    assert!(said.err.contains(" --mcp-config mcp.json --resume "), "{said:?}");
    write(
        &dir.path().join("second.json"),
        r#"{"mcpServers": {"more": {"command": "sh", "disabled": true}}}"#,
    );
    let words = ["--mcp-config", "mcp.json", "--mcp-config", "second.json"];
    let said = dir.ask(&model, &[&words[..], &["-p", "say x"]].concat()).await;
    assert!(said.err.contains("MCP servers: tiny (1 tool)\n"), "{said:?}");
    let said = dir.ask(&model, &["-p", "--no-mcp", "say x"]).await;
    assert!(said.code == 0 && !said.err.contains("MCP server"), "{said:?}");
    write(&file, &json!({"mcpServers": {"more": more.json()}}).to_string());
    let said = dir.ask(&model, &["-p", "--no-mcp", "--mcp-config", "mcp.json", "say x"]).await;
    assert!(said.err.contains("MCP servers: more (1 tool)\n"), "{said:?}");
    for (text, expected) in [
        ("{", "--mcp-config mcp.json: the MCP configuration is not valid JSON"),
        ("{}", "--mcp-config mcp.json: the MCP configuration has no object `mcpServers`"),
    ] {
        write(&file, text);
        let said = dir.ask(&model, &["-p", "--mcp-config", "mcp.json", "say x"]).await;
        assert!(said.code == 2 && said.err.contains(expected), "{said:?}");
    }
    let said = dir.ask(&model, &["-p", "--mcp-config", "gone.json", "say x"]).await;
    assert!(
        said.code == 2 && said.err.contains("--mcp-config gone.json: Cannot access gone.json: No such file"),
        "{said:?}"
    );
}

#[tokio::test]
async fn a_program_and_a_directory_of_the_project_are_used_when_the_user_names_the_project() {
    let model = Model::start().await;
    let (dir, tiny) = with_server("");
    let script = dir.path().join("tools/server.sh");
    write(&script, &format!("#!/bin/sh\nexec sh {}/server.sh\n", dir.home().join("tiny").display()));
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let log = dir.home().join("tiny").display().to_string();
    let entry = |cwd: &str| {
        format!("[mcp_servers.tiny]\ncommand = \"./tools/server.sh\"\nenv = {{ LOG = \"{log}\" }}\n{cwd}")
    };
    write(&dir.user_config(), &entry(""));
    let said = dir.ask(&model, &["-p", "say x"]).await;
    assert!(
        said.err
            .contains("tiny cannot be used: command: ./tools/server.sh would be a program of the project"),
        "{said:?}"
    );
    assert!(said.err.contains("write cwd = \"project\""), "{said:?}");
    write(&dir.user_config(), &entry("cwd = \"project\"\n"));
    let elsewhere = dir.work.display().to_string();
    let mut command = dir.command();
    command.current_dir(dir.home()).args(model.words()).args(["--cwd", &elsewhere, "-p", "say x"]);
    let said = finish(command, "").await;
    assert!(said.err.contains("MCP servers: tiny (1 tool)"), "{said:?}");
    write(&dir.user_config(), &entry("cwd = \"tools\"\n"));
    let said = dir.ask(&model, &["-p", "say x"]).await;
    assert!(said.err.contains("MCP servers: tiny (1 tool)"), "{said:?}");
    assert_eq!(tiny.folders(), [elsewhere, dir.path().join("tools").display().to_string()]);
}

/// Attack of a repository: it has a module, a program and settings with the names that the user's own server loads.
#[tokio::test]
async fn a_hostile_repository_gets_no_code_into_a_server_of_the_user() {
    let model = Model::start().await;
    let (dir, tiny) = with_server("");
    let marker = dir.home().join("ran");
    let program = format!("#!/bin/sh\necho x > {}\n", marker.display());
    for name in ["sh", "env", "python3", "sed"] {
        let place = dir.path().join(".venv/bin").join(name);
        write(&place, &program);
        std::fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    write(&dir.path().join("tiny_module.py"), &format!("open('{}', 'w')", marker.display()));
    let module = "[mcp_servers.module]\ncommand = \"python3\"\nargs = [\"-m\", \"tiny_module\"]\n";
    write(&dir.user_config(), &format!("{module}{}", tiny.toml("tiny", "")));
    let path = std::env::var("PATH").unwrap();
    // An activated environment of the project, and the directory itself in two spellings.
    let path = format!("{}:.venv/bin::{path}", dir.path().join(".venv/bin").display());
    let mut command = dir.command();
    command.env("PATH", path).env("PWD", dir.path()).env("OLDPWD", dir.path());
    command.args(model.words()).args(["-p", "--yes", "use tiny__run it"]);
    let said = finish(command, "").await;
    assert_eq!((said.code, tiny.calls()), (0, 1), "{said:?}");
    assert!(!marker.exists(), "{said:?}");
    assert!(said.err.contains("the MCP server module cannot be used"), "{said:?}");
}

/// A server of the project's file starts in the project: the user has consented to what the file starts.
#[tokio::test]
async fn a_server_of_a_trusted_project_starts_in_the_project() {
    let model = Model::start().await;
    let dir = Project::new();
    let tiny = Tiny::new(&dir, "tiny");
    write(&dir.path().join(".looptree/config.toml"), &tiny.toml("tiny", ""));
    let said = dir.ask(&model, &["-p", "--trust-project", "say x"]).await;
    assert_eq!(tiny.folders(), [dir.path().display().to_string()], "{said:?}");
}

#[tokio::test]
async fn no_output_has_a_secret_of_a_server() {
    const SECRET: &str = "s3cret-of-the-test";
    let model = Model::start().await;
    let dir = Project::new();
    let text = format!(
        "[mcp_servers.env]\ncommand = \"sh\"\nargs = [\"-c\", \"echo $KEY >&2; exit 1\", \"{SECRET}\"]\n\
         env = {{ KEY = \"{SECRET}\", OTHER = \"${{OTHER}}\" }}\n\
         [mcp_servers.web]\nurl = \"http://127.0.0.1:9/{SECRET}\"\nheaders = {{ Authorization = \"Bearer {SECRET}\" }}\n"
    );
    write(&dir.user_config(), &text);
    let file = dir.path().join("mcp.json");
    write(&file, &json!({"mcpServers": {"json": {"command": "sh", "env": {"KEY": SECRET}}}}).to_string());
    let said = dir.run(&["config", "--mcp-config", "mcp.json"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let user = dir.user_config().display().to_string();
    for line in [
        format!(
            "mcp_servers.env = {{ args = [\"(hidden)\", \"(hidden)\", \"(hidden)\"], command = \"sh\", env = {{ KEY = \
             \"(hidden)\", OTHER = \"${{OTHER}}\" }} }}  # {user}"
        ),
        "mcp_servers.json = { command = \"sh\", env = { KEY = \"(hidden)\" } }  # --mcp-config mcp.json".to_owned(),
        format!(
            "mcp_servers.web = {{ headers = {{ Authorization = \"(hidden)\" }}, url = \"http://127.0.0.1:9/(hidden)\" }}  # {user}"
        ),
        "the MCP server env cannot be used: env.OTHER: the variable OTHER is not set; set it or write ${OTHER:-default}"
            .to_owned(),
    ] {
        assert!(said.out.lines().any(|shown| shown == line), "{line}\nis not in\n{}", said.out);
    }
    let all = said.out + &said.err;
    assert!(!all.contains(SECRET), "{all}");
    let said = dir.run(&["config", "--no-mcp"]).await;
    assert!(said.out.contains("mcp_servers = {}  # command line\n"), "{said:?}");

    let mut command = dir.command();
    command.args(model.words()).args(["-p", "--json", "say x"]).env("OTHER", "x");
    let said = finish(command, "").await;
    let mut all = said.out + &said.err;
    assert!(all.contains("the last line that it wrote: ****"), "{all}");
    for file in std::fs::read_dir(dir.sessions()).unwrap() {
        all.push_str(&String::from_utf8_lossy(&std::fs::read(file.unwrap().path()).unwrap()));
    }
    assert!(!all.contains(SECRET), "{all}");
    // A text that cannot be read is not shown, either.
    write(&dir.user_config(), &format!("[mcp_servers.env]\nenv = {{ KEY = \"{SECRET} }}\n"));
    let said = dir.run(&["config"]).await;
    assert!(said.code == 2 && said.err.contains("line 2") && !said.err.contains(SECRET), "{said:?}");
}

/// The tools come with the session only if the servers are there, and an open run cannot go on without them.
#[tokio::test]
async fn a_question_about_a_call_of_a_server_is_answered_later_and_the_session_connects_again() {
    let model = Model::start().await;
    let (dir, tiny) = with_server("");
    let said = dir.ask(&model, &["-p", "--wait", "use tiny__run it"]).await;
    assert_eq!((said.code, tiny.calls()), (3, 0), "{said:?}");
    let line = said.err.lines().find(|line| line.contains(" yes --hash ")).unwrap();
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    let answered = dir.run(&words).await;
    assert_eq!((answered.code, tiny.starts()), (0, 1), "{answered:?}");
    let said = dir.ask(&model, &["-p", "--no-mcp", "--continue"]).await;
    assert!(said.code == 1 && said.err.contains("tiny__run"), "{said:?}");
    assert!(said.err.contains("with the same MCP servers"), "{said:?}");
    let said = dir.ask(&model, &["-p", "--continue"]).await;
    assert_eq!((said.code, tiny.calls()), (0, 1), "{said:?}");
    assert_eq!(said.out, "The other one said: tiny has done it\n");
    let said = dir.ask(&model, &["-p", "--no-mcp", "--continue", "say x"]).await;
    assert_eq!((said.code, said.out.as_str()), (0, "It is x.\n"), "a closed run needs no server: {said:?}");
    assert!(!tiny.runs());
}

#[tokio::test]
async fn a_recorded_task_with_tools_of_a_server_replays_without_it() {
    let model = Model::start().await;
    let (dir, tiny) = with_server("");
    for (file, words) in [
        ("allowed.json", &["--yes"][..]),
        ("denied.json", &[]),
        ("deferred.json", &["--yes", "--mcp-config", "mcp.json"]),
    ] {
        let mut entry = tiny.json();
        entry["deferred"] = json!(true);
        write(&dir.path().join("mcp.json"), &json!({"mcpServers": {"tiny": entry}}).to_string());
        let said = dir.ask(&model, &[words, &["-p", "--record", file, "use tiny__run it"]].concat()).await;
        assert_eq!(said.code, 0, "{file}: {said:?}");
    }
    let (starts, asked) = (tiny.starts(), model.asked().len());
    std::fs::remove_file(dir.user_config()).unwrap();
    for file in ["allowed.json", "denied.json", "deferred.json"] {
        let said = dir.run(&["replay", file]).await;
        assert!(
            said.code == 0 && said.out.contains("the replay is equal to the recording"),
            "{file}: {said:?}"
        );
    }
    assert_eq!((tiny.starts(), model.asked().len()), (starts, asked));
}
