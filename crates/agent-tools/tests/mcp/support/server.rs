//! The server, made with the SDK's side for servers, and the way in which this program becomes it.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ElicitRequest,
    ElicitRequestParams, ErrorData, InitializeResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ServerCapabilities, ServerConfig, ServerRequest, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, serve_server};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};

/// The variable that makes this program a server, and says which.
pub const MODE: &str = "LOOPTREE_TEST_MCP_MODE";

/// The variable with the folder that the server writes what it sees into.
pub const FOLDER: &str = "LOOPTREE_TEST_MCP_FOLDER";

/// A picture of one dot.
pub const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// With [`MODE`] set this is the server, which the other tests start as a process; the runner's lines before it are
/// junk to a client. Without, it shows that the server speaks the protocol, with no client of ours in between.
#[test]
#[expect(clippy::disallowed_methods, reason = "it is told by its environment what to be")]
fn process() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let Ok(mode) = std::env::var(MODE) else { return runtime.block_on(speaks()) };
    let folder = std::env::var_os(FOLDER).map(PathBuf::from);
    let code = runtime.block_on(run(&mode, folder));
    std::process::exit(code);
}

async fn speaks() {
    let mut server = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["support::server::process", "--exact", "--nocapture"])
        .env(MODE, "sdk")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut input = server.stdin.take().unwrap();
    let greeting = r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25",
        "capabilities":{},"clientInfo":{"name":"a test","version":"0"}}}"#;
    input.write_all(format!("{}\n", greeting.replace('\n', "")).as_bytes()).await.unwrap();
    let mut lines = tokio::io::BufReader::new(server.stdout.take().unwrap()).lines();
    let answer = loop {
        let line = lines.next_line().await.unwrap().unwrap();
        if let Ok(answer) = serde_json::from_str::<Value>(&line) {
            break answer;
        }
    };
    assert_eq!((&answer["id"], &answer["result"]["serverInfo"]["name"]), (&json!(7), &json!("test-server")));
    drop(input);
    assert!(server.wait().await.unwrap().success(), "it ends with its input");
}

