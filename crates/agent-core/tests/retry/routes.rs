//! Other models are asked when one fails.

use agent_core::compat::SeedSetters as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_core::testing::{
    ManualEnvironment, ScriptedProvider, ScriptedReply, assert_well_formed, transcript,
};
use agent_core::{
    AgentEvent, AgentMessage, ApiProtocol, BasicAgent, Ended, ErrorKind, Message, ModelConfig, RetryConfig,
    Route, RouteChange, Secret,
};

use crate::room::run;

fn named(id: &str) -> ModelConfig {
    ModelConfig::new(ApiProtocol::AnthropicMessages, format!("p-{id}"), id).with_limits(100_000, 1_000)
}

/// A model that answers to every call with the reply that `script` has for its id and the number of the call.
fn world(script: impl Fn(&str, usize) -> ScriptedReply + Send + Sync + 'static) -> ScriptedProvider {
    let asked = Mutex::new(std::collections::BTreeMap::<String, usize>::new());
    ScriptedProvider::responding(move |request| {
        let mut asked = asked.lock().unwrap();
        let n = asked.entry(request.model.id.clone()).or_default();
        *n += 1;
        script(&request.model.id, *n - 1)
    })
}

fn agent(model: &ScriptedProvider, retries: u32, routes: Vec<Route>) -> BasicAgent {
    let agent = BasicAgent::new(named("a"))
        .with_provider(model.clone())
        .with_environment(Arc::new(ManualEnvironment::skipping(0)))
        .with_retry_config(RetryConfig::default().with_max_retries(retries));
    routes.into_iter().fold(agent, BasicAgent::with_route)
}

fn asked(model: &ScriptedProvider) -> String {
    model.requests().iter().map(|r| r.model.id.clone()).collect::<Vec<_>>().join(" ")
}

fn changes(events: &[AgentEvent]) -> Vec<RouteChange> {
    let found = events.iter().filter_map(|e| match e {
        AgentEvent::RouteChanged(change) => Some((**change).clone()),
        _ => None,
    });
    found.collect()
}

