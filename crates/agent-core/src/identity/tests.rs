//! Ids, kinds and times.

use serde_json::{Value, json};

use super::{
    ContinuationKind, LoopId, SessionId, StepKey, Timestamp, ToolCallId, TurnId, TurnTrigger, stable_hash,
};

#[track_caller]
fn check<T>(value: &T, expect: Value)
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    assert_eq!(serde_json::to_value(value).unwrap(), expect);
    assert_eq!(&serde_json::from_value::<T>(expect).unwrap(), value);
}

/// REQ-180.
#[test]
fn kinds_of_continuation_have_their_names_and_tags() {
    assert_eq!(ContinuationKind::default(), ContinuationKind::Initial);
    check(&ContinuationKind::Initial, json!("Initial"));
    check(&ContinuationKind::Default, json!("Default"));
    check(&ContinuationKind::Compaction, json!("Compaction"));
    let tag = Timestamp(1_700_000_000_123).to_rfc3339();
    check(
        &ContinuationKind::Rerun { tag: tag.clone() },
        json!({"Rerun": {"tag": "2023-11-14T22:13:20.123Z"}}),
    );
    check(&ContinuationKind::Branch { tag }, json!({"Branch": {"tag": "2023-11-14T22:13:20.123Z"}}));
}

/// REQ-181.
#[test]
fn what_opens_a_turn_has_a_name() {
    check(&TurnTrigger::User, json!("User"));
    check(&TurnTrigger::SubAgent, json!("SubAgent"));
    check(&TurnTrigger::Continuation, json!("Continuation"));
    check(&TurnTrigger::Branch, json!("Branch"));
    assert_eq!(TurnTrigger::default(), TurnTrigger::User);
    assert_eq!(serde_json::from_value::<TurnTrigger>(json!("FollowUp")).unwrap(), TurnTrigger::Continuation);
}

#[test]
fn ids_are_plain_texts_everywhere() {
    let id = LoopId::new("s.anthropic.claude.1");
    check(&id, json!("s.anthropic.claude.1"));
    assert_eq!(
        (format!("{id}"), format!("{id:?}")),
        ("s.anthropic.claude.1".into(), "\"s.anthropic.claude.1\"".into())
    );
    assert!(id == "s.anthropic.claude.1" && id == LoopId::from(String::from("s.anthropic.claude.1")));
    let map = std::collections::BTreeMap::from([(ToolCallId::from("a"), 1)]);
    assert_eq!(map.get("a"), Some(&1), "looked up by text");
    check(&SessionId::from(""), json!(""));
    check(&TurnId { loop_id: id, turn_index: 3 }, json!({"loopId": "s.anthropic.claude.1", "turnIndex": 3}));
    assert_eq!(StepKey::from("model-3.1").as_ref(), "model-3.1");
}

#[test]
fn times_are_milliseconds_and_never_go_back() {
    assert_eq!(Timestamp(0).to_rfc3339(), "1970-01-01T00:00:00.000Z");
    assert_eq!(Timestamp(u64::MAX).to_rfc3339(), "", "a time that no calendar has");
    assert_eq!(Timestamp(7).millis_since(Timestamp(3)), 4);
    assert_eq!(Timestamp(3).millis_since(Timestamp(7)), 0);
    check(&Timestamp(9), json!(9));
}

#[test]
fn the_hash_is_the_same_in_every_version() {
    assert_eq!(stable_hash(&[]), 0xfdbd_f6ac_4fc5_2e7f);
    assert_eq!(stable_hash(&["a", "b"]), 0x1ee9_766b_83d6_8b3a);
    assert_ne!(stable_hash(&["ab"]), stable_hash(&["a", "b"]));
    assert_ne!(stable_hash(&["a", ""]), stable_hash(&["a"]));
    assert_ne!(stable_hash(&["a", "b"]), stable_hash(&["b", "a"]));
}
