//! Shortens the judge's input to its window.
//!
//! The first pass shortens only the conversation before the query, tier by tier. The second pass shortens the
//! answers, tier by tier, and for each tier the conversation as little as possible. Each tier works on the original
//! text. If even the last tier is insufficient, the query is cut as well, and a warning is emitted.

use crate::context::TokenCounter;

/// The number of lines that remain in the first tier.
const LAST_LINES: usize = 80;

/// The text that replaces an omission.
const GAP: &str = "...";

/// The minimum length to which a text is cut, in characters.
const LEAST_CHARS: usize = 200;

/// The assumed number of characters per token before a text is counted.
const CHARS_PER_TOKEN: u64 = 4;

/// The maximum number of attempts to cut a text until the caller's counter agrees.
const CUTS: usize = 8;

/// The parts of the judge's input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parts {
    /// The conversation before the query; empty for none.
    pub(super) prior: String,
    pub(super) query: String,
    pub(super) outputs: Vec<String>,
}

/// How far a text is shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tier {
    /// The whole text.
    Whole,
    /// Only the last 80 lines.
    LastLines,
    /// Only the first and the last paragraph.
    Ends,
    /// A number of characters from the beginning and the end.
    Cut,
}

const TIERS: [Tier; 4] = [Tier::Whole, Tier::LastLines, Tier::Ends, Tier::Cut];

/// The shortened input, and how far it was shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FittedInput {
    pub(super) parts: Parts,
    pub(super) prior: Tier,
    pub(super) outputs: Tier,
    /// Whether everything fits without cutting the query.
    pub(super) fits: bool,
}

impl FittedInput {
    /// Returns the message about the shortening; `None` if nothing was shortened.
    pub(super) fn note(&self) -> Option<String> {
        let outputs = match self.outputs {
            Tier::Whole if self.prior == Tier::Whole => return None,
            Tier::Whole => {
                "the conversation before the query was shortened for the judge; the responses are unchanged"
            }
            Tier::LastLines => "the responses were shortened for the judge to their last 80 lines",
            Tier::Ends => "the responses were shortened for the judge to their first and last paragraphs",
            Tier::Cut => "the responses were cut for the judge",
        };
        Some(if self.fits {
            outputs.to_owned()
        } else {
            "warning: the responses do not fit into the judge's window together, even when they are cut; it \
             receives parts of them"
                .to_owned()
        })
    }
}

/// Shortens the parts until all of them together have at most `budget` tokens.
pub(super) fn fit_to_window(original: Parts, budget: u64, counter: &dyn TokenCounter) -> FittedInput {
    let count = |text: &str| counter.count_text(text);
    let count_all = |texts: &[String]| texts.iter().fold(0u64, |sum, t| sum.saturating_add(count(t)));
    let query = count(&original.query);
    // Returns the longest conversation that fits beside answers of this size.
    let fitting_prior = |outputs: u64| {
        let others = query.saturating_add(outputs);
        TIERS.into_iter().find_map(|tier| {
            let prior = shorten(&original.prior, tier, budget.saturating_sub(others), counter);
            (others.saturating_add(count(&prior)) <= budget).then_some((prior, tier))
        })
    };
    if let Some((prior, tier)) = fitting_prior(count_all(&original.outputs)) {
        let parts = Parts { prior, ..original };
        return FittedInput { parts, prior: tier, outputs: Tier::Whole, fits: true };
    }

    // The minimum of the conversation is not available to the answers.
    let least = count(&cut(&original.prior, LEAST_CHARS));
    let shortened = |tier: Tier, query: u64| -> Vec<String> {
        let room = budget.saturating_sub(query).saturating_sub(least);
        let share = room / u64::try_from(original.outputs.len().max(1)).unwrap_or(u64::MAX);
        original.outputs.iter().map(|output| shorten(output, tier, share, counter)).collect()
    };
    for outputs_tier in [Tier::LastLines, Tier::Ends, Tier::Cut] {
        let outputs = shortened(outputs_tier, query);
        if let Some((prior, tier)) = fitting_prior(count_all(&outputs)) {
            let parts = Parts { prior, query: original.query.clone(), outputs };
            return FittedInput { parts, prior: tier, outputs: outputs_tier, fits: true };
        }
    }

    // Nothing fits. The query gets a quarter of the budget, so that a long query leaves tokens for the answers.
    let query = shorten(&original.query, Tier::Cut, budget / 4, counter);
    let outputs = shortened(Tier::Cut, count(&query));
    let parts = Parts { prior: cut(&original.prior, LEAST_CHARS), query, outputs };
    FittedInput { parts, prior: Tier::Cut, outputs: Tier::Cut, fits: false }
}

