//! Descriptions of APIs: tools such as every provider takes, or a typed error; the same text makes the same tools.
#![no_main]

use std::collections::BTreeSet;
use std::sync::OnceLock;

use agent_core::AgentTool as _;
use agent_tools::openapi::{
    MAX_DESCRIPTION_BYTES, MAX_OPERATIONS, MAX_SCHEMA_BYTES, MAX_WARNINGS, MissingIds, OpenApiAdapter,
    OpenApiConfig, OperationFilter,
};

fn read(text: &str) -> Option<OpenApiAdapter> {
    // Making a client takes longer than reading.
    static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
    let client = CLIENT.get_or_init(reqwest::Client::new).clone();
    let config = OpenApiConfig::new()
        .with_base_url("https://api.example.com/v1")
        .with_missing_ids(MissingIds::FromPath)
        .with_http_client(client);
    OpenApiAdapter::from_str(text, config, OperationFilter::All).ok()
}

/// A name that every provider takes.
fn is_name(name: &str, more: char) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-') || c == more;
    (1..=64).contains(&name.len()) && name.chars().all(fits)
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some(adapter) = read(text) else { return };
    assert!(adapter.tools().len() <= MAX_OPERATIONS);
    // One more says that there were others.
    assert!(adapter.warnings().len() <= MAX_WARNINGS + 1);
    let mut names = BTreeSet::new();
    let mut schemas = Vec::new();
    for tool in adapter.tools() {
        assert!(is_name(tool.name(), '_'), "{:?}", tool.name());
        assert!(names.insert(tool.name().to_owned()), "two are called {:?}", tool.name());
        assert!(tool.description().len() <= MAX_DESCRIPTION_BYTES);
        let schema = tool.parameters_schema();
        assert_eq!(schema["type"], "object");
        let properties = schema["properties"].as_object().expect("an object has properties");
        for name in properties.keys() {
            assert!(is_name(name, '.'), "{name:?}");
        }
        let required = schema.get("required").and_then(|r| r.as_array()).into_iter().flatten();
        for name in required {
            assert!(name.as_str().is_some_and(|name| properties.contains_key(name)), "{name} is not there");
        }
        let schema = schema.to_string();
        assert!(schema.len() <= MAX_SCHEMA_BYTES, "{} bytes", schema.len());
        schemas.push(schema);
    }
    let again = read(text).expect("what was read can be read");
    assert!(again.tools().iter().map(|tool| tool.parameters_schema().to_string()).eq(schemas));
});
