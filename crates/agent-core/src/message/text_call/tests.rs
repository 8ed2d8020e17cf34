use super::*;

fn reply(text: &str) -> AssistantMessage {
    let mut reply = AssistantMessage::new("local", "m", StopReason::Stop);
    reply.content = vec![Content::text(text)];
    reply.take_calls_in_text(|name| matches!(name, "read_file" | "list_files"));
    reply
}

/// The text and the calls of a reply, as `name arguments`.
#[track_caller]
fn check(text: &str, expect: &str, calls: &[&str]) {
    let reply = reply(text);
    let found: Vec<String> = reply.tool_calls().map(|c| format!("{} {}", c.name, c.arguments)).collect();
    assert_eq!(
        (reply.text().as_str(), found.iter().map(String::as_str).collect::<Vec<_>>()),
        (expect, calls.to_vec())
    );
    assert_eq!(reply.stop_reason, StopReason::ToolUse);
    assert!(!reply.ends_with_call_in_text());
}

#[test]
fn whole_calls_of_known_tools_at_the_end_are_calls() {
    let a = "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}\n</tool_call>";
    let b = "<tool_call>{\"name\":\"list_files\"}</tool_call>";
    let read = "read_file {\"path\":\"a.txt\"}";
    check(&format!("I will read it.\n{a}\n"), "I will read it.", &[read]);
    check(a, "", &[read]);
    check(&format!("{a}\n{b}"), "", &[read, "list_files "]);
    let text =
        "<tool_call>{\"name\":\"read_file\",\"parameters\":\"{\\\"path\\\":\\\"a.txt\\\"}\"}</tool_call>";
    check(text, "", &[read]);
}

#[test]
fn anything_else_stays_text() {
    for (text, is_said) in [
        ("<tool_call>{\"name\":\"rm\",\"arguments\":{}}</tool_call>", true),
        ("<tool_call>{\"name\":\"read_file\",\"arguments\":{\"path\"}</tool_call>", true),
        ("<tool_call>{\"name\":\"read_file\",\"arguments\":[1]}</tool_call>", true),
        ("write <tool_call> like <tool_call>{\"name\":\"read_file\"}</tool_call>", true),
        ("<tool_call>{\"name\":\"read_file\"}</tool_call> is the notation", false),
        ("the notation is `<tool_call>`", false),
        ("nothing", false),
    ] {
        let reply = reply(text);
        assert_eq!((reply.text().as_str(), reply.tool_calls().count()), (text, 0));
        assert_eq!(reply.ends_with_call_in_text(), is_said, "{text}");
    }
}
