//! Extends Looptree from outside, with its public API only, and shows each extension at work. Needs no network.

mod context;
mod evaluation;
mod provider;
mod store;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use looptree::context::{ContextConfig, TokenCounter as _};
use looptree::prelude::*;
use looptree::retry::RetryConfig;
use looptree::{EventSender, ProviderRegistry};

use context::{KeepEnds, Words};
use evaluation::Mentions;
use provider::Toy;
use store::RedbStore;

type Shown = Result<String, Box<dyn Error>>;

/// Returns an error with this text unless the condition holds.
fn ensure(condition: bool, text: impl Into<String>) -> Result<(), Box<dyn Error>> {
    if condition { Ok(()) } else { Err(text.into().into()) }
}

/// Returns the registry of the built-in providers and the toy.
fn registry() -> Result<ProviderRegistry, Box<dyn Error>> {
    let mut registry = ProviderRegistry::default();
    registry.register(provider::protocol()?, Arc::new(Toy));
    Ok(registry)
}

fn toy_agent() -> Result<BasicAgent, Box<dyn Error>> {
    Ok(looptree::agent(provider::model("toy-1")?).with_provider(registry()?))
}

/// Asks an Ollama server that refuses the connection. The route of the custom protocol answers, and the store in `redb`
/// records it.
async fn provider_and_store(path: &Path) -> Shown {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", listener.local_addr()?);
    drop(listener);

    let store = RedbStore::open(path)?;
    let mut agent = looptree::agent(ModelConfig::ollama("qwen3").with_base_url(address))
        .with_provider(registry()?)
        .with_route(Route::new(provider::model("toy-1")?))
        .configure(|config| config.policy.retry = RetryConfig::none())
        .with_session_id("s-1");
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    let mut events = agent.prompt("who answers?")?;
    let mut route = None;
    while let Some(event) = events.recv().await {
        if let AgentEvent::RouteChanged(change) = event {
            route = Some((change.from.provider.clone(), change.to.provider.clone()));
        }
    }
    ensure(route == Some(("ollama".into(), "acme".into())), format!("the route was {route:?}"))?;
    recorder.close().await?;

    let session = store.load_session("s-1").await?;
    let history = session.history()?;
    ensure(history == agent.history(), "the store has another history")?;
    let reply = history.last_reply().ok_or("no reply was recorded")?;
    ensure(reply.api == Some(provider::protocol()?), format!("the protocol was {:?}", reply.api))?;
    ensure(
        serde_json::to_string(&*session)?.contains("\"custom:toy\""),
        "the record does not name the protocol",
    )?;
    let answer = history.last().map(|m| m.text()).unwrap_or_default();
    ensure(answer == "WHO ANSWERS?", format!("the answer was {answer:?}"))?;
    Ok(answer)
}

/// Talks until the conversation is too long for 60 words.
async fn compaction() -> Shown {
    let agent =
        toy_agent()?.with_token_counter(Words).with_compaction_strategy(KeepEnds).configure(|config| {
            let small = ContextConfig::default().with_max_context_tokens(60).with_system_prompt_tokens(0);
            config.policy.context = Some(small);
        });
    let mut compacted = 0;
    for n in 0..8 {
        let mut events = agent.prompt(format!("question {n} has exactly six words"))?;
        while let Some(event) = events.recv().await {
            if let AgentEvent::CompactionEnded(end) = event {
                ensure(end.fallback.is_none(), format!("the strategy failed: {:?}", end.fallback))?;
                ensure(end.messages_after < end.messages_before, "the result is not shorter")?;
                compacted += 1;
            }
        }
    }
    ensure(compacted > 0, "nothing was compacted")?;
    let history = agent.history();
    let sizes: Vec<u64> = history.messages().map(|message| Words.count_message(message)).collect();
    let asked: u64 = sizes.iter().take(sizes.len() - 1).sum();
    ensure(asked <= 60, format!("the last request had {asked} words"))?;
    let texts: Vec<String> = history.messages().map(|m| m.text()).collect();
    ensure(texts.first().is_some_and(|t| t.starts_with("question 0")), "the first message is gone")?;
    ensure(texts.iter().any(|t| t.contains("are left out")), format!("no note among {texts:?}"))?;
    Ok(format!("{compacted} compactions, {} messages left", texts.len()))
}

/// Asks in three ways and takes the shortest answer that has the word.
async fn evaluation() -> Shown {
    let agent = toy_agent()?;
    let branches = ["no", "a long answer with the word yes", "yes"].map(BranchSpec::asking);
    let result = agent.explore_and_adopt(branches, Mentions("YES"), EventSender::none()).await?;
    ensure(result.selected_index() == 2, format!("branch {} was selected", result.selected_index()))?;
    ensure(agent.history().last().map(|m| m.text()).as_deref() == Some("YES"), "the branch was not adopted")?;
    Ok(format!("branch {}", result.selected_index()))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    println!(
        "provider on a route, recorded by redb: {}",
        provider_and_store(&folder.path().join("db")).await?
    );
    println!("token counter and compaction: {}", compaction().await?);
    println!("evaluation: {}", evaluation().await?);
    Ok(())
}
