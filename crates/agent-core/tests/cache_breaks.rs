//! Cache breaks as an agent says them, with a provider that does not say how it writes requests.
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
use agent_core::testing::{
    ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed, transcript,
};
use agent_core::{
    AgentEvent, AgentMessage, AgentTool, BasicAgent, CacheBreak, CacheBreakCause, CacheMiss,
    CancellationToken, Completion, ContextConfig, Entry, ErrorKind, EventSink, Hooks, ModelConfig,
    ModelRequest, ProviderError, RetryConfig, Route, StreamProvider, ThinkingLevel, Usage,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use runs::run;

const LONG: &str = "a long text that was sent before and that nobody likes to pay for again and again";

fn replies() -> ScriptedProvider {
    ScriptedProvider::responding(|_| ScriptedReply::text(LONG).using(Usage::new(100, 20, 0, 0)))
}

fn agent() -> BasicAgent {
    BasicAgent::new(ModelConfig::default())
        .with_provider(replies())
        .with_system_prompt("Be brief.")
        .with_tool(ScriptedTool::saying("look", "x"))
        .with_tool(ScriptedTool::saying("find", "x"))
}

fn breaks(events: &[AgentEvent]) -> Vec<CacheBreak> {
    let found = events.iter().filter_map(|e| match e {
        AgentEvent::CacheBroken(found) => Some((**found).clone()),
        _ => None,
    });
    found.collect()
}

/// The one break of a prompt.
async fn broken(agent: &BasicAgent) -> CacheBreak {
    let events = run(agent, "And now?").await;
    assert_well_formed(&events);
    let mut found = breaks(&events);
    assert_eq!(found.len(), 1, "{}", transcript(&events));
    found.remove(0)
}

/// X8: a conversation that grows, also over failures, retries and tools, breaks nothing.
#[tokio::test]
async fn a_conversation_that_grows_breaks_nothing() {
    let provider = ScriptedProvider::new([
        ScriptedReply::text("let me see").and_call("a", "look", serde_json::json!({})),
        ScriptedReply::error(ErrorKind::Network, "gone"),
        ScriptedReply::text("cut").failing(ErrorKind::Network, "gone"),
        ScriptedReply::text(LONG),
        ScriptedReply::error(ErrorKind::Api, "no"),
        ScriptedReply::text(LONG),
    ]);
    let agent = agent()
        .with_provider(provider)
        .with_retry_config(RetryConfig::default().with_delays(Default::default(), Default::default()));
    for prompt in ["Go.", "On.", "More."] {
        let events = run(&agent, prompt).await;
        assert!(breaks(&events).is_empty(), "{}", transcript(&events));
    }
}

/// X8: field, cause and estimate of each kind of break.
#[tokio::test]
async fn each_cause_is_named_with_its_field() {
    let fresh = || async {
        let agent = agent();
        run(&agent, LONG).await;
        agent
    };
    let mut agent = fresh().await;
    agent.set_system_prompt("Be very brief.");
    let found = broken(&agent).await;
    assert_eq!(
        (found.field.as_str(), &found.cause, found.intended),
        ("system", &CacheBreakCause::SystemPrompt, false)
    );
    let sent: u64 = agent.history().entries().take(1).map(Entry::tokens).sum();
    assert_eq!((found.rebilled_tokens, found.byte, found.reported), (sent, None, None));
    assert_eq!(found.step.as_str(), "model-0.0");
    assert!(breaks(&run(&agent, "Again.").await).is_empty(), "it is said once");

    let agent = fresh().await;
    agent.change_tools(|tools| tools.reverse());
    let found = broken(&agent).await;
    assert_eq!(found.field, "tools[0]");
    let CacheBreakCause::Tools { added, removed, changed, reordered } = &found.cause else {
        panic!("{found:?}")
    };
    assert!(added.is_empty() && removed.is_empty() && changed.is_empty() && *reordered);

    let agent = fresh().await;
    agent.change_tools(|tools| {
        tools.remove(0);
        tools.push(Arc::new(ScriptedTool::saying("read", "x")) as Arc<dyn AgentTool>);
    });
    let found = broken(&agent).await;
    let CacheBreakCause::Tools { added, removed, reordered: false, .. } = &found.cause else {
        panic!("{found:?}")
    };
    assert_eq!((added.as_slice(), removed.as_slice()), (&["read".to_owned()][..], &["look".to_owned()][..]));

    let mut agent = fresh().await;
    agent.set_thinking_level(ThinkingLevel::High);
    let found = broken(&agent).await;
    assert_eq!(found.cause, CacheBreakCause::Setting { name: "thinking".into() });

    let agent = fresh().await;
    run(&agent, "A second question.").await;
    let mut messages = agent.history().to_vec();
    messages[0] = AgentMessage::user("edited");
    agent.replace_messages(messages).unwrap();
    let found = broken(&agent).await;
    assert_eq!(
        (found.field.as_str(), found.message, &found.cause),
        ("messages[0]", Some(0), &CacheBreakCause::History)
    );
    let again: u64 = agent.history().entries().skip(1).take(2).map(Entry::tokens).sum();
    assert_eq!(found.rebilled_tokens, again, "the first reply and the second question were sent before");

    let mut agent = fresh().await;
    agent.set_model(ModelConfig::ollama("another"));
    let found = broken(&agent).await;
    let from = ModelConfig::default().id;
    assert_eq!(
        (found.field.as_str(), &found.cause),
        ("model", &CacheBreakCause::ModelSwitched { from, to: "another".into() })
    );
    agent.set_model(ModelConfig::default());
    assert!(breaks(&run(&agent, "Back.").await).is_empty(), "the first model has its cache still");
}

/// A model that another one stands in for.
#[tokio::test]
async fn a_route_is_another_model() {
    let provider = ScriptedProvider::new([
        ScriptedReply::text(LONG),
        ScriptedReply::error(ErrorKind::Quota, "no credit"),
        ScriptedReply::text(LONG),
    ]);
    let agent = agent().with_provider(provider).with_route(Route::new(ModelConfig::ollama("spare")));
    run(&agent, LONG).await;
    let found = broken(&agent).await;
    assert!(
        matches!(found.cause, CacheBreakCause::ModelSwitched { ref to, .. } if to == "spare"),
        "{found:?}"
    );
}

/// X8: a compaction breaks the prefix on purpose, and is said to.
#[tokio::test]
async fn a_compaction_is_a_break_that_was_wanted() {
    let context = ContextConfig::default()
        .with_max_context_tokens(300)
        .with_system_prompt_tokens(0)
        .with_keep_recent(4);
    let provider = ScriptedProvider::responding(|_| ScriptedReply::text(LONG));
    let agent = agent().with_provider(provider).with_context_config(context);
    for n in 0..12 {
        let events = run(&agent, &format!("{n} {LONG} {LONG}")).await;
        let Some(found) = breaks(&events).pop() else { continue };
        assert!(transcript(&events).contains("compact- cache_broken(messages["), "{}", transcript(&events));
        assert_eq!((found.cause, found.intended), (CacheBreakCause::Compaction, true));
        return;
    }
    panic!("nothing was compacted");
}

/// A hook that shows another past each time is named; one that keeps what it does not change costs nothing.
#[tokio::test]
async fn a_hook_that_shows_another_past_is_named() {
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let hooks = Hooks::new().transform_context(move |history| {
        let n = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let note = AgentMessage::user(format!("request {n}")).into();
        let list = std::iter::once(note).chain(history.entries().map(|e| e.shared().clone()));
        let shown = history.rebuilt(list).0;
        async move { Ok(shown) }
    });
    let agent = agent().with_hooks(hooks);
    run(&agent, LONG).await;
    let found = breaks(&run(&agent, "On.").await);
    assert!(found.iter().all(|f| f.cause == CacheBreakCause::ContextHook), "{found:?}");

    let same = Hooks::new().transform_context(|history| async move { Ok(history) });
    let agent = agent_with(same);
    run(&agent, LONG).await;
    assert!(breaks(&run(&agent, "On.").await).is_empty());
}

fn agent_with(hooks: Hooks) -> BasicAgent {
    agent().with_hooks(hooks)
}

/// X8: where the provider reports its cache, the event has its figures.
#[tokio::test]
async fn what_the_provider_reports_is_in_the_event() {
    let provider = ScriptedProvider::new([
        ScriptedReply::text(LONG).using(Usage::new(10, 5, 0, 900)),
        ScriptedReply::text(LONG).using(Usage::new(30, 5, 200, 700)),
    ]);
    let mut agent = agent().with_provider(provider);
    run(&agent, LONG).await;
    agent.set_system_prompt("Other.");
    let figures = broken(&agent).await.reported.unwrap();
    assert_eq!((figures.read, figures.written, figures.expected, figures.missed()), (200, 700, 910, 710));
}

/// A new conversation owes nothing to the old one, and who does not want to know is not told.
#[tokio::test]
async fn a_new_conversation_breaks_nothing_and_the_watch_can_be_off() {
    let mut agent = agent();
    run(&agent, LONG).await;
    agent.clear_messages().unwrap();
    agent.set_system_prompt("Other.");
    assert!(breaks(&run(&agent, LONG).await).is_empty());
    let mut agent = agent.without_cache_watch();
    agent.set_system_prompt("And another.");
    assert!(breaks(&run(&agent, "On.").await).is_empty());
}

/// A vendor that keeps its cache for five minutes and says why it missed.
struct Caching {
    inner: ScriptedProvider,
    misses: Mutex<Vec<Option<CacheMiss>>>,
}

#[async_trait::async_trait]
impl StreamProvider for Caching {
    fn provider_id(&self) -> &str {
        "caching"
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        let completion = self.inner.stream(request, sink, cancel).await?;
        let miss = self.misses.lock().unwrap().pop().flatten();
        Ok(completion.with_cache_miss(miss))
    }

    fn cache_lifetime(&self, _request: &ModelRequest) -> Option<Duration> {
        Some(Duration::from_secs(300))
    }
}

/// The breaks of the prompts after the first. Before each, the clock advances; then come its cache reads and writes.
async fn after_pauses(turns: &[(u64, u64, u64)], misses: Vec<Option<CacheMiss>>) -> Vec<Vec<CacheBreak>> {
    let first = ScriptedReply::text(LONG).using(Usage::new(10, 5, 0, 900));
    let later = turns
        .iter()
        .map(|(_, read, write)| ScriptedReply::text(LONG).using(Usage::new(10, 5, *read, *write)));
    let mut misses: Vec<_> = std::iter::once(None).chain(misses).collect();
    misses.reverse();
    let inner = ScriptedProvider::new(std::iter::once(first).chain(later));
    let clock = ManualEnvironment::at(1_000);
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(Caching { inner, misses: Mutex::new(misses) })
        .with_environment(Arc::new(clock.clone()))
        .with_system_prompt("Be brief.");
    assert!(breaks(&run(&agent, LONG).await).is_empty());
    let mut found = Vec::new();
    for (seconds, _, _) in turns {
        clock.advance(Duration::from_secs(*seconds));
        found.push(breaks(&run(&agent, "On.").await));
    }
    found
}

#[tokio::test(start_paused = true)]
async fn a_pause_longer_than_the_lifetime_is_a_cause_if_the_cache_was_gone() {
    // Within the lifetime; beyond it, but still there; beyond it and gone; and afterwards within it again.
    let found =
        after_pauses(&[(299, 900, 30), (301, 930, 30), (3_600, 0, 990), (300, 0, 1_020)], vec![]).await;
    assert!(found[0].is_empty() && found[1].is_empty() && found[3].is_empty(), "{found:?}");
    let [expired] = &*found[2] else { panic!("{found:?}") };
    assert_eq!(expired.cause, CacheBreakCause::Expired { lifetime_seconds: 300, idle_seconds: 3_600 });
    assert_eq!((expired.field.as_str(), expired.intended, expired.rebilled_tokens), ("cache", false, 960));
    assert_eq!(expired.reported.unwrap().read, 0);
    let json = serde_json::to_value(expired).unwrap();
    assert_eq!(
        json["cause"],
        serde_json::json!({"cause": "expired", "lifetime_seconds": 300, "idle_seconds": 3600})
    );
    assert_eq!(serde_json::from_value::<CacheBreak>(json).unwrap(), *expired);
}

#[tokio::test(start_paused = true)]
async fn a_part_that_expired_is_counted_alone() {
    let found = after_pauses(&[(400, 600, 300)], vec![]).await;
    assert_eq!(found[0][0].rebilled_tokens, 300);
}

#[tokio::test(start_paused = true)]
async fn the_reason_of_the_vendor_stands_beside_ours() {
    let miss = |reason: &str, tokens| Some(CacheMiss::new(reason, tokens));
    let turns = [(301, 0, 900), (10, 0, 900), (10, 900, 0), (10, 900, 0)];
    let misses =
        vec![miss("unavailable", None), miss("messages_changed", Some(850)), miss("unavailable", None), None];
    let found = after_pauses(&turns, misses).await;
    let [expired] = &*found[0] else { panic!("{found:?}") };
    assert!(matches!(expired.cause, CacheBreakCause::Expired { .. }));
    assert_eq!(expired.vendor, miss("unavailable", None));
    // Only the vendor noticed this one.
    let [theirs] = &*found[1] else { panic!("{found:?}") };
    assert_eq!(
        (&theirs.cause, theirs.field.as_str(), theirs.rebilled_tokens),
        (&CacheBreakCause::Unknown, "", 850)
    );
    assert_eq!(theirs.vendor, miss("messages_changed", Some(850)));
    assert!(found[2].is_empty() && found[3].is_empty(), "{found:?}");
}
