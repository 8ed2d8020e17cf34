//! llama.cpp's own server with a tiny model of random weights: what it says is noise, how it says it is real. Its limits
//! are real, and so are its grammars, which make even this model call tools and write JSON.

use agent_core::compat::SeedSetters as _;
use agent_core::compat::SeedVerbs as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agent_core::{AgentEvent, Message, ModelConfig, RequestHook, ResponseFormat, StopReason, ToolChoice};
use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use super::checks::Counting;
use super::install::Place;
use super::process::Process;
use super::report::Report;
use super::scene::{CALLS, HARBOURS, tools_with_a_choice};
use super::talk::{Caller, Talk};
use super::{checks, llm, net, text};

pub(super) const NAME: &str = "llama.cpp";

/// Also in `docs/interop.md`.
const PACKAGES: &[&str] = &["xllamacpp==2026.10.11549", "gguf==0.19.0", "numpy==2.4.6"];

/// How long it may take to start, or to write its model.
const PATIENCE: Duration = Duration::from_secs(60);

/// The tokens that it takes. The tiny model has a token for a character, more or less.
const CONTEXT: u32 = 4_096;

/// How many it answers at a time, as `llama_server.py` says.
const PLACES: u32 = 2;

/// A limit of output that most replies reach.
const LIMIT: u32 = 12;

/// Pieces after which a reply is aborted.
const ENOUGH: usize = 5;

/// How often a request is repeated whose result depends on random sampling.
const TRIES: u32 = 12;

pub(super) async fn run(place: &Place, report: &mut Report) -> anyhow::Result<()> {
    let Some(folder) = llm::here(NAME, place.python(NAME, PACKAGES).await?, report) else { return Ok(()) };
    let python = folder.join("bin/python");
    let model = place.scratch(NAME, "tiny.gguf")?;
    let mut writer = place.command(NAME, &python)?;
    writer.arg(place.file("tiny_model.py")).arg(&model);
    let (status, printed) =
        Process::start("tiny_model.py", writer, &place.log("tiny_model"))?.done(PATIENCE).await?;
    ensure!(status.success(), "the model cannot be written: {printed}");
    let port = net::free_port()?;
    let mut command = place.command(NAME, &python)?;
    command.arg(place.file("llama_server.py"));
    command.args([text(&model)?, &port.to_string(), &CONTEXT.to_string()]);
    let mut server = Process::start(NAME, command, &place.log(NAME))?;
    server.ready(PATIENCE, || net::is_up(port, "/health")).await?;
    llm::with(server, checks(port, report)).await
}

async fn checks(port: u16, report: &mut Report) -> anyhow::Result<()> {
    for (route, model) in routes(port) {
        report.check(NAME, route, "two tools at once", tools(&model)).await;
        report.check(NAME, route, "overflow, compacted", overflow(&model)).await;
        report.check(NAME, route, "stops at a length", length(route, &model)).await;
        // It does not read the schema of a request of Responses, and of a Messages model that must call it wants one call
        // at least, after any text.
        if route == "chat" {
            report.check(NAME, route, "JSON by a schema", schema(&model)).await;
        }
        report.check(NAME, route, "aborted in mid-stream", abort(&model)).await;
    }
    Ok(())
}

fn routes(port: u16) -> Vec<(&'static str, ModelConfig)> {
    let base = format!("http://127.0.0.1:{port}");
    let v1 = format!("{base}/v1");
    vec![
        ("chat", ModelConfig::local(&v1, "tiny", "unused")),
        ("responses", ModelConfig::openai_responses("tiny", "tiny", "unused").with_base_url(&v1)),
        ("messages", ModelConfig::anthropic("tiny", "tiny", "unused").with_base_url(&base)),
    ]
}

/// Whole runs: the first reply must call, the later ones may. Repeated with other questions until one reply held several
/// calls.
async fn tools(model: &ModelConfig) -> anyhow::Result<String> {
    for n in 1..=TRIES {
        let talk = run_with_tools(model, n).await?;
        let most = calls(&talk)?;
        if most > 1 {
            let (replies, tokens) = (talk.replies.len(), checks::counted(&talk)?);
            let lost = checks::lost_at_most_a_connection(&talk)?;
            return Ok(format!("{most} calls in one of {replies} replies, {tokens}{lost}"));
        }
    }
    bail!("no reply of {TRIES} runs held more than one call")
}

async fn run_with_tools(model: &ModelConfig, n: u32) -> anyhow::Result<Talk> {
    let asked = AtomicUsize::new(0);
    let first_must_call: RequestHook = Arc::new(move |body| {
        let mut body = body.clone();
        if asked.fetch_add(1, Ordering::Relaxed) > 0 {
            body.as_object_mut()?.remove("tool_choice");
        }
        Some(body)
    });
    let caller = Caller::new(model.clone()).with(|agent, called| {
        agent
            .with_tools(tools_with_a_choice(called))
            .with_tool_choice(ToolChoice::Required)
            .with_max_tokens(CONTEXT / 2)
            .with_request_hook(first_must_call)
    });
    caller.ask(format!("How are the harbours? Question {n}.")).await
}

