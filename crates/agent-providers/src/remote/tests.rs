use agent_core::{
    AgentMessage, CancellationToken, Completion, Content, ErrorContext, ErrorKind, EventSink, History,
    Message, ModelConfig, ModelRequest, OwnedStreamEvent, ProviderError, ReplyLog, StopReason, StreamEvent,
    StreamProvider as _, ThinkingLevel, ToolChoice, ToolDefinition, Usage,
};
use proptest::prelude::*;
use serde_json::json;
use std::time::Duration;

use super::{Remote, RemoteProvider, RemoteRequest, decode::Decoder, end_frame, event_frame, refusal};
use crate::lines::Cut;
use crate::protocol::{Decode, Flow, Protocol, Rejection};
use crate::sse::SseDecoder;

fn remote() -> Remote {
    Remote { base_url: "http://127.0.0.1:1".into(), token: "sekret-token".into() }
}

fn asked() -> ModelRequest {
    let mut history = History::new();
    history.push(AgentMessage::user("look")).unwrap();
    let mut reply = agent_core::AssistantMessage::new("anthropic", "claude", StopReason::ToolUse);
    reply.content.push(Content::thinking("hm", Some("sig".into())));
    reply.content.push(Content::tool_call("c1", "look", json!({"b": 1, "a": [2.5]})));
    let result =
        agent_core::ToolResultMessage::new("c1".into(), "look".into(), vec![Content::text("ö \u{1f389}")]);
    let entry = |m: Message| agent_core::Entry::from(AgentMessage::from(m));
    history.push_exchange(entry(reply.into()), vec![entry(result.into())]).unwrap();
    history.push(AgentMessage::extension("note", json!(1))).unwrap();
    let model =
        ModelConfig::anthropic("claude", "Claude", "sk-do-not-send").with_header("x-secret", "do-not-send");
    let mut request = ModelRequest::new(model, history);
    request.system_prompt = "Be brief.".into();
    request.tools = vec![ToolDefinition::new("look", "Looks.", json!({"type": "object"}))].into();
    request.options.thinking_level = ThinkingLevel::High;
    request.options.max_tokens = Some(77);
    request.options.temperature = Some(0.5);
    request.session_id = Some("s".into());
    request.options.tool_choice = ToolChoice::Tool("look".into());
    request.options.stop_sequences = vec!["END".into()];
    request
}

/// Seed 001.
#[test]
fn what_is_sent_gives_the_same_request_on_the_other_side_and_holds_no_key() {
    let request = asked();
    let sent = remote().encode(&request).unwrap();
    assert_eq!(sent.url.as_str(), "http://127.0.0.1:1/v1/stream");
    assert!(sent.headers["authorization"].is_sensitive());
    let text = String::from_utf8(sent.body.clone()).unwrap();
    assert!(!text.contains("do-not-send") && !text.contains("sekret"), "{text}");

    let read = RemoteRequest::from_json(&sent.body).unwrap();
    let model = ModelConfig::anthropic("claude", "Claude", "sk-of-the-server");
    let config = read.into_config(model.clone());
    let expected: Vec<Message> = request.messages().cloned().collect();
    assert_eq!(config.messages().cloned().collect::<Vec<_>>(), expected);
    assert_eq!(
        (&*config.system_prompt, config.tools.definitions()),
        ("Be brief.", request.tools.definitions())
    );
    assert_eq!(
        (config.options.thinking_level, config.options.max_tokens, config.options.temperature),
        (ThinkingLevel::High, Some(77), Some(0.5))
    );
    assert_eq!(
        (config.session_id, config.options.tool_choice.clone()),
        (request.session_id.clone(), request.options.tool_choice.clone())
    );
    assert_eq!(config.options.stop_sequences, request.options.stop_sequences);
    assert_eq!(config.model.key_text(), "sk-of-the-server");
}

