//! From a description to tools.

use agent_core::{AgentTool as _, Effects};
use agent_tools::openapi::{
    MissingIds, OpenApiAdapter, OpenApiConfig, OpenApiError, OpenApiProblem, OperationFilter,
};
use serde_json::{Value, json};

use super::support::{CONSTRUCTS, MODERN, adapter, one, tool};

fn ids(adapter: &OpenApiAdapter) -> Vec<&str> {
    adapter.tools().iter().map(|tool| tool.operation_id()).collect()
}

fn read(spec: &str) -> Result<OpenApiAdapter, OpenApiError> {
    OpenApiAdapter::from_str(spec, OpenApiConfig::new(), OperationFilter::All)
}

/// REQ-152.
#[test]
fn yaml_and_json_give_the_same_tools() {
    let value: Value = yaml_serde::from_str(CONSTRUCTS).unwrap();
    let (yaml, json) = (adapter(CONSTRUCTS), adapter(&format!("\u{feff} \n{value:#}")));
    assert_eq!(yaml.tools().len(), 16);
    assert_eq!(yaml.warnings(), json.warnings());
    for (one, other) in yaml.tools().iter().zip(json.tools()) {
        assert_eq!(format!("{one:?}"), format!("{other:?}"));
        assert_eq!(one.parameters_schema(), other.parameters_schema());
    }
}

/// REQ-152.
#[test]
fn every_operation_with_an_id_is_a_tool() {
    let adapter = adapter(MODERN);
    assert_eq!(ids(&adapter), ["search", "putPhoto", "getPhoto"]);
    assert_eq!(adapter.warnings(), []);
    let tool = &adapter.tools()[1];
    assert_eq!(
        (tool.method(), tool.path(), tool.base_url()),
        ("PUT", "/photos/{path}", "https://api.example.com/base")
    );
}

#[test]
fn what_is_no_description_is_an_error() {
    let is = |text: &str, wanted: fn(&OpenApiError) -> bool| {
        let error = read(text).unwrap_err();
        assert!(wanted(&error), "{text}: {error:?}");
    };
    is("{", |e| matches!(e, OpenApiError::Json { .. }));
    is("a: [", |e| matches!(e, OpenApiError::Yaml { .. }));
    is("", |e| matches!(e, OpenApiError::NotOpenApi { .. }));
    is("[]", |e| matches!(e, OpenApiError::NotOpenApi { .. }));
    is("{\"paths\": {}}", |e| matches!(e, OpenApiError::NotOpenApi { .. }));
    is("swagger: '2.0'", |e| matches!(e, OpenApiError::Version { version } if version == "2.0"));
    is("openapi: 4.0.0", |e| matches!(e, OpenApiError::Version { .. }));
    is("openapi: 3.10.0", |e| matches!(e, OpenApiError::Version { .. }));
    is("openapi: 3.1.0\nservers: [{url: /v1}]", |e| matches!(e, OpenApiError::NoBaseUrl { .. }));
    is("openapi: 3.1.0", |e| matches!(e, OpenApiError::NoBaseUrl { .. }));
    assert!(read("openapi: 3.1\nservers: [{url: 'https://x.example.com'}]").is_ok());
}

/// REQ-155.
#[test]
fn operations_without_an_id_are_left_out_with_a_warning() {
    let adapter = adapter(CONSTRUCTS);
    let warning = adapter.warnings().iter().find(|w| w.problem == OpenApiProblem::NoOperationId).unwrap();
    assert_eq!(warning.to_string(), "GET /unnamed: it has no operationId and is left out");
    let config = OpenApiConfig::new().with_missing_ids(MissingIds::FromPath);
    let named = OpenApiAdapter::from_str(CONSTRUCTS, config, OperationFilter::All).unwrap();
    assert!(ids(&named).contains(&"get_unnamed"));
}

