//! The handlers of a session's virtual object, and the loop that drives a run in an invocation.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use agent_core::event::{AgentEvent, Question};
use agent_core::history::History;
use agent_core::identity::LoopId;
use agent_core::run::{Checkpoint, ReadError, Run};
use bytes::Bytes;
use restate_sdk::context::macro_support::SealedDurableFuture;
use restate_sdk::context::{RequestTarget, RunFuture as _};
use restate_sdk::endpoint::{ContextInternal, InputMetadata};
use restate_sdk::errors::{HandlerError, HandlerResult, TerminalError};
use restate_sdk::serde::Json;
use serde::Serialize;
use tokio::sync::Mutex;

use crate::agent::Prepared;
use crate::driver::{Driver, Work};
use crate::error::Refusal;
use crate::group::Resumption;
use crate::handlers::{Handlers as _, MailboxHandler, SessionHandler};
use crate::mailbox::signal_name;
use crate::record::{
    AnswerInput, Attached, Detached, EventsInput, EventsPage, Flow, LoopEnd, Mail, Progress, PromptInput,
    TurnInput, WaitingGroup,
};
use crate::running::{Registered, Running, RunningSession};
use crate::state::{
    GROUP, OPEN, Open, QUESTIONS, RUNNING, Stored, end_key, read_conversation, read_events, read_head,
};

/// The most events of a page.
const PAGE: usize = 512;

/// The handlers of all sessions of an agent.
pub(crate) struct Sessions {
    pub(crate) agent: Arc<Prepared>,
    pub(crate) mailbox: String,
    pub(crate) running: Running,
}

/// The steps of an invocation failed.
pub(crate) enum Failure {
    /// The engine cancelled the invocation, or a step cannot be performed. The session remains as it was before.
    Final(TerminalError),
    /// Another attempt may succeed, for example one of another version.
    Repeated(HandlerError),
}

impl From<TerminalError> for Failure {
    fn from(error: TerminalError) -> Self {
        Self::Final(error)
    }
}

/// An invocation that drives a session.
struct Invocation<'c> {
    ctx: &'c ContextInternal,
    sessions: &'c Sessions,
    session: String,
    id: String,
    stored: Stored,
    driver: Arc<Mutex<Driver>>,
    /// Whether the run has shortened the conversation.
    compacted: bool,
}

impl Sessions {
    pub(crate) fn target(&self, session: &str, handler: SessionHandler) -> RequestTarget {
        RequestTarget::Object {
            name: self.agent.name.clone(),
            key: session.to_owned(),
            handler: handler.name().to_owned(),
        }
    }

