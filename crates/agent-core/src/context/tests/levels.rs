//! The levels, one by one (REQ-164).

use super::sample::{after, call, exchange, failed, history, reply, result, said, texts, user, user_of};
use crate::context::compact::{drop_middle, keep_within_budget, summarize_old_turns, truncate_tool_outputs};
use crate::context::{HeuristicTokenCounter, MAX_TOOL_LINE_BYTES, TokenCounter};
use crate::history::{Entry, MessageRef};
use crate::identity::Timestamp;
use crate::message::{AgentMessage, Content, Message};

fn lines(n: usize) -> String {
    (1..=n).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n")
}

/// The text of one tool result after level 1.
#[track_caller]
fn level1(text: &str, max_lines: usize) -> String {
    let old = history([vec![user("go")], exchange(1, text).to_vec()].concat());
    let new = after(&old, |d| truncate_tool_outputs(d, max_lines));
    let again = after(&new, |d| truncate_tool_outputs(d, max_lines));
    assert!(again.extends(&new) && new.extends(&again), "a second pass changes nothing");
    texts(&new)[2].clone()
}

/// REQ-057, REQ-164.
#[test]
fn two_hundred_lines_become_exactly_fifty_with_head_marker_and_tail() {
    let out = level1(&lines(200), 50);
    let out: Vec<&str> = out.lines().collect();
    assert_eq!(out.len(), 50);
    assert_eq!((out[0], out[24]), ("line 1", "line 25"));
    assert_eq!(out[25], "[... 151 lines truncated ...]");
    assert_eq!((out[26], out[49]), ("line 177", "line 200"));
}

/// REQ-057.
#[test]
fn an_output_within_the_limit_stays_and_small_limits_still_hold() {
    assert_eq!(level1(&lines(50), 50), lines(50));
    assert_eq!(level1(&lines(51), 50).lines().count(), 50);
    assert_eq!(level1(&lines(3), 1), "[... 3 lines truncated ...]");
    assert_eq!(level1(&lines(3), 0), "[... 3 lines truncated ...]");
    assert_eq!(level1(&lines(3), 2), "line 1\n[... 2 lines truncated ...]");
    assert_eq!(level1("\n\n\na\nb", 3), "\n[... 3 lines truncated ...]\nb");
    assert_eq!(level1("", 50), "");
}

#[test]
fn a_very_long_line_is_bounded_on_a_character_boundary() {
    let out = level1(&format!("short\n{}\nend", "é".repeat(100_000)), 50);
    let out: Vec<&str> = out.lines().collect();
    assert_eq!((out.len(), out[0], out[2]), (3, "short", "end"));
    assert!(out[1].len() <= MAX_TOOL_LINE_BYTES, "{}", out[1].len());
    let (head, rest) = out[1].split_once("[... ").unwrap();
    let (missing, tail) = rest.split_once(" bytes truncated ...]").unwrap();
    assert!(head.starts_with('é') && tail.ends_with('é'));
    assert_eq!(head.len() + missing.parse::<usize>().unwrap() + tail.len(), 200_000);
    assert_eq!(level1(&"x".repeat(MAX_TOOL_LINE_BYTES), 50).len(), MAX_TOOL_LINE_BYTES);
}

/// REQ-164.
#[test]
fn only_texts_of_tool_results_are_shortened_and_all_else_stays_the_same_object() {
    let long = lines(100);
    let mixed = Content::image("AAAA", "image/png");
    let old = history([
        user(&long),
        reply(4, vec![Content::text(long.clone()), call("a"), call("b")]),
        result("a", &long),
        result("b", "short"),
    ]);
    let new = after(&old, |d| truncate_tool_outputs(d, 10));
    let same: Vec<bool> =
        old.entries().zip(new.entries()).map(|(a, b)| MessageRef::same(a.shared(), b.shared())).collect();
    assert_eq!(same, [true, true, false, true]);

    let mut with_image = crate::message::ToolResultMessage::new(
        "a".into(),
        "bash".into(),
        vec![mixed.clone(), Content::text(long)],
    );
    with_image.is_error = true;
    with_image.details = serde_json::json!({"exit": 1});
    let old = history([user("go"), reply(1, vec![call("a")]), Message::from(with_image).into()]);
    let new = after(&old, |d| truncate_tool_outputs(d, 10));
    let shortened = new.llm_messages().last().unwrap().as_tool_result().unwrap();
    assert_eq!(shortened.content[0], mixed);
    assert_eq!(shortened.content[1].as_text().unwrap().lines().count(), 10);
    assert!(shortened.is_error && shortened.details == serde_json::json!({"exit": 1}));
}

