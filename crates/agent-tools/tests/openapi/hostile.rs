//! Arguments and descriptions that mean harm.

use std::time::Duration;

use agent_tools::openapi::{
    OpenApiAdapter, OpenApiConfig, OpenApiError, OpenApiProblem, OperationFilter, PathSlashes,
};
use serde_json::{Value, json};

use super::support::{Api, CONSTRUCTS, MODERN, Server, adapter, one, one_parameter};

/// Long enough for anything that is bounded, on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// D23. Nothing is sent.
#[tokio::test]
async fn no_value_leads_out_of_its_place_in_the_path() {
    let api =
        Api::of(&one_parameter(json!({"name": "v", "in": "path", "required": true, "schema": {}}))).await;
    let attempts = [
        json!(""),
        json!("."),
        json!(".."),
        json!("../admin"),
        json!("a/b"),
        json!("/"),
        json!("a\\b"),
        json!("..\\x"),
        json!("%2e"),
        json!("%2e%2e"),
        json!("%2E%2E"),
        json!(".%2e"),
        json!("%252e%252e"),
        json!("%25252e."),
        json!("a%2fb"),
        json!("a%2Fb"),
        json!("a%5cb"),
        json!("%252f"),
        json!("..;"),
        json!("..;x=1"),
        json!("%2e%2e;x"),
        json!("a\r\nHost: evil"),
        json!("a\n"),
        json!("a\t"),
        json!("a\0"),
        json!("%00"),
        json!("%0d%0a"),
        json!([".."]),
        json!([""]),
        json!([]),
        json!({}),
        json!(["a", "b/c"]),
        json!({"..": ""}),
        json!(null),
        json!({"a/b": "c"}),
        json!("//evil.example.com/"),
        json!("@evil.example.com/"),
        json!("http://evil.example.com"),
    ];
    for attempt in attempts {
        api.refusal("call", json!({"v": attempt})).await;
    }
    // What only looks like it is a value as any other.
    for (value, path) in [
        ("...", "..."),
        ("a..b", "a..b"),
        (".git", ".git"),
        ("a;b", "a%3Bb"),
        ("100%", "100%25"),
        ("a%zz", "a%25zz"),
        ("@evil.example.com", "%40evil.example.com"),
        ("evil.example.com:80", "evil.example.com%3A80"),
        ("a?b#c", "a%3Fb%23c"),
    ] {
        let request = api.request("call", json!({"v": value})).await;
        assert_eq!(request.path, format!("/base/p/{path}/q"));
    }
}

#[tokio::test]
async fn parts_that_are_harmless_alone_are_refused_together() {
    let parameter = |name: &str, style: &str| json!({"name": name, "in": "path", "required": true, "style": style, "schema": {}});
    let parameters =
        json!({"parameters": [parameter("a", "simple"), parameter("b", "simple"), parameter("c", "label")]});
    let api = Api::of(&one("/p/{a}{b}/x{c}", "get", parameters.clone())).await;
    let request = api.request("call", json!({"a": "a.", "b": ".b", "c": "c"})).await;
    assert_eq!(request.path, "/base/p/a..b/x.c");
    // A label begins with a dot of its own.
    let api = Api::of(&one("/p/{a}{b}/{c}", "get", parameters)).await;
    let why = api.refusal("call", json!({"a": "a", "b": "b", "c": [""]})).await;
    assert!(why.contains("`c` is empty"), "{why}");
    let api = Api::of(&one("/p/.{a}/x", "get", json!({"parameters": [parameter("a", "simple")]}))).await;
    assert_eq!(api.request("call", json!({"a": "a"})).await.path, "/base/p/.a/x");
}

