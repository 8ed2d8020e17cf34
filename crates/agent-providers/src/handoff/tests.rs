#![allow(clippy::needless_pass_by_value, reason = "expectations are written where they are used")]

use std::collections::BTreeSet;

use agent_core::{
    AgentMessage, ApiProtocol, Citing, DocumentContent, History, MediaContent, ModelConfig,
    SearchResultContent, StopReason,
};
use proptest::prelude::*;

use super::*;

fn request(images: bool) -> ModelRequest {
    ModelRequest::new(ModelConfig::anthropic("claude", "Claude", "k").with_images(images), History::new())
}

fn reply(provider: &str, model: &str, api: Option<ApiProtocol>) -> AssistantMessage {
    let mut reply = AssistantMessage::new(provider, model, StopReason::Stop);
    reply.api = api;
    reply
}

fn own() -> AssistantMessage {
    reply("anthropic", "claude", Some(ApiProtocol::AnthropicMessages))
}

fn foreign() -> AssistantMessage {
    reply("openai", "gpt", Some(ApiProtocol::OpenAiCompletions))
}

const RULE: IdRule = IdRule::word(64);

#[test]
fn a_reply_is_ones_own_only_when_provider_protocol_and_model_agree() {
    let request = request(true);
    let rules = Handoff::new(&request, RULE);
    let api = Some(ApiProtocol::AnthropicMessages);
    assert!(rules.same_model(&own()));
    for other in [
        reply("bedrock", "claude", api),
        reply("anthropic", "claude-2", api),
        reply("anthropic", "claude", Some(ApiProtocol::OpenAiCompletions)),
        reply("anthropic", "claude", None),
    ] {
        assert!(!rules.same_model(&other), "{other:?}");
    }
}

#[track_caller]
fn check_id(id: &str, expect: &str) {
    let request = request(true);
    assert_eq!(Handoff::new(&request, RULE).call_id(&foreign(), &ToolCallId::from(id)), expect);
}

#[test]
fn an_acceptable_id_stays_and_any_other_is_rewritten() {
    check_id("toolu_01A-b", "toolu_01A-b");
    check_id(&"x".repeat(64), &"x".repeat(64));
    let request = request(true);
    let rules = Handoff::new(&request, RULE);
    for id in ["call|1", "call.1", "", "ä", &"x".repeat(65)] {
        let id = ToolCallId::from(id);
        assert!(matches!(rules.call_id(&foreign(), &id), Cow::Owned(_)), "{id}");
    }
}

#[test]
fn an_id_goes_back_to_the_model_that_wrote_it_as_it_came() {
    let request = request(true);
    for rule in [RULE, IdRule::word(40), IdRule { max: 14, allow: |c| c.is_ascii_alphanumeric() }] {
        let rules = Handoff::new(&request, rule);
        for id in ["functions.weather:0", "resp_1:call_0", "call|1", "ä", " ", &"x".repeat(200)] {
            assert_eq!(rules.call_id(&own(), &ToolCallId::from(id)), id);
        }
        // No model wrote these, so the rules apply.
        for made in ["", "call_12_0", "call_0123456789ab"] {
            let made = ToolCallId::from(made);
            assert!(rule.accepts(&rules.call_id(&own(), &made)), "{made}");
        }
    }
}

/// B-134.
#[test]
fn a_long_id_with_a_bar_becomes_a_word_of_at_most_64_characters() {
    let request = request(true);
    let id = ToolCallId::from(format!("call_abc|{}", "fc+/=".repeat(90)));
    let out = Handoff::new(&request, RULE).call_id(&foreign(), &id).into_owned();
    assert_eq!(out.len(), 64);
    assert!(out.starts_with("call_abc_fc___"), "{out}");
    assert!(RULE.accepts(&out));
}

/// B-135.
#[test]
fn ids_that_normalise_alike_stay_distinct() {
    let request = request(true);
    let rules = Handoff::new(&request, RULE);
    let ids = ["call|1", "call.1", "call_1", "call 1", "call:1"];
    let out: BTreeSet<String> =
        ids.iter().map(|id| rules.call_id(&foreign(), &ToolCallId::from(*id)).into_owned()).collect();
    assert_eq!(out.len(), ids.len());
}

proptest! {
    /// B-134, B-135.
    #[test]
    fn every_id_is_rewritten_to_an_acceptable_one_that_is_its_own(a in ".{0,90}", b in ".{0,90}") {
        let request = request(true);
        for rule in [RULE, IdRule::word(40), IdRule { max: 14, allow: |c| c.is_ascii_alphanumeric() }] {
            let rules = Handoff::new(&request, rule);
            let (a, b) = (ToolCallId::from(a.as_str()), ToolCallId::from(b.as_str()));
            let other = foreign();
            let (x, y) = (rules.call_id(&other, &a), rules.call_id(&other, &b));
            prop_assert!(rule.accepts(&x), "{x}");
            prop_assert_eq!(rules.call_id(&other, &a), x.clone());
            prop_assert_eq!(a == b, x == y);
        }
    }
}

#[track_caller]
fn check_thinking(who: &AssistantMessage, block: &Content, as_text: bool, expect: ThinkingOut) {
    let mut request = request(true);
    request.options.foreign_thinking_as_text = as_text;
    let Content::Thinking(block) = block else { panic!("a thinking block") };
    assert_eq!(Handoff::new(&request, RULE).thinking(who, block), expect);
}

