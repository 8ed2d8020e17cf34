//! A server that holds the keys: `LOOPTREE_SERVER_TOKENS=... cargo run --example looptree_server`.
//!
//! Agents elsewhere call their models through it with `RemoteProvider::new("http://HOST:8787", TOKEN)`.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program, not a library"
)]

mod models;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use looptree::providers::ProviderRegistry;
use looptree::serve::models::{Limits, Server, Tokens, serve};
use tokio::net::TcpListener;

const HELP: &str = "\
usage: looptree_server [--listen ADDRESS] [--streams N]

  --listen ADDRESS   where to listen (127.0.0.1:8787)
  --streams N        replies that may stream at once (256)

The tokens of those who may ask are read from LOOPTREE_SERVER_TOKENS, separated by commas, 16 characters or more each. The keys
of providers are read from ANTHROPIC_API_KEY, OPENAI_API_KEY, OPENROUTER_API_KEY, GROQ_API_KEY, XAI_API_KEY, DEEPSEEK_API_KEY and
MISTRAL_API_KEY; an Ollama server on this machine needs none. It speaks http: put a proxy with a certificate before it
wherever the network is not your own.";

struct Args {
    listen: SocketAddr,
    limits: Limits,
}

fn args(mut words: impl Iterator<Item = String>) -> Result<Option<Args>> {
    let mut args = Args { listen: SocketAddr::from(([127, 0, 0, 1], 8787)), limits: Limits::default() };
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} wants a value"));
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--listen" => {
                let text = value()?;
                args.listen =
                    text.parse().with_context(|| format!("{text:?} is no address such as 127.0.0.1:8787"))?;
            }
            "--streams" => {
                let text = value()?;
                args.limits.streams = text.parse().with_context(|| format!("{text:?} is no number"))?;
            }
            other => bail!("there is no option {other}; --help lists them"),
        }
    }
    Ok(Some(args))
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).init();
    let Some(args) = args(std::env::args().skip(1))? else {
        println!("{HELP}");
        return Ok(());
    };
    let tokens = std::env::var("LOOPTREE_SERVER_TOKENS").unwrap_or_default();
    let tokens = match Tokens::parse(&tokens) {
        Ok(tokens) => tokens,
        Err(what) => bail!("LOOPTREE_SERVER_TOKENS: {what}"),
    };
    let models = models::from_environment();
    let listener =
        TcpListener::bind(args.listen).await.with_context(|| format!("cannot listen on {}", args.listen))?;
    println!("listening on http://{}; providers: {}", listener.local_addr()?, models.names().join(", "));
    let models = Arc::new(move |provider: &str, model: &str| models.find(provider, model));
    let server = Server::new(Arc::new(ProviderRegistry::default()), models, tokens, args.limits);
    serve(listener, server, async {
        let _ = tokio::signal::ctrl_c().await;
    })
    .await;
    Ok(())
}
