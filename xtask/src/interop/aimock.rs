//! aimock: one server for many protocols, with prepared answers and a journal of the requests it received.
//!
//! It cuts texts by UTF-16 units, so pieces of our texts arrive as half surrogate pairs; and it ends Gemini's replies
//! that call with a reason of its own. Both must come out right.

use agent_core::compat::SeedVerbs as _;
use std::time::Duration;

use agent_core::{ErrorKind, ModelConfig};
use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::checks::Counting;
use super::install::Place;
use super::process::Process;
use super::report::Report;
use super::scene::{ANSWER, BEFORE, CALLS, tools_that_meet};
use super::talk::{Caller, Talk};
use super::{checks, llm, net, text};

pub(super) const NAME: &str = "aimock";

/// Also in `docs/interop.md`.
const PACKAGES: &[&str] = &["@copilotkit/aimock@1.43.0"];

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many UTF-16 units it puts into a piece: few and odd, so that pairs are cut.
const PIECE: &str = "7";

/// The wait that its 429 asks for.
const ASKED_WAIT: Duration = Duration::from_secs(1);

/// Its header for what belongs together: its counters and its journal go by it.
const TEST_ID: &str = "X-Test-Id";

/// What a prompt must hold for each of the prepared answers.
const TOOLS: &str = "harbours";
const CROWDED: &str = "crowded";
const BROKEN: &str = "broken";
const TOO_LONG: &str = "too long";
const CUT: &str = "cut off";
const SHORT: &str = "short of room";

pub(super) async fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let Some(folder) = llm::here(NAME, place.node(NAME, PACKAGES).await?, report) else { return Ok(()) };
    let fixtures = place.written(NAME, "fixtures.json", &serde_json::to_vec_pretty(&fixtures()?)?)?;
    let port = net::free_port()?;
    let mut command = place.command(NAME, "node".as_ref())?;
    command.arg(folder.join("node_modules/@copilotkit/aimock/dist/cli.js"));
    command.args(["--port", &port.to_string(), "--fixtures", text(&fixtures)?, "--chunk-size", PIECE]);
    command.args(["--strict", "--validate-on-load", "--log-level", "warn"]);
    let mut server = Process::start(NAME, command, &place.log(NAME))?;
    server.ready(PATIENCE, || net::is_up(port, "/ready")).await?;
    llm::with(server, checks(port, report)).await
}

async fn checks(port: u16, report: &mut Report) -> anyhow::Result<()> {
    for (route, model) in routes(port) {
        // For Ollama it sends neither tokens nor why a reply ended.
        let counting = if route == "ollama" { Counting::Nothing } else { Counting::Every };
        let at = |check: &str| model.clone().with_header(TEST_ID, format!("{route}.{check}"));
        report
            .check(NAME, route, "two tools at once", async {
                let talk = ask(Caller::new(at("tools")).with(|a, c| a.with_tools(tools_that_meet(c))), TOOLS);
                let seen = checks::two_tools(&talk.await?, counting)?;
                checks::results_arrived(&last_request(port, route, "tools", 2).await?)?;
                Ok(seen)
            })
            .await;
        report
            .check(NAME, route, "429, then an answer", async {
                let talk = ask(Caller::new(at("429")), CROWDED).await?;
                checks::waited_as_asked(&talk, ASKED_WAIT)?;
                checks::tried_again(&talk, ErrorKind::RateLimited, Some(429))
            })
            .await;
        report
            .check(NAME, route, "500, then an answer", async {
                let talk = ask(Caller::new(at("500")), BROKEN).await?;
                checks::tried_again(&talk, ErrorKind::Network, Some(500))
            })
            .await;
        report
            .check(NAME, route, "cut off, then an answer", async {
                let talk = ask(Caller::new(at("cut")), CUT).await?;
                ensure!(talk.superseded == 1, "{} replies were superseded in place of 1", talk.superseded);
                checks::tried_again(&talk, ErrorKind::Network, None)
            })
            .await;
        report
            .check(NAME, route, "overflow, compacted", async {
                let caller = Caller::new(at("overflow"));
                for n in 0..8 {
                    let said = format!("Note {n}: {}", "wind and water, ".repeat(20));
                    caller.agent.append_message(agent_core::Message::user(said))?;
                }
                let talk = caller.ask(TOO_LONG).await?;
                let seen = checks::recovered_from_overflow(&talk, Some(400))?;
                ensure!(talk.last()?.text() == ANSWER, "the answer is {:?}", talk.last()?.text());
                Ok(seen)
            })
            .await;
        if counting == Counting::Every {
            report
                .check(NAME, route, "stops at a length", async {
                    checks::stopped_at_length(&ask(Caller::new(at("length")), SHORT).await?, counting)
                })
                .await;
        }
    }
    Ok(())
}

