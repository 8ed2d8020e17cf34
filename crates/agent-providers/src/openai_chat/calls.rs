//! Assigns the pieces of a stream to tool calls.
//!
//! The `index` of a piece identifies its call. Some servers omit it, send ids late, change them or send none, repeat the
//! name with every piece, or give every complete call the index 0, with ids or without. The rules here cover all of these.
//! Arguments that arrive several times are joined here and read once by [`ToolArguments`](agent_core::ToolArguments).

use agent_core::provider::{MAX_REPLY_CALLS, ReplyLimit};
use agent_core::{EventSink, StreamEvent};
use serde::de::IgnoredAny;

use super::wire::Call;
use crate::call_ids::CallIds;

/// The initial capacity for the arguments of a call, in bytes. Most calls need no more.
const ARGUMENTS: usize = 128;

/// The signature of a call of a tool that takes a text, so that the call is sent back in its own form.
pub(super) const CUSTOM: &str = r#"{"type":"custom"}"#;

/// The calls of one reply.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: Vec<OpenCall>,
}

#[derive(Debug)]
struct OpenCall {
    wire: Option<u64>,
    block: u32,
    id: String,
    name: String,
    /// Whether the tool takes a text, which shows no end.
    is_text: bool,
    /// The arguments received so far, to distinguish a further piece from a further call.
    arguments: String,
}

/// The part of one call in one delta. Absent members are empty.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Piece<'p> {
    /// The number of the call that this piece belongs to, if the server sends it.
    pub(super) wire: Option<u64>,
    pub(super) id: &'p str,
    pub(super) name: &'p str,
    pub(super) arguments: &'p str,
    pub(super) signature: Option<&'p str>,
}

impl<'p> Piece<'p> {
    pub(super) fn of(call: &'p Call<'_>) -> Self {
        let (wire, id) = (call.index.map(|i| i.0), call.id.as_str());
        if let Some(custom) = call.custom.as_deref() {
            let (name, arguments) = (custom.name.as_str(), custom.input.as_str());
            // Only the first piece has the name, so the signature is complete after it.
            return Self { wire, id, name, arguments, signature: (!name.is_empty()).then_some(CUSTOM) };
        }
        let function = call.function.as_ref();
        let google = call.extra_content.as_ref().and_then(|e| e.get("google"));
        Self {
            wire,
            id,
            name: function.map_or("", |f| f.name.as_str()),
            arguments: function.map_or("", |f| &f.arguments.0),
            signature: google.and_then(|g| g.get("thought_signature")).and_then(|s| s.as_str()),
        }
    }
}

/// Whether a limit cut the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    Nowhere,
    /// Perhaps in a call. A call that is not whole has no end then.
    ByLimit,
}

impl OpenCall {
    fn is_whole(&self) -> bool {
        serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok()
    }

    fn has_only_empty_value(&self) -> bool {
        matches!(self.arguments.trim(), "{}" | "null" | "\"\"" | "[]")
    }

    /// Returns whether nothing of the call is missing, as far as its arguments show: no brace and no string is open.
    fn is_complete(&self) -> bool {
        let (mut depth, mut in_string, mut escaped) = (0_i64, false, false);
        for byte in self.arguments.bytes() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => depth -= 1,
                _ => {}
            }
        }
        self.is_text || (depth <= 0 && !in_string)
    }

    /// Returns whether a piece that names a tool, without an id that tells calls apart, begins another call.
    fn is_followed_by(&self, name: &str, arguments: &str) -> bool {
        if self.name.is_empty() || name.is_empty() {
            return false;
        }
        // The same tool again is the same call if its arguments are repeated, or were only announced.
        self.name != name
            || (!self.has_only_empty_value()
                && arguments.starts_with('{')
                && arguments != self.arguments
                && self.is_whole())
    }
}