/// A change of these bytes needs another [`VERSION`](super::wire::VERSION) and another sample.
#[test]
fn the_messages_of_version_2_are_those_of_the_samples() {
    let body = String::from_utf8(remote().encode(&asked()).unwrap().body).unwrap();
    assert_eq!(body, include_str!("samples/request-v2.json").trim_end());

    let reply = include_str!("samples/reply-v2.sse");
    let (events, end) = read(reply.as_bytes(), &[]);
    let names: Vec<String> = events.iter().map(|event| format!("{event:?}")).collect();
    let names: Vec<&str> = names.iter().filter_map(|name| name.split([' ', '{']).next()).collect();
    let expected = [
        "Start",
        "ThinkingStart",
        "ThinkingDelta",
        "ThinkingSignature",
        "BlockEnd",
        "TextStart",
        "TextDelta",
        "BlockEnd",
        "ToolCallStart",
        "ToolCallDelta",
        "BlockEnd",
        "Usage",
    ];
    assert_eq!(names, expected);
    assert_eq!(end.as_ref().unwrap().stop_reason, StopReason::ToolUse);
    assert_eq!(String::from_utf8(sent(&events, &end)).unwrap(), reply);
}

trait KeyText {
    fn key_text(&self) -> &str;
}

impl KeyText for ModelConfig {
    fn key_text(&self) -> &str {
        self.api_key.as_ref().map_or("", |k| k.expose())
    }
}

#[test]
fn a_later_request_begins_with_the_messages_of_the_earlier_one() {
    let mut request = asked();
    let first = remote().encode(&request).unwrap().body;
    request.history.push(AgentMessage::user("more")).unwrap();
    let second = remote().encode(&request).unwrap().body;
    let shared = first.len() - 2;
    assert_eq!(first[..shared], second[..shared]);
}

