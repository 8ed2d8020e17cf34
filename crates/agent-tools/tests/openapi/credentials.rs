//! Who calls, and who sees it.

use agent_tools::openapi::{
    OpenApiAdapter, OpenApiAuth, OpenApiConfig, OpenApiCredential, OpenApiProblem, OperationFilter,
};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use serde_json::json;

use super::support::{Api, CONSTRUCTS, Server, execute, one, tool};

const TOKEN: &str = "a-very-secret-token";

/// REQ-138.
#[test]
fn credentials_are_shown_as_stars() {
    let shown = |auth: OpenApiAuth| format!("{auth:?}");
    assert_eq!(shown(OpenApiAuth::bearer(TOKEN)), r#"Bearer("****")"#);
    assert_eq!(shown(OpenApiAuth::api_key("X-Key", TOKEN)), r#"ApiKey { header: "X-Key", value: "****" }"#);
    assert_eq!(shown(OpenApiAuth::basic("me", TOKEN)), r#"Basic { user: "****", password: "****" }"#);
    let key = OpenApiAuth::QueryKey { name: "key".to_owned(), value: TOKEN.into() };
    assert_eq!(shown(key), r#"QueryKey { name: "key", value: "****" }"#);
    assert_eq!(format!("{:?}", OpenApiCredential::token(TOKEN)), r#"Token("****")"#);
    let config = OpenApiConfig::new()
        .with_base_url(format!("https://me:{TOKEN}@example.com/x?key={TOKEN}"))
        .with_auth(OpenApiAuth::bearer(TOKEN))
        .with_credential("x", OpenApiCredential::basic("me", TOKEN))
        .with_header("X-Key", TOKEN);
    let shown = format!("{config:?}");
    assert!(!shown.contains(TOKEN) && shown.contains("https://example.com/x"), "{shown}");
}

/// REQ-154.
#[tokio::test]
async fn one_credential_goes_with_every_request() {
    async fn check(auth: OpenApiAuth, name: &str, expected: &str) {
        let spec = one(
            "/x",
            "get",
            json!({"parameters": [{"name": "a", "in": "query"}, {"name": "c", "in": "cookie"}]}),
        );
        let api = Api::with(Server::start().await, &spec, |config| config.with_auth(auth));
        let result = api.call("call", json!({"a": "1", "c": "2"})).await;
        let request = api.server.take().unwrap();
        let seen = if name == "query" { request.query.clone() } else { request.header(name).unwrap() };
        assert_eq!(seen, expected);
        let shown = format!("{result:?} {:?} {:?}", api.adapter, tool(&api.adapter, "call"));
        assert!(!shown.contains(TOKEN), "{shown}");
    }
    check(OpenApiAuth::bearer(TOKEN), "authorization", "Bearer a-very-secret-token").await;
    check(OpenApiAuth::api_key("X-Key", TOKEN), "x-key", TOKEN).await;
    check(OpenApiAuth::basic("me", TOKEN), "authorization", "Basic bWU6YS12ZXJ5LXNlY3JldC10b2tlbg==").await;
    let query = OpenApiAuth::QueryKey { name: "key".to_owned(), value: TOKEN.into() };
    check(query, "query", "a=1&key=a-very-secret-token").await;
    let cookie = OpenApiAuth::CookieKey { name: "key".to_owned(), value: TOKEN.into() };
    check(cookie, "cookie", "c=2; key=a-very-secret-token").await;
}

#[tokio::test]
async fn credentials_of_schemes_go_where_the_description_says_and_only_there() {
    let api = Api::with(Server::start().await, CONSTRUCTS, |config| {
        config
            .with_credential("token", OpenApiCredential::token(TOKEN))
            .with_credential("key", OpenApiCredential::token("a-secret-key"))
    });
    let request = api.request("getThing", json!({"thingId": "1"})).await;
    assert_eq!(
        (request.header("authorization").as_deref(), request.query.as_str()),
        (Some("Bearer a-very-secret-token"), "")
    );
    let request = api.request("listThings", json!({"page": 1})).await;
    assert_eq!((request.header("authorization"), request.query.as_str()), (None, "page=1&key=a-secret-key"));
    // The second of two alternatives, since there is nothing for the first.
    let thing = json!({"body": {"name": "n", "kind": "a"}});
    assert!(api.request("addThing", thing).await.header("authorization").unwrap().starts_with("Bearer"));
    // Nothing is wanted here.
    assert_eq!(api.request("addNode", json!({})).await.header("authorization"), None);
}

#[test]
fn a_credential_that_is_missing_is_told_once() {
    let adapter = super::support::adapter(CONSTRUCTS);
    let missing = adapter.warnings().iter().filter_map(|warning| match &warning.problem {
        OpenApiProblem::NoCredential { scheme } => Some(scheme.as_str()),
        _ => None,
    });
    assert_eq!(missing.collect::<Vec<_>>(), ["token", "basic", "key"]);
    let config = OpenApiConfig::new().with_credential("tokn", OpenApiCredential::token(TOKEN));
    let adapter = OpenApiAdapter::from_str(CONSTRUCTS, config, OperationFilter::All).unwrap();
    assert_eq!(
        adapter.warnings()[0].to_string(),
        "the credentials: the filter wants `the security scheme tokn`, which is not there"
    );
}

#[test]
fn credentials_that_cannot_be_sent_are_errors_that_do_not_show_them() {
    let bad = format!("{TOKEN}\r\nX-Evil: 1");
    let config = OpenApiConfig::new;
    for config in [
        config().with_auth(OpenApiAuth::bearer(bad.as_str())),
        config().with_auth(OpenApiAuth::api_key("X Key", TOKEN)),
        config().with_auth(OpenApiAuth::CookieKey {
            name: "k".to_owned(),
            value: format!("{TOKEN}; a=b").into(),
        }),
        config().with_header("X-Key", bad.as_str()),
        config().with_credential("basic", OpenApiCredential::token(TOKEN)),
        config().with_credential("token", OpenApiCredential::basic("me", TOKEN)),
        config().with_base_url(format!("https://me:{TOKEN}@example.com")),
        config().with_base_url(format!("ftp://example.com/{TOKEN}")),
    ] {
        let error = OpenApiAdapter::from_str(CONSTRUCTS, config, OperationFilter::All).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains("cannot be used") && !shown.contains(TOKEN), "{shown}");
    }
}

/// A description is not trusted with sending credentials wherever it likes.
#[tokio::test]
async fn another_server_of_the_description_gets_no_credentials() {
    let (home, away) = (Server::start().await, Server::start().await);
    let spec = json!({
        "openapi": "3.0.0",
        "servers": [{"url": home.url()}],
        "paths": {
            "/x": {"get": {"operationId": "home"}},
            "/y": {"get": {"operationId": "away", "servers": [{"url": format!("{}/other", away.url())}]}},
        },
    });
    let make = |config: OpenApiConfig| {
        let config = config.with_auth(OpenApiAuth::bearer(TOKEN));
        OpenApiAdapter::from_str(&spec.to_string(), config, OperationFilter::All).unwrap()
    };
    let adapter = make(OpenApiConfig::new());
    assert!(matches!(adapter.warnings()[0].problem, OpenApiProblem::ForeignServer { .. }));
    for tool in adapter.tools() {
        execute(tool, json!({})).await.unwrap();
    }
    assert!(home.take().unwrap().header("authorization").is_some());
    let request = away.take().unwrap();
    assert_eq!((request.path.as_str(), request.header("authorization")), ("/other/y", None));
    // Unless the caller says so.
    let adapter = make(OpenApiConfig::new().with_trusted_origin(away.url()));
    execute(&tool(&adapter, "away"), json!({})).await.unwrap();
    assert!(away.take().unwrap().header("authorization").is_some());
}

#[tokio::test]
async fn a_redirect_to_another_host_is_shown_and_not_followed() {
    let away = Server::start().await;
    let target = format!("{}/steal", away.url());
    let server = Server::answering(move |request| match request.path.as_str() {
        "/base/x" => (StatusCode::FOUND, [("location", target.clone())]).into_response(),
        "/base/y" => (StatusCode::TEMPORARY_REDIRECT, [("location", "/base/z?n=1")]).into_response(),
        "/base/loop" => (StatusCode::FOUND, [("location", "/base/loop")]).into_response(),
        _ => "here".into_response(),
    })
    .await;
    let operation = |id: &str| json!({"operationId": id});
    let spec = json!({"openapi": "3.0.0", "paths": {
        "/x": {"get": operation("away"), "post": operation("post")},
        "/y": {"get": operation("near"), "post": operation("postNear")},
        "/loop": {"get": operation("loop")},
    }});
    let auth = OpenApiAuth::QueryKey { name: "key".to_owned(), value: TOKEN.into() };
    let api =
        Api::with(server, &spec.to_string(), |config| config.with_auth(auth).with_header("x-key", TOKEN));
    for id in ["away", "post"] {
        let result = api.call(id, json!({})).await;
        assert_eq!(result.details["status"], 302);
        assert!(result.to_text().contains("/steal"), "{}", result.to_text());
    }
    assert!(away.take().is_none());
    // Within the host a GET goes on, and nothing that changes something is sent twice.
    let result = api.call("near", json!({})).await;
    assert!(result.to_text().ends_with("/base/z?n=1 → 200 OK\n\nhere"), "{}", result.to_text());
    assert_eq!(api.call("postNear", json!({})).await.details["status"], 307);
    api.server.take_all();
    assert_eq!(api.call("loop", json!({})).await.details["status"], 302);
    assert_eq!(api.server.take_all().len(), 6);
}

#[tokio::test]
async fn a_server_that_echoes_credentials_does_not_give_them_to_the_model() {
    let server =
        Server::answering(|request| format!("{:?} {}", request.headers, request.query).into_response()).await;
    let spec = one("/x", "get", json!({}));
    let api = Api::with(server, &spec, |config| {
        config
            .with_auth(OpenApiAuth::QueryKey { name: "key".to_owned(), value: TOKEN.into() })
            .with_header("x-key", "another-secret-value")
    });
    let shown = format!("{:?}", api.call("call", json!({})).await);
    assert!(
        shown.contains("key=****") && !shown.contains(TOKEN) && !shown.contains("another-secret"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_server_that_is_gone_is_an_error_without_credentials() {
    let server = Server::start().await;
    let url = server.url().to_owned();
    drop(server);
    let spec = one("/x", "post", json!({}));
    let auth = OpenApiAuth::QueryKey { name: "key".to_owned(), value: TOKEN.into() };
    let config = OpenApiConfig::new().with_base_url(url).with_auth(auth);
    let adapter = OpenApiAdapter::from_str(&spec, config, OperationFilter::All).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let error = execute(&adapter.tools()[0], json!({})).await.unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("POST http://127.0.0.1") && !shown.contains(TOKEN), "{shown}");
}

/// A key with characters that encoders treat differently.
const HARD_KEY: &str = "k/ey+with=signs&mo re%41\"<\\>";

/// How servers write a credential that they return.
fn written(key: &str) -> Vec<String> {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    let percent = |text: &str, all: bool| -> String {
        let one = |b: u8| {
            if !all && b.is_ascii_alphanumeric() { char::from(b).into() } else { format!("%{b:02X}") }
        };
        text.bytes().map(one).collect()
    };
    let once = percent(key, false);
    vec![
        key.to_owned(),
        once.clone(),
        // The key has no capital letters, so only the digits change.
        once.to_ascii_lowercase(),
        once.replace("%20", "+"),
        percent(key, true),
        percent(&once, false),
        json!(key).to_string(),
        json!(key).to_string().replace('/', "\\/"),
        key.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect(),
        key.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;"),
        key.bytes().map(|b| format!("{b:02x}")).collect(),
        STANDARD.encode(key),
        URL_SAFE_NO_PAD.encode(key),
        STANDARD.encode(format!("user:{key}")),
        STANDARD.encode(format!("me:{key}:more")),
    ]
}

/// Whether a text contains the credential in an encoding, apart from the ends of a Base64 text.
fn leaks(text: &str, key: &str) -> bool {
    written(key).iter().any(|form| {
        let middle = form.get(8..form.len() - 6).unwrap_or(form);
        text.contains(form.as_str()) || text.contains(middle)
    })
}

/// Attack 11.
#[tokio::test]
async fn no_encoding_of_a_credential_reaches_the_model() {
    let away = Server::start().await;
    for (n, form) in written(HARD_KEY).into_iter().enumerate() {
        // A header is sent as a server can send it.
        let header: String = form.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').collect();
        let target = format!("{}/steal?api_key={header}", away.url());
        let body = form.clone();
        let server = Server::answering(move |request| match request.path.as_str() {
            "/base/location" => (StatusCode::FOUND, [("location", target.clone())]).into_response(),
            "/base/page" => {
                let headers = [("link", target.clone()), ("retry-after", target.clone())];
                (StatusCode::BAD_REQUEST, headers, format!("the key `{body}` is no good")).into_response()
            }
            _ => (StatusCode::OK, [("content-type", format!("image/x; k={target}"))], vec![0, 1])
                .into_response(),
        })
        .await;
        let spec = json!({"openapi": "3.0.0", "paths": {
            "/location": {"get": {"operationId": "location"}},
            "/page": {"get": {"operationId": "page"}},
            "/kind": {"get": {"operationId": "kind"}},
        }});
        let auth = OpenApiAuth::QueryKey { name: "key".to_owned(), value: HARD_KEY.into() };
        let api = Api::with(server, &spec.to_string(), |config| config.with_auth(auth));
        for operation in ["location", "page", "kind"] {
            let result = api.call(operation, json!({})).await;
            let shown = format!("{}\n{}", result.to_text(), result.details);
            assert!(!leaks(&shown, HARD_KEY), "{n}, {operation}, {form}:\n{shown}");
            assert!(shown.contains("****"), "{n}, {operation}, {form}:\n{shown}");
        }
    }
    assert!(away.take().is_none(), "the credential is not sent to another origin");
}

/// Attack 11: the key stood percent-encoded in the tool's own first line.
#[tokio::test]
async fn a_redirect_to_a_too_long_address_is_not_followed() {
    let server = Server::answering(|request| match request.path.as_str() {
        "/base/x" => (StatusCode::FOUND, [("location", format!("/{}", "a".repeat(60_000)))]).into_response(),
        _ => "here".into_response(),
    })
    .await;
    let spec = json!({"openapi": "3.0.0", "paths": {"/x": {"get": {"operationId": "call"}}}});
    let api = Api::with(server, &spec.to_string(), |config| config);
    let result = api.call("call", json!({})).await;
    assert_eq!(result.details["status"], 302);
    assert_eq!(api.server.take_all().len(), 1);
    assert!(result.to_text().len() < 4 * 1024, "{}", result.to_text().len());
}

#[tokio::test]
async fn a_followed_redirect_does_not_show_the_credential() {
    let server = Server::answering(|request| match request.path.as_str() {
        "/base/x" => {
            let target = format!("/base/y?{}", request.query);
            (StatusCode::TEMPORARY_REDIRECT, [("location", target)]).into_response()
        }
        _ => "here".into_response(),
    })
    .await;
    let spec = one("/x", "get", json!({}));
    let auth = OpenApiAuth::QueryKey { name: "key".to_owned(), value: HARD_KEY.into() };
    let api = Api::with(server, &spec, |config| config.with_auth(auth));
    let result = api.call("call", json!({})).await;
    let shown = format!("{}\n{}", result.to_text(), result.details);
    assert!(shown.contains("/base/y?key=****") && shown.contains("here"), "{shown}");
    assert!(!leaks(&shown, HARD_KEY), "{shown}");
}

/// A header's value that was cut in the middle of a credential.
#[tokio::test]
async fn a_part_of_a_credential_at_the_end_of_a_cut_text_is_not_shown() {
    let server = Server::answering(|_| {
        let link = format!("{}{TOKEN}", "x".repeat(2 * 1024 - 10));
        (StatusCode::OK, [("link", link)], "here").into_response()
    })
    .await;
    let spec = one("/x", "get", json!({}));
    let api = Api::with(server, &spec, |config| config.with_auth(OpenApiAuth::bearer(TOKEN)));
    let result = api.call("call", json!({})).await;
    assert!(!result.details.to_string().contains("a-very"), "{}", result.details);

    // The same where the body ends at the limit of what is read.
    let server = Server::answering(|_| {
        format!("{}{TOKEN}", "x".repeat(agent_tools::openapi::MAX_READ_BYTES - 10)).into_response()
    })
    .await;
    let api = Api::with(server, &spec, |config| config.with_auth(OpenApiAuth::bearer(TOKEN)));
    let text = api.call("call", json!({})).await.to_text();
    assert!(
        text.contains("the rest was not read") && !text.contains("a-very"),
        "{}",
        &text[text.len() - 200..]
    );
}

/// A header with a scheme contains the token, and a server can return the token alone.
#[tokio::test]
async fn the_token_of_a_header_with_a_scheme_is_a_credential_of_its_own() {
    let server = Server::answering(|request| {
        let header = request.header("authorization").unwrap();
        header.trim_start_matches("Token ").to_owned().into_response()
    })
    .await;
    let spec = one("/x", "get", json!({}));
    let api =
        Api::with(server, &spec, |config| config.with_header("Authorization", format!("Token {TOKEN}")));
    let text = api.call("call", json!({})).await.to_text();
    assert!(text.ends_with("****"), "{text}");
}
