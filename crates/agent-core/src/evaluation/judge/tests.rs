use super::fit::{FittedInput, Parts, Tier, fit_to_window};
use super::verdict;
use crate::context::{HeuristicTokenCounter, TokenCounter};

#[track_caller]
fn check_verdict(reply: &str, candidates: usize, expect: Option<usize>) {
    assert_eq!(verdict::read(reply, candidates).ok(), expect, "{reply:?} of {candidates}");
}

/// REQ-201: D29.
#[test]
fn an_unambiguous_reply_is_the_verdict() {
    check_verdict("2", 3, Some(1));
    check_verdict("**1**", 2, Some(0));
    check_verdict("Response 3 is best.", 3, Some(2));
    check_verdict("Response 2 beats all others, and response 2 is also short.", 3, Some(1));
    check_verdict("Of the 3 answers, response 1 is best.", 3, Some(0));
    check_verdict("Response 3 is wrong, response 1 is right.\n\nVerdict: 1", 3, Some(0));
    check_verdict("Between 1 and 3, the clearer one is\n3.", 3, Some(2));
    check_verdict("Of 10 points: 2", 3, Some(1));
    check_verdict("10/10", 10, Some(9));
    check_verdict("99999999999999999999999999 2", 3, Some(1));
    check_verdict("réponse n°2", 2, Some(1));
}

/// REQ-201: D29. A wrong verdict is worse than the announced fallback.
#[test]
fn an_ambiguous_reply_is_no_verdict() {
    check_verdict("Of the 3 answers, 1 is best", 3, None);
    check_verdict("Response 3 is best, then response 1.", 3, None);
    check_verdict("Both 1 and 2 are good.", 2, None);
    check_verdict("Verdict: 2 or 3", 3, None);
    check_verdict("10/10", 3, None);
    check_verdict("0", 3, None);
    check_verdict("4", 3, None);
    check_verdict("", 3, None);
    check_verdict("the first", 3, None);
    check_verdict("٢", 2, None);
    let reason = verdict::read("Of the 3 answers, 1 is best", 3).unwrap_err();
    assert!(reason.contains("several responses"), "{reason}");
}

/// REQ-201: what a judge says may be long, and comes back short and whole.
#[test]
fn an_unreadable_reply_is_shown_in_short() {
    let reason = verdict::read(&"é".repeat(10_000), 2).unwrap_err();
    assert!(reason.contains("from 1 to 2") && reason.len() < 300, "{reason}");
}

fn parts(prior: &str, query: &str, outputs: &[&str]) -> Parts {
    let outputs = outputs.iter().map(|o| (*o).to_owned()).collect();
    Parts { prior: prior.to_owned(), query: query.to_owned(), outputs }
}

fn lines(n: usize) -> String {
    (0..n).map(|i| format!("line {i}")).collect::<Vec<_>>().join("\n")
}

fn tokens(fit: &FittedInput) -> u64 {
    let count = |text: &str| HeuristicTokenCounter.count_text(text);
    let Parts { prior, query, outputs } = &fit.parts;
    count(prior) + count(query) + outputs.iter().map(|o| count(o)).sum::<u64>()
}

/// REQ-202.
#[test]
fn what_fits_is_not_touched() {
    let original = parts("before", "query", &["a", "b"]);
    let fitted = fit_to_window(original.clone(), tokens_of(&original), &HeuristicTokenCounter);
    assert_eq!(fitted, FittedInput { parts: original, prior: Tier::Whole, outputs: Tier::Whole, fits: true });
    assert_eq!(fitted.note(), None);
}

fn tokens_of(parts: &Parts) -> u64 {
    tokens(&FittedInput { parts: parts.clone(), prior: Tier::Whole, outputs: Tier::Whole, fits: true })
}

/// REQ-202.
#[test]
fn tier_one_keeps_the_last_eighty_lines() {
    let fitted = fit_to_window(parts("", "q", &[&lines(200), "short"]), 250, &HeuristicTokenCounter);
    assert_eq!(fitted.outputs, Tier::LastLines);
    let kept: Vec<&str> = fitted.parts.outputs[0].lines().collect();
    assert_eq!((kept.len(), kept[0], kept[79]), (80, "line 120", "line 199"));
    assert_eq!(fitted.parts.outputs[1], "short");
}

/// REQ-202.
#[test]
fn tier_two_keeps_the_first_and_the_last_paragraph() {
    let middle = "m".repeat(4_000);
    let text = format!("\n\nFirst,\nof two lines.\n\n{middle}\n \t\n{middle}\n\n\nLast.\n");
    let fitted = fit_to_window(parts("", "q", &[&text, "short"]), 100, &HeuristicTokenCounter);
    assert_eq!(fitted.outputs, Tier::Ends);
    assert_eq!(fitted.parts.outputs[0], "First,\nof two lines.\n...\nLast.");
}

