//! Making what the judge reads fit into its window (REQ-202, REQ-208).
//!
//! First pass: only the conversation before the query is shortened, tier by tier. Second pass: the answers, tier by tier, and for
//! each tier the conversation again, as mildly as fits. Each tier works on the original text. Where even the last tier does not
//! fit, the query is cut as well, and people are told.

use crate::context::TokenCounter;

/// Lines that tier 1 keeps.
const LAST_LINES: usize = 80;

/// What stands where something was left out.
const GAP: &str = "...";

/// The fewest characters that a text is cut to.
const LEAST_CHARS: usize = 200;

/// Characters that are reckoned for a token before it is counted.
const CHARS_PER_TOKEN: u64 = 4;

/// How often a cut is made shorter until the caller's counter agrees; each time by what is too much.
const CUTS: usize = 8;

/// What the judge reads.
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
    Whole,
    /// The last 80 lines.
    LastLines,
    /// The first and the last paragraph.
    Ends,
    /// A number of characters.
    Cut,
}

const TIERS: [Tier; 4] = [Tier::Whole, Tier::LastLines, Tier::Ends, Tier::Cut];

/// What fits, and what had to be done for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fit {
    pub(super) parts: Parts,
    pub(super) prior: Tier,
    pub(super) outputs: Tier,
    /// Whether all of it fits without touching the query.
    pub(super) fits: bool,
}

impl Fit {
    /// What people are told.
    pub(super) fn note(&self) -> Option<String> {
        let outputs = match self.outputs {
            Tier::Whole if self.prior == Tier::Whole => return None,
            Tier::Whole => {
                "the conversation before the query was shortened for the judge; the responses are whole"
            }
            Tier::LastLines => "the responses were shortened for the judge to their last 80 lines",
            Tier::Ends => "the responses were shortened for the judge to their first and last paragraphs",
            Tier::Cut => "the responses were cut for the judge",
        };
        Some(if self.fits {
            outputs.to_owned()
        } else {
            "warning: the responses do not fit into the judge's window together, even when they are cut; it judges by parts \
             of them"
                .to_owned()
        })
    }
}

/// Shortens until all parts together have at most `budget` tokens.
pub(super) fn fit(original: Parts, budget: u64, counter: &dyn TokenCounter) -> Fit {
    let count = |text: &str| counter.count_text(text);
    let count_all = |texts: &[String]| texts.iter().fold(0u64, |sum, t| sum.saturating_add(count(t)));
    let query = count(&original.query);

    let outputs = count_all(&original.outputs);
    let room = budget.saturating_sub(query).saturating_sub(outputs);
    for tier in TIERS {
        let prior = shorten(&original.prior, tier, room, counter);
        if query.saturating_add(outputs).saturating_add(count(&prior)) <= budget {
            let parts = Parts { prior, ..original };
            return Fit { parts, prior: tier, outputs: Tier::Whole, fits: true };
        }
    }

    // What the conversation needs at least is not for the answers.
    let least = count(&cut(&original.prior, LEAST_CHARS));
    let mut query_text = original.query.clone();
    let share = |query: u64| {
        let room = budget.saturating_sub(query).saturating_sub(least);
        room / u64::try_from(original.outputs.len().max(1)).unwrap_or(u64::MAX)
    };
    for tier in [Tier::LastLines, Tier::Ends, Tier::Cut] {
        let shortened: Vec<String> =
            original.outputs.iter().map(|o| shorten(o, tier, share(query), counter)).collect();
        let outputs = count_all(&shortened);
        let room = budget.saturating_sub(query).saturating_sub(outputs);
        for prior_tier in TIERS {
            let prior = shorten(&original.prior, prior_tier, room, counter);
            if query.saturating_add(outputs).saturating_add(count(&prior)) <= budget {
                let parts = Parts { prior, query: query_text, outputs: shortened };
                return Fit { parts, prior: prior_tier, outputs: tier, fits: true };
            }
        }
    }

    // It cannot be done. The query gets a quarter, so that a long one does not leave the answers nothing.
    query_text = shorten(&query_text, Tier::Cut, budget / 4, counter);
    let query = count(&query_text);
    let shortened: Vec<String> =
        original.outputs.iter().map(|o| shorten(o, Tier::Cut, share(query), counter)).collect();
    let parts = Parts { prior: cut(&original.prior, LEAST_CHARS), query: query_text, outputs: shortened };
    Fit { parts, prior: Tier::Cut, outputs: Tier::Cut, fits: false }
}

/// The text as this tier has it; a tier is never longer than the one before.
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

/// The last lines, all of them where there are not more.
fn last_lines(text: &str) -> &str {
    let body = text.trim_end_matches('\n');
    match body.rmatch_indices('\n').nth(LAST_LINES - 1) {
        Some((at, _)) => text.get(at + 1..).unwrap_or(text),
        None => text,
    }
}

/// The first and the last paragraph; paragraphs are parted by blank lines.
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

/// At most about so many tokens, and at least 200 characters.
fn cut_to_tokens(text: &str, tokens: u64, counter: &dyn TokenCounter) -> String {
    let chars = tokens.saturating_mul(CHARS_PER_TOKEN).try_into().unwrap_or(usize::MAX);
    let mut limit = LEAST_CHARS.max(chars);
    for _ in 0..CUTS {
        let shorter = cut(text, limit);
        let counted = counter.count_text(&shorter);
        if counted <= tokens || limit == LEAST_CHARS {
            return shorter;
        }
        // A counter that sees more tokens than a quarter of the characters.
        let length = shorter.chars().count().min(limit);
        let scaled = u128::try_from(length).unwrap_or(u128::MAX).saturating_mul(u128::from(tokens))
            / u128::from(counted);
        limit = usize::try_from(scaled).unwrap_or(usize::MAX).min(length.saturating_sub(1)).max(LEAST_CHARS);
    }
    cut(text, LEAST_CHARS)
}

/// At most so many characters: the beginning and the end.
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
