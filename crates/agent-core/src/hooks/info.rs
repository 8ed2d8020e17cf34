//! What hooks are told.

use serde_json::Value;

use crate::event::ToolExecutionEnd;
use crate::history::{History, MessageRef};
use crate::identity::{LoopId, StepKey};
use crate::message::{ToolCall, Usage};
use crate::tool::ToolResult;

/// What `before_loop` is told.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoopInfo {
    /// The loop.
    pub loop_id: LoopId,
    /// The conversation before the prompts.
    pub history: History,
}

/// What `before_turn` is told.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TurnInfo {
    /// The loop.
    pub loop_id: LoopId,
    /// The conversation.
    pub history: History,
    /// The turn's number, from 0.
    pub index: u32,
}

/// What `after_turn` is told.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TurnEnded {
    /// The loop.
    pub loop_id: LoopId,
    /// The conversation.
    pub history: History,
    /// The reply.
    pub message: Option<MessageRef>,
    /// Its results.
    pub tool_results: Vec<MessageRef>,
    /// Tokens of the turn.
    pub usage: Usage,
}

/// What `before_tool` is told.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolCallInfo {
    /// The loop.
    pub loop_id: LoopId,
    /// The call's stable name.
    pub step_key: StepKey,
    /// The call, as the model sent it.
    pub call: ToolCall,
    /// The arguments as the tool will get them.
    pub arguments: Value,
    /// What it does to the world.
    pub effects: crate::tool::Effects,
    /// The conversation before the reply that holds the call.
    pub history: History,
}

/// What the update hooks are told.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolUpdateInfo {
    /// The loop.
    pub loop_id: LoopId,
    /// The call.
    pub call: ToolCall,
    /// What the tool has so far.
    pub partial: ToolResult,
}

/// What `after_tool` is told.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolEnded {
    /// The call.
    pub call: ToolCall,
    /// How it ended.
    pub end: Box<ToolExecutionEnd>,
}
