//! A compaction strategy that lets a model summarize what it removes.

mod prompt;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::compact::{CompactionDraft, CompactionError, Piece, percent, timestamp};
use super::config::ContextConfig;
use super::strategy::{CompactionContext, CompactionOutcome, CompactionStrategy};
use crate::history::{Entry, History};
use crate::identity::{LoopId, Timestamp};
use crate::message::{AgentMessage, AssistantMessage, Content, LlmMessage, Message, StopReason, UserMessage};
use crate::model::{CacheConfig, ModelConfig};
use crate::provider::{ModelRequest, ProviderError, StreamProvider, complete};

pub use prompt::SUMMARY_INSTRUCTIONS;

/// The first line of the message with the summary. A later compaction recognizes the summary by it.
pub const SUMMARY_HEADING: &str = "[Summary of the conversation before the following messages]\n";

/// The share of the budget that the user's messages of the current loop may take.
const TASK_PERCENT: u8 = 20;

type Pinned = Arc<dyn Fn(&AgentMessage) -> bool + Send + Sync>;

/// Replaces old messages by a summary that a model writes.
///
/// The conversation then consists of the messages that the user sent in the current loop (up to 20 % of the budget), the
/// summary, the pinned messages, and the newest turns as a whole. The next compaction gives the model the earlier summary
/// together with the messages after it, and replaces it by the extended one. A reply and its results stay together.
///
/// A compaction makes one model call, with the provider of the run and by default with its model. The call is charged to
/// the budget, is cancelled with the run, and its result is recorded: a resumed, forked or replayed run has the same
/// summary. If the call fails, if the reply is empty or breaks off at its limit, or if the result would not fit the
/// budget, [`DefaultCompaction`](super::DefaultCompaction) shortens the conversation, and
/// [`CompactionEnded::fallback`](crate::event::CompactionEnded::fallback) contains the reason.
///
/// ```
/// use agent_core::context::SummarizingCompaction;
/// use agent_core::{BasicAgent, ModelConfig};
///
/// let cheap = ModelConfig::ollama("qwen3:4b").with_limits(32_768, 4_096);
/// let strategy = SummarizingCompaction::new()
///     .with_model(cheap)
///     .with_pinned(|message| message.text().starts_with("Rule:"));
/// let agent = BasicAgent::new(ModelConfig::default()).with_compaction_strategy(strategy);
/// # drop(agent);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct SummarizingCompaction {
    model: Option<Arc<ModelConfig>>,
    instructions: Arc<str>,
    max_summary_tokens: u32,
    recent_percent: u8,
    pinned: Option<Pinned>,
}

impl Default for SummarizingCompaction {
    fn default() -> Self {
        Self {
            model: None,
            instructions: Arc::from(SUMMARY_INSTRUCTIONS),
            max_summary_tokens: 4_096,
            recent_percent: 30,
            pinned: None,
        }
    }
}

impl fmt::Debug for SummarizingCompaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SummarizingCompaction")
            .field("model", &self.model)
            .field("max_summary_tokens", &self.max_summary_tokens)
            .field("recent_percent", &self.recent_percent)
            .field("pinned", &self.pinned.is_some())
            .finish_non_exhaustive()
    }
}

impl SummarizingCompaction {
    /// Creates the strategy with the model of the run and the default prompt.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the model that summarizes. Default: the model of the run. The provider of the run serves it.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<Arc<ModelConfig>>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the system prompt of the model that summarizes. Default: [`SUMMARY_INSTRUCTIONS`]. The limit of the summary's
    /// length is added in any case.
    #[must_use]
    pub fn with_instructions(mut self, text: impl Into<Arc<str>>) -> Self {
        self.instructions = text.into();
        self
    }

    /// Sets the maximum tokens of the summary; 4,096 by default, and at most a quarter of the budget. The request allows
    /// twice as many output tokens, because some models think before they answer.
    #[must_use]
    pub fn with_max_summary_tokens(mut self, tokens: u32) -> Self {
        self.max_summary_tokens = tokens;
        self
    }

    /// Sets the percentage of the budget that the newest turns may take; 30 by default, at most 60. The newest turn is
    /// preserved in any case. A lower value makes compactions rarer, so that the prompt cache is hit more often.
    #[must_use]
    pub fn with_recent_percent(mut self, percent: u8) -> Self {
        self.recent_percent = percent.min(60);
        self
    }

