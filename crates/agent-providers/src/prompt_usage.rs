//! Token counts in disjoint categories, for protocols whose vendors count in more than one way.
//!
//! Most vendors count cached tokens as a part of the prompt and reasoning as a part of the output, but some count them
//! beside it, and no member of a reply states it. The numbers show it: a part is never larger than its whole, and
//! the total is the sum of the counts that do not overlap. [`disjoint`] chooses the reading with the fewest deviations from
//! the vendor's usual one that fits both, so that no token is lost and none is counted twice. Gateways estimate the tokens of
//! thinking with another tokenizer: where the estimate alone contradicts the total, the total decides.

use agent_core::Usage;

#[cfg(test)]
mod tests;

/// The counts of a vendor. An unknown count is `None`.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Said {
    /// Tokens of the prompt.
    pub(crate) prompt: Option<u64>,
    /// Tokens of the reply.
    pub(crate) output: Option<u64>,
    /// All tokens.
    pub(crate) total: Option<u64>,
    /// Tokens of the prompt that were read from the cache.
    pub(crate) cache_read: Option<u64>,
    /// Tokens of the prompt that were put into the cache.
    pub(crate) cache_write: Option<u64>,
    /// Tokens of the prompt that are sound. Some vendors count them beside the prompt.
    pub(crate) audio: Option<u64>,
    /// Tokens of thinking.
    pub(crate) reasoning: Option<u64>,
    /// Where the vendor usually counts cached tokens.
    pub(crate) cache: Place,
    /// Where the vendor usually counts reasoning.
    pub(crate) thinking: Place,
    /// What the reply contains.
    pub(crate) reply: Reply,
    /// What the total rests on.
    pub(crate) basis: Basis,
}

/// What a total rests on.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basis {
    /// Only its own statement.
    #[default]
    Stated,
    /// A price that the vendor charges and states with it.
    Charged,
}

/// Where a vendor counts a part.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the count of the whole.
    #[default]
    Inside,
    /// In addition to the count of the whole.
    Beside,
}

/// What a reply contains.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Text or calls, or it is not known.
    #[default]
    Visible,
    /// Only thinking, so that the output is a count of reasoning.
    OnlyThinking,
}

/// The places of the three parts.
#[derive(Debug, Clone, Copy)]
struct Reading {
    read: Place,
    write: Place,
    reasoning: Place,
}

/// The deviations from the usual reading (cache reads, cache writes, reasoning), the fewest first.
const DEVIATIONS: [[bool; 3]; 8] = [
    [false, false, false],
    [false, false, true],
    [true, false, false],
    [false, true, false],
    [true, true, false],
    [true, false, true],
    [false, true, true],
    [true, true, true],
];

impl Place {
    /// Returns this place, or the other one.
    fn turned(self, turn: bool) -> Self {
        match (self, turn) {
            (place, false) => place,
            (Self::Inside, true) => Self::Beside,
            (Self::Beside, true) => Self::Inside,
        }
    }

    /// Returns the part of `count` that the whole includes, and the part that stands beside it.
    fn split(self, count: u64) -> (u64, u64) {
        match self {
            Self::Inside => (count, 0),
            Self::Beside => (0, count),
        }
    }
}

/// The known counts; an unknown one is 0.
#[derive(Debug, Clone, Copy)]
struct Counts {
    prompt: u64,
    output: u64,
    read: u64,
    write: u64,
    reasoning: u64,
    reply: Reply,
}

impl Counts {
    /// Returns whether no part is larger than its whole.
    fn fit(&self, reading: Reading) -> bool {
        let (reasoning, _) = reading.reasoning.split(self.reasoning);
        let thinking = self.reply == Reply::OnlyThinking && self.output > 0;
        self.fit_prompt(reading) && (reasoning <= self.output || thinking)
    }

    /// Returns whether no part of the prompt is larger than the prompt.
    fn fit_prompt(&self, reading: Reading) -> bool {
        let (read, _) = reading.read.split(self.read);
        let (write, _) = reading.write.split(self.write);
        read.saturating_add(write) <= self.prompt
    }

    /// Returns the sum of the counts that do not overlap.
    fn sum(&self, reading: Reading) -> u64 {
        let (_, read) = reading.read.split(self.read);
        let (_, write) = reading.write.split(self.write);
        let (_, reasoning) = reading.reasoning.split(self.reasoning);
        [self.prompt, self.output, read, write, reasoning].into_iter().fold(0, u64::saturating_add)
    }

    fn usage(&self, reading: Reading) -> Usage {
        let (read, _) = reading.read.split(self.read);
        let (write, _) = reading.write.split(self.write);
        let (_, reasoning) = reading.reasoning.split(self.reasoning);
        let input = self.prompt.saturating_sub(read).saturating_sub(write);
        let output = self.output.saturating_add(reasoning);
        Usage::new(input, output, self.read, self.write).with_reasoning(self.reasoning.min(output))
    }
}

/// Returns the counts in disjoint categories.
///
/// Tokens that only the total contains are the sound of the prompt, if there are as many. Otherwise they are added to the
/// output, because vendors that leave a count out leave out that of hidden thinking. This needs both the prompt and the
/// output, because the total must not replace one of them.
pub(crate) fn disjoint(said: &Said) -> Usage {
    let counts = Counts {
        prompt: said.prompt.unwrap_or(0),
        output: said.output.unwrap_or(0),
        read: said.cache_read.unwrap_or(0),
        write: said.cache_write.unwrap_or(0),
        reasoning: said.reasoning.unwrap_or(0),
        reply: said.reply,
    };
    let readings = DEVIATIONS.map(|[read, write, reasoning]| Reading {
        read: said.cache.turned(read),
        write: said.cache.turned(write),
        reasoning: said.thinking.turned(reasoning),
    });
    let total = said.total.filter(|_| said.prompt.is_some() && said.output.is_some());
    let mut fitting = readings.into_iter().filter(|reading| counts.fit(*reading));
    let is_exact = |reading: &Reading| Some(counts.sum(*reading)) == total;
    let exact = fitting.clone().find(is_exact);
    // An estimate is wrong by a part of the count, not by a multiple of it.
    let estimated = said.basis == Basis::Charged || counts.reasoning <= counts.output.saturating_mul(3) / 2;
    let by_total = |r: &Reading| estimated && counts.fit_prompt(*r) && is_exact(r);
    let exact = exact.or_else(|| readings.into_iter().find(by_total));
    // With every part beside its whole, the numbers always fit.
    let beside = Reading { read: Place::Beside, write: Place::Beside, reasoning: Place::Beside };
    let reading = exact.or_else(|| fitting.next()).unwrap_or(beside);
    let rest = total.unwrap_or(0).saturating_sub(counts.sum(reading));
    let heard = said.audio.filter(|audio| *audio == rest || (*audio > counts.prompt && *audio <= rest));
    let heard = heard.unwrap_or(0);
    counts.usage(reading).combine(&Usage::new(heard, rest - heard, 0, 0))
}
