#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A path of calls to a question, and whether the question is about a budget.
type Asked = (Vec<String>, bool);

fn id((path, budget): &Asked) -> String {
    let (last, above) = path.split_last().unwrap();
    let above = above.iter().fold(String::new(), |prefix, call| {
        format!("{}/", question_id(&prefix, &ToolCallId::from(call.clone())))
    });
    let last = ToolCallId::from(last.clone());
    if *budget { budget_question_id(&above, &last) } else { question_id(&above, &last) }.to_string()
}

fn call() -> impl Strategy<Value = String> {
    let piece =
        prop::sample::select(vec!["a", "/", "%", "%2F", "%25", "budget-", "call-", "turn-", "loop", "0"]);
    prop::collection::vec(piece, 1..4).prop_map(|pieces| pieces.concat())
}

#[test]
fn usual_ids_are_unchanged() {
    for usual in ["call_0", "toolu_01A", "functions.read:0", "c-1", "my-budget-1"] {
        assert_eq!(question_id("", &usual.into()).as_str(), usual);
    }
    assert_eq!(question_id("c0/", &"k".into()).as_str(), "c0/k");
    assert_eq!(question_id("", &"c0/k".into()).as_str(), "c0%2Fk");
    assert_eq!(question_id("", &"budget-x".into()).as_str(), "%budget-x");
    assert_eq!(question_id("", &"loop".into()).as_str(), "%loop");
}

proptest! {
    /// No two questions of a tree have the same id, whatever the ids of the calls are.
    #[test]
    fn ids_are_unique(asked in prop::collection::vec((prop::collection::vec(call(), 1..4), any::<bool>()), 2..30)) {
        let mut ids: BTreeMap<String, Asked> = BTreeMap::new();
        for question in asked {
            if let Some(other) = ids.insert(id(&question), question.clone()) {
                prop_assert_eq!(other, question);
            }
        }
    }
}
