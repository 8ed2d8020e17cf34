//! `looptree mcp`, driven by the client side of rmcp over standard input and output and over HTTP.

use std::process::Stdio;
use std::sync::{Arc, Mutex};

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ElicitRequestParams,
    ElicitResult, ElicitationAction, Implementation, ProgressNotificationParam,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, ServiceExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Child;

use super::model::Model;
use super::{HANG, Project};

const TOKEN: &str = "a-token-of-the-test";

/// The client: how it answers questions, and what it saw.
#[derive(Clone)]
struct Editor {
    /// The content of the answer to each question; `None` for a client without questions.
    answer: Option<Value>,
    asked: Arc<Mutex<Vec<String>>>,
    progress: Arc<Mutex<Vec<String>>>,
}

impl Editor {
    fn new(answer: Option<Value>) -> Self {
        Self { answer, asked: Arc::default(), progress: Arc::default() }
    }
}

impl ClientHandler for Editor {
    fn get_info(&self) -> ClientConfig {
        let capabilities = match &self.answer {
            Some(_) => ClientCapabilities::builder().enable_elicitation().build(),
            None => ClientCapabilities::default(),
        };
        ClientConfig::new(capabilities, Implementation::new("test", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, rmcp::ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else { panic!("no form") };
        self.asked.lock().unwrap().push(message);
        let content = self.answer.clone().unwrap();
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.progress.lock().unwrap().push(params.message.unwrap_or_default());
    }
}

type Running = RunningService<RoleClient, Editor>;

/// Starts the program on pipes.
async fn over_pipes(project: &Project, words: &[String], client: Editor) -> (Running, Child) {
    let mut command = project.command();
    command.arg("mcp").args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().unwrap();
    let pipes = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    (client.serve(pipes).await.unwrap(), child)
}

/// Starts the program on a free port. Returns its address.
async fn over_http(project: &Project, words: &[String]) -> (String, Child) {
    let mut command = project.command();
    command.args(["mcp", "--http=127.0.0.1:0"]).args(words).env("LOOPTREE_MCP_TOKEN", TOKEN);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = tokio::time::timeout(HANG, lines.next_line()).await.unwrap().unwrap().unwrap();
    let url = line.strip_prefix("listening on ").unwrap().to_owned();
    // The program must be able to write for as long as it runs.
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            assert!(!line.contains(TOKEN), "{line}");
        }
    });
    (url, child)
}

async fn call(client: &Running, tool: &'static str, arguments: Value) -> CallToolResult {
    let request = CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone());
    tokio::time::timeout(HANG, client.call_tool(request)).await.expect("it hangs").unwrap()
}

fn report(result: &CallToolResult) -> Value {
    result.structured_content.clone().unwrap_or_else(|| panic!("{result:?}"))
}

fn text(result: &CallToolResult) -> String {
    result.content.iter().filter_map(|content| content.as_text()).map(|text| text.text.clone()).collect()
}

