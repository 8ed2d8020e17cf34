//! Going on without a prompt, and what is refused.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

#[path = "support/runs.rs"]
mod runs;

use agent_core::compat::SeedVerbs as _;
use std::sync::Arc;

use agent_core::testing::{
    Latch, ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed, transcript,
};
use agent_core::{
    AgentContext, AgentError, AgentEvent, AgentLoopConfig, AgentMessage, AssistantMessage, BasicAgent,
    CancellationToken, Content, Entry, History, LoopError, Message, MessageRef, ModelConfig, QueueKind,
    StopReason, ToolResultMessage, agent_loop, agent_loop_continue, event_channel,
};
use serde_json::json;

use runs::{agent, asked, kinds, run, said, shown_refs, within};

fn exchange() -> Vec<AgentMessage> {
    let mut reply = AssistantMessage::new("mock", "mock", StopReason::ToolUse);
    reply.content.push(Content::tool_call("c1", "look", json!({})));
    let result = ToolResultMessage::new("c1".into(), "look".into(), vec![Content::text("a key")]);
    vec!["Look.".into(), Message::from(reply).into(), Message::from(result).into()]
}

fn config(model: &ScriptedProvider) -> AgentLoopConfig {
    AgentLoopConfig::system(Arc::new(model.clone()), ModelConfig::default())
}

async fn looped(
    model: &ScriptedProvider,
    prompts: Vec<AgentMessage>,
    context: &mut AgentContext,
) -> (Result<Vec<MessageRef>, LoopError>, Vec<AgentEvent>) {
    let (tx, rx) = event_channel();
    let config = config(model);
    let ran = within(agent_loop(prompts, context, &config, tx, CancellationToken::new())).await;
    (ran, within(rx.collect()).await)
}

async fn continued(
    model: &ScriptedProvider,
    context: &mut AgentContext,
) -> (Result<Vec<MessageRef>, LoopError>, Vec<AgentEvent>) {
    let (tx, rx) = event_channel();
    let config = config(model);
    let ran = within(agent_loop_continue(context, &config, tx, CancellationToken::new())).await;
    (ran, within(rx.collect()).await)
}

fn context(messages: Vec<AgentMessage>) -> AgentContext {
    let mut context = AgentContext::new("").with_history(History::repaired(messages).0);
    context.agent_id = Some("a".into());
    context.session_id = Some("s".into());
    context.loop_id = Some("s.m.1".into());
    context
}

/// B-008, REQ-037.
#[tokio::test]
async fn a_continued_run_neither_repeats_nor_reports_what_was_there() {
    let model = ScriptedProvider::texts(["ok"]).exhaustive();
    let mut context = context(vec!["Hi".into()]);
    let (new, events) = continued(&model, &mut context).await;
    let new = new.unwrap();
    assert_eq!(shown_refs(&new), "assistant(ok)");
    assert_eq!(transcript(&events), "agent_start turn_start assistant(ok) turn_end agent_end(completed)");
    assert_well_formed(&events);
    let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!("no end") };
    assert_eq!(end.messages.all(), Some(&*new));
    assert_eq!(asked(&model.requests()[0]), "user(Hi)");
    assert_eq!(context.history.len(), 2);
}

/// B-046.
#[tokio::test]
async fn an_empty_conversation_cannot_be_continued_and_its_queues_stay() {
    let (agent, model) = agent(["x"]);
    agent.steer("s");
    agent.follow_up("f");
    assert!(matches!(agent.continue_run(), Err(AgentError::EmptyTranscript)));
    assert_eq!(agent.queued_messages(QueueKind::Steering).len(), 1);
    assert_eq!(agent.queued_messages(QueueKind::FollowUp).len(), 1);
    assert!(model.requests().is_empty());
    assert!(agent.last_loop_id().is_none(), "no loop began");
}

/// B-047.
#[tokio::test]
async fn after_a_reply_with_nothing_queued_there_is_nothing_to_continue() {
    let (agent, model) = agent(["x"]);
    run(&agent, "Hi").await;
    let error = agent.continue_run().unwrap_err();
    assert!(matches!(error, AgentError::AssistantTail), "{error}");
    assert!(error.to_string().contains("Cannot continue from an assistant message"), "{error}");
    agent.steer_passively("only by the way");
    assert!(matches!(agent.continue_run(), Err(AgentError::AssistantTail)), "passive steering wakes nobody");
    assert_eq!(model.requests().len(), 1);
}

/// B-048.
#[tokio::test]
async fn after_a_reply_each_steering_message_is_answered() {
    let (agent, model) = agent(["a", "b", "c"]);
    run(&agent, "Hi").await;
    agent.steer("s1");
    agent.steer("s2");
    let events = within(agent.continue_run().unwrap().collect()).await;
    assert_eq!(said(&agent), "user(Hi) assistant(a) user(s1) assistant(b) user(s2) assistant(c)");
    assert_well_formed(&events);
    assert_eq!(asked(&model.requests()[1]), "user(Hi) assistant(a) user(s1)");
}

