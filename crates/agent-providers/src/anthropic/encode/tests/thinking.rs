use agent_core::{ThinkingForm, ThinkingLevel as Level, ToolChoice};

use super::*;

#[track_caller]
fn sent(level: Level, change: impl FnOnce(&mut ModelConfig), max_tokens: Option<u32>) -> Value {
    let mut asked = with_model(asking("hi"), change);
    asked.options.thinking_level = level;
    asked.options.max_tokens = max_tokens;
    asked.options.temperature = Some(0.5);
    body(&asked)
}

fn budget(limit: u32) -> impl FnOnce(&mut ModelConfig) {
    move |m| m.max_tokens = Some(limit)
}

#[track_caller]
fn check_budget(level: Level, limit: u32, max_tokens: Option<u32>, expect: Option<(u32, u32)>) {
    let body = sent(level, budget(limit), max_tokens);
    let found = body.get("thinking").map(|t| {
        assert_eq!(t["type"], "enabled");
        (t["budget_tokens"].as_u64().unwrap(), body["max_tokens"].as_u64().unwrap())
    });
    assert_eq!(found, expect.map(|(b, m)| (u64::from(b), u64::from(m))));
    assert_eq!(body.get("temperature").is_none(), expect.is_some(), "a temperature goes with no thinking");
}

/// REQ-129, B-149.
#[test]
fn a_level_is_a_budget_of_at_least_1024_that_leaves_1024_for_the_answer() {
    check_budget(Level::Off, 64_000, None, None);
    check_budget(Level::Minimal, 64_000, None, Some((1_024, 64_000)));
    check_budget(Level::Low, 64_000, None, Some((1_024, 64_000)));
    check_budget(Level::Medium, 64_000, None, Some((2_048, 64_000)));
    check_budget(Level::High, 64_000, None, Some((8_192, 64_000)));
    check_budget(Level::XHigh, 64_000, None, Some((16_384, 64_000)));
    // The limit is raised as far as the model allows ...
    check_budget(Level::High, 64_000, Some(4_096), Some((8_192, 9_216)));
    check_budget(Level::Medium, 64_000, Some(4_096), Some((2_048, 4_096)));
    // ... and then the budget gives way.
    check_budget(Level::High, 8_192, None, Some((7_168, 8_192)));
    check_budget(Level::High, 8_192, Some(100), Some((7_168, 8_192)));
    check_budget(Level::High, 2_048, None, Some((1_024, 2_048)));
    check_budget(Level::High, 2_047, None, None);
}

#[test]
fn budgets_can_be_set_and_huge_ones_do_not_overflow() {
    let mut asked = with_model(asking("hi"), |m| m.max_tokens = Some(u32::MAX));
    asked.options.thinking_level = Level::High;
    asked.options.thinking_budgets.high = u32::MAX;
    assert_eq!(body(&asked)["thinking"]["budget_tokens"], json!(u32::MAX - 1_024));
}

#[track_caller]
fn check_effort(form: ThinkingForm, level: Level, thinking: Value, effort: Value) {
    let body = sent(level, |m| m.thinking = form, None);
    assert_eq!(body.get("thinking").cloned().unwrap_or_default(), thinking);
    assert_eq!(body.get("output_config").map(|c| c["effort"].clone()).unwrap_or_default(), effort);
}

#[test]
fn newer_models_are_told_an_effort() {
    let adaptive = json!({"type": "adaptive", "display": "summarized"});
    for (level, word) in [
        (Level::Minimal, "low"),
        (Level::Low, "low"),
        (Level::Medium, "medium"),
        (Level::High, "high"),
        (Level::XHigh, "xhigh"),
        (Level::Max, "max"),
    ] {
        check_effort(ThinkingForm::Adaptive, level, adaptive.clone(), json!(word));
        check_effort(ThinkingForm::Effort, level, Value::Null, json!(word));
        check_effort(ThinkingForm::None, level, Value::Null, Value::Null);
    }
    check_effort(ThinkingForm::Adaptive, Level::Off, Value::Null, Value::Null);
}

/// B-150.
#[test]
fn a_level_that_the_model_lacks_becomes_the_nearest() {
    let body = sent(
        Level::XHigh,
        |m| *m = std::mem::take(m).with_thinking_form(ThinkingForm::Adaptive, vec![Level::Low, Level::High]),
        None,
    );
    assert_eq!(body["output_config"]["effort"], "high");
}

