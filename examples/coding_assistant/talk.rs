//! One task on the screen: live text, tools, questions, usage, Ctrl-C.

use anyhow::Result;
use looptree::Question;
use looptree::compat::SeedVerbs as _;
use looptree::event::Ended;
use looptree::message::Cost;
use looptree::prelude::*;
use looptree::{EventReceiver, Usage};

use crate::approval;
use crate::demo::RECORDING;
use crate::keyboard::{Keyboard, Pressed};
use crate::money;
use crate::render::Screen;

/// What one stream of events came to.
struct Streamed {
    /// What the run waits for; empty when it ended.
    questions: Vec<Question>,
    well: bool,
}

/// How a task came back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Well,
    Badly,
    /// It waits for an answer, which arrives later.
    Waits,
}

/// Who answers what a run asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    /// The person at the keyboard.
    Here,
    /// Another process, later.
    Later,
}

/// Runs one task to its end.
pub(crate) async fn turn(
    agent: &BasicAgent,
    task: &str,
    asking: Asking,
    screen: &Screen,
    keyboard: &mut Keyboard,
) -> Result<Ending> {
    go_on(agent, agent.prompt(task)?, asking, screen, keyboard).await
}

/// Shows a run that has begun, asks what it asks, until it ends.
pub(crate) async fn go_on(
    agent: &BasicAgent,
    mut events: EventReceiver,
    asking: Asking,
    screen: &Screen,
    keyboard: &mut Keyboard,
) -> Result<Ending> {
    let model = agent.model();
    let (mut usage, mut cost) = (Usage::default(), Cost::default());
    let mut count = |turn: &Usage| {
        usage = usage.combine(turn);
        cost = cost.combine(&turn.cost(&model.cost));
    };
    let ending = loop {
        let streamed = stream(agent, events, screen, keyboard, &mut count).await;
        let Some(question) = streamed.questions.into_iter().next() else {
            break if streamed.well { Ending::Well } else { Ending::Badly };
        };
        if asking == Asking::Later {
            break Ending::Waits;
        }
        keyboard.forget().await;
        match &question.budget {
            Some(refusal) => screen.ask_for(&money::question(&question.text, refusal.limit)),
            None => screen.ask(&question),
        }
        events = match keyboard.line().await {
            Pressed::Line(words) => {
                let answer = match &question.budget {
                    Some(refusal) => money::answer(&words, refusal),
                    None => approval::answer(&words),
                };
                agent.answer(question.id, answer)?
            }
            Pressed::Interrupt | Pressed::End => {
                screen.line("");
                let events = agent.answer(question.id, approval::answer("no"))?;
                agent.abort();
                events
            }
        };
    };
    if model.provider != RECORDING {
        screen.line(&money::summary(&usage, &cost));
        if let Some(budget) = agent.config().services.budget {
            screen.line(&money::spent(&budget));
        }
    }
    Ok(ending)
}

/// Shows events until the run ends or asks. The first Ctrl-C aborts the run, the second ends the program.
async fn stream(
    agent: &BasicAgent,
    events: EventReceiver,
    screen: &Screen,
    keyboard: &mut Keyboard,
    count: &mut impl FnMut(&Usage),
) -> Streamed {
    let mut events = events.without_sub_agents();
    let mut streamed = Streamed { questions: Vec::new(), well: true };
    let mut interrupted = false;
    let _spinner = screen.spin();
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            () = keyboard.interrupt() => {
                if interrupted {
                    screen.line("stopped");
                    std::process::exit(130);
                }
                interrupted = true;
                agent.abort();
                continue;
            }
        };
        let Some(event) = event else { return streamed };
        screen.show(&event);
        if screen.is_gone() && !interrupted {
            interrupted = true;
            agent.abort();
        }
        match event {
            AgentEvent::TurnEnd { usage, .. } => count(&usage),
            AgentEvent::AgentEnd(end) => streamed.well = matches!(end.ended, Ended::Completed),
            AgentEvent::RunSuspended { questions, .. } => streamed.questions = questions,
            _ => {}
        }
    }
}
