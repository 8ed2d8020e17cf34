//! One pass over a loop finds all places at which it can be cut.

use std::cell::Cell;

use agent_core::{AgentMessage, AssistantMessage, Content, Message, StopReason, ToolResultMessage};

use super::settled;

fn loop_of(rounds: usize) -> Vec<AgentMessage> {
    let mut messages = vec![AgentMessage::user("go")];
    for n in 0..rounds {
        let mut reply = AssistantMessage::new("p", "m", StopReason::ToolUse);
        let ids = [format!("a{n}"), format!("b{n}")];
        reply
            .content
            .extend(ids.iter().map(|id| Content::tool_call(id.clone(), "tool", serde_json::json!({}))));
        messages.push(Message::from(reply).into());
        for id in ids {
            let result = ToolResultMessage::new(id.into(), "tool".into(), vec![Content::text("out")]);
            messages.push(Message::from(result).into());
        }
    }
    messages
}

#[test]
fn a_place_between_a_call_and_its_result_moves_behind_the_results() {
    assert_eq!(settled(loop_of(2).iter()), [0, 1, 4, 4, 4, 7, 7, 7]);
    // Without its last result, the loop can only be cut at its end.
    assert_eq!(settled(loop_of(1).iter().take(3)), [0, 1, 3, 3]);
    assert_eq!(settled([].iter()), [0]);
}

#[test]
fn each_message_is_read_once() {
    let (messages, read) = (loop_of(1_000), Cell::new(0));
    let places = settled(messages.iter().inspect(|_| read.set(read.get() + 1)));
    assert_eq!((places.len(), read.get()), (messages.len() + 1, messages.len()));
}