/// B-131, B-132, B-133.
#[test]
fn thinking_stays_with_its_model_and_others_see_none_or_text() {
    let signed = Content::thinking("hm", Some("sig".into()));
    let hidden = Content::thinking("", Some("sig".into()));
    let blank = Content::thinking(" \n", None);
    let redacted = Content::redacted_thinking("abc");
    check_thinking(&own(), &signed, false, ThinkingOut::Keep);
    check_thinking(&own(), &hidden, false, ThinkingOut::Keep);
    check_thinking(&own(), &redacted, false, ThinkingOut::Keep);
    check_thinking(&own(), &blank, false, ThinkingOut::Drop);
    check_thinking(&foreign(), &signed, false, ThinkingOut::Drop);
    check_thinking(&foreign(), &signed, true, ThinkingOut::AsText("hm".into()));
    check_thinking(&foreign(), &hidden, true, ThinkingOut::Drop);
    check_thinking(&foreign(), &redacted, true, ThinkingOut::Drop);
    check_thinking(&foreign(), &blank, true, ThinkingOut::Drop);
}

/// B-132.
#[test]
fn signatures_and_opaque_blocks_never_leave_their_model() {
    let request = request(true);
    let rules = Handoff::new(&request, RULE);
    assert_eq!(rules.signature(&own(), Some("s")), Some("s"));
    assert_eq!(rules.signature(&foreign(), Some("s")), None);
    let Content::Opaque(block) = Content::opaque("server_tool_use", serde_json::json!({"a": 1})) else {
        panic!()
    };
    assert_eq!(rules.opaque(&own(), &block), Some(&block.data));
    assert_eq!(rules.opaque(&foreign(), &block), None);
}

/// B-140, B-142.
#[test]
fn pictures_become_text_for_a_model_without_eyes_and_never_stand_alone() {
    let (seeing, blind) = (request(true), request(false));
    let picture = ImageContent::Url { url: "https://x/y.png".into() };
    assert_eq!(Handoff::new(&seeing, RULE).image(&picture), ImageOut::Keep);
    assert_eq!(Handoff::new(&blind, RULE).image(&picture), ImageOut::Text(IMAGE_NOT_SHOWN.into()));

    let only = [Content::image_url("https://x/y.png"), Content::text("  ")];
    let both = [Content::image_url("https://x/y.png"), Content::text("a cat")];
    let check = |request, content: &[Content], expect| {
        assert_eq!(Handoff::new(request, RULE).result_note(content), expect);
    };
    check(&seeing, &only, Some(IMAGE_ATTACHED));
    check(&seeing, &both, None);
    check(&blind, &only, None);
    check(&blind, &[], Some(NO_OUTPUT));
    check(&seeing, &[Content::text("")], Some(NO_OUTPUT));
}

/// B-139.
#[test]
fn failed_replies_and_notes_are_shown_to_nobody() {
    let mut history = History::new();
    history.push(AgentMessage::user("hi")).unwrap();
    history.push(AgentMessage::extension("note", serde_json::json!(1))).unwrap();
    let failed = AssistantMessage::new("anthropic", "claude", StopReason::Error);
    history.push_failed(AgentMessage::from(agent_core::Message::from(failed)).into()).unwrap();
    let shown: Vec<bool> = history.units().map(|u| Handoff::shows(u)).collect();
    assert_eq!(shown, [true, false, false]);
}

#[test]
fn the_wire_key_differs_in_everything_the_bytes_depend_on() {
    let base = request(true);
    let mut as_text = base.clone();
    as_text.options.foreign_thinking_as_text = true;
    let other = ModelRequest::new(
        ModelConfig::anthropic("claude-2", "Claude", "k").with_images(true),
        History::new(),
    );
    let keys = [
        wire_key(&base, &[]),
        wire_key(&as_text, &[]),
        wire_key(&other, &[]),
        wire_key(&request(false), &[]),
        wire_key(&base, &["x"]),
    ];
    for (i, a) in keys.iter().enumerate() {
        assert!(keys.iter().skip(i + 1).all(|b| a != b), "{i}");
    }
    assert_eq!(wire_key(&base, &["x"]), wire_key(&request(true), &["x"]));
}

/// One document, search result and recording of each form.
pub(crate) fn files() -> Vec<Content> {
    let base64 = |mime_type: &str| FileSource::Base64 { data: "QUJD".into(), mime_type: mime_type.into() };
    let url = FileSource::Url { url: "https://a/b.pdf".into(), mime_type: None };
    vec![
        Content::document(DocumentContent::pdf("QUJD").with_title("a.pdf").with_citing(Citing::On)),
        Content::document(DocumentContent::text("a text").with_title("notes").with_context("old")),
        Content::document(DocumentContent::new(url)),
        Content::document(DocumentContent::new(FileSource::Uploaded { file_id: "file-1".into() })),
        Content::search_result(SearchResultContent::new("https://a", "A", ["one", "two"])),
        Content::Audio(MediaContent::new(base64("audio/wav"))),
        Content::Video(MediaContent::new(base64("video/mp4"))),
    ]
}

#[test]
fn a_file_that_cannot_be_sent_becomes_a_text() {
    let texts: Vec<String> = files().iter().map(|file| file_text(file).unwrap().into_owned()).collect();
    assert_eq!(
        texts,
        [
            "[document left out: a.pdf; this API does not take it]",
            "notes\n\na text",
            "[document left out: this API does not take it]",
            "[document left out: this API does not take it]",
            "A (https://a)\n\none\n\ntwo",
            "[sound left out: this API does not take it]",
            "[film left out: this API does not take it]",
        ]
    );
}
