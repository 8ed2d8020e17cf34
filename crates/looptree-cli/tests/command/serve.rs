//! `looptree serve`: the command, its keys, and an approval after it was killed.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;

use super::model::Model;
use super::{HANG, Project};

pub(crate) const KEY: &str = "the-key-of-the-client";

/// A server that runs.
pub(crate) struct Server {
    url: String,
    child: Child,
    pub(crate) printed: Vec<String>,
}

pub(crate) async fn serve(project: &Project, model: &Model, words: &[&str], key: Option<&str>) -> Server {
    let key = key.map(|key| ("LOOPTREE_SERVE_KEY", key));
    let words: Vec<String> =
        model.words().into_iter().chain(words.iter().map(|&word| word.to_owned())).collect();
    start(project, &words, key.as_slice()).await
}

/// Starts a server with the usual key, these variables, and the model of the user's file.
pub(crate) async fn serve_with(project: &Project, words: &[&str], variables: &[(&str, &str)]) -> Server {
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    start(project, &words, &[&[("LOOPTREE_SERVE_KEY", KEY)], variables].concat()).await
}

async fn start(project: &Project, words: &[String], variables: &[(&str, &str)]) -> Server {
    let mut command = project.command();
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(words);
    command.envs(variables.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut printed = Vec::new();
    let url = loop {
        let line = tokio::time::timeout(HANG, lines.next_line()).await.expect("it does not start").unwrap();
        let line = line.unwrap_or_else(|| panic!("it ended: {printed:?}"));
        if let Some(url) = line.strip_prefix("listening on ") {
            break url.to_owned();
        }
        printed.push(line);
    };
    // The pipe stays open, so that later lines can be written.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Server { url, child, printed }
}

impl Server {
    pub(crate) async fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request =
            reqwest::Client::new().request(method, format!("{}{path}", self.url)).bearer_auth(KEY);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or(Value::Null))
    }

    pub(crate) async fn wait_for(&self, path: &str, status: &str) {
        let waiting = async {
            while self.call("GET", path, None).await.1["status"] != status {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(HANG, waiting).await.expect("the status never comes");
    }
}

#[tokio::test]
async fn a_command_is_approved_after_the_server_was_killed_and_its_file_is_read() {
    let (project, model) = (Project::new(), Model::start().await);
    let mut server = serve(&project, &model, &[], Some(KEY)).await;
    let (status, created) = server.call("POST", "/v1/conversations", Some(json!({}))).await;
    assert_eq!((status, created["agent"].as_str()), (201, Some("looptree")), "{created}");
    let path = format!("/v1/conversations/{}", created["id"].as_str().unwrap());
    let (status, _) = server.call("POST", &format!("{path}/prompt"), Some(json!({"text": "run it"}))).await;
    assert_eq!(status, 202);
    server.wait_for(&path, "waiting").await;
    server.child.kill().await.unwrap();

    let server = serve(&project, &model, &[], Some(KEY)).await;
    let (_, list) = server.call("GET", "/v1/questions", None).await;
    let question = &list["questions"][0];
    assert!(question["call"]["view"].as_str().unwrap().contains("echo ran >> ran.txt"), "{question}");
    assert!(!project.path().join("ran.txt").exists());
    let id: String = question["id"].as_str().unwrap().bytes().map(|byte| format!("%{byte:02x}")).collect();
    let answer = json!({"answer": {"type": "allow"}, "hash": question["call"]["hash"]});
    let (status, started) = server.call("POST", &format!("{path}/questions/{id}"), Some(answer)).await;
    assert_eq!(status, 202, "{started}");
    server.wait_for(&path, "idle").await;
    let (_, messages) = server.call("GET", &format!("{path}/messages"), None).await;
    assert!(messages.to_string().contains("It ran."), "{messages}");
    let (_, files) = server.call("GET", &format!("{path}/files"), None).await;
    assert_eq!(files["entries"][0]["name"], "ran.txt");
}

#[tokio::test]
async fn what_a_key_has_spent_outlasts_its_conversations_and_the_server_and_is_no_session() {
    let (project, model) = (Project::new(), Model::start().await);
    let mut server = serve(&project, &model, &[], Some(KEY)).await;
    let chat = json!({"model": "looptree", "messages": [{"role": "user", "content": "say sunny"}]});
    let (status, answer) = server.call("POST", "/v1/chat/completions", Some(chat)).await;
    assert_eq!(status, 200, "{answer}");
    let (_, before) = server.call("GET", "/v1/usage", None).await;
    assert!(before["spent"]["tokens"].as_u64().unwrap() > 0, "{before}");
    server.child.kill().await.unwrap();

    let server = serve(&project, &model, &[], Some(KEY)).await;
    let (_, after) = server.call("GET", "/v1/usage", None).await;
    assert_eq!(after["spent"]["tokens"], before["spent"]["tokens"]);
    let listed = project.ask(&model, &["sessions"]).await;
    assert!(!listed.out.contains("serve-ledger"), "{}", listed.out);
}

#[tokio::test]
async fn conversations_have_folders_of_their_own_if_wanted() {
    let (project, model) = (Project::new(), Model::start().await);
    let server = serve(&project, &model, &["--workspaces", "spaces", "--yes"], Some(KEY)).await;
    let mut paths = Vec::new();
    for _ in 0..2 {
        let (_, created) = server.call("POST", "/v1/conversations", Some(json!({}))).await;
        let id = created["id"].as_str().unwrap().to_owned();
        let path = format!("/v1/conversations/{id}");
        server.call("POST", &format!("{path}/prompt"), Some(json!({"text": "run it"}))).await;
        server.wait_for(&path, "idle").await;
        paths.push(project.path().join("spaces").join(id));
    }
    for path in paths {
        assert_eq!(std::fs::read_to_string(path.join("ran.txt")).unwrap(), "ran\n");
    }
    assert!(!project.path().join("ran.txt").exists());
    let (status, _) = server.call("GET", "/v1/conversations/looptree-..%2f..%2fx/files", None).await;
    assert_eq!(status, 404);
    assert_eq!(std::fs::read_dir(project.path().join("spaces")).unwrap().count(), 2);
}

#[tokio::test]
async fn all_conversations_share_the_mcp_servers_of_the_settings() {
    let (project, tiny) = super::mcp_servers::with_server("stubborn");
    let model = Model::start().await;
    let mut server = serve(&project, &model, &["--workspaces", "spaces"], Some(KEY)).await;
    assert!(server.printed.iter().any(|line| line == "MCP servers: tiny"), "{:?}", server.printed);
    for calls in 1..=2 {
        let (_, created) = server.call("POST", "/v1/conversations", Some(json!({}))).await;
        let path = format!("/v1/conversations/{}", created["id"].as_str().unwrap());
        let task = json!({"text": "use tiny__run it"});
        server.call("POST", &format!("{path}/prompt"), Some(task)).await;
        server.wait_for(&path, "waiting").await;
        let (_, list) = server.call("GET", &format!("{path}/questions"), None).await;
        let question = &list["questions"][0];
        let id: String =
            question["id"].as_str().unwrap().bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = json!({"answer": {"type": "allow"}, "hash": question["call"]["hash"]});
        server.call("POST", &format!("{path}/questions/{id}"), Some(answer)).await;
        server.wait_for(&path, "idle").await;
        assert_eq!(tiny.calls(), calls);
    }
    let folders = tiny.folders();
    assert!(folders.len() == 1 && folders[0].contains("/looptree-mcp-"), "{folders:?}");
    let pid = rustix::process::Pid::from_raw(server.child.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let status = tokio::time::timeout(HANG, server.child.wait()).await.expect("it does not end").unwrap();
    assert_eq!((status.code(), tiny.runs()), (Some(0), false));
}

/// What a client wrote must not act with the permissions of the operator.
#[tokio::test]
async fn the_operator_does_not_continue_the_conversation_of_a_client_unasked() {
    let (project, model) = (Project::new(), Model::start().await);
    let own = project.ask(&model, &["-p", "say mine"]).await;
    assert_eq!(own.code, 0, "{own:?}");
    let server = serve(&project, &model, &[], Some(KEY)).await;
    let (_, created) = server.call("POST", "/v1/conversations", Some(json!({}))).await;
    let path = format!("/v1/conversations/{}", created["id"].as_str().unwrap());
    server.call("POST", &format!("{path}/prompt"), Some(json!({"text": "say theirs"}))).await;
    server.wait_for(&path, "idle").await;
    drop(server);
    let said = project.ask(&model, &["-p", "--continue", "say more"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let asked = model.asked().pop().unwrap();
    assert!(asked.contains("say mine") && !asked.contains("theirs"), "{asked}");
}

#[tokio::test]
async fn keys_come_from_a_private_file_or_the_environment_and_otherwise_one_is_printed() {
    use std::os::unix::fs::PermissionsExt as _;
    let (project, model) = (Project::new(), Model::start().await);
    let server = serve(&project, &model, &[], None).await;
    assert!(server.printed.iter().any(|line| line.starts_with("key: ")), "{:?}", server.printed);
    assert_eq!(server.call("GET", "/v1/models", None).await.0, 401);

    let file = project.home().join("keys.toml");
    // The hash of KEY.
    let text = format!("[[key]]\nname = \"client\"\nsha256 = \"{}\"\nbudget = \"1.00\"\n", sha256(KEY));
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let name = file.display().to_string();
    let words = ["serve", "--listen", "127.0.0.1:0", "--keys", &name];
    let refused = project.ask(&model, &words).await;
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("chmod 600"), "{}", refused.err);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let server = serve(&project, &model, &["--keys", &name], None).await;
    assert_eq!(server.call("GET", "/v1/usage", None).await.1["key"], "client");

    for (key, said) in [("short", "fewer than 16"), ("", "fewer than 16")] {
        let mut command = project.command();
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(model.words()).env("LOOPTREE_SERVE_KEY", key);
        let refused = super::finish(command, "").await;
        assert_eq!(refused.code, 2);
        assert!(refused.err.contains(said) && !refused.err.contains("short"), "{}", refused.err);
    }
}

fn sha256(text: &str) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