    /// Cancels the open step of an invocation if this process drives it.
    pub(crate) fn abort_here(&self, session: &str, invocation: &str) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = running.get(session).filter(|session| session.invocation == invocation) {
            session.cancel.cancel();
        }
    }

    /// Starts a run with a prompt and drives it.
    pub(crate) async fn prompt(
        &self,
        ctx: &ContextInternal,
        meta: InputMetadata,
        input: PromptInput,
    ) -> HandlerResult<Progress> {
        let ready = self.idle(ctx, &meta, SessionHandler::Prompt, input).await?;
        let (mut stored, history, input) = match ready {
            Ok(ready) => ready,
            Err(progress) => return Ok(progress),
        };
        stored.head.loops += 1;
        let segment = self.agent.config.config_segment();
        let loop_id = LoopId::from(format!("{}.{segment}.{}", meta.key, stored.head.loops));
        stored.head.last = Some(loop_id.clone());
        let driver = Driver::starting(Arc::clone(&self.agent), meta.key.clone(), history);
        let setup = Box::new(driver.setup(loop_id));
        let work = Work::Start { setup, prompts: input.messages };
        self.invocation(ctx, meta, stored, driver, false).drive(work).await
    }

    /// Reads the session for a prompt. A session that cannot take it returns how it continues.
    pub(crate) async fn idle(
        &self,
        ctx: &ContextInternal,
        meta: &InputMetadata,
        handler: SessionHandler,
        input: PromptInput,
    ) -> HandlerResult<Result<(Stored, History, PromptInput), Progress>> {
        let stored = match Stored::read(ctx).await? {
            Ok(stored) => stored,
            Err(refusal) => return Ok(Err(Progress::Refused { refusal })),
        };
        match &stored.head.open {
            Some(open) if open.handed_over => {
                // The invocation that continues the run stands behind this one.
                let key = Some(format!("{}-again", meta.invocation_id));
                let target = self.target(&meta.key, handler);
                let sent = ctx.send(target, key, None, None, Vec::new(), Json(input), None);
                return Ok(Err(Progress::Continues { invocation: sent.await?.invocation_id().to_owned() }));
            }
            Some(_) => return Ok(Err(Progress::Refused { refusal: Refusal::WaitsForAnswers })),
            None => {}
        }
        Ok(match stored.history(ctx).await? {
            Ok(history) => Ok((stored, history, input)),
            Err(refusal) => Err(Progress::Refused { refusal }),
        })
    }

    /// Makes a session known as running: in its state, and in this process for aborts and for readers of its events.
    pub(crate) fn register(
        &self,
        ctx: &ContextInternal,
        session: &str,
        running: RunningSession,
    ) -> Registered {
        ctx.set(RUNNING, running.invocation.clone());
        Registered::enter(&self.running, session, running)
    }

    pub(crate) fn send_mail<T: Serialize + 'static>(
        &self,
        ctx: &ContextInternal,
        session: &str,
        handler: MailboxHandler,
        input: Json<T>,
    ) where
        Json<T>: restate_sdk::serde::Serialize,
    {
        let target = self.mail_target(session, handler);
        drop(ctx.send(target, None, None, None, Vec::new(), input, None));
    }

    /// Applies an answer to the suspended run and drives it.
    pub(crate) async fn answer(
        &self,
        ctx: &ContextInternal,
        meta: InputMetadata,
        input: AnswerInput,
    ) -> HandlerResult<Progress> {
        let (stored, run) = match self.open_run(ctx).await? {
            Ok(Some((stored, OpenWork::Group(group)))) => {
                let AnswerInput { question, answer } = input;
                let answer = Resumption::Answer { question, answer };
                return self.resume_group(ctx, meta, stored, *group, answer).await;
            }
            Ok(Some((stored, OpenWork::Run(run)))) if !is_handed_over(&stored) => (stored, *run),
            Ok(_) => {
                return Ok(Progress::Refused { refusal: Refusal::NotAsked { question: input.question } });
            }
            Err(refusal) => return Ok(Progress::Refused { refusal }),
        };
        let work = Work::Answer { question: input.question, answer: input.answer };
        self.resume(ctx, meta, stored, run, work).await
    }

    /// Continues a run that another invocation has handed over.
    pub(crate) async fn advance(
        &self,
        ctx: &ContextInternal,
        meta: InputMetadata,
    ) -> HandlerResult<Progress> {
        match self.open_run(ctx).await? {
            Ok(Some((stored, OpenWork::Run(run)))) if is_handed_over(&stored) => {
                self.resume(ctx, meta, stored, *run, Work::Step).await
            }
            Ok(_) => Ok(Progress::Idle),
            // Nothing waits for the output, so the engine repeats the invocation until a worker reads the run.
            Err(refusal) => Err(HandlerError::from(refusal)),
        }
    }

    /// Aborts the suspended run.
    pub(crate) async fn wake(&self, ctx: &ContextInternal, meta: InputMetadata) -> HandlerResult<Progress> {
        match self.open_run(ctx).await? {
            // The invocation that continues the run finds the abort in the mailbox.
            Ok(Some((stored, _))) if is_handed_over(&stored) => Ok(Progress::Idle),
            Ok(Some((stored, OpenWork::Run(run)))) => self.resume(ctx, meta, stored, *run, Work::Abort).await,
            Ok(Some((stored, OpenWork::Group(group)))) => {
                self.resume_group(ctx, meta, stored, *group, Resumption::Abort).await
            }
            Ok(None) => {
                let target = self.mail_target(&meta.key, MailboxHandler::DropAborts);
                drop(ctx.send(target, None, None, None, Vec::new(), (), None));
                Ok(Progress::Idle)
            }
            Err(refusal) => Ok(Progress::Refused { refusal }),
        }
    }

    /// Returns the open questions.
    pub(crate) async fn questions(&self, ctx: &ContextInternal) -> HandlerResult<Vec<Question>> {
        let questions = ctx.get::<Bytes>(QUESTIONS).await?;
        Ok(questions.map(|questions| serde_json::from_slice(&questions)).transpose()?.unwrap_or_default())
    }

    /// Returns the conversation after the last run that ended.
    pub(crate) async fn history(&self, ctx: &ContextInternal) -> HandlerResult<History> {
        Ok(read_conversation(ctx).await?.map_err(|refusal| terminal(&refusal))?)
    }

    /// Returns events from a number on.
    pub(crate) async fn events(
        &self,
        ctx: &ContextInternal,
        meta: &InputMetadata,
        input: EventsInput,
    ) -> HandlerResult<EventsPage> {
        let from = input.from;
        let running = ctx.get::<String>(RUNNING).await?.is_some();
        let head = read_head(ctx).await?.map_err(|refusal| terminal(&refusal))?;
        let mut events = read_events(ctx, &head, from).await?.map_err(|refusal| terminal(&refusal))?;
        let mut known = head.events;
        let here = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = here.get(&meta.key) {
            let recorded = session.events.lock().unwrap_or_else(PoisonError::into_inner);
            known = known.max(session.first + recorded.len() as u64);
            let next = from + events.len() as u64;
            if next >= head.events && next >= session.first {
                let skipped = usize::try_from(next - session.first).unwrap_or(usize::MAX);
                events.extend(recorded.iter().skip(skipped).take(PAGE).cloned());
            }
        }
        drop(here);
        events.truncate(PAGE);
        Ok(EventsPage { events, running, known })
    }

    /// Returns where a run stands.
    pub(crate) async fn turn(&self, ctx: &ContextInternal, input: TurnInput) -> HandlerResult<Progress> {
        if let Some(end) = ctx.get::<Bytes>(&end_key(&input.loop_id)).await? {
            return Ok(match serde_json::from_slice(&end) {
                Ok(end) => Progress::Ended { end: Box::new(end) },
                Err(_) => Progress::Explored { end: Box::new(serde_json::from_slice(&end)?) },
            });
        }
        if let Some(invocation) = ctx.get::<String>(RUNNING).await? {
            return Ok(Progress::Continues { invocation });
        }
        Ok(Progress::Suspended { loop_id: input.loop_id, questions: self.questions(ctx).await? })
    }

    pub(crate) fn mail_target(&self, session: &str, handler: MailboxHandler) -> RequestTarget {
        RequestTarget::Object {
            name: self.mailbox.clone(),
            key: session.to_owned(),
            handler: handler.name().to_owned(),
        }
    }

    /// Reads the open run, or the group that waits; `None` if there is none.
    async fn open_run(
        &self,
        ctx: &ContextInternal,
    ) -> Result<Result<Option<(Stored, OpenWork)>, Refusal>, HandlerError> {
        let open = ctx.get::<Bytes>(OPEN);
        let stored = Stored::read(ctx).await?;
        let open = open.await?;
        let stored = match stored {
            Ok(stored) => stored,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let is_group = stored.head.open.as_ref().is_some_and(|open| open.is_group);
        let open = if is_group { ctx.get::<Bytes>(GROUP).await? } else { open };
        let Some(open) = open else { return Ok(Ok(None)) };
        let damaged = |message: String| Refusal::Damaged { message: format!("the open run: {message}") };
        let text = match std::str::from_utf8(&open) {
            Ok(text) => text,
            Err(error) => return Ok(Err(damaged(error.to_string()))),
        };
        let read = match is_group {
            true => WaitingGroup::from_json(text).map(|group| OpenWork::Group(Box::new(group))),
            false => Checkpoint::from_json(text).map(|run| OpenWork::Run(Box::new(run.into_run()))),
        };
        Ok(match read {
            Ok(work) => Ok(Some((stored, work))),
            Err(ReadError::Form(error)) => Err(Refusal::Form { message: error.to_string() }),
            Err(error) => Err(damaged(error.to_string())),
        })
    }

    async fn resume(
        &self,
        ctx: &ContextInternal,
        meta: InputMetadata,
        stored: Stored,
        run: Run,
        work: Work,
    ) -> HandlerResult<Progress> {
        let compacted = stored.head.open.as_ref().is_some_and(|open| open.compacted);
        let driver = Driver::resuming(Arc::clone(&self.agent), meta.key.clone(), run);
        self.invocation(ctx, meta, stored, driver, compacted).drive(work).await
    }

    fn invocation<'c>(
        &'c self,
        ctx: &'c ContextInternal,
        meta: InputMetadata,
        stored: Stored,
        driver: Driver,
        compacted: bool,
    ) -> Invocation<'c> {
        Invocation {
            ctx,
            sessions: self,
            session: meta.key,
            id: meta.invocation_id,
            stored,
            driver: Arc::new(Mutex::new(driver)),
            compacted,
        }
    }
}

