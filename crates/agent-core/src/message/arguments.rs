//! The arguments of a tool call: the text that the model sent, and its JSON value.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::value_depth::{self, MAX_ARGUMENT_VALUES, has_more_values};

mod nearly;

/// The maximum number of bytes of arguments that an error message quotes.
pub const MAX_ARGUMENTS_SHOWN: usize = 2_048;

/// The arguments of a tool call.
///
/// The text is stored as the model sent it and parsed at most once, on demand. An empty text means `{}`. A text that is
/// nearly JSON is read if it can mean only one thing, for example with single quotes or a raw line end in a string; the
/// text itself remains as the evidence. Any other text that is not JSON is not executed: the result of the call is an error
/// that quotes it.
///
/// ```
/// use agent_core::ToolArguments;
/// let arguments = ToolArguments::from_text("{'city': 'Oslo'}");
/// assert_eq!(arguments.value()?["city"], "Oslo");
/// assert_eq!(arguments.text(), "{'city': 'Oslo'}");
/// assert_eq!(arguments.object_text(), r#"{"city":"Oslo"}"#);
/// assert!(ToolArguments::from_text("{\"city\": \"Os").value().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone)]
pub struct ToolArguments {
    inner: Arc<Inner>,
}

struct Inner {
    text: Box<str>,
    reading: Reading,
    value: OnceLock<Result<Parsed, Box<str>>>,
}

/// How a text that is not JSON is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// As what it must mean.
    Nearly,
    /// Not at all, because a part of it is missing.
    Exact,
}

struct Parsed {
    value: Value,
    /// The value as JSON, if the text itself is not.
    json: Option<Box<str>>,
}

impl Inner {
    fn new(text: Box<str>, reading: Reading) -> Self {
        Self { text, reading, value: OnceLock::new() }
    }

    fn parse(&self) -> Result<Parsed, Box<str>> {
        let text = if self.text.trim().is_empty() { "{}" } else { &*self.text };
        if has_more_values(text.as_bytes(), MAX_ARGUMENT_VALUES) {
            return Err(format!("there are more than {MAX_ARGUMENT_VALUES} values").into());
        }
        let (value, json) = match serde_json::from_str(text) {
            Ok(value) => (value, None),
            Err(error) => {
                let json = (self.reading == Reading::Nearly).then(|| nearly::object(text)).flatten();
                let read = json.and_then(|json| Some((serde_json::from_str(&json).ok()?, json)));
                let (value, json) = read.ok_or_else(|| error.to_string().into_boxed_str())?;
                tracing::debug!(bytes = text.len(), "read arguments that are nearly JSON");
                (value, Some(json.into_boxed_str()))
            }
        };
        if value_depth::is_too_deep(&value) {
            return Err(value_depth::too_deep().into());
        }
        Ok(Parsed { value, json })
    }
}

impl ToolArguments {
    /// Creates arguments from the text that a model sent.
    #[must_use]
    pub fn from_text(text: impl Into<Box<str>>) -> Self {
        Self { inner: Arc::new(Inner::new(text.into(), Reading::Nearly)) }
    }

    /// Creates arguments from a text whose end is missing, because a limit cut the reply. Unless the text is JSON, it has no
    /// value.
    #[must_use]
    pub fn cut_short(text: impl Into<Box<str>>) -> Self {
        Self { inner: Arc::new(Inner::new(text.into(), Reading::Exact)) }
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
        self.parsed().map(|parsed| &parsed.value).map_err(ToString::to_string)
    }

    fn parsed(&self) -> Result<&Parsed, &str> {
        self.inner.value.get_or_init(|| self.inner.parse()).as_ref().map_err(|error| &**error)
    }

    /// Returns the arguments as the text of a JSON object, the only form that providers accept in a request: the text as the
    /// model sent it if it is one, and `{}` if it means none.
    #[must_use]
    pub fn object_text(&self) -> &str {
        match self.parsed() {
            Ok(Parsed { value: Value::Object(_), json }) => {
                json.as_deref().unwrap_or_else(|| self.json_text())
            }
            _ => "{}",
        }
    }

    /// Returns whether the value is a JSON object.
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
                    reading: Reading::Exact,
                    value: OnceLock::from(Err(value_depth::too_deep().into())),
                }),
            };
        }
        let text = value.to_string().into_boxed_str();
        let value = OnceLock::from(Ok(Parsed { value, json: None }));
        Self { inner: Arc::new(Inner { text, reading: Reading::Exact, value }) }
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
            // A text that had no value when it was written gets none later, so that the same bytes are sent again.
            (Some(text), None) => Ok(Self::cut_short(text)),
            (Some(text), Some(_)) => Ok(Self::from_text(text)),
            (None, Some(value)) => Ok(Self::from(value)),
            (None, None) => Err(E::missing_field("arguments")),
        }
    }
}