    /// Preserves the messages for which `pinned` returns true, as a whole. A reply and its results are preserved together.
    #[must_use]
    pub fn with_pinned(mut self, pinned: impl Fn(&AgentMessage) -> bool + Send + Sync + 'static) -> Self {
        self.pinned = Some(Arc::new(pinned));
        self
    }

    fn is_pinned(&self, entries: &[Entry]) -> bool {
        self.pinned.as_ref().is_some_and(|pinned| entries.iter().any(|entry| pinned(entry.message())))
    }

    /// Divides the pieces into those that stay and those that are summarized.
    fn plan(&self, draft: &CompactionDraft<'_>, budget: u64) -> Vec<Fate> {
        let newest = draft.newest();
        let mut fates: Vec<Fate> = draft
            .pieces
            .iter()
            .enumerate()
            .map(|(at, piece)| match () {
                () if previous_summary(&piece.entries).is_some() => Fate::Replaced,
                () if Some(at) == newest || self.is_pinned(&piece.entries) => Fate::Kept,
                () if !piece.is_visible() => Fate::Replaced,
                () => Fate::Summarized,
            })
            .collect();
        let mut keep_within = |room: u64, places: &mut dyn Iterator<Item = usize>, stops: bool| {
            let mut room = room;
            for at in places {
                let Some((piece, fate)) = draft.pieces.get(at).zip(fates.get_mut(at)) else { continue };
                match room.checked_sub(piece.tokens()) {
                    Some(rest) if *fate == Fate::Summarized => (room, *fate) = (rest, Fate::Kept),
                    None if stops => break,
                    _ => {}
                }
            }
        };
        let prompts = prompts_of_newest_loop(draft);
        keep_within(percent(budget, TASK_PERCENT), &mut prompts.into_iter(), false);
        keep_within(percent(budget, self.recent_percent), &mut (0..draft.pieces.len()).rev(), true);
        fates
    }

    async fn summarize(
        &self,
        cx: &CompactionContext,
        earlier: Option<&str>,
        removed: &[&AgentMessage],
        limit: u32,
    ) -> Result<AssistantMessage, CompactionError> {
        let (Some(provider), Some(own)) = (&cx.provider, &cx.model) else {
            return Err(CompactionError::Failed("no model is available to summarize with".to_owned()));
        };
        let model = self.model.as_ref().unwrap_or(own);
        let model = provider.complete_model(model).map_or_else(|| Arc::clone(model), Arc::new);
        let output = limit.saturating_mul(2).min(model.max_tokens.unwrap_or(u32::MAX));
        let system = prompt::system(&self.instructions, limit);
        let counter = &*cx.counter;
        // A model whose window is unknown gets at most as much as the conversation may have.
        let window = model.context_window.map_or(cx.budget, u64::from);
        let room = window
            .saturating_sub(u64::from(output))
            .saturating_sub(counter.count_text(&system))
            .saturating_sub(prompt::OVERHEAD);
        let text = prompt::question(earlier, removed, room, counter).ok_or_else(|| {
            CompactionError::Failed(format!(
                "the earlier summary does not fit the window of {}: use a model with a larger window, or lower \
                 max_summary_tokens",
                model.id
            ))
        })?;
        let mut history = History::new();
        history.push(AgentMessage::user(text)).map_err(|e| CompactionError::Failed(e.to_string()))?;
        let mut request = ModelRequest::new(model, history);
        request.system_prompt = system.into();
        request.options.max_tokens = Some(output);
        request.options.cache_config = CacheConfig::disabled();
        complete(&**provider as &dyn StreamProvider, &request, &cx.cancel).await.map_err(
            |error| match error {
                ProviderError::Cancelled => CompactionError::Cancelled,
                error => CompactionError::Provider(error),
            },
        )
    }
}

/// What becomes of a piece of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Summarized,
    /// Removed without being shown to the model: an earlier summary, a note or a failed reply.
    Replaced,
}

