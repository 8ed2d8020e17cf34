//! The word for a level of thinking, for the protocols that take one (REQ-130).

use agent_core::{ModelConfig, ThinkingLevel};

/// The word for a level. `minimal` and `xhigh` are sent only to models that are known to have them.
pub(crate) fn effort(model: &ModelConfig, level: ThinkingLevel) -> &'static str {
    let has = |level: ThinkingLevel| model.thinking_levels.contains(&level);
    match level {
        ThinkingLevel::Minimal if has(ThinkingLevel::Minimal) => "minimal",
        ThinkingLevel::Medium => "medium",
        ThinkingLevel::XHigh if has(ThinkingLevel::XHigh) => "xhigh",
        ThinkingLevel::High | ThinkingLevel::XHigh => "high",
        _ => "low",
    }
}
