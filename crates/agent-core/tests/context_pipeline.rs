//! From the history to what the model is shown.
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

use agent_core::context::SyncCompaction;
use agent_core::hooks::{HookError, Hooks};
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed, transcript};
use agent_core::{
    AgentContext, AgentEvent, AgentLoopConfig, AgentMessage, BasicAgent, CancellationToken, ContextConfig,
    Entry, History, Message, ModelConfig, Secret, StopReason, ThinkingLevel, agent_loop_stream,
};
use serde_json::json;

use runs::{agent, asked, run, said, within};

fn with_first(text: &'static str, history: &History) -> History {
    let first = Entry::from(AgentMessage::user(text));
    History::repaired(std::iter::once(first).chain(history.entries().cloned())).0
}

fn three_calls() -> Vec<ScriptedReply> {
    vec![
        ScriptedReply::call("c1", "look", json!({})),
        ScriptedReply::call("c2", "look", json!({})),
        "ok".into(),
    ]
}

/// B-017, B-018, REQ-145.
#[tokio::test]
async fn before_each_call_transform_sees_the_whole_history_and_convert_sees_its_output() {
    let (agent, model) = agent(three_calls());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (first, second) = (Arc::clone(&seen), Arc::clone(&seen));
    let agent = agent.with_tool(ScriptedTool::saying("look", "x")).with_hooks(
        Hooks::new()
            .transform_context(move |history: History| {
                first.lock().unwrap().push(format!("transform {}", runs::shown(history.llm_messages())));
                async move { Ok(with_first("prefix", &history)) }
            })
            .convert_to_llm(move |history: History| {
                second.lock().unwrap().push(format!("convert {}", runs::shown(history.llm_messages())));
                async move { Ok(history) }
            }),
    );
    run(&agent, "Go.").await;
    let at = [
        "user(Go.)",
        "user(Go.) assistant() result(c1)",
        "user(Go.) assistant() result(c1) assistant() result(c2)",
    ];
    let expect: Vec<String> =
        at.iter().flat_map(|h| [format!("transform {h}"), format!("convert user(prefix) {h}")]).collect();
    assert_eq!(*seen.lock().unwrap(), expect);
    let requests = model.requests();
    assert_eq!(requests.len(), 3);
    for (request, history) in requests.iter().zip(at) {
        assert_eq!(asked(request), format!("user(prefix) {history}"), "in every call");
    }
}

/// B-019, REQ-145.
#[tokio::test]
async fn what_a_transformation_leaves_out_stays_in_the_history() {
    let (agent, model) = agent(["a", "b"]);
    let agent = agent.with_hooks(Hooks::new().transform_context(|history: History| async move {
        let last = history.entries().last().cloned();
        Ok(History::repaired(last).0)
    }));
    run(&agent, "one").await;
    run(&agent, "two").await;
    assert_eq!(asked(&model.requests()[1]), "user(two)");
    assert_eq!(said(&agent), "user(one) assistant(a) user(two) assistant(b)");
}

/// B-020, REQ-044.
#[tokio::test]
async fn notes_are_kept_and_never_reach_the_model() {
    let (agent, model) = agent(["ok"]);
    agent.append_message(runs::note()).unwrap();
    let events = within(agent.prompt(vec![runs::note(), "Hi".into()]).unwrap().collect()).await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start note user assistant(ok) turn_end agent_end(completed)"
    );
    assert_eq!(asked(&model.requests()[0]), "user(Hi)");
    assert_eq!(said(&agent), "note note user(Hi) assistant(ok)");
}

/// B-022.
#[tokio::test]
async fn the_key_is_asked_for_before_every_call_and_the_static_one_fills_a_gap() {
    let model = ScriptedProvider::new(three_calls()).exhaustive();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let config = ModelConfig::anthropic("m", "M", "static");
    let agent = BasicAgent::new(config)
        .with_provider(model.clone())
        .with_tool(ScriptedTool::saying("look", "x"))
        .with_hooks(Hooks::new().api_key(move |provider| {
            let mut seen = seen.lock().unwrap();
            seen.push(provider);
            let key = (seen.len() != 2).then(|| Secret::from(format!("fresh-{}", seen.len())));
            async move { Ok(key) }
        }));
    run(&agent, "Go.").await;
    assert_eq!(*asked.lock().unwrap(), ["anthropic"; 3]);
    let expect = [Secret::from("fresh-1"), Secret::from("static"), Secret::from("fresh-3")];
    let used: Vec<_> = model.requests().iter().map(|r| r.key().cloned()).collect();
    assert_eq!(used, expect.map(Some));
}

/// B-023.
#[tokio::test]
async fn each_call_names_the_session_and_a_new_session_shows_in_the_next_call() {
    let (agent, model) = agent(["a", "b", "c"]);
    let agent = agent.with_session_id("s-1");
    run(&agent, "one").await;
    let agent = agent.with_session_id("s-2");
    run(&agent, "two").await;
    let fresh = agent.new_session();
    run(&agent, "three").await;
    let sessions: Vec<_> = model.requests().iter().map(|r| r.session_id.clone().unwrap()).collect();
    assert_eq!(sessions, ["s-1", "s-2", fresh.as_str()]);
}

