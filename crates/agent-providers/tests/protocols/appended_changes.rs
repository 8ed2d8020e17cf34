//! Tools and system prompts that change within a conversation: appended in the vendor's own form, so that each request
//! begins with the bytes of the one before, and sent again where there is no such form.

use std::sync::Arc;

use agent_core::compat::{SeedSetters as _, SeedVerbs as _};
use agent_core::message::INSTRUCTIONS_NOTE;
use agent_core::testing::ScriptedTool;
use agent_core::{
    AgentEvent, AgentMessage, AgentSnapshot, AgentTool, BasicAgent, CacheBreak, CacheBreakCause, CacheConfig,
    RetryConfig,
};
use agent_providers::ProviderRegistry;
use serde_json::{Value, json};

use crate::eight::{ANTHROPIC, BEDROCK, EVERY, Said, Vendor};
use crate::support::{Act, Asked, Server, head, piece};

const LONG: &str = "a text that is long enough to be missed when it has to be read again";

/// The model of the Anthropic API for which the vendor documents system messages within a conversation.
const MODEL: &str = "claude-opus-5";

struct Scene {
    server: Server,
    agent: BasicAgent,
}

fn tool(name: &str) -> Arc<dyn AgentTool> {
    Arc::new(ScriptedTool::saying(name, LONG))
}

fn agent(vendor: Vendor, url: &str, config: CacheConfig) -> BasicAgent {
    let mut model = vendor.at(url);
    if vendor == ANTHROPIC {
        model.id = MODEL.to_owned();
    }
    BasicAgent::new(model)
        .with_provider(ProviderRegistry::default())
        .with_retry_config(RetryConfig::none())
        .with_system_prompt("You are careful.")
        .with_cache_config(config)
        .with_tools(vec![tool("look"), tool("find")])
}

async fn scene(vendor: Vendor, config: CacheConfig) -> Scene {
    let scripts = (0..12).map(|number| {
        let said = Said { number, ..Said::text(format!("{number}: {LONG}")) };
        let has_rules = [ANTHROPIC, BEDROCK].contains(&vendor);
        let mut script = if has_rules { vec![Act::Refuse(fault)] } else { Vec::new() };
        script.extend(vendor.answer(&if number == 0 {
            said.call("call_1", "look", json!({}))
        } else {
            said
        }));
        script
    });
    let server = Server::start(scripts.collect()).await;
    let agent = agent(vendor, &server.url(), config);
    Scene { server, agent }
}

/// The rules for a message of the system: behind a message of the user, before a reply or at the end; the tools that it
/// removes exist there, and tools are defined within the conversation only under the beta.
fn fault(asked: &Asked) -> Option<Value> {
    let body = asked.json();
    let messages = body.get("messages")?.as_array()?;
    let role = |at: usize| messages.get(at).map(|m| m["role"].as_str().unwrap());
    let mut offered: Vec<String> = body["tools"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|t| t["name"].as_str().unwrap().to_owned())
        .collect();
    let declared = body["toolConfig"]["tools"].as_array().into_iter().flatten();
    let declared: Vec<String> =
        declared.filter_map(|t| t["toolSpec"]["name"].as_str().map(str::to_owned)).collect();
    offered.extend(declared.iter().cloned());
    let beta = asked.headers.to_lowercase().contains("anthropic-beta: inline-tools-2026-09-15");
    for (at, message) in messages.iter().enumerate() {
        if role(at) != Some("system") {
            continue;
        }
        if at == 0 || role(at - 1) != Some("user") || !matches!(role(at + 1), None | Some("assistant")) {
            return Some(
                json!({"error": {"type": "invalid_request_error", "message": format!("messages.{at}: a misplaced system message")}}),
            );
        }
        for block in message["content"].as_array().unwrap() {
            let removed = [&block["tool"]["name"], &block["toolRemoval"]["tool"]["name"]];
            let inline = block["type"] == "tool_addition" || block["type"] == "tool_removal";
            if inline && !beta {
                return Some(
                    json!({"error": {"type": "invalid_request_error", "message": "the beta is missing"}}),
                );
            }
            if let Some(name) = removed.into_iter().find_map(Value::as_str) {
                let Some(known) = offered.iter().position(|tool| tool == name) else {
                    return Some(
                        json!({"error": {"type": "invalid_request_error", "message": format!("no tool {name}")}}),
                    );
                };
                offered.remove(known);
            }
            if let Some(name) = block["tool"]["definition"]["name"].as_str() {
                offered.push(name.to_owned());
            }
            if let Some(name) = block["toolAddition"]["tool"]["name"].as_str() {
                if !declared.iter().any(|tool| tool == name) {
                    return Some(json!({"message": format!("{name} is not in the tool configuration")}));
                }
                offered.push(name.to_owned());
            }
        }
    }
    None
}

