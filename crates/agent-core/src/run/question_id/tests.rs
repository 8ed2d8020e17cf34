use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A path of calls to a loop, and what this loop asks about: a call, its budget, or something else.
type Asked = (Vec<String>, (u8, String));

fn id((path, (kind, call)): &Asked) -> String {
    let prefix = path.iter().fold(String::new(), |prefix, call| child_prefix(&prefix, &call.as_str().into()));
    let call = ToolCallId::from(call.clone());
    let about = match kind {
        0 => About::Call(&call),
        1 => About::CallBudget(&call),
        2 => About::Loop,
        3 => About::Turn(0),
        _ => About::ModelBudget { turn: 0, attempt: 0 },
    };
    question_id(&prefix, about).to_string()
}

/// What identifies a question: only calls have ids.
fn identity((path, (kind, call)): Asked) -> Asked {
    let call = if kind < 2 { call } else { String::new() };
    (path, (kind, call))
}

fn call() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a", "/", "%", "%2F", "%25", "budget-", "call-", "turn-", "loop", "0", "0.0",
    ]);
    prop::collection::vec(piece, 1..4).prop_map(|pieces| pieces.concat())
}

#[test]
fn usual_ids_are_unchanged() {
    let of_call = |prefix: &str, id: &str| question_id(prefix, About::Call(&id.into())).to_string();
    for usual in ["call_0", "toolu_01A", "functions.read:0", "c-1", "my-budget-1"] {
        assert_eq!(of_call("", usual), usual);
    }
    assert_eq!(of_call("c0/", "k"), "c0/k");
    assert_eq!(of_call("", "c0/k"), "c0%2Fk");
    assert_eq!(of_call("", "budget-x"), "%budget-x");
    assert_eq!(of_call("", "loop"), "%loop");
}

proptest! {
    /// No two questions of a tree have the same id, whatever the ids of the calls are.
    #[test]
    fn ids_are_unique(
        asked in prop::collection::vec((prop::collection::vec(call(), 0..3), (0_u8..5, call())), 2..30),
    ) {
        let mut ids: BTreeMap<String, Asked> = BTreeMap::new();
        for question in asked.into_iter().map(identity) {
            if let Some(other) = ids.insert(id(&question), question.clone()) {
                prop_assert_eq!(other, question);
            }
        }
    }
}
