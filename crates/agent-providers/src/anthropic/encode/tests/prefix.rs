//! Invariant 4: a later request begins with an earlier one, and what is the same is the same bytes.

use agent_core::{CacheConfig, ThinkingLevel};
use proptest::prelude::*;

use super::*;
use crate::claude::tests::any_step;

const MARKER: &str = r#","cache_control":{"type":"ephemeral"}"#;

/// The body without markers and without what closes it.
fn unmarked(request: &ModelRequest) -> String {
    let text = text(request).replace(MARKER, "");
    text.strip_suffix("]}").unwrap().to_owned()
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
        let thought = Content::thinking("hm", Some(format!("sig-{round}")));
        exchange(
            &mut asked.history,
            &format!("call_{round}"),
            vec![thought, "working".into()],
            "some output",
        );
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
fn kept_bytes_hold_no_marker_and_serve_requests_with_and_without() {
    let mut asked = start();
    exchange(&mut asked.history, "a", vec![], "out");
    let marked = text(&asked);
    let mut bare = asked.clone();
    bare.options.cache_config = CacheConfig::disabled();
    assert_eq!(text(&bare), marked.replace(MARKER, ""));
    assert_eq!(text(&asked), marked);
    // The same messages in new units are encoded anew, to the same bytes.
    let (again, _) = History::repaired(asked.history.to_vec());
    asked.history = again;
    assert_eq!(text(&asked), marked);
}

#[test]
fn two_models_over_one_history_do_not_get_each_others_bytes() {
    let mut asked = start();
    exchange(&mut asked.history, "a", vec![Content::thinking("hm", Some("sig".into()))], "out");
    let own = text(&asked);
    let other = with_model(asked.clone(), |m| m.id = "claude-other".into());
    assert!(own.contains("sig") && !text(&other).contains("sig"));
    assert_eq!(text(&asked), own);
    // What only changes the head leaves the kept bytes alone.
    let mut thinking = asked.clone();
    thinking.options.thinking_level = ThinkingLevel::High;
    let tail = |text: &str| text.split_once(r#""messages""#).unwrap().1.to_owned();
    assert_eq!(tail(&text(&thinking)), tail(&own));
}

/// A block that only its provider knows.
fn any_opaque() -> impl Strategy<Value = Content> + Clone {
    "[a-z_]{1,8}".prop_map(|k| Content::opaque(k.clone(), json!({"type": k, "n": 1})))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// B-143, B-148.
    #[test]
    fn any_history_gives_a_valid_body_that_grows_only_at_its_end(
        steps in proptest::collection::vec(any_step(any_opaque()), 1..9),
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
            prop_assert!(text(&asked).matches("cache_control").count() <= 4);
            let mut open: Vec<Value> = vec![];
            for message in sent["messages"].as_array().unwrap() {
                let blocks = message["content"].as_array().unwrap();
                prop_assert!(!blocks.is_empty());
                let kinds: Vec<&str> = blocks.iter().map(|b| b["type"].as_str().unwrap()).collect();
                prop_assert!(!kinds.last().unwrap().ends_with("thinking"));
                let answered: Vec<Value> =
                    blocks.iter().filter(|b| b["type"] == "tool_result").map(|b| b["tool_use_id"].clone()).collect();
                prop_assert_eq!(&answered, &open, "each call is answered in the next message");
                open = blocks.iter().filter(|b| b["type"] == "tool_use").map(|b| b["id"].clone()).collect();
                for block in blocks {
                    let blank = block["type"] == "text" && block["text"].as_str().unwrap().trim().is_empty();
                    prop_assert!(!blank);
                    prop_assert!(block["type"] != "tool_use" || block["input"].is_object());
                }
            }
            prop_assert!(open.is_empty());
        }
    }
}
