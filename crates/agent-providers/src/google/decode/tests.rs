//! What the pieces of an answer amount to.

use agent_core::provider::{MAX_REPLY_BLOCKS, MAX_REPLY_CALLS};
use agent_core::{AssistantMessage, Content, History, ModelConfig, OwnedStreamEvent, ReplyLog, StopReason};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::sse::SseDecoder;

struct Read {
    end: Result<AssistantMessage, ProviderError>,
    log: ReplyLog,
}

fn request() -> ModelRequest {
    ModelRequest::new(ModelConfig::google("gemini-3.5-flash", "Flash", "k"), History::new())
}

fn read_for(request: &ModelRequest, pieces: &[Value]) -> Read {
    let (mut decoder, mut log) = (Decoder::new(request), ReplyLog::new());
    let mut sink = |event: StreamEvent<'_>| log.push(&event);
    let mut end = Ok(());
    for piece in pieces {
        let data = piece.to_string();
        end = decoder.push(Frame { event: None, data: &data }, &mut sink).map(|_| ());
        if end.is_err() {
            break;
        }
    }
    let end = end.and_then(|()| decoder.finish(&mut sink)).map(|c| log.finish("google", "m", &c));
    Read { end, log }
}

fn read(pieces: &[Value]) -> Read {
    read_for(&request(), pieces)
}

#[expect(clippy::needless_pass_by_value, reason = "a table reads better without references")]
fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}]})
}

fn end(reason: &str) -> Value {
    json!({"candidates": [{"finishReason": reason, "index": 0}]})
}

fn content(pieces: &[Value]) -> Vec<Content> {
    let mut pieces = pieces.to_vec();
    pieces.push(end("STOP"));
    read(&pieces).end.unwrap().content
}

fn signed_text(text: &str, signature: &str) -> Content {
    let mut content = Content::text(text);
    if let Content::Text(text) = &mut content {
        text.signature = Some(signature.to_owned());
    }
    content
}