#[async_trait]
impl CompactionStrategy for SummarizingCompaction {
    async fn compact(
        &self,
        history: &History,
        _config: &ContextConfig,
        cx: &CompactionContext,
    ) -> Result<CompactionOutcome, CompactionError> {
        let mut draft = CompactionDraft::new(history, &*cx.counter);
        let fates = self.plan(&draft, cx.budget);
        let summarized = || {
            let all = draft.pieces.iter().zip(&fates);
            all.filter(|(_, fate)| **fate == Fate::Summarized).map(|(piece, _)| piece)
        };
        let saved = summarized().map(Piece::tokens).fold(0, u64::saturating_add);
        let limit = u32::try_from(cx.budget / 4).unwrap_or(u32::MAX).min(self.max_summary_tokens);
        if saved <= u64::from(limit) {
            return Err(CompactionError::Failed(
                "there is less to summarize than the summary may have: the pinned messages and the newest turns fill the \
                 budget"
                    .to_owned(),
            ));
        }
        let earlier = draft.pieces.iter().find_map(|piece| previous_summary(&piece.entries));
        let messages: Vec<&AgentMessage> =
            summarized().flat_map(|piece| &piece.entries).map(Entry::message).collect();
        let since = messages.last().and_then(|message| message.as_llm()).map(timestamp).unwrap_or_default();
        let reply = self.summarize(cx, earlier, &messages, limit).await?;
        let usage = reply.usage;
        let summary = summary_of(&reply)?;

        let place = fates.iter().position(|fate| *fate != Fate::Kept);
        for (at, _) in fates.iter().enumerate().filter(|(_, fate)| **fate != Fate::Kept) {
            let entries = if Some(at) == place {
                vec![draft.entry(summary_message(&summary, since))]
            } else {
                Vec::new()
            };
            draft.replace(at, entries);
        }
        if draft.tokens() > cx.budget {
            return Err(CompactionError::Failed(format!(
                "the conversation has {} tokens with the summary, and its budget is {}",
                draft.tokens(),
                cx.budget
            )));
        }
        Ok(CompactionOutcome::splices(draft.into_splices()).with_usage(usage))
    }
}

/// Returns the text of the reply, if it is complete.
fn summary_of(reply: &AssistantMessage) -> Result<String, CompactionError> {
    let text = reply.text();
    let failed = |why: &str| Err(CompactionError::Failed(why.to_owned()));
    match reply.stop_reason {
        StopReason::Length => failed("the summary reached its limit of output tokens"),
        StopReason::Stop if text.trim().is_empty() => failed("the model returned an empty summary"),
        StopReason::Stop => Ok(text.trim().to_owned()),
        _ => failed("the model did not finish the summary"),
    }
}

fn summary_message(summary: &str, since: Timestamp) -> AgentMessage {
    let content = vec![Content::text(format!("{SUMMARY_HEADING}{summary}"))];
    LlmMessage::new(Message::User(UserMessage::new(content, since))).into()
}

/// Returns the summary of an earlier compaction, without its heading.
fn previous_summary(entries: &[Entry]) -> Option<&str> {
    let Message::User(user) = entries.first()?.message().as_llm()? else { return None };
    let [Content::Text(text)] = user.content.as_slice() else { return None };
    text.text.strip_prefix(SUMMARY_HEADING)
}

/// Returns the places of the user's messages in the newest loop, oldest first. Messages of which the loop is unknown are
/// those of a caller; of these, only the newest counts.
fn prompts_of_newest_loop(draft: &CompactionDraft<'_>) -> Vec<usize> {
    let by_user = |at: &usize| {
        let entries = &draft.pieces.get(*at)?.entries;
        if previous_summary(entries).is_some() {
            return None;
        }
        match entries.first()?.message() {
            AgentMessage::Llm(LlmMessage { message: Message::User(user), turn_id })
                if user.deferred.is_none() =>
            {
                Some(turn_id.as_ref().map(|turn| &turn.loop_id))
            }
            _ => None,
        }
    };
    let all = || (0..draft.pieces.len()).filter_map(|at| by_user(&at).map(|of_loop| (at, of_loop)));
    let newest: Option<(usize, Option<&LoopId>)> = all().next_back();
    match newest {
        None => Vec::new(),
        Some((at, None)) => vec![at],
        Some((_, newest)) => all().filter(|(_, of_loop)| *of_loop == newest).map(|(at, _)| at).collect(),
    }
}
