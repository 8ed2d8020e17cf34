//! The LiteLLM proxy: a second implementation of four protocols, in front of a Chat upstream of ours.
//!
//! Each check of each route has a model of its own in the proxy's configuration, and each model an address of its own at
//! the upstream, where the answers wait in order.

use agent_core::compat::SeedVerbs as _;
use std::collections::BTreeMap;
use std::time::Duration;

use agent_core::{ErrorKind, ModelConfig};
use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::checks::Counting;
use super::install::Place;
use super::process::Process;
use super::report::Report;
use super::scene::{ANSWER, BEFORE, CALLS, tools_that_meet};
use super::talk::Caller;
use super::{checks, llm, net, text};
use crate::server::{Response, Server};

pub(super) const NAME: &str = "litellm";

/// Also in `docs/interop.md`.
const PACKAGES: &[&str] = &["litellm[proxy]==1.106.2"];

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(180);

/// Who may ask it.
const KEY: &str = "sk-for-loopback";

const ROUTES: &[&str] = &["chat", "responses", "messages", "gemini"];

/// What the upstream answers to the requests of a check, in order.
type Answers = fn() -> Vec<Response>;

/// The checks of every route.
const CHECKS: &[(&str, Answers)] = &[
    (TOOLS, || vec![calls(), words(ANSWER, "stop")]),
    (RATE, || {
        vec![
            error(429, "Rate limit reached for requests", "requests", "rate_limit_exceeded"),
            words(ANSWER, "stop"),
        ]
    }),
    (SERVER, || {
        vec![error(500, "The server had an error", "server_error", "server_error"), words(ANSWER, "stop")]
    }),
    (OVERFLOW, || {
        vec![error(400, TOO_LONG, "invalid_request_error", "context_length_exceeded"), words(ANSWER, "stop")]
    }),
    (LENGTH, || vec![words(BEFORE, "length")]),
];

const TOOLS: &str = "two tools at once";
const RATE: &str = "429, then an answer";
const SERVER: &str = "500, then an answer";
const OVERFLOW: &str = "overflow, compacted";
const LENGTH: &str = "stops at a length";

/// How an upstream says that the prompt is too long.
const TOO_LONG: &str =
    "This model's maximum context length is 512 tokens. However, your messages resulted in 900 tokens.";

pub(super) async fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let Some(folder) = llm::here(NAME, place.python(NAME, PACKAGES).await?, report) else { return Ok(()) };
    let upstream = Server::start().await?;
    let mut addresses = BTreeMap::new();
    for route in ROUTES {
        for (check, answers) in CHECKS {
            addresses.insert(model_name(route, check), upstream.prepare_all(answers()));
        }
    }
    let config = place.written(NAME, "config.yaml", &serde_json::to_vec_pretty(&config(&addresses))?)?;
    let port = net::free_port()?;
    let mut command = place.command(NAME, &folder.join("bin/litellm"))?;
    command.args(["--config", text(&config)?, "--host", "127.0.0.1", "--port", &port.to_string()]);
    command.envs([("LITELLM_LOCAL_MODEL_COST_MAP", "True"), ("LITELLM_TELEMETRY", "False")]);
    command.env("PYTHONUTF8", "1");
    let mut server = Process::start(NAME, command, &place.log(NAME))?;
    server.ready(PATIENCE, || net::is_up(port, "/health/liveliness")).await?;
    llm::with(server, checks(port, &upstream, &addresses, report)).await
}

async fn checks(
    port: u16,
    upstream: &Server,
    addresses: &BTreeMap<String, String>,
    report: &mut Report,
) -> anyhow::Result<()> {
    for route in ROUTES {
        // Streams of Gemini's form say that nothing was used.
        let counting = if *route == "gemini" { Counting::Nothing } else { Counting::Every };
        for (check, _) in CHECKS {
            let name = model_name(route, check);
            let model = model(route, port, &name);
            let address = addresses.get(&name).context("a check without an address")?;
            report.check(NAME, route, check, one(check, model, counting, upstream, address)).await;
        }
    }
    Ok(())
}

