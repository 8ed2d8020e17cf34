//! Laws of compaction, for any conversation and any configuration (REQ-165, D11).

use proptest::prelude::*;

use super::sample::{failed, reply, result, said, user, user_of};
use crate::context::{
    CompactionError, ContextConfig, HeuristicTokenCounter, TokenCounter, compact_history, compact_messages,
    message_tokens,
};
use crate::history::History;
use crate::message::{AgentMessage, Content, Message};

/// The smallest request: a task and an exchange cut to nothing, and a marker with a number of up to five digits.
const SMALLEST: u64 = 6 + 6 + 4 + 17;

/// Short and long texts of one to four bytes a character, in one line and in many.
fn text() -> impl Strategy<Value = String> {
    const PIECES: [&str; 6] = ["word ", "é ", "日本", "🙂", "a line of output\n", "\n"];
    (0..PIECES.len(), 0..200_usize, any::<bool>())
        .prop_map(|(piece, times, long)| PIECES[piece].repeat(if long { times } else { times % 10 }))
}

fn unit() -> impl Strategy<Value = Vec<AgentMessage>> {
    prop_oneof![
        text().prop_map(|t| vec![user(&t)]),
        text().prop_map(|t| vec![said(7, &t)]),
        Just(vec![failed()]),
        text().prop_map(|t| vec![AgentMessage::extension("note", serde_json::json!(t))]),
        (text(), 0..20_000_usize).prop_map(|(t, n)| vec![user_of(vec![
            Content::text(t),
            Content::image("A".repeat(n), "image/png")
        ])]),
        (text(), prop::collection::vec((text(), text()), 1..4)).prop_map(|(t, calls)| {
            let mut blocks = vec![Content::text(t)];
            let mut out = Vec::new();
            for (n, (argument, output)) in calls.into_iter().enumerate() {
                let id = format!("c{n}");
                blocks.push(Content::tool_call(id.as_str(), "tool", serde_json::json!({ "a": argument })));
                out.push(result(&id, &output));
            }
            out.insert(0, reply(9, blocks));
            out
        }),
    ]
}

fn config() -> impl Strategy<Value = ContextConfig> {
    (0..2_000_u64, 0..200_u64, 0..12_usize, 0..6_usize, 0..60_usize, 0..=100_u8).prop_map(
        |(max, system, recent, first, lines, percent)| {
            ContextConfig::default()
                .with_max_context_tokens(max)
                .with_system_prompt_tokens(system)
                .with_keep_recent(recent)
                .with_keep_first(first)
                .with_tool_output_max_lines(lines)
                .with_compact_to_percent(percent)
        },
    )
}

fn total(messages: &[AgentMessage]) -> u64 {
    messages.iter().map(message_tokens).sum()
}

fn is_marker(message: &AgentMessage) -> bool {
    message.text().starts_with("[Context compacted: ")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// REQ-165, REQ-056.
    #[test]
    fn what_is_compacted_is_within_the_budget_closed_and_stays_as_it_is(
        units in prop::collection::vec(unit(), 0..14), config in config(),
    ) {
        let (old, _) = History::repaired(units.concat());
        let splices = match compact_history(&old, &config, &HeuristicTokenCounter) {
            Ok(splices) => splices,
            Err(CompactionError::BudgetTooSmall { budget, needed }) => {
                prop_assert!(budget == config.budget() && budget < needed && needed <= SMALLEST, "{budget} {needed}");
                return Ok(());
            }
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        };
        let new = old.spliced(&splices).expect("the splices fit");
        let list = new.to_vec();
        prop_assert!(total(&list) <= config.budget());
        prop_assert_eq!(new.tokens(), total(&list));
        prop_assert_eq!(splices.is_empty(), old.tokens() <= config.budget());
        prop_assert_eq!(History::repaired(list.clone()).1, []);
        prop_assert_eq!(compact_history(&new, &config, &HeuristicTokenCounter).expect("it fits"), []);
        prop_assert_eq!(compact_messages(&list, &config, &HeuristicTokenCounter).expect("it fits"), list.clone());

        // The first thing that the user said is still the first one, whole or cut.
        let first_said = |m: &&AgentMessage| m.role() == "user" && !is_marker(m);
        if let Some(task) = old.messages().find(first_said) {
            let kept = list.iter().find(first_said).expect("the task is kept");
            let same_start = task.text().chars().zip(kept.text().chars()).take_while(|(a, b)| a == b).count();
            let cut = kept.text().contains("cut to fit") || kept.text().contains("[...]") || kept.text().contains("[image");
            prop_assert!(task == kept || cut || kept.text().starts_with("[Summary]"), "{same_start}");
        }
        // The newest turn that a model sees is still the newest.
        let visible = |m: &&Message| m.as_assistant().is_none_or(|r| !r.is_failed());
        let newest = |h: &History| h.llm_messages().filter(visible).last().cloned();
        if let (Some(before), Some(after)) = (newest(&old), newest(&new)) {
            let spoken = after.text().starts_with("[Summ") || after.text().contains("[...");
            prop_assert!(before.role() == after.role() || spoken, "{} {}", before.role(), after.text());
            prop_assert!(!is_marker(&AgentMessage::from(after)) || is_marker(&AgentMessage::from(before)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// REQ-165.
    #[test]
    fn a_plain_list_is_within_the_budget_by_any_counter(
        units in prop::collection::vec(unit(), 0..6), config in config(), weight in 1..5_u64,
    ) {
        #[derive(Debug)]
        struct Uneven(u64);
        impl TokenCounter for Uneven {
            // Digits cost more than letters, and short texts more than long ones.
            fn count_text(&self, text: &str) -> u64 {
                let digits = text.bytes().filter(u8::is_ascii_digit).count() as u64;
                (text.len() as u64 / (self.0 + text.len() as u64 / 1_000)) + digits * 3
            }
        }
        let counter = Uneven(weight);
        if let Ok(new) = compact_messages(&units.concat(), &config, &counter) {
            prop_assert!(new.iter().map(|m| counter.count_message(m)).sum::<u64>() <= config.budget());
        }
    }
}
