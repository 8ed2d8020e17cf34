//! Which requirements there are.

use std::fmt;

/// The highest number of a `REQ-nnn`; all from 1 on exist.
const LAST_REQ: u16 = 221;

/// The numbers of the `B-nnn` that exist, both ends included.
const BEHAVIOURS: &[(u16, u16)] =
    &[(1, 31), (33, 38), (40, 109), (115, 173), (178, 181), (183, 184), (186, 186), (188, 190)];

/// The highest number of a decision `Dnn`; all from 1 on exist.
pub(crate) const LAST_DECISION: u16 = 49;

/// The name of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Requirement {
    /// `REQ-nnn`.
    Req(u16),
    /// `B-nnn`.
    Behaviour(u16),
}

impl Requirement {
    /// Reads `REQ-001` or `B-001`; `None` for a number that does not exist or is not written with three digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (kind, digits) = text.split_once('-')?;
        if digits.len() != 3 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let number: u16 = digits.parse().ok()?;
        match kind {
            "REQ" => (1..=LAST_REQ).contains(&number).then_some(Self::Req(number)),
            "B" => {
                BEHAVIOURS.iter().any(|(a, b)| (*a..=*b).contains(&number)).then_some(Self::Behaviour(number))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Req(n) => write!(f, "REQ-{n:03}"),
            Self::Behaviour(n) => write!(f, "B-{n:03}"),
        }
    }
}

/// Every requirement, in order.
pub(crate) fn all() -> impl Iterator<Item = Requirement> {
    let behaviours = BEHAVIOURS.iter().flat_map(|(a, b)| (*a..=*b).map(Requirement::Behaviour));
    (1..=LAST_REQ).map(Requirement::Req).chain(behaviours)
}
