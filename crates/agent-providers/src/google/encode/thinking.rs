//! The thinking settings of a request, and the output tokens that they leave for the reply.
//!
//! Since Gemini 3 the level is a word. Earlier models have a token budget, which the limit of the reply includes.
//! Models that always think get the lowest setting if thinking is off.

use agent_core::{ModelRequest, ThinkingForm, ThinkingLevel};

use crate::catalogue::{self, ThinkingOff};
use crate::google::generation::Known;
use crate::json::Members;

/// The minimum number of tokens that a thinking budget leaves for the answer.
const MIN_ANSWER: u32 = 1_024;

/// The range of budgets that a model accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    min: u32,
    max: u32,
}

/// The thinking options of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    /// The limit of thinking and answer together; `None` if the model's limit is unknown.
    pub(super) max_tokens: Option<u32>,
    thinking: Thinking,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thinking {
    Unsaid,
    Budget(u32),
    Level(&'static str),
    /// The model's smallest budget; thoughts are not included in the reply.
    LeastBudget(u32),
    LeastLevel(&'static str),
}

/// Returns the thinking options of a request.
pub(super) fn plan(request: &ModelRequest, known: Known) -> Plan {
    let model = &request.model;
    let limit = request.options.max_tokens.or(model.max_tokens).map(|limit| limit.max(1));
    let unsaid = Plan { max_tokens: limit, thinking: Thinking::Unsaid };
    if model.thinking == ThinkingForm::None || !known.may_think() {
        return unsaid;
    }
    let facts = catalogue::find(&model.provider, &model.id);
    // A configuration created without the catalogue has `Budget`; newer models require a level.
    let levels = match facts {
        Some(facts) if model.thinking_levels.is_empty() => &facts.thinking_levels,
        _ => &model.thinking_levels,
    };
    let level = request.options.thinking_level.clamp_to(levels);
    // Thinking is not disabled explicitly for an unknown model, because many models reject the option.
    if level == ThinkingLevel::Off && !known.is_gemini() {
        return unsaid;
    }
    if known.is_third() || matches!(model.thinking, ThinkingForm::Effort | ThinkingForm::Adaptive) {
        let thinking = match level {
            ThinkingLevel::Off => Thinking::LeastLevel(word(least(levels))),
            level => Thinking::Level(greatest(level.max(least(levels)), levels)),
        };
        return Plan { thinking, ..unsaid };
    }
    let range = range(&model.id);
    let off = facts.map(|f| f.thinking_off);
    let Some(wanted) = request.options.thinking_budgets.for_level(level) else {
        let never = matches!(off, Some(ThinkingOff::Never)) || range.min > 0 && model.id.contains("-pro");
        let thinking = if never { Thinking::LeastBudget(range.min) } else { Thinking::LeastBudget(0) };
        return Plan { thinking, ..unsaid };
    };
    let wanted = wanted.clamp(range.min, range.max);
    let needed = wanted.saturating_add(MIN_ANSWER);
    let max_tokens = limit.map(|limit| limit.max(model.max_tokens.unwrap_or(needed).min(needed)));
    let budget = max_tokens.map_or(wanted, |most| wanted.min(most.saturating_sub(MIN_ANSWER)));
    if budget < range.min.max(1) {
        return unsaid;
    }
    Plan { max_tokens, thinking: Thinking::Budget(budget) }
}

/// Returns the documented budgets of the models before Gemini 3. The value 0 disables thinking and is not in the range.
fn range(id: &str) -> Range {
    if id.contains("-lite") {
        Range { min: 512, max: 24_576 }
    } else if id.contains("-pro") {
        Range { min: 128, max: 32_768 }
    } else {
        Range { min: 1, max: 24_576 }
    }
}

/// Returns the lowest known level. Every model accepts `LOW`; the newest models and all Pro models reject `MINIMAL`.
fn least(levels: &[ThinkingLevel]) -> ThinkingLevel {
    let known = levels.iter().copied().filter(|l| *l != ThinkingLevel::Off).min();
    known.unwrap_or(ThinkingLevel::Low)
}

/// Returns the word of a level. `XHIGH` is sent only to models that list the level, because others reject it.
fn greatest(level: ThinkingLevel, levels: &[ThinkingLevel]) -> &'static str {
    match level {
        ThinkingLevel::XHigh | ThinkingLevel::Max if levels.contains(&ThinkingLevel::XHigh) => "XHIGH",
        level => word(level),
    }
}

fn word(level: ThinkingLevel) -> &'static str {
    match level {
        ThinkingLevel::Off | ThinkingLevel::Minimal => "MINIMAL",
        ThinkingLevel::Low => "LOW",
        ThinkingLevel::Medium => "MEDIUM",
        _ => "HIGH",
    }
}

impl Plan {
    /// Writes the `thinkingConfig` member, if there is one.
    pub(super) fn write(&self, config: &mut Members<'_>) {
        if self.thinking == Thinking::Unsaid {
            return;
        }
        let mut thinking = Members::open(config.key("thinkingConfig"));
        match self.thinking {
            Thinking::Unsaid => {}
            Thinking::Budget(budget) => {
                thinking.field("includeThoughts", &true).field("thinkingBudget", &budget);
            }
            Thinking::Level(level) => {
                thinking.field("includeThoughts", &true).field("thinkingLevel", level);
            }
            Thinking::LeastBudget(budget) => {
                thinking.field("thinkingBudget", &budget);
            }
            Thinking::LeastLevel(level) => {
                thinking.field("thinkingLevel", level);
            }
        }
        thinking.close();
    }
}
