//! Arguments as servers send them: nearly valid, repeated, in pieces, with calls beside each other. Each form is the call that
//! was meant, or a call without a value, whose result tells the model what arrived. None is lost and none is doubled.

use agent_core::ApiProtocol;
use agent_providers::{AnthropicProvider, OpenAiChatProvider, OpenAiResponsesProvider};
use serde_json::{Value, json};

use crate::eight::{ANTHROPIC, CHAT, RESPONSES, Vendor};
use crate::support::{Act, Outcome, Server, call, hello, piece, sse};

const THREE: [Vendor; 3] = [ANTHROPIC, CHAT, RESPONSES];
const A: &str = r#"{"path":"a.txt"}"#;

/// The arguments of one call, as the pieces in which they arrive.
struct Form {
    pieces: Vec<String>,
    /// What they mean; `None` if that is not certain.
    meant: Option<Value>,
}

fn one(text: &str, meant: Value) -> Form {
    Form { pieces: vec![text.to_owned()], meant: Some(meant) }
}

fn pieces(pieces: &[&str]) -> Form {
    Form { pieces: pieces.iter().map(|p| (*p).to_owned()).collect(), meant: Some(json!({"path": "a.txt"})) }
}

fn unclear(text: &str) -> Form {
    Form { pieces: vec![text.to_owned()], meant: None }
}

fn forms() -> Vec<Form> {
    let path = || json!({"path": "a.txt"});
    let content = |text: &str| json!({"path": "n.py", "content": text});
    vec![
        // Valid, in any pieces.
        one(A, path()),
        pieces(&["{", "\"path\"", ":\"a", ".txt\"}"]),
        one("{ \"path\" :\n\t\"a.txt\" }", path()),
        one("", json!({})),
        one("{}", json!({})),
        one(
            r#"{"path":"n.py","content":"def f():\n\treturn 'é 中'\n"}"#,
            content("def f():\n\treturn 'é 中'\n"),
        ),
        // The same again.
        pieces(&[&A[..6], &A[6..], A]),
        pieces(&[A, A]),
        pieces(&[A, A, A]),
        pieces(&[&A[..6], &A[..10], A]),
        pieces(&[&A[..1], &A[..2], &A[..9], A]),
        pieces(&["null", A]),
        pieces(&["{}", A]),
        pieces(&["\"\"", A]),
        pieces(&["null", &A[..6], &A[6..]]),
        pieces(&["{}", &A[..6], &A[6..]]),
        pieces(&[A, "{}"]),
        pieces(&[A, "null"]),
        one("{}{}", json!({})),
        // Raw characters in strings.
        one("{\"path\":\"n.py\",\"content\":\"def f():\n\treturn 1\n\"}", content("def f():\n\treturn 1\n")),
        one("{\"path\":\"n.py\",\"content\":\"a\r\nb\"}", content("a\r\nb")),
        one("{\"path\":\"n.py\",\"content\":\"a\u{1}b\"}", content("a\u{1}b")),
        one(r#"{"path":"n.py","content":"\d+ \'x\'"}"#, content(r"\d+ 'x'")),
        one("{\"path\":\"n.py\",\"content\":\"one \\\ntwo\"}", content("one \\\ntwo")),
        // Fences.
        one("```json\n{\"path\":\"a.txt\"}\n```", path()),
        one("```\n{\"path\":\"a.txt\"}\n```", path()),
        one("```json\n{\"path\":\"a.txt\"}", path()),
        // Python and JavaScript.
        one("{'path': 'a.txt'}", path()),
        one("{'path': 'a.txt',}", path()),
        one(
            "{\"path\":\"a.txt\",\"all\":True,\"none\":None,\"not\":False}",
            json!({"path": "a.txt", "all": true, "none": null, "not": false}),
        ),
        one("{path: \"a.txt\"}", path()),
        one("{path: 'a.txt', depth: 2}", json!({"path": "a.txt", "depth": 2})),
        one("{\"n\":NaN,\"i\":Infinity,\"u\":undefined}", json!({"n": null, "i": null, "u": null})),
        one("{'say': 'a \"word\"'}", json!({"say": "a \"word\""})),
        // Commas and braces.
        one("{\"path\":\"a.txt\",}", path()),
        one("{\"list\":[1,2,],}", json!({"list": [1, 2]})),
        one("{\"path\":\"a.txt\"", path()),
        one("{\"path\":\"a.txt\",", path()),
        one("{\"a\":{\"b\":[\"c\"", json!({"a": {"b": ["c"]}})),
        one("{\"a\":[1,2}", json!({"a": [1, 2]})),
        one("{\"path\":\"a.txt\"}}", path()),
        one("{\"path\":\"a.txt\"};", path()),
        // Comments.
        one("{\"path\":\"a.txt\" // the file\n}", path()),
        one("{/* the file */\"path\":\"a.txt\"}", path()),
        one("{\"path\":\"a.txt\" # the file\n}", path()),
        one("\u{feff}{\"path\":\"a.txt\"}", path()),
        // What may have lost a part, or may mean two things.
        unclear("{"),
        unclear("{\"path"),
        unclear("{\"path\":"),
        unclear("{\"path\":\"a.t"),
        unclear("{\"n\":12"),
        unclear("{\"path\":\"a.txt\"}{\"path\":\"b.txt\"}"),
        unclear("{\"say\":\"a \"word\" here\"}"),
        unclear("{'say': 'don't'}"),
        unclear("{\"a\":1 \"b\":2}"),
        unclear("{\"a\":1,,\"b\":2}"),
        unclear("a.txt"),
        unclear("read a.txt, please"),
        unclear("<path>a.txt</path>"),
        unclear("{\"path\":\"a.txt\"} and then list it"),
    ]
}

fn named(out: &mut String, event: Value) {
    let name = event["type"].as_str().unwrap_or_default().to_owned();
    out.push_str(&format!("event: {name}\ndata: {event}\n\n"));
}

/// The stream of a reply with one call.
fn stream(vendor: Vendor, form: &Form) -> String {
    let mut out = String::new();
    match vendor.api {
        ApiProtocol::AnthropicMessages => {
            named(
                &mut out,
                json!({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1}}}),
            );
            named(
                &mut out,
                json!({"type": "content_block_start", "index": 0,
                "content_block": {"type": "tool_use", "id": "c1", "name": "f", "input": {}}}),
            );
            for text in &form.pieces {
                named(
                    &mut out,
                    json!({"type": "content_block_delta", "index": 0,
                    "delta": {"type": "input_json_delta", "partial_json": text}}),
                );
            }
            named(&mut out, json!({"type": "content_block_stop", "index": 0}));
            named(&mut out, json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
            named(&mut out, json!({"type": "message_stop"}));
        }
        ApiProtocol::OpenAiCompletions => {
            let mut chunk = |call: Value, reason: Value| {
                let delta = if call.is_null() { json!({}) } else { json!({"tool_calls": [call]}) };
                let chunk =
                    json!({"id": "r", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
                out.push_str(&format!("data: {chunk}\n\n"));
            };
            chunk(
                json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}),
                Value::Null,
            );
            for text in &form.pieces {
                chunk(json!({"index": 0, "function": {"arguments": text}}), Value::Null);
            }
            chunk(Value::Null, json!("tool_calls"));
            out.push_str("data: [DONE]\n\n");
        }
        _ => {
            let item = |arguments: &str| json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": arguments});
            named(
                &mut out,
                json!({"type": "response.output_item.added", "output_index": 0, "item": item("")}),
            );
            for text in &form.pieces {
                named(
                    &mut out,
                    json!({"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_1", "delta": text}),
                );
            }
            named(
                &mut out,
                json!({"type": "response.output_item.done", "output_index": 0, "item": item("")}),
            );
            named(
                &mut out,
                json!({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}}),
            );
        }
    }
    out
}