/// REQ-155.
#[test]
fn filters_take_operations() {
    fn check(filter: OperationFilter, expected: &[&str]) {
        let adapter = OpenApiAdapter::from_str(CONSTRUCTS, OpenApiConfig::new(), filter.clone()).unwrap();
        assert_eq!(ids(&adapter), expected, "{filter:?}");
    }
    check(OperationFilter::by_operation_id(["upload", "getThing"]), &["getThing", "upload"]);
    check(OperationFilter::by_tag(["files", "none"]), &["forms", "upload"]);
    check(OperationFilter::by_tag(["things"]), &["getThing", "putThing", "addThing", "listThings"]);
    check(OperationFilter::by_path_prefix("/things/"), &["getThing", "putThing", "deleteThing"]);
    check(OperationFilter::by_method(["put", "DELETE"]), &["putThing", "deleteThing", "putText", "putBytes"]);
    let both = vec![OperationFilter::by_tag(["things"]), OperationFilter::by_method(["post"])];
    check(OperationFilter::AllOf(both), &["addThing"]);
    check(OperationFilter::by_operation_id(["get_unnamed", ""]), &[]);
    let none = OperationFilter::by_operation_id(["absent"]);
    let adapter = OpenApiAdapter::from_str(CONSTRUCTS, OpenApiConfig::new(), none).unwrap();
    let wanted = OpenApiProblem::NotThere { wanted: "absent".to_owned() };
    assert!(adapter.warnings().iter().any(|warning| warning.problem == wanted));
}

/// REQ-156.
#[test]
fn a_prefix_stands_before_every_name() {
    let config = OpenApiConfig::new().with_base_url("https://x.example.com").with_name_prefix("myapi");
    let adapter = OpenApiAdapter::from_str(MODERN, config, OperationFilter::All).unwrap();
    let names: Vec<&str> = adapter.tools().iter().map(|tool| tool.name()).collect();
    assert_eq!(names, ["myapi__search", "myapi__putPhoto", "myapi__getPhoto"]);
}

#[test]
fn names_are_valid_for_every_provider_and_lead_back_to_their_operation() {
    let long = "x".repeat(100);
    let wanted =
        ["pets.list/all", "pets_list_all", "pets list:all", "日本", "7up", long.as_str(), long.as_str()];
    let paths: serde_json::Map<String, Value> = wanted
        .iter()
        .enumerate()
        .map(|(n, id)| (format!("/p{n}"), json!({"get": {"operationId": id}})))
        .collect();
    let adapter = adapter(&json!({"openapi": "3.0.0", "paths": paths}).to_string());
    assert_eq!(ids(&adapter), wanted);
    let names: std::collections::BTreeSet<&str> = adapter.tools().iter().map(|tool| tool.name()).collect();
    assert_eq!(names.len(), wanted.len());
    for name in names {
        assert!((1..=64).contains(&name.len()), "{name}");
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'), "{name}");
    }
    assert!(adapter.warnings().iter().any(|w| matches!(w.problem, OpenApiProblem::DuplicateId { .. })));
}

/// One broken part costs no other.
#[test]
fn what_is_broken_is_a_warning_beside_the_rest() {
    let adapter = adapter(CONSTRUCTS);
    let warnings: Vec<String> = adapter.warnings().iter().map(ToString::to_string).collect();
    for expected in [
        "GET /undescribed/{what}: its path needs `what`, which no parameter describes; it is a text",
        "GET /broken: it is left out: its body cannot be read: the reference `#/components/requestBodies/Missing` leads to nothing",
        "POST /broken: its parameter `(no name)` is left out: the reference `#/components/parameters/Circle` leads in a circle, or through too many others",
        "POST /broken: its parameter `(no name)` is left out: the reference `other.yaml#/X` leads out of the description",
        "PATCH /broken: it is left out: it is not an object",
    ] {
        assert!(warnings.contains(&expected.to_owned()), "{warnings:#?}");
    }
    assert!(
        warnings
            .iter()
            .any(|w| w.starts_with("POST /broken: its parameter `strange` is left out: unknown variant"))
    );
    assert_eq!(
        tool(&adapter, "brokenParameters").parameters_schema()["properties"],
        json!({"good": {"type": "string"}})
    );
    assert_eq!(tool(&adapter, "undescribed").parameters_schema()["required"], json!(["what"]));
}

