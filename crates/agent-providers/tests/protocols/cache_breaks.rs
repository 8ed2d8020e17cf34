//! Where a request stops being the last one, found in the bytes that a server gets.

use agent_core::compat::SeedSetters as _;
use agent_core::compat::SeedVerbs as _;
use std::sync::Arc;

use agent_core::testing::ScriptedTool;
use agent_core::{
    AgentEvent, AgentMessage, AgentTool, ApiProtocol, BasicAgent, CacheBreak, CacheBreakCause, CacheConfig,
    RetryConfig,
};
use agent_providers::ProviderRegistry;
use serde_json::json;

use crate::eight::{ANTHROPIC, EVERY, Said, Vendor};
use crate::support::{Act, Server, head, piece};

const LONG: &str =
    "a text that is long enough to be missed when it has to be read again, with \"quotes\" and a \\ in it";

/// What stands for a marker in the vendors' bodies.
const MARKERS: [&str; 2] =
    [r#","cache_control":{"type":"ephemeral"}"#, r#",{"cachePoint":{"type":"default"}}"#];

struct Scene {
    server: Server,
    agent: BasicAgent,
}

async fn scene(vendor: Vendor) -> Scene {
    let scripts = (0..12).map(|n| {
        let said = Said { number: n, ..Said::text(format!("{n}: {LONG}")) };
        vendor.answer(&if n == 0 { said.call("call_1", "look", json!({"path": "src"})) } else { said })
    });
    let server = Server::start(scripts.collect()).await;
    let agent = BasicAgent::new(vendor.at(&server.url()))
        .with_provider(ProviderRegistry::default())
        .with_retry_config(RetryConfig::none())
        .with_system_prompt("You are careful. The time is 10:00.")
        .with_tool(ScriptedTool::saying("look", LONG))
        .with_tool(ScriptedTool::saying("find", "nothing"));
    Scene { server, agent }
}

impl Scene {
    async fn breaks(&self, prompt: &str) -> Vec<CacheBreak> {
        let events = self.agent.prompt(prompt).unwrap().collect().await;
        assert!(
            events
                .iter()
                .any(|e| matches!(e, AgentEvent::AgentEnd(end) if end.ended == agent_core::Ended::Completed)),
            "{events:?}"
        );
        let found = events.into_iter().filter_map(|e| match e {
            AgentEvent::CacheBroken(found) => Some(*found),
            _ => None,
        });
        found.collect()
    }

    /// The one break of the next prompt; its byte is the first that differs in what the server got.
    async fn broken(&self, case: &str) -> CacheBreak {
        let mut found = self.breaks("And now?").await;
        assert_eq!(found.len(), 1, "{case}: {found:?}");
        let found = found.remove(0);
        let asked = self.server.asked();
        let plain =
            |n: usize| MARKERS.iter().fold(asked[n].body.clone(), |body, marker| body.replace(marker, ""));
        let (old, new) = (plain(asked.len() - 2), plain(asked.len() - 1));
        let byte = found.byte.unwrap() as usize;
        let differs = old.bytes().zip(new.bytes()).position(|(a, b)| a != b).unwrap();
        assert_eq!(byte, differs, "{case}: {found:?}\n{old}\n{new}");
        found
    }
}

fn system_field(vendor: Vendor) -> &'static str {
    match vendor.api {
        ApiProtocol::AnthropicMessages
        | ApiProtocol::AnthropicVertex
        | ApiProtocol::BedrockConverseStream => "system[0].text",
        ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => "systemInstruction.parts[0].text",
        ApiProtocol::OpenAiCompletions | ApiProtocol::OllamaChat => "messages[0].content",
        _ => "instructions",
    }
}

fn messages_field(vendor: Vendor) -> &'static str {
    match vendor.api {
        ApiProtocol::GoogleGenerativeAi | ApiProtocol::GoogleVertex => "contents[",
        ApiProtocol::OpenAiResponses | ApiProtocol::AzureOpenAiResponses => "input[",
        _ => "messages[",
    }
}

/// X8: a run with a call of a tool and more prompts behind it breaks nothing, in any protocol, while the markers move.
#[tokio::test]
async fn a_conversation_that_grows_breaks_no_cache() {
    for vendor in EVERY {
        let mut scene = scene(vendor).await;
        for prompt in ["Look.", "And?", "Go on.", "More."] {
            assert_eq!(scene.breaks(prompt).await, [], "{}", vendor.name);
        }
        assert_eq!(scene.server.asked().len(), 5);
        // A request that differs in what is no part of the prompt.
        scene.agent.set_config(|c| {
            c.request.max_tokens = Some(77);
            c.request.temperature = Some(0.5);
        });
        assert_eq!(scene.breaks("Shorter.").await, [], "{}", vendor.name);
    }
}