impl Scene {
    async fn breaks(&self, prompt: &str) -> Vec<CacheBreak> {
        let events = self.agent.prompt(prompt).unwrap().collect().await;
        let done = |e: &AgentEvent| matches!(e, AgentEvent::AgentEnd(end) if end.ended == agent_core::Ended::Completed);
        assert!(events.iter().any(done), "{events:?}");
        let found = events.into_iter().filter_map(|e| match e {
            AgentEvent::CacheBroken(found) => Some(*found),
            _ => None,
        });
        found.collect()
    }

    fn bodies(&self) -> Vec<String> {
        let markers = [r#","cache_control":{"type":"ephemeral"}"#, r#",{"cachePoint":{"type":"default"}}"#];
        let plain =
            |asked: &Asked| markers.iter().fold(asked.body.clone(), |body, marker| body.replace(marker, ""));
        self.server.asked().iter().map(plain).collect()
    }

    /// Each body begins with the one before it, up to the end of the messages.
    fn assert_bodies_extend(&self) {
        let bodies = self.bodies();
        for pair in bodies.windows(2) {
            let begin = pair[0].strip_suffix("]}").unwrap();
            assert!(pair[1].starts_with(begin), "{}\n{}", pair[0], pair[1]);
        }
    }

    fn last(&self) -> Value {
        self.server.asked().last().unwrap().json()
    }
}

fn system_messages(body: &Value) -> Vec<Value> {
    let messages = body["messages"].as_array().unwrap().iter();
    messages.filter(|message| message["role"] == "system").map(|message| message["content"].clone()).collect()
}

fn definition(name: &str) -> Value {
    let built = ScriptedTool::saying(name, LONG);
    json!({"name": name, "description": built.description(), "input_schema": {"type": "object", "properties": {}}})
}

#[tokio::test]
async fn anthropic_gets_changes_as_messages_and_keeps_its_cache() {
    let mut scene = scene(ANTHROPIC, CacheConfig::default().with_appended_changes()).await;
    assert_eq!(scene.breaks("Look.").await, []);
    assert_eq!(scene.breaks("And?").await, []);
    assert!(!scene.server.asked()[2].headers.contains("inline-tools"), "there is no change yet");

    scene.agent.change_tools(|tools| {
        tools.remove(1);
        tools.push(tool("read"));
    });
    assert_eq!(scene.breaks("Read.").await, []);
    let of_tools = json!([
        {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "find"}},
        {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition("read")}},
    ]);
    assert_eq!(system_messages(&scene.last()), std::slice::from_ref(&of_tools));

    scene.agent.set_system_prompt("You are careful.\n\nAnswer in French.");
    assert_eq!(scene.breaks("And?").await, []);
    scene.agent.set_system_prompt("You are quick.");
    scene.agent.change_tools(|tools| tools.push(tool("find")));
    assert_eq!(scene.breaks("More?").await, []);
    let appended = json!([{"type": "text", "text": "Answer in French."}]);
    let replaced = "The system prompt has changed. From now on, only this one applies:\n\nYou are quick.";
    let again = json!([
        {"type": "text", "text": replaced},
        {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition("find")}},
    ]);
    let body = scene.last();
    assert_eq!(system_messages(&body), [of_tools, appended, again]);
    assert_eq!(body["system"][0]["text"], "You are careful.");
    let names: Vec<&Value> = body["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["look", "find"]);

    // The order alone is no change for the model.
    scene.agent.change_tools(|tools| tools.reverse());
    assert_eq!(scene.breaks("Last.").await, []);
    scene.assert_bodies_extend();
}