/// REQ-058, REQ-164.
#[test]
fn old_replies_become_one_line_and_what_is_recent_or_from_the_user_stays() {
    let long = "word ".repeat(100);
    let old = history(
        [
            vec![user("task")],
            exchange(1, &long).to_vec(),
            vec![reply(
                2,
                vec![
                    Content::text("I looked\nat it."),
                    Content::text(long.clone()),
                    Content::text("Done."),
                    call("c2"),
                ],
            )],
            vec![result("c2", &long), AgentMessage::extension("note", serde_json::json!(1))],
            vec![said(3, &long), failed(), user("more")],
            exchange(4, &long).to_vec(),
            vec![said(5, "end")],
        ]
        .concat(),
    );
    let new = after(&old, |d| summarize_old_turns(d, 3));
    assert_eq!(
        texts(&new),
        [
            "task",
            "[Summary] [Assistant used 1 tool(s)]",
            "[Summary] I looked at it. Done.",
            "",
            "[Summary] [Assistant response]",
            "more",
            "",
            long.as_str(),
            "end"
        ]
    );
    let AgentMessage::Llm(summary) = new.messages().nth(2).unwrap() else { panic!() };
    assert_eq!(summary.message.role(), "user");
    assert_eq!(
        summary.turn_id.as_ref().map(|t| t.turn_index),
        Some(2),
        "the summary stands in the turn of its reply"
    );
    let again = after(&new, |d| summarize_old_turns(d, 3));
    assert!(again.extends(&new) && new.extends(&again));
}

/// REQ-058, REQ-164.
#[test]
fn level_2_changes_nothing_when_all_is_recent_and_never_parts_an_exchange() {
    let long = "word ".repeat(100);
    let old =
        history([vec![user("task")], exchange(1, &long).to_vec(), exchange(2, &long).to_vec()].concat());
    for keep_recent in [4, 5, 6, usize::MAX] {
        let new = after(&old, |d| summarize_old_turns(d, keep_recent));
        assert!(new.extends(&old) && old.extends(&new), "{keep_recent}");
    }
    // The boundary lies between the second call and its result: the exchange is recent. So is it for none at all.
    for keep_recent in [0, 1, 2] {
        let new = after(&old, |d| summarize_old_turns(d, keep_recent));
        assert_eq!(texts(&new), ["task", "[Summary] [Assistant used 1 tool(s)]", "", &long], "{keep_recent}");
    }
}

#[test]
fn a_reply_that_is_shorter_than_its_summary_stays() {
    let old = history([user("task"), said(1, "Yes."), user("next"), said(2, "No.")]);
    let new = after(&old, |d| summarize_old_turns(d, 1));
    assert!(new.extends(&old));
}

