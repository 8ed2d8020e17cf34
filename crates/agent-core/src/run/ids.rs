//! The ids of calls: each is there and is no other's.

use std::collections::BTreeSet;

use super::Run;
use crate::identity::{ToolCallId, stable_hash};
use crate::message::{AssistantMessage, Content};

impl Run {
    /// Call ids are made non-empty and unique in the whole history.
    pub(super) fn name_calls(&self, message: &mut AssistantMessage) {
        let mut seen = BTreeSet::new();
        let calls = message.content.iter_mut().filter_map(|c| match c {
            Content::ToolCall(call) => Some(call),
            _ => None,
        });
        let mut calls = calls.enumerate().peekable();
        while let Some((n, call)) = calls.next() {
            let mut salt = 0_u32;
            while call.id.as_str().trim().is_empty()
                || seen.contains(&call.id)
                || self.history.has_call(call.id.as_str())
            {
                let place = format!("{n}/{salt}");
                let key = self.model_key();
                let hash = stable_hash(&[self.setup.loop_id.as_str(), key.as_str(), &place]);
                call.id = ToolCallId::from(format!("call_{:012x}", hash >> 16));
                salt += 1;
            }
            if calls.peek().is_some() {
                seen.insert(call.id.clone());
            }
        }
    }
}