/// The most calls of one reply, after a look at all of them.
fn calls(talk: &Talk) -> anyhow::Result<usize> {
    let last = talk.last()?;
    checks::lost_at_most_a_connection(talk)?;
    let mut most = 0;
    let mut all = 0;
    for reply in &talk.replies {
        let calls = reply.tool_calls().count();
        let wanted = if calls > 0 { StopReason::ToolUse } else { StopReason::Stop };
        ensure!(
            reply.stop_reason == wanted,
            "a reply with {calls} calls stopped with {:?}",
            reply.stop_reason
        );
        (most, all) = (most.max(calls), all + calls);
    }
    let first = talk.replies.first().context("no reply")?;
    ensure!(first.tool_calls().next().is_some(), "the first reply does not call: {:?}", first.text());
    ensure!(last.tool_calls().next().is_none(), "the last reply calls");
    ensure!(talk.results.len() == all && talk.called.len() == all, "{all} calls, {} ran", talk.called.len());
    ensure!(talk.results.iter().all(|r| !r.is_error), "a call failed: {:?}", talk.results);
    for (name, arguments) in &talk.called {
        ensure!(CALLS.iter().any(|(n, _)| n == name), "there is no tool {name:?}");
        let harbour = arguments.get("harbour").and_then(Value::as_str).unwrap_or_default();
        ensure!(HARBOURS.contains(&harbour), "{name} was called with {arguments}");
    }
    Ok(most)
}

/// More than it takes, by its own count; after the compaction it takes it.
async fn overflow(model: &ModelConfig) -> anyhow::Result<String> {
    let caller = Caller::new(model.clone()).with(|agent, _| agent.with_max_tokens(24));
    for n in 0..60 {
        caller.agent.append_message(Message::user(format!("Note {n}: {}", "wind and sea. ".repeat(5))))?;
    }
    let mut talk = caller.ask("What was the first note?").await?;
    // See `lost_at_most_a_connection`; this checks the overflow.
    talk.failures.retain(|f| f.status.is_some());
    let seen = checks::recovered_from_overflow(&talk, Some(400))?;
    ensure!(!talk.last()?.text().is_empty(), "the reply after the compaction is empty");
    checks::counted(&talk)?;
    Ok(seen)
}

/// A limit of output that is reached. A reply may end before it; then the next question is sent.
async fn length(route: &str, model: &ModelConfig) -> anyhow::Result<String> {
    for n in 1..=TRIES {
        let talk = one_reply(model, LIMIT, n).await?;
        let reached = talk.usage.output == u64::from(LIMIT);
        if route == "responses" && reached {
            // It says "completed" of what it has cut.
            talk.last()?;
            return checks::counted(&talk);
        }
        if reached {
            return checks::stopped_at_length(&talk, Counting::Every);
        }
        ensure!(talk.last()?.stop_reason == StopReason::Stop, "stopped with {:?}", talk.last()?.stop_reason);
    }
    bail!("no reply of {TRIES} was as long as {LIMIT} tokens")
}

async fn one_reply(model: &ModelConfig, limit: u32, n: u32) -> anyhow::Result<Talk> {
    let caller = Caller::new(model.clone()).with(|agent, _| agent.with_max_tokens(limit));
    let talk = caller.ask(format!("Talk to me, {n}.")).await?;
    checks::lost_at_most_a_connection(&talk)?;
    Ok(talk)
}

/// The grammar of a schema, followed to its end.
async fn schema(model: &ModelConfig) -> anyhow::Result<String> {
    let schema = json!({"type": "object", "properties": {
        "harbour": {"type": "string", "enum": HARBOURS}, "open": {"type": "boolean"}},
        "required": ["harbour", "open"], "additionalProperties": false});
    let format = ResponseFormat::JsonSchema { name: "report".to_owned(), schema, strict: true };
    let caller =
        Caller::new(model.clone()).with(|agent, _| agent.with_response_format(format).with_max_tokens(400));
    let talk = caller.ask("Report.").await?;
    checks::lost_at_most_a_connection(&talk)?;
    let text = talk.last()?.text();
    let report: Value = serde_json::from_str(&text).with_context(|| format!("this is no JSON: {text}"))?;
    let harbour = report.get("harbour").and_then(Value::as_str).unwrap_or_default();
    ensure!(
        HARBOURS.contains(&harbour) && report["open"].is_boolean(),
        "this does not fit the schema: {text}"
    );
    checks::counted(&talk)
}

/// An abort in mid-stream ends the run at once, and the server answers the next ones.
async fn abort(model: &ModelConfig) -> anyhow::Result<String> {
    for n in 1..=TRIES {
        let caller = Caller::new(model.clone()).with(|agent, _| agent.with_max_tokens(CONTEXT / 2));
        let mut events = caller.agent.prompt(format!("Talk to me for long, {n}."))?;
        let (mut pieces, mut asked) = (0, None);
        while let Some(event) = events.recv().await {
            pieces += usize::from(matches!(event, AgentEvent::MessageUpdate { .. }));
            if pieces == ENOUGH && asked.is_none() {
                asked = Some(Instant::now());
                caller.agent.abort();
            }
        }
        let messages = caller.agent.messages();
        let last = messages.last().and_then(|m| m.as_llm()).and_then(Message::as_assistant);
        let reason = last.context("there is no reply")?.stop_reason;
        let Some(asked) = asked.filter(|_| reason != StopReason::Stop) else { continue };
        let took = asked.elapsed();
        ensure!(reason == StopReason::Aborted, "the aborted reply stopped with {reason:?}");
        // Both of its places are free again, or the next runs would wait.
        for n in 1..=PLACES + 1 {
            one_reply(model, LIMIT, n).await.context("the server does not answer after an abort")?;
        }
        return Ok(format!("ended after {} ms, {pieces} pieces", took.as_millis()));
    }
    bail!("every reply of {TRIES} ended before it was aborted")
}
