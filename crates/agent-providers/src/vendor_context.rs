//! What the vendor's servers do with long conversations: the check before a request, and the members of the body.

use agent_core::{ModelRequest, ProviderError};

#[cfg(any(feature = "anthropic", feature = "openai-responses"))]
use crate::json::Members;
use crate::request::refuse_setting;

/// Checks that the protocol has the settings of a request.
///
/// # Errors
/// Returns an error whose source is a [`VendorContextError`](agent_core::model::VendorContextError).
pub(crate) fn check(request: &ModelRequest) -> Result<(), ProviderError> {
    let Some(context) = &request.options.vendor_context else { return Ok(()) };
    context.check(request.model.api).map_err(|error| {
        let advice = error.advice();
        refuse_setting(&request.model, error, advice)
    })
}

/// Writes the member of Anthropic's API.
#[cfg(feature = "anthropic")]
pub(crate) fn write_edits(body: &mut Members<'_>, request: &ModelRequest) {
    let Some(context) = &request.options.vendor_context else { return };
    if !edits(request) {
        return;
    }
    let mut member = Members::open(body.key("context_management"));
    let out = member.key("edits");
    out.push(b'[');
    let start = out.len();
    if let Some(clear) = &context.clear_results {
        let mut edit = Members::open(&mut *out);
        edit.field("type", "clear_tool_uses_20250919");
        write_amount(&mut edit, "trigger", "input_tokens", clear.at);
        write_amount(&mut edit, "keep", "tool_uses", u64::from(clear.keep));
        if let Some(least) = clear.at_least {
            write_amount(&mut edit, "clear_at_least", "input_tokens", least);
        }
        if !clear.except.is_empty() {
            edit.field("exclude_tools", &clear.except);
        }
        edit.close();
    }
    if let Some(at) = context.compact_at {
        if out.len() > start {
            out.push(b',');
        }
        let mut edit = Members::open(&mut *out);
        edit.field("type", "compact_20260112");
        write_amount(&mut edit, "trigger", "input_tokens", at);
        if let Some(instructions) = context.instructions.as_ref().filter(|text| !text.trim().is_empty()) {
            edit.field("instructions", instructions);
        }
        edit.close();
    }
    out.push(b']');
    member.close();
}

#[cfg(feature = "anthropic")]
fn write_amount(edit: &mut Members<'_>, name: &'static str, unit: &str, value: u64) {
    let mut amount = Members::open(edit.key(name));
    amount.field("type", unit).field("value", &value);
    amount.close();
}

/// The beta headers that a request to Anthropic's API needs.
#[cfg(feature = "anthropic")]
pub(crate) fn betas(request: &ModelRequest) -> impl Iterator<Item = &'static str> {
    let context = request.options.vendor_context.as_ref();
    let compacts = context.is_some_and(|context| context.compact_at.is_some());
    let edits = edits(request);
    [("context-management-2025-06-27", edits), ("compact-2026-01-12", compacts)]
        .into_iter()
        .filter_map(|(beta, needs)| needs.then_some(beta))
}

#[cfg(feature = "anthropic")]
fn edits(request: &ModelRequest) -> bool {
    let context = request.options.vendor_context.as_ref();
    context.is_some_and(|context| context.compact_at.is_some() || context.clear_results.is_some())
}

/// Writes the member of the Responses API.
#[cfg(feature = "openai-responses")]
pub(crate) fn write_threshold(body: &mut Members<'_>, request: &ModelRequest) {
    let Some(at) = request.options.vendor_context.as_ref().and_then(|context| context.compact_at) else {
        return;
    };
    let out = body.key("context_management");
    out.push(b'[');
    let mut entry = Members::open(out);
    entry.field("type", "compaction").field("compact_threshold", &at);
    entry.close();
    out.push(b']');
}
