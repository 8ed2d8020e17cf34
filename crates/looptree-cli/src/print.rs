//! One task without a chat: the answer on the standard output, everything else on the standard error.

use std::io::IsTerminal as _;

use anyhow::Result;
use looptree::compat::SeedVerbs as _;
use looptree::event::Ended;

use crate::answers;
use crate::exit::{Exit, usage};
use crate::screen::{Screen, write_output};
use crate::settings::Settings;
use crate::setup::Setup;
use crate::work::{Events, Interrupts, Meter, watch};
use crate::{money, window};

/// Works on a task, and ends the MCP servers afterwards. An open run of a continued session is finished first.
pub(crate) async fn run(
    setup: Setup,
    settings: &Settings,
    task: Option<&str>,
    form: Events,
    screen: &Screen,
) -> Result<Exit> {
    let servers = setup.servers.clone();
    let ended = work(setup, settings, task, form, screen).await;
    servers.close().await;
    ended
}

async fn work(
    mut setup: Setup,
    settings: &Settings,
    task: Option<&str>,
    form: Events,
    screen: &Screen,
) -> Result<Exit> {
    let agent = setup.agent.handle();
    for note in &setup.notes {
        screen.line(note);
    }
    for failure in setup.servers.failures() {
        screen.error_line(format!("warning: {failure}"));
    }
    let mut interrupts = Interrupts::open(setup.servers.clone());
    let mut meter = Meter::default();
    let mut last = None;
    if agent.is_suspended() {
        let events = agent.resume()?;
        last = Some(watch(&agent, events, form, screen, &mut interrupts, &mut meter).await);
    }
    if task.is_none() && last.is_none() {
        // A run that failed or was stopped continues; one that is complete needs a task.
        let events = agent.send(()).map_err(|error| {
            usage(format!(
                "there is no task, and no failed or stopped run to continue; write a task in quotes ({error})"
            ))
        })?;
        last = Some(watch(&agent, events, form, screen, &mut interrupts, &mut meter).await);
    }
    let waits = last.as_ref().is_some_and(|watched| !watched.questions.is_empty());
    if let Some(task) = task
        && !waits
        && last.as_ref().is_none_or(|watched| !watched.interrupted)
    {
        let running = screen.running();
        let events = agent.prompt(task)?;
        last = Some(watch(&agent, events, form, screen, &mut interrupts, &mut meter).await);
        drop(running);
    }
    if waits && task.is_some() {
        screen.error_line(
            "the session waits for an answer, so the task was not sent; looptree pending shows the question",
        );
    }
    if let Some(ended) = last.as_ref().and_then(|watched| watched.ended.as_ref())
        && let Some(advice) = window::advice(&setup, ended)
    {
        screen.error_line(advice);
    }
    screen.line(format!("usage: {}", money::summary(&meter.usage, &meter.cost)));
    if let Some(budget) = agent.config().services.budget {
        screen.line(money::spent(&budget));
    }
    let session = agent.session_id();
    setup.recorder.close().await?;
    screen.line(format!("session: {session}; {} continues it", settings.resume(session.as_str())));
    if let Some(recording) = setup.recording.take() {
        recording.save(screen)?;
    }
    let Some(watched) = last else { return Ok(Exit::Done) };
    if !watched.questions.is_empty() {
        if let Some(run) = setup.store.load_session(session.as_str())?.unfinished()? {
            answers::show(&run, settings, screen);
        }
        return Ok(Exit::Waits);
    }
    if watched.ended == Some(Ended::Completed) && form == Events::Shown {
        // On a terminal that shows both, the answer was shown while it arrived.
        let was_shown = std::io::stdout().is_terminal() && screen.live && !screen.is_quiet();
        if !was_shown && write_output(&format!("{}\n", watched.answer.trim_end())).is_err() {
            return Ok(Exit::Unread);
        }
    }
    if watched.ended == Some(Ended::Completed) && watched.call_in_text {
        screen.error_line(
            "warning: the answer ends with the call of a tool that the model wrote as text; it was not executed, because its \
             tool is unknown or its arguments are not whole. Start the model's server with its parser for tool calls, or \
             choose another model",
        );
    }
    Ok(match watched.ended {
        Some(Ended::Completed) if watched.cut_off || watched.call_in_text => Exit::Failed,
        Some(Ended::Completed) => Exit::Done,
        _ if screen.is_gone() => Exit::Unread,
        Some(Ended::Aborted) if watched.interrupted => Exit::Interrupted,
        _ => Exit::Failed,
    })
}