#[tokio::test]
async fn slashes_are_allowed_only_where_somebody_says_so() {
    let spec =
        one_parameter(json!({"name": "v", "in": "path", "required": true, "schema": {"type": "string"}}));
    let api =
        Api::with(Server::start().await, &spec, |config| config.with_path_slashes(PathSlashes::Encoded));
    assert_eq!(api.request("call", json!({"v": "heads/main"})).await.path, "/base/p/heads%2Fmain/q");
    let modern = Api::of(MODERN).await;
    assert_eq!(modern.request("getPhoto", json!({"path": "a/b"})).await.path, "/base/photos/a/b");
    for attempt in
        ["../x", "a/../b", "a/..", "a/%2e%2e/b", "a%2f..%2fb", "a/./b", "a\\..\\b", "a/..;/b", "a/%252e%252e"]
    {
        api.refusal("call", json!({"v": attempt})).await;
        modern.refusal("getPhoto", json!({"path": attempt})).await;
    }
    for attempt in ["/a", "a/", "a//b"] {
        modern.refusal("getPhoto", json!({"path": attempt})).await;
    }
}

/// D23.
#[tokio::test]
async fn no_argument_sets_a_header_of_the_connection_or_of_the_caller() {
    let names = [
        "Authorization",
        "authorization",
        "Host",
        "Cookie",
        "Content-Type",
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
        "Proxy-Authorization",
        "X-HTTP-Method-Override",
        "Accept",
        "TE",
        "Upgrade",
        "X-Caller",
        "Expect",
    ];
    let parameters: Vec<Value> = names
        .iter()
        .map(|name| json!({"name": name, "in": "header", "schema": {"type": "string"}}))
        .collect();
    let spec = one("/x", "get", json!({"parameters": parameters}));
    let api =
        Api::with(Server::start().await, &spec, |config| config.with_header("x-caller", "the caller's own"));
    let tool = super::support::tool(&api.adapter, "call");
    assert_eq!(agent_core::AgentTool::parameters_schema(&tool)["properties"], json!({}));
    for name in names {
        api.refusal("call", json!({name: "evil"})).await;
    }
    assert_eq!(api.request("call", json!({})).await.header("x-caller").unwrap(), "the caller's own");
}

#[tokio::test]
async fn no_value_ends_a_header() {
    let api = Api::of(&one_parameter(json!({"name": "v", "in": "header", "schema": {}}))).await;
    for attempt in [
        json!("a\r\nX-Evil: 1"),
        json!("a\nb"),
        json!("a\rb"),
        json!("a\0b"),
        json!(["a", "b\nc"]),
        json!({"a\n": 1}),
        json!("\u{7f}"),
        json!("\u{85}"),
        json!("x".repeat(10_000)),
    ] {
        let why = api.refusal("call", json!({"v": attempt})).await;
        assert!(why.contains("`v`"), "{why}");
    }
}

#[tokio::test]
async fn no_value_becomes_another_parameter() {
    let api =
        Api::of(&one_parameter(json!({"name": "v", "in": "query", "allowReserved": true, "schema": {}})))
            .await;
    let request = api.request("call", json!({"v": "1&admin=true#x"})).await;
    assert_eq!(request.query, "v=1%26admin=true%23x");
    let api = Api::of(&one_parameter(json!({"name": "v", "in": "cookie", "schema": {}}))).await;
    let request = api.request("call", json!({"v": "1; admin=true"})).await;
    assert_eq!(request.header("cookie").unwrap(), "v=1%3B%20admin%3Dtrue");
}

#[tokio::test]
async fn the_fields_of_an_object_cannot_be_credentials() {
    let spec = json!({
        "openapi": "3.0.0",
        "paths": {"/x": {"get": {"operationId": "call", "parameters": [
            {"name": "q", "in": "query", "schema": {"type": "object"}},
            {"name": "c", "in": "cookie", "schema": {"type": "object"}},
        ]}}},
        "components": {"securitySchemes": {
            "q": {"type": "apiKey", "in": "query", "name": "key"},
            "c": {"type": "apiKey", "in": "cookie", "name": "session"},
        }},
    });
    let api = Api::of(&spec.to_string()).await;
    for attempt in [json!({"q": {"key": "evil"}}), json!({"c": {"session": "evil"}})] {
        let why = api.refusal("call", attempt).await;
        assert!(why.contains("credentials"), "{why}");
    }
}

