//! Parses the verdict of the judge.

/// The maximum number of characters of an invalid reply that the error quotes.
const SHOWN_CHARS: usize = 80;

/// Words that may precede the number in a line of its own, such as `Verdict: 2`.
const LABELS: [&str; 7] = ["answer", "best", "choice", "option", "response", "verdict", "winner"];

/// Returns the index, from 0, of the response that the judge selects among `candidates`.
///
/// These rules apply in order: the last line consists of one number, optionally after a label; the reply names only
/// one response as `Response n`; the reply contains only one number in range. Repetitions of the same number count
/// once.
///
/// # Errors
/// Returns a description of the problem if the reply selects no response, or is ambiguous.
pub(super) fn read(reply: &str, candidates: usize) -> Result<usize, String> {
    let in_range = |n: &usize| (1..=candidates).contains(n);
    let last_line = reply.lines().rev().map(str::trim).find(|line| !line.is_empty());
    if let Some(number) = last_line.and_then(lone_number).filter(in_range) {
        return Ok(number.saturating_sub(1));
    }
    let named = distinct(named_responses(reply).into_iter().filter(in_range));
    let numbers = distinct(numbers(reply).filter(in_range));
    match (named.as_slice(), numbers.as_slice()) {
        ([number], _) | ([], [number]) => Ok(number.saturating_sub(1)),
        ([], []) => {
            Err(format!("the judge's reply contains no number from 1 to {candidates}: {:?}", shown(reply)))
        }
        _ => Err(format!("the judge's reply names several responses: {:?}", shown(reply))),
    }
}

/// Returns the number of a line that contains nothing else but labels and punctuation.
fn lone_number(line: &str) -> Option<usize> {
    let mut words = line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).peekable();
    while words.next_if(|word| is_label(word)).is_some() {}
    let number = words.next().filter(|word| word.bytes().all(|b| b.is_ascii_digit()))?;
    if words.next().is_some() { None } else { number.parse().ok() }
}

fn is_label(word: &str) -> bool {
    LABELS.iter().any(|label| word.eq_ignore_ascii_case(label))
}

/// Returns the numbers that follow the word `response`.
fn named_responses(reply: &str) -> Vec<usize> {
    let words: Vec<&str> =
        reply.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let pairs = words.iter().zip(words.iter().skip(1));
    pairs
        .filter(|(label, _)| label.eq_ignore_ascii_case("response"))
        .filter_map(|(_, number)| number.parse().ok())
        .collect()
}

fn numbers(reply: &str) -> impl Iterator<Item = usize> {
    reply.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok())
}

fn distinct(numbers: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut numbers: Vec<usize> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Returns the beginning of the reply for an error message.
fn shown(reply: &str) -> String {
    reply.trim().chars().take(SHOWN_CHARS).collect()
}