#[test]
fn a_demand_for_a_tool_wins_over_thinking_which_the_api_does_not_combine() {
    for form in [ThinkingForm::Budget, ThinkingForm::Adaptive] {
        let mut asked = with_model(asking("hi"), |m| m.thinking = form);
        asked.options.thinking_level = Level::High;
        asked.tools = tools(&["read"]).into();
        asked.options.tool_choice = ToolChoice::Required;
        let body = body(&asked);
        assert!(body.get("thinking").is_none());
        assert_eq!(body["tool_choice"]["type"], "any");
    }
}

#[track_caller]
fn check_known(id: &str, level: Level, forced: bool, thinking: Value, effort: Value) {
    // Configured without the catalogue: the form says `Budget`.
    let mut asked = with_model(asking("hi"), |m| m.id = id.into());
    asked.options.thinking_level = level;
    asked.options.temperature = Some(0.5);
    if forced {
        asked.tools = tools(&["read"]).into();
        asked.options.tool_choice = ToolChoice::Required;
    }
    let body = body(&asked);
    assert_eq!(body.get("thinking").cloned().unwrap_or_default(), thinking, "{id}");
    assert_eq!(body.get("output_config").map(|c| c["effort"].clone()).unwrap_or_default(), effort, "{id}");
}

#[test]
fn what_the_catalogue_knows_of_a_model_decides_what_it_is_told() {
    let nothing = Value::Null;
    let adaptive = json!({"type": "adaptive", "display": "summarized"});
    check_known("claude-opus-4-8", Level::Medium, false, adaptive, json!("medium"));
    let binding = json!({"prefix_mismatch_behavior": "drop_block"});
    let bound = json!({"type": "adaptive", "display": "summarized", "block_binding": binding});
    check_known("claude-opus-5-5", Level::Medium, false, bound, json!("medium"));
    let anyway = json!({"type": "adaptive", "block_binding": binding});
    check_known("claude-opus-5-5", Level::Off, false, anyway, nothing.clone());
    check_known("claude-fable-5", Level::Off, false, nothing.clone(), nothing.clone());
    check_known("claude-opus-5", Level::Off, false, json!({"type": "disabled"}), nothing.clone());
    check_known("claude-opus-5", Level::XHigh, true, json!({"type": "disabled"}), json!("high"));
    check_known("claude-sonnet-5-5", Level::Off, false, json!({"type": "between_tools"}), nothing.clone());
    check_known(
        "claude-sonnet-4-6",
        Level::Medium,
        false,
        json!({"type": "enabled", "budget_tokens": 2048}),
        nothing,
    );
}

#[test]
fn a_model_that_takes_no_temperature_is_sent_none() {
    let mut asked = with_model(asking("hi"), |m| m.id = "claude-opus-5".into());
    asked.options.temperature = Some(0.5);
    assert!(body(&asked).get("temperature").is_none());
}

#[test]
fn a_turn_that_goes_on_from_calls_without_thought_is_not_asked_to_think_by_a_budget() {
    let call = || Content::tool_call("a", "read", json!({}));
    let thought = |signature: Option<&str>| Content::thinking("hm", signature.map(str::to_owned));
    let cases = [
        (reply(vec![thought(Some("sig")), call()]), true),
        (reply(vec![Content::redacted_thinking("cipher"), call()]), true),
        (reply(vec![thought(None), call()]), false),
        (reply(vec!["so".into(), call()]), false),
        (foreign(vec![thought(Some("sig")), call()]), false),
    ];
    for (said_before, thinks) in cases {
        let history = vec![AgentMessage::user("go"), said(said_before), result("a", vec!["x".into()])];
        let mut asked = with_model(request(history), |m| m.max_tokens = Some(64_000));
        asked.options.thinking_level = Level::High;
        assert_eq!(body(&asked).get("thinking").is_some(), thinks, "{:?}", asked.history);
        // A new question begins a new turn.
        asked.history.push(AgentMessage::user("and?")).unwrap();
        assert!(body(&asked).get("thinking").is_some());
        let mut adaptive = with_model(asked, |m| m.thinking = ThinkingForm::Adaptive);
        adaptive.tools = tools(&["read"]).into();
        assert!(body(&adaptive).get("thinking").is_some());
    }
}
