//! A client for the official conformance suite of the Model Context Protocol.
//!
//! ```text
//! cargo xtask mcp-conformance
//! ```
//!
//! The suite starts a server for each scenario, passes its address as the last argument, and checks the requests of
//! this program, which lists the tools and calls each one. Logins are answered like a browser whose user always agrees.
#![allow(clippy::print_stderr, reason = "what a program is for")]

use std::process::ExitCode;
use std::sync::Arc;

use agent_core::Secret;
use agent_tools::mcp::oauth::{IdentityProvider, IdentityToken, OAuth, OAuthVisit, SigningAlgorithm};
use agent_tools::mcp::{McpClient, McpError, McpServer, accept_defaults};
use serde_json::{Value, json};

/// The address of the client metadata document that the suite expects.
const CLIENT_METADATA: &str = "https://conformance-test.local/client-metadata.json";

/// The address to which pages redirect the browser. No server listens there: only the address is needed.
const REDIRECT: &str = "http://localhost:3000/callback";

#[tokio::main]
async fn main() -> ExitCode {
    let Some(url) = std::env::args().next_back() else { return ExitCode::FAILURE };
    match run(&url).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(url: &str) -> Result<(), McpError> {
    let mut server = McpServer::http("conformance", url).with_elicitation(accept_defaults());
    if variable("MCP_CONFORMANCE_SCENARIO").is_some_and(|scenario| scenario.starts_with("auth/")) {
        server = server.with_oauth(login());
    }
    let client = McpClient::connect(server).await?;
    for tool in client.list_tools().await?.tools {
        let arguments = match tool.name.as_str() {
            "add_numbers" => json!({"a": 2, "b": 3}),
            _ => json!({}),
        };
        let result = client.call_tool(&tool.name, arguments).await?;
        eprintln!("{}: {}", tool.name, result.text());
    }
    client.close().await;
    Ok(())
}

/// Returns the login of a scenario. Some scenarios supply an account.
fn login() -> OAuth {
    let context = variable("MCP_CONFORMANCE_CONTEXT").and_then(|text| serde_json::from_str(&text).ok());
    let context: Value = context.unwrap_or_default();
    let word = |name: &str| context.get(name).and_then(Value::as_str).map(str::to_owned);
    let is_program = variable("MCP_CONFORMANCE_SCENARIO").is_some_and(|s| s.contains("client-credentials"));
    if let (true, Some(id), Some(key)) = (is_program, word("client_id"), word("private_key_pem")) {
        return OAuth::for_program_with_key(id, key, SigningAlgorithm::Es256);
    }
    if let (Some(id), Some(issuer), Some(endpoint), Some(known_as), Some(token)) = (
        word("client_id"),
        word("idp_issuer"),
        word("idp_token_endpoint"),
        word("idp_client_id"),
        word("idp_id_token"),
    ) {
        let token = IdentityToken::Id(token.into());
        let user = Arc::new(move || {
            let token = token.clone();
            Box::pin(async move { Ok(token) }) as _
        });
        let provider = IdentityProvider::new(issuer, endpoint, known_as, user);
        return OAuth::for_enterprise(id, word("client_secret").map(Secret::from), provider);
    }
    match (word("client_id"), word("client_secret")) {
        (Some(id), Some(secret)) if is_program => OAuth::for_program(id, secret),
        (Some(id), secret) => OAuth::new(REDIRECT, browser()).with_client(id, secret.map(Secret::from)),
        (None, _) => OAuth::new(REDIRECT, browser()).with_client_metadata_url(CLIENT_METADATA),
    }
}

/// Requests a page and returns the address to which it redirects the browser.
fn browser() -> OAuthVisit {
    Arc::new(|page| {
        Box::pin(async move {
            let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
            let answer = client.map_err(|error| error.to_string())?.get(page).send().await;
            let answer = answer.map_err(|error| error.to_string())?;
            let to = answer.headers().get("location").and_then(|to| to.to_str().ok());
            to.map(str::to_owned).ok_or_else(|| format!("the page answered {}", answer.status()))
        })
    })
}

#[expect(clippy::disallowed_methods, reason = "the suite speaks through the environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
