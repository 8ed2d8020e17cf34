//! What a provider has to do: stream text, call a tool, count tokens, and refuse a wrong key.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use looptree::prelude::*;
use looptree::{ErrorKind, RunFailure};
use schemars::JsonSchema;
use serde::Deserialize;

/// The longest time that one check may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// A word that only the tool knows.
const WORD: &str = "heliotrope-4711";

/// The numbers that the text has to contain.
const LAST: usize = 40;

/// The arguments of the tool.
#[derive(Deserialize, JsonSchema)]
struct Lookup {
    /// The name of the drawer.
    drawer: String,
}

/// A check by its name, with what it found.
pub(crate) type Checked = (&'static str, Result<String>);

/// Runs all checks of a model. `wrong` is the same model with a key that does not exist, or why there is none.
pub(crate) async fn all(model: ModelConfig, wrong: Result<ModelConfig, String>) -> Vec<Checked> {
    let mut all = vec![
        ("text streams", timed(text_streams(model.clone())).await),
        ("a tool is called", timed(a_tool_is_called(model)).await),
    ];
    if let Ok(wrong) = wrong {
        all.push(("a wrong key is refused", timed(a_wrong_key_is_refused(wrong)).await));
    }
    all
}

async fn timed(check: impl Future<Output = Result<String>>) -> Result<String> {
    match tokio::time::timeout(PATIENCE, check).await {
        Ok(checked) => checked,
        Err(_) => bail!("there was no result after {} seconds", PATIENCE.as_secs()),
    }
}

/// Text arrives in parts, the answer is complete, and the usage counts it.
async fn text_streams(model: ModelConfig) -> Result<String> {
    let agent = looptree::agent(model);
    let prompt = format!("Count from 1 to {LAST} in digits, separated by single spaces. Write nothing else.");
    let mut events = agent.prompt(prompt)?;
    let (mut parts, mut streamed) = (0, String::new());
    while let Some(event) = events.recv().await {
        if let Some(delta) = event.text_delta() {
            parts += 1;
            streamed.push_str(delta);
        }
    }
    let usage = completed(&events.end().await)?;
    ensure!(parts > 1, "the text arrived in {parts} part, so it was not streamed");
    for number in 1..=LAST {
        let number = number.to_string();
        ensure!(
            streamed.split(|c: char| !c.is_ascii_digit()).any(|word| word == number),
            "{number} is missing in: {streamed}"
        );
    }
    Ok(format!("{parts} parts, {}", counted(&usage)?))
}

/// The model calls a tool with arguments of its schema, and uses the result in its answer.
async fn a_tool_is_called(model: ModelConfig) -> Result<String> {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted_calls = Arc::clone(&calls);
    let tool = tool_fn("open_drawer", "Returns the word that is in a drawer.", move |args: Lookup, _| {
        let calls = Arc::clone(&counted_calls);
        async move {
            calls.fetch_add(1, Ordering::SeqCst);
            Ok(match args.drawer.to_lowercase().contains("left") {
                true => WORD.to_owned(),
                false => "This drawer is empty.".to_owned(),
            })
        }
    });
    let agent = looptree::agent(model).with_tool(tool);
    let mut events = agent
        .prompt("Open the drawer named \"left\" with the tool, and repeat exactly the word that is in it.")?;
    let mut answer = String::new();
    while let Some(event) = events.recv().await {
        if let Some(delta) = event.text_delta() {
            answer.push_str(delta);
        }
    }
    let usage = completed(&events.end().await)?;
    let calls = calls.load(Ordering::SeqCst);
    ensure!(calls > 0, "the model did not call the tool, but answered: {answer}");
    ensure!(answer.contains(WORD), "the answer does not use the result of the tool: {answer}");
    Ok(format!("{calls} calls, {}", counted(&usage)?))
}

/// The error of a wrong key says that the key is wrong.
async fn a_wrong_key_is_refused(model: ModelConfig) -> Result<String> {
    let agent = looptree::agent(model);
    let mut events = agent.prompt("Say yes.")?;
    match events.end().await {
        RunEnd::Failed(RunFailure::Model { kind: ErrorKind::Auth, .. }) => {
            Ok("an authentication error".to_owned())
        }
        other => bail!("a wrong key ends a run with {other:?}, not with an authentication error"),
    }
}

fn completed(end: &RunEnd) -> Result<Usage> {
    match end {
        RunEnd::Completed(reply) => Ok(reply.usage),
        other => bail!("the run did not complete: {other:?}"),
    }
}

fn counted(usage: &Usage) -> Result<String> {
    let prompt = usage.input + usage.cache_read + usage.cache_write;
    ensure!(prompt > 0 && usage.output > 0, "no tokens were counted: {usage:?}");
    Ok(format!("{prompt} tokens of prompts and {} of answers", usage.output))
}