/// B-024, REQ-025.
#[tokio::test]
async fn the_request_carries_what_the_builders_set() {
    let (agent, model) = agent(["a", "b"]);
    let mut agent = agent.with_system_prompt("Be kind.").with_max_tokens(77).with_temperature(0.5);
    run(&agent, "one").await;
    agent.set_thinking_level(ThinkingLevel::High);
    run(&agent, "two").await;
    let requests = model.requests();
    assert_eq!(requests[0].options.thinking_level, ThinkingLevel::Off);
    assert_ne!(requests[1].options.thinking_level, ThinkingLevel::Off);
    assert_eq!(
        requests[1].options.thinking_level,
        ThinkingLevel::High.clamp_to(&ModelConfig::default().thinking_levels)
    );
    assert_eq!(&*requests[0].system_prompt, "Be kind.");
    assert_eq!((requests[0].options.max_tokens, requests[0].options.temperature), (Some(77), Some(0.5)));
}

fn failing_hooks() -> Vec<(&'static str, Hooks)> {
    fn sync_panic<T>() -> std::future::Ready<T> {
        panic!("broken")
    }
    vec![
        ("transform_context", Hooks::new().transform_context(|_| async { Err(HookError::new("broken")) })),
        ("transform_context", Hooks::new().transform_context(|_| async { panic!("broken") })),
        ("transform_context", Hooks::new().transform_context(|_| sync_panic())),
        ("convert_to_llm", Hooks::new().convert_to_llm(|_| async { Err(HookError::new("broken")) })),
        ("convert_to_llm", Hooks::new().convert_to_llm(|_| sync_panic())),
        ("api_key", Hooks::new().api_key(|_| async { Err(HookError::new("broken")) })),
        ("api_key", Hooks::new().api_key(|_| sync_panic())),
    ]
}

/// B-025, REQ-145.
#[tokio::test]
async fn a_hook_that_fails_ends_the_run_with_an_error_reply_and_all_closing_events() {
    for (name, hooks) in failing_hooks() {
        let (agent, model) = agent(["x"]);
        let agent = agent.with_hooks(hooks);
        let events = run(&agent, "Hi").await;
        assert_well_formed(&events);
        assert_eq!(
            transcript(&events),
            "agent_start turn_start user assistant!() turn_end agent_end(error)",
            "{name}"
        );
        let messages = agent.messages();
        let reply = messages.last().and_then(|m| m.as_llm()).and_then(Message::as_assistant).unwrap();
        assert_eq!(reply.stop_reason, StopReason::Error);
        let text = reply.error_message.clone().unwrap();
        assert!(text.contains(name) && text.contains("broken"), "{text}");
        assert_eq!(agent.error_message(), Some(text));
        assert!(model.requests().is_empty(), "the model was not called: {name}");
        assert!(!agent.is_streaming());
    }
}

/// B-026.
#[tokio::test]
async fn the_same_failure_on_the_loop_as_a_stream_closes_it_and_gives_a_result() {
    for (name, hooks) in failing_hooks() {
        let model = ScriptedProvider::texts(["x"]);
        let mut config = AgentLoopConfig::system(Arc::new(model), ModelConfig::default());
        *config.hooks = hooks;
        let mut stream =
            agent_loop_stream(vec!["Hi".into()], AgentContext::new(""), config, CancellationToken::new())
                .unwrap();
        let mut events = Vec::new();
        while let Some(event) = within(stream.recv()).await {
            events.push(event);
        }
        assert_eq!(
            transcript(&events),
            "agent_start turn_start user assistant!() turn_end agent_end(error)",
            "{name}"
        );
        let result = within(stream.result()).await.unwrap();
        assert_eq!(runs::shown_refs(&result.messages), "user(Hi) assistant()");
        assert_eq!(result.context.history.len(), 2);
    }
}

fn note_tool() -> ScriptedTool {
    ScriptedTool::saying("look", "word ".repeat(400))
}

/// REQ-060, REQ-146.
#[tokio::test]
async fn a_context_over_its_budget_is_compacted_before_the_call() {
    let small = ContextConfig::default().with_max_context_tokens(400).with_system_prompt_tokens(0);
    for (config, compactions) in [(Some(small), true), (None, false)] {
        let (agent, model) = agent(three_calls());
        let agent = agent.with_tool(note_tool()).with_context_config(config);
        let events = run(&agent, "Go.").await;
        let text = transcript(&events);
        assert_well_formed(&events);
        assert!(text.ends_with("agent_end(completed)"), "{text}");
        assert_eq!(text.contains("compact+ compact-"), compactions, "{text}");
        let longest = model.requests().iter().map(|r| r.history.tokens()).max().unwrap();
        assert_eq!(longest <= 400, compactions, "what is sent fits the budget: {longest}");
        if compactions {
            let ended = events.iter().find_map(|e| match e {
                AgentEvent::CompactionEnded(ended) => Some(ended),
                _ => None,
            });
            let ended = ended.unwrap();
            assert!(ended.estimated_tokens_after < ended.estimated_tokens_before);
            assert_eq!(asked(&model.requests()[0]), "user(Go.)", "the task stays");
        }
    }
}

/// REQ-146, REQ-060.
#[tokio::test]
async fn a_strategy_that_leaves_nothing_has_the_model_called_with_nothing() {
    let model = ScriptedProvider::texts(["ok"]).exhaustive().allow_empty();
    let small = ContextConfig::default().with_max_context_tokens(10).with_system_prompt_tokens(0);
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(model.clone())
        .with_context_config(small)
        .with_compaction_strategy(SyncCompaction::new(|_, _| Vec::new()));
    let events = run(&agent, "word ".repeat(100).as_str()).await;
    assert!(transcript(&events).ends_with("compact+ compact- assistant(ok) turn_end agent_end(completed)"));
    assert_eq!(model.requests()[0].history.len(), 0);
}