fn ended(events: &[AgentEvent]) -> Ended {
    match events.last() {
        Some(AgentEvent::AgentEnd(end)) => end.ended.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_route_has_its_own_number_of_tries_and_the_next_one_goes_on_in_the_same_turn() {
    let model = world(|id, _| match id {
        "a" => ScriptedReply::error(ErrorKind::RateLimited, "a is busy"),
        "b" => ScriptedReply::error(ErrorKind::Network, "b is down"),
        _ => "hello".into(),
    });
    let routes = vec![Route::new(named("b")).with_max_retries(2), Route::new(named("c"))];
    let agent = agent(&model, 1, routes);
    let events = run(&agent).await;
    assert_well_formed(&events);
    assert_eq!(asked(&model), "a a b b b c");
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user retry+1 retry-!1 route(a>b) retry+1 retry-!1 retry+2 retry-!2 route(b>c) \
         assistant(hello) turn_end agent_end(completed)"
    );
    let changes = changes(&events);
    assert_eq!((changes[0].kind, changes[1].kind), (ErrorKind::RateLimited, ErrorKind::Network));
    assert!(changes[0].error.contains("a is busy") && changes[1].error.contains("b is down"));
    assert_eq!((changes[1].from.index, changes[1].to.index, &*changes[1].to.provider), (1, 2, "p-c"));
    let reply =
        agent.messages().last().and_then(|m| m.as_llm().and_then(Message::as_assistant).cloned()).unwrap();
    assert_eq!((&*reply.provider, &*reply.model), ("p-c", "c"), "the reply says who wrote it");
}

#[tokio::test]
async fn a_reply_that_broke_off_is_superseded_and_the_next_route_is_shown_the_same_conversation() {
    let model = world(|id, _| match id {
        "a" => ScriptedReply::text("hel").failing(ErrorKind::Network, "cut"),
        _ => "hello".into(),
    });
    let agent = agent(&model, 0, vec![Route::new(named("b"))]);
    let events = run(&agent).await;
    assert_eq!(
        transcript(&events),
        "agent_start turn_start user route(a>b) assistant!(hel)~ assistant(hello) turn_end agent_end(completed)"
    );
    let superseded = events.iter().find_map(|e| match e {
        AgentEvent::MessageEnd { message, superseded: true, .. } => message.as_llm()?.as_assistant(),
        _ => None,
    });
    assert_eq!(
        superseded.map(|m| &*m.model),
        Some("a"),
        "the broken reply is that of the model which failed"
    );
    let steps: Vec<(String, u32)> = events
        .iter()
        .filter_map(|e| match e {
            AgentEvent::MessageUpdate { step, attempt, .. } => Some((step.to_string(), *attempt)),
            _ => None,
        })
        .collect();
    assert_eq!(steps.first().map(|s| s.1), Some(0));
    assert_eq!(steps.last(), Some(&("model-0.1".to_owned(), 1)));
    let shown: Vec<usize> = model.requests().iter().map(|r| r.messages().count()).collect();
    assert_eq!(shown, [1, 1], "nothing of the broken reply is shown");
}

#[tokio::test]
async fn a_failure_that_no_route_is_meant_for_ends_the_turn() {
    #[track_caller]
    fn check(kind: ErrorKind, on: &[ErrorKind], expect: &str) -> impl Future<Output = ()> {
        let (expect, route) = (expect.to_owned(), Route::new(named("b")).on(on.iter().copied()));
        async move {
            let model = world(move |id, _| match id {
                "a" => ScriptedReply::error(kind, "no"),
                _ => "hello".into(),
            });
            let agent = agent(&model, 0, vec![route]);
            let events = run(&agent).await;
            assert_eq!(asked(&model), expect, "{kind:?}");
            assert_eq!(ended(&events) == Ended::Completed, expect == "a b", "{kind:?}");
        }
    }
    check(ErrorKind::Api, &[ErrorKind::Network], "a").await;
    check(ErrorKind::Api, &[ErrorKind::Api], "a b").await;
    check(ErrorKind::Auth, &[ErrorKind::Auth], "a b").await;
    check(ErrorKind::ModelNotFound, &[ErrorKind::RateLimited], "a").await;
    check(ErrorKind::Other, &[], "a").await;
}

#[tokio::test]
async fn a_failure_that_no_try_can_mend_is_not_run_into_again_and_any_other_is_forgotten_with_the_turn() {
    #[track_caller]
    fn check(kind: ErrorKind, expect: &str) -> impl Future<Output = ()> {
        let expect = expect.to_owned();
        async move {
            let model = world(move |id, n| match (id, n) {
                ("a", 0) => ScriptedReply::error(kind, "no"),
                ("b", 0) => ScriptedReply::call("1", "nothing", serde_json::json!({})),
                _ => "done".into(),
            });
            let agent = agent(&model, 0, vec![Route::new(named("b"))]);
            let events = run(&agent).await;
            assert_eq!(ended(&events), Ended::Completed);
            assert_eq!(asked(&model), expect, "{kind:?}");
            run(&agent).await;
            assert!(asked(&model).ends_with(" a"), "a later run begins with the first model");
        }
    }
    check(ErrorKind::Network, "a b a").await;
    check(ErrorKind::Quota, "a b b").await;
    check(ErrorKind::Auth, "a b b").await;
}

#[tokio::test]
async fn a_wait_that_is_too_long_goes_to_the_next_route_at_once() {
    let model = world(|id, _| match id {
        "a" => ScriptedReply::error(ErrorKind::RateLimited, "tomorrow").retry_after(Duration::from_hours(1)),
        _ => "hello".into(),
    });
    let env = Arc::new(ManualEnvironment::skipping(0));
    let agent = agent(&model, 3, vec![Route::new(named("b"))]).with_environment(env.clone());
    run(&agent).await;
    assert_eq!(asked(&model), "a b");
    assert_eq!(agent_core::Environment::now(&*env).0, 0, "nobody waited");
}

#[tokio::test]
async fn when_all_routes_fail_the_last_failure_ends_the_turn_and_the_conversation_is_kept() {
    let model = world(|id, _| ScriptedReply::error(ErrorKind::Network, format!("{id} is down")));
    let agent = agent(&model, 0, vec![Route::new(named("b")), Route::new(named("c"))]);
    let events = run(&agent).await;
    assert_eq!(asked(&model), "a b c");
    match ended(&events) {
        Ended::Error { kind: ErrorKind::Network, message } => {
            assert!(message.contains("c is down"), "{message}")
        }
        other => panic!("{other:?}"),
    }
    assert!(!agent.messages().is_empty());
}

#[tokio::test]
async fn a_conversation_that_is_too_long_for_one_model_is_shortened_once_for_each() {
    let model = world(|id, n| match (id, n) {
        ("a", _) | ("b", 0) => ScriptedReply::error(ErrorKind::ContextOverflow, "too long"),
        _ => "hello".into(),
    });
    let agent = agent(&model, 0, vec![Route::new(named("b")).on([ErrorKind::ContextOverflow])]);
    let past = (0..40).map(|n| AgentMessage::user(format!("question {n} {}", "word ".repeat(100))));
    agent.replace_messages(past.collect()).unwrap();
    let events = run(&agent).await;
    assert_eq!(asked(&model), "a a b b");
    assert_eq!(ended(&events), Ended::Completed);
    assert_eq!(transcript(&events).matches("compact-").count(), 2);
}

#[tokio::test]
async fn a_conversation_that_cannot_be_shortened_goes_to_a_model_that_is_meant_for_it() {
    let model = world(|id, _| match id {
        "a" => ScriptedReply::error(ErrorKind::ContextOverflow, "too long"),
        _ => "hello".into(),
    });
    let agent = agent(&model, 0, vec![Route::new(named("b")).on([ErrorKind::ContextOverflow])]);
    let events = run(&agent).await;
    assert_eq!(asked(&model), "a b");
    assert_eq!(ended(&events), Ended::Completed);
    assert!(changes(&events)[0].error.contains("cannot be shortened"));
}

#[tokio::test]
async fn a_route_has_its_own_provider_and_its_key_is_asked_for_by_its_name() {
    let first = world(|_, _| ScriptedReply::error(ErrorKind::Network, "down"));
    let second = ScriptedProvider::new(["hello"]);
    let route = Route::new(named("b")).with_provider(Arc::new(second.clone()));
    let agent = agent(&first, 0, vec![route]).configure(|c| {
        *c.hooks = agent_core::Hooks::new()
            .api_key(|provider| async move { Ok(Some(Secret::from(format!("key of {provider}")))) });
    });
    run(&agent).await;
    let key = |model: &ScriptedProvider| model.requests()[0].api_key.as_ref().map(|k| k.expose().to_owned());
    assert_eq!(key(&first).as_deref(), Some("key of p-a"));
    assert_eq!(key(&second).as_deref(), Some("key of p-b"));
}

/// A run reports each route whose model is unknown once, however often it calls the model.
#[tokio::test]
async fn a_route_to_an_unknown_model_is_reported_once() {
    let model = world(|id, n| match (id, n) {
        ("a", _) => ScriptedReply::error(ErrorKind::Quota, "no credit"),
        ("b", 0..3) => ScriptedReply::call(&format!("c{n}"), "none", serde_json::json!({})),
        _ => "done".into(),
    });
    let unknown = ModelConfig::new(ApiProtocol::AnthropicMessages, "p-b", "b");
    let events = run(&agent(&model, 0, vec![Route::new(unknown)])).await;
    assert_eq!(model.requests().iter().filter(|request| request.model.id == "b").count(), 4);
    let reported: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::ModelUnknown(unknown) => Some(unknown.model.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(reported, ["b"]);
}
