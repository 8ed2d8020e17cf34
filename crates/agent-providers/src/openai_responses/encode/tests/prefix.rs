//! A later request begins with the bytes of an earlier one.

use proptest::prelude::*;

use super::*;

/// The reply of a step, and what its calls gave.
fn step(n: usize, kind: usize) -> Vec<Message> {
    let id = format!("call_{n}");
    let mut content = Vec::from(reasoning(&format!("rs_{n}"), "e"));
    match kind {
        0 => {
            content.push(text("said", json!({"id": format!("msg_{n}")})));
            vec![reply(content), Message::user("go on")]
        }
        1 => {
            content.push(call(&id, "{}", json!({"id": format!("fc_{n}")})));
            vec![reply(content), result(&id, vec![Content::image("aGk=", "image/png")])]
        }
        2 => vec![reply(content), Message::user("nothing was said")],
        _ => {
            let other = ApiProtocol::AnthropicMessages;
            content.push(call(&id, "{}", json!({})));
            vec![reply_of("anthropic", "c", other, content), result(&id, vec![Content::text("r")])]
        }
    }
}

proptest! {
    /// REQ-123.
    #[test]
    fn a_history_that_grows_keeps_its_bytes(kinds in proptest::collection::vec(0_usize..4, 1..12)) {
        let mut before: Option<Vec<u8>> = None;
        let mut messages = vec![Message::user("begin")];
        for (n, kind) in kinds.into_iter().enumerate() {
            messages.extend(step(n, kind));
            let fresh = history(messages.clone());
            let bytes = body(&with(model(), fresh.clone())).unwrap();
            prop_assert_eq!(&bytes, &body(&with(model(), fresh)).unwrap(), "kept bytes are the same bytes");
            if let Some(before) = before.replace(bytes.clone()) {
                // Without the brackets that close the list and the body.
                let head = &before[..before.len() - 2];
                prop_assert!(bytes.starts_with(head), "{}", String::from_utf8_lossy(&bytes));
            }
        }
    }
}
