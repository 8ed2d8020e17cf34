//! One run on the screen: live text, tools, usage, Ctrl-C.

use anyhow::Result;
use looptree::prelude::*;
use looptree::{Cost, Usage};

use crate::demo::RECORDING;
use crate::money;
use crate::render::Screen;

/// Runs one prompt to its end. Whether it ended well.
pub(crate) async fn turn(agent: &BasicAgent, task: &str, screen: &Screen) -> Result<bool> {
    let mut events = agent.prompt(task)?;
    let model = agent.model();
    let mut cost = Cost::default();
    let mut usage = Usage::default();
    let mut interrupts = 0;
    let mut well = true;
    let spinner = screen.spin();
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            _ = tokio::signal::ctrl_c() => {
                interrupts += 1;
                if interrupts > 1 {
                    screen.line("stopped");
                    std::process::exit(130);
                }
                agent.abort();
                continue;
            }
        };
        let Some(event) = event else { break };
        match &event {
            AgentEvent::TurnEnd { usage: turn, .. } => {
                usage = usage.combine(turn);
                cost = cost.combine(&turn.cost(&model.cost));
            }
            AgentEvent::AgentEnd(end) => well = matches!(end.ended, Ended::Completed),
            _ => {}
        }
        screen.show(&event);
    }
    drop(spinner);
    if model.provider != RECORDING {
        screen.line(&money::summary(&usage, &cost));
    }
    Ok(well)
}
