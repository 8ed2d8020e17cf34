//! A driver of the program's own, which performs the steps of a run with a `Performer`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

#[path = "support/delegating.rs"]
mod delegating;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_core::budget::Spending;
use agent_core::drive::ChildStart;
use agent_core::drive::perform::{CallProgress, Decision, Live, Performer};
use agent_core::event::Ended;
use agent_core::history::History;
use agent_core::journal::{Journal, JournalEntry, JournalError, RecordedLoop};
use agent_core::run::{ChildEnd, Input, PendingCall, Run, Step};
use agent_core::testing::{ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentContext, AgentEvent, AgentLoopConfig, AgentTool, Answer, Budget, BudgetLimits, Hooks, LoopId,
    Message, ModelConfig, SessionId, Usage,
};
use async_trait::async_trait;
use delegating::Helper;
use serde_json::json;

struct Driver {
    performer: Performer,
    run: Run,
    events: Vec<AgentEvent>,
}

impl Driver {
    fn start(config: AgentLoopConfig, tools: Vec<Arc<dyn AgentTool>>, of_loop: &str) -> Self {
        let context = AgentContext::new("").with_tools(tools);
        let mut performer = Performer::for_context(&context, config);
        let setup = performer.setup("agent".into(), "session".into(), of_loop.into());
        let mut events = Vec::new();
        let run = performer.start(setup, History::new(), vec!["go".into()], &mut events).unwrap();
        Self { performer, run, events }
    }

    fn apply(&mut self, input: Input) {
        let (input, mut events) = (self.performer.stamp(input), Vec::new());
        self.performer.apply(&mut self.run, input, &mut events).unwrap();
        for event in &events {
            self.performer.observe(&self.run, event);
        }
        self.events.append(&mut events);
    }

    /// Performs the steps until the run ends or waits.
    async fn drive(&mut self) {
        while let Some(calls) = self.until_tools().await {
            self.run_tools(calls).await;
        }
    }

    /// Performs the steps until the next one runs tools, and returns their calls. `None` if the run ends or waits first.
    async fn until_tools(&mut self) -> Option<Vec<PendingCall>> {
        loop {
            match self.run.next() {
                Step::Done(_) => return None,
                Step::AwaitAnswer { .. } => {
                    self.apply(Input::Suspended);
                    return None;
                }
                Step::RunTools { calls, .. } => return Some(calls),
                Step::CallModel { .. } => self.call_model().await,
                _ => {
                    let input = self.performer.perform(&self.run).await.unwrap();
                    self.apply(input);
                }
            }
        }
    }

    async fn call_model(&mut self) {
        let call = self.performer.model(&self.run).unwrap();
        let mut inputs = Vec::new();
        let rest = call.perform(|live| {
            if let Live::Started(input) = live {
                inputs.push(input);
            }
        });
        let rest = rest.await;
        inputs.into_iter().chain(rest).for_each(|input| self.apply(input));
    }

    async fn run_tools(&mut self, pending: Vec<PendingCall>) {
        let mut ready = Vec::new();
        for pending in pending {
            match self.performer.decide(&self.run, &pending).await {
                Some(Decision::Execute(input, call)) => {
                    self.apply(input);
                    ready.push(*call);
                }
                Some(Decision::Apply(input)) => self.apply(input),
                other => panic!("{other:?}"),
            }
        }
        let mut calls = self.performer.calls(ready);
        while let Some(progress) = calls.next(&self.run).await {
            match progress {
                CallProgress::Ended(input, _) | CallProgress::Apply(input) => self.apply(input),
                _ => {}
            }
        }
    }
}

fn config(model: &ScriptedProvider) -> AgentLoopConfig {
    let environment = Arc::new(ManualEnvironment::at(1_800_000_000_000));
    AgentLoopConfig::new(Arc::new(model.clone()), ModelConfig::default(), environment)
}

/// A helper that makes two calls of a tool that asks.
fn helper() -> Arc<dyn AgentTool> {
    let calls = ScriptedReply::call("k1", "work", json!({})).and_call("k2", "work", json!({}));
    let model = ScriptedProvider::new([calls, ScriptedReply::text("helped")]);
    Arc::new(Helper { model, tool: ScriptedTool::saying("work", "worked").asking("Work now?") })
}

fn caller() -> ScriptedProvider {
    let usage = Usage::new(100, 10, 0, 0);
    let call = ScriptedReply::call("c", "helper", json!({}));
    ScriptedProvider::new([call.using(usage), ScriptedReply::text("all done").using(usage)])
}

/// Two answers that arrive before the run is resumed reach the child one after the other.
#[tokio::test]
async fn a_child_gets_all_answers_that_its_caller_got_meanwhile() {
    let mut driver = Driver::start(config(&caller()), vec![helper()], "s.m.1");
    driver.drive().await;
    let ids: Vec<String> = driver.run.questions().iter().map(|q| q.id.to_string()).collect();
    assert_eq!(ids, ["c/k1", "c/k2"]);
    for (id, answer) in [("c/k2", Answer::deny("not this one")), ("c/k1", Answer::Allow)] {
        driver.apply(Input::Answer { question_id: id.into(), answer });
    }
    driver.drive().await;
    assert_eq!(driver.run.ended(), Some(&Ended::Completed));
    let texts: Vec<String> = driver.run.history().llm_messages().map(Message::text).collect();
    assert_eq!(texts[2], "task |  | worked | not this one | helped");
}

