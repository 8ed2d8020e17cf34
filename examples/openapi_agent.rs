//! An agent whose tools are the operations of an HTTP API, made from its OpenAPI description.
//!
//! `cargo run -p looptree-examples --example openapi_agent` starts the API in this program, and answers from a script.
//! `-- --model anthropic/claude-sonnet-5-5` asks a model; `docs/examples.md` lists the names and keys of all providers.
#![expect(clippy::print_stdout, reason = "a program that talks to the user")]

use axum::extract::Path;
use axum::routing::{get, post};
use axum::{Json, Router};
use looptree::prelude::*;
use looptree::testing::{ScriptedProvider, ScriptedReply};
use looptree::tools::openapi::{OpenApiConfig, OperationFilter};
use serde_json::{Value, json};

const DESCRIPTION: &str = "
openapi: 3.1.0
info: {title: Warehouse, version: '1'}
paths:
  /stock/{item}:
    get:
      operationId: getStock
      summary: Returns the number of pieces in stock
      parameters: [{name: item, in: path, required: true, schema: {type: string}}]
      responses: {'200': {description: The stock}}
  /orders:
    post:
      operationId: order
      summary: Orders pieces from the supplier
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              required: [item, pieces]
              properties: {item: {type: string}, pieces: {type: integer, minimum: 1}}
      responses: {'201': {description: The order}}
";

/// The API. Yours runs somewhere else.
fn warehouse() -> Router {
    let stock = |Path(item): Path<String>| async move { Json(json!({"item": item, "pieces": 2})) };
    let order = |Json(order): Json<Value>| async move { Json(json!({"order": 71, "of": order})) };
    Router::new()
        .route("/openapi.yaml", get(|| async { DESCRIPTION }))
        .route("/stock/{item}", get(stock))
        .route("/orders", post(order))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    let server = tokio::spawn(async move { axum::serve(listener, warehouse()).await });

    let script = ScriptedProvider::new([
        ScriptedReply::call("call_1", "warehouse__getStock", json!({"item": "lamp"})),
        ScriptedReply::call("call_2", "warehouse__order", json!({"body": {"item": "lamp", "pieces": 8}})),
        ScriptedReply::text("There were 2 lamps, so I ordered 8 more (order 71)."),
    ]);
    // The base address decides where calls and credentials go, whatever the description says.
    let config = OpenApiConfig::new().with_base_url(&address).with_name_prefix("warehouse");
    let agent = looptree_examples::agent(script)?
        .with_openapi_url(format!("{address}/openapi.yaml"), config, OperationFilter::All)
        .await?;
    let _subscription = agent.subscribe(|event| match event {
        AgentEvent::ToolExecutionStart { tool_name, args, .. } => println!("[{tool_name} {args}]"),
        AgentEvent::ToolExecutionEnd(end) => println!("[-> {}]", end.result.to_text().replace('\n', " ")),
        _ => {}
    });
    println!("{}", agent.chat("We need 10 lamps. Order what is missing.").await?);
    server.abort();
    Ok(())
}
