//! One run on the terminal: events, steering, questions, Ctrl-C.

use std::time::Instant;

use anyhow::Result;
use looptree::EventReceiver;
use looptree::event::Ended;
use looptree::prelude::*;

use super::ask::{Asked, Asker};
use super::keys::{Keys, Typed};
use super::{Chat, commands};
use crate::money;
use crate::screen::{Style, Styled};
use crate::work::Meter;

/// How a run came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Well,
    Badly,
    /// The user wants the program to end.
    Exit,
}

impl Chat<'_> {
    /// Follows a run until it ends: shows its events, steers it with typed text, and asks its questions.
    pub(super) async fn work(&mut self, mut events: EventReceiver) -> Result<Ending> {
        let began = Instant::now();
        let mut meter = Meter::default();
        let mut keys = Keys::open(self.screen)?;
        let running = self.screen.running();
        let ending = loop {
            let (ended, questions) = self.stream(events, &mut keys, &mut meter).await;
            let Some(question) = questions.into_iter().next() else { break ended };
            // What was being typed is no answer; it is there again afterwards.
            let draft = keys.text.clone();
            keys.forget().await;
            let asker = Asker {
                screen: self.screen,
                workspace: &self.setup.workspace,
                approvals: &self.setup.approvals,
                pager: &self.pager,
            };
            let asked = asker.ask(&question, &mut keys).await?;
            let interrupted = matches!(asked, Asked::Interrupt);
            let answer = match asked {
                Asked::Answer(answer) => answer,
                Asked::Interrupt => Answer::deny("The user interrupted the run."),
            };
            keys.text = draft;
            self.screen.typing(&keys.text);
            if let Some(recording) = &self.setup.recording {
                recording.answered(&answer);
            }
            events = self.setup.agent.answer(question.id, answer)?;
            if interrupted {
                self.setup.agent.abort();
            }
        };
        drop(running);
        self.draft = keys.finish();
        self.meter.add(&meter);
        let seconds = began.elapsed().as_secs();
        self.screen.paragraph(
            Style::Dim,
            "",
            format!("{seconds} s, {}", money::summary(&meter.usage, &meter.cost)),
        );
        if let Some(budget) = self.setup.agent.config().services.budget {
            self.screen.paragraph(Style::Dim, "", money::spent(&budget));
        }
        self.screen.line("");
        Ok(ending)
    }

    /// Shows events until the run ends or asks.
    async fn stream(
        &mut self,
        mut events: EventReceiver,
        keys: &mut Keys,
        meter: &mut Meter,
    ) -> (Ending, Vec<looptree::Question>) {
        let agent = self.setup.agent.handle();
        let model = agent.config().model;
        let (mut ending, mut questions, mut interrupted) = (Ending::Well, Vec::new(), false);
        // Texts that were sent into the run and that the model has not received yet.
        let mut waiting: Vec<String> = Vec::new();
        let mut over = false;
        loop {
            let event = tokio::select! {
                biased;
                typed = keys.next() => {
                    match typed {
                        Typed::Changed => self.screen.typing(&keys.text),
                        Typed::Line(text, _) if text.trim().is_empty() => self.screen.typing(""),
                        // Too late for this run: it is there again at the prompt.
                        Typed::Line(text, _) if over => keys.text = text,
                        // Commands work between runs, so that it stays in the line.
                        Typed::Line(text, _) if commands::parse(&text).is_some() => {
                            self.screen.typing(&text);
                            self.postponed(text.trim());
                            keys.text = text;
                        }
                        Typed::Line(text, _) => {
                            self.screen.typing("");
                            self.steer(&agent, &text);
                            waiting.push(text.trim_end().to_owned());
                        }
                        Typed::Interrupt if interrupted => {
                            // The run is given up; its session is as it was journaled.
                            return (Ending::Exit, Vec::new());
                        }
                        Typed::Interrupt | Typed::Stop if !interrupted => {
                            interrupted = true;
                            self.screen.stopping();
                            agent.abort();
                        }
                        Typed::Interrupt | Typed::Stop | Typed::Other => {}
                    }
                    continue;
                }
                event = events.recv_numbered() => event,
            };
            let Some(event) = event else {
                if questions.is_empty() && !waiting.is_empty() {
                    let text = format!("the model gets this with your next task: {}", waiting.join(" / "));
                    self.screen.paragraph(Style::Dim, "» ", &text);
                }
                return (ending, questions);
            };
            if event.depth > 0 {
                continue;
            }
            if let AgentEvent::MessageStart { message, .. } = &event.event
                && message.role() == "user"
            {
                let text = message.text();
                waiting.retain(|sent| *sent != text);
            }
            self.screen.show(&event.event);
            if self.screen.is_gone() && !interrupted {
                interrupted = true;
                agent.abort();
            }
            if meter.note(&event.event, &model) {
                self.screen.used(&meter.usage, &meter.cost);
            }
            match event.into_event() {
                AgentEvent::AgentEnd(end) => {
                    over = true;
                    if end.ended != Ended::Completed {
                        ending = Ending::Badly;
                    }
                    if let Some(advice) = crate::window::advice(&self.setup, &end.ended) {
                        self.screen.paragraph(Style::Dim, "", advice);
                    }
                }
                AgentEvent::RunSuspended { questions: asked, .. } => questions = asked,
                _ => {}
            }
        }
    }

    /// Tells the user that a command waits for the end of the run.
    fn postponed(&self, command: &str) {
        let text = format!("{command} is in the next prompt; commands work when no run is open");
        self.screen.paragraph(Style::Dim, "", &text);
    }

    /// Sends a text into the run. It arrives after the calls that are running.
    fn steer(&self, agent: &AgentHandle, text: &str) {
        agent.steer(text.trim_end());
        self.screen.paragraph(Style::Bold, "» ", Styled::prose(text.trim_end()));
    }
}
