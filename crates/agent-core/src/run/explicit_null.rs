//! Serde helpers for optional JSON values in which null is a value and not its absence.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Deserializes any value, including null, as `Some`. For a field with `default` that is omitted when it is `None`.
pub(super) fn field<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Serializes as a list of at most one value, for positions where nothing can be omitted.
#[expect(clippy::ref_option, reason = "the form that serde calls")]
pub(super) fn serialize<S: Serializer>(value: &Option<Value>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_slice().serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Vec::<Value>::deserialize(deserializer).map(|mut list| list.pop())
}
