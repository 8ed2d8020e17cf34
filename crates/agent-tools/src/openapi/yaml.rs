//! Parses a description in YAML within limits.

use serde::de::DeserializeSeed as _;
use serde_json::Value;

use super::error::OpenApiError;
use super::{MAX_SPEC_BYTES, MAX_SPEC_VALUES};
use crate::yaml::{Budget, Limit, Tree, is_affordable, merged};

/// The number of values that every text may have, however short it is.
const FREE_VALUES: usize = 50_000;

/// The maximum product of open brackets and the length of the text.
const MAX_WORK: usize = 500_000_000;

/// Parses a YAML text.
///
/// # Errors
/// Returns an error if the text is not valid YAML or if it exceeds a limit, before or after its aliases are expanded.
pub(super) fn parse(text: &str) -> Result<Value, OpenApiError> {
    if !is_affordable(text, MAX_WORK) {
        return Err(OpenApiError::TooDeep);
    }
    if has_too_many_parts(text) {
        return Err(OpenApiError::TooManyValues { limit: MAX_SPEC_VALUES });
    }
    // Only aliases make more values than the text has bytes.
    let limit = text.len().clamp(FREE_VALUES, MAX_SPEC_VALUES);
    let mut budget = Budget::new(limit, MAX_SPEC_BYTES);
    let parsed = Tree(&mut budget).deserialize(yaml_serde::Deserializer::from_str(text));
    match budget.exceeded() {
        Some(Limit::Values) => return Err(OpenApiError::TooManyValues { limit }),
        Some(Limit::Bytes) => return Err(OpenApiError::TooLarge { limit: MAX_SPEC_BYTES }),
        None => {}
    }
    let value = parsed.map_err(|source| OpenApiError::Yaml { source })?;
    // Merge keys are a feature of YAML 1.1 that is still in use.
    if text.contains("<<:") {
        return merged(value).map_err(|source| OpenApiError::Yaml { source });
    }
    Ok(value)
}

/// Returns whether the library would need too much memory for the text, which it splits into parts before it builds any
/// value. Each part is near a line end, a comma, a bracket or an indicator. Those in texts count as well, so twice the
/// number of values is allowed.
fn has_too_many_parts(text: &str) -> bool {
    let bytes = text.as_bytes();
    let marks = bytes.iter().filter(|byte| b"\n\r,[{".contains(byte)).count();
    let indicators = bytes.windows(2).filter(|pair| matches!(pair, [b'-' | b'?', b' ' | b'\t'])).count();
    marks.saturating_add(indicators) > 2 * MAX_SPEC_VALUES
}
