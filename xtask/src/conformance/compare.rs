//! What was wanted against what was found, field by field.

use agent_core::{ErrorKind, StopReason, ToolCall};

use super::manifest::ExpectedCall;
use super::play::{Found, FoundEnd};
use super::rules::{Signed, Wanted, WantedEnd};

/// The most characters of a value that a difference shows.
const SHOWN: usize = 160;

/// The first field in which the two differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) field: String,
    pub(super) wanted: String,
    pub(super) found: String,
}

/// What differs if a reply whose connection was lost before its end is taken for a whole one.
pub(super) fn difference_of_lost(found: &Found) -> Option<Difference> {
    let found = match &found.end {
        FoundEnd::Failed(..) => return None,
        FoundEnd::Complete(reason, _) => format!("complete: {reason:?}"),
        FoundEnd::Broken(how) => how.clone(),
    };
    Some(Difference { field: "end".to_owned(), wanted: "an error".to_owned(), found })
}

/// The first difference, or `None`.
pub(super) fn first_difference(wanted: &Wanted, found: &Found) -> Option<Difference> {
    end(&wanted.end, &found.end)
        .or_else(|| texts("text", &wanted.text, &found.text))
        .or_else(|| texts("thinking", &wanted.thinking, &found.thinking))
        .or_else(|| all_calls(wanted, found))
        .or_else(|| signatures(wanted, found))
        .or_else(|| list("redacted_thinking", wanted.redacted.as_ref(), &found.redacted))
        .or_else(|| server_items(wanted, found))
        .or_else(|| usage(wanted, found))
}

/// A library may list a call that a limit cut as a call. Ours announces no end of it, and it is never executed.
fn all_calls(wanted: &Wanted, found: &Found) -> Option<Difference> {
    let is_cut = matches!(found.end, FoundEnd::Complete(StopReason::Length, _));
    if is_cut && wanted.partial_calls.is_empty() {
        let every: Vec<_> = found.calls.iter().chain(&found.partial_calls).cloned().collect();
        return calls("tool_calls", &wanted.calls, &every, Strictness::Whole);
    }
    calls("tool_calls", &wanted.calls, &found.calls, Strictness::Whole).or_else(|| {
        calls("partial_tool_calls", &wanted.partial_calls, &found.partial_calls, Strictness::Begun)
    })
}

fn end(wanted: &WantedEnd, found: &FoundEnd) -> Option<Difference> {
    match (wanted, found) {
        (WantedEnd::Unmarked(..), FoundEnd::Failed(ErrorKind::Network, _)) => None,
        (
            WantedEnd::Complete(reason, sequence) | WantedEnd::Unmarked(reason, sequence),
            FoundEnd::Complete(found_reason, found_sequence),
        ) => {
            if reason != found_reason {
                return difference("stop", &format!("{reason:?}"), &format!("{found_reason:?}"));
            }
            let same = sequence.is_none() || sequence == found_sequence;
            if same {
                None
            } else {
                difference("stop_sequence", &format!("{sequence:?}"), &format!("{found_sequence:?}"))
            }
        }
        (WantedEnd::Failed(kind, text), FoundEnd::Failed(found_kind, found_text)) => {
            if kind != found_kind {
                return difference(
                    "error kind",
                    &format!("{kind:?}"),
                    &format!("{found_kind:?}: {found_text}"),
                );
            }
            let text = text.as_deref().unwrap_or_default();
            if found_text.contains(text) { None } else { difference("error text", text, found_text) }
        }
        (_, FoundEnd::Broken(why)) => difference("end", &format!("{wanted:?}"), why),
        _ => difference("end", &format!("{wanted:?}"), &format!("{found:?}")),
    }
}

fn texts(field: &str, wanted: &str, found: &str) -> Option<Difference> {
    if wanted == found {
        return None;
    }
    let same = wanted.chars().zip(found.chars()).take_while(|(a, b)| a == b).count();
    let around = |text: &str| {
        let part: String = text.chars().skip(same.saturating_sub(20)).take(SHOWN / 2).collect();
        format!("{part:?} ({} characters)", text.chars().count())
    };
    difference(&format!("{field} from character {same}"), &around(wanted), &around(found))
}

/// How much of a call must be alike.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    /// Id, name and arguments.
    Whole,
    /// Of a call that broke off: id, name, and the arguments' text where the SDK gives it.
    Begun,
}

