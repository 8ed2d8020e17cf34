//! Arguments of a tool call, as text that may be no JSON or only a part of it.
#![no_main]

use agent_core::{Completion, Content, ReplyLog, StopReason, StreamEvent, ToolArguments};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((step, data)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(data);
    let arguments = ToolArguments::from_text(&*text);
    let value = arguments.value().cloned();
    assert_eq!(value.is_ok(), serde_json::from_str::<serde_json::Value>(arguments.json_text()).is_ok());
    assert_eq!(arguments.text(), text);
    // What is shown of arguments that are no JSON is bounded.
    if let Err(said) = &value {
        assert!(said.len() < 2 * agent_core::MAX_ARGUMENTS_SHOWN + 1024, "{} bytes", said.len());
    }

    // In pieces they are the same, and a call that is cut off is kept with what came.
    let mut log = ReplyLog::new();
    log.push(&StreamEvent::ToolCallStart { index: 0, id: "c", name: "n" });
    let step = usize::from(*step % 16) + 1;
    let mut piece = String::new();
    for (n, c) in text.chars().enumerate() {
        piece.push(c);
        if n % step == 0 {
            log.push(&StreamEvent::ToolCallDelta { index: 0, delta: &piece });
            piece.clear();
        }
    }
    log.push(&StreamEvent::ToolCallDelta { index: 0, delta: &piece });
    let _ = (log.snapshot().to_message(), log.open_calls(), log.partial_content());
    log.push(&StreamEvent::BlockEnd { index: 0 });
    let message = log.finish("p", "m", &Completion::new(StopReason::ToolUse));
    let call = message.content.first().and_then(Content::as_tool_call).expect("the call is there");
    assert_eq!(call.arguments.text(), text);

    // Written to a session and read again they mean the same.
    let written = serde_json::to_string(&message).expect("a message can be written");
    let read: agent_core::AssistantMessage = serde_json::from_str(&written).expect("and read again");
    let call = read.content.first().and_then(Content::as_tool_call).expect("the call is there");
    assert_eq!(call.arguments.value().is_ok(), value.is_ok());
    if value.is_err() {
        assert_eq!(call.arguments.text(), text);
    }
});
