//! The mailbox of a session: a second virtual object that numbers the messages to a running invocation.
//!
//! A session has one writer, so a message to a running session cannot be a request to it. The mailbox delivers messages
//! as signals to the invocation that drives the session, and keeps those that no invocation has taken.

use bytes::Bytes;
use restate_sdk::context::RequestTarget;
use restate_sdk::endpoint::ContextInternal;
use restate_sdk::errors::{HandlerError, HandlerResult, TerminalError};
use serde::{Deserialize, Serialize};

use crate::record::{Attached, Detached, Mail};

const STATE: &str = "mailbox";

/// The most messages that wait for a session. A further one is refused and fails its invocation.
const MOST_WAITING: usize = 1_000;

/// The messages of a session that no run has taken.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Mailbox {
    /// The invocation that drives the session.
    attached: Option<String>,
    /// The messages that were sent to it, from the first that it may not have taken.
    sent: Vec<Mail>,
    /// The number of the first message of `sent`.
    first: u64,
    /// The messages for the next invocation.
    waiting: Vec<Mail>,
}

/// Returns the name of the signal with a message.
pub(crate) fn signal_name(number: u64) -> String {
    format!("mail-{number}")
}

impl Mailbox {
    async fn read(ctx: &ContextInternal) -> HandlerResult<Self> {
        let state = ctx.get::<Bytes>(STATE).await?;
        Ok(state.map(|state| serde_json::from_slice(&state)).transpose()?.unwrap_or_default())
    }

    fn write(&self, ctx: &ContextInternal) -> Result<(), HandlerError> {
        ctx.set(STATE, Bytes::from(serde_json::to_vec(self)?));
        Ok(())
    }

    fn send(&mut self, ctx: &ContextInternal, invocation: &str, mail: Mail) -> Result<(), HandlerError> {
        let number = self.first + self.sent.len() as u64;
        ctx.resolve_signal(invocation, &signal_name(number), Bytes::from(serde_json::to_vec(&mail)?));
        self.sent.push(mail);
        Ok(())
    }

    /// Keeps what the last invocation has not taken for the next one. An abort concerns the aborted run only.
    fn release(&mut self) {
        let mut left = std::mem::take(&mut self.sent);
        left.retain(|mail| !matches!(mail, Mail::Abort));
        left.append(&mut self.waiting);
        self.waiting = left;
        self.attached = None;
        self.first = 0;
    }
}

/// Delivers a message to the invocation that drives the session, or keeps it for the next one. `abort_here` cancels the
/// open step of an invocation if this process drives it; the signal ends the run in any case.
pub(crate) async fn put(
    ctx: &ContextInternal,
    wake: RequestTarget,
    mail: Mail,
    abort_here: impl Fn(&str),
) -> HandlerResult<()> {
    let mut mailbox = Mailbox::read(ctx).await?;
    if mailbox.waiting.len() + mailbox.sent.len() >= MOST_WAITING && !matches!(mail, Mail::Abort) {
        let text = format!("{MOST_WAITING} messages wait for this session, so this one is refused");
        return Err(TerminalError::new_with_code(429, text).into());
    }
    match mailbox.attached.clone() {
        Some(invocation) => {
            if matches!(mail, Mail::Abort) {
                abort_here(&invocation);
            }
            mailbox.send(ctx, &invocation, mail)?;
        }
        None => {
            if matches!(mail, Mail::Abort) {
                // No invocation drives a suspended run, so this one is sent to abort it.
                drop(ctx.send(wake, None, None, None, Vec::new(), (), None));
            }
            mailbox.waiting.push(mail);
        }
    }
    mailbox.write(ctx)
}

/// Attaches an invocation that begins to drive the session, and returns what has waited: the first messages that the
/// invocation receives. Later ones are signals.
pub(crate) async fn attach(ctx: &ContextInternal, attached: Attached) -> HandlerResult<Vec<Mail>> {
    let mut mailbox = Mailbox::read(ctx).await?;
    mailbox.release();
    mailbox.sent = std::mem::take(&mut mailbox.waiting);
    mailbox.attached = Some(attached.invocation);
    mailbox.write(ctx)?;
    Ok(mailbox.sent)
}

/// Detaches an invocation that ends, and keeps the messages that it has not taken.
pub(crate) async fn detach(ctx: &ContextInternal, detached: Detached) -> HandlerResult<()> {
    let mut mailbox = Mailbox::read(ctx).await?;
    if mailbox.attached.as_deref() != Some(detached.invocation.as_str()) {
        return Ok(());
    }
    let taken = usize::try_from(detached.taken).unwrap_or(usize::MAX).min(mailbox.sent.len());
    mailbox.sent.drain(..taken);
    mailbox.release();
    mailbox.write(ctx)
}

/// Drops aborts that arrived while no run was open.
pub(crate) async fn drop_aborts(ctx: &ContextInternal) -> HandlerResult<()> {
    let mut mailbox = Mailbox::read(ctx).await?;
    mailbox.waiting.retain(|mail| !matches!(mail, Mail::Abort));
    mailbox.write(ctx)
}
