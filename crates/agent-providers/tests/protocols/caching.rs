//! Lifetimes of prompt caches in whole runs: what is sent, counted, paid and reported.

use std::sync::Arc;
use std::time::Duration;

use agent_core::compat::SeedSetters as _;
use agent_core::testing::ManualEnvironment;
use agent_core::{
    AgentEvent, BasicAgent, Budget, BudgetLimits, CacheBreak, CacheBreakCause, CacheConfig, CacheMiss,
    CacheTtl, Usage,
};
use agent_providers::{ProviderRegistry, catalogue};
use serde_json::{Value, json};

use crate::eight::{ANTHROPIC, RESPONSES, Vendor};
use crate::support::{Act, Server, head, piece};

struct Scene {
    server: Server,
    agent: BasicAgent,
    budget: Budget,
    clock: ManualEnvironment,
}

async fn scene(vendor: Vendor, config: CacheConfig, answers: Vec<Vec<Act>>) -> Scene {
    let server = Server::start(answers).await;
    let clock = ManualEnvironment::at(1_000);
    let budget = Budget::new(BudgetLimits::none().with_money("100".parse().unwrap()));
    let agent = BasicAgent::new(vendor.at(&server.url()))
        .with_provider(ProviderRegistry::default())
        .with_environment(Arc::new(clock.clone()))
        .with_budget(budget.clone())
        .with_cache_config(config)
        .with_system_prompt("Be brief.");
    Scene { server, agent, budget, clock }
}

impl Scene {
    /// The usage of the next turn, what it cost in micro-units, and its cache breaks.
    async fn turn(&self) -> (Usage, u64, Vec<CacheBreak>) {
        let before = self.spent();
        let events = self.agent.prompt("And?").unwrap().collect().await;
        let usage = events.iter().find_map(|event| match event {
            AgentEvent::TurnEnd { usage, .. } => Some(*usage),
            _ => None,
        });
        let breaks = events.iter().filter_map(|event| match event {
            AgentEvent::CacheBroken(found) => Some((**found).clone()),
            _ => None,
        });
        (usage.unwrap(), self.spent() - before, breaks.collect())
    }

    fn spent(&self) -> u64 {
        (self.budget.spent().money.to_string().parse::<f64>().unwrap() * 1_000_000.0).round() as u64
    }

    fn sent(&self, n: usize) -> Value {
        self.server.asked()[n].json()
    }
}

