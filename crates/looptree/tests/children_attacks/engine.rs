//! An engine that runs each child as a run of its own.

use std::sync::Arc;

use looptree::budget::Spending;
use looptree::drive::perform::{Decision, Live, Performer};
use looptree::drive::{AgentContext, ChildLoop, ChildStart};
use looptree::event::Ended;
use looptree::history::History;
use looptree::identity::{LoopId, SessionId};
use looptree::journal::{Journal, JournalEntry, JournalError, RecordedLoop};
use looptree::prelude::*;
use looptree::run::{ChildAnswer, ChildEnd, Input, Run, Step};
use looptree::tools::sub_agent::NO_TEXT;

use crate::{amounts, asking, driver, helper, model, wide_budget, world};

/// Drives a run until it ends or waits, each child as a run of its own.
fn drive(performer: &mut Performer, run: &mut Run) {
    let apply = |performer: &mut Performer, run: &mut Run, input: Input| {
        let input = performer.stamp(input);
        performer.apply(run, input, &mut Vec::new()).unwrap();
    };
    loop {
        match run.next() {
            Step::Done(_) => return,
            Step::AwaitAnswer { .. } => return apply(performer, run, Input::Suspended),
            Step::CallModel { .. } => {
                model_call(performer, run).into_iter().for_each(|input| apply(performer, run, input));
            }
            Step::RunTools { calls, .. } => {
                for pending in calls {
                    match driver::block_on(performer.decide(run, &pending)) {
                        Some(Decision::Execute(input, call)) => {
                            apply(performer, run, input);
                            let end = match call.into_child() {
                                Ok(child) => drive_child(child.unwrap()),
                                Err(call) => driver::block_on(performer.call(*call)),
                            };
                            apply(performer, run, end);
                        }
                        Some(Decision::Apply(input)) => apply(performer, run, input),
                        _ => break,
                    }
                }
            }
            _ => {
                let input = driver::block_on(performer.perform(run)).unwrap();
                apply(performer, run, input);
            }
        }
    }
}

/// Returns the inputs of a model call.
fn model_call(performer: &Performer, run: &Run) -> Vec<Input> {
    let call = performer.model(run).unwrap();
    let mut inputs = Vec::new();
    let rest = driver::block_on(call.perform(|live| {
        if let Live::Started(input) = live {
            inputs.push(input);
        }
    }));
    inputs.extend(rest);
    inputs
}

/// Drives a child as a run of its own, and returns its report.
fn drive_child(mut child: ChildLoop) -> Input {
    let mut performer = child.performer();
    let start = std::mem::replace(&mut child.start, ChildStart::New);
    let run = match start {
        ChildStart::New => {
            let prompts = std::mem::take(&mut child.prompts);
            let mut run =
                performer.start(child.setup(), History::default(), prompts, &mut Vec::new()).unwrap();
            drive(&mut performer, &mut run);
            run
        }
        ChildStart::Resume(mut run, answers) => {
            performer.open(&run);
            for ChildAnswer { question_id, answer, .. } in answers {
                let input = performer.stamp(Input::Answer { question_id, answer });
                performer.apply(&mut run, input, &mut Vec::new()).unwrap();
                drive(&mut performer, &mut run);
            }
            *run
        }
        ChildStart::Ended(end) => return driver::block_on(child.report_end(&end)),
        other => panic!("{other:?}"),
    };
    driver::block_on(child.report(&run)).unwrap()
}

