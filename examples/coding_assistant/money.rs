//! Usage and cost in words.

use looptree::{Cost, Usage};

/// Tokens and what they cost; nothing about money where no price is known.
pub(crate) fn summary(usage: &Usage, cost: &Cost) -> String {
    if usage.total_tokens == 0 {
        return "usage: no tokens were reported".to_owned();
    }
    let mut text = format!("usage: {} tokens in, {} out", usage.prompt_tokens(), usage.output);
    if usage.cache_read > 0 {
        text.push_str(&format!(" ({} of them from the cache)", usage.cache_read));
    }
    if cost.total > 0 {
        let (whole, rest) = (cost.total / 1_000_000, cost.total % 1_000_000);
        text.push_str(&format!(", ${whole}.{:04}", rest / 100));
    }
    text
}
