//! One question and its result.

use anyhow::{Context as _, Result, ensure};
use looptree::model::Secret;
use serde_json::{Map, Value, json};

use super::Target;

/// The maximum number of bytes of an answer that are read.
const MAX_BYTES: usize = 4 << 20;

/// The most characters of a server's text that are shown.
const SHOWN: usize = 160;

/// The result of a question.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// The server answered the question.
    Answered(Box<Answer>),
    /// The server refused it: status and text.
    Refused(u16, String),
    /// The result is inconclusive: a limit, an outage, a wait that was too long.
    Unclear(String),
}

/// A streamed answer, as far as the checks look at it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// The text of the answer.
    pub text: String,
    /// Thinking, and the field that it came in.
    pub thinking: Option<(&'static str, String)>,
    /// The calls: id, name, arguments.
    pub calls: Vec<(String, String, String)>,
    /// The reason why the answer stopped.
    pub finish: Option<String>,
    /// Output tokens, if the stream reports them.
    pub written: Option<u64>,
    /// How many pieces there were.
    pub pieces: usize,
    /// What is unusual about it, each in a few words.
    pub odd: Vec<&'static str>,
}

impl Outcome {
    /// Whether the server took it.
    #[must_use]
    pub fn taken(&self) -> Option<bool> {
        match self {
            Self::Answered(_) => Some(true),
            Self::Refused(..) => Some(false),
            Self::Unclear(_) => None,
        }
    }
}

pub(super) struct Asker {
    client: reqwest::Client,
    base_url: String,
    key: Option<Secret>,
    pub(super) model: String,
}

impl Asker {
    pub(super) fn new(target: &Target) -> Result<Self> {
        let client = reqwest::Client::builder().timeout(target.patience).build().context("no HTTP client")?;
        let base_url = target.base_url.trim_end_matches('/').to_owned();
        reqwest::Url::parse(&base_url).with_context(|| format!("{base_url:?} is no address"))?;
        Ok(Self { client, base_url, key: target.key.clone(), model: String::new() })
    }

    fn with_key(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.key {
            Some(key) => request.bearer_auth(key.expose()),
            None => request,
        }
    }

    /// The models that the server lists, in its order; none when it has no list.
    pub(super) async fn models(&self) -> Result<Vec<String>> {
        let url = format!("{}/models", self.base_url);
        let request = self.with_key(self.client.get(&url)).send().await.map_err(reqwest::Error::without_url);
        let answer = request.with_context(|| format!("{url} cannot be reached (is the server running?)"))?;
        let status = answer.status();
        ensure!(status.is_success(), "{url} answered with status {status}");
        let text = answer.text().await.map_err(reqwest::Error::without_url)?;
        let list: Value = serde_json::from_str(&text).with_context(|| format!("{url} returned no JSON"))?;
        let names = list.get("data").and_then(Value::as_array).into_iter().flatten();
        Ok(names.filter_map(|m| m.get("id").and_then(Value::as_str)).map(str::to_owned).collect())
    }

    /// Sends a streaming request with these members besides `model` and `stream`.
    pub(super) async fn ask(&self, members: Value) -> Outcome {
        let first = self.once(&members).await;
        match first {
            // A server that is busy may not be a moment later.
            Outcome::Unclear(_) => self.once(&members).await,
            clear => clear,
        }
    }

    async fn once(&self, members: &Value) -> Outcome {
        let mut body = Map::new();
        body.insert("model".into(), json!(self.model));
        body.insert("stream".into(), json!(true));
        body.extend(members.as_object().cloned().unwrap_or_default());
        let request = self.client.post(format!("{}/chat/completions", self.base_url));
        let request = self
            .with_key(request)
            .header("content-type", "application/json")
            .header("accept", "text/event-stream")
            .body(Value::Object(body).to_string());
        let mut answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) => return Outcome::Unclear(plain(&error)),
        };
        let status = answer.status().as_u16();
        let mut bytes = Vec::new();
        let broke = loop {
            match answer.chunk().await {
                Ok(Some(piece)) if bytes.len() < MAX_BYTES => bytes.extend_from_slice(&piece),
                Ok(_) => break None,
                Err(error) => break Some(error),
            }
        };
        let text = String::from_utf8_lossy(&bytes);
        match status {
            200..300 => {}
            400 | 404 | 405 | 409 | 413 | 415 | 422 | 501 => return Outcome::Refused(status, said(&text)),
            500 if !said(&text).is_empty() => return Outcome::Refused(status, said(&text)),
            _ => return Outcome::Unclear(format!("{status}: {}", said(&text))),
        }
        if let Some(error) = broke {
            return Outcome::Unclear(format!("the answer broke off: {}", plain(&error)));
        }
        read(&text)
    }
}