/// Returns the text at this tier. A tier is never longer than the one before.
fn shorten(text: &str, tier: Tier, tokens: u64, counter: &dyn TokenCounter) -> String {
    let milder = || {
        let lines = last_lines(text);
        let ends = ends(text);
        if ends.len() < lines.len() { ends } else { lines.to_owned() }
    };
    match tier {
        Tier::Whole => text.to_owned(),
        Tier::LastLines => last_lines(text).to_owned(),
        Tier::Ends => milder(),
        Tier::Cut => cut_to_tokens(&milder(), tokens, counter),
    }
}

/// Returns the last 80 lines of the text.
fn last_lines(text: &str) -> &str {
    let body = text.trim_end_matches('\n');
    match body.rmatch_indices('\n').nth(LAST_LINES - 1) {
        Some((at, _)) => text.get(at + 1..).unwrap_or(text),
        None => text,
    }
}

/// Returns the first and the last paragraph; blank lines separate paragraphs.
fn ends(text: &str) -> String {
    let mut paragraphs = paragraphs(text).into_iter();
    match (paragraphs.next(), paragraphs.next_back()) {
        (Some(first), Some(last)) if paragraphs.next().is_some() => {
            format!("{}\n{GAP}\n{}", first.trim_end(), last.trim())
        }
        _ => text.to_owned(),
    }
}

fn paragraphs(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut start, mut at, mut blank) = (0, 0, true);
    for line in text.split_inclusive('\n') {
        let is_blank = line.trim().is_empty();
        if is_blank && !blank {
            found.extend(text.get(start..at));
        }
        if !is_blank && blank {
            start = at;
        }
        at += line.len();
        blank = is_blank;
    }
    if !blank {
        found.extend(text.get(start..));
    }
    found
}

/// Cuts the text to about this many tokens, but to at least 200 characters.
fn cut_to_tokens(text: &str, tokens: u64, counter: &dyn TokenCounter) -> String {
    let chars = tokens.saturating_mul(CHARS_PER_TOKEN).try_into().unwrap_or(usize::MAX);
    let mut limit = LEAST_CHARS.max(chars);
    for _ in 0..CUTS {
        let shorter = cut(text, limit);
        let counted = counter.count_text(&shorter);
        if counted <= tokens || limit == LEAST_CHARS {
            return shorter;
        }
        // The counter finds more tokens than one per four characters.
        let length = shorter.chars().count().min(limit);
        let scaled = u128::try_from(length).unwrap_or(u128::MAX).saturating_mul(u128::from(tokens))
            / u128::from(counted);
        limit = usize::try_from(scaled).unwrap_or(usize::MAX).min(length.saturating_sub(1)).max(LEAST_CHARS);
    }
    cut(text, LEAST_CHARS)
}

/// Returns at most this many characters, from the beginning and the end.
fn cut(text: &str, chars: usize) -> String {
    let length = text.chars().count();
    if length <= chars {
        return text.to_owned();
    }
    let kept = chars.saturating_sub(GAP.len() + 2);
    let head: String = text.chars().take(kept / 2).collect();
    let tail: String = text.chars().skip(length - (kept - kept / 2)).collect();
    format!("{head}\n{GAP}\n{tail}")
}
