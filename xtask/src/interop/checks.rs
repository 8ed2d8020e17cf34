//! What must be true of a run, whichever server and route it went through. Each gives a few words of what it saw.

use std::time::Duration;

use agent_core::{CompactionReason, ErrorKind, StopReason, Usage};
use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::scene::{ANSWER, BEFORE, CALLS, RESULTS};
use super::talk::{Failure, Talk};

/// Whether a server counts tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counting {
    /// Those of every reply.
    Every,
    Nothing,
}

/// Both tools called in one reply, run side by side, their results sent back, the answer whole.
pub(super) fn two_tools(talk: &Talk, counting: Counting) -> anyhow::Result<String> {
    let last = talk.last()?;
    no_failure(talk)?;
    ensure!(talk.replies.len() == 2, "{} replies in place of 2", talk.replies.len());
    let first = talk.replies.first().context("no reply")?;
    ensure!(first.text() == BEFORE, "the text before the calls is {:?}, not {BEFORE:?}", first.text());
    ensure!(first.stop_reason == StopReason::ToolUse, "the first reply stopped with {:?}", first.stop_reason);
    let calls: Vec<_> = first.tool_calls().collect();
    ensure!(calls.len() == CALLS.len(), "{} calls in place of {}", calls.len(), CALLS.len());
    let mut ids: Vec<String> = calls.iter().map(|c| c.id.to_string()).collect();
    ids.sort();
    ids.dedup();
    ensure!(ids.len() == CALLS.len() && ids.iter().all(|i| !i.is_empty()), "the calls' ids are {ids:?}");
    for (name, arguments) in CALLS {
        let wanted: Value = serde_json::from_str(arguments)?;
        let found = talk.called.iter().find(|(n, _)| n == name).map(|(_, a)| a);
        ensure!(found == Some(&wanted), "{name} was called with {found:?}, not with {wanted}");
    }
    let results: Vec<_> = talk.results.iter().map(|r| (r.is_error, said(&r.content))).collect();
    let wanted: Vec<_> = RESULTS.iter().map(|r| (false, (*r).to_owned())).collect();
    ensure!(results == wanted, "the results are {results:?}");
    ensure!(last.text() == ANSWER, "the answer is {:?}, not {ANSWER:?}", last.text());
    ensure!(last.stop_reason == StopReason::Stop, "the last reply stopped with {:?}", last.stop_reason);
    ensure!(talk.pieces > 4, "the replies came in {} pieces, not as a stream", talk.pieces);
    Ok(format!("{} pieces, {}", talk.pieces, tokens(talk, counting)?))
}

/// The results have arrived in this request, each once.
pub(super) fn results_arrived(request: &Value) -> anyhow::Result<()> {
    let mut texts = Vec::new();
    gather_texts(request, &mut texts);
    for result in RESULTS {
        let count = texts.iter().filter(|t| *t == result).count();
        ensure!(count == 1, "the result {result:?} arrived {count} times in {request}");
    }
    Ok(())
}

/// Every text in a value, also in JSON inside a text: protocols that take objects as results are translated to
/// such that take texts.
fn gather_texts(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(inner @ (Value::Object(_) | Value::Array(_))) => gather_texts(&inner, texts),
            _ => texts.push(text.clone()),
        },
        Value::Array(items) => items.iter().for_each(|item| gather_texts(item, texts)),
        Value::Object(fields) => fields.values().for_each(|field| gather_texts(field, texts)),
        _ => {}
    }
}

/// A first attempt that failed so, and a second one that gave the answer.
pub(super) fn tried_again(talk: &Talk, kind: ErrorKind, status: Option<u16>) -> anyhow::Result<String> {
    let last = talk.last()?;
    let [failure] = talk.failures.as_slice() else {
        anyhow::bail!("{} failures in place of 1: {:?}", talk.failures.len(), talk.failures);
    };
    is_failure(failure, kind, status)?;
    ensure!(last.text() == ANSWER, "the answer is {:?}, not {ANSWER:?}", last.text());
    ensure!(talk.waits.len() == 1, "{} waits in place of 1", talk.waits.len());
    let wait = talk.waits.first().copied().unwrap_or_default();
    if let Some(asked) = failure.retry_after {
        ensure!(wait >= asked, "the wait was {wait:?} where {asked:?} was asked for");
    }
    Ok(match failure.retry_after {
        Some(asked) => format!("{kind:?}, waited {} ms as asked for", asked.as_millis()),
        None => format!("{kind:?}, waited {} ms", wait.as_millis()),
    })
}

