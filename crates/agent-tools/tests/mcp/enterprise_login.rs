//! Logging in with the word of a company's identity provider.

use std::sync::Arc;

use agent_tools::mcp::oauth::{IdentityProvider, IdentityToken, OAuth, OAuthStore};
use agent_tools::mcp::{McpClient, McpError, McpServer};
use serde_json::json;

use crate::oauth::Kept;
use crate::support::http_server::{HttpServer, Login, Seen};
use crate::support::identity_provider::{ID_TOKEN, IDP_SECRET, SERVER_SECRET, field};
use crate::support::server::TestServer;
use crate::support::{call, connect, text};

async fn server() -> HttpServer {
    let seen = Seen { wanted: Some("Bearer tok-0123456789"), login: Login::Yes, ..Seen::default() };
    HttpServer::start_at("127.0.0.1:0".parse().unwrap(), seen, TestServer::new(None)).await
}

/// The login of a user with this token, or without one for this reason.
fn login(server: &HttpServer, token: Result<IdentityToken, &'static str>) -> OAuth {
    let idp = format!("http://{}/idp", server.address);
    let endpoint = format!("{idp}/token");
    let user = Arc::new(move || {
        let token = token.clone().map_err(str::to_owned);
        Box::pin(async move { token }) as _
    });
    let provider = IdentityProvider::new(idp, endpoint, "app", user).with_client_secret(IDP_SECRET);
    OAuth::for_enterprise("app-here", Some(SERVER_SECRET.into()), provider)
}

/// What was asked at this path.
fn asked(server: &HttpServer, path: &str) -> Vec<String> {
    let asked = server.seen.asked.lock().unwrap();
    asked.iter().filter(|(of, _)| of == path).map(|(_, body)| body.clone()).collect()
}

#[tokio::test]
async fn the_companys_word_becomes_a_token_and_the_users_token_goes_to_the_company_alone() {
    for (token, kind) in [
        (IdentityToken::Id(ID_TOKEN.into()), "urn:ietf:params:oauth:token-type:id_token"),
        (IdentityToken::Refresh(ID_TOKEN.into()), "urn:ietf:params:oauth:token-type:refresh_token"),
    ] {
        let server = server().await;
        let spec =
            McpServer::http("wiki", server.url()).with_oauth(login(&server, Ok(token)).with_scopes(["read"]));
        assert!(!format!("{spec:?}").contains("0123456789"), "{spec:?}");
        let client = connect(spec).await;
        assert_eq!(text(call(&client, "echo", json!({"text": "in"})).await), "in");
        let [to_company] = <[String; 1]>::try_from(asked(&server, "/idp/token")).unwrap();
        let base = format!("http://{}", server.address);
        for (name, value) in [
            ("subject_token_type", kind),
            ("requested_token_type", "urn:ietf:params:oauth:token-type:id-jag"),
            ("audience", &base),
            ("resource", &server.url()),
            ("scope", "read"),
        ] {
            assert_eq!(field(&to_company, name).as_deref(), Some(value), "{name} in {to_company}");
        }
        let [to_server] = <[String; 1]>::try_from(asked(&server, "/token")).unwrap();
        assert!(!to_server.contains(ID_TOKEN), "{to_server}");
        for page in ["/authorize", "/register"] {
            assert_eq!(asked(&server, page).len(), 0, "{page}");
        }
    }
}

#[track_caller]
fn check_refused(error: &McpError, expected: &str) {
    assert!(matches!(error, McpError::Login { .. }), "{error:?}");
    let shown = format!("{error} {error:?}");
    assert!(error.to_string().contains(expected) && !shown.contains("0123456789"), "{shown}");
}

#[tokio::test]
async fn a_user_whom_the_company_does_not_vouch_for_gets_no_token() {
    let server = server().await;
    let connect = async |login: OAuth| {
        McpClient::connect(McpServer::http("wiki", server.url()).with_oauth(login)).await.unwrap_err()
    };
    let stranger = login(&server, Ok(IdentityToken::Id("stranger-0123456789".into())));
    check_refused(&connect(stranger).await, "IdentityProvider: invalid_grant");
    check_refused(&connect(login(&server, Err("nobody is logged in"))).await, "nobody is logged in");
    let token = || Ok(IdentityToken::Id(ID_TOKEN.into()));
    let program = login(&server, token()).with_client("app-here", Some("wrong-0123456789".into()));
    check_refused(&connect(program).await, "ResourceAuthorizationServer returned HTTP 400: invalid_client");
    assert_eq!(asked(&server, "/token").len(), 1, "only the last had the company's word");
}

#[tokio::test]
async fn a_token_is_kept_and_one_that_is_no_longer_taken_is_exchanged_anew() {
    let server = server().await;
    let kept = Arc::new(Kept::default());
    let connected = async || {
        let store: Arc<dyn OAuthStore> = kept.clone();
        let login = login(&server, Ok(IdentityToken::Id(ID_TOKEN.into()))).with_store(store);
        let client = connect(McpServer::http("wiki", server.url()).with_oauth(login)).await;
        assert_eq!(text(call(&client, "echo", json!({"text": "in"})).await), "in");
        asked(&server, "/idp/token").len()
    };
    assert_eq!(connected().await, 1);
    assert_eq!(connected().await, 1, "the token was kept");
    let spoiled = kept.0.lock().unwrap().take().unwrap().expose().replace("tok-0123456789", "old-0123456789");
    *kept.0.lock().unwrap() = Some(spoiled.into());
    assert_eq!(connected().await, 2);
}
