//! Where and how parameters are written.

use serde_json::{Value, json};

use super::check;
use super::support::{Api, CONSTRUCTS, MODERN, one_parameter};

/// Everything that the committed descriptions have, read back by a second reader.
#[tokio::test]
async fn every_operation_of_the_committed_descriptions_is_on_the_wire_as_it_says() {
    for (spec, operations) in [(CONSTRUCTS, 17), (MODERN, 3)] {
        let found = check::description(spec).await.unwrap();
        assert_eq!(found.differences, Vec::<String>::new());
        assert_eq!((found.operations, found.untried), (operations, 0), "{:?}", found.warnings);
    }
}

/// What the parameter `v` becomes: the path of `/p/{v}/q`, the query, or the header.
async fn check(parameter: Value, value: Value, expected: &str) {
    let mut whole = json!({"name": "v", "schema": {}, "required": true});
    let place = parameter["in"].as_str().unwrap().to_owned();
    whole.as_object_mut().unwrap().extend(parameter.as_object().unwrap().clone());
    let api = Api::of(&one_parameter(whole.clone())).await;
    let request = api.request("call", json!({"v": value})).await;
    let seen = match place.as_str() {
        "path" => request.path.strip_prefix("/base/p/").unwrap().strip_suffix("/q").unwrap().to_owned(),
        "query" => request.query,
        "header" => request.header("v").unwrap_or_default(),
        _ => request.header("cookie").unwrap_or_default(),
    };
    assert_eq!(seen, expected, "{whole} with {value}");
}

/// REQ-153. The table of the specification (3.1.1, "Style Examples"), with its values.
#[tokio::test]
async fn every_style_is_written_as_the_specification_shows() {
    let list = json!(["blue", "black", "brown"]);
    let map = json!({"R": 100, "G": 200, "B": 150});
    let path = |style: &str, explode: bool| json!({"in": "path", "style": style, "explode": explode});
    let query = |style: &str, explode: bool| json!({"in": "query", "style": style, "explode": explode});
    let header = |explode: bool| json!({"in": "header", "explode": explode});
    let table: &[(Value, &Value, &str)] = &[
        (path("matrix", false), &json!("blue"), ";v=blue"),
        (path("matrix", false), &list, ";v=blue,black,brown"),
        (path("matrix", false), &map, ";v=R,100,G,200,B,150"),
        (path("matrix", true), &list, ";v=blue;v=black;v=brown"),
        (path("matrix", true), &map, ";R=100;G=200;B=150"),
        (path("label", false), &json!("blue"), ".blue"),
        (path("label", false), &list, ".blue,black,brown"),
        (path("label", false), &map, ".R,100,G,200,B,150"),
        (path("label", true), &list, ".blue.black.brown"),
        (path("label", true), &map, ".R=100.G=200.B=150"),
        (path("simple", false), &json!("blue"), "blue"),
        (path("simple", false), &list, "blue,black,brown"),
        (path("simple", false), &map, "R,100,G,200,B,150"),
        (path("simple", true), &list, "blue,black,brown"),
        (path("simple", true), &map, "R=100,G=200,B=150"),
        (query("form", false), &json!("blue"), "v=blue"),
        (query("form", false), &json!(""), "v="),
        (query("form", false), &list, "v=blue,black,brown"),
        (query("form", false), &map, "v=R,100,G,200,B,150"),
        (query("form", true), &list, "v=blue&v=black&v=brown"),
        (query("form", true), &map, "R=100&G=200&B=150"),
        (query("spaceDelimited", false), &list, "v=blue%20black%20brown"),
        (query("spaceDelimited", false), &map, "v=R%20100%20G%20200%20B%20150"),
        (query("pipeDelimited", false), &list, "v=blue%7Cblack%7Cbrown"),
        (query("pipeDelimited", false), &map, "v=R%7C100%7CG%7C200%7CB%7C150"),
        (query("deepObject", true), &map, "v%5BR%5D=100&v%5BG%5D=200&v%5BB%5D=150"),
        (header(false), &json!("blue"), "blue"),
        (header(false), &list, "blue,black,brown"),
        (header(false), &map, "R,100,G,200,B,150"),
        (header(true), &map, "R=100,G=200,B=150"),
        (json!({"in": "cookie"}), &json!("blue"), "v=blue"),
        (json!({"in": "cookie", "explode": false}), &list, "v=blue,black,brown"),
        (json!({"in": "cookie"}), &map, "R=100; G=200; B=150"),
    ];
    for (parameter, value, expected) in table {
        check(parameter.clone(), (*value).clone(), expected).await;
    }
}

