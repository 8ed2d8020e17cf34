//! The levels together.

use super::sample::{call, exchange, history, reply, result, said, texts, user, user_of};
use crate::context::{
    CompactionError, ContextConfig, HeuristicTokenCounter, TokenCounter, compact_history,
    compact_history_within, compact_messages,
};
use crate::history::{History, MessageRef};
use crate::message::{AgentMessage, Content};

fn config(budget: u64) -> ContextConfig {
    ContextConfig::default().with_system_prompt_tokens(0).with_max_context_tokens(budget)
}

#[track_caller]
fn compacted(old: &History, config: &ContextConfig) -> History {
    let splices = compact_history(old, config, &HeuristicTokenCounter).unwrap();
    let new = old.spliced(&splices).unwrap();
    assert!(new.tokens() <= config.budget(), "{} of {}", new.tokens(), config.budget());
    assert_eq!(
        compact_history(&new, config, &HeuristicTokenCounter).unwrap(),
        [],
        "a second compaction changes nothing"
    );
    assert!(History::repaired(new.to_vec()).1.is_empty(), "closed");
    new
}

/// A task and this many exchanges of 100 lines each.
fn long_run(exchanges: u64) -> History {
    let output = (0..100).map(|n| format!("output line {n}")).collect::<Vec<_>>().join("\n");
    let mut messages = vec![user("the task")];
    for n in 0..exchanges {
        messages.extend(exchange(n, &output));
    }
    history(messages)
}

/// REQ-011.
#[test]
fn the_defaults_and_the_budget() {
    let config = ContextConfig::default();
    assert_eq!((config.max_context_tokens, config.system_prompt_tokens), (100_000, 4_000));
    assert_eq!((config.keep_recent, config.keep_first, config.tool_output_max_lines), (10, 2, 50));
    let other = config.clone().with_keep_recent(3).with_keep_first(4).with_tool_output_max_lines(5);
    assert_eq!((other.keep_recent, other.keep_first, other.tool_output_max_lines), (3, 4, 5));
    assert_eq!(config.budget(), 96_000);
    assert_eq!(config.clone().with_system_prompt_tokens(u64::MAX).budget(), 0);
    assert_eq!(serde_json::from_str::<ContextConfig>("{}").unwrap(), config);
    let json = serde_json::to_string(&config.clone().with_keep_recent(3)).unwrap();
    assert_eq!(serde_json::from_str::<ContextConfig>(&json).unwrap(), config.with_keep_recent(3));
}

/// REQ-056, REQ-164.
#[test]
fn at_the_budget_nothing_changes_and_one_token_above_it_does() {
    let old = long_run(3);
    let exact = config(old.tokens());
    assert_eq!(compact_history(&old, &exact, &HeuristicTokenCounter).unwrap(), []);
    assert_eq!(compact_messages(&old.to_vec(), &exact, &HeuristicTokenCounter).unwrap(), old.to_vec());
    let splices = compact_history(&old, &config(old.tokens() - 1), &HeuristicTokenCounter).unwrap();
    assert!(!splices.is_empty());
}

/// REQ-056.
#[test]
fn the_cascade_stops_at_the_first_level_that_is_enough() {
    let old = long_run(20);
    let gentle = |budget| config(budget).with_compact_to_percent(100).with_keep_recent(4);
    let count = |h: &History, start: &str| texts(h).iter().filter(|t| t.starts_with(start)).count();
    let cut = |h: &History| texts(h).iter().filter(|t| t.contains("lines truncated")).count();

    // Old outputs cut are enough; the newest are whole.
    let one = compacted(&old, &gentle(old.tokens() - 2_000));
    assert_eq!((one.len(), cut(&one), count(&one, "[Summary]")), (41, 18, 0));
    // All outputs cut.
    let all = compacted(&old, &gentle(one.tokens() - 1));
    assert_eq!((all.len(), cut(&all), count(&all, "[Summary]")), (41, 20, 0));
    // Old exchanges in one line each.
    let two = compacted(&old, &gentle(all.tokens() - 1));
    assert_eq!((two.len(), count(&two, "[Summary]"), count(&two, "[Context")), (23, 18, 0));
    // No middle.
    let three = compacted(&old, &gentle(two.tokens() - 1));
    assert_eq!((three.len(), count(&three, "[Summary]"), count(&three, "[Context")), (7, 1, 1));
    // Only the newest.
    let four = compacted(&old, &gentle(three.tokens() - 30));
    assert_eq!((four.len(), count(&four, "[Context")), (4, 1));
    for new in [one, all, two, three, four] {
        assert_eq!(texts(&new)[0], "the task");
        assert!(texts(&new).last().unwrap().ends_with("output line 99"));
    }
}

