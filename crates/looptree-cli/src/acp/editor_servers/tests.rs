use super::*;

fn read(servers: &Value) -> (Vec<Value>, Vec<(String, String)>) {
    let params = json!({ "cwd": "/w", "mcpServers": servers, "_meta": { "x": 1 } });
    let line = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params }).to_string();
    let message: Value = serde_json::from_str(&normalize(line)).unwrap();
    let params = &message["params"];
    assert_eq!((&params["cwd"], &params["_meta"]["x"]), (&json!("/w"), &json!(1)));
    (params["mcpServers"].as_array().unwrap().clone(), omissions(params["_meta"].as_object()))
}

#[test]
fn entries_of_other_forms_become_those_of_the_schema() {
    let stdio = json!({"name": "a", "command": "c", "args": ["x"], "env": [{"name": "K", "value": "v"}]});
    let http =
        json!({"type": "http", "name": "h", "url": "http://h", "headers": [{"name": "K", "value": "v"}]});
    for (given, expect) in [
        (stdio.clone(), &stdio),
        (json!({"type": "stdio", "name": "a", "command": "c", "args": ["x"], "env": {"K": "v"}}), &stdio),
        (
            json!({"name": "a", "command": "c", "args": ["x"], "env": [{"name": "K", "value": "v", "n": 1}], "new": 1}),
            &stdio,
        ),
        (json!({"name": "a", "command": "c"}), &json!({"name": "a", "command": "c", "args": [], "env": []})),
        (http.clone(), &http),
        (json!({"type": "streamable-http", "name": "h", "url": "http://h", "headers": {"K": "v"}}), &http),
        (json!({"name": "h", "url": "http://h", "headers": {"K": "v"}}), &http),
    ] {
        assert_eq!(read(&json!([given])), (vec![expect.clone()], vec![]));
    }
    assert_eq!(read(&Value::Null), (vec![], vec![]));
}

#[test]
fn an_entry_that_cannot_be_used_is_named_without_its_values_and_the_others_remain() {
    let good = json!({"name": "good", "command": "c", "args": [], "env": []});
    for (bad, expect) in [
        (json!({"name": "x", "command": 7}), "command is not a string"),
        (json!({"name": "x"}), "command is missing"),
        (json!({"name": "x", "command": "c", "env": "hidden"}), "env is not a list"),
        (json!({"name": "x", "command": "c", "env": [{"value": "hidden"}]}), "env is not a list"),
        (json!({"name": "x", "command": "c", "args": "hidden"}), "args is not a list"),
        (json!({"name": "x", "type": "sse", "url": "http://hidden"}), "SSE"),
        (json!({"name": "x", "type": "acp", "id": "hidden"}), "\"acp\" is not known"),
        (json!({"name": "x", "type": "http", "headers": []}), "url is missing"),
    ] {
        let (servers, left_out) = read(&json!([bad, good]));
        assert_eq!(servers, std::slice::from_ref(&good));
        let [(name, why)] = &*left_out else { panic!("{left_out:?}") };
        assert_eq!(name, "x");
        assert!(why.contains(expect) && !why.contains("hidden"), "{why}");
    }
    let (servers, left_out) = read(&json!(["hidden", good]));
    assert_eq!((servers.len(), &*left_out[0].0), (1, "1"));
}

#[test]
fn other_messages_are_not_changed() {
    for line in [
        "{no json",
        r#"{"method":"session/prompt","params":{"a":1.0}}"#,
        r#"{"method":"session/new","params":7}"#,
    ] {
        assert_eq!(normalize(line.to_owned()), line);
    }
}
