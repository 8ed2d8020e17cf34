//! What the server has of a conversation: the input of an earlier request and its reply.

use super::message::Body;

/// A reply that a later request can continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chain {
    /// The server's id of the reply.
    pub(super) response_id: String,
    /// The settings of the request.
    head: Vec<u8>,
    /// The input of the request and the items of the reply, as a later request contains them, without the closing bracket.
    known: Vec<u8>,
}

impl Chain {
    /// Returns the chain after a reply with these items; `None` if the request does not allow one.
    pub(super) fn after(body: &Body, response_id: String, reply: &[u8]) -> Option<Self> {
        let mut known = body.input.strip_suffix(b"]").filter(|_| body.continues)?.to_vec();
        if known.len() > 1 && !reply.is_empty() {
            known.push(b',');
        }
        known.extend_from_slice(reply);
        Some(Self { response_id, head: body.head.clone(), known })
    }

    /// Returns the items of a request that follow the reply; `None` if the request does not begin with everything that the
    /// server has, has other settings, or adds nothing.
    pub(super) fn new_items<'b>(&self, body: &'b Body) -> Option<&'b [u8]> {
        if !body.continues || body.head != self.head {
            return None;
        }
        let items = body.input.strip_prefix(&*self.known)?.strip_prefix(b",")?;
        items.strip_suffix(b"]").filter(|items| !items.is_empty())
    }

    /// Returns the size of what the server has, in bytes.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }
}