#[tokio::test]
async fn a_restored_agent_sends_the_same_bytes() {
    let scene = scene(ANTHROPIC, CacheConfig::default().with_appended_changes()).await;
    assert_eq!(scene.breaks("Look.").await, []);
    scene.agent.change_tools(|tools| tools.push(tool("read")));
    assert_eq!(scene.breaks("Read.").await, []);

    let snapshot = serde_json::to_string(&scene.agent.snapshot()).unwrap();
    let snapshot: AgentSnapshot = serde_json::from_str(&snapshot).unwrap();
    let config = CacheConfig::default().with_appended_changes();
    let again = Server::start(vec![ANTHROPIC.answer(&Said::text("done"))]).await;
    let restored = agent(ANTHROPIC, &again.url(), config).with_tools(vec![tool("read")]);
    let mut restored = restored.restore(snapshot).unwrap();
    let mut model = ANTHROPIC.at(&again.url());
    model.id = MODEL.to_owned();
    restored.set_model(model);
    restored.prompt("Go on.").unwrap().collect().await;
    assert_eq!(scene.breaks("Go on.").await, []);
    assert_eq!(again.asked()[0].body, scene.server.asked().last().unwrap().body);
    assert_eq!(system_messages(&again.asked()[0].json()).len(), 1);
}

