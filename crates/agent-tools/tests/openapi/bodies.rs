//! Bodies.

use serde_json::{Value, json};

use super::support::{Api, CONSTRUCTS, MODERN, Request, one};

fn text(request: &Request) -> &str {
    std::str::from_utf8(&request.body).unwrap()
}

/// REQ-154.
#[tokio::test]
async fn json_is_sent_as_it_was_given_in_the_media_type_of_the_description() {
    let api = Api::of(CONSTRUCTS).await;
    let node = json!({"value": "é", "children": [{"value": "2"}]});
    let request = api.request("addNode", json!({"body": node})).await;
    assert_eq!(request.header("content-type").unwrap(), "application/vnd.node+json");
    assert_eq!(serde_json::from_slice::<Value>(&request.body).unwrap(), node);
}

#[tokio::test]
async fn a_body_that_may_be_missing_is_not_sent_when_it_is() {
    let api = Api::of(CONSTRUCTS).await;
    let request = api.request("addNode", json!({})).await;
    assert_eq!((request.header("content-type"), request.body.len()), (None, 0));
    let why = api.refusal("putThing", json!({"thingId": "1"})).await;
    assert!(why.contains("body"), "{why}");
}

#[tokio::test]
async fn forms_are_encoded_field_by_field() {
    let api = Api::of(CONSTRUCTS).await;
    let body = json!({
        "name": "a&b=c d", "tags": ["x", "y"], "joined": ["x", "y"], "point": {"x": 1}, "deep": {"x": 1, "y": 2},
    });
    let request = api.request("forms", json!({"body": body})).await;
    assert_eq!(request.header("content-type").unwrap(), "application/x-www-form-urlencoded");
    let expected =
        "name=a%26b%3Dc%20d&tags=x&tags=y&joined=x,y&point=%7B%22x%22%3A1%7D&deep%5Bx%5D=1&deep%5By%5D=2";
    assert_eq!(text(&request), expected);
}

#[tokio::test]
async fn files_come_as_base64_and_go_as_bytes() {
    let api = Api::of(CONSTRUCTS).await;
    let body =
        json!({"name": "a\r\nb", "count": 3, "file": "AP8K", "more": ["MQ==", "Mg=="], "meta": {"x": 1}});
    let request = api.request("upload", json!({"body": body})).await;
    let kind = request.header("content-type").unwrap();
    let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap().to_owned();
    let part = |head: &str, content: &[u8]| {
        let head = format!("--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n");
        [head.as_bytes(), content, b"\r\n"].concat()
    };
    let bytes = "Content-Type: application/octet-stream";
    let expected = [
        part("name=\"name\"", b"a\r\nb"),
        part("name=\"count\"", b"3"),
        part("name=\"file\"; filename=\"file\"\r\nContent-Type: image/png", &[0, 0xFF, 0x0A]),
        part(&format!("name=\"more\"; filename=\"more\"\r\n{bytes}"), b"1"),
        part(&format!("name=\"more\"; filename=\"more\"\r\n{bytes}"), b"2"),
        part("name=\"meta\"\r\nContent-Type: application/json", br#"{"x":1}"#),
        format!("--{boundary}--\r\n").into_bytes(),
    ];
    assert_eq!(request.body, expected.concat(), "{:?}", String::from_utf8_lossy(&request.body));
}

#[tokio::test]
async fn modern_descriptions_say_otherwise_what_is_a_file() {
    let api = Api::of(MODERN).await;
    let body = json!({"picture": "AP8K", "inline": "AP8K", "about": {"title": "t"}});
    let request = api.request("putPhoto", json!({"path": "a/b c.png", "body": body})).await;
    assert_eq!(request.path, "/base/photos/a/b%20c.png");
    let sent = String::from_utf8_lossy(&request.body).into_owned();
    // The one is bytes, the other is told to stay base64.
    assert!(sent.contains("filename=\"picture\"") && !sent.contains("filename=\"inline\""), "{sent}");
    assert!(sent.contains("\r\n\r\nAP8K\r\n"), "{sent}");
}

#[tokio::test]
async fn a_name_cannot_end_the_head_of_its_part() {
    let schema = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let operation = json!({"requestBody": {"content": {"multipart/form-data": {"schema": schema}}}});
    let api = Api::of(&one("/files", "post", operation)).await;
    let request = api.request("call", json!({"body": {"a\"\r\nX-Evil: 1": "v"}})).await;
    assert!(text(&request).contains("name=\"a%22%0D%0AX-Evil: 1\"\r\n\r\nv"), "{}", text(&request));
}

#[tokio::test]
async fn texts_and_bytes_are_sent_as_they_are() {
    let api = Api::of(CONSTRUCTS).await;
    let request = api.request("putText", json!({"body": "a\nb é"})).await;
    assert_eq!((request.header("content-type").unwrap().as_str(), text(&request)), ("text/plain", "a\nb é"));
    let request = api.request("putBytes", json!({"body": "AP8K"})).await;
    assert_eq!(request.header("content-type").unwrap(), "application/octet-stream");
    assert_eq!(request.body, [0, 0xFF, 0x0A]);
    let why = api.refusal("putBytes", json!({"body": "not base64!"})).await;
    assert!(why.contains("`body` is no base64"), "{why}");
}

/// Of several media types the one that a model writes best is used.
#[tokio::test]
async fn the_best_media_type_is_chosen() {
    async fn check(kinds: &[&str], expected: Option<&str>) {
        let content: serde_json::Map<String, Value> =
            kinds.iter().map(|kind| ((*kind).to_owned(), json!({"schema": {}}))).collect();
        let api = Api::of(&one("/x", "post", json!({"requestBody": {"content": content}}))).await;
        let arguments = if expected.is_some() { json!({"body": "MQ=="}) } else { json!({}) };
        let arguments = if expected.is_some_and(|kind| kind.contains("form")) {
            json!({"body": {"a": 1}})
        } else {
            arguments
        };
        let kind = api.request("call", arguments).await.header("content-type");
        assert_eq!(
            kind.as_deref().map(|kind| kind.split("; boundary").next().unwrap()),
            expected,
            "{kinds:?}"
        );
        assert_eq!(api.adapter.warnings().len(), usize::from(expected.is_none()));
    }
    check(&["application/xml", "application/json; charset=utf-8"], Some("application/json; charset=utf-8"))
        .await;
    check(&["text/plain", "application/merge-patch+json"], Some("application/merge-patch+json")).await;
    check(
        &["multipart/form-data", "application/x-www-form-urlencoded"],
        Some("application/x-www-form-urlencoded"),
    )
    .await;
    check(&["image/png", "multipart/form-data"], Some("multipart/form-data")).await;
    check(&["*/*"], Some("application/json")).await;
    check(&["image/png", "text/markdown"], Some("text/markdown")).await;
    check(&["image/png"], Some("image/png")).await;
    check(&["multipart/mixed"], None).await;
    check(&["bad\r\nX: y"], None).await;
}
