use super::driver::{BlockingDriver, block_on};
use looptree::drive::GroupLoop;
use looptree::evaluation::{EvaluationError, EvaluationStrategy, Judge, Judging, LlmJudgeEvaluation};
use looptree::identity::LoopId;
use looptree::parallel::{Group, GroupInput, GroupPlan, GroupStep, ParallelLoopOutcome};
use looptree::run::{Input, Run};
use looptree::{AgentEvent, CancellationToken};
use std::error::Error;

/// What survives the process: the group and the runs of its loops, in their serialized form.
pub trait Store: Sync {
    fn record_group(&self, group: &mut Group);
    fn record_run(&self, run: &mut Run);
    /// Returns the run of a loop; `None` if it has not started.
    fn run(&self, loop_id: &LoopId) -> Option<Run>;
    fn deliver(&self, event: &AgentEvent);
}

/// How the group selects: with a strategy of any kind, or with a judge whose run is stored, too.
pub enum Selection<'a> {
    Strategy(&'a dyn EvaluationStrategy),
    Judge(&'a LlmJudgeEvaluation),
}

/// Drives a group on the calling thread.
pub struct GroupDriver<'a, S> {
    pub plan: &'a GroupPlan,
    pub selection: Selection<'a>,
    pub store: &'a S,
    pub cancel: CancellationToken,
}

impl<S: Store> GroupDriver<'_, S> {
    /// Starts the group.
    pub fn start(&self) -> Group {
        let mut events = Vec::new();
        let mut group = Group::start(self.plan.setup().clone(), self.plan.now(), &mut events);
        self.store.record_group(&mut group);
        events.iter().for_each(|event| self.store.deliver(event));
        group
    }

    /// Performs the steps of the group until it ends.
    pub fn drive(&self, group: &mut Group) -> Result<(), Box<dyn Error>> {
        loop {
            match group.next() {
                GroupStep::RunBranches { open, .. } => {
                    for index in open {
                        let planned = &self.plan.loops()[index];
                        let run = self.drive_loop(planned, false)?;
                        let outcome = ParallelLoopOutcome::of_run(index, planned, run);
                        self.apply(group, GroupInput::from(&outcome))?;
                    }
                }
                GroupStep::Evaluate { .. } => {
                    let input = self.evaluate()?;
                    self.apply(group, input)?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Applies an input after the abort of the group, if it was aborted.
    fn apply(&self, group: &mut Group, input: GroupInput) -> Result<(), Box<dyn Error>> {
        let abort = self.cancel.is_cancelled().then_some(GroupInput::Abort {});
        for input in abort.into_iter().chain([input]) {
            let mut events = Vec::new();
            group.apply(self.plan.now(), input, &mut events)?;
            self.store.record_group(group);
            events.iter().for_each(|event| self.store.deliver(event));
        }
        Ok(())
    }

    /// Drives a loop until it ends or waits for an answer, from its start or from where its stored run stands. The
    /// questions of a judge are denied.
    fn drive_loop(&self, planned: &GroupLoop, denies: bool) -> Result<Run, Box<dyn Error>> {
        let (mut performer, setup) = (planned.performer(self.cancel.child_token()), planned.setup());
        let run = match self.store.run(&setup.loop_id) {
            Some(run) => {
                performer.open(&run);
                run
            }
            None => {
                let (history, prompts) = (planned.context.history.clone(), planned.prompts.clone());
                let mut events = Vec::new();
                let mut run = performer.start(setup, history, prompts, &mut events)?;
                self.store.record_run(&mut run);
                events.iter().for_each(|event| self.store.deliver(event));
                run
            }
        };
        let (record, deliver) =
            (|run: &mut Run, _| self.store.record_run(run), |e: &AgentEvent| self.store.deliver(e));
        let mut driver = BlockingDriver { performer, run, record, deliver };
        driver.drive()?;
        while let (true, Some(question)) = (denies, driver.run.questions().into_iter().next()) {
            driver.apply(Input::Answer { question_id: question.id, answer: Judge::denial() })?;
            driver.drive()?;
        }
        Ok(driver.run)
    }

    /// Lets the strategy select a branch.
    fn evaluate(&self) -> Result<GroupInput, Box<dyn Error>> {
        let ended = self.plan.loops().iter().enumerate().filter_map(|(index, planned)| {
            let run = self.store.run(&planned.setup().loop_id)?;
            Some(ParallelLoopOutcome::of_run(index, planned, run))
        });
        let outcomes: Vec<_> = ended.collect();
        let (tx, mut notes) = looptree::event_channel();
        let evaluation = self.plan.evaluation(&outcomes, &tx, &self.cancel);
        let evaluated = match &self.selection {
            Selection::Strategy(strategy) => block_on(strategy.evaluate(evaluation)),
            Selection::Judge(judge) => match judge.judging(&evaluation) {
                Ok(Judging::Ask(judge)) => {
                    let run = self.drive_loop(&judge.group_loop, true)?;
                    judge.evaluated(&run, &evaluation)
                }
                Ok(Judging::Decided(evaluated)) => Ok(evaluated),
                Ok(_) => Err(EvaluationError::NoCandidate),
                Err(error) => Err(error),
            },
        };
        while let Some(note) = notes.try_recv() {
            self.store.deliver(&note);
        }
        Ok(match evaluated {
            Ok(evaluated) => GroupInput::Evaluated { evaluated },
            Err(error) => GroupInput::EvaluationFailed { reason: error.to_string() },
        })
    }
}
