//! Runs one command.

use std::ffi::OsStr;
use std::process::ExitStatus;
use std::time::Duration;

use agent_core::{ToolContext, ToolError, ToolResult};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{ChildStderr, ChildStdout};

use crate::environment;
use crate::sandbox::StartError;

use super::capture::Live;
use super::output::{BashError, Ending, Streams, result};
use super::process::Shell;
use super::{
    Background, BashArgs, BashTool, CommandSlots, MAX_COMMAND_BYTES, MAX_WAIT, TraceVariables, command_rules,
    in_background, marker,
};

/// The time to read output after the shell has exited. Its own output is available at once; a background process could
/// keep the pipe open for ever.
const DRAIN_GRACE: Duration = Duration::from_millis(250);

/// The time to wait for the end of the pipes after the processes were killed. It takes longer only on a very busy
/// machine, or if a process that left its group keeps a pipe open.
const END_GRACE: Duration = Duration::from_millis(500);

/// The interval between live updates.
const UPDATE_EVERY: Duration = Duration::from_millis(100);

/// The size of one read.
const READ_BYTES: usize = 16 * 1024;

pub(super) async fn run(tool: &BashTool, args: BashArgs, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
    ctx.check_cancelled()?;
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(ToolError::failed("no tokio runtime is running here; call this tool from inside one"));
    }
    run_command(tool, args, ctx).await.map_err(BashError::into_tool_error)
}

async fn run_command(tool: &BashTool, args: BashArgs, ctx: &ToolContext) -> Result<ToolResult, BashError> {
    let limit = match (args.background, &tool.work) {
        (Some(true), None) => return Err(BashError::NoBackground),
        (Some(true), Some(work)) => args.limit(work.max_duration(), work.max_duration())?,
        (None | Some(false), _) => args.limit(tool.timeout, tool.max_timeout)?,
    };
    if args.command.contains('\0') {
        return Err(BashError::Nul);
    }
    if args.command.len() > MAX_COMMAND_BYTES {
        return Err(BashError::TooLong { bytes: args.command.len() });
    }
    if let Some(pattern) = command_rules::first_match(tool.deny_patterns(), &args.command) {
        return Err(BashError::Denied { pattern: pattern.to_string() });
    }
    confirm(tool, &args.command, ctx).await?;
    if args.background == Some(true) {
        return in_background::start(tool, &args.command, limit, ctx).await;
    }
    let _slot = turn(&tool.slots, ctx).await?;

    let mut shell = start(tool, &args.command, ctx).await?;
    let mut streams = Streams::new(tool.max_output_bytes, tool.store.as_ref());
    let (ending, _) = follow(&mut shell, &mut streams, limit, tool.background, ctx).await?;
    streams.finish().await;
    match ending {
        Ending::TimedOut(limit) if streams.is_empty() => Err(BashError::TimedOut(limit)),
        Ending::Aborted if streams.is_empty() => Err(BashError::Cancelled),
        ending => Ok(result(ending, &streams)),
    }
}

pub(super) async fn start(tool: &BashTool, command: &str, ctx: &ToolContext) -> Result<Shell, BashError> {
    let mut variables = environment::of_command(&tool.inherited, &tool.set);
    if tool.trace == TraceVariables::Set
        && let Some(trace) = &ctx.trace
    {
        variables.insert("TRACEPARENT".into(), trace.traceparent().into());
        if let Some(state) = trace.tracestate() {
            variables.insert("TRACESTATE".into(), state.into());
        }
    }
    let mark = ctx.environment.random_id();
    marker::add(&mut variables, &mark);
    let shell = tool.shell(variables.get(OsStr::new("PATH"))).map_err(StartError::from)?;
    let (folder, sandbox) = (tool.folder(), tool.sandbox());
    Shell::start(shell, command, folder, variables, mark, sandbox, tool.tracking).await
}

/// Waits until fewer commands run.
async fn turn(slots: &CommandSlots, ctx: &ToolContext) -> Result<impl Sized, BashError> {
    tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => Err(BashError::Cancelled),
        slot = slots.take() => Ok(slot),
        () = ctx.environment.sleep(MAX_WAIT) => Err(BashError::Busy),
    }
}

async fn confirm(tool: &BashTool, command: &str, ctx: &ToolContext) -> Result<(), BashError> {
    let Some(confirm) = &tool.confirm else { return Ok(()) };
    let confirmed = tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => return Err(BashError::Cancelled),
        confirmed = confirm(command.to_owned()) => confirmed,
    };
    // If the confirmation and an abort arrive together, the abort takes precedence.
    if ctx.cancel.is_cancelled() {
        return Err(BashError::Cancelled);
    }
    if confirmed { Ok(()) } else { Err(BashError::NotConfirmed) }
}

/// Receives the output of a command.
pub(super) trait Sink: Send {
    fn push(&mut self, from: Stream, part: &[u8]);
    fn flush(&mut self, from: Stream) -> impl Future<Output = ()> + Send;
}

/// An output stream of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
}

impl Sink for Streams {
    fn push(&mut self, from: Stream, part: &[u8]) {
        self.of(from).push(part);
    }

