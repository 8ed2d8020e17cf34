//! An agent behind an HTTP service: `ORDER_DESK_KEY=... cargo run --example web_service`. A script answers;
//! `-- --model anthropic/claude-sonnet-5-5` asks a model (`docs/examples.md`).
#![allow(clippy::disallowed_methods, reason = "a program reads its environment")]
use axum::{Router, response::Html, routing::get};
use looptree::hooks::{Decision, ToolPolicy, ToolRule};
use looptree::model::Secret;
use looptree::prelude::*;
use looptree::serve::{ConversationRef, Key, Service};
use looptree::testing::ScriptedProvider;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Order {
    item: String,
    amount: u32,
}

/// Returns an agent that orders things; an order of more than one thing needs an approval.
fn desk(base: &BasicAgent) -> BasicAgent {
    let order = tool_fn("order", "Orders an item for the office", |order: Order, _| async move {
        Ok(format!("ordered {} {}", order.amount, order.item))
    });
    let single = ToolRule::tool("order").argument("/amount", "1");
    base.with_same_settings()
        .with_system_prompt("You order what the office needs.")
        .with_tool(order)
        .with_hooks(Hooks::new().policy(ToolPolicy::new(Decision::Ask).allow(single)))
}

/// Returns a service whose conversations are in a folder and belong to the holder of a key.
pub fn service(folder: &str, key: &str, base: BasicAgent) -> Result<Service, Box<dyn std::error::Error>> {
    let service = Service::builder(JsonStore::open(folder)?)
        .agent("desk", move |_: &ConversationRef| desk(&base))
        .key(Key::new("office", &Secret::new(key))?)
        .build()?;
    Ok(service)
}

/// Returns the routes of the service and a page beside them, which needs no key.
pub fn routes(service: &Service) -> Router {
    Router::new().route("/", get(|| async { Html("<h1>The order desk</h1>") })).merge(service.router())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let key = std::env::var("ORDER_DESK_KEY")?;
    let script = ScriptedProvider::responding(|_| "I follow a script and order nothing.".into());
    let service = service("order-desk", &key, looptree_examples::agent(script)?)?;
    service.recover().await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    let closing = service.clone();
    let stop = async move {
        let _ = tokio::signal::ctrl_c().await;
        closing.shutdown().await;
    };
    axum::serve(listener, routes(&service)).with_graceful_shutdown(stop).await?;
    Ok(())
}