/// The wait that a server requested was applied.
pub(super) fn waited_as_asked(talk: &Talk, asked: Duration) -> anyhow::Result<()> {
    let found = talk.failures.first().and_then(|f| f.retry_after);
    ensure!(found == Some(asked), "the server asked for {asked:?}, and {found:?} was understood");
    Ok(())
}

/// An overflow that the server reported, a shorter history, and an answer. The text of the answer is the caller's to
/// judge.
pub(super) fn recovered_from_overflow(talk: &Talk, status: Option<u16>) -> anyhow::Result<String> {
    talk.last()?;
    let [failure] = talk.failures.as_slice() else {
        anyhow::bail!("{} failures in place of 1: {:?}", talk.failures.len(), talk.failures);
    };
    is_failure(failure, ErrorKind::ContextOverflow, status)?;
    ensure!(talk.compactions == [CompactionReason::Overflow], "compactions: {:?}", talk.compactions);
    Ok("ContextOverflow, compacted once".to_owned())
}

/// A reply that was cut at the limit of its length.
pub(super) fn stopped_at_length(talk: &Talk, counting: Counting) -> anyhow::Result<String> {
    let last = talk.last()?;
    let lost = lost_at_most_a_connection(talk)?;
    ensure!(last.stop_reason == StopReason::Length, "the reply stopped with {:?}", last.stop_reason);
    ensure!(!last.text().is_empty(), "the reply is empty");
    Ok(tokens(talk, counting)? + lost)
}

pub(super) fn is_failure(failure: &Failure, kind: ErrorKind, status: Option<u16>) -> anyhow::Result<()> {
    let Failure { kind: found, text, .. } = failure;
    ensure!(*found == kind, "the failure was taken for {found:?}, not {kind:?}: {text}");
    ensure!(failure.status == status, "the status is {:?}, not {status:?}: {text}", failure.status);
    Ok(())
}

pub(super) fn no_failure(talk: &Talk) -> anyhow::Result<()> {
    ensure!(talk.failures.is_empty(), "calls failed: {:?}", talk.failures);
    Ok(())
}

fn tokens(talk: &Talk, counting: Counting) -> anyhow::Result<String> {
    match counting {
        Counting::Every => counted(talk),
        Counting::Nothing => Ok("tokens not counted".to_owned()),
    }
}

/// That nothing failed but, once at most, a connection that the server had closed: llama.cpp does that now and then to one
/// that is kept for the next request, and the run must get over it. Returns a remark for the end of the line.
pub(super) fn lost_at_most_a_connection(talk: &Talk) -> anyhow::Result<&'static str> {
    match talk.failures.as_slice() {
        [] => Ok(""),
        [Failure { kind: ErrorKind::Network, status: None, .. }] if talk.waits.len() == 1 => {
            Ok(", one lost connection")
        }
        failures => anyhow::bail!("calls failed: {failures:?}"),
    }
}

/// That every reply has its tokens, and the run the sum of them.
pub(super) fn counted(talk: &Talk) -> anyhow::Result<String> {
    let mut sum = Usage::default();
    for reply in &talk.replies {
        let usage = reply.usage;
        let prompt = usage.input + usage.cache_read + usage.cache_write;
        ensure!(prompt > 0 && usage.output > 0, "a reply was counted as {usage:?}");
        ensure!(usage.total_tokens == prompt + usage.output, "the sum of {usage:?} is wrong");
        sum.input += usage.input;
        sum.output += usage.output;
        sum.cache_read += usage.cache_read;
        sum.cache_write += usage.cache_write;
    }
    let run = talk.usage;
    let buckets = |u: &Usage| (u.input, u.output, u.cache_read, u.cache_write);
    ensure!(buckets(&run) == buckets(&sum), "the run was counted as {run:?}, its replies as {sum:?}");
    let prompt = run.input + run.cache_read + run.cache_write;
    Ok(format!("{prompt}+{} tokens", run.output))
}

fn said(content: &[agent_core::Content]) -> String {
    content.iter().filter_map(agent_core::Content::as_text).collect()
}
