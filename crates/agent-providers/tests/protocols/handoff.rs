//! One conversation through all eight protocols in turn (D20): with tools, parallel calls, thinking, thinking that was
//! withheld, pictures in prompts and results, and a reply that was aborted.

use agent_core::compat::SeedSetters as _;
use std::sync::Arc;

use agent_core::{
    AgentEvent, AgentTool, ApiProtocol, BasicAgent, Content, ImageContent, RetryConfig, ThinkingLevel,
    ToolResult, tool_fn,
};
use agent_providers::ProviderRegistry;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::eight::{EVERY, OLLAMA, Said, Vendor};
use crate::reading::{Item, assert_paired, items, pictures};
use crate::support::{Asked, Server};

/// One pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[derive(Deserialize, JsonSchema)]
struct Place {
    #[expect(dead_code, reason = "only its schema counts")]
    town: String,
}

fn tools() -> Vec<Arc<dyn AgentTool>> {
    let look = tool_fn("look", "Looks.", |_: Place, _| async { Ok("a harbour") });
    let draw = tool_fn("draw", "Draws.", |_: Place, _| async {
        Ok(ToolResult::from(vec![Content::image(PIXEL, "image/png")]))
    });
    vec![Arc::new(look), Arc::new(draw)]
}

/// The ids of a leg, as different vendors make them, with some that others do not take.
fn id(leg: usize, n: usize) -> String {
    match leg % 4 {
        0 => format!("toolu_{leg}_{n}"),
        1 => format!("call_{leg}_{n}|fc_{}", "7".repeat(60)),
        2 => format!("functions.look:{leg}{n}"),
        _ => format!("tooluse_é{leg}{n}"),
    }
}

/// What a vendor answers on its leg: calls beside each other, then an end, then a reply that stops in its middle.
fn script(vendor: Vendor, leg: usize) -> Vec<Vec<crate::support::Act>> {
    let town = || json!({"town": "Köln"});
    let calls = Said { thinks: true, ..Said::text(format!("Looking for {}.", vendor.name)) }
        .call(&id(leg, 1), "look", town())
        .call(&id(leg, 2), "draw", town())
        .call(&id(leg, 3), "look", town())
        .call(&id(leg, 4), "no such tool", town());
    let end = Said { thinks: true, number: 1, ..Said::text(format!("Done by {}.", vendor.name)) };
    let half = Said { stalls: true, number: 2, ..Said::text(format!("Half of {}", vendor.name)) };
    [calls, end, half]
        .map(|mut said| {
            said.number += 10 * leg;
            vendor.answer(&said)
        })
        .into()
}

/// Whether the target's API takes an id of a call.
fn takes(api: ApiProtocol, id: &str) -> bool {
    let most = match api {
        ApiProtocol::OpenAiCompletions => 40,
        _ => 64,
    };
    let word = id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    // Google states no rule.
    matches!(api, ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex)
        || (word && !id.is_empty() && id.len() <= most)
}

/// What is told of the conversation so far.
struct Leg {
    vendor: Vendor,
    /// How many pictures stand before and in this request.
    pictures: usize,
    /// How many calls have been made before this request.
    calls: usize,
    aborted: Vec<&'static str>,
    /// The ids of the model's own calls before this request.
    own: Vec<String>,
}

fn check(asked: &Asked, leg: &Leg, blind: bool) {
    let (vendor, body): (Vendor, Value) = (leg.vendor, asked.json());
    let what = vendor.name;
    let found = items(vendor.api, &body);
    let ids = assert_paired(&found, what);
    let calls = found.iter().filter(|i| matches!(i, Item::Call { .. })).count();
    assert_eq!(calls, leg.calls, "{what}: no call is lost");
    for id in ids {
        assert!(takes(vendor.api, &id) || leg.own.contains(&id), "{what}: the id {id:?}");
    }
    let sent = |id: &String| {
        found.iter().filter(|item| matches!(item, Item::Call { id: Some(sent), .. } if sent == id)).count()
    };
    let named = found.iter().any(|item| matches!(item, Item::Call { id: Some(_), .. }));
    for id in leg.own.iter().filter(|_| named) {
        assert_eq!(sent(id), 1, "{what}: its own id {id:?} comes back as it was");
    }
    let seen = if blind { 0 } else { leg.pictures };
    assert_eq!(pictures(vendor.api, &body), seen, "{what}: pictures");
    assert_eq!(asked.body.contains("image left out"), blind && leg.pictures > 0, "{what}");
    for other in EVERY.iter().filter(|other| **other != vendor) {
        assert!(
            !asked.body.contains(&other.mark()),
            "{what} is sent what {} has signed: {}",
            other.name,
            asked.body
        );
        assert!(!asked.body.contains(&other.thought()), "{what} is sent what {} thought", other.name);
    }
    for half in &leg.aborted {
        assert!(!asked.body.contains(&format!("Half of {half}")), "{what}: a reply that was aborted is sent");
    }
}

