//! The arguments of a tool call: the text that the model sent, and its JSON value.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::value_depth::{self, MAX_ARGUMENT_VALUES, has_more_values};

/// The maximum number of bytes of arguments that an error message quotes.
pub const MAX_ARGUMENTS_SHOWN: usize = 2_048;

/// The arguments of a tool call.
///
/// The text is stored as the model sent it and parsed at most once, on demand. An empty text means `{}`. A text that
/// is not JSON remains unchanged: the result of the call is an error that quotes it, and the call is never executed
/// with repaired arguments.
///
/// ```
/// use agent_core::ToolArguments;
/// let arguments = ToolArguments::from_text(r#"{ "city": "Oslo" }"#);
/// assert_eq!(arguments.value()?["city"], "Oslo");
/// assert_eq!(arguments.text(), r#"{ "city": "Oslo" }"#);
/// assert!(ToolArguments::from_text("{\"city\": \"Os").value().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone)]
pub struct ToolArguments {
    inner: Arc<Inner>,
}

struct Inner {
    text: Box<str>,
    value: OnceLock<Result<Value, Box<str>>>,
}

impl ToolArguments {
    /// Creates arguments from the text that a model sent.
    #[must_use]
    pub fn from_text(text: impl Into<Box<str>>) -> Self {
        Self { inner: Arc::new(Inner { text: text.into(), value: OnceLock::new() }) }
    }

    /// Returns the text as the model sent it. It may be empty.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.inner.text
    }

    /// Returns the text as JSON that can be sent again: `{}` if the model sent an empty text.
    #[must_use]
    pub fn json_text(&self) -> &str {
        if self.inner.text.trim().is_empty() { "{}" } else { &self.inner.text }
    }

    /// Returns the parsed value.
    ///
    /// # Errors
    /// Returns a description of the syntax error and its position if the text is not JSON, or an error if the value is
    /// nested deeper than [`MAX_VALUE_DEPTH`](crate::MAX_VALUE_DEPTH) or holds more than
    /// [`MAX_ARGUMENT_VALUES`](crate::MAX_ARGUMENT_VALUES) values.
    pub fn value(&self) -> Result<&Value, String> {
        let parsed = self.inner.value.get_or_init(|| {
            if has_more_values(self.json_text().as_bytes(), MAX_ARGUMENT_VALUES) {
                return Err(format!("there are more than {MAX_ARGUMENT_VALUES} values").into());
            }
            let value = serde_json::from_str(self.json_text()).map_err(|e| e.to_string().into_boxed_str())?;
            if value_depth::is_too_deep(&value) { Err(value_depth::too_deep().into()) } else { Ok(value) }
        });
        parsed.as_ref().map_err(ToString::to_string)
    }

    /// Returns whether the text is a JSON object, the only form that providers accept in a request.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.value().is_ok_and(Value::is_object)
    }
}

impl Default for ToolArguments {
    fn default() -> Self {
        Self::from_text("")
    }
}

impl From<Value> for ToolArguments {
    fn from(value: Value) -> Self {
        if value_depth::is_too_deep(&value) {
            value_depth::dismantle(value);
            return Self {
                inner: Arc::new(Inner {
                    text: "".into(),
                    value: OnceLock::from(Err(value_depth::too_deep().into())),
                }),
            };
        }
        let text = value.to_string().into_boxed_str();
        Self { inner: Arc::new(Inner { text, value: OnceLock::from(Ok(value)) }) }
    }
}

impl PartialEq for ToolArguments {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl fmt::Debug for ToolArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Displays the text as the model sent it.
impl fmt::Display for ToolArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Serializes as `arguments`, the value, or null if it is not JSON. Adds `argumentsText` only if the value does not
/// reproduce the text.
impl Serialize for ToolArguments {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.serialize_named(serializer, "argumentsText")
    }
}

impl ToolArguments {
    /// Serializes the arguments, with this name for the field that holds their text.
    pub(crate) fn serialize_named<S: Serializer>(
        &self,
        serializer: S,
        text_field: &str,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.value() {
            Ok(value) => {
                map.serialize_entry("arguments", value)?;
                // A null without the text would mean that the model sent nothing.
                if value.is_null() || !is_written_as(value, self.text()) {
                    map.serialize_entry(text_field, self.text())?;
                }
            }
            Err(_) => {
                map.serialize_entry("arguments", &())?;
                map.serialize_entry(text_field, self.text())?;
            }
        }
        map.end()
    }
}

/// Returns whether the value, serialized without spaces, equals this text.
fn is_written_as(value: &Value, text: &str) -> bool {
    /// The rest of a text that must still be matched. Writing anything else fails.
    struct Rest<'t>(&'t [u8]);

    impl std::io::Write for Rest<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.strip_prefix(bytes).ok_or(std::io::ErrorKind::InvalidData)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let mut rest = Rest(text.as_bytes());
    serde_json::to_writer(&mut rest, value).is_ok() && rest.0.is_empty()
}

impl<'de> Deserialize<'de> for ToolArguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire {
            arguments: Option<Value>,
            #[serde(alias = "arguments_text")]
            arguments_text: Option<String>,
        }
        let wire = Wire::deserialize(deserializer)?;
        Self::from_parts(wire.arguments, wire.arguments_text)
    }
}

impl ToolArguments {
    /// Creates arguments from their value and their text as they are written.
    pub(crate) fn from_parts<E: serde::de::Error>(
        value: Option<Value>,
        text: Option<String>,
    ) -> Result<Self, E> {
        match (text, value) {
            (Some(text), _) => Ok(Self::from_text(text)),
            (None, Some(value)) => Ok(Self::from(value)),
            (None, None) => Err(E::missing_field("arguments")),
        }
    }
}
