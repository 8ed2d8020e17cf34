//! A2: the conversation is compacted to the window of the model that is called, less the output that is reserved.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails loudly")]

use std::sync::atomic::{AtomicUsize, Ordering};

use agent_core::provider::ErrorKind;
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentEvent, BasicAgent, CompactionReason, ExecutionLimits, ModelConfig, Route, RunEnd, ToolResult, Usage,
};
use serde_json::json;

const TURNS: usize = 400;

/// Calls a tool whose results have about 1,000 tokens, and reports the tokens of each request if it is told to.
fn looking(reports: Reports) -> ScriptedProvider {
    let turn = AtomicUsize::new(0);
    ScriptedProvider::responding(move |request| {
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        let reply = if turn < TURNS {
            ScriptedReply::call(&format!("c{turn}"), "look", json!({"n": turn}))
        } else {
            "Done.".into()
        };
        match reports {
            Reports::No => reply,
            Reports::Yes => reply.using(Usage::new(request.history.tokens() + 500, 20, 0, 0)),
        }
    })
}

#[derive(Clone, Copy)]
enum Reports {
    No,
    Yes,
}

fn agent(provider: &ScriptedProvider, model: ModelConfig) -> BasicAgent {
    let look = ScriptedTool::new("look", |_, _| async { Ok(ToolResult::text("word ".repeat(800))) });
    BasicAgent::new(model)
        .with_provider(provider.clone())
        .with_tool(look)
        .with_limits(ExecutionLimits::unlimited())
}

fn compactions(events: &[AgentEvent]) -> usize {
    events
        .iter()
        .filter(|event| matches!(event, AgentEvent::CompactionEnded(end) if end.reason == CompactionReason::Budget))
        .count()
}

/// The test of the audit: the default model, and others with small windows.
#[tokio::test]
async fn a_long_run_never_exceeds_the_window_of_its_model() {
    for reports in [Reports::No, Reports::Yes] {
        for model in [
            ModelConfig::default(),
            ModelConfig::default().with_limits(16_384, 4_096),
            ModelConfig::default().with_limits(8_192, 8_192),
        ] {
            let window = u64::from(model.context_window.unwrap());
            let room = window - u64::from(model.max_tokens.unwrap()).min(window / 2);
            let provider = looking(reports);
            let events = agent(&provider, model).prompt("Look.").unwrap().collect().await;
            let requests = provider.requests();
            assert_eq!(requests.len(), TURNS + 1);
            let most = requests.iter().map(|request| request.history.tokens()).max().unwrap();
            assert!(most <= room, "{most} tokens in a window of {window}");
            assert!(compactions(&events) > 0, "window {window}");
        }
    }
}

/// The smaller limit counts, and a window that is larger changes nothing.
#[tokio::test]
async fn a_larger_window_does_not_raise_the_limit_of_the_configuration() {
    let provider = looking(Reports::No);
    let agent = agent(&provider, ModelConfig::default().with_limits(1_000_000, 4_096));
    let events = agent.prompt("Look.").unwrap().collect().await;
    let most = provider.requests().iter().map(|request| request.history.tokens()).max().unwrap();
    assert!((90_000..=100_000).contains(&most), "{most}");
    assert!(compactions(&events) > 0);
}

/// A fallback model with a smaller window gets a conversation that fits it.
#[tokio::test]
async fn a_route_with_a_smaller_window_gets_a_shorter_conversation() {
    let turn = AtomicUsize::new(0);
    let provider = ScriptedProvider::responding(move |request| {
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        match request.model.id.as_str() {
            "small" => "Done.".into(),
            _ if turn < 40 => ScriptedReply::call(&format!("c{turn}"), "look", json!({"at": turn})),
            _ => ScriptedReply::new().failing(ErrorKind::Quota, "no credit"),
        }
    });
    let large = ModelConfig::default().with_limits(200_000, 4_096);
    let mut small = ModelConfig::ollama("small").with_limits(8_192, 2_048);
    small.name = "small".to_owned();
    let agent = agent(&provider, large).configure(|config| config.routes = vec![Route::new(small)]);
    let end = agent.prompt("Look.").unwrap().end().await;
    assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
    let requests = provider.requests();
    let last = requests.last().unwrap();
    assert_eq!(last.model.id, "small");
    assert!(last.history.tokens() <= 6_144, "{}", last.history.tokens());
    assert!(requests[requests.len() - 2].history.tokens() > 30_000);
}

/// A model that is set later counts from the next run on.
#[tokio::test]
async fn a_model_that_is_set_later_has_its_own_window() {
    let turn = AtomicUsize::new(0);
    let provider = ScriptedProvider::responding(move |_| {
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        if turn < 40 { ScriptedReply::call(&format!("c{turn}"), "look", json!({})) } else { "Done.".into() }
    });
    let mut agent = agent(&provider, ModelConfig::default().with_limits(200_000, 4_096));
    agent.prompt("Look.").unwrap().collect().await;
    agent.set_model(ModelConfig::ollama("small").with_limits(8_192, 2_048));
    agent.prompt("And?").unwrap().collect().await;
    assert!(provider.requests().last().unwrap().history.tokens() <= 6_144);
}
