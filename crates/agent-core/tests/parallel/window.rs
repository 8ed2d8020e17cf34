//! What the judge reads fits into its window (the tiers themselves are tested beside their code).

use agent_core::testing::ScriptedProvider;
use agent_core::{AgentMessage, ContextConfig, EvaluationDecision, History, LlmJudgeEvaluation};

use crate::group::{config, config_of, context, notes, run_over};

/// A judge with a window of so many tokens, and its model.
fn judge(window: u64) -> (LlmJudgeEvaluation, ScriptedProvider) {
    let model = ScriptedProvider::texts(["2"]);
    let mut config = config_of(&model);
    config.policy.context = Some(ContextConfig::default().with_max_context_tokens(window));
    (LlmJudgeEvaluation::new(config), model)
}

/// `n` lines of 40 characters in paragraphs of ten.
fn long(name: &str, n: usize) -> String {
    let line = |i: usize| format!("{name} {i:0>5} {}", "x".repeat(33usize.saturating_sub(name.len())));
    let lines: Vec<String> =
        (0..n).map(|i| if i % 10 == 9 { format!("{}\n", line(i)) } else { line(i) }).collect();
    lines.join("\n")
}

/// What the judge read, and what people were told; the selected branch is returned as it was.
async fn judged(window: u64, prior: &str, outputs: [&str; 2]) -> (String, Vec<(String, String)>) {
    let (strategy, model) = judge(window);
    let mut history = History::new();
    if !prior.is_empty() {
        history.push(AgentMessage::user(prior)).unwrap();
    }
    let branches = outputs.map(|o| config([o]));
    let (outcome, events) =
        run_over(context().with_history(history), Some("Which?"), branches, strategy).await;
    let result = outcome.unwrap();
    assert_eq!(result.decision, EvaluationDecision::Selected(1));
    assert_eq!(
        result.selected.final_text().as_deref(),
        Some(outputs[1]),
        "the original, not what was judged"
    );
    assert_eq!(result.selected.context.history.last().unwrap().text(), outputs[1]);
    let request = model.requests().remove(0);
    let text = request.history.last().unwrap().text();
    (text, notes(&events))
}

/// REQ-202.
#[tokio::test]
async fn what_fits_is_read_whole() {
    let (a, b) = (long("a", 100), long("b", 100));
    let (text, notes) = judged(10_000, "Before.", [&a, &b]).await;
    assert!(text.contains(&a) && text.contains(&b) && text.contains("User: Before."));
    assert!(notes.is_empty());
}

/// REQ-208.
#[tokio::test]
async fn the_conversation_is_shortened_before_any_answer_is() {
    // 80 % of 4,000 tokens; the answers have about 1,000 each and the conversation 8,000.
    let (prior, a, b) = (long("p", 800), long("a", 100), long("b", 100));
    let (text, notes) = judged(4_000, &prior, [&a, &b]).await;
    assert!(text.contains(&a) && text.contains(&b), "the answers are whole");
    assert!(
        !text.contains("p 00000") && text.contains("p 00799"),
        "tier 1: the last lines: {}",
        &text[..300]
    );
    assert_eq!(notes.len(), 1);
    assert!(
        notes[0].0 == "judge-compaction" && notes[0].1.contains("the responses are unchanged"),
        "{notes:?}"
    );
}

/// REQ-202.
#[tokio::test]
async fn long_answers_are_shortened_tier_by_tier() {
    // 80 lines are about 800 tokens; a paragraph is about 100.
    for (window, expect, has, has_not) in [
        (3_000, "last 80 lines", "a 00430", "a 00420"),
        (1_000, "first and last paragraphs", "a 00000", "a 00480"),
        (300, "were cut", "a 00000", "a 00490"),
    ] {
        let (a, b) = (long("a", 500), long("b", 500));
        let (text, notes) = judged(window, "", [&a, &b]).await;
        assert!(notes.len() == 1 && notes[0].1.contains(expect), "{window}: {notes:?}");
        assert!(text.contains(has) && !text.contains(has_not), "{window}: {text}");
        assert!(text.contains("a 00499"), "the end is where the conclusion is: {text}");
        // What is read is at most 80 % of the window; headings and the question are in the rest.
        assert!((text.len() as u64) < window * 4, "{window}: {}", text.len());
    }
}

/// REQ-202: a window that is too small for anything.
#[tokio::test]
async fn where_even_the_last_tier_does_not_fit_people_are_warned_and_the_judge_is_asked_all_the_same() {
    let (a, b) = (long("a", 500), long("b", 500));
    let (text, notes) = judged(50, &long("p", 500), [&a, &b]).await;
    assert_eq!(notes.len(), 1);
    let (topic, warning) = &notes[0];
    assert_eq!(topic, "judge-compaction");
    assert!(warning.starts_with("warning: the responses do not fit"), "{warning}");
    assert!(text.len() < 1_200, "each part is down to 200 characters: {}", text.len());
    assert!(text.contains("Which?") && text.contains("Response 2:"));
}

/// REQ-202: without a budget of its own the window of the model counts.
#[tokio::test]
async fn a_judge_without_a_context_budget_has_its_models_window() {
    let model = ScriptedProvider::texts(["2"]);
    let mut judge_config = config_of(&model);
    judge_config.policy.context = None;
    let mut small = (*judge_config.model).clone();
    small.context_window = Some(3_000);
    judge_config.model = small.into();
    let (a, b) = (long("a", 500), long("b", 500));
    let branches = [config([a.as_str()]), config([b.as_str()])];
    let strategy = LlmJudgeEvaluation::new(judge_config);
    let (outcome, events) = run_over(context(), Some("Which?"), branches, strategy).await;
    outcome.unwrap();
    assert!(notes(&events)[0].1.contains("last 80 lines"));
}
