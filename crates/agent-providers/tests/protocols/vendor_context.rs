//! Conversations that the vendor's servers shorten: the exact members of the body, a typed error before the request elsewhere,
//! and whole runs in which the vendor's summary is sent back as it came.

use agent_core::model::{ClearResults, VendorContext, VendorContextError};
use agent_core::{BasicAgent, Content, Message, ModelRequest, ProviderError};
use agent_providers::ProviderRegistry;
use serde_json::{Value, json};

use crate::eight::{ANTHROPIC, AZURE, EVERY, RESPONSES, Said, Vendor};
use crate::support::{Act, Server, call, hello, piece, sse};

fn everything() -> VendorContext {
    let clear = ClearResults::at(30_000).keeping(5).with_at_least(4_000).except("memory");
    VendorContext::compacting_at(60_000).with_instructions("Keep names.").with_clearing(clear)
}

async fn asked(
    vendor: Vendor,
    context: VendorContext,
) -> (Option<(Value, String)>, Result<(), ProviderError>) {
    let server = Server::start(vec![vendor.answer(&Said::text("done"))]).await;
    let mut request: ModelRequest = hello(vendor.at(&server.url()));
    request.options.vendor_context = Some(context);
    let end = call(&ProviderRegistry::default(), &request).await.end.map(drop);
    let sent = server.asked().first().map(|asked| (asked.json(), asked.headers.to_ascii_lowercase()));
    (sent, end)
}

#[tokio::test]
async fn anthropic_gets_edits_and_their_betas() {
    let (sent, end) = asked(ANTHROPIC, everything()).await;
    end.unwrap();
    let (body, headers) = sent.unwrap();
    let tokens = |value: u64| json!({"type": "input_tokens", "value": value});
    let clear = json!({"type": "clear_tool_uses_20250919", "trigger": tokens(30_000),
        "keep": {"type": "tool_uses", "value": 5}, "clear_at_least": tokens(4_000), "exclude_tools": ["memory"]});
    let compact =
        json!({"type": "compact_20260112", "trigger": tokens(60_000), "instructions": "Keep names."});
    assert_eq!(body["context_management"], json!({"edits": [clear, compact]}));
    assert!(
        headers.contains("compact-2026-01-12") && headers.contains("context-management-2025-06-27"),
        "{headers}"
    );

    let (sent, end) = asked(ANTHROPIC, VendorContext::clearing(ClearResults::at(30_000))).await;
    end.unwrap();
    let (body, headers) = sent.unwrap();
    assert_eq!(body["context_management"]["edits"].as_array().map(Vec::len), Some(1));
    assert!(!headers.contains("compact-2026-01-12"), "{headers}");

    // Instructions alone shorten nothing.
    let (sent, end) = asked(ANTHROPIC, VendorContext::default().with_instructions("Keep names.")).await;
    end.unwrap();
    assert_eq!(sent.unwrap().0.get("context_management"), None);
}

#[tokio::test]
async fn responses_gets_the_threshold() {
    for vendor in [RESPONSES, AZURE] {
        let (sent, end) = asked(vendor, VendorContext::compacting_at(60_000)).await;
        end.unwrap();
        let expected = json!([{"type": "compaction", "compact_threshold": 60_000}]);
        assert_eq!(sent.unwrap().0["context_management"], expected, "{}", vendor.name);
    }
}

#[tokio::test]
async fn what_a_protocol_lacks_is_an_error_before_the_request() {
    let clear = || VendorContext::clearing(ClearResults::at(30_000));
    let mut table = vec![
        (RESPONSES, clear(), "clear_results"),
        (RESPONSES, everything(), "instructions"),
        (AZURE, VendorContext::compacting_at(9).with_instructions("Keep names."), "instructions"),
    ];
    for vendor in EVERY {
        if ![ANTHROPIC, RESPONSES, AZURE].contains(&vendor) {
            table.push((vendor, VendorContext::compacting_at(60_000), "compact_at"));
            table.push((vendor, clear(), "clear_results"));
        }
    }
    for (vendor, context, setting) in table {
        let (sent, end) = asked(vendor, context).await;
        assert!(sent.is_none(), "{}: it was sent", vendor.name);
        let error = end.unwrap_err();
        let source = error.context().and_then(|c| c.source.as_ref()).and_then(|s| s.downcast_ref());
        let expected = VendorContextError::Protocol { protocol: vendor.api, setting };
        assert_eq!(source, Some(&expected), "{}: {error}", vendor.name);
        assert_eq!(error.context().unwrap().advice.as_deref(), Some(expected.advice()));
    }
    for (vendor, context) in [
        (ANTHROPIC, VendorContext::compacting_at(0)),
        (RESPONSES, VendorContext::compacting_at(0)),
        (ANTHROPIC, VendorContext::clearing(ClearResults::at(0))),
    ] {
        let (sent, end) = asked(vendor, context).await;
        let error = end.unwrap_err();
        let source = error.context().and_then(|c| c.source.as_ref()).and_then(|s| s.downcast_ref());
        assert_eq!((sent.is_none(), source), (true, Some(&VendorContextError::Zero)), "{}", vendor.name);
    }
}

