//! Checks a real provider: `live MODEL [--protocol PROTOCOL]`. `cargo xtask live PROVIDER` starts it.
//!
//! MODEL is a string such as `anthropic/claude-haiku-5-5`. The key comes from the provider's usual variable. `LIVE_BASE_URL` is another
//! address, `LIVE_PROJECT` and `LIVE_REGION` select those of a cloud, and `LIVE_KEY` takes the place of the usual variable. A check that
//! fails ends the program with 1.

mod checks;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use looptree::ModelConfig;
use looptree::model::ApiProtocol;
use looptree::providers::catalogue;

/// A key that no provider has given out.
const WRONG_KEY: &str = "sk-wrong-key-of-the-live-checks";

/// A key of AWS, which has two parts, and one of Google Cloud.
const WRONG_AWS_KEY: &str = "AKIAWRONGKEYOFCHECKS:wrong-secret-of-the-live-checks";

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            report(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<bool> {
    let model = model(&std::env::args().skip(1).collect::<Vec<_>>(), variable)?;
    report(&format!(
        "{} by {} at {}",
        model.id,
        model.api,
        model.base_url.as_deref().unwrap_or("the usual address")
    ));
    let wrong = wrong(&model);
    if let Err(why) = &wrong {
        report(&format!("left out     a wrong key is refused: {why}"));
    }
    let mut good = true;
    for (name, checked) in checks::all(model, wrong).await {
        match checked {
            Ok(found) => report(&format!("passed       {name}: {found}")),
            Err(error) => {
                good = false;
                report(&format!("FAILED       {name}: {error:#}"));
            }
        }
    }
    Ok(good)
}

#[expect(clippy::disallowed_methods, reason = "a program reads its keys from the environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// The model of the command line, with its key.
fn model(words: &[String], variable: impl Fn(&str) -> Option<String>) -> Result<ModelConfig> {
    let (text, protocol) = match words {
        [text] => (text, None),
        [text, flag, protocol] if flag == "--protocol" => (text, Some(protocol)),
        _ => bail!("live MODEL [--protocol PROTOCOL]"),
    };
    let mut model = catalogue::named(text)?;
    if let Some(name) = protocol {
        let name = serde_json::Value::String(name.clone());
        model.api = serde_json::from_value::<ApiProtocol>(name).context("there is no such protocol")?;
    }
    model.base_url = variable("LIVE_BASE_URL").or(model.base_url);
    model.project = variable("LIVE_PROJECT").or(model.project);
    model.region = variable("LIVE_REGION").or(model.region);
    if let Some(key) = variable("LIVE_KEY") {
        model = model.with_api_key(key);
    }
    Ok(model.with_secrets(variable)?)
}

/// The model with a wrong key.
fn wrong(model: &ModelConfig) -> Result<ModelConfig, String> {
    let key = match model.api {
        ApiProtocol::OllamaChat => return Err("Ollama has no keys".to_owned()),
        ApiProtocol::BedrockConverseStream => WRONG_AWS_KEY,
        _ => WRONG_KEY,
    };
    Ok(model.clone().with_api_key(key))
}

#[expect(clippy::print_stdout, reason = "a program that reports")]
fn report(line: &str) {
    println!("{line}");
}