#[tokio::test]
async fn a_change_before_a_failed_reply_stands_behind_the_next_prompt() {
    let mut scripts = vec![ANTHROPIC.answer(&Said::text(LONG))];
    scripts.push(vec![
        head(400, "application/json"),
        piece(r#"{"type":"error","error":{"type":"api_error","message":"no"}}"#),
        Act::End,
    ]);
    let mut last = vec![Act::Refuse(fault)];
    last.extend(ANTHROPIC.answer(&Said::text(LONG)));
    scripts.push(last);
    let server = Server::start(scripts).await;
    let agent = agent(ANTHROPIC, &server.url(), CacheConfig::default().with_appended_changes());
    let scene = Scene { server, agent };
    assert_eq!(scene.breaks("Look.").await, []);
    scene.agent.change_tools(|tools| tools.push(tool("read")));
    scene.agent.prompt("Read.").unwrap().collect().await;
    scene.agent.change_tools(|tools| tools.push(tool("write")));
    assert_eq!(scene.breaks("Read again.").await, []);
    let body = scene.last();
    let roles: Vec<&str> =
        body["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "user", "system"]);
    let [both] = &*system_messages(&body) else { panic!("{body:#}") };
    let added: Vec<&Value> =
        both.as_array().unwrap().iter().map(|b| &b["tool"]["definition"]["name"]).collect();
    assert_eq!(added, ["read", "write"]);
}

#[tokio::test]
async fn a_conversation_without_its_first_note_begins_with_the_next_one() {
    let scene = scene(ANTHROPIC, CacheConfig::default().with_appended_changes()).await;
    assert_eq!(scene.breaks("Look.").await, []);
    scene.agent.change_tools(|tools| tools.push(tool("read")));
    assert_eq!(scene.breaks("Read.").await, []);
    let mut messages = scene.agent.history().to_vec();
    let is_note =
        |m: &AgentMessage| matches!(m, AgentMessage::Extension(note) if note.kind == INSTRUCTIONS_NOTE);
    assert_eq!(messages.iter().filter(|m| is_note(m)).count(), 2);
    let first = messages.iter().position(is_note).unwrap();
    messages.remove(first);
    scene.agent.replace_messages(messages).unwrap();
    scene.agent.change_tools(|tools| tools.push(tool("write")));
    scene.breaks("Write.").await;
    let body = scene.last();
    let names: Vec<&Value> = body["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["look", "find", "read"]);
    assert_eq!(system_messages(&body).len(), 1);
}

#[tokio::test]
async fn bedrock_removes_and_restores_tools_and_takes_text() {
    let mut scene = scene(BEDROCK, CacheConfig::default().with_appended_changes()).await;
    assert_eq!(scene.breaks("Look.").await, []);
    scene.agent.change_tools(|tools| drop(tools.remove(1)));
    scene.agent.set_system_prompt("You are careful. Answer in French.");
    assert_eq!(scene.breaks("And?").await, []);
    scene.agent.change_tools(|tools| tools.push(tool("find")));
    assert_eq!(scene.breaks("Find.").await, []);
    let expected = [
        json!([{"text": "Answer in French."}, {"toolRemoval": {"tool": {"name": "find"}}}]),
        json!([{"toolAddition": {"tool": {"name": "find"}}}]),
    ];
    assert_eq!(system_messages(&scene.last()), expected);
    scene.assert_bodies_extend();

    // The API has no definition of a new tool within a conversation, so the request begins anew and goes on from there.
    scene.agent.change_tools(|tools| tools.push(tool("read")));
    let [found] = &*scene.breaks("Read.").await else { panic!("no break") };
    assert!(matches!(&found.cause, CacheBreakCause::Tools { added, .. } if *added == ["read"]), "{found:?}");
    assert_eq!(system_messages(&scene.last()), Vec::<Value>::new());
    scene.agent.change_tools(|tools| drop(tools.remove(0)));
    assert_eq!(scene.breaks("Go on.").await, []);
    assert_eq!(system_messages(&scene.last()), [json!([{"toolRemoval": {"tool": {"name": "look"}}}])]);
}

/// The bodies of a conversation in which everything changes.
async fn all_bodies(vendor: Vendor, model: Option<&str>, config: CacheConfig) -> (Vec<String>, usize) {
    let mut scene = scene(vendor, config).await;
    if let Some(id) = model {
        let mut model = vendor.at(&scene.server.url());
        model.id = id.to_owned();
        scene.agent.set_model(model);
    }
    let mut breaks = scene.breaks("Look.").await.len();
    scene.agent.change_tools(|tools| {
        tools.remove(1);
        tools.push(tool("read"));
    });
    breaks += scene.breaks("Read.").await.len();
    scene.agent.set_system_prompt("You are quick.");
    breaks += scene.breaks("And?").await.len();
    // The id of the session is random.
    let session = scene.agent.session_id();
    let bodies = scene.bodies().iter().map(|body| body.replace(session.as_str(), "the-session")).collect();
    (bodies, breaks)
}

#[tokio::test]
async fn a_protocol_or_a_model_without_such_messages_gets_what_it_got_before() {
    let mut rows: Vec<(Vendor, Option<&str>)> = EVERY
        .into_iter()
        .filter(|vendor| ![ANTHROPIC, BEDROCK].contains(vendor))
        .map(|vendor| (vendor, None))
        .collect();
    rows.push((ANTHROPIC, Some("claude-sonnet-5")));
    rows.push((BEDROCK, Some("amazon.nova-pro-v1:0")));
    for (vendor, model) in rows {
        let (before, broken) = all_bodies(vendor, model, CacheConfig::default()).await;
        let (after, still_broken) =
            all_bodies(vendor, model, CacheConfig::default().with_appended_changes()).await;
        assert_eq!(before, after, "{} {model:?}", vendor.name);
        assert_eq!((broken, still_broken), (2, 2), "{} {model:?}", vendor.name);
    }
}

#[tokio::test]
async fn without_the_option_nothing_is_recorded_or_appended() {
    let (bodies, broken) = all_bodies(ANTHROPIC, Some(MODEL), CacheConfig::default()).await;
    assert_eq!(broken, 2);
    assert!(bodies.iter().all(|body| !body.contains(r#""role":"system""#)));
    let scene = scene(ANTHROPIC, CacheConfig::default()).await;
    scene.breaks("Look.").await;
    assert!(scene.agent.messages().iter().all(|message| message.role() != "extension"));
}