/// REQ-151. An engine that runs children as runs of its own counts what they spend, also over a suspension.
#[test]
fn an_engine_counts_the_spending_of_its_children() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let _entered = runtime.enter();
    let budget = wide_budget();
    let provider = world(&[("a", "paint"), ("b", "sing")]);
    let mut config = looptree::AgentLoopConfig::system(Arc::new(provider), model("boss"));
    config.services.budget = Some(budget.clone());
    let context = AgentContext::new("").with_tools(vec![Arc::new(helper(asking())) as _]);
    let config = Arc::new(config);
    let mut performer = Performer::for_context(&context, Arc::clone(&config));
    let setup = performer.setup("agent".into(), "session".into(), "session.demo.1".into());
    let mut run = performer.start(setup, History::default(), vec!["go".into()], &mut Vec::new()).unwrap();
    drive(&mut performer, &mut run);
    for _ in 0..2 {
        // The run is stored and continued elsewhere.
        let stored = serde_json::to_string(&run).unwrap();
        run = serde_json::from_str(&stored).unwrap();
        performer = Performer::for_context(&context, Arc::clone(&config));
        performer.open(&run);
        let question_id = run.questions()[0].id.clone();
        let input = performer.stamp(Input::Answer { question_id, answer: Answer::Allow });
        performer.apply(&mut run, input, &mut Vec::new()).unwrap();
        drive(&mut performer, &mut run);
    }
    assert_eq!(run.ended(), Some(&Ended::Completed));
    assert_eq!(run.tool_usage().input, 24);
    assert_eq!(amounts(&run.spent().unwrap()), (3_024, 6, 4));
    assert_eq!(amounts(&budget.spent()), (3_024, 6, 4));
}

/// A journal in which every child has ended.
#[derive(Debug)]
struct AllEnded;

#[async_trait::async_trait]
impl Journal for AllEnded {
    async fn append(&self, _: JournalEntry<'_>) -> Result<(), JournalError> {
        Ok(())
    }

    async fn recorded_loop(&self, _: &SessionId, id: &LoopId) -> Result<RecordedLoop, JournalError> {
        let usage = Usage::new(7, 3, 0, 0);
        let end = ChildEnd::new(id.clone(), Ended::Completed, History::default(), 2, usage);
        Ok(RecordedLoop::Ended(Box::new(end.with_spent(Some(Spending::of_tokens(10))))))
    }
}

/// An engine that was cut off after its children had ended reports their ends and runs none of them again.
#[test]
fn an_engine_reports_children_that_had_ended() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let _entered = runtime.enter();
    let provider = world(&[("a", "paint"), ("b", "sing")]);
    let mut config = looptree::AgentLoopConfig::system(Arc::new(provider.clone()), model("boss"));
    config.services.budget = Some(wide_budget());
    config.services.journal = Some(Arc::new(AllEnded));
    let context = AgentContext::new("").with_tools(vec![Arc::new(helper(asking())) as _]);
    let mut performer = Performer::for_context(&context, config);
    let setup = performer.setup("agent".into(), "session".into(), "session.demo.1".into());
    let mut run = performer.start(setup, History::default(), vec!["go".into()], &mut Vec::new()).unwrap();
    let apply = |performer: &mut Performer, run: &mut Run, input: Input| {
        let input = performer.stamp(input);
        performer.apply(run, input, &mut Vec::new()).unwrap();
    };
    let reserved = driver::block_on(performer.perform(&run)).unwrap();
    apply(&mut performer, &mut run, reserved);
    model_call(&performer, &run).into_iter().for_each(|input| apply(&mut performer, &mut run, input));
    let Step::RunTools { calls, .. } = run.next() else { panic!("{:?}", run.next()) };
    for pending in calls {
        let decision = driver::block_on(performer.decide(&run, &pending));
        let Some(Decision::Execute(input, _)) = decision else { panic!("{decision:?}") };
        apply(&mut performer, &mut run, input);
    }
    // The engine is cut off here, and continues with the calls that had begun.
    drive(&mut performer, &mut run);
    assert_eq!(run.ended(), Some(&Ended::Completed));
    assert_eq!(provider.requests().len(), 2, "only those of the caller");
    assert_eq!(run.tool_usage().input, 14);
    let results: Vec<String> = run.history().llm_messages().map(looptree::Message::text).collect();
    assert_eq!(results[2..4], [NO_TEXT, NO_TEXT]);
}