/// Servers compare names in different ways, and frameworks read the method from some fields.
#[tokio::test]
async fn names_near_a_credential_and_method_overrides_are_refused() {
    let object = json!({"type": "object"});
    let query = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
    let content = |kind: &str| json!({"required": true, "content": {kind: {"schema": object}}});
    let spec = json!({
        "openapi": "3.0.0",
        "paths": {
            "/x": {"get": {"operationId": "call", "parameters": [
                {"name": "q", "in": "query", "schema": object},
                {"name": "d", "in": "query", "style": "deepObject", "explode": true, "schema": object},
                {"name": "c", "in": "cookie", "schema": object},
                {"name": "X_Key", "in": "header", "schema": {"type": "string"}},
                query("KEY"), query("key[]"), query("_method"), query("method"),
            ]}},
            "/form": {"post": {"operationId": "form", "requestBody": content("application/x-www-form-urlencoded")}},
            "/parts": {"post": {"operationId": "parts", "requestBody": content("multipart/form-data")}},
        },
        "components": {"securitySchemes": {
            "q": {"type": "apiKey", "in": "query", "name": "key"},
            "c": {"type": "apiKey", "in": "cookie", "name": "session"},
            "h": {"type": "apiKey", "in": "header", "name": "X-Key"},
        }},
    });
    let api = Api::of(&spec.to_string()).await;
    let tool = super::support::tool(&api.adapter, "call");
    let offered = agent_core::AgentTool::parameters_schema(&tool)["properties"].clone();
    let offered: Vec<&String> = offered.as_object().unwrap().keys().collect();
    assert_eq!(offered, ["q", "d", "method", "c"]);
    for name in ["key", "KEY", "key[]", " key", "key ", "key\0", "Key[a]"] {
        let why = api.refusal("call", json!({"q": {name: "evil"}})).await;
        assert!(why.contains("credentials"), "{name:?}: {why}");
    }
    api.refusal("call", json!({"c": {"SESSION[]": "evil"}})).await;
    for name in ["_method", "_METHOD", "X-HTTP-Method-Override", "x_http_method"] {
        let why = api.refusal("call", json!({"q": {name: "DELETE"}})).await;
        assert!(why.contains("method"), "{name:?}: {why}");
    }
    for id in ["form", "parts"] {
        let body = api.refusal(id, json!({"_request_body": {"_method": "DELETE"}})).await;
        assert!(body.contains("method"), "{body}");
    }
    let request = api
        .request("call", json!({"q": {"keys": 1, "payment_method": 2}, "d": {"key": 3}, "method": "a"}))
        .await;
    assert_eq!(request.query, "keys=1&payment_method=2&d%5Bkey%5D=3&method=a");
}

#[tokio::test]
async fn addresses_have_a_bound() {
    let api = Api::of(&one_parameter(json!({"name": "v", "in": "query", "schema": {}}))).await;
    let why = api.refusal("call", json!({"v": "é".repeat(10_000)})).await;
    assert!(why.contains("more than 16384 bytes"), "{why}");
}

#[tokio::test]
async fn arguments_that_nobody_knows_are_refused() {
    let api = Api::of(CONSTRUCTS).await;
    for attempt in
        [json!({"thingId": "1", "url": "http://evil.example.com"}), json!([]), json!("x"), json!({})]
    {
        api.refusal("getThing", attempt).await;
    }
}

/// D23. The paths of a description are no way out either.
#[test]
fn paths_of_a_description_that_lead_elsewhere_are_left_out() {
    for path in [
        "/../x",
        "/a/../../x",
        "/a/%2e%2e/x",
        "/a/.",
        "/..;/x",
        "/a\\..\\x",
        "/a?x=1",
        "/a#x",
        "/a/{",
        "/a/}",
        "/{}",
        "x/y",
        "/a\r\nb",
        "//..",
        "/%252e%252e/",
    ] {
        let adapter = adapter(&one(path, "get", json!({})));
        assert_eq!(adapter.tools().len(), 0, "{path}");
        assert!(matches!(adapter.warnings()[0].problem, OpenApiProblem::LeftOut { .. }), "{path}");
    }
}

#[tokio::test]
async fn a_path_that_looks_like_a_host_is_a_path() {
    for path in ["//evil.example.com/x", "/@evil.example.com", "/:80/x"] {
        let api = Api::of(&one(path, "get", json!({}))).await;
        assert_eq!(api.request("call", json!({})).await.path, format!("/base{path}"));
    }
}

