use super::*;
use crate::message::HeuristicTokenCounter;

fn message(n: usize, bytes: usize) -> AgentMessage {
    AgentMessage::user(format!("{n:03} {}", "x".repeat(bytes)))
}

fn asked(messages: &[AgentMessage], room: u64) -> String {
    let messages: Vec<&AgentMessage> = messages.iter().collect();
    question(None, &messages, room, &HeuristicTokenCounter).unwrap()
}

/// The tokens of a message in the question, with its line feed.
fn tokens(message: &AgentMessage) -> u64 {
    HeuristicTokenCounter.count_text(&rendered(message).unwrap()) + 1
}

#[test]
fn messages_that_fit_exactly_are_whole() {
    let messages: Vec<AgentMessage> = (0..4).map(|n| message(n, 1_000)).collect();
    let room: u64 = messages.iter().map(tokens).sum();
    let whole = asked(&messages, room);
    assert!(messages.iter().all(|message| whole.contains(&message.text())), "{whole}");
    assert!(asked(&messages, room - 1).contains("bytes left out"));
}

#[test]
fn a_shortened_message_says_how_many_bytes_are_missing() {
    let text = "é".repeat(1_000);
    let short = shortened(&text, 301);
    let (head, rest) = short.split_once("\n[... ").unwrap();
    let (missing, tail) = rest.split_once(" bytes left out ...]\n").unwrap();
    assert!(head.len() + tail.len() <= 301);
    assert_eq!(head.len() + missing.parse::<usize>().unwrap() + tail.len(), text.len());
    assert_eq!(shortened(&text, text.len()), text);
}

#[test]
fn the_oldest_messages_are_left_out_if_short_ones_do_not_fit() {
    let messages: Vec<AgentMessage> = (0..20).map(|n| message(n, 200)).collect();
    let room = messages.iter().skip(15).map(tokens).sum();
    let text = asked(&messages, room);
    assert!(text.contains("<messages>\n[15 older messages are left out]\nUser: 015 "), "{text}");
    assert_eq!(text.matches("User: ").count(), 5);
    assert!(asked(&messages, room - 1).contains("[16 older messages are left out]"));
}

#[test]
fn an_earlier_summary_that_does_not_fit_is_an_error() {
    let messages = [message(0, 10)];
    let messages: Vec<&AgentMessage> = messages.iter().collect();
    let ask = |room| question(Some(&"summary ".repeat(100)), &messages, room, &HeuristicTokenCounter);
    assert_eq!(ask(100), None);
    assert!(ask(1_000).unwrap().starts_with("<current_summary>\nsummary "));
}

#[test]
fn the_limit_of_a_summary_is_stated_in_words() {
    assert_eq!(system("Summarize.", 4_000), "Summarize.\n\nThe summary has at most 3000 words.");
    assert_eq!(system("", 10), "\n\nThe summary has at most 7 words.");
}
