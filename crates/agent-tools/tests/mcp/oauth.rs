//! Logging in.

use std::sync::{Arc, Mutex};

use agent_core::Secret;
use agent_tools::mcp::oauth::{OAuth, OAuthStore, OAuthVisit};
use agent_tools::mcp::{McpClient, McpError, McpServer};
use async_trait::async_trait;
use serde_json::json;

use crate::support::http_server::{HttpServer, Login, Seen};
use crate::support::server::TestServer;
use crate::support::{call, connect, text};

const TOKEN: &str = "Bearer tok-0123456789";

async fn server() -> HttpServer {
    let seen = Seen { wanted: Some(TOKEN), login: Login::Yes, ..Seen::default() };
    HttpServer::start_at("127.0.0.1:0".parse().unwrap(), seen, TestServer::new(None)).await
}

/// A user who logs in and gets this code, and the pages that were shown.
fn user(code: &'static str) -> (OAuthVisit, Arc<Mutex<Vec<String>>>) {
    let pages = Arc::new(Mutex::new(Vec::new()));
    let book = Arc::clone(&pages);
    let visit: OAuthVisit = Arc::new(move |page: String| {
        let state = part(&page, "state");
        book.lock().unwrap().push(page);
        Box::pin(async move { Ok(format!("http://127.0.0.1:1/callback?code={code}&state={state}")) })
    });
    (visit, pages)
}

/// A part of an address's query, as it stands there.
fn part(page: &str, name: &str) -> String {
    let query = page.split_once('?').unwrap().1;
    let found = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
    found.unwrap_or_else(|| panic!("no {name} in {page}")).to_owned()
}

fn paths(server: &HttpServer) -> Vec<String> {
    server.seen.asked.lock().unwrap().iter().map(|(path, _)| path.clone()).collect()
}

#[tokio::test]
async fn a_server_that_asks_for_a_login_gets_one_and_the_token_is_used() {
    let server = server().await;
    let (visit, pages) = user("the-code");
    let login = OAuth::new("http://127.0.0.1:1/callback", visit).with_client_name("A test");
    let client = connect(McpServer::http("guarded", server.url()).with_oauth(login)).await;
    assert_eq!(text(call(&client, "echo", json!({"text": "in"})).await), "in");
    let pages = pages.lock().unwrap();
    assert_eq!(pages.len(), 1, "one page for the user");
    assert_eq!(part(&pages[0], "client_id"), "given-id");
    assert_eq!(part(&pages[0], "code_challenge_method"), "S256");
    let asked = server.seen.asked.lock().unwrap();
    let body = |path: &str| asked.iter().find(|(of, _)| of == path).unwrap().1.clone();
    assert!(body("/register").contains("A test"), "{}", body("/register"));
    assert!(body("/token").contains("code_verifier="), "{}", body("/token"));
}

#[tokio::test]
async fn a_login_that_fails_is_an_error_and_shows_no_secret() {
    let server = server().await;
    let (visit, _) = user("another-code");
    let login = OAuth::new("http://127.0.0.1:1/callback", visit)
        .with_client("known-id", Some(Secret::new("client-secret-0123456789")));
    let spec = McpServer::http("guarded", server.url()).with_oauth(login);
    let error = McpClient::connect(spec.clone()).await.unwrap_err();
    assert!(matches!(error, McpError::Login { .. }), "{error:?}");
    assert!(!format!("{error} {error:?} {spec:?}").contains("0123456789"), "{error:?}");
    assert!(!paths(&server).contains(&"/register".to_owned()), "it was registered before");

    let nobody: OAuthVisit = Arc::new(|_| Box::pin(async { Err("nobody is here".to_owned()) }));
    let login = OAuth::new("http://127.0.0.1:1/callback", nobody);
    let spec = McpServer::http("guarded", server.url()).with_oauth(login);
    let error = McpClient::connect(spec).await.unwrap_err();
    assert_eq!(error.to_string(), "MCP login: server `guarded` cannot be logged in to: nobody is here");
}

#[tokio::test]
async fn a_program_with_an_account_logs_in_without_a_user() {
    let server = server().await;
    let login = OAuth::for_program("robot", "client-secret-0123456789");
    let client = connect(McpServer::http("guarded", server.url()).with_oauth(login)).await;
    assert_eq!(text(call(&client, "echo", json!({"text": "in"})).await), "in");
    assert!(!paths(&server).contains(&"/authorize".to_owned()));
}

/// A key that was made for this test and is used nowhere else.
#[cfg(feature = "mcp-oauth-jwt")]
const KEY: &str = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgOjRkgdjU0QTyOQL7Pzw7hrEdVc82DW3rVJe5N2v+akOhRANCAATfVN595V0QtiDEdIoyhW1xVEhn75wFR4mbfncZll1GmIdOxiX3xq1wLP8ihXv+3clHnVOWZfF3/fzaNjuwVaJ5";

#[cfg(feature = "mcp-oauth-jwt")]
#[tokio::test]
async fn a_program_with_a_key_signs_its_login_and_the_key_stays_here() {
    use agent_tools::mcp::oauth::SigningAlgorithm;

    let server = server().await;
    let words = ["BEGIN", "END"].map(|word| format!("-----{word} PRIVATE KEY-----"));
    let pem = format!("{}\n{KEY}\n{}\n", words[0], words[1]);
    let login = OAuth::for_program_with_key("robot", pem, SigningAlgorithm::Es256);
    assert!(!format!("{login:?}").contains(KEY));
    let client = connect(McpServer::http("guarded", server.url()).with_oauth(login)).await;
    assert_eq!(text(call(&client, "echo", json!({"text": "in"})).await), "in");
    {
        let asked = server.seen.asked.lock().unwrap();
        let (_, body) = asked.iter().find(|(path, _)| path == "/token").unwrap();
        let assertion = body.split('&').find_map(|pair| pair.strip_prefix("client_assertion=")).unwrap();
        assert_eq!(assertion.split('.').count(), 3, "a signed assertion: {body}");
        assert!(!asked.iter().any(|(_, body)| body.contains(KEY.get(..20).unwrap())));
    }

    let broken = OAuth::for_program_with_key("robot", "no key 0123456789", SigningAlgorithm::Es256);
    let error =
        McpClient::connect(McpServer::http("guarded", server.url()).with_oauth(broken)).await.unwrap_err();
    assert!(matches!(error, McpError::Login { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("0123456789"), "{error:?}");
}

#[derive(Default)]
struct Kept(Mutex<Option<Secret>>);

#[async_trait]
impl OAuthStore for Kept {
    async fn load(&self) -> Result<Option<Secret>, String> {
        Ok(self.0.lock().unwrap().clone())
    }

    async fn save(&self, credentials: Option<Secret>) -> Result<(), String> {
        *self.0.lock().unwrap() = credentials;
        Ok(())
    }
}

#[tokio::test]
async fn a_token_that_was_kept_needs_no_second_login() {
    let server = server().await;
    let kept = Arc::new(Kept::default());
    for _ in 0..2 {
        let (visit, pages) = user("the-code");
        let was_empty = kept.0.lock().unwrap().is_none();
        let store: Arc<dyn OAuthStore> = kept.clone();
        let login = OAuth::new("http://127.0.0.1:1/callback", visit).with_store(store);
        let client = connect(McpServer::http("guarded", server.url()).with_oauth(login)).await;
        assert_eq!(text(call(&client, "echo", json!({"text": "in"})).await), "in");
        assert_eq!(pages.lock().unwrap().len(), usize::from(was_empty));
    }
}