impl Calls {
    /// Returns whether there is no call.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns whether the reply has calls and nothing of them is missing.
    pub(super) fn are_complete(&self) -> bool {
        !self.open.is_empty() && self.open.iter().all(OpenCall::is_complete)
    }

    /// Applies a piece. `next` is the index of the next block of the reply.
    ///
    /// # Errors
    /// Returns [`ReplyLimit::Calls`] if the piece begins a call and the reply has as many as it may have.
    pub(super) fn push(
        &mut self,
        piece: &Piece<'_>,
        next: &mut u32,
        sink: &mut EventSink<'_>,
    ) -> Result<(), ReplyLimit> {
        let Piece { wire, id, name, arguments, signature } = *piece;
        let at = match self.find(piece) {
            Some(at) => at,
            None if self.open.len() >= MAX_REPLY_CALLS => return Err(ReplyLimit::Calls),
            None => {
                sink(StreamEvent::ToolCallStart { index: *next, id, name });
                self.open.push(OpenCall {
                    wire,
                    block: *next,
                    id: id.to_owned(),
                    name: name.to_owned(),
                    is_text: signature == Some(CUSTOM),
                    arguments: String::new(),
                });
                *next += 1;
                self.open.len() - 1
            }
        };
        let Some(call) = self.open.get_mut(at) else { return Ok(()) };
        let late_id = call.id.is_empty() && !id.is_empty();
        let late_name = call.name.is_empty() && !name.is_empty();
        if late_id || late_name {
            if late_id {
                id.clone_into(&mut call.id);
            }
            if late_name {
                name.clone_into(&mut call.name);
            }
            sink(StreamEvent::ToolCallStart { index: call.block, id: &call.id, name: &call.name });
        }
        if !arguments.is_empty() {
            if call.arguments.is_empty() {
                call.arguments.reserve(ARGUMENTS);
            }
            call.arguments.push_str(arguments);
            sink(StreamEvent::ToolCallDelta { index: call.block, delta: arguments });
        }
        if let Some(signature) = signature {
            sink(StreamEvent::ToolCallSignature { index: call.block, delta: signature });
        }
        Ok(())
    }

    /// Returns the call to which a piece belongs, or `None` if it begins a new one.
    fn find(&self, piece: &Piece<'_>) -> Option<usize> {
        let Piece { wire, id, name, arguments, .. } = *piece;
        let other = |call: &OpenCall| !id.is_empty() && !call.id.is_empty() && call.id != id;
        if wire.is_some() {
            let at = self.open.iter().rposition(|c| c.wire == wire)?;
            let call = self.open.get(at)?;
            // A new id and a name after complete arguments begin the next call under the same index. Without ids to compare,
            // the name and the arguments decide.
            let begins = if id.is_empty() || call.id.is_empty() {
                call.is_followed_by(name, arguments)
            } else {
                other(call) && !name.is_empty() && call.is_whole()
            };
            return (!begins).then_some(at);
        }
        if !id.is_empty()
            && let Some(at) = self.open.iter().rposition(|c| c.id == id)
        {
            return Some(at);
        }
        let at = self.open.len().checked_sub(1)?;
        let call = self.open.get(at)?;
        let begins = if name.is_empty() {
            other(call)
        } else {
            let again = id.is_empty() && !call.has_only_empty_value() && arguments == call.arguments;
            !call.name.is_empty() && (call.name != name || other(call) || (!again && call.is_whole()))
        };
        (!begins).then_some(at)
    }

    /// Ends every call that may be whole. A call without an id gets a generated one.
    pub(super) fn end(&mut self, cut: Cut, ids: &mut CallIds, sink: &mut EventSink<'_>) {
        for call in self.open.drain(..) {
            if call.id.is_empty() {
                let id = ids.fresh();
                sink(StreamEvent::ToolCallStart { index: call.block, id: &id, name: &call.name });
            }
            if cut == Cut::Nowhere || call.is_whole() {
                sink(StreamEvent::BlockEnd { index: call.block });
            }
        }
    }
}
