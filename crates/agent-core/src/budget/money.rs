//! Amounts of money without rounding errors.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The number of micro-units in one unit.
const UNIT: u64 = 1_000_000;

/// The number of significant decimal places.
const DIGITS: usize = 6;

/// An amount of money in whole micro-units of the currency of the prices, for example millionths of a dollar.
///
/// ```
/// use agent_core::Money;
/// let half: Money = "0.50".parse()?;
/// assert_eq!(half, Money::from_micros(500_000));
/// assert_eq!((half.to_string(), Money::from_micros(1_234).to_string()), ("0.50".into(), "0.001234".into()));
/// # Ok::<(), agent_core::MoneyError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Money(u64);

impl Money {
    /// The amount of zero.
    pub const ZERO: Self = Self(0);

    /// Creates an amount from micro-units.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Returns the amount in micro-units.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.0
    }
}

/// Formats with two decimal places, or more if needed.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / UNIT, self.0 % UNIT);
        let digits = format!("{rest:06}");
        let short = digits.trim_end_matches('0');
        write!(f, "{whole}.{short:0<2}")
    }
}

/// The error of a text that is not an amount of money.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an amount of money; write it like 0.50, with at most six decimal places")]
pub struct MoneyError {
    /// The text that was parsed.
    pub text: String,
}

/// Parses digits with at most six decimal places.
impl FromStr for Money {
    type Err = MoneyError;

    fn from_str(text: &str) -> Result<Self, MoneyError> {
        let refuse = || MoneyError { text: text.chars().take(40).collect() };
        let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(rest) || rest.len() > DIGITS || (whole.is_empty() && rest.is_empty()) {
            return Err(refuse());
        }
        let number = |part: &str| if part.is_empty() { Ok(0) } else { part.parse::<u64>() };
        let whole = number(whole).map_err(|_| refuse())?.checked_mul(UNIT).ok_or_else(refuse)?;
        let rest = number(&format!("{rest:0<6}")).map_err(|_| refuse())?;
        whole.checked_add(rest).map(Self).ok_or_else(refuse)
    }
}
