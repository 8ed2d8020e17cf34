use super::{ElaborateEvaluation, SeedSetters as _, SeedVerbs as _, TransparentEvaluation};
use crate::evaluation::{MostTokensEvaluation, OnlyBranchEvaluation};
use crate::testing::ScriptedProvider;
use crate::{
    AgentMessage, BasicAgent, ContinuationKind, ModelConfig, QueueKind, QueueMode, ThinkingLevel,
    event_channel,
};

fn agent(replies: &[&str]) -> BasicAgent {
    BasicAgent::new(ModelConfig::default()).with_provider(ScriptedProvider::texts(replies.iter().copied()))
}

#[tokio::test]
async fn the_other_verbs_start_the_same_runs() {
    let agent = agent(&["one", "two", "three", "four", "five"]);
    let (tx, mut events) = event_channel();
    agent.prompt_with_sender("1", tx).unwrap();
    assert_eq!(events.end().await.into_reply().unwrap().text(), "one");

    let (tx, mut events) = event_channel();
    agent.prompt_messages_with_sender(vec![AgentMessage::user("2")], tx).unwrap();
    assert_eq!(events.end().await.into_reply().unwrap().text(), "two");

    assert_eq!(agent.prompt_merging("3", 4).unwrap().end().await.into_reply().unwrap().text(), "three");

    agent.append_message(AgentMessage::user("4")).unwrap();
    assert_eq!(agent.continue_from_context().unwrap().end().await.into_reply().unwrap().text(), "four");

    agent.append_message(AgentMessage::user("5")).unwrap();
    let (tx, mut events) = event_channel();
    agent.continue_with_sender(ContinuationKind::Default, tx).unwrap();
    assert_eq!(events.end().await.into_reply().unwrap().text(), "five");
    assert_eq!(agent.get_context().len(), 10);
}

#[tokio::test]
async fn a_conversation_is_saved_restored_and_cleared() {
    let first = agent(&["Hello."]);
    first.chat("Hi").await.unwrap();
    let saved = first.save_messages().unwrap();
    let second = agent(&[]);
    assert!(second.restore_messages(&saved).unwrap().is_empty());
    assert_eq!(second.messages(), first.messages());
    second.clear_context().unwrap();
    assert!(second.messages().is_empty());
    assert!(second.restore_messages("no list").is_err());
}

#[test]
fn queues_are_seen_and_cleared_one_by_one() {
    let agent = agent(&[]).with_steering_mode(QueueMode::All).with_follow_up_mode(QueueMode::All);
    agent.steer("now");
    agent.steer_passively("by the way");
    agent.follow_up("later");
    assert!(agent.has_queued_messages());
    assert_eq!(agent.queued_messages(QueueKind::FollowUp).len(), 1);
    agent.clear_steering_queue();
    assert_eq!(agent.peek_queued_messages(), vec![AgentMessage::user("later")]);
    agent.clear_follow_up_queue();
    assert!(!agent.has_queued_messages());
    assert_eq!((agent.steering_mode(), agent.follow_up_mode()), (QueueMode::All, QueueMode::All));
}

#[test]
fn a_setter_sets_the_option_that_it_names() {
    let mut agent = agent(&[]).with_temperature(0.5).with_config_id("mine").without_cache_watch();
    agent.set_thinking_level(ThinkingLevel::High);
    let config = agent.config();
    assert_eq!(config.request.temperature, Some(0.5));
    assert_eq!(config.request.thinking_level, ThinkingLevel::High);
    assert_eq!(config.policy.config_id.as_deref(), Some("mine"));
    assert!(!config.policy.watch_cache);
}

#[test]
fn an_agent_of_the_old_form_is_an_ollama_agent_of_ten_turns() {
    let agent = BasicAgent::from_legacy(Some("llama3"), Some("http://box:11434"), Some("Be brief."));
    assert_eq!(agent.model().id, "llama3");
    assert_eq!(&*agent.system_prompt(), "Be brief.");
    assert_eq!(agent.config().policy.limits.unwrap().max_turns, Some(10));
}

/// REQ-200.
#[test]
fn the_other_names_of_strategies_are_the_same_types() {
    let _: OnlyBranchEvaluation = TransparentEvaluation;
    let _: MostTokensEvaluation = ElaborateEvaluation;
}
