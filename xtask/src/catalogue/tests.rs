use serde_json::{Value, json};

use super::{LIST, Options, Writing, options, updated};

const OURS: &str = r#"[
  {"provider": "anthropic", "id": "a-1", "name": "A", "api": "anthropic_messages", "contextWindow": 1000, "maxTokens": 100, "images": true, "cost": {"input": 1000000, "output": 2000000, "cacheRead": 0, "cacheWrite": 0}, "asOf": "2026-01-01", "source": "https://a.example"},
  {"provider": "bedrock", "id": "b-1", "name": "B", "api": "bedrock_converse_stream", "contextWindow": 1000, "maxTokens": 100, "asOf": "2026-01-01", "source": "https://b.example"}
]
"#;

/// What changed, and the entry of this name afterwards.
fn changed(new: &Value, id: &str) -> (Vec<String>, Value) {
    let (text, changes) = updated(OURS, &new.to_string(), Some("2026-11-21")).unwrap();
    let list: Vec<Value> = serde_json::from_str(&text).unwrap();
    (changes, list.into_iter().find(|e| e["id"] == id).unwrap())
}

#[test]
fn models_dev_gives_window_limit_pictures_and_prices_of_the_models_that_we_have() {
    let new = json!({
        "anthropic": {"models": {
            "a-1": {"limit": {"context": 2_000, "output": 100}, "modalities": {"input": ["text"]},
                    "cost": {"input": 0.8, "output": 4, "cache_read": 0.08, "cache_write": 1.000_001}},
            "a-2": {"limit": {"context": 9}},
        }},
        "amazon-bedrock": {"models": {"b-1": {"limit": {"context": 1_000, "output": 0}}}},
    });
    let (changes, entry) = changed(&new, "a-1");
    assert_eq!(changes.len(), 3, "{changes:?}");
    assert!(changes.contains(&"anthropic/a-1: contextWindow 1000 -> 2000".to_owned()), "{changes:?}");
    assert_eq!((&entry["contextWindow"], &entry["images"]), (&json!(2_000), &json!(false)));
    let cost = json!({"input": 800_000, "output": 4_000_000, "cacheRead": 80_000, "cacheWrite": 1_000_001});
    assert_eq!(entry["cost"], cost);
    assert_eq!(
        (&entry["asOf"], &entry["source"]),
        (&json!("2026-11-21"), &json!("https://models.dev/api.json"))
    );
    let (_, untouched) = changed(&new, "b-1");
    assert_eq!(untouched["asOf"], "2026-01-01", "nothing of it differs");
}

#[test]
fn entries_of_our_own_form_replace_and_add() {
    let entry = |id: &str, window: u32| {
        json!({"provider": "anthropic", "id": id, "name": "A", "api": "anthropic_messages", "contextWindow": window,
               "maxTokens": 100, "asOf": "2026-11-21", "source": "https://a.example"})
    };
    let (changes, new) = changed(&json!([entry("a-1", 5_000), entry("a-2", 7)]), "a-2");
    assert_eq!(new["contextWindow"], 7);
    assert!(changes.contains(&"anthropic/a-2: new".to_owned()));
    assert!(changes.iter().any(|c| c == "anthropic/a-1: contextWindow 1000 -> 5000"));
    assert!(changes.iter().any(|c| c == "anthropic/a-1: cost is not said any more"));
}

#[test]
fn what_cannot_be_taken_is_refused_and_nothing_is_half_done() {
    #[track_caller]
    fn check(new: &str, day: Option<&str>, expect: &str) {
        let error = updated(OURS, new, day).unwrap_err();
        assert!(format!("{error:#}").contains(expect), "{error:#}");
    }
    check("nonsense", None, "no JSON");
    check("3", None, "neither");
    check("{}", None, "--as-of");
    check(r#"[{"provider": "x"}]"#, None, "id");
    let undated = r#"[{"provider":"p","id":"m","name":"M","api":"ollama_chat","contextWindow":9,"maxTokens":9,"asOf":"soon","source":"https://x"}]"#;
    check(undated, None, "wants a day");
}

#[test]
fn the_list_is_kept_in_the_form_in_which_it_is_written() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let list = std::fs::read_to_string(root.join(LIST)).unwrap();
    let (text, changes) = updated(&list, "[]", None).unwrap();
    assert_eq!(changes, Vec::<String>::new());
    assert_eq!(text, list);
}

#[test]
fn the_command_line_is_read() {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let read = options(&words("--from api.json --as-of 2026-11-21 --write")).unwrap();
    let expected =
        Options { file: Some("api.json".into()), as_of: Some("2026-11-21".into()), write: Writing::Write };
    assert_eq!(read, expected);
    assert!(options(&words("--from a --from b")).is_err());
    assert!(options(&words("--from a --as-of today")).is_err());
    for wrong in ["--wrong", "--from", "api.json"] {
        assert!(options(&words(wrong)).is_err(), "{wrong}");
    }
}