/// X8: a changed system prompt, in the field and at the byte where the vendor's body has it.
#[tokio::test]
async fn a_changed_system_prompt_is_found_at_its_byte() {
    for vendor in EVERY {
        let mut scene = scene(vendor).await;
        assert_eq!(scene.breaks("Look.").await, []);
        scene.agent.set_system_prompt("You are careful. The time is 10:01.");
        let found = scene.broken(vendor.name).await;
        let field = found.field.split_once("[0].content[0]").map_or(found.field.as_str(), |_| "instructions");
        assert_eq!(field, system_field(vendor), "{}", vendor.name);
        assert_eq!((found.cause, found.intended), (CacheBreakCause::SystemPrompt, false));
        // The prompt, the reply with its call, and the result were sent before.
        assert!(found.rebilled_tokens > 0, "{}", vendor.name);
        assert_eq!(scene.breaks("Go on.").await, []);
    }
}

/// X8: tools that stand in another order.
#[tokio::test]
async fn tools_in_another_order_are_found_at_their_byte() {
    for vendor in EVERY {
        let scene = scene(vendor).await;
        assert_eq!(scene.breaks("Look.").await, []);
        scene.agent.change_tools(|tools| tools.reverse());
        let found = scene.broken(vendor.name).await;
        assert!(
            found.field.starts_with("tools[0]") || found.field.starts_with("toolConfig.tools[0]"),
            "{found:?}"
        );
        assert!(found.field.ends_with("name"), "{found:?}");
        let CacheBreakCause::Tools { reordered: true, added, .. } = found.cause else { panic!("{found:?}") };
        assert!(added.is_empty());
        scene.agent.change_tools(|tools| {
            tools.push(Arc::new(ScriptedTool::saying("read", "x")) as Arc<dyn AgentTool>);
        });
        let found = scene.broken(vendor.name).await;
        assert!(
            matches!(found.cause, CacheBreakCause::Tools { ref added, .. } if *added == ["read"]),
            "{found:?}"
        );
    }
}

/// X8: a message in the past that was edited, while what follows it stays.
#[tokio::test]
async fn an_edited_message_is_found_at_its_byte() {
    for vendor in EVERY {
        let scene = scene(vendor).await;
        assert_eq!(scene.breaks("Look.").await, []);
        assert_eq!(scene.breaks("And?").await, []);
        let mut messages = scene.agent.history().to_vec();
        messages[0] = AgentMessage::user("Look there.");
        scene.agent.replace_messages(messages).unwrap();
        let found = scene.broken(vendor.name).await;
        assert!(found.field.starts_with(messages_field(vendor)), "{found:?}");
        let first =
            usize::from(matches!(vendor.api, ApiProtocol::OpenAiCompletions | ApiProtocol::OllamaChat));
        let at = found.message.unwrap();
        assert!(at == first || system_field(vendor) == "instructions", "{}: {found:?}", vendor.name);
        assert_eq!(found.cause, CacheBreakCause::History, "{}", vendor.name);
        assert!(found.rebilled_tokens > 0);
    }
}

/// X8: a switch of cache markers is no break: they are no part of what a model reads.
#[tokio::test]
async fn markers_that_come_and_go_are_no_break() {
    for vendor in EVERY {
        let scene = scene(vendor).await;
        assert_eq!(scene.breaks("Look.").await, []);
        let scene = Scene { agent: scene.agent.with_cache_config(CacheConfig::disabled()), ..scene };
        assert_eq!(scene.breaks("And?").await, [], "{}", vendor.name);
    }
}

/// X8: with what the vendor says of its cache, the event says what was paid again in truth.
#[tokio::test]
async fn what_the_vendor_reports_of_its_cache_is_in_the_event() {
    let answer = |input: u64, read: u64, written: u64| {
        let start = json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant",
            "model": "m", "content": [], "usage": {"input_tokens": input, "output_tokens": 1,
            "cache_read_input_tokens": read, "cache_creation_input_tokens": written}}});
        let rest = [
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "ok"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
            json!({"type": "message_stop"}),
        ];
        let events: String = std::iter::once(start)
            .chain(rest)
            .map(|e| format!("event: {}\ndata: {e}\n\n", e["type"].as_str().unwrap()))
            .collect();
        vec![head(200, "text/event-stream"), piece(&events), Act::End]
    };
    let server = Server::start(vec![answer(20, 0, 5_000), answer(30, 1_000, 4_100)]).await;
    let agent = BasicAgent::new(ANTHROPIC.at(&server.url()))
        .with_provider(ProviderRegistry::default())
        .with_tool(ScriptedTool::saying("look", "x"))
        .with_system_prompt("The time is 10:00.");
    let mut scene = Scene { server, agent };
    assert_eq!(scene.breaks(LONG).await, []);
    scene.agent.set_system_prompt("The time is 10:01.");
    let found = scene.broken("anthropic").await;
    let figures = found.reported.unwrap();
    assert_eq!(
        (figures.read, figures.written, figures.expected, figures.missed()),
        (1_000, 4_100, 5_020, 4_020)
    );
    assert!(found.rebilled_tokens > 0 && found.rebilled_tokens <= 5_020, "{found:?}");
}
