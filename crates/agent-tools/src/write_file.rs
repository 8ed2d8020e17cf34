//! `write_file`: writes a whole file atomically.
//!
//! ```
//! use agent_core::{AgentTool, Effects};
//! use agent_tools::WriteFileTool;
//! // Writing the same content twice changes nothing, so a resumed run may repeat the call.
//! let arguments = serde_json::json!({"path": "a.txt", "content": "x"});
//! assert_eq!(AgentTool::effects(&WriteFileTool::default(), &arguments), Effects::Idempotent);
//! ```

use std::io::{self, Read as _};
use std::path::PathBuf;

use agent_core::{Effects, Tool, ToolContext, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::blocking::{interruptible, to_completion};
use crate::file_change::{Contents, FileChange, MAX_COMPARED_BYTES};
use crate::workspace::{FileLock, Intent, Place, ReadFileBytesError};
use crate::{PathError, Workspace};

/// The `write_file` tool. It creates missing folders, and replaces an existing file as a whole.
#[derive(Debug, Clone, Default)]
pub struct WriteFileTool {
    workspace: Workspace,
}

impl WriteFileTool {
    /// Creates a tool that writes files of this workspace.
    #[must_use]
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }
}

/// The arguments of `write_file`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(transform = crate::arguments::plain)]
#[non_exhaustive]
pub struct WriteFileArgs {
    /// The file to write
    pub path: String,
    /// The whole content of the file
    pub content: String,
}

/// The reason why a file was not written. The texts are written for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteFileError {
    /// The path was refused.
    #[error(transparent)]
    Path(#[from] PathError),
    /// Writing failed. An existing file is unchanged.
    #[error("Cannot write {path}: {source}")]
    Write {
        /// The path in the arguments.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl Tool for WriteFileTool {
    const NAME: &'static str = "write_file";
    type Args = WriteFileArgs;
    type Output = ToolResult;

    fn label(&self) -> &str {
        "Write File"
    }

    fn description(&self) -> &str {
        "Write a file. Creates missing folders and replaces an existing file as a whole. To change a part of a file, \
         use edit_file."
    }

    fn effects(&self, _: &WriteFileArgs) -> Effects {
        Effects::Idempotent
    }

    fn working_directory(&self) -> Option<PathBuf> {
        self.workspace.working_directory()
    }

    fn resolved_arguments(&self, arguments: &Value) -> Option<Value> {
        self.workspace.resolved_arguments(arguments)
    }

    async fn call(&self, args: WriteFileArgs, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
        ctx.check_cancelled()?;
        let (access, path) = (self.workspace.access(ctx), args.path.clone());
        let locate = move |_: &_| {
            // A diff shows what was in the file.
            let shows = access.locate(&path, Intent::Read).is_ok();
            access.locate(&path, Intent::Write).map(|place| (place, shows))
        };
        let (place, shows) = interruptible(ctx, None, locate).await??;
        let turn = tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => return Err(ToolError::Cancelled),
            turn = FileLock::enter(place.real()) => turn,
        };
        let cancel = ctx.cancel.clone();
        to_completion(move || {
            // Released when the work ends, even if the caller has stopped waiting for it.
            let _turn = turn;
            if cancel.is_cancelled() {
                return Err(ToolError::Cancelled);
            }
            let (path, bytes) = (args.path, args.content.len());
            let before = before(&place, shows);
            place.replace(args.content.as_bytes()).map_err(|error| match error {
                PathError::Access { path, source } => WriteFileError::Write { path, source },
                error => error.into(),
            })?;
            let text = format!("Wrote {bytes} bytes to {path}");
            let changes = [match before {
                Before::Missing => FileChange::between(&path, None, Some(args.content.as_bytes())),
                Before::Content(old) => FileChange::between(&path, Some(&old), Some(args.content.as_bytes())),
                Before::Unknown => FileChange::unseen(&path, args.content.as_bytes()),
            }];
            let details = json!({"path": path, "bytes": bytes, "changes": changes});
            Ok(ToolResult::text(text).with_details(details))
        })
        .await?
    }
}

/// Returns what a call would change in a file that can be compared; `None` if it would fail.
pub(crate) fn planned(workspace: &Workspace, arguments: &Value) -> Option<Contents> {
    let WriteFileArgs { path, content } = WriteFileArgs::deserialize(arguments).ok()?;
    workspace.place(&path, Intent::Write).ok()?;
    let before = match workspace.read_bytes(&path, MAX_COMPARED_BYTES as u64) {
        Ok(before) => Some(before),
        Err(ReadFileBytesError::Path(error)) if error.is_not_found() => None,
        Err(_) => return None,
    };
    Some((path, before, content.into_bytes()))
}

/// The content of a file before it is written.
enum Before {
    Missing,
    Content(Vec<u8>),
    /// The call may not read the file, or it is too large to compare.
    Unknown,
}

fn before(place: &Place, shows: bool) -> Before {
    match place.open_file() {
        Err(error) if error.is_not_found() => Before::Missing,
        Ok((file, bytes)) if shows && bytes <= MAX_COMPARED_BYTES as u64 => {
            let mut content = Vec::new();
            match file.take(MAX_COMPARED_BYTES as u64).read_to_end(&mut content) {
                Ok(_) => Before::Content(content),
                Err(_) => Before::Unknown,
            }
        }
        Ok(_) | Err(_) => Before::Unknown,
    }
}
