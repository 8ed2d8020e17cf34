//! The file that names servers.

use agent_tools::mcp::{McpConfig, McpConfigError, McpServer, McpServers, McpTransport, StartPolicy};
use serde_json::json;

use crate::support::{call, text};

fn none(_: &str) -> Option<String> {
    None
}

#[track_caller]
fn check_problem(entry: &serde_json::Value, expected: &str) {
    let file = json!({"mcpServers": {"a": entry, "good": {"command": "x"}}});
    let config = McpConfig::parse(&file.to_string(), none).unwrap();
    let problems: Vec<String> = config.problems().iter().map(ToString::to_string).collect();
    assert_eq!(problems, [expected]);
    assert_eq!(config.servers().len(), 1, "the others are used");
}

/// Many vendors have the key in the path or the query of the address.
#[tokio::test]
async fn a_secret_in_the_address_of_a_server_is_in_no_error_and_no_debug_output() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    // Each connection is closed without an answer.
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let file =
        json!({"mcpServers": {"a": {"url": format!("http://127.0.0.1:{port}/${{TOKEN}}/mcp?key=${{KEY}}")}}});
    let read = |name: &str| Some(format!("secret-of-{}", name.to_lowercase()));
    let config = McpConfig::parse(&file.to_string(), read).unwrap();
    let shown = format!("{:?}", config.servers());
    let servers = McpServers::start(config.into_servers(), StartPolicy::Report).await.unwrap();
    let error = servers.reports()[0].outcome.as_ref().unwrap_err();
    for text in [shown, error.to_string(), format!("{error:?}")] {
        assert!(!text.contains("secret-of"), "{text}");
    }
}

#[test]
fn what_is_wrong_with_a_server_is_said_and_leaves_the_others_alone() {
    check_problem(&json!("npx"), "server `a`, its entry: it is not an object");
    check_problem(&json!({}), "server `a`, its entry: there is neither a `command` nor a `url`");
    check_problem(&json!({"command": ""}), "server `a`, command: it is empty");
    check_problem(&json!({"command": 1.5, "args": "x"}), "server `a`, args: it is not a list of strings");
    check_problem(&json!({"command": "x", "args": [["y"]]}), "server `a`, args[0]: it is not a string");
    check_problem(&json!({"command": "x", "env": []}), "server `a`, env: it is not an object of strings");
    check_problem(&json!({"type": "http"}), "server `a`, url: it is missing");
    check_problem(&json!({"url": "ftp://x"}), "server `a`, url: it does not begin with http:// or https://");
    check_problem(&json!({"type": "grpc"}), "server `a`, type: `grpc` is neither `stdio` nor `http`");
    check_problem(
        &json!({"command": "x", "url": "http://y"}),
        "server `a`, type: there is a `command` and a `url`; say which it is",
    );
    check_problem(
        &json!({"command": "x", "startup_timeout": "1m"}),
        "server `a`, startup_timeout: it is not a number of milliseconds above 0",
    );
    check_problem(
        &json!({"command": "x", "timeout": 0}),
        "server `a`, timeout: it is not a number of milliseconds above 0",
    );
    check_problem(
        &json!({"command": "x", "deferred": "yes"}),
        "server `a`, deferred: it is neither `true` nor `false`",
    );
    check_problem(&json!({"command": "x", "tools": "y"}), "server `a`, tools: it is not a list of strings");
    check_problem(&json!({"command": "x", "tools": [1]}), "server `a`, tools: it is not a list of strings");
    check_problem(
        &json!({"command": "x", "env": {"K": "${GONE}"}}),
        "server `a`, env.K: the variable GONE is not set; set it or write ${GONE:-default}",
    );
    check_problem(&json!({"command": "${X"}), "server `a`, command: a `${` has no `}`");
    check_problem(
        &json!({"command": "${a b}"}),
        "server `a`, command: `a b` in `${…}` is not the name of a variable",
    );
    check_problem(
        &json!({"type": "sse", "url": "http://y"}),
        "server `a`, type: the old transport `sse` is not spoken; most servers also have streamable HTTP, often at \
         the path /mcp: use `\"type\": \"http\"` with that address",
    );
}

#[test]
fn relative_paths_can_begin_at_a_folder() {
    let file = json!({"mcpServers": {
        "a": {"command": "./bin/x", "cwd": "sub"},
        "b": {"command": "x", "cwd": "project"},
        "bb": {"command": "x"},
        "c": {"command": "/bin/x", "cwd": "/c"},
        "d": {"command": "x", "sandbox": "landlock"},
        "e": {"url": "http://e"},
    }});
    let config = McpConfig::parse(&file.to_string(), none).unwrap().relative_to("/srv");
    let debug: Vec<String> =
        config.servers().iter().map(|server| format!("{:?}", server.transport())).collect();
    for (text, expected) in debug.iter().zip([
        "command: \"/srv/./bin/x\", args: 0, env: [], inherited: [], folder: Some(\"/srv/sub\")",
        "command: \"x\", args: 0, env: [], inherited: [], folder: Some(\"/srv\")",
        // It starts in an empty folder.
        "command: \"x\", args: 0, env: [], inherited: [], folder: None",
        "command: \"/bin/x\", args: 0, env: [], inherited: [], folder: Some(\"/c\")",
        "command: \"x\", args: 0, env: [], inherited: [], folder: None",
        "url: \"http://e\"",
    ]) {
        assert!(text.contains(expected), "{text}");
    }
}