#[test]
fn a_body_that_is_no_request_is_refused_in_one_line() {
    #[track_caller]
    fn check(body: &str, expect: &str) {
        let said = RemoteRequest::from_json(body.as_bytes()).unwrap_err();
        assert!(said.contains(expect) && !said.contains('\n'), "{said}");
    }
    check("", "no request");
    check("[]", "no request");
    check(r#"{"version":1,"provider":"p","model":"m","messages":[]}"#, "version 1");
    check(r#"{"version":2,"provider":"p","messages":[]}"#, "model");
}

/// Everything that the decoder says of these bytes, cut at `cuts`.
fn read(bytes: &[u8], cuts: &[usize]) -> (Vec<OwnedStreamEvent>, Result<Completion, ProviderError>) {
    let (mut decoder, mut framer, mut events) = (Decoder::default(), SseDecoder::new(1 << 20), Vec::new());
    let mut at = 0;
    let mut ends: Vec<usize> = cuts.iter().map(|c| c % (bytes.len() + 1)).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    let mut sink = |event: StreamEvent<'_>| events.push(OwnedStreamEvent::from(event));
    let sink: &mut EventSink<'_> = &mut sink;
    let mut failed = None;
    for end in ends {
        match framer.feed(&bytes[at..end], &mut |frame| decoder.push(frame, sink)) {
            Ok(Flow::Done) => break,
            Ok(Flow::More) => {}
            Err(Cut::Reader(error)) => {
                failed = Some(error);
                break;
            }
            Err(Cut::TooLong(_)) => panic!("too long"),
        }
        at = end;
    }
    let end = failed.map_or_else(|| decoder.finish(sink), Err);
    (events, end)
}

fn sent(events: &[OwnedStreamEvent], end: &Result<Completion, ProviderError>) -> Vec<u8> {
    let mut out = Vec::new();
    events.iter().for_each(|event| event_frame(&mut out, borrowed(event)));
    end_frame(&mut out, end);
    out
}

fn borrowed(event: &OwnedStreamEvent) -> StreamEvent<'_> {
    use OwnedStreamEvent as O;
    use StreamEvent as E;
    match event {
        O::Start { response_id, model } => {
            E::Start { response_id: response_id.as_deref(), model: model.as_deref() }
        }
        O::TextStart { index } => E::TextStart { index: *index },
        O::TextDelta { index, delta } => E::TextDelta { index: *index, delta },
        O::TextSignature { index, delta } => E::TextSignature { index: *index, delta },
        O::ThinkingStart { index } => E::ThinkingStart { index: *index },
        O::ThinkingDelta { index, delta } => E::ThinkingDelta { index: *index, delta },
        O::ThinkingSignature { index, delta } => E::ThinkingSignature { index: *index, delta },
        O::RedactedThinking { index, data } => E::RedactedThinking { index: *index, data },
        O::ToolCallStart { index, id, name } => E::ToolCallStart { index: *index, id, name },
        O::ToolCallDelta { index, delta } => E::ToolCallDelta { index: *index, delta },
        O::ToolCallSignature { index, delta } => E::ToolCallSignature { index: *index, delta },
        O::Opaque { index, kind, data } => E::Opaque { index: *index, kind, data },
        O::BlockEnd { index } => E::BlockEnd { index: *index },
        O::Usage { usage } => E::Usage(*usage),
        O::Unrecognised { name } => E::Unrecognised { name },
        other => panic!("{other:?}"),
    }
}

fn any_event() -> impl Strategy<Value = OwnedStreamEvent> {
    use OwnedStreamEvent as O;
    let text = "[a-z\"\\\\\n\u{0}é\u{2028}🎉]{0,8}";
    let value =
        prop_oneof![Just(json!({"type": "x", "index": 9})), Just(json!("text")), Just(json!([1, null]))];
    prop_oneof![
        (proptest::option::of(text), proptest::option::of(text))
            .prop_map(|(response_id, model)| O::Start { response_id, model }),
        (0_u32..3).prop_map(|index| O::TextStart { index }),
        (0_u32..3, text).prop_map(|(index, delta)| O::TextDelta { index, delta }),
        (0_u32..3, text).prop_map(|(index, delta)| O::TextDelta { index, delta }),
        (0_u32..3, text).prop_map(|(index, delta)| O::TextSignature { index, delta }),
        (0_u32..3).prop_map(|index| O::ThinkingStart { index }),
        (0_u32..3, text).prop_map(|(index, delta)| O::ThinkingDelta { index, delta }),
        (0_u32..3, text).prop_map(|(index, delta)| O::ThinkingSignature { index, delta }),
        (0_u32..3, text).prop_map(|(index, data)| O::RedactedThinking { index, data }),
        (0_u32..3, text, text).prop_map(|(index, id, name)| O::ToolCallStart { index, id, name }),
        (0_u32..3, text).prop_map(|(index, delta)| O::ToolCallDelta { index, delta }),
        (0_u32..3, text).prop_map(|(index, delta)| O::ToolCallSignature { index, delta }),
        (0_u32..3, text, value).prop_map(|(index, kind, data)| O::Opaque { index, kind, data }),
        (0_u32..3).prop_map(|index| O::BlockEnd { index }),
        (0_u64..9, 0_u64..9).prop_map(|(i, o)| O::Usage { usage: Usage::new(i, o, 3, 4).with_reasoning(1) }),
        text.prop_map(|name| O::Unrecognised { name }),
    ]
}

proptest! {
    /// B-189: pieces only, and the same message.
    #[test]
    fn any_reply_is_said_again_as_it_was_however_the_bytes_are_cut(
        events in proptest::collection::vec(any_event(), 0..20),
        cuts in proptest::collection::vec(any::<usize>(), 0..6),
    ) {
        let completion = Completion::new(StopReason::ToolUse).with_vendor_reason("tool_use").with_stop_sequence(Some("x".into()));
        let (heard, end) = read(&sent(&events, &Ok(completion.clone())), &cuts);
        prop_assert_eq!(&heard, &events);
        prop_assert_eq!(end.unwrap(), completion.clone());
        let fold = |events: &[OwnedStreamEvent]| {
            let mut log = ReplyLog::new();
            events.iter().for_each(|e| log.push(&borrowed(e)));
            log.finish("p", "m", &completion)
        };
        prop_assert_eq!(fold(&heard), fold(&events));
    }

    #[test]
    fn no_bytes_make_it_panic_and_every_stream_has_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (_, end) = read(&bytes, &[3, 50]);
        prop_assert!(end.is_err());
    }
}

