//! The handler that runs the branches of an agent, and the loop that drives their group in an invocation.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use agent_core::event::AgentEvent;
use agent_core::history::History;
use agent_core::run::Checkpoint;
use bytes::Bytes;
use restate_sdk::context::RunFuture as _;
use restate_sdk::endpoint::{ContextInternal, InputMetadata};
use restate_sdk::errors::{HandlerError, HandlerResult, TerminalError};
use restate_sdk::serde::Json;
use tokio::sync::Mutex;

use crate::error::Refusal;
use crate::group::{GroupDriver, GroupFlow, Resumption};
use crate::handlers::{MailboxHandler, SessionHandler};
use crate::record::{Attached, Detached, Mail, Progress, PromptInput, WaitingGroup};
use crate::session::{Failure, Sessions, next_mail};
use crate::state::{GROUP, OPEN, Open, QUESTIONS, RUNNING, Stored, end_key};

/// An invocation that drives a group.
struct Exploration<'c> {
    ctx: &'c ContextInternal,
    sessions: &'c Sessions,
    session: String,
    id: String,
    stored: Stored,
    /// The conversation before the group.
    base: History,
    driver: Arc<Mutex<GroupDriver>>,
}

impl Sessions {
    /// Runs the branches of the agent with a prompt, and continues the conversation with the selected one.
    pub(crate) async fn explore(
        &self,
        ctx: &ContextInternal,
        meta: InputMetadata,
        input: PromptInput,
    ) -> HandlerResult<Progress> {
        if self.agent.branches.is_none() {
            return Ok(Progress::Refused { refusal: Refusal::NoBranches });
        }
        let (stored, base, input) = match self.idle(ctx, &meta, SessionHandler::Explore, input).await? {
            Ok(ready) => ready,
            Err(progress) => return Ok(progress),
        };
        let (agent, session) = (Arc::clone(&self.agent), meta.key);
        let parent = stored.head.last.clone();
        let driver = GroupDriver::new(agent, session.clone(), input.messages, base.clone(), parent);
        let driver = Arc::new(Mutex::new(driver));
        Exploration { ctx, sessions: self, session, id: meta.invocation_id, stored, base, driver }
            .drive()
            .await
    }

    /// Continues a group whose branches wait.
    pub(crate) async fn resume_group(
        &self,
        ctx: &ContextInternal,
        meta: InputMetadata,
        stored: Stored,
        group: WaitingGroup,
        resumption: Resumption,
    ) -> HandlerResult<Progress> {
        let base = match stored.history(ctx).await? {
            Ok(base) => base,
            Err(refusal) => return Ok(Progress::Refused { refusal }),
        };
        let (agent, session) = (Arc::clone(&self.agent), meta.key);
        let driver = GroupDriver::resuming(agent, session.clone(), group, base.clone(), resumption);
        // Another worker may have the branches of the group, so the engine repeats the invocation.
        let driver = match driver.map_err(HandlerError::from)? {
            Ok(driver) => Arc::new(Mutex::new(driver)),
            Err(refusal) => return Ok(Progress::Refused { refusal }),
        };
        Exploration { ctx, sessions: self, session, id: meta.invocation_id, stored, base, driver }
            .drive()
            .await
    }
}