/// REQ-120, B-126, REQ-043.
#[test]
fn text_thinking_and_calls_are_read_and_stop_with_calls_is_for_tools() {
    let read = read(&[
        parts(json!([{"text": "I look.", "thought": true}, {"text": "Let "}])),
        parts(json!([{"text": "me see."}])),
        parts(
            json!([{"functionCall": {"id": "s1", "name": "look", "args": {"b": 1, "a": [2]}}, "thoughtSignature": "c2ln"}]),
        ),
        parts(json!([{"functionCall": {"id": "s2", "name": "clock"}}])),
        parts(json!([{"text": ""}])),
        end("STOP"),
    ]);
    let message = read.end.unwrap();
    assert_eq!(message.stop_reason, StopReason::ToolUse);
    assert_eq!(message.content[..2], [Content::thinking("I look.", None), Content::text("Let me see.")]);
    let calls: Vec<_> = message.tool_calls().collect();
    assert_eq!((calls[0].id.as_str(), calls[0].arguments.text()), ("s1", r#"{"b":1,"a":[2]}"#));
    assert_eq!(calls[0].signature.as_deref(), Some("c2ln"));
    assert_eq!(
        (calls[1].name.as_str(), calls[1].arguments.json_text(), &calls[1].signature),
        ("clock", "{}", &None)
    );
    assert_eq!(message.content.len(), 4, "the empty part is none");
}

/// B-131.
#[test]
fn a_signature_stays_with_its_part_and_ends_it() {
    let thought = json!({"text": "hm", "thought": true, "thoughtSignature": "dGg="});
    assert_eq!(content(&[parts(json!([thought]))]), [Content::thinking("hm", Some("dGg=".to_owned()))]);
    assert_eq!(
        content(&[parts(json!([{"text": "A", "thoughtSignature": "YQ=="}, {"text": "B"}]))]),
        [signed_text("A", "YQ=="), Content::text("B")]
    );
    // Gemini 3 signs a text by a part of no text after it.
    let late = parts(json!([{"text": "", "thoughtSignature": "bGF0ZQ=="}]));
    assert_eq!(
        content(&[parts(json!([{"text": "All "}])), parts(json!([{"text": "done"}])), late.clone()]),
        [signed_text("All done", "bGF0ZQ==")]
    );
    // Where there is no text before it, it stands alone.
    let call = parts(json!([{"functionCall": {"name": "f", "args": {}}}]));
    assert_eq!(content(&[call, late])[1], signed_text("", "bGF0ZQ=="));
    assert_eq!(content(&[parts(json!([{"thoughtSignature": "eA=="}]))]), [signed_text("", "eA==")]);
}

/// B-145, REQ-120, REQ-121.
#[test]
fn calls_without_an_id_are_numbered_over_the_whole_history() {
    let call = |id: Option<&str>| match id {
        Some(id) => json!({"functionCall": {"id": id, "name": "f", "args": {}}}),
        None => json!({"functionCall": {"name": "f", "args": {}}}),
    };
    let ids = |model: ModelConfig, history: &[&str], given: &[Option<&str>]| -> Vec<String> {
        let mut past = vec![agent_core::AgentMessage::user("?")];
        if !history.is_empty() {
            let mut reply = AssistantMessage::new("google", "m", StopReason::ToolUse);
            reply.content = history.iter().map(|id| Content::tool_call(*id, "f", json!({}))).collect();
            past.push(agent_core::Message::from(reply).into());
        }
        let (history, _) = History::repaired(past);
        let calls: Vec<Value> = given.iter().map(|id| call(*id)).collect();
        let read = read_for(&ModelRequest::new(model, history), &[parts(json!(calls)), end("STOP")]);
        read.end.unwrap().tool_calls().map(|c| c.id.as_str().to_owned()).collect()
    };
    let google = || ModelConfig::google("gemini-2.5-pro", "P", "k");
    assert_eq!(ids(google(), &[], &[None, None]), ["google-fc-0", "google-fc-1"]);
    assert_eq!(ids(google(), &["google-fc-0", "google-fc-1"], &[None, None]), ["google-fc-2", "google-fc-3"]);
    assert_eq!(
        ids(google(), &["google-fc-2", "x"], &[None]),
        ["google-fc-3"],
        "an id of the past is passed over"
    );
    assert_eq!(ids(google(), &[], &[Some("s1"), None, Some("s1")]), ["s1", "google-fc-0", "google-fc-1"]);
    assert_eq!(
        ids(google(), &["s1"], &[Some("s1"), Some("s2")]),
        ["google-fc-1", "s2"],
        "a server may repeat its ids"
    );
    let vertex = || ModelConfig::vertex("p", "r", "gemini-2.5-pro");
    assert_eq!(ids(vertex(), &["a", "b"], &[None]), ["vertex-fc-2"]);
}

/// B-152, REQ-006.
#[test]
fn tokens_are_sorted_into_buckets_that_do_not_overlap() {
    let usage = |said: Value| read(&[json!({"usageMetadata": said}), end("STOP")]).end.unwrap().usage;
    let all =
        usage(json!({"promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 10,
        "thoughtsTokenCount": 7, "toolUsePromptTokenCount": 20, "totalTokenCount": 137}));
    assert_eq!((all.input, all.cache_read, all.output, all.reasoning, all.cache_write), (60, 60, 17, 7, 0));
    let odd =
        usage(json!({"promptTokenCount": 1, "cachedContentTokenCount": 5, "candidatesTokenCount": null}));
    assert_eq!((odd.input, odd.cache_read, odd.output), (1, 5, 0), "more than the prompt stands beside it");
    let inside = usage(json!({"promptTokenCount": 10, "candidatesTokenCount": 8, "thoughtsTokenCount": 3,
        "totalTokenCount": 18}));
    assert_eq!((inside.input, inside.output, inside.reasoning), (10, 8, 3));
    let hidden = usage(json!({"promptTokenCount": 10, "totalTokenCount": 18}));
    assert_eq!((hidden.input, hidden.output, hidden.reasoning), (10, 8, 0));
    for odd in [json!(true), json!([1]), json!({}), json!("many")] {
        let read = read(&[
            json!({"usageMetadata": {"promptTokenCount": odd, "candidatesTokenCount": 2}}),
            end("STOP"),
        ]);
        assert_eq!(
            (read.log.usage().input, read.log.usage().output, read.log.unrecognised()),
            (0, 2, 1),
            "{odd}"
        );
        assert!(read.end.is_ok());
    }
    let nothing = read(&[
        json!({"usageMetadata": {"promptTokenCount": 3}}),
        json!({"usageMetadata": {"trafficType": "X"}}),
    ]);
    assert_eq!(nothing.log.usage().input, 3, "what counts nothing replaces nothing");
}

/// B-127, REQ-043, B-120.
#[test]
fn only_a_known_end_completes_a_reply() {
    assert_eq!(read(&[end("MAX_TOKENS")]).end.unwrap().stop_reason, StopReason::Length);
    let number = json!({"candidates": [{"finishReason": 2}]});
    assert_eq!(read(&[number]).end.unwrap().stop_reason, StopReason::Length);
    let failed = |reason: &str, kind: ErrorKind| {
        let error = read(&[parts(json!([{"text": "half"}])), end(reason)]).end.unwrap_err();
        assert_eq!((error.kind(), error.context().unwrap().code.as_deref()), (kind, Some(reason)));
        assert!(error.to_string().contains(reason), "{error}");
    };
    for reason in ["SAFETY", "RECITATION", "PROHIBITED_CONTENT", "SPII", "BLOCKLIST", "OTHER", "CHICKENS"] {
        failed(reason, ErrorKind::Api);
    }
    failed("MALFORMED_FUNCTION_CALL", ErrorKind::Network);
    failed("UNEXPECTED_TOOL_CALL", ErrorKind::Network);
    let cut = read(&[parts(json!([{"text": "half"}])), end("FINISH_REASON_UNSPECIFIED")]);
    assert_eq!(
        (cut.end.unwrap_err().kind(), cut.log.snapshot().text().as_str()),
        (ErrorKind::Network, "half")
    );
    let call = parts(json!([{"functionCall": {"name": "f"}}]));
    for word in ["FUNCTION_CALL", "CHICKENS"] {
        let done = read(&[call.clone(), end(word)]).end.unwrap();
        assert_eq!(done.stop_reason, StopReason::ToolUse, "{word}");
    }
    assert!(read(&[call.clone(), end("SAFETY")]).end.is_err());
    failed("FUNCTION_CALL", ErrorKind::Api);
    // The last word counts.
    let twice = read(&[parts(json!([{"text": "a"}])), end("STOP"), end("RECITATION")]);
    assert!(twice.end.unwrap_err().to_string().contains("RECITATION"));
}

/// B-128, REQ-120.
#[test]
fn a_refusal_is_an_error_with_the_vendors_explanation() {
    let why = |piece: Value| read(&[piece]).end.unwrap_err().context().unwrap().message.clone();
    assert_eq!(why(json!({"promptFeedback": {"blockReason": "SAFETY"}})), "the prompt was blocked (SAFETY)");
    let told =
        json!({"promptFeedback": {"blockReason": "MODEL_ARMOR", "blockReasonMessage": "A filter matched."}});
    assert_eq!(why(told), "the prompt was blocked (MODEL_ARMOR): A filter matched.");
    let call = json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "Malformed function call: f("}]});
    assert!(why(call).ends_with("(MALFORMED_FUNCTION_CALL): Malformed function call: f("));
    let rated = json!({"candidates": [{"finishReason": "SAFETY", "safetyRatings": [
        {"category": "HARM_A", "probability": "LOW"}, {}, {"category": "HARM_B", "blocked": true}]}]});
    assert!(why(rated).ends_with("(SAFETY): HARM_B"));
}