/// Goes through these in turn. A blind model is told of pictures in words.
async fn relay(ring: Vec<Vendor>, blind: bool) {
    let mut agent = BasicAgent::new(ring[0].at("http://unused"))
        .with_provider(ProviderRegistry::default())
        .with_system_prompt("You draw.")
        .with_tools(tools())
        .with_thinking(ThinkingLevel::Medium)
        .with_retry_config(RetryConfig::none());
    let (mut shown, mut calls, mut aborted, mut been, mut own) = (0, 0, Vec::new(), Vec::new(), Vec::new());
    let ids = |leg: usize| (1..=4).map(move |n| id(leg, n));
    for (n, vendor) in ring.into_iter().enumerate() {
        let server = Server::start(script(vendor, n)).await;
        let mut model = vendor.at(&format!("http://{}", server.address));
        model.images = !blind;
        agent.switch_provider(model).unwrap();
        let picture = ImageContent::Base64 { data: PIXEL.to_owned(), mime_type: "image/png".to_owned() };
        let answer = agent.chat(("What is on this picture?", vec![picture])).await;
        assert_eq!(
            answer.unwrap_or_else(|e| panic!("{}: {e}", vendor.name)),
            format!("Done by {}.", vendor.name)
        );

        // A reply that the caller aborts while it comes.
        let mut events = agent.prompt("And now?").unwrap();
        while let Some(event) = events.recv().await {
            if matches!(event, AgentEvent::MessageUpdate { .. }) {
                agent.abort();
            }
        }
        let asked = server.asked();
        assert_eq!(asked.len(), 3, "{}", vendor.name);
        let leg = |pictures, calls, own: &Vec<String>| Leg {
            vendor,
            pictures,
            calls,
            aborted: aborted.clone(),
            own: own.clone(),
        };
        let earlier = own.iter().filter(|(other, _)| *other == vendor).flat_map(|(_, n)| ids(*n)).collect();
        own.push((vendor, n));
        let all = own.iter().filter(|(other, _)| *other == vendor).flat_map(|(_, n)| ids(*n)).collect();
        check(&asked[0], &leg(shown + 1, calls, &earlier), blind);
        check(&asked[1], &leg(shown + 2, calls + 4, &all), blind);
        check(&asked[2], &leg(shown + 2, calls + 4, &all), blind);
        // What a model has signed comes back to it: of this leg, and of an earlier one.
        let signs = !matches!(vendor.api, ApiProtocol::OpenAiCompletions | ApiProtocol::OllamaChat);
        assert_eq!(asked[1].body.contains(&vendor.mark()), signs, "{}: {}", vendor.name, asked[1].body);
        if been.contains(&vendor) {
            assert_eq!(asked[0].body.contains(&vendor.mark()), signs, "{}", vendor.name);
        }
        if vendor == OLLAMA {
            assert!(asked[1].body.contains(&vendor.thought()));
        }
        shown += 2;
        calls += 4;
        aborted.push(vendor.name);
        been.push(vendor);
    }
}

/// B-131, B-134, B-139.
#[tokio::test]
async fn one_conversation_goes_through_all_eight_and_comes_back() {
    let ring: Vec<Vendor> = EVERY.iter().copied().cycle().take(EVERY.len() + 2).collect();
    relay(ring, false).await;
}

/// B-132, B-135, B-141.
#[tokio::test]
async fn it_goes_the_other_way_round_too() {
    let mut ring: Vec<Vendor> = EVERY.iter().rev().copied().collect();
    ring.push(ring[0]);
    relay(ring, false).await;
}

/// B-140.
#[tokio::test]
async fn models_without_eyes_are_told_of_pictures_in_words() {
    relay(EVERY.to_vec(), true).await;
}
