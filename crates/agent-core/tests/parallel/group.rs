//! What the tests of parallel loops share.

use std::sync::Arc;

use agent_core::testing::{ManualEnvironment, ScriptedProvider, ScriptedReply};
use agent_core::{
    AgentContext, AgentEvent, AgentLoopConfig, Branch, CancellationToken, EvaluationStrategy, LoopId,
    ModelConfig, ParallelError, ParallelLoopResult, agent_loop_parallel, event_channel,
};

use crate::runs::within;

pub(crate) type Outcome = Result<ParallelLoopResult, ParallelError>;

/// A configuration whose model follows this script.
pub(crate) fn config(replies: impl IntoIterator<Item = impl Into<ScriptedReply>>) -> AgentLoopConfig {
    config_of(&ScriptedProvider::new(replies))
}

pub(crate) fn config_of(model: &ScriptedProvider) -> AgentLoopConfig {
    AgentLoopConfig::system(Arc::new(model.clone()), ModelConfig::default())
}

/// The same, on a clock that stands still, and with ids that count up.
pub(crate) fn still(config: AgentLoopConfig, env: &ManualEnvironment) -> AgentLoopConfig {
    let mut config = config;
    config.services.environment = Arc::new(env.clone());
    config
}

pub(crate) fn context() -> AgentContext {
    let mut context = AgentContext::new("Be brief.");
    context.session_id = Some("s".into());
    context.agent_id = Some("a".into());
    context
}

/// Runs them over this context, and gives all events.
pub(crate) async fn run_over(
    context: AgentContext,
    prompt: Option<&str>,
    branches: impl IntoIterator<Item = impl Into<Branch>>,
    strategy: impl EvaluationStrategy,
) -> (Outcome, Vec<AgentEvent>) {
    let (tx, events) = event_channel();
    let prompts = prompt.map(Into::into).into_iter().collect();
    let cancel = CancellationToken::new();
    let outcome = within(agent_loop_parallel(prompts, context, branches, strategy, tx, cancel)).await;
    (outcome, within(events.collect()).await)
}

/// Runs them with a prompt over an empty conversation.
pub(crate) async fn run(
    branches: impl IntoIterator<Item = impl Into<Branch>>,
    strategy: impl EvaluationStrategy,
) -> (Outcome, Vec<AgentEvent>) {
    run_over(context(), Some("What is it?"), branches, strategy).await
}

/// The events of one loop.
pub(crate) fn of_loop(events: &[AgentEvent], loop_id: &LoopId) -> Vec<AgentEvent> {
    events.iter().filter(|e| e.loop_id() == loop_id).cloned().collect()
}

/// The announced branches.
pub(crate) fn announced(events: &[AgentEvent]) -> Vec<LoopId> {
    let start = events.iter().find_map(|e| match e {
        AgentEvent::ParallelLoopStart(start) => Some(start.loop_ids.clone()),
        _ => None,
    });
    start.expect("a group was announced")
}

/// The notes to people.
pub(crate) fn notes(events: &[AgentEvent]) -> Vec<(String, String)> {
    let note = |e: &AgentEvent| match e {
        AgentEvent::ProgressMessage { tool_call_id, tool_name, text, .. } => {
            assert_eq!(tool_name.as_str(), "LlmJudgeEvaluation");
            Some((tool_call_id.to_string(), text.clone()))
        }
        _ => None,
    };
    events.iter().filter_map(note).collect()
}
