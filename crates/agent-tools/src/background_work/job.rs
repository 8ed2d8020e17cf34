//! One work: its place in the list, its task and its end.

use std::sync::{Arc, Weak};
use std::time::Duration;

use agent_core::identity::DeferredHandle;
use agent_core::{BoxFuture, CancellationToken, ToolContext, ToolError, ToolResult};
use serde_json::{Value, json};

use super::{BackgroundError, BackgroundWork, MAX_LISTED, Shared, TITLE_BYTES, Work, WorkInfo, WorkState};
use crate::output_store::LiveOutput;
use crate::text;

/// The prefix of all handles, by which a later process recognizes the calls of an earlier one.
pub(super) const HANDLE_PREFIX: &str = "bg-";

/// The number of characters of the part of a handle that differs from process to process.
const TAG_CHARS: usize = 6;

/// The text of a work whose task ended without a result.
const LOST: &str = "The work ended without a result: its task panicked or its runtime was shut down.";

/// A place for a work. Dropping it gives the place back.
pub(crate) struct Reserved {
    work: BackgroundWork,
    number: u64,
    job: Option<Job>,
}

/// What a running work sees of itself.
pub(crate) struct Job {
    shared: Weak<Shared>,
    number: u64,
    /// Cancelled when the work is to end.
    pub(crate) cancel: CancellationToken,
    /// Receives what the work writes.
    pub(crate) output: LiveOutput,
    /// The longest duration of the work.
    pub(crate) limit: Duration,
}

impl Job {
    /// Returns why the work was cancelled.
    pub(crate) fn cause(&self) -> WorkState {
        let shared = self.shared.upgrade();
        let cause = shared.and_then(|s| s.inner().works.get(&self.number).and_then(|work| work.cause));
        cause.unwrap_or(WorkState::Aborted)
    }
}

impl BackgroundWork {
    /// Takes a place for a work of this call.
    pub(crate) fn reserve(
        &self,
        ctx: &ToolContext,
        title: &str,
        limit: Duration,
    ) -> Result<Reserved, BackgroundError> {
        self.check_loop(ctx)?;
        let output = LiveOutput::begin(&self.store, self.max_output_bytes);
        let cancel = CancellationToken::new();
        let (mut inner, started) = (self.shared.inner(), ctx.environment.now());
        let running = inner.works.values().filter(|w| w.info.state == WorkState::Running).count();
        if running >= self.max_running {
            return Err(BackgroundError::Full { running });
        }
        inner.last += 1;
        let number = inner.last;
        let tag = inner.tag.get_or_insert_with(|| {
            ctx.environment.random_id().chars().filter(char::is_ascii_alphanumeric).take(TAG_CHARS).collect()
        });
        let info = WorkInfo {
            id: DeferredHandle::from(format!("{HANDLE_PREFIX}{tag}-{number}")),
            tool: ctx.tool_name.clone(),
            title: text::head(title, TITLE_BYTES).to_owned(),
            call: ctx.tool_call_id.clone(),
            loop_id: ctx.loop_id.clone(),
            output_key: output.key(),
            started,
            ended: None,
            state: WorkState::Running,
        };
        inner.works.insert(number, Work { info, cancel: cancel.clone(), cause: None, delivered: false });
        drop(inner);
        let job = Job { shared: Arc::downgrade(&self.shared), number, cancel, output, limit };
        Ok(Reserved { work: self.clone(), number, job: Some(job) })
    }
}

impl Reserved {
    /// Runs the work in a task and returns the preliminary result of the call. `work` must end soon after its `cancel`.
    pub(crate) fn launch<F>(
        mut self,
        ctx: &ToolContext,
        work: impl FnOnce(Job) -> F,
    ) -> Result<ToolResult, ToolError>
    where
        F: Future<Output = (WorkState, ToolResult)> + Send + 'static,
    {
        let info = self.work.shared.inner().works.get(&self.number).map(|work| work.info.clone());
        let (Some(info), Some(job)) = (info, self.job.take()) else {
            return Err(ToolError::failed("the place of the work was given back"));
        };
        let end = End { work: self.work.clone(), number: self.number, is_open: true };
        let (running, environment) = (work(job), Arc::clone(&ctx.environment));
        let task: BoxFuture<'static, ()> = Box::pin(async move {
            let mut end = end;
            let (state, result) = running.await;
            end.is_open = false;
            end.work.finish(end.number, state, result);
            end.work.wake(end.number).await;
        });
        // If there is no runtime, the task and with it the work are dropped.
        environment.spawn(task).map_err(|error| ToolError::failed(error.to_string()))?;
        Ok(preliminary(&info))
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.job.take().is_some() {
            self.work.shared.inner().works.remove(&self.number);
            self.work.shared.ended.notify_waiters();
        }
    }
}

/// Reports the end of a work whose task is dropped or panics.
struct End {
    work: BackgroundWork,
    number: u64,
    is_open: bool,
}

impl Drop for End {
    fn drop(&mut self) {
        if self.is_open {
            self.work.finish(self.number, WorkState::Lost, ToolResult::error(LOST));
        }
    }
}

impl BackgroundWork {
    /// Notes the end of a work and queues its message.
    fn finish(&self, number: u64, state: WorkState, mut result: ToolResult) {
        let info = {
            let now = self.now();
            let mut inner = self.shared.inner();
            let Some(work) = inner.works.get_mut(&number) else { return };
            work.info.state = state;
            work.info.ended = now.max(Some(work.info.started));
            work.info.clone()
        };
        if result.details.is_null() {
            result.details = json!({});
        }
        if let Value::Object(fields) = &mut result.details {
            fields.insert("background".to_owned(), json!({"id": info.id, "state": state.name()}));
            fields.insert("output_key".to_owned(), json!(info.output_key));
        }
        self.deliver(&info, &result);
        let mut inner = self.shared.inner();
        if let Some(work) = inner.works.get_mut(&number) {
            work.delivered = true;
        }
        let ended: Vec<u64> = inner.works.iter().filter(|(_, w)| w.delivered).map(|(n, _)| *n).collect();
        for oldest in ended.iter().take(ended.len().saturating_sub(MAX_LISTED)) {
            inner.works.remove(oldest);
        }
        drop(inner);
        self.shared.ended.notify_waiters();
    }
}

/// Returns what the model receives while the work runs.
fn preliminary(info: &WorkInfo) -> ToolResult {
    let WorkInfo { id, output_key, .. } = info;
    let text = format!(
        "This call is still running in the background (handle `{id}`). Its result will come in a later message. \
         Call read_output with key \"{output_key}\" to read its output so far, and background to list or kill it."
    );
    let mut result = ToolResult::deferred(id.clone());
    result.content = ToolResult::text(text).content;
    let details =
        json!({"background": {"id": id, "state": WorkState::Running.name()}, "output_key": output_key});
    result.with_details(details)
}