/// B-049.
#[tokio::test]
async fn after_a_reply_a_follow_up_is_the_prompt() {
    let (agent, model) = agent(["a", "b"]);
    run(&agent, "Hi").await;
    agent.follow_up("f");
    let events = within(agent.continue_from_context().unwrap().collect()).await;
    assert_eq!(transcript(&events), "agent_start turn_start user assistant(b) turn_end agent_end(completed)");
    assert_eq!(asked(&model.requests()[1]), "user(Hi) assistant(a) user(f)");
    assert!(!agent.has_queued_messages());
}

/// B-050, REQ-037.
#[tokio::test]
async fn after_a_result_the_model_is_called_with_it_and_nothing_is_said_before_its_reply() {
    let (agent, model) = agent(["Found."]);
    assert!(agent.replace_messages(exchange()).unwrap().is_empty());
    let events = within(agent.continue_run().unwrap().collect()).await;
    assert_eq!(asked(&model.requests()[0]), "user(Look.) assistant() result(c1)");
    assert_eq!(
        kinds(&events)[..4],
        ["agent_start", "turn_start", "message_start", "message_update"].map(str::to_owned)
    );
    let AgentEvent::MessageStart { message, .. } = &events[2] else { panic!("{:?}", events[2]) };
    assert_eq!(message.role(), "assistant");
}

/// B-051, REQ-107, REQ-035.
#[tokio::test]
async fn a_second_run_is_refused_while_one_is_open() {
    let latch = Latch::new();
    let (agent, model) = agent([ScriptedReply::text("a").and_wait(&latch)]);
    let events = agent.prompt("Hi").unwrap();
    assert!(agent.is_streaming(), "at once, before its task has run");
    within(latch.reached()).await;
    let before = (agent.last_loop_id(), runs::shown_refs(&agent.messages()));
    let error = agent.prompt("again").unwrap_err();
    assert!(matches!(error, AgentError::Busy));
    assert!(error.to_string().contains("steer()") && error.to_string().contains("follow_up()"), "{error}");
    assert!(matches!(agent.continue_run(), Err(AgentError::Busy)));
    assert!(matches!(agent.append_message("x"), Err(AgentError::Busy)));
    assert!(matches!(agent.clear_messages(), Err(AgentError::Busy)));
    assert!(matches!(agent.replace_messages(vec![]), Err(AgentError::Busy)));
    assert!(matches!(agent.chat("x").await, Err(AgentError::Busy)));
    assert_eq!((agent.last_loop_id(), runs::shown_refs(&agent.messages())), before);
    assert!(!agent.has_queued_messages());
    latch.open();
    within(events.collect()).await;
    assert_eq!(model.requests().len(), 1);
    assert!(!agent.is_streaming());
    assert_eq!(said(&agent), "user(Hi) assistant(a)");
}

/// B-052, REQ-196.
#[tokio::test]
async fn a_conversation_that_somebody_kept_stays_as_it_was() {
    let model = ScriptedProvider::texts(["ok"]);
    let mut context = context(vec!["Hi".into()]);
    let (kept, history) = (context.clone(), context.history.clone());
    continued(&model, &mut context).await.0.unwrap();
    assert_eq!((kept.history.len(), history.len()), (1, 1));
    assert_eq!(context.history.len(), 2);
    assert_eq!(context.history.shared_units(&history), 1, "the past is shared, not copied");
}

/// REQ-108, REQ-191, B-047.
#[tokio::test]
async fn the_loop_says_what_it_lacks_to_be_continued() {
    let reply = || Message::from(AssistantMessage::new("mock", "mock", StopReason::Stop));
    let mut without_agent = context(vec!["Hi".into()]);
    without_agent.agent_id = None;
    let mut without_session = context(vec!["Hi".into()]);
    without_session.session_id = None;
    let table = [
        (context(vec![]), "Cannot continue: no messages in context"),
        (context(vec!["Hi".into(), reply().into()]), "Cannot continue from assistant message"),
        (without_agent, "agent_loop_continue requires context.agent_id to be set"),
        (without_session, "agent_loop_continue requires context.session_id to be set"),
    ];
    for (mut context, expect) in table {
        let model = ScriptedProvider::texts(["x"]);
        let (ran, events) = continued(&model, &mut context).await;
        let error = ran.unwrap_err();
        assert!(error.to_string().starts_with(expect), "{error}");
        assert!(events.is_empty(), "nothing was said");
        assert!(model.requests().is_empty());
    }
}

