//! The arguments of hooks.

use serde_json::Value;

use crate::event::ToolExecutionEnd;
use crate::history::{History, MessageRef};
use crate::identity::{LoopId, StepKey};
use crate::message::{ToolCall, Usage};
use crate::tool::ToolResult;

/// The argument of `before_loop` hooks.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoopInfo {
    /// The id of the loop.
    pub loop_id: LoopId,
    /// The conversation without the prompts of this run.
    pub history: History,
}

/// The argument of `before_turn` hooks.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TurnInfo {
    /// The id of the loop.
    pub loop_id: LoopId,
    /// The conversation at the start of the turn.
    pub history: History,
    /// The index of the turn in the loop, from 0.
    pub index: u32,
}

/// The argument of `after_turn` hooks.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TurnEnded {
    /// The id of the loop.
    pub loop_id: LoopId,
    /// The conversation at the end of the turn.
    pub history: History,
    /// The reply of the model; `None` if the turn ended before there was one.
    pub message: Option<MessageRef>,
    /// The results of the reply's tool calls, in the order of the calls.
    pub tool_results: Vec<MessageRef>,
    /// The tokens used in this turn.
    pub usage: Usage,
}

/// The argument of `before_tool` hooks.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolCallInfo {
    /// The id of the loop.
    pub loop_id: LoopId,
    /// The key of the call, which stays the same when the run is resumed.
    pub step_key: StepKey,
    /// The call as the model sent it.
    pub call: ToolCall,
    /// The arguments that the tool will receive, after the changes of earlier hooks.
    pub arguments: Value,
    /// The arguments with resolved paths, as the tool [reports](crate::AgentTool::resolved_arguments) them. `None` if no
    /// argument is a path.
    pub resolved_arguments: Option<Value>,
    /// The effects that the tool declares for these arguments.
    pub effects: crate::tool::Effects,
    /// The conversation before the reply that contains the call.
    pub history: History,
}

/// The argument of `before_tool_update` and `after_tool_update` hooks.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolUpdateInfo {
    /// The id of the loop.
    pub loop_id: LoopId,
    /// The call as the model sent it.
    pub call: ToolCall,
    /// The partial result so far.
    pub partial: ToolResult,
}

/// The argument of `after_tool` hooks.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolEnded {
    /// The call as the model sent it.
    pub call: ToolCall,
    /// The data of the call's `ToolExecutionEnd` event.
    pub end: Box<ToolExecutionEnd>,
}