/// What a session continues.
enum OpenWork {
    Run(Box<Run>),
    Group(Box<WaitingGroup>),
}

/// Returns whether another invocation continues the open run.
fn is_handed_over(stored: &Stored) -> bool {
    stored.head.open.as_ref().is_some_and(|open| open.handed_over)
}

fn terminal(refusal: &Refusal) -> TerminalError {
    TerminalError::new_with_code(409, refusal.to_string())
}

impl Invocation<'_> {
    /// Performs the steps of the run until it ends, is suspended, or is handed over, and stores its state.
    async fn drive(self, first: Work) -> HandlerResult<Progress> {
        let running = self.driver.lock().await.running(&self.id, self.stored.head.events);
        let _registered = self.sessions.register(self.ctx, &self.session, running);
        let mut taken = 0;
        let driven = self.steps(first, &mut taken).await;
        match driven {
            Ok(flow) => {
                self.detach(taken);
                self.finish(flow).await
            }
            Err(Failure::Final(error)) => {
                self.detach(taken);
                self.ctx.clear(RUNNING);
                Err(error.into())
            }
            Err(Failure::Repeated(error)) => Err(error),
        }
    }

    fn detach(&self, taken: u64) {
        let detached = Json(Detached { invocation: self.id.clone(), taken });
        self.sessions.send_mail(self.ctx, &self.session, MailboxHandler::Detach, detached);
    }

    /// Performs steps, and counts the messages that they have taken from the mailbox.
    async fn steps(&self, first: Work, taken: &mut u64) -> Result<Flow, Failure> {
        let ctx = self.ctx;
        let attached = Json(Attached { invocation: self.id.clone() });
        let target = self.sessions.mail_target(&self.session, MailboxHandler::Attach);
        // Answered during the first step, and awaited after it.
        let mut attached =
            Some(ctx.call::<_, Json<Vec<Mail>>>(target, None, None, None, Vec::new(), attached));
        // A timer that is over completes each look into the mailbox at once.
        let timer = ctx.sleep(Duration::ZERO);
        let (mut inbox, mut received) = (VecDeque::<Mail>::new(), 0_u64);
        let (mut work, mut steps) = (first, 0);
        loop {
            let name = self.driver.lock().await.step_name();
            let mails: Vec<Mail> = inbox.iter().cloned().collect();
            let driver = Arc::clone(&self.driver);
            let perform = move || async move {
                let record = driver.lock().await.perform(work, mails).await;
                record.map_err(|error| HandlerError::from(TerminalError::new(error.to_string())))
            };
            let record: Bytes = ctx.run(perform).name(name).await?;
            let accepted = self.driver.lock().await.accept(&record);
            let accepted = accepted.map_err(|error| Failure::Repeated(error.into()))?;
            steps += 1;
            inbox.drain(..accepted.mails.min(inbox.len()));
            *taken += accepted.mails as u64;
            if let Some(attached) = attached.take() {
                let Json(waiting) = attached.await?;
                received = waiting.len() as u64;
                inbox.extend(waiting);
            }
            work = match accepted.flow {
                Flow::Step => Work::Step,
                Flow::Began { nonce } => Work::Execute { nonce },
                Flow::Sleep { delay_ms } => {
                    let delay = ctx.sleep(Duration::from_millis(delay_ms));
                    // An abort ends the delay; other messages are applied after it.
                    loop {
                        let Some(mail) = next_mail(ctx, received, &delay).await? else { break Work::Slept };
                        received += 1;
                        let aborts = matches!(mail, Mail::Abort);
                        inbox.push_back(mail);
                        if aborts {
                            break Work::Step;
                        }
                    }
                }
                flow => return Ok(flow),
            };
            while let Some(mail) = next_mail(ctx, received, &timer).await? {
                inbox.push_back(mail);
                received += 1;
            }
            // The calls whose start is recorded are executed before the run is handed over.
            if steps >= self.sessions.agent.hand_over_after && matches!(work, Work::Step) {
                return Ok(Flow::Step);
            }
        }
    }

    /// Stores where the run stands.
    async fn finish(mut self, flow: Flow) -> HandlerResult<Progress> {
        let ctx = self.ctx;
        let driver = Arc::clone(&self.driver);
        let driver = driver.lock().await;
        if let Flow::Refused { refusal } = flow {
            ctx.clear(RUNNING);
            return Ok(Progress::Refused { refusal });
        }
        {
            let events = driver.events().lock().unwrap_or_else(PoisonError::into_inner);
            self.compacted |= events.iter().any(|e| matches!(e.event, AgentEvent::CompactionEnded(_)));
            self.stored.append_events(ctx, &events)?;
        }
        let Some(run) = driver.run() else { return Ok(Progress::Idle) };
        let loop_id = run.loop_id().clone();
        let was_open = self.stored.head.open.is_some();
        if let Some(ended) = run.ended() {
            let end = LoopEnd {
                loop_id: loop_id.clone(),
                ended: ended.clone(),
                reply: run.history().last_reply().cloned(),
                usage: run.usage(),
            };
            self.stored.store_history(ctx, run.history(), self.compacted)?;
            self.stored.head.open = None;
            self.stored.write_head(ctx)?;
            if was_open {
                ctx.clear(OPEN);
                ctx.clear(QUESTIONS);
            }
            ctx.set(&end_key(&loop_id), Bytes::from(serde_json::to_vec(&end)?));
            ctx.clear(RUNNING);
            return Ok(Progress::Ended { end: Box::new(end) });
        }
        let handed_over = flow != Flow::Suspended;
        let compacted = self.compacted;
        let open = Open { loop_id: loop_id.clone(), handed_over, compacted, is_group: false };
        self.stored.head.open = Some(open);
        self.stored.write_head(ctx)?;
        ctx.set(OPEN, Bytes::from(serde_json::to_vec(&Checkpoint::of(run))?));
        let questions = run.questions();
        ctx.set(QUESTIONS, Bytes::from(serde_json::to_vec(&questions)?));
        if !handed_over {
            ctx.clear(RUNNING);
            return Ok(Progress::Suspended { loop_id, questions });
        }
        let key = Some(format!("{}-next", self.id));
        let target = self.sessions.target(&self.session, SessionHandler::Advance);
        let next = ctx.send(target, key, None, None, Vec::new(), (), None).await?;
        ctx.set(RUNNING, next.invocation_id().to_owned());
        Ok(Progress::Continues { invocation: next.invocation_id().to_owned() })
    }
}

/// Waits for a message to the invocation; `None` if the timer is over before.
pub(crate) async fn next_mail(
    ctx: &ContextInternal,
    number: u64,
    timer: &impl SealedDurableFuture,
) -> Result<Option<Mail>, TerminalError> {
    let mail = ctx.signal::<Json<Mail>>(&signal_name(number));
    if ctx.select(vec![mail.handle(), timer.handle()]).await? != 0 {
        return Ok(None);
    }
    let Json(mail) = mail.await?;
    Ok(Some(mail))
}
