//! The thinking settings of a request, and the output tokens that they leave for the reply.

use agent_core::{Content, ModelRequest, ThinkingForm, ThinkingLevel, UnitKind};

use crate::catalogue::{ModelFacts, ThinkingOff};
use crate::handoff::{Handoff, IdRule};
use crate::json::Members;

/// The minimum budget that the API accepts.
pub(crate) const MIN_BUDGET: u32 = 1_024;

/// The minimum number of tokens that a thinking budget leaves for the answer.
pub(crate) const MIN_ANSWER: u32 = 1_024;

/// The thinking options of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The maximum number of tokens of thinking and answer together; `None` if it is unknown.
    pub(crate) max_tokens: Option<u32>,
    /// The name of the effort.
    pub(crate) effort: Option<&'static str>,
    /// Whether a temperature can be sent as well.
    pub(crate) takes_temperature: bool,
    thinking: Thinking,
    /// Whether the request lets the API drop thinking whose preceding messages have changed.
    drops_unbound: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thinking {
    Unsaid,
    /// The model thinks by default; the member is sent only because it carries other options.
    Anyway,
    Disabled,
    BetweenTools,
    Budget(u32),
    Adaptive,
}

/// Returns the thinking options of a request. `most` is the output limit of the model, if it is known. `forced` states that a tool call is required, which disables thinking because
/// the API does not combine them. `drops_unbound` lets the API drop thinking whose preceding messages have changed, where
/// it supports that.
pub(crate) fn plan(
    request: &ModelRequest,
    facts: Option<&ModelFacts>,
    most: Option<u32>,
    forced: bool,
    drops_unbound: bool,
) -> Plan {
    let model = &request.model;
    // A configuration created without the catalogue has `Budget`, which newer models reject.
    let (form, levels) = match facts {
        Some(facts) if model.thinking == ThinkingForm::Budget && !facts.thinking_budget => {
            (facts.thinking.unwrap_or(model.thinking), &facts.thinking_levels)
        }
        _ => (model.thinking, &model.thinking_levels),
    };
    let level = request.options.thinking_level.clamp_to(levels);
    let limit = request.options.max_tokens.or(most).map(|limit| limit.max(1));
    let off = match facts.map(|f| f.thinking_off) {
        Some(ThinkingOff::Never) if drops_unbound => Thinking::Anyway,
        Some(ThinkingOff::Disabled) => Thinking::Disabled,
        Some(ThinkingOff::BetweenTools) => Thinking::BetweenTools,
        _ => Thinking::Unsaid,
    };
    let quiet = Plan {
        max_tokens: limit,
        effort: None,
        takes_temperature: facts.is_none_or(|f| f.sampling),
        thinking: off,
        drops_unbound,
    };
    if level == ThinkingLevel::Off {
        return quiet;
    }
    match form {
        ThinkingForm::Budget if !forced && !continues_without_thought(request) => {
            let Some((max_tokens, budget)) = budget(request, level, limit, most) else { return quiet };
            Plan { max_tokens, takes_temperature: false, thinking: Thinking::Budget(budget), ..quiet }
        }
        // Without thinking, models that think by default accept no effort above high.
        ThinkingForm::Adaptive if forced => {
            Plan { effort: Some(effort(level.min(ThinkingLevel::High))), ..quiet }
        }
        ThinkingForm::Adaptive => Plan {
            effort: Some(effort(level)),
            takes_temperature: false,
            thinking: Thinking::Adaptive,
            ..quiet
        },
        ThinkingForm::Effort => Plan { effort: Some(effort(level)), ..quiet },
        _ => quiet,
    }
}

/// Returns whether the last reply made its calls without thinking first, or came from another model. With a thinking
/// budget, the API then rejects the request.
fn continues_without_thought(request: &ModelRequest) -> bool {
    // Only the origin of a reply is needed here, so the rule for ids has no effect.
    let rules = Handoff::new(request, IdRule::word(64));
    let last = request.history.units().filter(|u| Handoff::shows(u)).last();
    let Some(reply) = last.filter(|u| u.kind() == UnitKind::Exchange).and_then(|u| u.reply()) else {
        return false;
    };
    let thought = matches!(reply.content.first(), Some(Content::Thinking(t)) if t.signature.is_some());
    !(thought && rules.same_model(reply))
}

/// Returns the output limit, raised for the budget as far as the model allows, and the budget. Returns `None` if not
/// even the smallest budget fits.
fn budget(
    request: &ModelRequest,
    level: ThinkingLevel,
    limit: Option<u32>,
    most: Option<u32>,
) -> Option<(Option<u32>, u32)> {
    let wanted = request.options.thinking_budgets.for_level(level)?.max(MIN_BUDGET);
    let needed = wanted.saturating_add(MIN_ANSWER);
    let max_tokens = limit.map(|limit| limit.max(most.unwrap_or(needed).min(needed)));
    let budget = max_tokens.map_or(wanted, |max| wanted.min(max.saturating_sub(MIN_ANSWER)));
    (budget >= MIN_BUDGET).then_some((max_tokens, budget))
}

fn effort(level: ThinkingLevel) -> &'static str {
    match level {
        ThinkingLevel::Off | ThinkingLevel::Minimal | ThinkingLevel::Low => "low",
        ThinkingLevel::Medium => "medium",
        ThinkingLevel::XHigh => "xhigh",
        ThinkingLevel::Max => "max",
        _ => "high",
    }
}

impl Plan {
    /// Returns whether the request contains neither thinking nor an effort.
    pub(crate) fn says_nothing(&self) -> bool {
        self.thinking == Thinking::Unsaid && self.effort.is_none()
    }

    /// Returns whether the request sets a number of tokens for thinking.
    #[cfg_attr(not(feature = "anthropic"), allow(dead_code, reason = "only Anthropic has prewarming"))]
    pub(crate) fn has_budget(&self) -> bool {
        matches!(self.thinking, Thinking::Budget(_))
    }

    /// Writes the `thinking` member, if there is one.
    pub(crate) fn write(&self, body: &mut Members<'_>) {
        let name = match self.thinking {
            Thinking::Unsaid => return,
            Thinking::Disabled => "disabled",
            Thinking::BetweenTools => "between_tools",
            Thinking::Budget(_) => "enabled",
            Thinking::Adaptive | Thinking::Anyway => "adaptive",
        };
        let mut thinking = Members::open(body.key("thinking"));
        thinking.field("type", name);
        match self.thinking {
            Thinking::Budget(budget) => {
                thinking.field("budget_tokens", &budget);
            }
            // Newer models omit the text unless the request asks for it.
            Thinking::Adaptive => {
                thinking.field("display", "summarized");
            }
            Thinking::Unsaid | Thinking::Anyway | Thinking::Disabled | Thinking::BetweenTools => {}
        }
        if self.drops_unbound && matches!(self.thinking, Thinking::Adaptive | Thinking::Anyway) {
            let mut binding = Members::open(thinking.key("block_binding"));
            binding.field("prefix_mismatch_behavior", "drop_block");
            binding.close();
        }
        thinking.close();
    }
}