#[test]
fn a_piece_of_arguments_without_a_place_ends_the_reply() {
    let call = json!({"functionCall": {"name": "f", "willContinue": true, "partialArgs": [{"jsonPath": "a", "stringValue": "x"}]}});
    let error = read(&[parts(json!([call])), end("STOP")]).end.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Network);
}

/// The work is linear in the bytes, whatever they say.
#[test]
fn many_parts_in_one_piece_are_read_in_one_go() {
    let many = |part: Value, count| parts(Value::Array(vec![part; count]));
    let carried = content(&[many(json!({"odd": {"x": 1}}), MAX_REPLY_BLOCKS)]);
    assert_eq!(carried.len(), MAX_REPLY_BLOCKS);
    let call = json!({"functionCall": {"id": "s", "name": "f", "args": {}}});
    let read = read(&[many(call, MAX_REPLY_CALLS), end("STOP")]);
    let ids: BTreeSet<String> = read.end.unwrap().tool_calls().map(|c| c.id.as_str().to_owned()).collect();
    assert_eq!(ids.len(), MAX_REPLY_CALLS);
}

/// B-129.
#[test]
fn parts_that_only_the_vendor_understands_are_carried_as_they_are() {
    let code = json!({"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "eA=="});
    let picture = json!({"inlineData": {"mimeType": "image/png", "data": "aGk="}});
    let new = json!({"holo_gram": {"x": [1, {"y": null}]}});
    assert_eq!(
        content(&[parts(json!([{"text": "a"}, code, {"text": "b"}])), parts(json!([picture, new]))]),
        [
            Content::text("a"),
            Content::opaque("executableCode", code),
            Content::text("b"),
            Content::opaque("inlineData", picture),
            Content::opaque("holo_gram", new)
        ]
    );
}

#[test]
fn sources_come_once_and_at_the_end() {
    let sources = json!({"webSearchQueries": ["a"]});
    let piece = |text: &str| json!({"candidates": [{"content": {"parts": [{"text": text}]}, "groundingMetadata": sources, "citationMetadata": {}}]});
    assert_eq!(
        content(&[piece("a"), piece("b")]),
        [Content::text("ab"), Content::opaque("groundingMetadata", sources)]
    );
}

#[test]
fn the_last_text_has_the_sources() {
    let grounding = json!({
        "groundingChunks": [{"web": {"uri": "https://a", "title": "A"}}],
        "groundingSupports": [{"segment": {"startIndex": 4, "endIndex": 8}, "groundingChunkIndices": [0]}],
    });
    let last = json!({"candidates": [{"content": {"parts": [{"text": "ze."}]}, "groundingMetadata": grounding, "finishReason": "STOP"}]});
    let content = read(&[
        parts(json!([{"executableCode": {"code": "1", "language": "PYTHON"}}])),
        parts(json!([{"text": "Die Grö"}])),
        parts(json!([{"text": "ß"}])),
        last,
    ])
    .end
    .unwrap()
    .content;
    let Content::Text(text) = &content[1] else { panic!("{content:?}") };
    assert_eq!(text.text, "Die Größze.");
    assert_eq!(text.citations.len(), 1);
    assert_eq!(text.citations[0].cited_part(&text.text), Some("Grö"));
    assert_eq!(content[2], Content::opaque("groundingMetadata", grounding));
}

#[test]
fn what_is_not_known_is_counted() {
    let other = json!({"candidates": [{"index": 1, "content": {"parts": [{"text": "x"}]}}]});
    let read = read(&[json!({"odd": 1}), other, parts(json!([{"functionCall": {}}])), end("STOP")]);
    assert_eq!(read.log.unrecognised(), 3);
    assert_eq!(read.end.unwrap().text(), "");
}

#[test]
fn arguments_in_pieces_become_one_call() {
    let piece = |call: Value| parts(json!([{"functionCall": call}]));
    let read = read(&[
        parts(json!([{"functionCall": {"name": "f", "willContinue": true}, "thoughtSignature": "eA=="}])),
        piece(
            json!({"partialArgs": [{"jsonPath": "$.a", "stringValue": "x", "willContinue": true}], "willContinue": true}),
        ),
        piece(json!({"partialArgs": [{"jsonPath": "$.a", "stringValue": "y"}], "willContinue": true})),
        piece(json!({})),
        piece(json!({"name": "g", "args": {"k": 1}})),
        piece(json!({"name": "h", "willContinue": true})),
        end("STOP"),
    ]);
    let message = read.end.unwrap();
    let calls: Vec<String> =
        message.tool_calls().map(|c| format!("{} {}", c.name, c.arguments.json_text())).collect();
    assert_eq!(calls, [r#"f {"a":"xy"}"#, r#"g {"k":1}"#, "h {}"]);
}

/// D35.
#[test]
fn a_whole_body_is_read_as_a_stream_of_one_and_a_list_as_a_stream() {
    let one = json!({"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]});
    let list = json!([parts(json!([{"text": "h"}])), parts(json!([{"text": "i"}])), end("STOP")]);
    for body in [one, list] {
        let (mut decoder, mut log) = (Decoder::new(&request()), ReplyLog::new());
        let mut sink = |event: StreamEvent<'_>| log.push(&event);
        decoder.whole(&body.to_string(), &mut sink).unwrap();
        let completion = decoder.finish(&mut sink).unwrap();
        assert_eq!(log.finish("p", "m", &completion).text(), "hi", "{body}");
    }
    for broken in ["", "[", "{\"candidates\":", "[{\"error\":{\"code\":500,\"message\":\"x\"}}]"] {
        assert!(Decoder::new(&request()).whole(broken, &mut |_| {}).is_err(), "{broken}");
    }
}

#[test]
fn the_call_that_is_the_answer_is_shown_as_text() {
    let mut request = ModelRequest::new(ModelConfig::google("gemini-2.5-flash", "F", "k"), History::new());
    request.tools = vec![agent_core::ToolDefinition::new("t", "T", json!({"type": "object"}))].into();
    request.options.response_format = agent_core::ResponseFormat::JsonObject;
    let call = parts(json!([{"functionCall": {"name": "respond_json", "args": {"n": 1}}}]));
    let message = read_for(&request, &[call, end("STOP")]).end.unwrap();
    assert_eq!((message.text().as_str(), message.stop_reason), (r#"{"n":1}"#, StopReason::Stop));
}

#[test]
fn a_finish_reason_in_the_middle_does_not_end_the_reply_and_the_last_one_counts() {
    let counted = |mut piece: Value, output: u64| {
        piece["usageMetadata"] = json!({"promptTokenCount": 1, "candidatesTokenCount": output});
        piece
    };
    let message = |last: &str| {
        let pieces = [
            counted(parts(json!([{"text": "a"}])), 1),
            counted(end("STOP"), 2),
            parts(json!([{"text": "b"}])),
            counted(end(last), 7),
        ];
        let mut decoder = Decoder::new(&request());
        for piece in &pieces {
            let frame = Frame { event: None, data: &piece.to_string() };
            assert_eq!(decoder.push(frame, &mut |_| {}).unwrap(), Flow::More, "{piece}");
            assert!(!decoder.is_complete(), "{piece}");
        }
        read(&pieces).end
    };
    let whole = message("STOP").unwrap();
    assert_eq!((whole.text().as_str(), whole.stop_reason, whole.usage.output), ("ab", StopReason::Stop, 7));
    assert_eq!(message("MAX_TOKENS").unwrap().stop_reason, StopReason::Length);
    assert_eq!(message("SAFETY").unwrap_err().kind(), ErrorKind::Api);
}

#[test]
fn an_error_without_a_wrapper_is_an_error_wherever_it_stands() {
    let error = json!({"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"});
    for before in
        [vec![], vec![parts(json!([{"text": "a"}]))], vec![parts(json!([{"text": "a"}])), end("STOP")]]
    {
        let pieces: Vec<Value> = before.into_iter().chain([error.clone()]).collect();
        let failed = read(&pieces).end.unwrap_err();
        assert_eq!((failed.kind(), failed.status()), (ErrorKind::Network, Some(503)));
        assert!(failed.to_string().contains("overloaded"), "{failed}");
    }
}

/// The vendor's SDK sends the same request again with the token.
#[test]
fn a_reply_at_the_limit_of_one_request_is_paused_and_keeps_the_token_that_continues_it() {
    let token = |reason: Value, token: &str| json!({"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": reason, "continuationToken": token}]});
    let tokens = |message: &AssistantMessage| -> Vec<Value> {
        let opaque = message.content.iter().filter_map(|block| match block {
            Content::Opaque(opaque) if opaque.kind == "continuationToken" => Some(opaque.data.clone()),
            _ => None,
        });
        opaque.collect()
    };
    // An earlier token is a point from which a stream that broke off could continue.
    let paused =
        read(&[token(json!(null), "Zmlyc3Q="), token(json!("CONTINUATION"), "bGFzdA==")]).end.unwrap();
    assert_eq!((paused.stop_reason, paused.text().as_str()), (StopReason::Paused, "aa"));
    assert_eq!(tokens(&paused), [json!("bGFzdA==")]);
    let early = read(&[token(json!(null), "Zmlyc3Q="), end("CONTINUATION")]).end.unwrap();
    assert_eq!((early.stop_reason, tokens(&early)), (StopReason::Paused, vec![json!("Zmlyc3Q=")]));
    let ended = read(&[token(json!(null), "Zmlyc3Q="), end("STOP")]).end.unwrap();
    assert_eq!((ended.stop_reason, tokens(&ended)), (StopReason::Stop, vec![]), "it needs no continuation");
    let without = read(&[parts(json!([{"text": "a"}])), end("CONTINUATION")]).end.unwrap();
    assert_eq!(without.stop_reason, StopReason::Length, "it cannot be continued");
    let cut = read(&[token(json!(null), "Zmlyc3Q=")]).end.unwrap_err();
    assert_eq!(cut.kind(), ErrorKind::Network);
}

fn stream(pieces: &[&[u8]]) -> (Vec<OwnedStreamEvent>, Result<Completion, String>) {
    let mut framer = SseDecoder::new(1 << 20).with_bare_json();
    let (mut decoder, mut events) = (Decoder::new(&request()), Vec::new());
    let mut sink = |event: StreamEvent<'_>| events.push(OwnedStreamEvent::from(event));
    let mut reader = |frame: Frame<'_>| decoder.push(frame, &mut sink);
    let mut refused = false;
    for piece in pieces {
        refused |= framer.feed(piece, &mut reader).is_err();
    }
    refused |= framer.end(&mut reader).is_err();
    let end = decoder.finish(&mut sink).map_err(|e| e.to_string());
    (events, if refused { Err("refused".into()) } else { end })
}

proptest! {
    /// B-121.
    #[test]
    fn any_split_gives_the_same_events(cuts in prop::collection::vec(0.0_f64..1.0, 0..8)) {
        let half = |text: &str| format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}]}}}}]}}"#);
        let frames = [
            parts(json!([{"text": "Grüße 🎉", "thought": true, "thoughtSignature": "eA=="}])).to_string(),
            half("\\ud83c"),
            half("\\udf89"),
            parts(json!([{"functionCall": {"name": "f", "args": {"ü": "\"\\ "}}}, {"executableCode": {"code": "1"}}])).to_string(),
            end("STOP").to_string(),
        ];
        let recorded: String = frames.iter().map(|f| format!("data: {f}\r\n\r\n")).collect();
        let bytes = recorded.as_bytes();
        let mut at: Vec<usize> = cuts.iter().map(|c| (c * bytes.len() as f64) as usize).collect();
        at.sort_unstable();
        let (mut pieces, mut from) = (Vec::new(), 0);
        for to in at.into_iter().chain([bytes.len()]) {
            pieces.push(&bytes[from..to]);
            from = to;
        }
        let whole = stream(&[bytes]);
        prop_assert!(whole.1.is_ok());
        prop_assert_eq!(stream(&pieces), whole);
    }

    #[test]
    fn any_bytes_are_survived(bytes: Vec<u8>, text in "[\\[\\]{}\":,a-z0-9\\\\ ]{0,60}") {
        let _ = stream(&[&bytes]);
        let _ = stream(&[format!("data: {text}\n\n{text}\n\n").as_bytes()]);
        for member in ["candidates", "usageMetadata", "promptFeedback", "error"] {
            let _ = stream(&[format!("data: {{\"{member}\":{text}}}\n\n").as_bytes()]);
        }
        for member in ["text", "functionCall", "thought", "odd"] {
            let _ = stream(&[format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"{member}\":{text}}}]}}}}]}}\n\n").as_bytes()]);
        }
    }
}
