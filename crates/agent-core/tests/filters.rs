//! Filters over what a user says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

#[path = "support/runs.rs"]
mod runs;

use agent_core::compat::SeedSetters as _;
use std::sync::{Arc, Mutex};

use agent_core::testing::{ScriptedProvider, assert_well_formed, transcript};
use agent_core::{
    AgentContext, AgentEvent, AgentLoopConfig, AgentMessage, BasicAgent, CancellationToken, Content, Ended,
    FilterResult, InputFilter, Message, ModelConfig, agent_loop, event_channel,
};
use async_trait::async_trait;

use runs::{agent, asked, run, said, within};

/// Notes what it sees, and answers.
struct Noting {
    seen: Arc<Mutex<Vec<String>>>,
    name: &'static str,
    answer: FilterResult,
}

#[async_trait]
impl InputFilter for Noting {
    async fn filter(&self, text: &str) -> FilterResult {
        tokio::task::yield_now().await;
        self.seen.lock().unwrap().push(format!("{}: {text}", self.name));
        self.answer.clone()
    }
}

fn noting(seen: &Arc<Mutex<Vec<String>>>, name: &'static str, answer: FilterResult) -> Noting {
    Noting { seen: Arc::clone(seen), name, answer }
}

fn warn(text: &str) -> FilterResult {
    FilterResult::Warn(text.into())
}

fn reject(text: &str) -> FilterResult {
    FilterResult::Reject(text.into())
}

/// REQ-068, REQ-022.
#[tokio::test]
async fn filters_see_the_text_of_all_user_messages_in_their_order_before_the_model_does() {
    let (agent, model) = agent(["ok"]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let calls = Arc::new(Mutex::new(Vec::new()));
    let (count, provider) = (Arc::clone(&calls), model.clone());
    let agent = agent
        .with_input_filter(noting(&seen, "first", FilterResult::Pass))
        .with_input_filter(noting(&seen, "second", FilterResult::Pass))
        .with_input_filter(move |_: &str| {
            count.lock().unwrap().push(provider.requests().len());
            FilterResult::Pass
        });
    let picture = Content::image("aGk=", "image/png");
    let two = Message::user_content(vec![Content::text("a"), picture, Content::text("b")]);
    let prompts: Vec<AgentMessage> = vec![two.into(), runs::note(), "c".into()];
    within(agent.prompt(prompts).unwrap().collect()).await;
    assert_eq!(*seen.lock().unwrap(), ["first: a\nb\nc", "second: a\nb\nc"]);
    assert_eq!(*calls.lock().unwrap(), [0]);
    assert_eq!(model.requests().len(), 1);
}

/// REQ-069.
#[tokio::test]
async fn the_first_refusal_ends_the_run_before_the_model_is_called() {
    let (agent, model) = agent(["later"]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let agent = agent
        .with_input_filter(noting(&seen, "first", warn("odd")))
        .with_input_filter(noting(&seen, "second", reject("not here")))
        .with_input_filter(noting(&seen, "third", reject("never asked")));
    let events = run(&agent, "Hi").await;
    assert_eq!(transcript(&events), "agent_start input_rejected agent_end(input_rejected)");
    assert_well_formed(&events);
    assert!(matches!(&events[1], AgentEvent::InputRejected { reason, .. } if reason == "not here"));
    let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!("no end") };
    assert!(end.messages.is_empty());
    assert_eq!(end.ended, Ended::InputRejected { reason: "not here".into() });
    assert_eq!(seen.lock().unwrap().len(), 2);
    assert!(model.requests().is_empty() && agent.messages().is_empty());
    let error = agent.chat("Hi").await.unwrap_err().to_string();
    assert!(error.contains("not here"), "{error}");
}

/// REQ-069.
#[tokio::test]
async fn the_loop_gives_no_messages_for_a_refused_prompt() {
    let model = ScriptedProvider::texts(["x"]);
    let mut config = AgentLoopConfig::system(Arc::new(model.clone()), ModelConfig::default());
    config.hooks.input_filters.push(Arc::new(|_: &str| FilterResult::Reject("no".into())));
    let mut context = AgentContext::new("");
    let (tx, _rx) = event_channel();
    let new = agent_loop(vec!["Hi".into()], &mut context, &config, tx, CancellationToken::new());
    assert!(within(new).await.unwrap().is_empty());
    assert!(context.history.is_empty() && model.requests().is_empty());
}

/// REQ-070.
#[tokio::test]
async fn warnings_are_added_to_the_last_user_message_and_the_run_goes_on() {
    let (agent, model) = agent(["ok"]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let agent = agent
        .with_input_filter(noting(&seen, "first", warn("long")))
        .with_input_filter(noting(&seen, "second", FilterResult::Pass))
        .with_input_filter(noting(&seen, "third", warn("rude")));
    let prompts: Vec<AgentMessage> = vec!["a".into(), "b".into(), runs::note()];
    let events = within(agent.prompt(prompts).unwrap().collect()).await;
    assert!(transcript(&events).ends_with("assistant(ok) turn_end agent_end(completed)"));
    assert_eq!(*seen.lock().unwrap(), ["first: a\nb", "second: a\nb", "third: a\nb"]);
    assert_eq!(asked(&model.requests()[0]), "user(a) user(b[Warning: long]\n[Warning: rude])");
    let last = agent.messages()[1].as_llm().unwrap().content().to_vec();
    assert_eq!(last, [Content::text("b"), Content::text("[Warning: long]\n[Warning: rude]")]);
}

/// REQ-068.
#[tokio::test]
async fn a_filter_that_panics_lets_nothing_through() {
    let (agent, model) = agent(["x"]);
    let agent = agent.with_input_filter(|text: &str| -> FilterResult { panic!("cannot read {text}") });
    let events = run(&agent, "Hi").await;
    assert_eq!(transcript(&events), "agent_start input_rejected agent_end(input_rejected)");
    assert!(model.requests().is_empty());
}

/// REQ-068.
#[tokio::test]
async fn only_prompts_are_filtered() {
    let (agent, _) = agent(["a", "b", "c"]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let agent: BasicAgent = agent.with_input_filter(noting(&seen, "filter", FilterResult::Pass));
    agent.steer("s");
    agent.follow_up("f");
    run(&agent, "Hi").await;
    agent.steer("t");
    within(agent.continue_run().unwrap().collect()).await;
    assert_eq!(*seen.lock().unwrap(), ["filter: Hi"]);
    assert_eq!(said(&agent), "user(Hi) user(s) assistant(a) user(f) assistant(b) user(t) assistant(c)");
}
