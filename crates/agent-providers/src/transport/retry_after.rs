//! Parses the delay that a server asks for: `retry-after-ms`, `retry-after` in whole or fractional seconds or as a date,
//! `x-ratelimit-reset-*`, or the words of its error.

use std::time::Duration;

use http::HeaderMap;

/// Returns the wait that the response requests, if any. `now` is called only if the wait is a date and the response has no
/// `date` header to compare it with.
pub(super) fn read(headers: &HeaderMap, now: impl FnOnce() -> u64) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::trim);
    let number = |name: &str| text(name).and_then(|t| t.parse::<f64>().ok()).filter(|n| *n >= 0.0);
    // A delay of 0 says nothing: the same server refuses the next request as well.
    let asked = number("retry-after-ms").map(|ms| ms / 1_000.0).or_else(|| number("retry-after"));
    if let Some(seconds) = asked.filter(|seconds| *seconds > 0.0) {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let now = std::cell::LazyCell::new(|| text("date").and_then(date).unwrap_or_else(now));
    if let Some(until) = text("retry-after").and_then(date) {
        return until.checked_sub(*now).filter(|s| *s > 0).map(Duration::from_secs);
    }
    // The limit that was reached is the one with nothing left.
    let is_spent = |limit: &str| number(&format!("x-ratelimit-remaining-{limit}")).is_some_and(|n| n < 1.0);
    let resets = ["requests", "tokens"]
        .iter()
        .filter(|limit| is_spent(limit))
        .filter_map(|limit| reset(text(&format!("x-ratelimit-reset-{limit}"))?, &now));
    resets.max().or_else(|| reset(text("x-ratelimit-reset")?, &now))
}

/// Returns the wait until a limit is reset: a duration, a number of seconds, or a Unix time in seconds or milliseconds.
fn reset(text: &str, now: &u64) -> Option<Duration> {
    const SECONDS_OF_2001: f64 = 1e9;
    const MILLISECONDS_OF_2001: f64 = 1e12;
    let Ok(number) = text.parse::<f64>() else { return duration(text) };
    #[expect(clippy::cast_precision_loss, reason = "a Unix time in seconds fits a double exactly")]
    let wait = match number {
        n if n >= MILLISECONDS_OF_2001 => n / 1_000.0 - *now as f64,
        n if n >= SECONDS_OF_2001 => n - *now as f64,
        n => n,
    };
    Duration::try_from_secs_f64(wait).ok().filter(|wait| !wait.is_zero() && *wait <= MAX_WAIT)
}

/// The words before the duration that an error requests.
const WAITS: &[&str] = &["try again in ", "retry after ", "retry in "];

/// The longest wait that is read from a text; more is no wait but a mistake.
const MAX_WAIT: Duration = Duration::from_secs(86_400);

/// Returns the wait that the text of an error requests.
pub(crate) fn in_text(text: &str) -> Option<Duration> {
    let text = text.to_lowercase();
    WAITS.iter().find_map(|words| duration(text.split_once(words)?.1))
}

/// Returns the duration at the beginning of a text, such as `9.5s`, `1m26.5s`, `350ms` or `20 seconds`.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut wait: Option<f64> = None;
    while rest.starts_with(|c: char| c.is_ascii_digit()) {
        let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let (number, unit) = rest.split_at_checked(number)?;
        let unit = unit.trim_start();
        let seconds = match unit {
            _ if unit.starts_with("ms") || unit.starts_with("milli") => 0.001,
            _ if unit.starts_with('s') => 1.0,
            _ if unit.starts_with('m') => 60.0,
            _ if unit.starts_with('h') => 3_600.0,
            _ => break,
        };
        wait = Some(wait.unwrap_or(0.0) + number.parse::<f64>().ok()? * seconds);
        rest = unit.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    }
    Duration::try_from_secs_f64(wait?).ok().filter(|wait| *wait <= MAX_WAIT)
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns the Unix time, in seconds, of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`, the only form that servers may send.
pub(super) fn date(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once(", ")?;
    let mut parts = rest.split(' ');
    let day: u64 = parts.next()?.parse().ok().filter(|d| (1..=31).contains(d))?;
    let name = parts.next()?;
    let month = 1 + u64::try_from(MONTHS.iter().position(|m| *m == name)?).ok()?;
    let year: u64 = parts.next()?.parse().ok().filter(|y| (1970..=9999).contains(y))?;
    let mut clock = parts.next()?.split(':').map(|n| n.parse::<u64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if parts.next()? != "GMT" || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Counts days from 1970 in years that begin in March, so that a leap day is the last day of its year.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_year = (153 * m + 2) / 5 + day - 1;
    let days = (365 * y + y / 4 - y / 100 + y / 400 + of_year).checked_sub(719_468)?;
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second)
}
