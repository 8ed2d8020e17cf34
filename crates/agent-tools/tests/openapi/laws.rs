//! What holds for every description and all arguments.

use agent_core::AgentTool as _;
use agent_tools::openapi::{OpenApiAdapter, OpenApiConfig, OperationFilter};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::check::schemas;
use super::support::{Api, CONSTRUCTS, MODERN, execute, one, tool};

/// Whatever a description is like, its tools are such as every provider takes.
#[track_caller]
fn check(text: &str) {
    let config = OpenApiConfig::new().with_base_url("https://api.example.com");
    let Ok(adapter) = OpenApiAdapter::from_str(text, config, OperationFilter::All) else { return };
    for tool in adapter.tools() {
        assert_eq!(schemas::problems(&tool.parameters_schema()), Vec::<String>::new(), "{tool:?}");
        assert!((1..=64).contains(&tool.name().len()), "{tool:?}");
        assert!(tool.description().len() <= agent_tools::openapi::MAX_DESCRIPTION_BYTES);
    }
}

/// Puts another value in place of the `n`th of a description.
fn replace(value: &mut Value, n: &mut usize, other: &Value) {
    if *n == 0 {
        *value = other.clone();
    }
    *n = n.wrapping_sub(1);
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, n, other)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace(field, n, other)),
        _ => {}
    }
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!(true)),
        Just(json!(-1e300)),
        Just(json!([])),
        Just(json!([{}, null, "x"])),
        Just(json!({"$ref": "#"})),
        Just(json!({"$ref": "#/components/schemas/Node"})),
        Just(json!({"$ref": "#/paths"})),
        Just(json!({"type": "array", "nullable": true, "allOf": [{"$ref": "#/components"}, true]})),
        "[a-z/{}.%#$]{0,12}".prop_map(Value::from),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_description_with_a_strange_value_somewhere_gives_good_tools_or_an_error(n in 1_usize..900, other in values()) {
        for text in [CONSTRUCTS, MODERN] {
            let mut value: Value = yaml_serde::from_str(text).unwrap();
            replace(&mut value, &mut n.clone(), &other);
            check(&value.to_string());
        }
    }

    #[test]
    fn a_text_that_was_cut_or_changed_gives_good_tools_or_an_error(at in any::<prop::sample::Index>(), put in "[ -~\n]{0,3}", cut in any::<bool>()) {
        for text in [CONSTRUCTS, MODERN] {
            let at = text.floor_char_boundary(at.index(text.len()));
            let rest = if cut { "" } else { &text[text.ceil_char_boundary((at + 1).min(text.len()))..] };
            check(&format!("{}{put}{rest}", &text[..at]));
        }
    }

    /// D23. Whatever a model gives for a part of a path, the server sees that part and no other path.
    #[test]
    fn a_value_stays_in_its_part_of_the_path(value in prop_oneof!["\\PC{0,8}", "[./%25eEfF;\\\\]{1,8}"]) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let operation = json!({"parameters": [{"name": "v", "in": "path", "schema": {"type": "string"}}]});
            let api = Api::of(&one("/p/{v}/q", "get", operation)).await;
            let result = execute(&tool(&api.adapter, "call"), json!({"v": value})).await;
            match api.server.take() {
                None => assert!(result.is_err()),
                Some(request) => {
                    let parts: Vec<&str> = request.path.split('/').collect();
                    assert_eq!(parts.len(), 5, "{}", request.path);
                    assert_eq!((parts[1], parts[2], parts[4]), ("base", "p", "q"));
                    assert_eq!(super::check::read::decoded(parts[3]), value);
                }
            }
        });
    }
}