    async fn flush(&mut self, from: Stream) {
        self.of(from).flush().await;
    }
}

/// Reads the output until the shell exits, or stops it on a time-out or an abort. Returns the last output, too.
pub(super) async fn follow(
    shell: &mut Shell,
    streams: &mut impl Sink,
    limit: Duration,
    background: Background,
    ctx: &ToolContext,
) -> Result<(Ending, Live), BashError> {
    let mut out = Pipe::new(shell.take_stdout());
    let mut err = Pipe::new(shell.take_stderr());
    let mut live = Live::default();
    let mut too_long = ctx.environment.sleep(limit);
    let mut tick = ctx.environment.sleep(UPDATE_EVERY);
    let exited = loop {
        // Picks a ready branch at random, so that a flood on one pipe starves neither the other pipe nor the timer.
        tokio::select! {
            () = ctx.cancel.cancelled() => break Err(Ending::Aborted),
            () = &mut too_long => break Err(Ending::TimedOut(limit)),
            status = shell.wait() => break Ok(status.map_err(BashError::Spawn)?),
            () = &mut tick => {
                if let Some(text) = live.take_new() {
                    ctx.on_update(ToolResult::text(text));
                }
                tick = ctx.environment.sleep(UPDATE_EVERY);
            }
            read = out.read() => out.store(read, Stream::Out, streams, &mut live).await,
            read = err.read() => err.store(read, Stream::Err, streams, &mut live).await,
        }
    };
    let mut reading = Reading { out, err, streams, live };
    match exited {
        // Keeps reading the pipes, so that a process that writes while it ends does not block on a full pipe.
        Err(_) => {
            let mut stop = std::pin::pin!(shell.stop());
            if reading.until(&mut stop).await == Until::PipesEnded {
                stop.await;
            }
        }
        Ok(_) => {
            reading.until(tokio::time::sleep(DRAIN_GRACE)).await;
            match background {
                Background::End => shell.kill().await,
                Background::Keep => shell.keep_background(),
            }
        }
    }
    if !(exited.is_ok() && background == Background::Keep) {
        // All processes of the group are dead, so the pipes end now, unless a process has left the group.
        reading.until(tokio::time::sleep(END_GRACE)).await;
    }
    reading.sweep().await;
    if let Some(text) = reading.live.take_new() {
        ctx.on_update(ToolResult::text(text));
    }
    Ok((exited.map_or_else(|ending| ending, ending_of), reading.live))
}

fn ending_of(status: ExitStatus) -> Ending {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal = None;
    Ending::Exited { code: status.code(), signal }
}

/// Both pipes and the output that was read.
struct Reading<'a, S> {
    out: Pipe<ChildStdout>,
    err: Pipe<ChildStderr>,
    streams: &'a mut S,
    live: Live,
}

impl<S: Sink> Reading<'_, S> {
    /// Reads until both pipes have ended or `end` completes.
    async fn until(&mut self, end: impl Future<Output = ()>) -> Until {
        tokio::pin!(end);
        while self.out.is_open() || self.err.is_open() {
            tokio::select! {
                () = &mut end => return Until::Stopped,
                read = self.out.read() => self.out.store(read, Stream::Out, self.streams, &mut self.live).await,
                read = self.err.read() => self.err.store(read, Stream::Err, self.streams, &mut self.live).await,
            }
        }
        Until::PipesEnded
    }

    /// Reads the output that is in the pipes now. On a busy machine the deadline can pass before the last output was read.
    async fn sweep(&mut self) {
        for _ in 0..SWEEPS {
            tokio::select! {
                biased;
                read = self.out.read() => self.out.store(read, Stream::Out, self.streams, &mut self.live).await,
                read = self.err.read() => self.err.store(read, Stream::Err, self.streams, &mut self.live).await,
                () = std::future::ready(()) => return,
            }
        }
    }
}

/// The number of reads of a sweep. Together they read more than a pipe can hold.
const SWEEPS: usize = 64;

/// The reason why reading stopped.
#[derive(Debug, PartialEq, Eq)]
enum Until {
    Stopped,
    PipesEnded,
}

/// A pipe that is read in parts.
struct Pipe<R> {
    reader: Option<R>,
    buffer: Box<[u8]>,
}

impl<R: AsyncRead + Unpin> Pipe<R> {
    fn new(reader: Option<R>) -> Self {
        Self { reader, buffer: vec![0; READ_BYTES].into() }
    }

    fn is_open(&self) -> bool {
        self.reader.is_some()
    }

    /// Returns the number of bytes that were read into the buffer, 0 at the end. Never completes after the end.
    async fn read(&mut self) -> usize {
        match &mut self.reader {
            // An error is treated as the end of the pipe.
            Some(reader) => reader.read(&mut self.buffer).await.unwrap_or_default(),
            None => std::future::pending().await,
        }
    }

    async fn store(&mut self, read: usize, from: Stream, sink: &mut impl Sink, live: &mut Live) {
        let part = self.buffer.get(..read).unwrap_or_default();
        if part.is_empty() {
            self.reader = None;
        }
        sink.push(from, part);
        live.push(part);
        sink.flush(from).await;
    }
}