/// REQ-056, REQ-164.
#[test]
fn the_last_level_keeps_the_newest_messages_within_the_target_and_not_the_whole_budget() {
    let old = history((0..100).map(|n| if n == 0 { user("the task") } else { said(n, &"x".repeat(40)) }));
    // All messages are recent, so that only the last level can shorten.
    let config = config(1_000).with_keep_recent(100);
    for percent in [80, 50] {
        let new = compacted(&old, &config.clone().with_compact_to_percent(percent));
        let target = u64::from(percent) * 10;
        assert!((target - 30..=target).contains(&new.tokens()), "{} of {target}", new.tokens());
    }
}

#[test]
fn there_is_room_after_a_compaction_so_that_the_next_turn_does_not_need_one() {
    let mut now = long_run(40);
    let config = config(12_000);
    now = compacted(&now, &config);
    assert!(now.tokens() <= 12_000 * 80 / 100);
    let mut compactions = 0;
    for n in 100..200 {
        let [reply, result] = exchange(n, &"y".repeat(400));
        now.push_exchange(reply.into(), vec![result.into()]).unwrap();
        if now.tokens() > config.budget() {
            now = compacted(&now, &config);
            compactions += 1;
        }
    }
    assert!((1..10).contains(&compactions), "{compactions}");
}

#[test]
fn messages_that_are_not_touched_are_the_same_objects() {
    let old = long_run(20);
    let new = compacted(&old, &config(4_000));
    let last = |h: &History| h.entries().last().unwrap().shared().clone();
    assert!(MessageRef::same(old.entries().next().unwrap().shared(), new.entries().next().unwrap().shared()));
    // The newest output was cut: same turn, same call, another text.
    assert_eq!(last(&new).text().lines().count(), 50);
    let AgentMessage::Llm(before) = &*last(&old) else { panic!() };
    let AgentMessage::Llm(after) = &*last(&new) else { panic!() };
    assert_eq!(before.turn_id, after.turn_id);
}

/// REQ-056.
#[test]
fn a_message_that_is_too_long_alone_keeps_its_head_and_its_tail() {
    let text = format!("HEAD {} TAIL", "é日🙂 ".repeat(20_000));
    for budget in [40, 100, 1_000, 10_000] {
        let new = compacted(&history([user(&text)]), &config(budget));
        let [cut] = texts(&new).try_into().unwrap();
        assert!(cut.contains("bytes cut to fit context window"), "{cut}");
        assert!(cut.starts_with("HEAD") && cut.ends_with("TAIL"), "{budget}: {cut}");
        assert!(
            new.tokens() * 10 >= budget * 9 || budget < 100,
            "{budget}: it uses its room, {}",
            new.tokens()
        );
    }
}

#[test]
fn a_long_task_and_a_long_newest_turn_share_the_room() {
    let long = "word ".repeat(5_000);
    let mut messages = vec![user(&format!("TASK {long}")), said(1, "ok")];
    messages.extend(exchange(2, &format!("OUTPUT {long} END")));
    let new = compacted(&history(messages), &config(2_000));
    let texts = texts(&new);
    assert!(texts[0].starts_with("TASK") && texts[0].len() > 3_000, "{}", texts[0].len());
    assert_eq!(texts[1], "[Context compacted: 1 messages removed to fit context window]");
    assert!(texts[3].starts_with("OUTPUT") && texts[3].contains("END") && texts[3].len() > 2_000);

    // A short task leaves its part to the newest turn.
    let mut messages = vec![user("TASK")];
    messages.extend(exchange(2, &format!("OUTPUT {} END", "x".repeat(50_000).as_str())));
    let new = compacted(&history(messages), &config(2_000).with_tool_output_max_lines(1_000_000));
    assert!(new.tokens() > 400, "{}", new.tokens());
}

#[test]
fn huge_pictures_become_a_text_and_small_ones_stay() {
    let huge = user_of(vec![Content::text("look"), Content::image("A".repeat(8_000_000), "image/png")]);
    let new = compacted(&history([huge]), &config(500));
    assert_eq!(texts(&new), ["look\n[image removed to fit context window]"]);

    let small = Content::image("A".repeat(1_000), "image/png");
    let long = user_of(vec![small.clone(), Content::text("x".repeat(10_000))]);
    let new = compacted(&history([long]), &config(500));
    let content = new.llm_messages().next().unwrap().content().to_vec();
    assert!(content.contains(&small) && content.len() == 2);
}

