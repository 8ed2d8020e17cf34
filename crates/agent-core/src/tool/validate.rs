//! Checking arguments against a tool's schema before the call (D26, B-086..B-088).
//!
//! The check is kind: what a model plainly meant is put right (`"42"` where a number is wanted, one value where a
//! list of them is, null for an optional), all that is wrong is listed with its place, and the text is made for the
//! model to do better. The transcript keeps what the model sent.
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

/// The most problems that are listed.
pub const MAX_ARGUMENT_ERRORS: usize = 32;

/// The most bytes of a received value, or of a place, that one error keeps.
const MAX_VALUE_SHOWN: usize = 200;

/// Checks the arguments of a call against the schema of its tool, and puts right what can be.
pub trait ArgumentValidator: Send + Sync + fmt::Debug {
    /// The arguments as the tool gets them.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    fn validate(&self, schema: &Value, arguments: Value) -> Result<Value, ArgumentErrors>;
}

/// The default [`ArgumentValidator`].
///
/// It knows `type` (also a list of types), `enum`, `const`, `required`, `properties`, `additionalProperties`,
/// `items`, `prefixItems`, `minItems`, `maxItems`, `minLength`, `maxLength`, the five number bounds, `anyOf`,
/// `oneOf`, `allOf`, `nullable` and `$ref` within the schema. What it does not know, `pattern` and `format` among
/// it, it does not check: a tool checks its own input anyway. Neither a schema nor arguments can make it panic or
/// run for long; what lies deeper than 64 levels, or beyond a million steps, is not checked.
#[derive(Debug, Clone, Copy, Default)]
pub struct SchemaValidator;

impl ArgumentValidator for SchemaValidator {
    fn validate(&self, schema: &Value, arguments: Value) -> Result<Value, ArgumentErrors> {
        walk::validated(schema, arguments)
    }
}

/// One thing that is wrong with arguments.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ArgumentError {
    /// Where: `days`, `filter.tags[2]`, or `(root)`.
    pub path: String,
    /// What: `must be <= 14`.
    pub reason: String,
    /// The value there; null when there is none. It is cut when it is long.
    pub received: Value,
}

impl ArgumentError {
    /// What is wrong with the value at a place, for validators of one's own.
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

/// Everything that is wrong with arguments, and the arguments. Its text is for the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ArgumentErrors {
    errors: Vec<ArgumentError>,
    more: usize,
    received: String,
}

impl ArgumentErrors {
    /// Errors about these arguments. At most [`MAX_ARGUMENT_ERRORS`] are kept; the others are counted.
    #[must_use]
    pub fn new(mut errors: Vec<ArgumentError>, arguments: &Value) -> Self {
        let more = errors.len().saturating_sub(MAX_ARGUMENT_ERRORS);
        errors.truncate(MAX_ARGUMENT_ERRORS);
        Self { errors, more, received: shown(&arguments.to_string(), MAX_ARGUMENTS_SHOWN) }
    }

    /// The errors, at most [`MAX_ARGUMENT_ERRORS`] of them.
    #[must_use]
    pub fn errors(&self) -> &[ArgumentError] {
        &self.errors
    }

    /// The arguments as JSON text, at most [`MAX_ARGUMENTS_SHOWN`] bytes of it.
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

/// A text cut to `most` bytes.
fn shown(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let cut = text.get(..text.floor_char_boundary(most)).unwrap_or_default();
    format!("{cut}… ({} bytes)", text.len())
}
