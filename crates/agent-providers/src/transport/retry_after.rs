//! Parses the delay that a server asks for: `retry-after-ms`, or `retry-after` in whole or fractional seconds or as a
//! date.

use std::time::Duration;

use http::HeaderMap;

/// Returns the wait that the response requests, if any. `now` is called only if the wait is a date and the response has no
/// `date` header to compare it with.
pub(super) fn read(headers: &HeaderMap, now: impl FnOnce() -> u64) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::trim);
    let number = |name: &str| text(name).and_then(|t| t.parse::<f64>().ok()).filter(|n| *n >= 0.0);
    if let Some(ms) = number("retry-after-ms") {
        return Duration::try_from_secs_f64(ms / 1_000.0).ok();
    }
    if let Some(seconds) = number("retry-after") {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = date(text("retry-after")?)?;
    let from = text("date").and_then(date).unwrap_or_else(now);
    until.checked_sub(from).filter(|s| *s > 0).map(Duration::from_secs)
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