/// B-189.
#[test]
fn a_long_reply_costs_as_many_bytes_as_it_has() {
    let events: Vec<_> =
        (0..2_000).map(|_| OwnedStreamEvent::TextDelta { index: 0, delta: "word ".into() }).collect();
    let bytes = sent(&events, &Ok(Completion::new(StopReason::Stop)));
    assert!(bytes.len() < 2_000 * 70, "{} bytes: a piece holds nothing of the earlier ones", bytes.len());
}

#[test]
fn an_error_keeps_what_was_known_of_it() {
    let mut context = ErrorContext::new("slow down")
        .with_target("anthropic", "claude")
        .with_status(429)
        .with_advice("wait");
    context.request_id = Some("req_1".into());
    context.retry_after = Some(Duration::from_millis(1_500));
    context.code = Some("rate_limit_error".into());
    let (_, end) = read(&sent(&[], &Err(ProviderError::new(ErrorKind::RateLimited, context))), &[]);
    let error = end.unwrap_err();
    assert_eq!(
        (error.kind(), error.status(), error.request_id()),
        (ErrorKind::RateLimited, Some(429), Some("req_1"))
    );
    assert_eq!(error.retry_after(), Some(Duration::from_millis(1_500)));
    let context = error.context().unwrap();
    assert_eq!(
        (context.provider.as_deref(), context.code.as_deref(), context.advice.as_deref()),
        (Some("anthropic"), Some("rate_limit_error"), Some("wait"))
    );
    let (_, end) = read(&sent(&[], &Err(ProviderError::Cancelled)), &[]);
    assert_eq!(
        end.unwrap_err().kind(),
        ErrorKind::Network,
        "the other side's end is not an abort of this one"
    );
}

#[test]
fn a_stream_without_its_last_frame_is_an_error_that_may_be_tried_again() {
    let whole = sent(
        &[OwnedStreamEvent::TextDelta { index: 0, delta: "hel".into() }],
        &Ok(Completion::new(StopReason::Stop)),
    );
    let cut = whole.len() - 30;
    let (heard, end) = read(&whole[..cut], &[]);
    assert_eq!(heard.len(), 1);
    assert!(end.unwrap_err().is_retryable());
}

#[test]
fn a_refusal_of_the_server_says_what_to_do_here() {
    #[track_caller]
    fn check(status: u16, body: &str, kind: ErrorKind, advice: &str) {
        let error =
            remote().rejected(&asked(), &Rejection { status, body: body.as_bytes(), error_type: None });
        assert_eq!(error.kind(), kind);
        let said = error.context().unwrap().advice.clone().unwrap_or_default();
        assert!(said.contains(advice), "{said}");
    }
    check(401, &refusal("unauthorized", "no valid token"), ErrorKind::Auth, "token for the Looptree server");
    check(404, &refusal("unknown_model", "no model"), ErrorKind::ModelNotFound, "has the model \"claude\"");
    check(503, &refusal("busy", "too many streams"), ErrorKind::Network, "");
}

#[tokio::test]
async fn no_debug_form_and_no_error_holds_the_token() {
    let provider = RemoteProvider::new("http://127.0.0.1:1", "sekret-token");
    assert!(!format!("{provider:?}").contains("sekret"));
    let error = provider.stream(&asked(), &mut |_| {}, &CancellationToken::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Network);
    assert!(!format!("{error:?} {error}").contains("sekret"));
    let nowhere = RemoteProvider::new("not an address", "t").check(&ModelConfig::ollama("m")).unwrap_err();
    assert!(nowhere.to_string().contains("base_url"), "{nowhere}");
}
