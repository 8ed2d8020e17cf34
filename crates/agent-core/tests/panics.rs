//! A panic of the caller's code under `panic = "unwind"` ends at most its run, which still has all its closing events.
//!
//! Panics of tools, hooks, filters, listeners, providers' calls and strategies are tested with these.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails loudly")]

use std::sync::Arc;

use agent_core::journal::{Journal, JournalEntry, JournalError};
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed};
use agent_core::{
    AgentEvent, AgentMessage, BasicAgent, CancellationToken, Completion, EventSink, ModelConfig,
    ModelRequest, ProviderError, RunEnd, StreamProvider, TokenCounter, ToolResult,
};
use serde_json::json;

fn working(model: ScriptedProvider) -> BasicAgent {
    let tool = ScriptedTool::new("work", |_, _| async { Ok(ToolResult::text("done")) });
    BasicAgent::new(ModelConfig::default()).with_provider(model).with_tool(tool)
}

fn script() -> ScriptedProvider {
    ScriptedProvider::new([ScriptedReply::call("c", "work", json!({})), "Done.".into(), "Again.".into()])
}

/// A store that panics at the n-th entry.
#[derive(Debug)]
struct BrokenJournal(std::sync::atomic::AtomicUsize);

#[async_trait::async_trait]
impl Journal for BrokenJournal {
    async fn append(&self, _: JournalEntry<'_>) -> Result<(), JournalError> {
        let left = self.0.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
        assert!(left != 1, "the store is broken");
        Ok(())
    }
}

#[tokio::test]
async fn a_journal_that_panics_ends_the_run() {
    for at in 1..6 {
        let journal = Arc::new(BrokenJournal(at.into()));
        let agent = working(script()).configure(|config| config.services.journal = Some(journal));
        let events = agent.prompt("Hi").unwrap().collect().await;
        assert_well_formed(&events);
        assert!(matches!(events.last(), Some(AgentEvent::AgentEnd(_))), "{at}: {:?}", events.last());
        assert!(!agent.is_streaming(), "{at}");
    }
}

#[derive(Debug)]
struct BrokenCounter;

impl TokenCounter for BrokenCounter {
    fn count_text(&self, text: &str) -> u64 {
        assert!(!text.contains("Done."), "it cannot count");
        1
    }

    fn count_message(&self, message: &AgentMessage) -> u64 {
        self.count_text(&message.text())
    }
}

#[tokio::test]
async fn a_token_counter_that_panics_ends_the_run_with_its_closing_events() {
    let agent = working(script()).configure(|config| config.services.token_counter = Arc::new(BrokenCounter));
    let events = agent.prompt("Hi").unwrap().collect().await;
    assert_well_formed(&events);
    assert!(matches!(events.last(), Some(AgentEvent::AgentEnd(_))), "{:?}", events.last());
    assert!(!agent.is_streaming());
}

/// A provider whose facts and bodies panic, and whose calls do not.
struct BrokenFacts(ScriptedProvider);

#[async_trait::async_trait]
impl StreamProvider for BrokenFacts {
    fn provider_id(&self) -> &str {
        "broken"
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        self.0.stream(request, sink, cancel).await
    }

    fn complete_model(&self, _: &ModelConfig) -> Option<ModelConfig> {
        panic!("no facts")
    }
}

#[tokio::test]
async fn a_provider_whose_facts_panic_is_called_without_them() {
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(BrokenFacts(ScriptedProvider::texts(["Hello."])));
    let end = agent.prompt("Hi").unwrap().end().await;
    assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
}