async fn run(mode: &str, folder: Option<PathBuf>) -> i32 {
    let mut server = TestServer::new(folder);
    server.is_large = mode == "many";
    server.note("starts", std::process::id());
    match mode {
        "sdk" | "many" => {}
        "hang" => {
            eprintln!("loading the index, please wait");
            std::future::pending::<()>().await;
        }
        // Speaks when three of its kind have been started.
        "meet" => {
            let folder = server.folder.clone().unwrap();
            while super::lines(&folder, "starts").len() < 3 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        "deaf" => {
            // Also deaf to the end of its input and to a polite signal.
            let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
            tokio::spawn(async move { while term.recv().await.is_some() {} });
            std::future::pending::<()>().await;
        }
        "no_config" => {
            println!("usage: server FILE");
            eprintln!("error: no configuration, with the token {}", secret());
            return 3;
        }
        "junk" => {
            println!("Server listening...\n{{\"not\": \"a message\"}}\n[1, 2\n\u{1b}[32mready\u{1b}[0m");
        }
        "loud" => {
            let line = "a line of the log that goes on for a while and says little\n".repeat(64);
            for _ in 0..1024 {
                std::io::stderr().write_all(line.as_bytes()).unwrap();
            }
            eprintln!("the last line");
        }
        // No server: a program with keys in its environment, which uses one.
        "program" => {
            let client = super::connect(super::child("sdk")).await;
            println!("{}", super::text(super::call(&client, "env", json!({})).await));
            client.close().await;
            return 0;
        }
        raw => return super::raw::run(raw).await,
    }
    let stdio = (tokio::io::stdin(), tokio::io::stdout());
    let Ok(running) = serve_server(server.clone(), stdio).await else { return 4 };
    drop(running.waiting().await);
    server.note("ends", "end of input");
    0
}

#[expect(clippy::disallowed_methods, reason = "a server reads its token from its environment")]
fn secret() -> String {
    std::env::var("SERVICE_TOKEN").unwrap_or_default()
}

/// The server of the tests.
#[derive(Clone)]
pub struct TestServer {
    folder: Option<PathBuf>,
    /// Whether it has grown a tool.
    grown: Arc<AtomicBool>,
    /// Whether it has 300 tools more.
    is_large: bool,
}

impl TestServer {
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, grown: Arc::default(), is_large: false }
    }

    fn note(&self, file: &str, what: impl std::fmt::Display) {
        let Some(folder) = &self.folder else { return };
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(folder.join(file)).unwrap();
        file.write_all(format!("{what}\n").as_bytes()).unwrap();
    }

    /// Whether this is the first time that this is asked, over all processes of the server.
    fn is_first(&self, what: &str) -> bool {
        let folder = self.folder.as_ref().unwrap();
        std::fs::OpenOptions::new().create_new(true).write(true).open(folder.join(what)).is_ok()
    }

    fn tools(&self) -> Vec<Tool> {
        if self.is_large {
            return super::many::tools();
        }
        let text =
            json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
        let count = json!({"type": "object", "properties": {"steps": {"type": "integer"}, "ms": {"type": "integer"}}});
        let none = json!({"type": "object"});
        let odd = json!({"type": "object", "properties": {"filter[name]": {"type": "string"}}, "additionalProperties": false});
        let reads = ToolAnnotations::new().read_only(true);
        let repeats = ToolAnnotations::new().idempotent(true);
        let mut tools = vec![
            tool("echo", &text).with_annotations(reads.clone()),
            tool("slow", &count),
            tool("crash", &none),
            tool("crash_once_reading", &none).with_annotations(reads),
            tool("crash_once_setting", &none).with_annotations(repeats),
            tool("crash_once_writing", &none),
            tool("image", &none),
            tool("resource", &none),
            tool("structured", &none),
            tool("fail", &none),
            tool("refuse", &none),
            tool("env", &none),
            tool("grow", &none),
            tool("ask", &none),
            tool("visit", &none),
            tool("child", &none),
            tool("große.Datei/öffnen", &odd),
        ];
        if self.grown.load(Ordering::SeqCst) {
            tools.insert(1, tool("grown", &none));
        }
        tools
    }
}

fn tool(name: &'static str, schema: &Value) -> Tool {
    Tool::new(name, format!("Does {name}."), schema.as_object().unwrap().clone())
}

