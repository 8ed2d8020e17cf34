//! Watching a run to its end, without a chat.

use std::io::Write as _;
use std::time::{Duration, Instant};

use looptree::event::{Ended, NumberedEvent};
use looptree::message::StopReason;
use looptree::message::{AssistantMessage, Cost};
use looptree::prelude::*;
use looptree::{EventReceiver, Message, Question, Usage};
use tokio::sync::mpsc::{Receiver, channel};

use crate::screen::Screen;
use crate::servers::Servers;

/// What one stream of events came to.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// How the run ended; `None` if it waits.
    pub(crate) ended: Option<Ended>,
    /// What the run waits for.
    pub(crate) questions: Vec<Question>,
    /// The text of the last reply.
    pub(crate) answer: String,
    pub(crate) interrupted: bool,
    /// Whether the last reply reached the output limit of the model.
    pub(crate) cut_off: bool,
    /// Whether the last reply ends with a call of a tool that the model wrote as text, so that nothing executed it.
    pub(crate) call_in_text: bool,
}

impl Watched {
    /// Takes from an event of the run what tells its outcome.
    pub(crate) fn note(&mut self, event: AgentEvent) {
        match event {
            AgentEvent::MessageEnd { message, superseded: false, .. } if message.role() == "assistant" => {
                self.answer = message.text();
                let reply = message.as_llm().and_then(Message::as_assistant);
                self.call_in_text = reply.is_some_and(AssistantMessage::ends_with_call_in_text);
                self.cut_off = reply.is_some_and(|reply| reply.stop_reason == StopReason::Length);
            }
            AgentEvent::AgentEnd(end) => self.ended = Some(end.ended),
            AgentEvent::RunSuspended { questions, .. } => self.questions = questions,
            _ => {}
        }
    }
}

/// Tokens and cost of a run.
#[derive(Debug, Default, Clone)]
pub(crate) struct Meter {
    pub(crate) usage: Usage,
    pub(crate) cost: Cost,
}

impl Meter {
    /// Adds the usage of an event that ends a reply, also of a discarded one, or a summary. Returns whether it is one.
    ///
    /// The end of a turn would come too late: a turn whose call waits for an answer has a reply, and no end.
    pub(crate) fn note(&mut self, event: &AgentEvent, model: &ModelConfig) -> bool {
        let usage = match event {
            AgentEvent::MessageEnd { message, .. } => {
                message.as_llm().and_then(Message::as_assistant).map(|reply| reply.usage)
            }
            AgentEvent::CompactionEnded(ended) => Some(ended.usage),
            _ => None,
        };
        let Some(usage) = usage else { return false };
        self.add(&Self { usage, cost: usage.cost(&model.cost) });
        true
    }

    /// Adds the usage of another run.
    pub(crate) fn add(&mut self, other: &Self) {
        self.usage = self.usage.combine(&other.usage);
        self.cost = self.cost.combine(&other.cost);
    }
}

/// The time in which a second signal counts as the first one.
const TWICE: Duration = Duration::from_millis(300);

/// Ctrl-C and the signals that end a program, which abort the run, so that no command is left behind.
pub(crate) struct Interrupts {
    said: Receiver<()>,
    servers: Servers,
}

impl Interrupts {
    /// Handles the signals from now on. The servers are ended before one of the signals ends the program.
    pub(crate) fn open(servers: Servers) -> Self {
        let (tell, said) = channel(1);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    pressed = tokio::signal::ctrl_c() => if pressed.is_err() { return },
                    () = told_to_end() => {}
                }
                if tell.send(()).await.is_err() {
                    return;
                }
            }
        });
        Self { said, servers }
    }

    pub(crate) async fn next(&mut self) {
        if self.said.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

/// Waits for a signal that ends the program: the terminal was closed, or the system shuts down.
#[cfg(unix)]
pub(crate) async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    if let (Ok(mut terminate), Ok(mut hang_up)) =
        (signal(SignalKind::terminate()), signal(SignalKind::hangup()))
    {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
    } else {
        std::future::pending().await
    }
}

/// Waits for a signal that ends the program, which this system does not send.
#[cfg(not(unix))]
pub(crate) async fn told_to_end() {
    std::future::pending().await
}

/// Writes events as JSON lines to the standard output. Returns whether the output has a reader.
fn write_json(event: &NumberedEvent) -> bool {
    let Ok(mut line) = serde_json::to_vec(event) else { return true };
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    out.write_all(&line).and_then(|()| out.flush()).is_ok()
}

/// Whether the events are printed as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Events {
    Json,
    Shown,
}

/// Shows the events of a run until it ends or asks. The first Ctrl-C aborts the run, the second ends the program.
pub(crate) async fn watch(
    agent: &AgentHandle,
    mut events: EventReceiver,
    form: Events,
    screen: &Screen,
    interrupts: &mut Interrupts,
    meter: &mut Meter,
) -> Watched {
    let model = agent.config().model;
    let mut watched = Watched::default();
    let mut interrupted_at = None;
    loop {
        let event = tokio::select! {
            event = events.recv_numbered() => event,
            () = interrupts.next() => {
                // `timeout` sends its signal to the process and to its group.
                if interrupted_at.is_some_and(|at: Instant| at.elapsed() < TWICE) {
                    continue;
                }
                interrupted_at = Some(Instant::now());
                if watched.interrupted {
                    screen.error_line("stopped");
                    interrupts.servers.close().await;
                    std::process::exit(130);
                }
                watched.interrupted = true;
                agent.abort();
                continue;
            }
        };
        let Some(event) = event else { return watched };
        if form == Events::Json && !write_json(&event) && !watched.interrupted {
            watched.interrupted = true;
            agent.abort();
        }
        // The events of sub-agents are part of the JSON only.
        if event.depth > 0 {
            continue;
        }
        screen.show(&event.event);
        if screen.is_gone() && !watched.interrupted {
            watched.interrupted = true;
            agent.abort();
        }
        let event = event.into_event();
        if meter.note(&event, &model) {
            screen.used(&meter.usage, &meter.cost);
        }
        watched.note(event);
    }
}