fn events(events: &[Value]) -> Vec<Act> {
    let named = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    vec![sse(), piece(&events.iter().map(named).collect::<String>()), Act::End]
}

/// A reply that begins with the vendor's summary. Its usage leaves out the call that made the summary.
fn compacted_anthropic() -> Vec<Act> {
    events(&[
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
            "content": [], "usage": {"input_tokens": 900, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "compaction", "content": null,
            "encrypted_content": null}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "compaction_delta",
            "content": "The user counts ships.", "encrypted_content": "c2VjcmV0"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Twelve."}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"input_tokens": 900,
            "output_tokens": 20, "iterations": [
                {"type": "compaction", "input_tokens": 60_000, "output_tokens": 500},
                {"type": "message", "input_tokens": 900, "output_tokens": 20}]}}),
        json!({"type": "message_stop"}),
    ])
}

fn compacted_openai() -> Vec<Act> {
    let item = json!({"type": "compaction", "id": "cmp_1", "encrypted_content": "c2VjcmV0"});
    let message = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Twelve.", "annotations": []}]});
    events(&[
        json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "compaction", "id": "cmp_1",
            "encrypted_content": ""}}),
        json!({"type": "response.compaction.compacting", "item_id": "cmp_1", "output_index": 0, "sequence_number": 2}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": message}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": message}),
        json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed",
            "output": [item, message], "usage": {"input_tokens": 900, "output_tokens": 20, "total_tokens": 920}}}),
    ])
}

#[tokio::test]
async fn the_summary_of_the_vendor_is_sent_back_as_it_came_and_its_tokens_are_counted() {
    let of_anthropic =
        json!({"type": "compaction", "content": "The user counts ships.", "encrypted_content": "c2VjcmV0"});
    let of_openai = json!({"type": "compaction", "id": "cmp_1", "encrypted_content": "c2VjcmV0"});
    for (vendor, answer, block, input) in [
        (ANTHROPIC, compacted_anthropic(), of_anthropic, 60_900),
        (RESPONSES, compacted_openai(), of_openai, 900),
    ] {
        let server = Server::start(vec![answer, vendor.answer(&Said::text("Yes."))]).await;
        let agent = BasicAgent::new(vendor.at(&server.url()))
            .with_provider(ProviderRegistry::default())
            .configure(|c| c.request.vendor_context = Some(VendorContext::compacting_at(60_000)));
        assert_eq!(agent.chat("How many?").await.unwrap(), "Twelve.", "{}", vendor.name);
        let messages = agent.messages();
        let agent_core::AgentMessage::Llm(reply) = &*messages[1] else { panic!() };
        let Message::Assistant(reply) = &reply.message else { panic!() };
        assert_eq!(reply.usage.prompt_tokens(), input, "{}", vendor.name);
        assert!(
            reply.content.iter().any(|c| matches!(c, Content::Opaque(o) if o.kind.contains("compaction")))
        );
        agent.chat("Sure?").await.unwrap();
        let sent = server.asked()[1].json();
        let blocks: Vec<Value> = match vendor {
            ANTHROPIC => sent["messages"][1]["content"].as_array().unwrap().clone(),
            _ => sent["input"].as_array().unwrap().clone(),
        };
        assert!(blocks.contains(&block), "{}: {sent:#}", vendor.name);
        // The history is complete: another vendor gets the messages and not the summary.
        let first = sent.to_string();
        assert!(first.contains("How many?") && first.contains("Sure?"), "{first}");
    }
}
