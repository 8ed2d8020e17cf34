//! Which dialect a server speaks: `cargo run --example endpoint_check -- URL [--model M]`.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program, not a library"
)]

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use looptree_examples::endpoint_check::{Target, check};

const HELP: &str = "\
usage: endpoint_check URL [--model M] [--patience SECONDS]

  URL                  the address below which /chat/completions is, for example http://localhost:8080/v1
  --model M            the model (the first one that the server lists)
  --patience SECONDS   the longest wait for one answer (120)

A key is read from CHECK_API_KEY. Some thirty short questions are asked; a hosted server bills them.";

fn target(mut words: impl Iterator<Item = String>) -> Result<Option<Target>> {
    let key = std::env::var("CHECK_API_KEY").ok().filter(|k| !k.trim().is_empty());
    let mut target = Target {
        base_url: String::new(),
        model: None,
        key: key.map(Into::into),
        patience: Duration::from_secs(120),
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} wants a value"));
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--model" => target.model = Some(value()?),
            "--patience" => {
                let text = value()?;
                let seconds = text.parse().with_context(|| format!("{text:?} is no number of seconds"))?;
                target.patience = Duration::from_secs(seconds);
            }
            option if option.starts_with('-') => bail!("there is no option {option}; --help lists them"),
            _ if !target.base_url.is_empty() => bail!("one server at a time"),
            _ => target.base_url = word,
        }
    }
    if target.base_url.is_empty() {
        bail!("which server? For example: endpoint_check http://localhost:8080/v1");
    }
    Ok(Some(target))
}

#[tokio::main]
async fn main() -> ExitCode {
    run().await.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

async fn run() -> Result<ExitCode> {
    let Some(target) = target(std::env::args().skip(1))? else {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    };
    let report = check(&target).await?;
    println!("{report}");
    Ok(if report.works == Some(true) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
