//! The change that an edit would make, before it is made.

use std::time::Duration;

use looptree::Question;
use looptree::tools::Workspace;
use looptree::tools::planned_change::PlannedChange;

/// The time that a question waits for its preview.
const PATIENCE: Duration = Duration::from_millis(200);

/// What a question shows besides the call.
#[derive(Debug)]
pub(crate) enum Preview {
    /// The call makes this change, and the difference is complete.
    Change(Box<PlannedChange>),
    /// The call is not the change of one file, or would fail.
    Nothing,
    /// The change is too large to be shown, for this reason. The question shows the whole call.
    Cut(&'static str),
}

/// Returns the change that the call of a question would make, as the tool itself computes it, within [`PATIENCE`].
pub(crate) async fn preview(workspace: &Workspace, question: &Question) -> Preview {
    let Some(view) = question.approval().filter(|_| question.budget.is_none()) else {
        return Preview::Nothing;
    };
    let workspace = workspace.clone();
    let planning = tokio::task::spawn_blocking(move || {
        PlannedChange::new(&workspace, view.tool.as_str(), &view.arguments)
    });
    match tokio::time::timeout(PATIENCE, planning).await {
        Ok(Ok(Some(plan))) if plan.change.truncated => Preview::Cut("the difference is too long"),
        Ok(Ok(Some(plan))) => Preview::Change(Box::new(plan)),
        Ok(_) => Preview::Nothing,
        Err(_) => Preview::Cut("comparing the files takes too long"),
    }
}

impl Preview {
    /// Returns the line about a preview that was cut.
    pub(crate) fn note(&self) -> Option<String> {
        match self {
            Self::Cut(why) => {
                Some(format!("The preview of the change was cut: {why}. This is the whole call."))
            }
            Self::Change(_) | Self::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests;
