//! `background`: lists and ends the work in the background.

use std::fmt::Write as _;

use agent_core::{Effects, Environment, Tool, ToolContext, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{BackgroundWork, WorkInfo, WorkState};

/// The tool `background`, with which a model lists and ends its work in the background.
#[derive(Debug, Clone)]
pub struct BackgroundTool {
    work: BackgroundWork,
}

impl BackgroundTool {
    /// Creates the tool for this work.
    #[must_use]
    pub fn new(work: BackgroundWork) -> Self {
        Self { work }
    }
}

/// What the tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BackgroundAction {
    /// Lists the work that runs and that has ended.
    List,
    /// Ends the work `id`.
    Kill,
}

/// The arguments of `background`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(transform = crate::arguments::plain)]
#[non_exhaustive]
pub struct BackgroundArgs {
    /// list: show the work in the background; kill: end the work with this id
    pub action: BackgroundAction,
    /// The id of the work, for example bg-3f9a01-1; only for kill
    pub id: Option<String>,
}

impl Tool for BackgroundTool {
    const NAME: &'static str = "background";
    type Args = BackgroundArgs;
    type Output = ToolResult;

    fn label(&self) -> &str {
        "Background Work"
    }

    fn description(&self) -> &str {
        "List the commands and tasks that you started in the background, or end one of them. The end of each is reported \
         to you in a message, so do not list them again and again to wait for it."
    }

    fn effects(&self, args: &BackgroundArgs) -> Effects {
        match args.action {
            BackgroundAction::List => Effects::ReadOnly,
            BackgroundAction::Kill => Effects::Idempotent,
        }
    }

    async fn call(&self, args: BackgroundArgs, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
        ctx.check_cancelled()?;
        match (args.action, args.id) {
            (BackgroundAction::List, _) => Ok(listing(&self.work.list(), &*ctx.environment)),
            (BackgroundAction::Kill, None) => {
                Err(ToolError::InvalidArgs("kill needs the id of the work".to_owned()))
            }
            (BackgroundAction::Kill, Some(id)) => {
                self.work.kill(&id)?;
                Ok(ToolResult::text(format!("{id} is being ended. Its result comes in a later message.")))
            }
        }
    }
}

/// Returns the list as text, one line for each work, and as details.
fn listing(works: &[WorkInfo], environment: &dyn Environment) -> ToolResult {
    let mut text = String::new();
    for work in works {
        let until = work.ended.unwrap_or_else(|| environment.now());
        let seconds = until.0.saturating_sub(work.started.0) / 1000;
        let state = work.state.name();
        let title = work.title.split_whitespace().collect::<Vec<_>>().join(" ");
        let WorkInfo { id, tool, output_key, .. } = work;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{id}: {state}, {seconds} s, output {output_key}, {tool}: {title}");
    }
    if text.is_empty() {
        text.push_str("There is no work in the background.");
    }
    let running = works.iter().filter(|work| work.state == WorkState::Running).count();
    ToolResult::text(text).with_details(json!({
        "running": running,
        "works": works.iter().map(details).collect::<Vec<_>>(),
    }))
}

fn details(work: &WorkInfo) -> Value {
    json!({
        "id": work.id,
        "tool": work.tool,
        "title": work.title,
        "call": work.call,
        "output_key": work.output_key,
        "started": work.started,
        "ended": work.ended,
        "state": work.state.name(),
    })
}
