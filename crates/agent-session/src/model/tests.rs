use std::sync::Arc;

use agent_core::{GroupMember, GroupRole, LoopId, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::extra::Extra;
use super::texts::{LONG_TEXT, Resolve, pack, unpack};
use super::{LoopRecord, ParallelGroupRecord, Session};

fn any_json() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec!["$text", "$json", "$raw", "a", "b~/c", ""]).prop_map(str::to_owned);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(|n| json!(n)),
        (0usize..3).prop_map(|n| json!("long text ".repeat(n * 12))),
        "[a-z\u{2028}]{0,5}".prop_map(Value::String),
    ];
    leaf.prop_recursive(80, 120, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::vec((key.clone(), inner), 0..3)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

#[derive(Default)]
struct List(Vec<String>);

impl Resolve for List {
    fn met(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }

    fn find(&mut self, place: &Value) -> Result<String, String> {
        let at = place.as_u64().and_then(|n| usize::try_from(n).ok());
        at.and_then(|n| self.0.get(n)).cloned().ok_or_else(|| "no such text".to_owned())
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn repeats(value: &Value, seen: &mut Vec<String>) -> bool {
    match value {
        Value::String(text) if text.len() >= LONG_TEXT => {
            let again = seen.contains(text);
            seen.push(text.clone());
            again
        }
        Value::Array(items) => items.iter().any(|v| repeats(v, seen)),
        Value::Object(map) if map.len() == 1 && map.contains_key("$json") => false,
        Value::Object(map) => map.values().any(|v| repeats(v, seen)),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packing_can_be_taken_back_stays_shallow_and_writes_no_long_text_twice(value in any_json()) {
        let mut seen: Vec<String> = Vec::new();
        let packed = pack(value.clone(), &mut |text| {
            let at = seen.iter().position(|t| t == text);
            if at.is_none() {
                seen.push(text.to_owned());
            }
            at.map(|n| json!(n))
        });
        prop_assert!(depth(&packed) < 100);
        prop_assert!(!repeats(&packed, &mut Vec::new()));
        let read: Value = serde_json::from_str(&packed.to_string()).unwrap();
        prop_assert_eq!(unpack(read, &mut List::default()).unwrap(), value);
    }

    /// B-181.
    #[test]
    fn what_was_not_understood_is_there_again_and_what_was_understood_wins(read in any_json(), known in any_json()) {
        let extra = Extra::between(&read, &known);
        let mut merged = known.clone();
        extra.merge_into(&mut merged);
        // Nothing known was lost, and nothing is left to be kept.
        prop_assert_eq!(Extra::between(&known, &merged), Extra::Nothing);
        prop_assert_eq!(Extra::between(&read, &merged), Extra::Nothing);
        let mut same = read.clone();
        Extra::between(&read, &read).merge_into(&mut same);
        prop_assert_eq!(same, read);
    }
}

#[test]
fn the_deepest_value_that_a_json_reader_takes_is_written_so_that_it_can_be_read() {
    let text = format!("{}{}", "[".repeat(127), "]".repeat(127));
    let value: Value = serde_json::from_str(&text).unwrap();
    let wrapped = json!({ "event": { "result": { "details": value } } });
    let packed = pack(wrapped.clone(), &mut |_| None).to_string();
    let read: Value = serde_json::from_str(&packed).unwrap();
    assert_eq!(unpack(read, &mut List::default()).unwrap(), wrapped);
}

#[test]
fn a_reference_where_none_may_be_is_an_error() {
    let text = json!({"a": {"$text": [0, 1]}});
    // Text that holds JSON is read by itself, so nothing in it can refer to what is outside.
    for value in [json!({"$json": text.to_string()}), json!([{"$json": text.to_string()}])] {
        let error = unpack(value, &mut List::default()).unwrap_err();
        assert_eq!(error, "the reference [0,1] stands where none may");
    }
    let error = unpack(text, &mut super::texts::NoReferences).unwrap_err();
    assert_eq!(error, "the reference [0,1] stands where none may");
    for (value, expected) in [
        (json!({"$json": 1}), "$json holds no text"),
        (json!({"$json": "{"}), "$json: EOF"),
        (json!({"$raw": 1}), "$raw holds no object"),
    ] {
        let error = unpack(value, &mut List::default()).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn only_equal_lists_of_a_group_become_one() {
    let ids = |names: &[&str]| names.iter().map(|name| LoopId::from(*name)).collect::<Vec<_>>();
    let mut session = Session::new("s-1".into(), "a".into(), Timestamp(1));
    let lists = [ids(&["a", "b"]), ids(&["a", "b"]), ids(&["a", "b", "c"])];
    for (index, list) in lists.iter().enumerate() {
        let id = LoopId::from(format!("s-1.m.{index}"));
        let mut record = LoopRecord::new(id, "s-1".into(), "a".into(), Timestamp(2));
        record.group = Some(GroupMember::new("g".into(), GroupRole::Branch { index }));
        record.parallel_group = Some(ParallelGroupRecord::of(list.clone()));
        session.loops.push(record);
    }
    session.share_groups();
    let shared: Vec<_> =
        session.loops.iter().map(|record| record.parallel_group.clone().unwrap().all_loop_ids).collect();
    assert!(Arc::ptr_eq(&shared[0], &shared[1]));
    for (list, expected) in shared.iter().zip(&lists) {
        assert_eq!(list[..], expected[..]);
    }
}
