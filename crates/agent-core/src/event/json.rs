//! The JSON form of event fields whose types have another form in session files of version 1.

use crate::identity::TurnTrigger;

/// The cause of a turn: `user`, `sub_agent`, `continuation` or `branch`.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(remote = "TurnTrigger", rename_all = "snake_case")]
pub(super) enum Trigger {
    User,
    SubAgent,
    Continuation,
    Branch,
}

/// An answer: `{"type":"allow"}`, `{"type":"allow_with","arguments":..}`, `{"type":"raise","by":..}` or
/// `{"type":"deny","reason":".."}`.
pub(super) mod answer {
    use std::borrow::Cow;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    use crate::budget::Spending;
    use crate::event::Answer;

    #[derive(Serialize, Deserialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum Form<'a> {
        Allow,
        AllowWith { arguments: Cow<'a, Value> },
        Raise { by: Spending },
        Deny { reason: Cow<'a, str> },
    }

    pub(crate) fn serialize<S: Serializer>(answer: &Answer, serializer: S) -> Result<S::Ok, S::Error> {
        let form = match answer {
            Answer::Allow => Form::Allow,
            Answer::AllowWith(arguments) => Form::AllowWith { arguments: Cow::Borrowed(arguments) },
            Answer::Raise { by } => Form::Raise { by: *by },
            Answer::Deny { reason } => Form::Deny { reason: Cow::Borrowed(reason) },
        };
        form.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Answer, D::Error> {
        Ok(match Form::deserialize(deserializer)? {
            Form::Allow => Answer::Allow,
            Form::AllowWith { arguments } => Answer::AllowWith(arguments.into_owned()),
            Form::Raise { by } => Answer::Raise { by },
            Form::Deny { reason } => Answer::Deny { reason: reason.into_owned() },
        })
    }
}

/// Serializes the arguments of a call: `arguments`, and `arguments_text` where the value does not reproduce the text.
pub(super) fn arguments<S: serde::Serializer>(
    args: &crate::message::ToolArguments,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    args.serialize_named(serializer, "arguments_text")
}
