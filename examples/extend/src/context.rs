//! A token counter and a compaction strategy.

use async_trait::async_trait;
use looptree::context::{
    CompactionContext, CompactionError, CompactionOutcome, CompactionStrategy, ContextConfig, TokenCounter,
};
use looptree::history::{History, MessageRef};

/// Counts a word as one token. The overhead of messages and calls is that of the trait's default methods.
#[derive(Debug)]
pub struct Words;

impl TokenCounter for Words {
    fn count_text(&self, text: &str) -> u64 {
        text.split_whitespace().count() as u64
    }
}

/// Keeps the first message and as many of the newest as fit, and puts a note in the place of the others.
#[derive(Debug)]
pub struct KeepEnds;

#[async_trait]
impl CompactionStrategy for KeepEnds {
    async fn compact(
        &self,
        history: &History,
        _: &ContextConfig,
        cx: &CompactionContext,
    ) -> Result<CompactionOutcome, CompactionError> {
        let all: Vec<MessageRef> = history.entries().map(|entry| entry.shared().clone()).collect();
        let Some((first, rest)) = all.split_first() else {
            return Ok(CompactionOutcome::splices(Vec::new()));
        };
        let note = |omitted: usize| MessageRef::from(format!("({omitted} earlier messages are left out)"));

        let mut size = cx.counter.count_message(first) + cx.counter.count_message(&note(rest.len()));
        let mut kept = 0;
        for message in rest.iter().rev() {
            size += cx.counter.count_message(message);
            if size > cx.budget {
                break;
            }
            kept += 1;
        }
        if kept == 0 {
            return Err(CompactionError::Failed("the newest message does not fit".into()));
        }
        let omitted = rest.len() - kept;
        if omitted == 0 {
            return Ok(CompactionOutcome::splices(Vec::new()));
        }
        let newest = rest[omitted..].iter().cloned();
        Ok(CompactionOutcome::messages([first.clone(), note(omitted)].into_iter().chain(newest)))
    }
}
