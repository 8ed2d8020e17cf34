//! Optional values in JSON, where null is a value and not its absence.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Whatever is written there, null included, for a field with `default` that is left out when it is `None`.
pub(super) fn field<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// As a list of at most one value, where nothing can be left out.
#[expect(clippy::ref_option, reason = "the form that serde calls")]
pub(super) fn serialize<S: Serializer>(value: &Option<Value>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_slice().serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Vec::<Value>::deserialize(deserializer).map(|mut list| list.pop())
}
