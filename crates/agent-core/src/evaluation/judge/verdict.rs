//! What the judge says.

/// How much of an unreadable reply is shown.
const SHOWN_CHARS: usize = 80;

/// The place, from 0, of the first number in the reply that names one of `candidates` responses (D29).
///
/// # Errors
/// Why there is no such number.
pub(super) fn read(reply: &str, candidates: usize) -> Result<usize, String> {
    let numbers = reply.split(|c: char| !c.is_ascii_digit()).filter_map(|run| run.parse::<usize>().ok());
    let mut places = numbers.filter(|n| (1..=candidates).contains(n)).filter_map(|n| n.checked_sub(1));
    places.next().ok_or_else(|| {
        let shown: String = reply.trim().chars().take(SHOWN_CHARS).collect();
        format!("the judge's reply holds no number from 1 to {candidates}: {shown:?}")
    })
}
