use super::*;
use crate::message::StopReason;

fn line(texts: &[String]) -> String {
    let mut reply = AssistantMessage::new("p", "m", StopReason::Stop);
    reply.content = texts.iter().map(Content::text).collect();
    summary_line(&reply)
}

#[test]
fn a_summary_has_the_short_texts_of_a_reply_up_to_its_limit() {
    let block = |bytes: usize| "x".repeat(bytes);
    assert_eq!(line(&["one".into(), " two\n".into()]), "[Summary] one two");
    assert_eq!(line(&[block(MAX_SUMMARISED_BLOCK)]), format!("[Summary] {}", block(200)));
    assert_eq!(line(&[block(MAX_SUMMARISED_BLOCK + 1)]), "[Summary] [Assistant response]");
    assert_eq!(line(&[block(201), "short".into()]), "[Summary] short");
    // Two blocks and a blank have 401 bytes, so the last one is cut, and no block follows.
    let full = line(&[block(200), block(200), "more".into()]);
    assert_eq!(full, format!("[Summary] {} {}", block(200), block(199)));
}