/// Ends the client, and then the program by itself.
async fn end(client: Running, mut child: Child) {
    client.cancel().await.unwrap();
    let status = tokio::time::timeout(HANG, child.wait()).await.expect("it does not end").unwrap();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn a_task_and_its_continuation_return_structured_results_with_progress() {
    let (project, model) = (Project::new(), Model::start().await);
    let editor = Editor::new(None);
    let (client, child) = over_pipes(&project, &model.words(), editor.clone()).await;
    let tools = client.list_all_tools().await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(names, ["run", "continue", "answer"]);
    assert!(tools.iter().all(|tool| tool.output_schema.is_some()));
    let first = call(&client, "run", json!({"task": "say sunny"})).await;
    assert_eq!(text(&first), "It is sunny.");
    let first = report(&first);
    assert_eq!(*editor.progress.lock().unwrap(), ["turn 1"]);
    assert_eq!(
        (&first["status"], &first["answer"], &first["stop_reason"]),
        (&json!("completed"), &json!("It is sunny."), &json!("completed"))
    );
    assert_eq!(first["usage"], json!({"input": 1200, "output": 34}));
    let more = json!({"session_id": first["session_id"], "message": "say cold"});
    assert_eq!(report(&call(&client, "continue", more).await)["usage"]["output"], 68);
    assert_eq!(model.asked().last().unwrap(), "user(say sunny) assistant(It is sunny.) user(say cold)");
    // The beginning of the id is enough, as on the command line.
    let start = &first["session_id"].as_str().unwrap()[..8];
    let more = json!({"session_id": start, "message": "say mild"});
    let continued = report(&call(&client, "continue", more).await);
    assert_eq!(
        (&continued["session_id"], &continued["answer"]),
        (&first["session_id"], &json!("It is mild."))
    );
    let lost = call(&client, "continue", json!({"session_id": "none", "message": "x"})).await;
    assert!(lost.is_error == Some(true) && text(&lost).contains("no session"), "{lost:?}");
    end(client, child).await;

    // Another process continues the session.
    let (client, child) = over_pipes(&project, &model.words(), editor).await;
    let more = json!({"session_id": start, "message": "say warm"});
    assert_eq!(report(&call(&client, "continue", more).await)["answer"], "It is warm.");
    end(client, child).await;
    assert_eq!(project.session_ids().len(), 1);
}

#[tokio::test]
async fn a_client_without_questions_answers_by_the_tool() {
    let (project, model) = (Project::new(), Model::start().await);
    let (client, child) = over_pipes(&project, &model.words(), Editor::new(None)).await;
    let waiting = report(&call(&client, "run", json!({"task": "run it"})).await);
    assert_eq!(waiting["status"], "waiting");
    let question = &waiting["question"];
    assert_eq!(
        (&question["tool"], &question["arguments"]["command"]),
        (&json!("bash"), &json!("echo ran >> ran.txt"))
    );
    let answer = |decision: &str, id: &Value| json!({"session_id": waiting["session_id"], "question_id": id, "decision": decision, "reason": "too early"});
    let wrong = call(&client, "answer", answer("allow", &json!("other"))).await;
    assert!(wrong.is_error == Some(true) && text(&wrong).contains("does not wait"), "{wrong:?}");
    assert!(!project.path().join("ran.txt").exists());
    let denied = report(&call(&client, "answer", answer("deny", &question["id"])).await);
    assert!(denied["answer"].as_str().unwrap().contains("too early"), "{denied}");
    assert!(!project.path().join("ran.txt").exists());
    let again = call(&client, "answer", answer("allow", &question["id"])).await;
    assert!(text(&again).contains("waits for no answer"), "{again:?}");
    end(client, child).await;
}

#[tokio::test]
async fn a_question_outlives_the_server_and_always_holds_for_its_session() {
    let (project, model) = (Project::new(), Model::start().await);
    let (client, child) = over_pipes(&project, &model.words(), Editor::new(None)).await;
    let waiting = report(&call(&client, "run", json!({"task": "write one"})).await);
    end(client, child).await;
    let (client, child) = over_pipes(&project, &model.words(), Editor::new(None)).await;
    let early = json!({"session_id": waiting["session_id"], "message": "write two"});
    let refused = call(&client, "continue", early).await;
    assert!(text(&refused).contains("the message was not sent"), "{refused:?}");
    let answer = json!({
        "session_id": waiting["session_id"], "question_id": waiting["question"]["id"], "decision": "always",
    });
    assert_eq!(report(&call(&client, "answer", answer).await)["answer"], "I wrote one.");
    let more = json!({"session_id": waiting["session_id"], "message": "write two"});
    assert_eq!(report(&call(&client, "continue", more).await)["status"], "completed");
    assert_eq!(std::fs::read_to_string(project.path().join("notes.txt")).unwrap(), "two\n");
    end(client, child).await;
}

#[tokio::test]
async fn a_client_with_forms_is_asked_for_each_call() {
    let (project, model) = (Project::new(), Model::start().await);
    let editor = Editor::new(Some(json!({"decision": "allow"})));
    let (client, child) = over_pipes(&project, &model.words(), editor.clone()).await;
    let done = report(&call(&client, "run", json!({"task": "run it"})).await);
    assert_eq!(done["answer"], "It ran.");
    let asked = editor.asked.lock().unwrap().clone();
    assert!(asked.len() == 1 && asked[0].contains("echo ran >> ran.txt"), "{asked:?}");
    assert!(project.path().join("ran.txt").exists());
    end(client, child).await;

    let refusing = Editor::new(Some(json!({"decision": "nonsense"})));
    let (client, child) = over_pipes(&project, &model.words(), refusing).await;
    let denied = report(&call(&client, "run", json!({"task": "write it"})).await);
    assert_eq!(denied["status"], "completed");
    assert!(!project.path().join("notes.txt").exists());
    end(client, child).await;
}

#[tokio::test]
async fn a_directory_outside_of_the_server_is_refused() {
    let (project, model) = (Project::new(), Model::start().await);
    std::fs::create_dir(project.path().join("inner")).unwrap();
    std::os::unix::fs::symlink(project.home(), project.path().join("link")).unwrap();
    let (client, child) = over_pipes(&project, &model.words(), Editor::new(None)).await;
    for outside in ["..", "/", "link"] {
        let refused = call(&client, "run", json!({"task": "say no", "cwd": outside})).await;
        assert!(
            refused.is_error == Some(true) && text(&refused).contains("inside of"),
            "{outside}: {refused:?}"
        );
    }
    assert_eq!(model.asked(), Vec::<String>::new());
    let inner = report(&call(&client, "run", json!({"task": "say sunny", "cwd": "inner"})).await);
    assert_eq!(inner["status"], "completed");
    end(client, child).await;
}

#[tokio::test]
async fn over_http_only_a_client_with_the_token_and_a_local_name_is_served() {
    let (project, model) = (Project::new(), Model::start().await);
    let (url, mut child) = over_http(&project, &model.words()).await;
    let http = reqwest::Client::new();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let post = |headers: &[(&str, &str)]| {
        let mut request = http.post(&url).body(body.clone()).header("content-type", "application/json");
        request = request.header("accept", "application/json, text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        async move { request.send().await.unwrap().status().as_u16() }
    };
    let right = format!("Bearer {TOKEN}");
    assert_eq!(post(&[]).await, 401);
    assert_eq!(post(&[("authorization", "Bearer wrong")]).await, 401);
    assert_eq!(post(&[("authorization", &right), ("host", "evil.example")]).await, 403);
    assert_eq!(post(&[("authorization", &right), ("origin", "http://evil.example")]).await, 403);
    assert_eq!(post(&[("authorization", &right), ("origin", "http://localhost:1")]).await, 403);

    let config = StreamableHttpClientTransportConfig::with_uri(url.clone()).auth_header(TOKEN);
    let editor = Editor::new(Some(json!({"decision": "allow"})));
    let client = editor.clone().serve(StreamableHttpClientTransport::from_config(config)).await.unwrap();
    let done = report(&call(&client, "run", json!({"task": "run it"})).await);
    assert_eq!(done["answer"], "It ran.");
    assert_eq!(editor.asked.lock().unwrap().len(), 1);
    client.cancel().await.unwrap();
    child.start_kill().unwrap();
}

#[tokio::test]
async fn over_http_connections_without_the_token_keep_no_client_out() {
    use tokio::io::AsyncWriteExt as _;
    let (project, model) = (Project::new(), Model::start().await);
    let (url, mut child) = over_http(&project, &model.words()).await;
    let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
    let mut held = Vec::new();
    for n in 0..200 {
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        let head = if n % 2 == 0 { "POST /mcp HT" } else { "POST /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n" };
        stream.write_all(head.as_bytes()).await.unwrap();
        held.push(stream);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url.clone()).auth_header(TOKEN);
    let editor = Editor::new(Some(json!({"decision": "allow"})));
    let client = editor.clone().serve(StreamableHttpClientTransport::from_config(config)).await.unwrap();
    let done = report(&call(&client, "run", json!({"task": "run it"})).await);
    assert_eq!(done["answer"], "It ran.");
    client.cancel().await.unwrap();

    // Sessions are bounded, too.
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "greedy", "version": "1"}}});
    let post = |session: Option<String>| {
        let request = reqwest::Client::new().post(&url).bearer_auth(TOKEN).body(begin.to_string());
        let request = request.header("accept", "application/json, text/event-stream");
        let request = request.header("content-type", "application/json");
        session.into_iter().fold(request, |request, id| request.header("mcp-session-id", id)).send()
    };
    let mut sessions = Vec::new();
    for _ in 0..80 {
        let answer = post(None).await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        sessions.push(answer.headers()["mcp-session-id"].to_str().unwrap().to_owned());
        // Read to its end, so that the session is idle.
        answer.text().await.unwrap();
    }
    // The sessions that were idle for the longest time have ended.
    for (n, is_open) in [(0, false), (15, false), (16, true), (79, true)] {
        let answer = post(Some(sessions[n].clone())).await.unwrap();
        assert_eq!(answer.status().as_u16() != 404, is_open, "{n}: {}", answer.status());
    }
    drop(held);
    child.start_kill().unwrap();
}

