//! The handle: defaults, builders, prompts, state, saving, forgetting, one call for one answer.
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
use agent_core::compat::SeedVerbs as _;
use std::sync::{Arc, Mutex};

use agent_core::provider::{
    Completion, ErrorContext, ErrorKind, EventSink, ModelRequest, ProviderError, StreamProvider,
};
use agent_core::testing::{Latch, ScriptedProvider, ScriptedReply, ScriptedTool, transcript};
use agent_core::{
    AgentError, AgentEvent, AgentMessage, BasicAgent, CacheConfig, CacheStrategy, CancellationToken,
    ChatToken, Content, ContextConfig, ExecutionLimits, ImageContent, Message, ModelConfig, QueueKind,
    QueueMode, RetryConfig, RunEnd, RunFailure, ThinkingLevel, ToolExecutionStrategy,
};
use async_trait::async_trait;
use serde_json::json;

use runs::{agent, asked, run, said, within};

fn image() -> ImageContent {
    match Content::image("aGk=", "image/png") {
        Content::Image(image) => image,
        other => panic!("{other:?}"),
    }
}

/// REQ-024, REQ-029, B-070.
#[test]
fn a_new_agent_has_the_documented_defaults() {
    let agent = BasicAgent::new(ModelConfig::anthropic("m", "M", "k"));
    let config = agent.config();
    assert!(agent.messages().is_empty() && agent.tools().is_empty() && agent.system_prompt().is_empty());
    assert_eq!(config.request.thinking_level, ThinkingLevel::Off);
    assert_eq!(config.policy.tool_execution, ToolExecutionStrategy::Parallel);
    assert_eq!(
        (config.policy.steering_mode, config.policy.follow_up_mode),
        (QueueMode::OneAtATime, QueueMode::OneAtATime)
    );
    assert_eq!(config.policy.context, Some(ContextConfig::default()));
    assert_eq!(config.policy.limits, Some(ExecutionLimits::default()));
    assert_eq!(config.policy.retry, RetryConfig::default());
    assert!(
        config.request.max_tokens.is_none()
            && config.request.temperature.is_none()
            && config.services.compaction.is_none()
    );
    assert!(
        config.policy.config_id.is_none()
            && config.services.journal.is_none()
            && config.request.request_hook.is_none()
    );
    assert_eq!(format!("{:?}", config.hooks), "{}", "no hooks");
    assert!(!agent.is_streaming() && !agent.is_suspended() && agent.error_message().is_none());
    let state = agent.state();
    assert!(state.stream_message.is_none() && state.pending_tool_calls.is_empty());
    assert!(agent.last_loop_id().is_none() && agent.last_active_at().is_none());
}

