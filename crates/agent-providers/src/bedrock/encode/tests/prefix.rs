//! Invariant 4: a later request begins with an earlier one, and what is the same is the same bytes.

use agent_core::CacheConfig;
use proptest::prelude::*;

use super::*;
use crate::claude::tests::any_step;

const POINT: &str = r#",{"cachePoint":{"type":"default"}}"#;

/// The body without cache points and without what closes it: the last message, the list, the body. What the same side
/// says next goes into the last message.
fn unmarked(request: &ModelRequest) -> String {
    let text = text(request).replace(POINT, "");
    text.strip_suffix("]}]}").unwrap().to_owned()
}

fn start() -> ModelRequest {
    let mut asked = asking("go");
    asked.system_prompt = "Be brief.".into();
    asked.tools = tools(&["read", "write"]).into();
    asked
}

/// B-148.
#[test]
fn over_a_run_every_request_begins_with_the_one_before() {
    let mut asked = start();
    let mut before = unmarked(&asked);
    for round in 0..30 {
        let thought = Content::thinking("hm", Some(format!("c2ln{round}")));
        let id = format!("call_{round}");
        exchange(&mut asked.history, &id, vec![thought, "working".into()], "some output");
        if round % 7 == 3 {
            asked.history.push(AgentMessage::user("and also")).unwrap();
        }
        if round % 5 == 2 {
            let mut failed = reply(vec!["oh".into()]);
            failed.stop_reason = StopReason::Aborted;
            asked.history.push_failed(said(failed).into()).unwrap();
        }
        let now = unmarked(&asked);
        assert!(now.starts_with(&before), "round {round}");
        assert_eq!(text(&asked), text(&asked.clone()), "the same request gives the same bytes");
        before = now;
    }
}

#[test]
fn kept_bytes_hold_no_point_and_serve_requests_with_and_without() {
    let mut asked = start();
    exchange(&mut asked.history, "a", vec![], "out");
    let marked = text(&asked);
    let mut bare = asked.clone();
    bare.options.cache_config = CacheConfig::disabled();
    assert_eq!(text(&bare), marked.replace(POINT, ""));
    assert_eq!(text(&asked), marked);
    // The same messages in new units are encoded anew, to the same bytes.
    let (again, _) = History::repaired(asked.history.to_vec());
    asked.history = again;
    assert_eq!(text(&asked), marked);
}

#[test]
fn two_models_over_one_history_do_not_get_each_others_bytes() {
    let mut asked = start();
    exchange(&mut asked.history, "a", vec![Content::thinking("hm", Some("c2ln".into()))], "out");
    let own = text(&asked);
    let other = with_model(asked.clone(), |m| m.id = "eu.anthropic.claude-other".into());
    assert!(own.contains("c2ln") && !text(&other).contains("c2ln"));
    assert_eq!(text(&asked), own);
}

/// A block that only its provider knows.
fn opaque() -> Content {
    Content::opaque("image", json!({"image": {"format": "png", "source": {"bytes": "QUJD"}}}))
}

fn ids(blocks: &[Value], kind: &str) -> Vec<Value> {
    blocks.iter().filter(|b| b.get(kind).is_some()).map(|b| b[kind]["toolUseId"].clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// B-143, B-148.
    #[test]
    fn any_history_gives_a_valid_body_that_grows_only_at_its_end(
        steps in proptest::collection::vec(any_step(Just(opaque())), 1..9),
        images in any::<bool>(),
        as_text in any::<bool>(),
    ) {
        let mut asked = with_model(start(), |m| m.images = images);
        asked.options.foreign_thinking_as_text = as_text;
        let mut before = unmarked(&asked);
        for (round, step) in steps.into_iter().enumerate() {
            step.add(&mut asked.history, round, reply, foreign);
            let now = unmarked(&asked);
            prop_assert!(now.starts_with(&before));
            before = now;
            let sent = body(&asked);
            prop_assert!(text(&asked).matches("cachePoint").count() <= 4);
            let (mut open, mut role): (Vec<Value>, _) = (vec![], "assistant");
            for message in sent["messages"].as_array().unwrap() {
                let blocks = message["content"].as_array().unwrap();
                prop_assert!(!blocks.is_empty());
                prop_assert_ne!(message["role"].as_str().unwrap(), role, "the roles take turns");
                role = message["role"].as_str().unwrap();
                prop_assert!(blocks.last().unwrap().get("reasoningContent").is_none());
                prop_assert_eq!(&ids(blocks, "toolResult"), &open, "each call is answered in the next message");
                open = ids(blocks, "toolUse");
                for block in blocks {
                    prop_assert_eq!(block.as_object().unwrap().len(), 1);
                    prop_assert!(block.get("text").is_none_or(|t| !t.as_str().unwrap().trim().is_empty()));
                    prop_assert!(block.get("toolUse").is_none_or(|t| t["input"].is_object()));
                }
            }
            prop_assert!(open.is_empty());
        }
    }
}