async fn ask(caller: Caller, about: &str) -> anyhow::Result<Talk> {
    caller.ask(format!("Tell me about what is {about}, please.")).await
}

/// The protocols that it speaks and we do. Bedrock is not among them: what it sends there is not what AWS sends.
fn routes(port: u16) -> Vec<(&'static str, ModelConfig)> {
    let base = format!("http://127.0.0.1:{port}");
    let v1 = format!("{base}/v1");
    let (id, key) = ("interop", "key-for-loopback");
    vec![
        ("chat", ModelConfig::local(&v1, id, key)),
        ("responses", ModelConfig::openai_responses(id, id, key).with_base_url(&v1)),
        ("messages", ModelConfig::anthropic(id, id, key).with_base_url(&base)),
        ("gemini", ModelConfig::google(id, id, key).with_base_url(&base)),
        ("vertex", ModelConfig::vertex("interop", "europe-west4", id).with_api_key(key).with_base_url(&base)),
        ("azure", ModelConfig::azure(&base, id, key)),
        ("ollama", ModelConfig::ollama(id).with_base_url(&base)),
    ]
}

/// The prepared answers, in the form that it reads.
fn fixtures() -> anyhow::Result<Value> {
    let calls = CALLS
        .iter()
        .map(|(name, arguments)| {
            Ok(json!({"name": name, "arguments": serde_json::from_str::<Value>(arguments)?}))
        })
        .collect::<anyhow::Result<Vec<Value>>>()?;
    // Without them it counts nothing.
    let usage = json!({"prompt_tokens": 40, "completion_tokens": 12, "total_tokens": 52});
    let answer = json!({"content": ANSWER, "usage": usage});
    let mut fixtures = vec![
        json!({"match": {"userMessage": TOOLS, "hasToolResult": false},
            "response": {"content": BEFORE, "toolCalls": calls, "usage": usage}}),
        json!({"match": {"userMessage": TOOLS, "hasToolResult": true}, "response": answer}),
        json!({"match": {"userMessage": SHORT}, "response": {"content": BEFORE, "finishReason": "length", "usage": usage}}),
        json!({"match": {"userMessage": CUT, "sequenceIndex": 0}, "response": answer, "truncateAfterChunks": 4,
            "latency": 20}),
        json!({"match": {"userMessage": CUT, "sequenceIndex": 1}, "response": answer}),
    ];
    let errors = [
        (CROWDED, 429, "Rate limit reached for requests", "rate_limit_exceeded"),
        (BROKEN, 500, "The server had an error", "server_error"),
        (TOO_LONG, 400, "This model's maximum context length is 512 tokens", "invalid_request_error"),
    ];
    for (prompt, status, message, kind) in errors {
        let mut response = json!({"error": {"message": message, "type": kind}, "status": status});
        if let (429, Some(fields)) = (status, response.as_object_mut()) {
            fields.insert("retryAfter".to_owned(), json!(ASKED_WAIT.as_secs()));
        }
        fixtures.push(json!({"match": {"userMessage": prompt, "sequenceIndex": 0}, "response": response}));
        fixtures.push(json!({"match": {"userMessage": prompt, "sequenceIndex": 1}, "response": answer}));
    }
    Ok(json!({ "fixtures": fixtures }))
}

/// The body of the last request of a check, of which there must be so many.
async fn last_request(port: u16, route: &str, check: &str, count: usize) -> anyhow::Result<Value> {
    let journal = net::get_json(port, &format!("/__aimock/journal?testId={route}.{check}")).await?;
    let entries = journal.as_array().or_else(|| journal.get("entries")?.as_array());
    let entries = entries.context("the journal is no list")?;
    ensure!(entries.len() == count, "{} requests arrived in place of {count}", entries.len());
    entries.last().and_then(|e| e.get("body")).cloned().context("a request without a body")
}
