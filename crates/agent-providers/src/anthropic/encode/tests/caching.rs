//! Lifetimes of cache markers, and the question why the cache did not apply.

use agent_core::{CacheConfig, CacheStrategy, CacheTtl};

use super::*;

fn sent(config: CacheConfig, change: impl FnOnce(&mut ModelConfig)) -> Value {
    let mut asked = asking("one");
    asked.history.push(said(reply(vec![Content::text("two")]))).unwrap();
    asked.history.push(AgentMessage::user("three")).unwrap();
    asked.system_prompt = "Be brief.".into();
    asked.tools = tools(&["read", "write"]).into();
    asked.options.cache_config = config;
    body(&with_model(asked, change))
}

/// The markers in the order in which the vendor reads them: tools, system prompt, messages.
fn markers(body: &Value) -> Vec<Option<String>> {
    let blocks = body["messages"].as_array().unwrap().iter().flat_map(|m| m["content"].as_array().unwrap());
    let all =
        body["tools"].as_array().unwrap().iter().chain(body["system"].as_array().unwrap()).chain(blocks);
    let marked = all.filter_map(|block| block.get("cache_control"));
    marked
        .map(|marker| {
            assert_eq!(marker["type"], "ephemeral");
            marker.get("ttl").map(|ttl| ttl.as_str().unwrap().to_owned())
        })
        .collect()
}

#[test]
fn each_marker_has_its_lifetime_and_longer_ones_come_first() {
    let config = CacheConfig::default;
    let hour = || Some("1h".to_owned());
    let system = CacheStrategy::Manual { cache_system: true, cache_tools: false, cache_messages: false };
    for (config, expect) in [
        (config(), vec![None, None, None]),
        (config().with_ttl(CacheTtl::FiveMinutes), vec![None, None, None]),
        (config().with_ttl(CacheTtl::OneHour), vec![hour(), hour(), hour()]),
        (config().with_ttl(CacheTtl::TwelveHours), vec![hour(), hour(), hour()]),
        (
            config().with_ttl(CacheTtl::OneHour).with_messages_ttl(CacheTtl::FiveMinutes),
            vec![hour(), hour(), None],
        ),
        (config().with_messages_ttl(CacheTtl::OneHour), vec![None, None, None]),
        (CacheConfig { strategy: system, ..config().with_ttl(CacheTtl::OneHour) }, vec![hour()]),
        (CacheConfig { enabled: false, ..config().with_ttl(CacheTtl::OneHour) }, vec![]),
    ] {
        assert_eq!(markers(&sent(config, |_| {})), expect, "{config:?}");
    }
}

#[test]
fn an_hour_is_these_bytes() {
    let mut asked = asking("Hi");
    asked.system_prompt = "Be brief.".into();
    asked.options.cache_config = CacheConfig::default().with_ttl(CacheTtl::OneHour);
    assert!(
        text(&asked).contains(
            r#""system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral","ttl":"1h"}}]"#
        ),
        "{}",
        text(&asked)
    );
}

#[test]
fn the_vendor_is_asked_about_the_last_reply_of_this_model() {
    let config = CacheConfig::default().with_diagnostics();
    assert!(sent(CacheConfig::default(), |_| {}).get("diagnostics").is_none(), "only on request");
    // The first request, and one after a reply without an id, take part without naming a reply.
    assert_eq!(sent(config, |_| {})["diagnostics"], json!({"previous_message_id": null}));

    let answered = |reply: AssistantMessage| {
        let mut asked = request(vec![AgentMessage::user("one"), said(reply), AgentMessage::user("two")]);
        asked.options.cache_config = config;
        body(&asked)["diagnostics"].clone()
    };
    let mut own = reply(vec![Content::text("x")]);
    own.response_id = Some("msg_1".into());
    assert_eq!(answered(own.clone()), json!({"previous_message_id": "msg_1"}));
    own.provider = "openai".into();
    assert_eq!(answered(own), json!({"previous_message_id": null}));

    // Servers that only speak the protocol, and Vertex AI, may refuse the member.
    assert!(sent(config, |m| m.base_url = Some("http://localhost:1".into())).get("diagnostics").is_none());
    assert!(sent(config, |m| m.api = ApiProtocol::AnthropicVertex).get("diagnostics").is_none());
}