/// D23.
#[test]
fn servers_have_variables_and_may_be_relative() {
    fn check(config: OpenApiConfig, spec: &str, expected: &str) {
        let adapter = OpenApiAdapter::from_str(spec, config, OperationFilter::All);
        let shown = match &adapter {
            Ok(adapter) => adapter.tools()[0].base_url().to_owned(),
            Err(error) => error.to_string(),
        };
        assert!(shown.contains(expected), "{shown}");
    }
    let config = OpenApiConfig::new;
    check(config(), CONSTRUCTS, "https://eu.example.com/v1");
    check(config().with_server_variable("region", "us"), CONSTRUCTS, "https://us.example.com/v1");
    check(
        config().with_server_variable("region", "evil.example.net/"),
        CONSTRUCTS,
        "is not one of the values of `region`: eu, us",
    );
    check(
        config().with_spec_url("https://a.example.com/docs/openapi.json"),
        MODERN,
        "https://a.example.com/api",
    );
    check(config(), MODERN, "relative to an address that is not known");
    check(config().with_base_url("http://localhost:8080/x/"), MODERN, "http://localhost:8080/x");
    let away = adapter_without_base(CONSTRUCTS);
    assert_eq!(tool(&away, "away").base_url(), "https://uploads.example.net");
    assert_eq!(tool(&adapter(CONSTRUCTS), "away").base_url(), "https://api.example.com/base");
    for server in [
        "file:///etc/passwd",
        "https://me:pass@example.com",
        "https://x.example.com/?a=b",
        "https://{x}.example.com",
    ] {
        let spec = json!({"openapi": "3.0.0", "servers": [{"url": server}], "paths": {"/p": {"get": {"operationId": "o"}}}});
        assert!(matches!(read(&spec.to_string()), Err(OpenApiError::NoBaseUrl { .. })), "{server}");
    }
}

fn adapter_without_base(spec: &str) -> OpenApiAdapter {
    read(spec).unwrap()
}

/// What a run may do with a call that was cut off follows from the method.
#[test]
fn effects_are_those_that_http_promises() {
    for (method, effects) in [
        ("get", Effects::ReadOnly),
        ("head", Effects::ReadOnly),
        ("options", Effects::ReadOnly),
        ("put", Effects::Idempotent),
        ("delete", Effects::Idempotent),
        ("post", Effects::Once),
        ("patch", Effects::Once),
    ] {
        let adapter = adapter(&one("/x", method, json!({})));
        assert_eq!(adapter.tools()[0].effects(&json!({})), effects, "{method}");
    }
    assert_eq!(adapter(&one("/x", "trace", json!({}))).tools().len(), 0);
}

#[test]
fn descriptions_come_from_the_operation_and_have_a_bound() {
    let constructs = adapter(CONSTRUCTS);
    let thing = tool(&constructs, "getThing");
    assert_eq!((thing.label(), thing.description()), ("One thing", "One thing\n\nGives one thing."));
    assert!(tool(&constructs, "putThing").description().starts_with("(Deprecated.) "));
    assert_eq!(tool(&constructs, "deleteThing").description(), "DELETE /things/{thingId}");
    let long = adapter(&one("/x", "get", json!({"description": "é".repeat(3000)})));
    let length = long.tools()[0].description().len();
    assert!((900..=1000).contains(&length), "{length}");
}

#[test]
fn merge_keys_add_the_fields_that_are_missing() {
    let spec = "
openapi: 3.1.0
x-base: &base {description: from the base, operationId: base, tags: [a]}
x-more: &more {<<: *base, description: from more}
paths:
  /a: {get: {<<: *more, operationId: own}}
  /b: {get: {operationId: both, <<: [*more, *base]}}
  /c:
    get:
      operationId: numbered
      responses: {200: {description: ok}}
";
    let adapter = adapter(spec);
    let about: Vec<(&str, &str)> =
        adapter.tools().iter().map(|tool| (tool.operation_id(), tool.description())).collect();
    assert_eq!(about.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ["own", "both", "numbered"]);
    assert!(about[0].1.contains("from more") && about[1].1.contains("from more"), "{about:?}");
    let config = OpenApiConfig::new().with_base_url("https://api.example.com");
    let wrong = OpenApiAdapter::from_str("openapi: 3.1.0\nx: {<<: 1}", config, OperationFilter::All);
    assert!(matches!(wrong, Err(OpenApiError::Yaml { .. })));
}