/// Hooks observe the events of the run, and no event of another loop.
#[tokio::test]
async fn hooks_observe_the_events_of_their_own_run() {
    let (turns, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let count = |counter: &Arc<AtomicUsize>| {
        let counter = Arc::clone(counter);
        move || {
            counter.fetch_add(1, Ordering::SeqCst);
        }
    };
    let (turn, end) = (count(&turns), count(&ends));
    let model = ScriptedProvider::new([ScriptedReply::text("a"), ScriptedReply::text("b")]);
    let mut with_hooks = config(&model);
    *with_hooks.hooks = Hooks::new().after_turn(move |_| turn()).after_loop(move |_| end());
    let mut driver = Driver::start(with_hooks, vec![], "s.m.1");
    driver.drive().await;
    let counts = || (turns.load(Ordering::SeqCst), ends.load(Ordering::SeqCst));
    assert_eq!(counts(), (1, 1));

    let mut other = Driver::start(config(&model), vec![], "s.m.2");
    other.drive().await;
    assert!(matches!(other.events.last(), Some(AgentEvent::AgentEnd(_))));
    other.events.iter().for_each(|event| driver.performer.observe(&driver.run, event));
    assert_eq!(counts(), (1, 1));
}

/// A call that ignores the abort is closed by a second one, after the grace period.
#[tokio::test]
async fn a_call_that_ignores_an_abort_is_closed_after_the_grace_period() {
    let model = ScriptedProvider::new([ScriptedReply::call("c1", "hangs", json!({}))]);
    let mut config = config(&model);
    config.services.environment = Arc::new(ManualEnvironment::skipping(1_800_000_000_000));
    let tool: Arc<dyn AgentTool> = Arc::new(ScriptedTool::new("hangs", |_, _| std::future::pending()));
    let mut driver = Driver::start(config, vec![tool], "s.m.1");
    let calls = driver.until_tools().await.unwrap();
    let decision = driver.performer.decide(&driver.run, &calls[0]).await;
    let Some(Decision::Execute(input, call)) = decision else { panic!("{decision:?}") };
    driver.apply(input);
    let mut calls = driver.performer.calls([*call]);
    driver.performer.cancel_token().cancel();
    let mut aborts = Vec::new();
    while let Some(progress) = calls.next(&driver.run).await {
        let CallProgress::Apply(Input::Abort { .. }) = progress else { panic!("{progress:?}") };
        driver.apply(Input::abort(None));
        aborts.push(driver.run.ended().cloned());
    }
    assert_eq!(aborts, [None, Some(Ended::Aborted)]);
}

/// A journal in which every child has ended.
#[derive(Debug)]
struct AllEnded;

#[async_trait]
impl Journal for AllEnded {
    async fn append(&self, _: JournalEntry<'_>) -> Result<(), JournalError> {
        Ok(())
    }

    async fn recorded_loop(&self, _: &SessionId, id: &LoopId) -> Result<RecordedLoop, JournalError> {
        let end = ChildEnd::new(id.clone(), Ended::Completed, History::new(), 2, Usage::new(7, 3, 0, 0));
        Ok(RecordedLoop::Ended(Box::new(end.with_spent(Some(Spending::of_tokens(10))))))
    }
}

/// The report of a child that ended before a restart contains what the child spent.
#[tokio::test]
async fn a_child_that_had_ended_is_reported_with_what_it_spent() {
    let mut config = config(&caller());
    config.services.budget = Some(Budget::new(BudgetLimits::none()));
    config.services.journal = Some(Arc::new(AllEnded));
    let mut driver = Driver::start(config, vec![helper()], "s.m.1");
    let mut reports = Vec::new();
    // The first round stands for the process that ended after the call had begun.
    for round in 0..2 {
        let calls = driver.until_tools().await.unwrap();
        for pending in calls {
            let decision = driver.performer.decide(&driver.run, &pending).await;
            let Some(Decision::Execute(input, call)) = decision else { panic!("{decision:?}") };
            driver.apply(input);
            if round == 1 {
                let child = call.into_child().unwrap().unwrap();
                let ChildStart::Ended(end) = &child.start else { panic!("the journal has its end") };
                reports.push(child.report_end(end).await);
            }
        }
    }
    let [Input::ToolEnded { outcome, .. }] = &reports[..] else { panic!("{reports:?}") };
    assert_eq!(outcome.spent.as_deref(), Some(&Spending::of_tokens(10)));
    driver.apply(reports[0].clone());
    driver.drive().await;
    assert_eq!(driver.run.ended(), Some(&Ended::Completed));
    assert_eq!(driver.run.spent().unwrap().tokens, 2 * 110 + 10);
}