/// REQ-059, REQ-164.
#[test]
fn level_3_keeps_head_marker_and_tail_in_this_order() {
    let long = "x".repeat(200);
    let old = history((0..20).map(|n| user(&format!("{n} {long}"))));
    let new = after(&old, |d| drop_middle(d, 2, 3));
    let firsts: Vec<String> = texts(&new).iter().map(|t| t.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(firsts, ["0", "1", "[Context", "17", "18", "19"]);
    assert_eq!(texts(&new)[2], "[Context compacted: 15 messages removed to fit context window]");
    assert!(MessageRef::same(new.entries().last().unwrap().shared(), old.entries().last().unwrap().shared()));
}

/// REQ-059, REQ-164.
#[test]
fn level_3_changes_nothing_without_a_middle_worth_a_marker() {
    let old = history((0..5).map(|n| user(&format!("{n}"))));
    for (first, recent) in [(2, 3), (5, 0), (9, 9), (0, 5), (usize::MAX, usize::MAX), (1, 3)] {
        let new = after(&old, |d| drop_middle(d, first, recent));
        assert!(new.extends(&old) && old.extends(&new), "{first} {recent}");
    }
}

/// REQ-059.
#[test]
fn level_3_keeps_the_task_and_whole_exchanges() {
    let long = "x".repeat(400);
    let old = history(
        [vec![said(0, "hello, I am ready")], exchange(1, &long).to_vec(), vec![user("the task")]]
            .into_iter()
            .chain((2..8).map(|n| exchange(n, &long).to_vec()))
            .collect::<Vec<_>>()
            .concat(),
    );
    // Two first messages would end on a call; three newest would begin with a result.
    let new = after(&old, |d| drop_middle(d, 2, 3));
    let roles: Vec<&str> = new.messages().map(AgentMessage::role).collect();
    assert_eq!(roles, ["assistant", "user", "user", "assistant", "toolResult", "assistant", "toolResult"]);
    assert_eq!(texts(&new)[1], "the task");
    assert_eq!(texts(&new)[2], "[Context compacted: 10 messages removed to fit context window]");
}

#[test]
fn a_second_marker_takes_the_place_of_the_first_and_adds_up() {
    let long = "x".repeat(400);
    let mut now = history((0..10).map(|_| user(&long)));
    now = after(&now, |d| drop_middle(d, 1, 2));
    for _ in 0..5 {
        now.push(user(&long)).unwrap();
    }
    now = after(&now, |d| drop_middle(d, 1, 2));
    assert_eq!(now.len(), 4);
    assert_eq!(texts(&now)[1], "[Context compacted: 12 messages removed to fit context window]");
}

/// REQ-059.
#[test]
fn the_last_resort_keeps_the_task_and_the_newest_that_fit_with_the_marker_counted() {
    // 100 tokens and 4 each.
    let old = history((0..10).map(|n| user(&format!("{n:<400}"))));
    let marker = 16 + 4;
    for limit in [208 + marker, 312 + marker, 500, 312 + marker - 1, 1_039] {
        let new = after(&old, |d| keep_within_budget(d, limit).unwrap());
        assert!(new.tokens() <= limit, "{} of {limit}", new.tokens());
        let kept = usize::try_from((limit - marker) / 104).unwrap();
        assert_eq!(new.len(), kept + 1, "as many as fit into {limit}");
        assert!(texts(&new)[0].starts_with('0') && texts(&new)[kept].starts_with('9'));
    }
    let same = after(&old, |d| keep_within_budget(d, 1_040).unwrap());
    assert!(same.extends(&old));
    let mut draft =
        crate::context::compact::CompactionDraft::new(&old, &crate::context::HeuristicTokenCounter);
    assert!(keep_within_budget(&mut draft, 208 + marker - 1).is_err());
    assert_eq!(draft.into_splices(), [], "after an error nothing is changed");
}

/// Counts a marker as 20 tokens if it is about the most messages, and as 200 otherwise.
#[derive(Debug)]
struct Uneven(u64);

impl TokenCounter for Uneven {
    fn count_text(&self, text: &str) -> u64 {
        match text.strip_prefix("[Context compacted: ") {
            Some(rest) if rest.starts_with(&self.0.to_string()) => 20,
            Some(_) => 200,
            None => HeuristicTokenCounter.count_text(text),
        }
    }
}

/// A counter of the caller's own can count a marker about fewer messages as more tokens.
#[test]
fn the_last_resort_removes_more_if_the_marker_turns_out_longer() {
    let old = history((0..10).map(|n| user(&format!("{n:<400}"))));
    let limit = 2 * 104 + 24 + 4 * 104;
    let mut draft = crate::context::compact::CompactionDraft::new(&old, &Uneven(8));
    keep_within_budget(&mut draft, limit).unwrap();
    assert!(draft.tokens() <= limit, "{} of {limit}", draft.tokens());
    let new = old.spliced(&draft.into_splices()).unwrap();
    let firsts: Vec<String> = texts(&new).iter().map(|t| t.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(firsts, ["0", "[Context", "7", "8", "9"]);
    assert_eq!(texts(&new)[1], "[Context compacted: 6 messages removed to fit context window]");
}

/// A marker has the time of the first message that it replaces.
#[test]
fn a_marker_has_the_time_of_the_first_removed_message() {
    let long = "x".repeat(400);
    let old = history((1..10).flat_map(|n| [user_of(vec![Content::text(&long)]), said(n * 100, &long)]));
    let new = after(&old, |d| drop_middle(d, 1, 2));
    let marker = new.messages().find(|m| m.text().starts_with("[Context")).unwrap();
    let Some(Message::User(marker)) = marker.as_llm() else { panic!("{marker:?}") };
    assert_eq!(marker.timestamp, Timestamp(100));
}

#[test]
fn notes_and_failed_replies_go_without_a_marker() {
    let note = || AgentMessage::extension("note", serde_json::json!("x".repeat(4_000)));
    let old = history([
        user("task"),
        note(),
        said(1, "done"),
        failed(),
        note(),
        user_of(vec![Content::text("next")]),
    ]);
    let limit = 40;
    let new = after(&old, |d| keep_within_budget(d, limit).unwrap());
    assert_eq!(texts(&new), ["task", "done", "", "next"]);
    let _: &Entry = new.entries().next().unwrap();
}