/// REQ-202: the bug of byte slices that end inside of a character.
#[test]
fn tier_three_cuts_between_characters() {
    let text = "日本語🙂".repeat(2_000);
    for budget in [150, 151, 152, 153, 400] {
        let fitted = fit_to_window(parts("", "q", &[&text, &text]), budget, &HeuristicTokenCounter);
        assert_eq!(fitted.outputs, Tier::Cut);
        for output in &fitted.parts.outputs {
            assert!(output.starts_with("日本語") && output.ends_with('🙂') && output.contains("\n...\n"));
            assert!(output.chars().count() <= 200.max(4 * budget as usize / 2));
        }
    }
}

/// REQ-208.
#[test]
fn in_the_first_pass_only_the_conversation_is_shortened() {
    let (prior, answer) = (lines(2_000), lines(60));
    let two = [answer.as_str(), answer.as_str()];
    for (budget, expect) in [(10_000, Tier::Whole), (600, Tier::LastLines), (320, Tier::Cut)] {
        let fitted = fit_to_window(parts(&prior, "q", &two), budget, &HeuristicTokenCounter);
        assert_eq!((fitted.prior, fitted.outputs), (expect, Tier::Whole), "{budget}");
        assert_eq!(fitted.parts.outputs, two);
        assert!(fitted.fits && tokens(&fitted) <= budget);
    }
}

/// REQ-208.
#[test]
fn in_the_second_pass_the_conversation_is_shortened_no_more_than_the_answers_leave_room_for() {
    // The answers alone are too long; in tier 1 they leave room for the conversation as it is.
    let (prior, answer) = (lines(40), lines(2_000));
    let fitted = fit_to_window(parts(&prior, "q", &[&answer, &answer]), 700, &HeuristicTokenCounter);
    assert_eq!((fitted.prior, fitted.outputs, fitted.fits), (Tier::Whole, Tier::LastLines, true));
    assert_eq!(fitted.parts.prior, prior);
}

/// REQ-202.
#[test]
fn what_cannot_fit_is_cut_to_the_least_and_said() {
    let long = "word ".repeat(4_000);
    let fitted = fit_to_window(parts(&long, &long, &[&long, &long, &long]), 10, &HeuristicTokenCounter);
    assert!(!fitted.fits);
    assert!(fitted.note().unwrap().starts_with("warning: "));
    let Parts { prior, query, outputs } = &fitted.parts;
    for text in [prior, query].into_iter().chain(outputs) {
        assert!(text.chars().count() <= 200, "{}", text.chars().count());
    }
}

/// Every character is a token.
#[derive(Debug)]
struct Dear;

impl TokenCounter for Dear {
    fn count_text(&self, text: &str) -> u64 {
        text.chars().count() as u64
    }
}

/// REQ-202: the caller's counter is the one that counts.
#[test]
fn a_counter_that_sees_more_tokens_gets_shorter_texts() {
    let long = "word ".repeat(4_000);
    let fitted = fit_to_window(parts("", "q", &[&long, &long]), 1_000, &Dear);
    assert!(fitted.fits, "{fitted:?}");
    let all: u64 = fitted.parts.outputs.iter().map(|o| Dear.count_text(o)).sum();
    assert!(all < 1_000 && all > 900, "{all}");
}

proptest::proptest! {
    /// REQ-202, REQ-208.
    #[test]
    fn whatever_is_said_to_fit_fits_and_every_part_is_there(
        prior in "(\\PC{0,30}\n{0,3}){0,40}",
        query in "\\PC{0,200}",
        outputs in proptest::collection::vec("(\\PC{0,40}\n{0,3}){0,40}", 2..5),
        budget in 0u64..3_000,
    ) {
        let borrowed: Vec<&str> = outputs.iter().map(String::as_str).collect();
        let original = parts(&prior, &query, &borrowed);
        let fitted = fit_to_window(original.clone(), budget, &HeuristicTokenCounter);
        proptest::prop_assert_eq!(fitted.parts.outputs.len(), outputs.len());
        if fitted.fits {
            proptest::prop_assert!(tokens(&fitted) <= budget);
            proptest::prop_assert_eq!(&fitted.parts.query, &query);
        }
        if tokens_of(&original) <= budget {
            proptest::prop_assert_eq!(&fitted.parts, &original);
        }
        for (is, was) in fitted.parts.outputs.iter().zip(&outputs) {
            proptest::prop_assert!(is.len() <= was.len().max(200 * 4 + 5));
        }
    }
}