fn calls(
    field: &str,
    wanted: &[ExpectedCall],
    found: &[ToolCall],
    strictness: Strictness,
) -> Option<Difference> {
    if wanted.len() != found.len() {
        let names: Vec<&str> = found.iter().map(|c| c.name.as_str()).collect();
        let wanted: Vec<&str> = wanted.iter().filter_map(|c| c.name.as_deref()).collect();
        return difference(
            field,
            &format!("{} {wanted:?}", wanted.len()),
            &format!("{} {names:?}", found.len()),
        );
    }
    wanted.iter().zip(found).enumerate().find_map(|(at, (wanted, found))| {
        call(wanted, found, strictness)
            .map(|d| Difference { field: format!("{field}[{at}].{}", d.field), ..d })
    })
}

fn call(wanted: &ExpectedCall, found: &ToolCall, strictness: Strictness) -> Option<Difference> {
    // Where the vendor sends no id, any generated one will do.
    if let Some(id) = wanted.id.as_deref().filter(|id| !id.is_empty() && found.id != **id) {
        return difference("id", id, found.id.as_str());
    }
    if let Some(name) = wanted.name.as_deref().filter(|name| found.name != **name) {
        return difference("name", name, found.name.as_str());
    }
    if let Some(raw) = &wanted.arguments_raw {
        return texts("arguments_raw", raw, found.arguments.text());
    }
    if strictness == Strictness::Begun {
        return None;
    }
    let value = found.arguments.value().cloned().unwrap_or_default();
    if value == wanted.arguments || (wanted.arguments.is_null() && found.arguments.text().trim().is_empty()) {
        return None;
    }
    difference("arguments", &wanted.arguments.to_string(), found.arguments.text())
}

fn list(field: &str, wanted: Option<&Vec<String>>, found: &[String]) -> Option<Difference> {
    let wanted = wanted?;
    if wanted.as_slice() == found {
        None
    } else {
        difference(field, &format!("{wanted:?}"), &format!("{found:?}"))
    }
}

/// The blocks that the SDK lists have to be among ours in their order. We keep more: reasoning without text, sources. In a
/// reply that failed, what had not ended may be missing.
fn server_items(wanted: &Wanted, found: &Found) -> Option<Difference> {
    let items = wanted.server_items.as_ref().filter(|_| matches!(wanted.end, WantedEnd::Complete(..)))?;
    let mut ours = found.server_items.iter().map(|item| snake_case(item));
    if items.iter().all(|item| ours.any(|our| our == snake_case(item))) {
        return None;
    }
    difference("server_items", &format!("{items:?}"), &format!("{:?}", found.server_items))
}

/// Google's SDK writes `executable_code` for the member `executableCode`.
fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

fn signatures(wanted: &Wanted, found: &Found) -> Option<Difference> {
    let field = "thinking_signatures";
    match wanted.signed {
        Signed::Thinking => list(field, wanted.signatures.as_ref(), &found.signatures),
        // The SDK reads both alphabets of base64 and writes one.
        Signed::EveryBlock => {
            let alike = |list: &Vec<String>| list.iter().map(|s| standard(s)).collect::<Vec<_>>();
            list(field, wanted.signatures.as_ref().map(alike).as_ref(), &alike(&found.all_signatures))
        }
    }
}

fn standard(signature: &str) -> String {
    signature.trim_end_matches('=').replace('-', "+").replace('_', "/")
}

fn usage(wanted: &Wanted, found: &Found) -> Option<Difference> {
    let pairs = [
        ("usage.input", wanted.usage.input, found.usage.input),
        ("usage.output", wanted.usage.output, found.usage.output),
        ("usage.cache_read", wanted.usage.cache_read, found.usage.cache_read),
        ("usage.cache_write", wanted.usage.cache_write, found.usage.cache_write),
        ("usage.reasoning", wanted.usage.reasoning, found.usage.reasoning),
    ];
    let differing = pairs.into_iter().find(|(_, wanted, found)| wanted.is_some_and(|w| w != *found));
    differing.and_then(|(field, wanted, found)| {
        difference(field, &wanted.unwrap_or_default().to_string(), &found.to_string())
    })
}

#[expect(clippy::unnecessary_wraps, reason = "every caller gives it back as it is")]
fn difference(field: &str, wanted: &str, found: &str) -> Option<Difference> {
    Some(Difference { field: field.to_owned(), wanted: shortened(wanted), found: shortened(found) })
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    let part: String = text.chars().take(SHOWN).collect();
    format!("{part}… ({} bytes)", text.len())
}