/// What is left of each is a typed error, or tools of bounded size, in bounded time.
#[test]
fn enormous_descriptions_cost_bounded_work() {
    let started = std::thread::spawn(|| {
        // Every schema has a hundred fields of the next: without a bound 10^40 of them.
        let mut schemas = serde_json::Map::new();
        for n in 0..20 {
            let next = format!("#/components/schemas/s{}", n + 1);
            let fields: serde_json::Map<String, Value> =
                (0..100).map(|field| (format!("f{field}"), json!({"$ref": next}))).collect();
            schemas.insert(format!("s{n}"), json!({"type": "object", "properties": fields}));
        }
        let body = json!({"content": {"application/json": {"schema": {"$ref": "#/components/schemas/s0"}}}});
        let mut paths = serde_json::Map::new();
        for n in 0..300 {
            paths.insert(
                format!("/p{n}"),
                json!({"post": {"operationId": format!("o{n}"), "requestBody": body}}),
            );
        }
        let spec =
            json!({"openapi": "3.0.0", "paths": paths, "components": {"schemas": schemas}}).to_string();
        let adapter = adapter(&spec);
        // Those that come before the work is used up, with schemas whose inner parts are open.
        let is_cut = |w: &&agent_tools::openapi::OpenApiWarning| w.problem == OpenApiProblem::SchemaCut;
        assert!(!adapter.tools().is_empty());
        assert_eq!(adapter.warnings().iter().filter(is_cut).count(), adapter.tools().len());
        let end = &adapter.warnings().last().unwrap().problem;
        assert!(matches!(end, OpenApiProblem::TooMany { what: "schemas", .. }), "{end}");
        for tool in adapter.tools() {
            let length = agent_core::AgentTool::parameters_schema(tool).to_string().len();
            assert!(length <= agent_tools::openapi::MAX_SCHEMA_BYTES, "{length}");
        }
        // All of the same through lists of alternatives.
        let mut schemas = serde_json::Map::new();
        for n in 0..60 {
            let next = json!({"$ref": format!("#/components/schemas/s{}", n + 1)});
            schemas.insert(
                format!("s{n}"),
                json!({"allOf": [next, next], "anyOf": [next, next], "items": next}),
            );
        }
        let spec = json!({
            "openapi": "3.0.0",
            "paths": {"/p": {"post": {"operationId": "o", "requestBody": body}}},
            "components": {"schemas": schemas},
        });
        assert!(adapter_of(&spec).tools().len() <= 1);
    });
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(started.join()));
    receiver.recv_timeout(PATIENCE).expect("it takes too long").unwrap();
}

fn adapter_of(spec: &Value) -> OpenApiAdapter {
    adapter(&spec.to_string())
}

#[test]
fn too_much_of_anything_has_an_end() {
    let paths: serde_json::Map<String, Value> =
        (0..5000).map(|n| (format!("/p{n}"), json!({"get": {"operationId": format!("o{n}")}}))).collect();
    let many = adapter_of(&json!({"openapi": "3.0.0", "paths": paths}));
    assert_eq!(many.tools().len(), agent_tools::openapi::MAX_OPERATIONS);
    assert!(many.warnings().iter().any(|w| matches!(w.problem, OpenApiProblem::TooMany { .. })));

    let paths: serde_json::Map<String, Value> =
        (0..5000).map(|n| (format!("/p{n}"), json!({"get": {}}))).collect();
    let unnamed = adapter_of(&json!({"openapi": "3.0.0", "paths": paths}));
    assert_eq!(unnamed.warnings().len(), agent_tools::openapi::MAX_WARNINGS + 1);

    let parameters: Vec<Value> = (0..300).map(|n| json!({"name": format!("q{n}"), "in": "query"})).collect();
    let wide = adapter_of(
        &json!({"openapi": "3.0.0", "paths": {"/p": {"get": {"operationId": "o", "parameters": parameters}}}}),
    );
    assert_eq!(wide.tools().len(), 0);
}