/// REQ-190, REQ-036, REQ-191.
#[tokio::test]
async fn the_loop_makes_the_ids_that_are_missing_and_a_continuation_reads_them() {
    let model = ScriptedProvider::texts(["a", "b"]);
    let mut context = AgentContext::new("");
    let (new, events) = looped(&model, vec!["Hi".into()], &mut context).await;
    assert_eq!(shown_refs(&new.unwrap()), "user(Hi) assistant(a)");
    let kinds = kinds(&events);
    assert_eq!((kinds[0].as_str(), kinds[1].as_str()), ("agent_start", "turn_start"));
    assert_eq!(kinds[kinds.len() - 2..], ["turn_end".to_owned(), "agent_end".to_owned()]);
    let ids = (context.agent_id.clone(), context.session_id.clone(), context.loop_id.clone());
    assert!(ids.0.is_some() && ids.1.is_some() && ids.2.is_some(), "{ids:?}");

    context.history.push("More".into()).unwrap();
    continued(&model, &mut context).await.0.unwrap();
    assert_eq!((&context.agent_id, &context.session_id), (&ids.0, &ids.1));
    assert_eq!(context.parent_loop_id, ids.2, "the first loop is the parent of the second one");
    assert!(context.loop_id.unwrap().as_str().ends_with(".2"));
}

/// REQ-190, REQ-210, REQ-214.
#[tokio::test]
async fn each_loop_over_a_context_has_an_id_of_its_own() {
    let model = ScriptedProvider::texts(["a", "b", "c", "d"]);
    let mut context = AgentContext::new("");
    let mut starts = Vec::new();
    for n in 0..4 {
        if n == 3 {
            // An id that the caller sets is used as it is.
            context.loop_id = Some("mine".into());
            context.parent_loop_id = None;
        }
        let (_, events) = looped(&model, vec!["Hi".into()], &mut context).await;
        let Some(AgentEvent::AgentStart(start)) = events.first() else { panic!("{events:?}") };
        assert!(events.iter().all(|e| *e.loop_id() == start.loop_id));
        starts.push((start.loop_id.clone(), start.parent_loop_id.clone()));
    }
    let session = context.session_id.unwrap();
    for (n, (id, parent)) in starts[..3].iter().enumerate() {
        assert!(
            id.as_str().starts_with(session.as_str()) && id.as_str().ends_with(&format!(".{}", n + 1)),
            "{id}"
        );
        assert_eq!(*parent, n.checked_sub(1).map(|before| starts[before].0.clone()));
    }
    assert_eq!(starts[3], ("mine".into(), None));
}

/// B-021.
#[tokio::test]
async fn a_note_at_the_end_can_be_continued_from_where_a_converter_shows_it() {
    let (agent, model) = agent(["ok"]);
    agent.append_message(runs::note()).unwrap();
    let agent = agent.with_hooks(agent_core::Hooks::new().convert_to_llm(|history: History| async move {
        let shown = history.messages().map(|m| match m {
            AgentMessage::Extension(note) => {
                AgentMessage::user(note.data["text"].as_str().unwrap_or_default())
            }
            other => other.clone(),
        });
        Ok(History::repaired(shown.map(Entry::from)).0)
    }));
    let events = within(agent.continue_run().unwrap().collect()).await;
    assert!(transcript(&events).ends_with("agent_end(completed)"));
    assert_eq!(asked(&model.requests()[0]), "user(remember)");
    assert_eq!(agent.messages()[0].role(), "extension", "the stored note is a note");
}

#[tokio::test]
async fn a_prompt_that_may_not_enter_alone_is_refused_and_nothing_changes() {
    let (agent, model) = agent(["x"]);
    let result = ToolResultMessage::new("c1".into(), "look".into(), vec![]);
    let error = agent.prompt(Message::from(result.clone())).unwrap_err();
    assert!(matches!(error, AgentError::Message(_)), "{error}");
    assert!(!agent.is_streaming() && agent.messages().is_empty() && agent.last_loop_id().is_none());
    assert!(matches!(agent.append_message(Message::from(result.clone())), Err(AgentError::Message(_))));

    let mut context = AgentContext::new("");
    let (ran, events) = looped(&model, vec![Message::from(result).into()], &mut context).await;
    assert!(matches!(ran, Err(LoopError::Prompt(_))));
    assert!(events.is_empty());
    assert!(context.history.is_empty());
}

#[tokio::test]
async fn tools_can_be_called_again_after_a_continuation_and_names_of_calls_stay_unique() {
    let (agent, model) = agent([ScriptedReply::call("c1", "look", json!({})), "ok".into()]);
    let tool = ScriptedTool::saying("look", "x");
    let agent: BasicAgent = agent.with_tool(tool.clone());
    agent.replace_messages(exchange()).unwrap();
    let events = within(agent.continue_run().unwrap().collect()).await;
    assert_well_formed(&events);
    assert_eq!(tool.calls().len(), 1);
    assert_eq!(model.requests().len(), 2, "the strict model would refuse a repeated id");
    assert_eq!(agent.messages().len(), 6);
}
