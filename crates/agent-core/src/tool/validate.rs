//! Validates the arguments of a call against the schema of the tool before the call.
//!
//! Unambiguous mistakes of the model are corrected: `"42"` for a number, one value for a list of values, null for an
//! optional field. Everything else that is wrong is listed with its path, in a text that helps the model to correct the
//! call. The transcript retains the arguments as the model sent them.
//!
//! ```
//! use agent_core::{ArgumentValidator, SchemaValidator};
//! use serde_json::json;
//! let schema = json!({
//!     "type": "object",
//!     "properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 14}},
//!     "required": ["city"],
//! });
//! let fixed = SchemaValidator.validate(&schema, json!({"city": "Oslo", "days": "3"}))?;
//! assert_eq!(fixed, json!({"city": "Oslo", "days": 3}));
//!
//! let errors = SchemaValidator.validate(&schema, json!({"days": 30})).unwrap_err();
//! assert_eq!(errors.errors().len(), 2);
//! assert!(errors.to_string().contains("days: must be <= 14"));
//! # Ok::<(), agent_core::ArgumentErrors>(())
//! ```

mod checks;
mod coerce;
mod path;
mod walk;

#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

use crate::message::MAX_ARGUMENTS_SHOWN;
pub(crate) use coerce::unquoted;

/// The maximum number of errors that are listed.
pub const MAX_ARGUMENT_ERRORS: usize = 32;

/// The maximum size of a received value or a path in one error, in bytes.
const MAX_VALUE_SHOWN: usize = 200;

/// Validates the arguments of a call against the schema of its tool, and corrects unambiguous mistakes.
pub trait ArgumentValidator: Send + Sync + fmt::Debug {
    /// Returns the arguments for the tool, corrected where necessary.
    ///
    /// # Errors
    /// Returns all errors in the arguments.
    fn validate(&self, schema: &Value, arguments: Value) -> Result<Value, ArgumentErrors>;
}

/// The default [`ArgumentValidator`].
///
/// It supports `type` (also a list of types), `enum`, `const`, `required`, `properties`, `additionalProperties`,
/// `items`, `prefixItems`, `minItems`, `maxItems`, `minLength`, `maxLength`, the five number bounds, `anyOf`,
/// `oneOf`, `allOf`, `nullable` and `$ref` within the schema. It ignores other keywords, such as `pattern` and
/// `format`, because a tool checks its own input anyway. Neither a schema nor arguments can make it panic or run for
/// long: it does not check values below 64 levels or beyond a million steps.
#[derive(Debug, Clone, Copy, Default)]
pub struct SchemaValidator;

impl ArgumentValidator for SchemaValidator {
    fn validate(&self, schema: &Value, arguments: Value) -> Result<Value, ArgumentErrors> {
        walk::validated(schema, arguments)
    }
}

/// One error in the arguments of a call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ArgumentError {
    /// The path of the value: `days`, `filter.tags[2]`, or `(root)`.
    pub path: String,
    /// The reason, such as `must be <= 14`.
    pub reason: String,
    /// The received value, truncated if it is long; null if there is none.
    pub received: Value,
}

impl ArgumentError {
    /// Creates an error, for use in other validators.
    #[must_use]
    pub fn new(path: impl Into<String>, reason: impl Into<String>, received: Value) -> Self {
        Self { path: path.into(), reason: reason.into(), received }
    }
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

/// All errors in the arguments of a call, with the arguments. Its text is written for the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ArgumentErrors {
    errors: Vec<ArgumentError>,
    more: usize,
    received: String,
}

impl ArgumentErrors {
    /// Creates the errors of these arguments. At most [`MAX_ARGUMENT_ERRORS`] are retained; the others are counted.
    #[must_use]
    pub fn new(mut errors: Vec<ArgumentError>, arguments: &Value) -> Self {
        let more = errors.len().saturating_sub(MAX_ARGUMENT_ERRORS);
        errors.truncate(MAX_ARGUMENT_ERRORS);
        Self { errors, more, received: shown(&arguments.to_string(), MAX_ARGUMENTS_SHOWN) }
    }

    /// Returns the errors, at most [`MAX_ARGUMENT_ERRORS`].
    #[must_use]
    pub fn errors(&self) -> &[ArgumentError] {
        &self.errors
    }

    /// Returns the arguments as JSON text, truncated to [`MAX_ARGUMENTS_SHOWN`] bytes.
    #[must_use]
    pub fn received(&self) -> &str {
        &self.received
    }
}

impl fmt::Display for ArgumentErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("The arguments do not fit the tool's schema:\n")?;
        for error in &self.errors {
            writeln!(f, "- {error}")?;
        }
        if self.more > 0 {
            writeln!(f, "- and {} more", self.more)?;
        }
        write!(f, "Received: {}", self.received)
    }
}

impl std::error::Error for ArgumentErrors {}

/// Truncates a text to `most` bytes.
pub(crate) fn shown(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let cut = text.get(..text.floor_char_boundary(most)).unwrap_or_default();
    format!("{cut}… ({} bytes)", text.len())
}
