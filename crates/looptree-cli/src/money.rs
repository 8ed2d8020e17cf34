//! Usage, cost and budget, in words and back.

use looptree::budget::AtLimit;
use looptree::budget::BudgetLimit;
use looptree::budget::BudgetRefusal;
use looptree::budget::Money;
use looptree::budget::Spending;
use looptree::message::Cost;
use looptree::{Answer, Budget, BudgetLimits, Usage};

use crate::settings::{MoneyText, Settings};

/// The budget that the settings give.
pub(crate) fn budget(settings: &Settings, at_limit: AtLimit) -> Option<Budget> {
    of_limits(settings.budget.value, settings.max_tokens_total.value, at_limit)
}

/// The budget with these limits; `None` without any.
pub(crate) fn of_limits(money: Option<MoneyText>, tokens: Option<u64>, at_limit: AtLimit) -> Option<Budget> {
    let mut limits = BudgetLimits::none();
    if let Some(money) = money {
        limits = limits.with_money(money.0);
    }
    if let Some(tokens) = tokens {
        limits = limits.with_tokens(tokens);
    }
    (limits != BudgetLimits::none()).then(|| Budget::new(limits).at_limit(at_limit))
}

/// What is spent of a budget.
pub(crate) fn spent(budget: &Budget) -> String {
    let (limits, spent) = (budget.limits(), budget.spent());
    let money = limits.money.map(|limit| format!("${} of ${limit}", spent.money));
    let tokens = limits.tokens.map(|limit| format!("{} of {limit} tokens", spent.tokens));
    let parts: Vec<String> = money.into_iter().chain(tokens).collect();
    format!("budget: {}", parts.join(", "))
}

/// Returns the question for the user at a limit.
pub(crate) fn question(text: &str, limit: BudgetLimit) -> String {
    let amount = if limit == BudgetLimit::Money { "an amount like 0.50" } else { "a number like 10000" };
    format!("{text} Type {amount} to add to it, yes to allow this one call, or anything else for no.")
}

/// Interprets the user's answer to the question about a budget.
pub(crate) fn answer(words: &str, refusal: &BudgetRefusal) -> Answer {
    let words = words.trim().trim_start_matches(['$', '+']);
    let by = match refusal.limit {
        BudgetLimit::Money => words.parse::<Money>().ok().map(Spending::of_money),
        BudgetLimit::Tokens => words.replace('_', "").parse().ok().map(Spending::of_tokens),
        _ => None,
    };
    // Nothing is added by a zero, so the question would be asked again.
    let by = by.filter(|by| *by != Spending::default());
    match (by, words.to_lowercase().as_str()) {
        (Some(by), _) => Answer::Raise { by },
        (None, "y" | "yes") => Answer::Allow,
        _ => Answer::Deny { reason: "The user did not raise the budget.".to_owned() },
    }
}

/// Tokens and what they cost; nothing about money where no price is known.
pub(crate) fn summary(usage: &Usage, cost: &Cost) -> String {
    if usage.total_tokens == 0 {
        return "no tokens were reported".to_owned();
    }
    let mut text = format!("{} tokens in, {} out", usage.prompt_tokens(), usage.output);
    if usage.cache_read > 0 {
        text.push_str(&format!(" ({} of them from the cache)", usage.cache_read));
    }
    if cost.total > 0 {
        text.push_str(&format!(", {}", dollars(cost.total)));
    }
    text
}

/// An amount in millionths of a dollar, as dollars.
pub(crate) fn dollars(micros: u64) -> String {
    format!("${}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100)
}

/// A known cost in dollars, for programs that calculate with it.
pub(crate) fn as_dollars(cost: &Cost) -> Option<f64> {
    let micros = u32::try_from(cost.total).unwrap_or(u32::MAX);
    (micros > 0).then(|| f64::from(micros) / 1e6)
}