async fn one(
    check: &str,
    model: ModelConfig,
    counting: Counting,
    upstream: &Server,
    address: &str,
) -> anyhow::Result<String> {
    let caller = Caller::new(model);
    match check {
        TOOLS => {
            let caller = caller.with(|agent, called| agent.with_tools(tools_that_meet(called)));
            let seen = checks::two_tools(&caller.ask("How are the harbours?").await?, counting)?;
            let received = upstream.received(address);
            ensure!(received.len() == 2, "{} requests arrived upstream in place of 2", received.len());
            let last: Value = serde_json::from_slice(&received.last().context("nothing arrived")?.body)?;
            checks::results_arrived(&last)?;
            Ok(seen)
        }
        RATE => checks::tried_again(&caller.ask("Hello?").await?, ErrorKind::RateLimited, Some(429)),
        SERVER => checks::tried_again(&caller.ask("Hello?").await?, ErrorKind::Network, Some(500)),
        OVERFLOW => {
            for n in 0..8 {
                let said = format!("Note {n}: {}", "wind and water, ".repeat(20));
                caller.agent.append_message(agent_core::Message::user(said))?;
            }
            let talk = caller.ask("Is that too long?").await?;
            let seen = checks::recovered_from_overflow(&talk, Some(400))?;
            ensure!(talk.last()?.text() == ANSWER, "the answer is {:?}", talk.last()?.text());
            Ok(seen)
        }
        _ => checks::stopped_at_length(&caller.ask("Go on.").await?, counting),
    }
}

fn model(route: &str, port: u16, id: &str) -> ModelConfig {
    let base = format!("http://127.0.0.1:{port}");
    let v1 = format!("{base}/v1");
    match route {
        "responses" => ModelConfig::openai_responses(id, id, KEY).with_base_url(v1),
        "messages" => ModelConfig::anthropic(id, id, KEY).with_base_url(base),
        "gemini" => ModelConfig::google(id, id, KEY).with_base_url(base),
        _ => ModelConfig::local(v1, id, KEY),
    }
}

/// The name of the proxy's model for a check.
fn model_name(route: &str, check: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    format!("{route}-{}", check.chars().map(plain).collect::<String>())
}

/// The proxy's configuration; JSON is YAML too. `groq/` is one of the ways to make it ask a Chat upstream and still
/// stream on every route. It must not try again by itself: that is what is checked of us.
fn config(addresses: &BTreeMap<String, String>) -> Value {
    let models = addresses.iter().map(|(name, address)| {
        json!({"model_name": name, "litellm_params":
            {"model": "groq/interop", "api_base": address, "api_key": "unused", "max_retries": 0}})
    });
    json!({
        "model_list": models.collect::<Vec<_>>(),
        "litellm_settings": {"num_retries": 0, "telemetry": false},
        "router_settings": {"num_retries": 0, "disable_cooldowns": true},
        "general_settings": {"master_key": KEY},
    })
}

/// An answer of Chat Completions that is streamed.
pub(super) fn stream(deltas: Vec<Value>, stop: &str) -> Response {
    let chunk = |choices: Value, usage: Value| {
        let chunk = json!({"id": "chatcmpl-interop", "object": "chat.completion.chunk", "created": 1_700_000_000,
            "model": "interop", "choices": choices, "usage": usage});
        format!("data: {chunk}\n\n").into_bytes()
    };
    let mut pieces = Vec::new();
    for delta in deltas {
        pieces.push(chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]), Value::Null));
    }
    pieces.push(chunk(json!([{"index": 0, "delta": {}, "finish_reason": stop}]), Value::Null));
    let usage = json!({"prompt_tokens": 40, "completion_tokens": 12, "total_tokens": 52});
    pieces.push(chunk(json!([]), usage));
    pieces.push(b"data: [DONE]\n\n".to_vec());
    let headers = BTreeMap::from([("content-type".to_owned(), "text/event-stream".to_owned())]);
    Response { status: 200, headers, pieces, ..Response::default() }
}

/// A text, in pieces of a few characters.
fn text_deltas(text: &str) -> Vec<Value> {
    let characters: Vec<char> = text.chars().collect();
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    deltas.extend(characters.chunks(5).map(|c| json!({"content": c.iter().collect::<String>()})));
    deltas
}

fn words(text: &str, stop: &str) -> Response {
    stream(text_deltas(text), stop)
}

/// The text and both calls, their arguments in pieces.
fn calls() -> Response {
    let mut deltas = text_deltas(BEFORE);
    for (index, (name, arguments)) in CALLS.iter().enumerate() {
        deltas.push(json!({"tool_calls": [{"index": index, "id": format!("call_{index}_of_upstream"),
            "type": "function", "function": {"name": name, "arguments": ""}}]}));
        let characters: Vec<char> = arguments.chars().collect();
        for piece in characters.chunks(6) {
            let arguments: String = piece.iter().collect();
            deltas.push(json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}));
        }
    }
    stream(deltas, "tool_calls")
}

fn error(status: u16, message: &str, kind: &str, code: &str) -> Response {
    let body = json!({"error": {"message": message, "type": kind, "code": code}});
    let headers = BTreeMap::from([("content-type".to_owned(), "application/json".to_owned())]);
    Response { status, headers, pieces: vec![body.to_string().into_bytes()], ..Response::default() }
}