#[test]
fn texts_that_are_bombs_are_errors() {
    let read = |text: &str| OpenApiAdapter::from_str(text, OpenApiConfig::new(), OperationFilter::All);
    let deep = format!("{{\"openapi\": {}", "[".repeat(100_000));
    assert!(matches!(read(&deep), Err(OpenApiError::Json { .. })));
    assert!(matches!(read(&format!("openapi: {}", "[".repeat(1_000))), Err(OpenApiError::Yaml { .. })));
    // The YAML library would take minutes.
    assert!(matches!(read(&format!("openapi: {}", "[".repeat(1_000_000))), Err(OpenApiError::TooDeep)));
    assert!(matches!(
        read(&format!("openapi: {}", "[\"]\", ".repeat(1_000_000))),
        Err(OpenApiError::TooDeep)
    ));
    // The same with brackets that are closed on their line.
    let closed = |n: usize| format!("openapi: 3.1.0\nx: {}{}\n", "[".repeat(n), "]".repeat(n));
    assert!(matches!(read(&closed(100_000)), Err(OpenApiError::TooDeep)));
    assert!(matches!(read(&closed(1_000)), Err(OpenApiError::Yaml { .. })));
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let items = vec![format!("*a{}", n - 1); 10].join(", ");
        bomb.push_str(&format!("a{n}: &a{n} [{items}]\n"));
    }
    assert!(matches!(read(&bomb), Err(OpenApiError::TooManyValues { .. } | OpenApiError::Yaml { .. })));
    let large = " ".repeat(agent_tools::openapi::MAX_SPEC_BYTES + 1);
    assert!(matches!(read(&large), Err(OpenApiError::TooLarge { .. })));
}

/// An alias repeats the values of its anchor.
#[test]
fn descriptions_that_grow_by_aliases_have_an_end() {
    let started = std::thread::spawn(read_descriptions_that_grow);
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(started.join()));
    receiver.recv_timeout(PATIENCE).expect("it takes too long").unwrap();
}

fn read_descriptions_that_grow() {
    let read = |text: &str| OpenApiAdapter::from_str(text, OpenApiConfig::new(), OperationFilter::All);
    let lists = |items: usize, aliases: usize| {
        format!("openapi: 3.1.0\na: &a\n{}b:\n{}", "- 1\n".repeat(items), "- *a\n".repeat(aliases))
    };
    for text in [lists(2_000, 20_000), lists(100_000, 11)] {
        let most = text.len().max(50_000);
        assert!(matches!(read(&text), Err(OpenApiError::TooManyValues { limit }) if limit == most));
    }
    // Few values with long texts.
    let texts = format!("openapi: 3.1.0\na: &a {}\nb:\n{}", "x".repeat(1 << 20), "- *a\n".repeat(1_000));
    assert!(matches!(read(&texts), Err(OpenApiError::TooLarge { .. })));
    let names =
        format!("openapi: 3.1.0\na: &a {{? {} : 1}}\nb:\n{}", "x".repeat(900), "- *a\n".repeat(50_000));
    assert!(matches!(read(&names), Err(OpenApiError::TooLarge { .. })), "{:?}", read(&names).err());
    let mut merges = "openapi: 3.1.0\na0: &a0 {x: 1}\n".to_owned();
    for n in 1..1_000 {
        merges.push_str(&format!("a{n}: &a{n}\n  <<: [*a{0}, *a{0}]\n  k{n}: 1\n", n - 1));
    }
    assert!(matches!(read(&merges), Err(OpenApiError::TooManyValues { .. } | OpenApiError::Yaml { .. })));
    // A JSON text, and a YAML text without aliases.
    let json = format!("{{\"openapi\": \"3.1.0\", \"x\": [{}1]}}", "1,".repeat(1_000_000));
    assert!(matches!(read(&json), Err(OpenApiError::TooManyValues { .. })));
    for part in ["x, ", "[], "] {
        let yaml = format!("openapi: 3.1.0\nx: [{}]\n", part.repeat(2_000_000));
        assert!(matches!(read(&yaml), Err(OpenApiError::TooManyValues { .. })));
    }
    // A description of usual size may use aliases.
    let usual = format!("{}paths: {{}}\nservers: [{{url: 'https://a.example.com'}}]\n", lists(100, 100));
    read(&usual).unwrap();
}
