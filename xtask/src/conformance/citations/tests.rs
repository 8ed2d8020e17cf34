use serde_json::json;

use super::*;

fn stream(events: &[Value]) -> String {
    events.iter().map(|event| format!("event: e\ndata: {event}\n\n")).collect()
}

#[test]
fn the_citations_of_each_protocol_are_counted_streamed_and_whole() {
    let note = json!({"type": "url_citation", "url": "https://a"});
    let item = json!({"type": "message", "content": [{"type": "output_text", "annotations": [note, note]}]});
    let grounding = json!({
        "groundingChunks": [{"web": {}}],
        "groundingSupports": [{"groundingChunkIndices": [0, 4]}, {"groundingChunkIndices": [0]}],
    });
    let about =
        json!({"candidates": [{"groundingMetadata": grounding, "citationMetadata": {"citations": [{}]}}]});
    for (protocol, body, count) in [
        (
            "anthropic",
            stream(&[
                json!({"delta": {"type": "citations_delta"}}),
                json!({"delta": {"type": "text_delta"}}),
            ]),
            1,
        ),
        (
            "anthropic",
            json!({"content": [{"type": "text", "citations": [{}, {}]}, {"type": "text"}]}).to_string(),
            2,
        ),
        ("openai-responses", stream(&[json!({"type": "response.output_item.done", "item": item})]), 2),
        ("azure-responses", json!({"object": "response", "output": [item]}).to_string(), 2),
        (
            "openai-chat",
            stream(&[
                json!({"choices": [{"delta": {"annotations": [note]}}]}),
                json!({"choices": [{"delta": {"annotations": [note]}}], "citations": ["https://a"]}),
                json!({"choices": [], "citations": ["https://a", "https://b"]}),
            ]),
            3,
        ),
        ("gemini", stream(&[about.clone(), about.clone()]), 3),
        ("vertex", json!([about]).to_string(), 3),
    ] {
        assert_eq!(recorded(protocol, body.as_bytes()), Some(count), "{protocol}: {body}");
    }
    assert_eq!(recorded("bedrock", b"\0\0"), None);
}
