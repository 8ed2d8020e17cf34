//! A service with scripted agents for clients of other projects: `cargo xtask serve` starts it. Prints its address on the first line.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a program, not a library"
)]

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{BasicAgent, ModelConfig, Secret, Usage};
use agent_serve::{ConversationRef, Key, Limits, Service};
use agent_session::JsonStore;
use serde_json::json;
use tokio::net::TcpListener;

/// The key of the client.
const KEY: &str = "the-key-of-the-scripted-service";

/// Calls `look` or `deploy`, which asks, if the prompt has these words; otherwise repeats the prompt in capital letters.
fn agent() -> BasicAgent {
    let provider = ScriptedProvider::responding(|request| {
        let messages: Vec<_> = request.history.messages().collect();
        let last = messages.last().map(|message| message.text()).unwrap_or_default();
        let called = messages.last().is_some_and(|message| message.role() == "toolResult");
        let reply = match () {
            () if called => ScriptedReply::text("Found it.").in_pieces_of(3),
            () if last.contains("look") => {
                ScriptedReply::text("Let me look.").and_call("c1", "look", json!({}))
            }
            () if last.contains("deploy") => ScriptedReply::call("c2", "deploy", json!({"to": "production"})),
            () => ScriptedReply::new().in_pieces_of(4).and_text(last.to_uppercase()),
        };
        reply.using(Usage::new(10, 5, 2, 0))
    });
    BasicAgent::new(ModelConfig::default())
        .with_provider(provider)
        .with_tool(ScriptedTool::saying("look", "a file"))
        .with_tool(ScriptedTool::saying("deploy", "deployed").asking("Deploy to production?"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("name a folder for the sessions")?;
    let mut limits = Limits::default();
    limits.keep_alive = std::time::Duration::from_secs(1);
    let service = Service::builder(JsonStore::open(folder)?)
        .agent("scripted", |_: &ConversationRef| agent())
        .key(Key::new("client", &Secret::new(KEY))?.with_requests_per_minute(1_000_000))
        .limits(limits)
        .build()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    service.serve(listener, std::future::pending()).await?;
    Ok(())
}