/// A word that is not known must not leave a server unheld.
#[test]
fn a_sandbox_that_is_not_understood_leaves_the_server_out() {
    #[track_caller]
    fn check(sandbox: &serde_json::Value, expected: &str) {
        check_problem(&json!({"command": "x", "sandbox": sandbox}), &format!("server `a`, {expected}"));
    }
    let kinds = "is not known; write `none`, `landlock` or `bwrap`";
    check(&json!("docker"), &format!("sandbox: `docker` {kinds}"));
    check(&json!({"kind": "best"}), &format!("sandbox.kind: `best` {kinds}"));
    check(&json!({"kind": true}), "sandbox.kind: it is not a string");
    check(&json!(true), "sandbox: it is neither a string nor an object");
    check(
        &json!({"writeRoot": ["/a"]}),
        "sandbox: `writeRoot` is not known; write `kind`, `readRoots`, `writeRoots`, `network`, `unixSockets`, `temp` or `systemRoots`",
    );
    check(&json!({"network": "on"}), "sandbox.network: `on` is not known; write `off`, `no-tcp` or `open`");
    check(&json!({"temp": "/tmp"}), "sandbox.temp: `/tmp` is not known; write `private`, `shared` or `none`");
    check(&json!({"systemRoots": "no"}), "sandbox.systemRoots: it is neither true nor false");
    check(&json!({"readRoots": "/a"}), "sandbox.readRoots: it is not a list of paths");
    check(&json!({"readRoots": ["/a", 1]}), "sandbox.readRoots[1]: it is not a string");
    check(&json!({"writeRoots": ["a"]}), "sandbox.writeRoots[0]: it is not an absolute path");
    check(
        &json!({"readRoots": ["${GONE}/a"]}),
        "sandbox.readRoots[0]: the variable GONE is not set; set it or write ${GONE:-default}",
    );
    check(&json!({"kind": "none", "network": "open"}), "sandbox.network: the kind `none` keeps no rules");
    check_problem(
        &json!({"url": "https://example.com/mcp", "sandbox": "bwrap"}),
        "server `a`, sandbox: a server over HTTP is no child and cannot be held; take the key away",
    );
}

#[test]
fn a_sandbox_that_is_not_known_is_an_error_of_its_own() {
    let text = r#"{"mcpServers": {"a": {"command": "x", "sandbox": "docker"}}}"#;
    let config = McpConfig::parse(text, none).unwrap();
    assert!(matches!(&config.problems()[0], McpConfigError::Unknown { value, .. } if value == "docker"));
}

#[test]
fn a_text_that_is_no_such_file_is_an_error() {
    assert!(matches!(McpConfig::parse("{", none), Err(McpConfigError::Json(_))));
    for text in ["[]", "{}", r#"{"mcpServers": []}"#] {
        assert!(matches!(McpConfig::parse(text, none), Err(McpConfigError::NoServers)), "{text}");
    }
}

#[test]
fn order_switches_and_unknown_keys_are_as_other_agents_have_them() {
    let text = "\u{feff}{\"inputs\": [], \"mcpServers\": {
        \"z\": {\"command\": \"z\", \"autoApprove\": [\"x\"]},
        \"off\": {\"command\": \"no\", \"disabled\": true},
        \"a\": {\"type\": \"streamable-http\", \"url\": \"https://example.com/mcp\"}}}";
    let config = McpConfig::parse(text, none).unwrap();
    let names: Vec<&str> = config.servers().iter().map(McpServer::name).collect();
    assert_eq!(names, ["z", "a"]);
    assert!(matches!(config.servers()[1].transport(), McpTransport::Http(_)));
}

/// Variables cannot break out of their place: what they hold is never read as JSON, nor looked through again.
#[tokio::test]
async fn variables_are_put_in_as_they_are() {
    let evil = r#"a", "x": "${NAME} "#;
    let file = json!({"mcpServers": {"t": {
        "command": "${EXE}",
        "args": ["support::server::process", "${UNSET:---exact}", "--nocapture"],
        "env": {
            "LOOPTREE_TEST_MCP_MODE": "${EMPTY:-sdk}", "VALUE": "<${EVIL}>", "NUMBER": 5, "DOLLAR": "$HOME $$",
            "NONE": "${EMPTY}",
        },
    }}});
    let config = McpConfig::parse(&file.to_string(), |name| match name {
        "EXE" => Some(std::env::current_exe().unwrap().to_str().unwrap().to_owned()),
        "EVIL" => Some(evil.to_owned()),
        "EMPTY" => Some(String::new()),
        "NAME" => panic!("it was looked through again"),
        _ => None,
    })
    .unwrap();
    assert_eq!(config.problems().len(), 0, "{:?}", config.problems());
    let servers = McpServers::start(config.into_servers(), StartPolicy::Fail).await.unwrap();
    let client = servers.clients().next().unwrap();
    let seen = text(call(client, "env", json!({})).await);
    for line in
        [format!("VALUE=<{evil}>"), "NUMBER=5".to_owned(), "DOLLAR=$HOME $$".to_owned(), "NONE=".to_owned()]
    {
        assert!(seen.lines().any(|seen| seen == line), "{line} in {seen}");
    }
}
