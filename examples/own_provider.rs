//! A provider of your own: it answers sums by itself, and everything else goes to another model.
//!
//! `cargo run -p looptree-examples --example own_provider` has a script as the other model.
//! `-- --model anthropic/claude-sonnet-5-5` has a real one; `docs/examples.md` lists the names and keys of all providers.
#![expect(clippy::print_stdout, reason = "a program that talks to the user")]

use std::sync::Arc;

use async_trait::async_trait;
use looptree::message::{AgentMessage, StopReason};
use looptree::model::ApiProtocol;
use looptree::prelude::*;
use looptree::provider::{Completion, EventSink, ModelRequest, StreamEvent};
use looptree::testing::ScriptedProvider;
use looptree::{CancellationToken, ErrorKind, ProviderError, ProviderRegistry, StreamProvider};

/// Adds whole numbers. A real provider would send the request to a server and pass the reply on while it arrives.
struct Adder;

#[async_trait]
impl StreamProvider for Adder {
    fn provider_id(&self) -> &'static str {
        "adder"
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        _cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        let text = request.history.last().map(AgentMessage::text).unwrap_or_default();
        let numbers: Result<Vec<u64>, _> = text.split('+').map(|number| number.trim().parse()).collect();
        // The kind of an error decides what follows: a retry, a compaction, another model, or the end.
        let numbers = numbers.map_err(|_| ProviderError::new(ErrorKind::Api, "this is no sum"))?;
        sink(StreamEvent::Start { response_id: None, model: None });
        sink(StreamEvent::TextStart { index: 0 });
        sink(StreamEvent::TextDelta { index: 0, delta: &numbers.iter().sum::<u64>().to_string() });
        sink(StreamEvent::BlockEnd { index: 0 });
        sink(StreamEvent::Usage(Usage::new(numbers.len() as u64, 1, 0, 0)));
        Ok(Completion::new(StopReason::Stop))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut registry = ProviderRegistry::default();
    registry.register(ApiProtocol::custom("adder")?, Arc::new(Adder));
    let other = looptree_examples::model()?.unwrap_or_else(|| {
        let script = ScriptedProvider::texts(["I am another model, and my answers are scripted."]);
        registry.register(ModelConfig::default().api, Arc::new(script));
        ModelConfig::default()
    });

    let agent = looptree::agent(ModelConfig::custom("adder", "example", "adder-1")?)
        .with_provider(registry)
        .with_route(Route::new(other).on([ErrorKind::Api]));

    for prompt in ["20 + 20 + 2", "Who are you?"] {
        let answer = agent.chat(prompt).await?;
        let history = agent.history();
        let by = history.last_reply().map(|reply| reply.model.to_string()).unwrap_or_default();
        println!("{prompt} -> {answer} ({by})");
    }
    Ok(())
}
