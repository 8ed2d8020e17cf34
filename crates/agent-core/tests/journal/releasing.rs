//! A journal that can read messages back: the run drops those that compactions removed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agent_core::journal::{Journal, JournalEntry, JournalError, JournalWarning};
use agent_core::run::{ReadMessagesError, Run, StoredMessages};
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentEvent, BasicAgent, ContextConfig, ExecutionLimits, MessageRef, ModelConfig, ToolResult,
};
use async_trait::async_trait;
use serde_json::json;

const TURNS: usize = 12;

/// Keeps the messages of a run, and counts how often it is asked for a warning.
#[derive(Debug, Clone, Default)]
struct Messages(Arc<Mutex<Vec<MessageRef>>>, Arc<AtomicUsize>);

#[async_trait]
impl StoredMessages for Messages {
    async fn read(&self) -> Result<Vec<MessageRef>, ReadMessagesError> {
        Ok(self.0.lock().unwrap().clone())
    }
}

#[async_trait]
impl Journal for Messages {
    async fn append(&self, entry: JournalEntry<'_>) -> Result<(), JournalError> {
        for event in entry.events {
            if let AgentEvent::MessageEnd { message, superseded: false, .. } = event {
                self.0.lock().unwrap().push(message.clone());
            }
        }
        Ok(())
    }

    fn stored_messages(&self, _: &Run) -> Option<Arc<dyn StoredMessages>> {
        Some(Arc::new(self.clone()))
    }

    fn warning(&self, _: &Run) -> Option<JournalWarning> {
        self.1.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[tokio::test]
async fn messages_that_compactions_removed_are_only_in_the_journal() {
    let journal = Messages::default();
    let calls = (1..TURNS).map(|n| ScriptedReply::call(&format!("c{n}"), "read", json!({ "n": n })));
    let tool = ScriptedTool::new("read", |_, _| async { Ok(ToolResult::text("some words\n".repeat(1_000))) });
    let context = ContextConfig::default().with_max_context_tokens(12_000).with_keep_recent(4);
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(ScriptedProvider::new(calls.chain([ScriptedReply::text("done")])))
        .with_tool(tool)
        .with_limits(ExecutionLimits::unlimited())
        .configure(|config| config.policy.context = Some(context))
        .with_journal(Arc::new(journal.clone()));
    let events = agent.prompt("go").unwrap().collect().await;
    let compactions = events.iter().filter(|event| matches!(event, AgentEvent::CompactionEnded(_))).count();
    assert!(compactions > 1, "{compactions}");
    let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!("no end") };
    assert_eq!(end.messages.len(), 2 * TURNS);
    assert!(end.messages.released() > 0 && end.messages.all().is_none());
    let stored = journal.0.lock().unwrap().clone();
    // Compactions can also replace messages, so those in memory are not always the last ones.
    assert!(end.messages.in_memory().iter().all(|message| stored.contains(message)));
    assert_eq!(end.messages.in_memory().last(), stored.last());
    assert_eq!(end.messages.read().await.unwrap(), stored);
    assert_eq!(journal.1.load(Ordering::Relaxed), TURNS, "once at the end of each turn");
}