#[tokio::test]
async fn a_cancelled_call_ends_its_command() {
    let (project, model) = (Project::new(), Model::start().await);
    let mut words = model.words();
    words.push("--yes".to_owned());
    let (client, child) = over_pipes(&project, &words, Editor::new(None)).await;
    let arguments = json!({"task": "exec echo $$ > pid.txt; exec sleep 600"}).as_object().unwrap().clone();
    let request = CallToolRequestParams::new("run").with_arguments(arguments);
    let request = rmcp::model::ClientRequest::CallToolRequest(rmcp::model::Request::new(request));
    let options = rmcp::service::PeerRequestOptions::no_options();
    let running = client.send_cancellable_request(request, options).await.unwrap();
    let file = project.path().join("pid.txt");
    let pid = loop {
        match std::fs::read_to_string(&file).ok().and_then(|pid| pid.trim().parse().ok()) {
            Some(pid) => break pid,
            None => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
        }
    };
    running.cancel(Some("enough".to_owned())).await.unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    let gone = async {
        while rustix::process::test_kill_process(pid).is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(HANG, gone).await.expect("the command outlives its call");
    end(client, child).await;
}

/// A request in the form of version 2026-07-28, in which each carries the facts about the client.
fn stateless(id: u32, method: &str, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string() + "\n"
}

#[tokio::test]
async fn where_a_server_cannot_ask_the_result_requires_the_answer_and_binds_it_to_the_call() {
    let (project, model) = (Project::new(), Model::start().await);
    let mut command = project.command();
    command.arg("mcp").args(model.words()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut request = async |id: u32, method: &str, params: Value| -> Value {
        input.write_all(stateless(id, method, params).as_bytes()).await.unwrap();
        loop {
            let line =
                tokio::time::timeout(HANG, lines.next_line()).await.expect("no answer").unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message["result"].clone();
            }
        }
    };
    request(1, "server/discover", json!({})).await;
    let call = json!({"name": "run", "arguments": {"task": "run it"}});
    let asked = request(2, "tools/call", call.clone()).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let form = &asked["inputRequests"]["decision"]["params"];
    assert!(form["message"].as_str().unwrap().contains("echo ran >> ran.txt"), "{form}");
    let answered = |state: &Value, content: Value| {
        let mut call = call.clone();
        call["requestState"] = state.clone();
        call["inputResponses"] = json!({"decision": {"action": "accept", "content": content}});
        call
    };
    // A state about another call, or one that this server never wrote.
    let mut other: Value = serde_json::from_str(asked["requestState"].as_str().unwrap()).unwrap();
    let id = other["question_id"].as_str().unwrap().split('.').next().unwrap().to_owned();
    other["question_id"] = json!(format!("{id}.000000000000"));
    let refused =
        request(3, "tools/call", answered(&json!(other.to_string()), json!({"decision": "allow"}))).await;
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(!project.path().join("ran.txt").exists());
    let done = request(4, "tools/call", answered(&asked["requestState"], json!({"decision": "allow"}))).await;
    assert_eq!(done["structuredContent"]["answer"], "It ran.", "{done}");
    assert!(project.path().join("ran.txt").exists());
    // What was answered cannot be answered again.
    let again =
        request(5, "tools/call", answered(&asked["requestState"], json!({"decision": "allow"}))).await;
    assert_eq!(again["isError"], true, "{again}");
}

/// Broken JSON is answered, before and after the introduction, and the next line is read.
#[tokio::test]
async fn an_unreadable_line_is_answered_with_a_parse_error_and_does_not_end_the_server() {
    let (project, model) = (Project::new(), Model::start().await);
    let mut command = project.command();
    command.arg("mcp").args(model.words()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut answer = async || -> Value {
        let line = tokio::time::timeout(HANG, lines.next_line()).await.expect("no answer").unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    };
    let deep = "[".repeat(200) + &"]".repeat(200);
    let broken: [&[u8]; 7] = [
        b"{\"jsonrpc\": \"2.0\", \"id\": 1",
        b"hello",
        b"\xff\xfe",
        b"{}}",
        b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"\xff\"}",
        b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"\\ud800\"}",
        deep.as_bytes(),
    ];
    for line in broken {
        input.write_all(line).await.unwrap();
        input.write_all(b"\n\n").await.unwrap();
        let error = answer().await;
        assert_eq!((&error["error"]["code"], &error["id"]), (&json!(-32700), &Value::Null), "{error}");
    }
    input.write_all(stateless(1, "server/discover", json!({})).as_bytes()).await.unwrap();
    assert_eq!(answer().await["id"], 1);
    // A line above the limit is skipped, and the next one is read.
    for _ in 0..20 {
        input.write_all(&vec![b'x'; 1 << 20]).await.unwrap();
    }
    input.write_all(b"\n").await.unwrap();
    assert_eq!(answer().await["error"]["code"], -32700);
    input.write_all(b"[1, 2\n").await.unwrap();
    assert_eq!(answer().await["error"]["code"], -32700);
    input.write_all(stateless(2, "tools/list", json!({})).as_bytes()).await.unwrap();
    let tools = answer().await;
    assert_eq!(
        (&tools["id"], tools["result"]["tools"].as_array().map(Vec::len)),
        (&json!(2), Some(3)),
        "{tools}"
    );
    // The last line is answered before the program ends.
    input.write_all(b"{").await.unwrap();
    drop(input);
    assert_eq!(answer().await["error"]["code"], -32700);
    let status = tokio::time::timeout(HANG, child.wait()).await.expect("it does not end").unwrap();
    assert_eq!(status.code(), Some(0));
}