#[tokio::test]
async fn the_usual_styles_are_simple_and_form() {
    let list = json!(["a", "b"]);
    check(json!({"in": "path"}), list.clone(), "a,b").await;
    check(json!({"in": "query"}), list.clone(), "v=a&v=b").await;
    check(
        json!({"in": "query", "style": "deepObject"}),
        json!({"a": {"b": [1]}}),
        "v%5Ba%5D%5Bb%5D%5B0%5D=1",
    )
    .await;
    // One that does not belong there is not used.
    check(json!({"in": "query", "style": "matrix"}), list, "v=a&v=b").await;
}

#[tokio::test]
async fn characters_with_a_meaning_are_encoded() {
    let text = json!("a b/c?d#e&f=g+h,i%j[k]é'");
    let encoded = "a%20b%2Fc%3Fd%23e%26f%3Dg%2Bh%2Ci%25j%5Bk%5D%C3%A9%27";
    check(json!({"in": "query"}), text.clone(), &format!("v={encoded}")).await;
    check(json!({"in": "path"}), json!("a b?d#e&f=g+h,i%j[k]é'"), &encoded.replace("%2Fc", "")).await;
    // Reserved characters stay, but those that would end the value.
    check(
        json!({"in": "query", "allowReserved": true}),
        text,
        "v=a%20b/c?d%23e%26f=g%2Bh,i%25j%5Bk%5D%C3%A9%27",
    )
    .await;
    check(json!({"in": "query", "explode": false}), json!(["a,b", "c"]), "v=a%2Cb,c").await;
    check(json!({"in": "query", "explode": false, "allowReserved": true}), json!(["a,b", "/"]), "v=a%2Cb,/")
        .await;
    check(json!({"in": "header"}), json!("a/b é"), "a/b é").await;
}

#[tokio::test]
async fn values_of_all_kinds_have_a_text() {
    check(json!({"in": "query"}), json!(true), "v=true").await;
    check(json!({"in": "query"}), json!(-1.5), "v=-1.5").await;
    check(json!({"in": "query", "explode": false}), json!([1, null, [2]]), "v=1,%5B2%5D").await;
    let json = json!({"in": "query", "content": {"application/json": {"schema": {}}}});
    check(json, json!({"a": [1]}), "v=%7B%22a%22%3A%5B1%5D%7D").await;
}

#[tokio::test]
async fn what_a_style_cannot_write_is_refused() {
    let query = |style: &str| {
        one_parameter(json!({"name": "v", "in": "query", "style": style, "explode": false, "schema": {}}))
    };
    for (style, value) in [("pipeDelimited", json!(["a|b", "c"])), ("spaceDelimited", json!({"a": "b c"}))] {
        let why = Api::of(&query(style)).await.refusal("call", json!({"v": value})).await;
        assert!(why.contains("`v` has an item with the character"), "{why}");
    }
}

/// REQ-153, REQ-154.
#[tokio::test]
async fn parameters_of_the_path_and_of_the_operation_are_one_list() {
    let api = Api::of(CONSTRUCTS).await;
    let request = api.request("getThing", json!({"thingId": "a b", "trace": "t", "verbose": true})).await;
    assert_eq!((request.method.as_str(), request.path.as_str()), ("GET", "/base/things/a%20b"));
    assert_eq!((request.query.as_str(), request.header("trace").as_deref()), ("verbose=true", Some("t")));
    assert_eq!(request.header("accept").unwrap(), "application/json, text/csv, */*;q=0.5");
}

#[tokio::test]
async fn arguments_of_one_name_are_told_apart() {
    let api = Api::of(CONSTRUCTS).await;
    let arguments =
        json!({"id": "p", "query_id": "q", "header_id": "h", "body": "b", "_request_body": {"id": 7}});
    let request = api.request("clash", arguments).await;
    assert_eq!((request.path.as_str(), request.query.as_str()), ("/base/clash/p", "id=q&body=b"));
    assert_eq!((request.header("id").as_deref(), request.body.as_slice()), (Some("h"), &br#"{"id":7}"#[..]));
}

/// REQ-153.
#[tokio::test]
async fn cookies_are_left_out_unless_they_are_wanted() {
    let spec = one_parameter(json!({"name": "v", "in": "cookie", "required": true}));
    let api = Api::with(super::support::Server::start().await, &spec, |config| {
        config.with_cookie_parameters(agent_tools::openapi::CookieParameters::Ignored)
    });
    assert_eq!(api.adapter.warnings(), []);
    assert_eq!(api.request("call", json!({})).await.header("cookie"), None);
}