#[test]
fn an_exchange_with_huge_arguments_becomes_a_text_that_says_what_was_called() {
    let write = Content::tool_call(
        "a",
        "write_file",
        serde_json::json!({"path": "a.txt", "content": "x".repeat(40_000)}),
    );
    let old =
        history([user("task"), reply(1, vec![Content::text("I write."), write]), result("a", "written")]);
    let new = compacted(&old, &config(300));
    let texts = texts(&new);
    assert_eq!(texts.len(), 2);
    assert!(
        texts[1].starts_with("[Summary] I write.\nAssistant called write_file with {\"path\":\"a.txt\""),
        "{}",
        texts[1]
    );
    assert!(texts[1].ends_with("Result: written"), "{}", texts[1]);
}

#[test]
fn an_exchange_of_many_results_keeps_the_short_ones_whole() {
    let calls: Vec<Content> = (0..4).map(|n| call(&format!("c{n}"))).collect();
    let mut messages = vec![user("task"), reply(1, calls), result("c0", "short")];
    messages.extend((1..4).map(|n| result(&format!("c{n}"), &format!("{n} {}", "long ".repeat(400)))));
    let new = compacted(&history(messages), &config(600));
    assert_eq!(texts(&new)[2], "short");
    assert!(texts(&new)[3..].iter().all(|t| t.contains("bytes cut")), "{:?}", texts(&new));
}

#[test]
fn the_newest_reply_loses_its_signatures_when_it_is_cut() {
    let mut text = crate::message::Content::text("x".repeat(10_000));
    if let Content::Text(t) = &mut text {
        t.signature = Some("signed".into());
    }
    let old = history([user("task"), reply(1, vec![Content::thinking("hm", Some("s".into())), text])]);
    let new = compacted(&old, &config(200));
    let json = serde_json::to_string(&new).unwrap();
    assert!(!json.contains("signature"), "{json}");
}

#[track_caller]
fn too_small(old: &History, budget: u64) -> u64 {
    match compact_history(old, &config(budget), &HeuristicTokenCounter) {
        Err(CompactionError::BudgetTooSmall { budget: b, needed }) => {
            assert_eq!(b, budget);
            assert!(needed > budget);
            needed
        }
        other => panic!("{other:?}"),
    }
}

/// REQ-056.
#[test]
fn a_budget_below_the_smallest_request_is_an_error_that_says_what_would_do() {
    let old = long_run(20);
    for budget in [0, 1, 10, 30] {
        let needed = too_small(&old, budget);
        compacted(&old, &config(needed));
    }
    let one = history([user(&"x".repeat(100))]);
    assert_eq!(too_small(&one, 0), 6);
    assert_eq!(texts(&compacted(&one, &config(6))), ["[...]"]);
    let text = compact_history(&one, &config(0), &HeuristicTokenCounter).unwrap_err().to_string();
    assert!(
        text.contains("0 tokens")
            && text.contains("need 6")
            && text.contains("shorten the task or the instructions"),
        "{text}"
    );
    assert_eq!(compact_history(&History::new(), &config(0), &HeuristicTokenCounter).unwrap(), []);
}

#[test]
fn after_an_overflow_a_lower_budget_is_used() {
    let old = long_run(5);
    let config = config(100_000);
    let splices = compact_history_within(&old, &config, old.tokens() / 2, &HeuristicTokenCounter).unwrap();
    assert!(old.spliced(&splices).unwrap().tokens() <= old.tokens() / 2);
}

#[test]
fn a_plain_list_that_is_not_closed_is_closed_when_it_is_compacted() {
    let long = "x".repeat(4_000);
    let list = vec![user(&long), reply(1, vec![call("a")]), user(&long), result("b", &long)];
    assert_eq!(compact_messages(&list, &config(10_000), &HeuristicTokenCounter).unwrap(), list);
    let new = compact_messages(&list, &config(1_200), &HeuristicTokenCounter).unwrap();
    assert!(History::repaired(new).1.is_empty());
}

/// Words of a language that the default estimate knows nothing of.
#[derive(Debug)]
struct Bytes;

impl TokenCounter for Bytes {
    fn count_text(&self, text: &str) -> u64 {
        text.len() as u64
    }
}

/// REQ-162.
#[test]
fn the_budget_holds_by_the_counter_that_is_given() {
    let old = long_run(10);
    let config = config(3_000);
    let new = old.spliced(&compact_history(&old, &config, &Bytes).unwrap()).unwrap();
    let tokens: u64 = new.messages().map(|m| Bytes.count_message(m)).sum();
    assert!(tokens <= 3_000, "{tokens}");
}