fn of_anthropic(id: &str, usage: Value, diagnostics: Value) -> Vec<Act> {
    let events = [
        json!({"type": "message_start", "message": {"id": id, "type": "message", "role": "assistant", "model": "m",
            "content": [], "usage": usage, "diagnostics": diagnostics}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "ok"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
        json!({"type": "message_stop"}),
    ];
    let text: String =
        events.iter().map(|e| format!("event: {}\ndata: {e}\n\n", e["type"].as_str().unwrap())).collect();
    vec![head(200, "text/event-stream"), piece(&text), Act::End]
}

#[tokio::test]
async fn an_hour_at_anthropic_is_sent_paid_and_over_after_an_hour() {
    let usage = |read: u64, short: u64, long: u64| {
        json!({"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": read,
            "cache_creation_input_tokens": short + long,
            "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long}})
    };
    let miss = json!({"cache_miss_reason": {"type": "unavailable"}});
    let answers = vec![
        of_anthropic("msg_1", usage(0, 1_000, 4_000), json!(null)),
        of_anthropic("msg_2", usage(4_000, 1_000, 0), json!(null)),
        of_anthropic("msg_3", usage(0, 0, 6_000), miss),
    ];
    let config = CacheConfig::default().with_ttl(CacheTtl::OneHour);
    let scene = scene(ANTHROPIC, config, answers).await;

    let (used, cost, breaks) = scene.turn().await;
    assert_eq!((used.cache_write, used.cache_write_long), (5_000, 4_000));
    let prices = catalogue::find("anthropic", ANTHROPIC.model).unwrap().cost.clone();
    assert_eq!(
        (prices.input, prices.cache_write, prices.cache_write_long),
        (3_000_000, 3_750_000, Some(6_000_000))
    );
    assert_eq!(cost, 10 * 3 + 2 * 15 + 1_000 * 15 / 4 + 4_000 * 6);
    assert_eq!(breaks, []);
    assert_eq!(scene.sent(0)["system"][0]["cache_control"], json!({"type": "ephemeral", "ttl": "1h"}));

    // Within the hour, a part of the cache is gone, but not for its age; that is no break of ours.
    scene.clock.advance(Duration::from_secs(3_599));
    assert_eq!(scene.turn().await.2, []);

    scene.clock.advance(Duration::from_secs(3_601));
    let (used, _, breaks) = scene.turn().await;
    assert_eq!(used.cache_write_long, 6_000);
    let [expired] = &*breaks else { panic!("{breaks:?}") };
    assert_eq!(expired.cause, CacheBreakCause::Expired { lifetime_seconds: 3_600, idle_seconds: 3_601 });
    assert_eq!(expired.rebilled_tokens, 5_000);
    assert_eq!(expired.vendor, Some(CacheMiss::new("unavailable", None)));
    assert!(scene.sent(2).get("diagnostics").is_none(), "only the vendor itself is asked");
}

fn of_openai(id: &str, read: u64, written: u64, diagnostics: Value) -> Vec<Act> {
    let output = json!([{"type": "message", "id": format!("msg_{id}"), "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "ok", "annotations": []}]}]);
    let response = json!({"id": id, "status": "completed", "output": output, "prompt_cache_diagnostics": diagnostics,
        "usage": {"input_tokens": 5_010, "output_tokens": 2, "total_tokens": 5_012, "input_tokens_details":
            {"cached_tokens": read, "cache_write_tokens": written, "cache_write_tokens_details":
                {"ttl_30m_tokens": 0, "ttl_12h_tokens": written}}}});
    let created = json!({"type": "response.created", "response": {"id": id, "status": "in_progress"}});
    let ended = json!({"type": "response.completed", "response": response});
    let text: String = [created, ended]
        .iter()
        .map(|e| format!("event: {}\ndata: {e}\n\n", e["type"].as_str().unwrap()))
        .collect();
    vec![head(200, "text/event-stream"), piece(&text), Act::End]
}

#[tokio::test]
async fn the_reason_of_openai_stands_beside_ours() {
    let changed = json!({"type": "cache_miss", "reason": "tools_changed", "cache_missed_tokens": 4_900});
    let answers = vec![
        of_openai("resp_1", 0, 5_000, json!(null)),
        of_openai("resp_2", 5_000, 0, json!({"type": "cache_hit"})),
        of_openai("resp_3", 0, 5_000, changed),
        of_openai("resp_4", 0, 5_000, json!({"type": "unavailable"})),
    ];
    let config = CacheConfig::default().with_ttl(CacheTtl::TwelveHours).with_diagnostics();
    let vendor = Vendor { model: "gpt-5.6-sol", ..RESPONSES };
    let scene = scene(vendor, config, answers).await;
    assert_eq!(scene.turn().await.0.cache_write_long, 5_000);
    assert_eq!(scene.sent(0)["prompt_cache_options"], json!({"ttl": "12h"}));
    assert_eq!(scene.turn().await.2, []);
    let options = |n: usize| scene.sent(n)["prompt_cache_options"].clone();
    assert_eq!(options(1), json!({"ttl": "12h", "comparison_response_id": "resp_1"}));

    let breaks = scene.turn().await.2;
    let [theirs] = &*breaks else { panic!("{breaks:?}") };
    assert_eq!((&theirs.cause, theirs.rebilled_tokens), (&CacheBreakCause::Unknown, 4_900));
    assert_eq!(theirs.vendor, Some(CacheMiss::new("tools_changed", Some(4_900))));

    scene.clock.advance(Duration::from_secs(12 * 3_600 + 1));
    let breaks = scene.turn().await.2;
    let [expired] = &*breaks else { panic!("{breaks:?}") };
    let (lifetime_seconds, idle_seconds) = (43_200, 43_201);
    assert_eq!(expired.cause, CacheBreakCause::Expired { lifetime_seconds, idle_seconds });
    assert_eq!(expired.vendor, Some(CacheMiss::new("unavailable", None)));
    assert_eq!(options(3)["comparison_response_id"], "resp_3");
}