impl Exploration<'_> {
    /// Performs the steps of the group until it ends, and stores its result.
    async fn drive(self) -> HandlerResult<Progress> {
        let running = self.driver.lock().await.running(&self.id, self.stored.head.events);
        let _registered = self.sessions.register(self.ctx, &self.session, running);
        let driven = self.steps().await;
        if !matches!(driven, Err(Failure::Repeated(_))) {
            // Nothing was taken: an abort concerns this group only, and other messages wait for the next run.
            let detached = Json(Detached { invocation: self.id.clone(), taken: 0 });
            self.sessions.send_mail(self.ctx, &self.session, MailboxHandler::Detach, detached);
        }
        match driven {
            Ok(GroupFlow::Refused(refusal)) => {
                self.ctx.clear(RUNNING);
                Ok(Progress::Refused { refusal })
            }
            Ok(_) => self.finish().await,
            Err(Failure::Final(error)) => {
                self.ctx.clear(RUNNING);
                Err(error.into())
            }
            Err(Failure::Repeated(error)) => Err(error),
        }
    }

    async fn steps(&self) -> Result<GroupFlow, Failure> {
        let ctx = self.ctx;
        let attached = Json(Attached { invocation: self.id.clone() });
        let target = self.sessions.mail_target(&self.session, MailboxHandler::Attach);
        let mut attached =
            Some(ctx.call::<_, Json<Vec<Mail>>>(target, None, None, None, Vec::new(), attached));
        let timer = ctx.sleep(Duration::ZERO);
        let mut received = 0_u64;
        loop {
            let name = self.driver.lock().await.step_name();
            let driver = Arc::clone(&self.driver);
            let perform = move || async move {
                let record = driver.lock().await.perform().await;
                record.map_err(|error| HandlerError::from(TerminalError::new(error.to_string())))
            };
            let record: Bytes = ctx.run(perform).name(name).await?;
            let accepted = self.driver.lock().await.accept(&record);
            let flow = accepted.map_err(|error| Failure::Repeated(error.into()))?;
            if flow != GroupFlow::Step {
                return Ok(flow);
            }
            let mut aborted = false;
            if let Some(attached) = attached.take() {
                let Json(waiting) = attached.await?;
                received = waiting.len() as u64;
                aborted |= waiting.iter().any(|mail| matches!(mail, Mail::Abort));
            }
            while let Some(mail) = next_mail(ctx, received, &timer).await? {
                aborted |= matches!(mail, Mail::Abort);
                received += 1;
            }
            if aborted {
                self.driver.lock().await.cancel_token().cancel();
            }
        }
    }

    /// Stores the events, the end of the group, and the conversation of the selected branch.
    async fn finish(mut self) -> HandlerResult<Progress> {
        let ctx = self.ctx;
        let driver = Arc::clone(&self.driver);
        let driver = driver.lock().await;
        let compacted = {
            let events = driver.events().lock().unwrap_or_else(PoisonError::into_inner);
            self.stored.append_events(ctx, &events)?;
            events.iter().any(|event| matches!(event.event, AgentEvent::CompactionEnded(_)))
        };
        let was_open = self.stored.head.open.take().is_some();
        if let Some((waiting, questions)) = driver.waiting() {
            let loop_id = waiting.group.group.setup().group_id.clone();
            let open =
                Open { loop_id: loop_id.clone(), handed_over: false, compacted: false, is_group: true };
            self.stored.head.open = Some(open);
            self.stored.write_head(ctx)?;
            ctx.set(GROUP, Bytes::from(serde_json::to_vec(&waiting)?));
            ctx.set(QUESTIONS, Bytes::from(serde_json::to_vec(&questions)?));
            ctx.clear(RUNNING);
            return Ok(Progress::Suspended { loop_id, questions });
        }
        if was_open {
            ctx.clear(GROUP);
            ctx.clear(QUESTIONS);
        }
        let Some((end, selected)) = driver.end() else { return Ok(Progress::Idle) };
        if let Some(run) = selected {
            let rewritten = compacted || !run.history().extends(&self.base);
            self.stored.head.last = Some(run.loop_id().clone());
            if run.ended().is_some() {
                self.stored.store_history(ctx, run.history(), rewritten)?;
            } else {
                let loop_id = run.loop_id().clone();
                let open = Open { loop_id, handed_over: false, compacted: rewritten, is_group: false };
                self.stored.head.open = Some(open);
                ctx.set(OPEN, Bytes::from(serde_json::to_vec(&Checkpoint::of(run))?));
                ctx.set(QUESTIONS, Bytes::from(serde_json::to_vec(&run.questions())?));
            }
        }
        self.stored.write_head(ctx)?;
        ctx.set(&end_key(&end.group_id), Bytes::from(serde_json::to_vec(&end)?));
        ctx.clear(RUNNING);
        Ok(Progress::Explored { end: Box::new(end) })
    }
}