/// Calls a server that streams this body.
async fn outcome(vendor: Vendor, body: &str) -> Outcome {
    let server = Server::start(vec![vec![sse(), piece(body), Act::End]]).await;
    let request = hello(vendor.at(&server.url()));
    match vendor.api {
        ApiProtocol::AnthropicMessages => call(&AnthropicProvider::new(), &request).await,
        ApiProtocol::OpenAiCompletions => call(&OpenAiChatProvider::new(), &request).await,
        _ => call(&OpenAiResponsesProvider::new(), &request).await,
    }
}

#[tokio::test]
async fn each_form_of_arguments_is_what_was_meant_or_an_error_that_shows_it() {
    let forms = forms();
    assert!(forms.len() >= 60, "{}", forms.len());
    for vendor in THREE {
        for form in &forms {
            let what = format!("{} {:?}", vendor.name, form.pieces);
            let outcome = outcome(vendor, &stream(vendor, form)).await;
            assert!(outcome.log.open_calls().is_empty(), "{what}: the call has its end");
            let message = outcome.message();
            let calls: Vec<_> = message.tool_calls().collect();
            assert_eq!(calls.len(), 1, "{what}");
            let call = calls[0];
            assert_eq!((call.id.as_str(), call.name.as_str()), ("c1", "f"), "{what}");
            assert_eq!(call.arguments.text(), form.pieces.concat(), "{what}: the evidence");
            match &form.meant {
                Some(meant) => assert_eq!(call.arguments.value(), Ok(meant), "{what}"),
                None => assert!(call.arguments.value().is_err(), "{what}: {:?}", call.arguments.value()),
            }
            // It goes back as JSON that every vendor takes.
            let sent: Value = serde_json::from_str(call.arguments.object_text()).unwrap();
            assert_eq!(sent, form.meant.clone().unwrap_or_else(|| json!({})), "{what}");
        }
    }
}

/// A limit that cuts a reply after these arguments. They look as if only a brace were missing.
#[tokio::test]
async fn arguments_that_a_limit_cut_are_not_completed() {
    let form = one("{\"path\":\"a.txt\"", json!(null));
    for vendor in THREE {
        let body = stream(vendor, &form)
            .replace("\"stop_reason\":\"tool_use\"", "\"stop_reason\":\"max_tokens\"")
            .replace("\"finish_reason\":\"tool_calls\"", "\"finish_reason\":\"length\"")
            .replace("response.completed", "response.incomplete")
            .replace(
                "\"status\":\"completed\"",
                "\"status\":\"incomplete\",\"incomplete_details\":{\"reason\":\"max_output_tokens\"}",
            );
        let outcome = outcome(vendor, &body).await;
        let message = outcome.message();
        assert_eq!(message.stop_reason, agent_core::StopReason::Length, "{}", vendor.name);
        let call = message.tool_calls().next().unwrap();
        assert!(call.arguments.value().is_err(), "{}: {:?}", vendor.name, call.arguments.value());
        assert_eq!((call.arguments.text(), call.arguments.object_text()), ("{\"path\":\"a.txt\"", "{}"));
    }
}