/// An error without the address, in one line, with its causes.
fn plain(error: &reqwest::Error) -> String {
    let mut text = String::from(if error.is_timeout() { "no answer in time" } else { "no connection" });
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// What an error body says, in one short line.
fn said(body: &str) -> String {
    let value: Value = serde_json::from_str(body).unwrap_or_default();
    let error = value.get("error").unwrap_or(&value);
    let text = error
        .get("message")
        .or_else(|| value.get("detail"))
        .or_else(|| value.get("message"))
        .unwrap_or(error);
    let text = text.as_str().map_or_else(|| body.to_owned(), str::to_owned);
    let line: Vec<&str> = text.split_whitespace().collect();
    line.join(" ").chars().take(SHOWN).collect()
}

/// Reads a stream, or the one JSON body that some servers give instead.
fn read(text: &str) -> Outcome {
    let mut answer = Answer::default();
    let mut done = false;
    if text.trim_start().starts_with('{') {
        answer.odd.push("one JSON body instead of a stream");
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        if let Some(refused) = error_in(&value) {
            return refused;
        }
        answer.take(&value, "message");
        return Outcome::Answered(Box::new(answer));
    }
    for line in text.lines() {
        let Some(data) = line.strip_prefix("data:").map(str::trim) else { continue };
        if data == "[DONE]" {
            done = true;
            continue;
        }
        let Ok(value) = serde_json::from_str::<Value>(data) else {
            answer.note("a piece that is no JSON");
            continue;
        };
        if let Some(refused) = error_in(&value) {
            return refused;
        }
        answer.pieces += 1;
        answer.take(&value, "delta");
    }
    if !done {
        answer.note("no [DONE] at the end");
    }
    if answer.finish.is_none() {
        answer.note("no finish_reason");
    }
    Outcome::Answered(Box::new(answer))
}

/// An error object in place of an answer.
fn error_in(value: &Value) -> Option<Outcome> {
    let error = value.get("error").filter(|e| !e.is_null())?;
    let status = error.get("code").and_then(Value::as_u64).and_then(|c| u16::try_from(c).ok()).unwrap_or(200);
    Some(Outcome::Refused(status, said(&value.to_string())))
}

impl Answer {
    fn note(&mut self, what: &'static str) {
        if !self.odd.contains(&what) {
            self.odd.push(what);
        }
    }

    fn take(&mut self, piece: &Value, member: &str) {
        if let Some(written) = piece.pointer("/usage/completion_tokens").and_then(Value::as_u64) {
            self.written = Some(written);
        }
        let Some(choice) = piece.pointer("/choices/0") else { return };
        if let Some(finish) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish = Some(finish.to_owned());
        }
        let Some(delta) = choice.get(member) else { return };
        match delta.get("content") {
            Some(Value::String(text)) => self.text.push_str(text),
            Some(Value::Array(_)) => self.note("content as a list of parts"),
            _ => {}
        }
        for field in ["reasoning_content", "reasoning", "reasoning_text"] {
            if let Some(text) = delta.get(field).and_then(Value::as_str).filter(|t| !t.is_empty()) {
                self.thinking.get_or_insert((field, String::new())).1.push_str(text);
            }
        }
        let calls = delta.get("tool_calls").and_then(Value::as_array);
        for (n, call) in calls.into_iter().flatten().enumerate() {
            self.call(call, n, member);
        }
    }

    fn call(&mut self, call: &Value, n: usize, member: &str) {
        let at = match call.get("index").and_then(Value::as_u64).and_then(|i| usize::try_from(i).ok()) {
            Some(index) if index < 64 => index,
            _ => {
                if member == "delta" {
                    self.note("calls without an index");
                }
                n
            }
        };
        if at >= self.calls.len() {
            self.calls.resize(at + 1, Default::default());
        }
        let text =
            |pointer: &str| call.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(slot) = self.calls.get_mut(at) {
            let id = text("/id");
            let changed = !slot.0.is_empty() && !id.is_empty() && slot.0 != id;
            if slot.0.is_empty() {
                slot.0 = id;
            }
            if slot.1.is_empty() {
                slot.1 = text("/function/name");
            }
            match call.pointer("/function/arguments") {
                Some(Value::String(more)) => slot.2.push_str(more),
                Some(value @ Value::Object(_)) => {
                    slot.2 = value.to_string();
                    self.note("arguments as an object");
                }
                _ => {}
            }
            if changed {
                self.note("a call's id that changes");
            }
        }
    }
}
