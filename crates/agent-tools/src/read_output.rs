//! `read_output`: reads a part of a large output that another tool has truncated.
//!
//! ```
//! use agent_core::AgentTool;
//! use agent_tools::{OutputStore, ReadOutputTool};
//! let tool: &dyn AgentTool = &ReadOutputTool::new(OutputStore::new());
//! assert_eq!(tool.name(), "read_output");
//! ```

#[cfg(test)]
mod tests;

use agent_core::{Effects, Tool, ToolContext, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::OutputStore;
use crate::output_store::{OutputPage, OutputStoreError};

/// The number of bytes that one call returns if the model does not set a limit: 32 KiB.
pub const DEFAULT_PAGE_BYTES: usize = 32 * 1024;

/// The maximum number of bytes that one call returns: 256 KiB. A higher limit in the arguments is lowered to this one.
pub const MAX_PAGE_BYTES: usize = 256 * 1024;

/// The `read_output` tool, which reads stored outputs.
#[derive(Debug, Clone)]
pub struct ReadOutputTool {
    store: OutputStore,
}

impl ReadOutputTool {
    /// Creates a tool that reads outputs of this store, which must be the store of the tools that write to it.
    #[must_use]
    pub fn new(store: OutputStore) -> Self {
        Self { store }
    }
}

/// The arguments of `read_output`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(transform = crate::arguments::plain)]
#[non_exhaustive]
pub struct ReadOutputArgs {
    /// The key that the truncated result names, for example out-1
    pub key: String,
    /// The first byte to return, counted from 0; a negative offset counts from the end. Default: 0
    #[serde(default)]
    pub offset: i64,
    /// The maximum number of bytes to return
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
}

impl ReadOutputArgs {
    fn page_bytes(&self) -> Result<usize, ReadOutputError> {
        match self.limit {
            None => Ok(DEFAULT_PAGE_BYTES),
            Some(0) => Err(ReadOutputError::NoBytes),
            Some(limit) => Ok(usize::try_from(limit).unwrap_or(usize::MAX).min(MAX_PAGE_BYTES)),
        }
    }
}

/// The reason why no part of an output was returned. The texts are written for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadOutputError {
    /// The store has no such part.
    #[error(transparent)]
    Store(#[from] OutputStoreError),
    /// The limit is 0.
    #[error("limit must be at least 1")]
    NoBytes,
}

impl Tool for ReadOutputTool {
    const NAME: &'static str = "read_output";
    type Args = ReadOutputArgs;
    type Output = ToolResult;

    fn label(&self) -> &str {
        "Read Output"
    }

    fn prepare_arguments(&self, arguments: serde_json::Value) -> serde_json::Value {
        crate::arguments::without_blanks(arguments, &["limit", "offset"])
    }

    fn description(&self) -> &str {
        "Read a part of an earlier tool output that was too large to be returned whole. The truncated result names the \
         key. Offsets are in bytes."
    }

    fn parameters_schema(&self) -> Value {
        let mut schema = agent_core::argument_schema::<ReadOutputArgs>();
        if let Some(limit) = schema.pointer_mut("/properties/limit/description") {
            let range = format!("Default: {DEFAULT_PAGE_BYTES}, at most {MAX_PAGE_BYTES}");
            *limit = format!("{}. {range}", limit.as_str().unwrap_or_default()).into();
        }
        schema
    }

    fn effects(&self, _: &ReadOutputArgs) -> Effects {
        Effects::ReadOnly
    }

    async fn call(&self, args: ReadOutputArgs, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
        ctx.check_cancelled()?;
        let limit = args.page_bytes().map_err(|error| ToolError::InvalidArgs(error.to_string()))?;
        let page = self.store.read(&args.key, args.offset, limit).await.map_err(ReadOutputError::Store)?;
        Ok(result(&page))
    }
}

/// Returns the part with its position and the offset of the next one.
fn result(page: &OutputPage) -> ToolResult {
    let (start, end, output) = (page.start(), page.end(), page.output());
    let (kept, produced) = (output.kept_bytes(), output.produced_bytes());
    let next = match (page.is_last(), kept < produced) {
        (false, _) => format!("read on with offset {end}"),
        (true, false) if output.is_growing() => {
            format!("this is all so far, and more can follow: read on with offset {end}")
        }
        (true, false) => "this is the end".to_owned(),
        (true, true) => format!("this is the end of what is kept; {} more bytes are lost", produced - kept),
    };
    let text = format!("[{}: bytes {start} to {end} of {kept}; {next}]\n{}", output.key(), page.text());
    let mut details =
        json!({"key": output.key(), "start": start, "end": end, "kept": kept, "produced": produced});
    if let (true, Value::Object(fields)) = (output.is_growing(), &mut details) {
        fields.insert("running".to_owned(), json!(true));
    }
    ToolResult::text(text).with_details(details)
}