/// REQ-031, REQ-025, REQ-026.
#[tokio::test]
async fn every_builder_sets_its_field() {
    let none: [&str; 0] = [];
    let model = ScriptedProvider::texts(none);
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider_override(Arc::new(model))
        .with_system_prompt("Be kind.")
        .with_model_config(ModelConfig::openai("gpt", "GPT", "k"))
        .with_max_tokens(123)
        .with_temperature(0.25)
        .with_thinking(ThinkingLevel::Low)
        .with_tools(vec![Arc::new(ScriptedTool::saying("a", "x"))])
        .with_tool(ScriptedTool::saying("b", "x"))
        .with_context_config(ContextConfig::default().with_keep_first(7))
        .with_execution_limits(ExecutionLimits::default().with_max_turns(3))
        .with_retry_config(RetryConfig::default().with_max_retries(9))
        .with_cache_config(CacheConfig { strategy: CacheStrategy::Disabled, ..CacheConfig::default() })
        .with_tool_execution(ToolExecutionStrategy::Sequential)
        .with_steering_mode(QueueMode::All)
        .with_follow_up_mode(QueueMode::All);
    let config = agent.config();
    assert_eq!((&*agent.system_prompt(), agent.model().id.as_str()), ("Be kind.", "gpt"));
    assert_eq!((config.request.max_tokens, config.request.temperature), (Some(123), Some(0.25)));
    assert_eq!(config.request.thinking_level, ThinkingLevel::Low);
    assert_eq!(agent.tools().iter().map(|t| t.name().to_owned()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(config.policy.context.as_ref().map(|c| c.keep_first), Some(7));
    assert_eq!(config.policy.limits.and_then(|l| l.max_turns), Some(3));
    assert_eq!(config.policy.retry.max_retries, 9);
    assert_eq!(config.request.cache_config.strategy, CacheStrategy::Disabled);
    assert_eq!(config.policy.tool_execution, ToolExecutionStrategy::Sequential);
    assert_eq!((agent.steering_mode(), agent.follow_up_mode()), (QueueMode::All, QueueMode::All));
    let events = run(&agent, "Hi").await;
    assert!(transcript(&events).ends_with("agent_end(completed)"), "a used-up model says nothing, and stops");
}

/// B-082, REQ-034, REQ-035.
#[tokio::test]
async fn a_prompt_is_a_text_a_message_a_list_or_a_text_with_pictures() {
    let (agent, model) = agent(["1", "2", "3", "4", "5"]);
    within(agent.prompt("text").unwrap().collect()).await;
    within(agent.prompt(String::from("string")).unwrap().collect()).await;
    within(agent.prompt(Message::user("message")).unwrap().collect()).await;
    within(agent.prompt(vec![AgentMessage::user("a"), AgentMessage::user("b")]).unwrap().collect()).await;
    within(agent.prompt(("look", vec![image(), image()])).unwrap().collect()).await;
    assert_eq!(
        asked(&model.requests()[4]),
        "user(text) assistant(1) user(string) assistant(2) user(message) assistant(3) user(a) user(b) assistant(4) user(look)"
    );
    let messages = agent.messages();
    let last = messages[messages.len() - 2].as_llm().unwrap();
    assert_eq!(last.content(), [Content::text("look"), Content::Image(image()), Content::Image(image())]);
}

/// REQ-063, REQ-064.
#[tokio::test]
async fn a_conversation_that_was_saved_is_restored_as_it_was() {
    let (agent, _) = agent([ScriptedReply::call("c1", "look", json!({"a": 1})), "Found.".into()]);
    let agent = agent.with_tool(ScriptedTool::saying("look", "a key"));
    agent.append_message(runs::note()).unwrap();
    run(&agent, "Look.").await;
    let saved = agent.save_messages().unwrap();
    let array: Vec<serde_json::Value> = serde_json::from_str(&saved).unwrap();
    assert_eq!(array.len(), 5);

    let (other, model) = runs::agent(["Bye."]);
    other.append_message("gone after the restore").unwrap();
    assert!(other.restore_messages(&saved).unwrap().is_empty(), "nothing had to be repaired");
    assert_eq!(other.messages(), agent.messages());
    assert_eq!(other.save_messages().unwrap(), saved);
    run(&other, "And?").await;
    assert_eq!(
        asked(&model.requests()[0]),
        "user(Look.) assistant() result(c1) assistant(Found.) user(And?)"
    );

    for broken in ["", "{}", "[1]", r#"[{"role":"user"}]"#] {
        let before = other.messages();
        assert!(matches!(other.restore_messages(broken), Err(AgentError::Restore(_))), "{broken:?}");
        assert_eq!(other.messages(), before);
    }
}

/// REQ-065, B-079, B-080.
#[tokio::test]
async fn reset_starts_over_and_clear_forgets_only_what_was_said() {
    let latch = Latch::new();
    let filled = || async {
        let failing = ScriptedReply::error(ErrorKind::Auth, "no key");
        let (agent, _) = agent([failing, ScriptedReply::text("half").and_wait(&latch)]);
        let agent = agent.with_system_prompt("Be kind.").with_tool(ScriptedTool::saying("look", "x"));
        run(&agent, "Hi").await;
        agent.steer("s");
        agent.follow_up("f");
        assert!(agent.error_message().is_some());
        agent
    };
    let agent = filled().await;
    agent.clear_context().unwrap();
    assert!(agent.messages().is_empty() && agent.get_context().is_empty());
    assert!(agent.has_queued_messages() && agent.error_message().is_some());

    for running in [false, true] {
        let agent = filled().await;
        let events = running.then(|| agent.prompt("More").unwrap());
        if running {
            within(latch.reached()).await;
        }
        within(agent.reset()).await;
        assert!(agent.messages().is_empty() && !agent.has_queued_messages() && !agent.is_streaming());
        assert!(agent.error_message().is_none() && agent.state().pending_tool_calls.is_empty());
        assert_eq!((&*agent.system_prompt(), agent.tools().len()), ("Be kind.", 1));
        if let Some(events) = events {
            let text = transcript(&within(events.collect()).await);
            assert!(text.ends_with("agent_end(aborted)"), "{text}");
        }
    }
}

#[tokio::test]
async fn the_state_can_be_read_during_a_run() {
    let (asked, tool) = (Latch::new(), Latch::new());
    let reply = ScriptedReply::text("Let me look").and_wait(&asked).and_call("c1", "look", json!({}));
    let (agent, _) = agent([reply, "ok".into()]);
    let held = tool.clone();
    let agent = agent.with_tool(ScriptedTool::new("look", move |_, _| {
        let held = held.clone();
        async move {
            held.wait().await;
            Ok(agent_core::ToolResult::text("x"))
        }
    }));
    let events = agent.prompt("Hi").unwrap();
    within(asked.reached()).await;
    let state = agent.state();
    assert!(state.is_streaming && state.pending_tool_calls.is_empty());
    assert_eq!(state.stream_message.map(|m| m.text()).as_deref(), Some("Let me look"));
    assert_eq!(runs::shown_refs(&state.messages), "user(Hi)");
    asked.open();
    within(tool.reached()).await;
    let state = agent.state();
    assert!(state.stream_message.is_none());
    assert_eq!(state.pending_tool_calls.iter().map(ToString::to_string).collect::<Vec<_>>(), ["c1"]);
    assert_eq!(runs::shown_refs(&state.messages), "user(Hi) assistant(Let me look)");
    assert_eq!(agent.history().len(), 0, "the closed conversation is that of the last run");
    tool.open();
    within(events.collect()).await;
    let state = agent.state();
    assert!(!state.is_streaming && state.pending_tool_calls.is_empty());
    assert_eq!(agent.history().len(), state.messages.len());
}

/// B-078.
#[tokio::test]
async fn setters_during_a_run_act_on_the_next_one() {
    let latch = Latch::new();
    let (agent, model) =
        agent([ScriptedReply::call("c1", "old", json!({})).and_wait(&latch), "a".into(), "b".into()]);
    let mut agent = agent.with_tool(ScriptedTool::saying("old", "x"));
    let events = agent.prompt("Hi").unwrap();
    within(latch.reached()).await;
    agent.set_model(ModelConfig::ollama("other"));
    agent.set_system_prompt("New.");
    agent.set_tools(vec![Arc::new(ScriptedTool::saying("new", "y"))]);
    latch.open();
    within(events.collect()).await;
    run(&agent, "More").await;
    let told = |n: usize| {
        let request = model.requests()[n].clone();
        let tool = request.tools.definitions()[0].name.clone();
        (request.model.id.clone(), request.system_prompt.to_string(), tool)
    };
    assert_eq!(told(1), told(0));
    assert_eq!(told(2), ("other".into(), "New.".into(), "new".into()));
}

/// A provider that lacks what it needs for one model.
struct Picky(ScriptedProvider);

#[async_trait]
impl StreamProvider for Picky {
    fn provider_id(&self) -> &'static str {
        "picky"
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        self.0.stream(request, sink, cancel).await
    }

    fn check(&self, model: &ModelConfig) -> Result<(), ProviderError> {
        if model.id != "bad" {
            return Ok(());
        }
        Err(ProviderError::new(
            ErrorKind::Auth,
            ErrorContext::new("there is no key").with_target("picky", "bad"),
        ))
    }
}

#[tokio::test]
async fn switching_keeps_the_conversation_and_on_an_error_the_old_provider() {
    let first = ScriptedProvider::texts(["a", "b"]).exhaustive();
    let second = ScriptedProvider::texts(["c"]).exhaustive();
    let mut agent = BasicAgent::new(ModelConfig::ollama("one")).with_provider(Picky(first.clone()));
    assert_eq!(agent.chat("1").await.unwrap(), "a");
    let error = agent.switch_provider(ModelConfig::ollama("bad")).unwrap_err();
    assert!(matches!(&error, AgentError::Provider(e) if e.kind() == ErrorKind::Auth), "{error}");
    let refused = agent.switch_provider_to(Arc::new(Picky(second.clone())), ModelConfig::ollama("bad"));
    assert!(refused.is_err());
    assert_eq!(agent.model().id, "one");
    agent.switch_provider(ModelConfig::ollama("two")).unwrap();
    assert_eq!(agent.chat("2").await.unwrap(), "b");
    agent.switch_provider_to(Arc::new(second.clone()), ModelConfig::ollama("three")).unwrap();
    assert_eq!(agent.chat("3").await.unwrap(), "c");
    let models: Vec<_> =
        first.requests().iter().chain(&second.requests()).map(|r| r.model.id.clone()).collect();
    assert_eq!(models, ["one", "two", "three"]);
    assert_eq!(asked(&second.requests()[0]), "user(1) assistant(a) user(2) assistant(b) user(3)");
}

#[tokio::test]
async fn chat_gives_the_last_text_or_an_error_that_says_what_to_do() {
    let broken = ScriptedReply::error(ErrorKind::ModelNotFound, "no such model");
    let (agent, _) =
        agent([ScriptedReply::text("Wait.").and_call("c1", "look", json!({})), "4".into(), broken]);
    let agent = agent.with_tool(ScriptedTool::saying("look", "x"));
    assert_eq!(agent.chat("2+2?").await.unwrap(), "4");
    let error = agent.chat("And?").await.unwrap_err();
    assert!(
        matches!(error, AgentError::Run(ref end) if matches!(**end, RunEnd::Failed(RunFailure::Model { kind: ErrorKind::ModelNotFound, .. }))),
        "{error:?}"
    );
    assert!(error.to_string().contains("mock") && error.to_string().contains("no such model"), "{error}");
    assert_eq!(agent.messages().len(), 6, "the conversation is kept");

    let bare = BasicAgent::new(ModelConfig::default());
    let error = bare.chat("Hi").await.unwrap_err().to_string();
    assert!(
        error.contains(ModelConfig::default().api.feature().unwrap()) && error.contains("with_provider"),
        "{error}"
    );
    assert!(matches!(bare.finish().await, Some(RunEnd::Failed(_))));
}

#[tokio::test]
async fn stream_chat_passes_on_what_arrives_and_gives_all_text_that_counts() {
    let superseded = ScriptedReply::text("Hal").failing(ErrorKind::Network, "the stream broke");
    let (agent, _) = agent([
        ScriptedReply::text("Let me look. ").and_call("c1", "look", json!({})),
        superseded,
        ScriptedReply::text("Found.").in_pieces_of(3),
    ]);
    let agent = agent
        .with_environment(Arc::new(agent_core::testing::ManualEnvironment::skipping(0)))
        .with_tool(ScriptedTool::failing("look", "dark"));
    let mut heard = Vec::new();
    let text = agent
        .stream_chat("Look.", |token| {
            heard.push(match token {
                ChatToken::Text(text) => text.to_owned(),
                ChatToken::ToolStarted(tool) => format!("<{tool}>"),
                ChatToken::ToolEnded { tool, is_error } => format!("</{tool} {is_error}>"),
                other => format!("{other:?}"),
            });
        })
        .await
        .unwrap();
    assert_eq!(text, "Let me look. Found.");
    assert_eq!(heard, ["Let me look. ", "<look>", "</look true>", "Hal", "Fou", "nd."]);
}

#[tokio::test]
async fn the_legacy_form_is_an_ollama_agent_with_ten_turns() {
    let agent = BasicAgent::from_legacy(None, None, None);
    assert_eq!(
        (agent.model().id.as_str(), agent.model().api),
        ("qwen3-coder:30b", ModelConfig::default().api)
    );
    assert_eq!(
        agent.model().base_url.as_deref().unwrap_or("http://localhost:11434"),
        "http://localhost:11434"
    );
    let agent = BasicAgent::from_legacy(Some("llama"), Some("http://box:1"), Some("Be kind."));
    assert_eq!(
        (agent.model().id.as_str(), agent.model().base_url.as_deref()),
        ("llama", Some("http://box:1"))
    );
    assert_eq!(&*agent.system_prompt(), "Be kind.");
    let model = ScriptedProvider::responding(|r| {
        ScriptedReply::call(&format!("c{}", r.history.len()), "look", json!({}))
    });
    let agent = agent.with_provider(model.clone()).with_tool(ScriptedTool::saying("look", "x"));
    let error = agent.chat("Go.").await.unwrap_err().to_string();
    assert!(error.contains("max turns exceeded"), "{error}");
    assert_eq!(model.requests().len(), 10);
}

/// B-077.
#[tokio::test]
async fn waiting_for_idle_returns_at_once_without_a_run_and_else_after_it() {
    let latch = Latch::new();
    let (agent, _) = agent([ScriptedReply::text("a").and_wait(&latch)]);
    within(agent.wait_for_idle()).await;
    assert_eq!(within(agent.finish()).await, None);
    let _events = agent.prompt("Hi").unwrap();
    within(latch.reached()).await;
    let waiting = {
        let agent = agent.handle();
        tokio::spawn(async move { agent.wait_for_idle().await })
    };
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    latch.open();
    within(waiting).await.unwrap();
    assert!(!agent.is_streaming());
    assert_eq!(said(&agent), "user(Hi) assistant(a)");
}

/// B-072, B-076.
#[tokio::test]
async fn listeners_hear_every_event_in_the_order_of_their_subscriptions() {
    let (agent, _) = agent(["a", "b"]);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listen = |name: &'static str| {
        let heard = Arc::clone(&heard);
        agent.subscribe(move |event| heard.lock().unwrap().push((name, runs::kind(event))))
    };
    let (first, _second) = (listen("first"), listen("second"));
    agent.append_message("x").unwrap();
    agent.clear_messages().unwrap();
    assert!(heard.lock().unwrap().is_empty(), "neither subscribing nor a setter is an event");
    let events = run(&agent, "Hi").await;
    let expect: Vec<_> =
        runs::kinds(&events).into_iter().flat_map(|k| [("first", k.clone()), ("second", k)]).collect();
    assert_eq!(*heard.lock().unwrap(), expect);
    heard.lock().unwrap().clear();
    first.unsubscribe();
    run(&agent, "More").await;
    assert!(heard.lock().unwrap().iter().all(|(name, _)| *name == "second"));
}

/// B-068.
#[tokio::test]
async fn the_next_prompt_forgets_the_error_and_keeps_the_queue() {
    let (agent, _) = agent([ScriptedReply::error(ErrorKind::Auth, "no key"), "ok".into(), "more".into()]);
    run(&agent, "Hi").await;
    let error = agent.error_message().unwrap();
    assert!(error.contains("no key"), "{error}");
    agent.follow_up("f");
    assert_eq!(agent.queued_messages(QueueKind::FollowUp).len(), 1);
    let mut events = agent.prompt("Again").unwrap();
    assert!(agent.error_message().is_none());
    while let Some(event) = within(events.recv()).await {
        if let AgentEvent::AgentEnd(end) = event {
            assert_eq!(
                runs::shown_refs(end.messages.in_memory()),
                "user(Again) assistant(ok) user(f) assistant(more)"
            );
        }
    }
}