impl ServerHandler for TestServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        InitializeResult::new(capabilities)
            .with_server_info(rmcp::model::Implementation::new("test-server", "1.2.3"))
            .with_instructions("Be brief.")
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        const PAGE: usize = 7;
        let page_size = if self.is_large { 100 } else { PAGE };
        let cursor = request.and_then(|request| request.cursor);
        let start: usize = cursor.map_or(0, |cursor| cursor.trim_start_matches("after-").parse().unwrap());
        let all = self.tools();
        let mut page =
            ListToolsResult::with_all_items(all.iter().skip(start).take(page_size).cloned().collect());
        page.next_cursor = (start + page_size < all.len()).then(|| format!("after-{}", start + page_size));
        Ok(page)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        self.note("calls", &request.name);
        let result = match &*request.name {
            name if self.is_large => said(format!("{name} {arguments}")),
            "echo" => said(arguments["text"].as_str().unwrap_or("(none)")),
            "slow" => self.slow(&arguments, &context).await,
            "crash" => crash(),
            "crash_once_reading" | "crash_once_setting" | "crash_once_writing" => {
                if self.is_first(&request.name) {
                    crash();
                }
                said("this time it went well")
            }
            "image" => CallToolResult::success(vec![
                ContentBlock::text("one dot"),
                ContentBlock::image(PNG, "image/png"),
                ContentBlock::image("bm90IGEgcGljdHVyZQ==", "image/tiff"),
            ]),
            "resource" => serde_json::from_value(json!({"content": [
                {"type": "resource", "resource": {"uri": "note://1", "mimeType": "text/plain", "text": "remember"}},
                {"type": "resource", "resource": {"uri": "blob://2", "mimeType": "application/pdf", "blob": "JVBERg=="}},
                {"type": "resource", "resource": {"uri": "blob://3", "mimeType": "image/png", "blob": PNG}},
                {"type": "resource_link", "uri": "file:///a.md", "name": "a", "mimeType": "text/markdown", "description": "the plan"},
                {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
            ]}))
            .unwrap(),
            "structured" => serde_json::from_value(json!({
                "content": [], "structuredContent": {"temperature": 21.5, "unit": "C"}
            }))
            .unwrap(),
            "fail" => CallToolResult::error(vec![ContentBlock::text("the disk is full")]),
            "env" => said(environment()),
            "grow" => {
                self.grown.store(true, Ordering::SeqCst);
                context.peer.notify_tool_list_changed().await.unwrap();
                said("grown")
            }
            "ask" => {
                let asked: ElicitRequestParams = serde_json::from_value(json!({
                    "mode": "form",
                    "message": "Which branch?",
                    "requestedSchema": {"type": "object", "properties": {
                        "branch": {"type": "string", "default": "main"},
                        "depth": {"type": "integer", "minimum": 1, "default": 3},
                    }, "required": ["branch"]},
                }))
                .unwrap();
                asked_for(&context, asked).await
            }
            "visit" => {
                let asked: ElicitRequestParams = serde_json::from_value(json!({
                    "mode": "url", "message": "Sign in", "url": "https://example.com/sign-in",
                    "elicitationId": "e1",
                }))
                .unwrap();
                asked_for(&context, asked).await
            }
            "child" => {
                for group in ["", "setsid "] {
                    let script = format!("{group}sleep 300 & echo $!");
                    let mut shell = tokio::process::Command::new("sh")
                        .args(["-c", &script])
                        .stdout(Stdio::piped())
                        .spawn()
                        .unwrap();
                    let mut out = shell.stdout.take().unwrap();
                    let mut pid = String::new();
                    // Its child holds the pipe open, so there is no end to read to.
                    while !pid.ends_with('\n') {
                        pid.push(char::from(out.read_u8().await.unwrap()));
                    }
                    self.note("children", pid.trim());
                }
                said("started")
            }
            "große.Datei/öffnen" => said(format!("{} {arguments}", request.name)),
            "grown" => said("grown"),
            name => return Err(ErrorData::invalid_params(format!("{name} is refused"), Some(json!({"why": 1})))),
        };
        Ok(result.into())
    }
}

impl TestServer {
    async fn slow(&self, arguments: &Value, context: &RequestContext<RoleServer>) -> CallToolResult {
        let steps = arguments["steps"].as_u64().unwrap_or(4);
        let pause = Duration::from_millis(arguments["ms"].as_u64().unwrap_or(1));
        let token = context.meta.get_progress_token();
        for step in 1..=steps {
            tokio::select! {
                () = context.ct.cancelled() => {
                    self.note("cancelled", "slow");
                    return said("cancelled");
                }
                () = tokio::time::sleep(pause) => {}
            }
            if let Some(token) = &token {
                let note = ProgressNotificationParam::new(token.clone(), step as f64)
                    .with_total(steps as f64)
                    .with_message(format!("step {step}"));
                context.peer.notify_progress(note).await.unwrap();
            }
        }
        said("done")
    }
}

async fn asked_for(context: &RequestContext<RoleServer>, asked: ElicitRequestParams) -> CallToolResult {
    match context.peer.send_request(ServerRequest::ElicitRequest(ElicitRequest::new(asked))).await {
        Ok(answer) => said(serde_json::to_string(&answer).unwrap()),
        Err(error) => said(format!("error: {error}")),
    }
}

fn said(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

/// As a server whose memory is gone.
fn crash() -> ! {
    eprintln!("fatal: out of cheese, with the token {}", secret());
    std::process::exit(7)
}

/// All that this process sees.
#[expect(clippy::disallowed_methods, reason = "it is what the test asks for")]
fn environment() -> String {
    let all: Vec<String> = std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
    all.join("\n")
}
