//! Where the steps of a simulation come from: they are drawn from a seed, or read from a script.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_core::provider::ModelRequest;
use agent_core::{Answer, ErrorKind, Question, Spending};
use serde_json::Value;

use crate::arguments::{fitting, unfitting};
use crate::faults::{Fault, Faults};
use crate::random::Random;
use crate::script::{Act, Action, Call, Reply, ReplyEnd, Script, Step, StoreFault, ToolFault};

/// What a simulation draws its steps from, besides the seed.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) faults: Faults,
    /// The prompts, of which a run draws the first ones.
    pub(crate) prompts: Vec<String>,
    /// The most replies with calls for a prompt.
    pub(crate) turns: u32,
    /// Arguments of tools that replace those drawn from the schema.
    pub(crate) arguments: BTreeMap<String, Vec<Value>>,
    /// Whether the agent is recorded to a session store.
    pub(crate) has_store: bool,
}

/// The most outside acts of a script, so that it ends.
const MAX_ACTS: usize = 12;

/// Supplies the steps of one simulated run and keeps those that were supplied.
#[derive(Debug)]
pub(crate) enum Source {
    Drawn(Box<Drawn>),
    Read(Read),
}

impl Source {
    pub(crate) fn drawn(seed: u64, plan: Arc<Plan>) -> Self {
        let mut random = Random::new(seed);
        let prompts = 1 + random.below(plan.prompts.len().min(3) as u64);
        let script = Script { seed, steps: Vec::new() };
        Self::Drawn(Box::new(Drawn {
            random,
            plan,
            script,
            schemas: BTreeMap::new(),
            prompts,
            turns: 0,
            named: 0,
            acts: 0,
        }))
    }

    pub(crate) fn read(script: &Script) -> Self {
        Self::Read(Read { taken: vec![false; script.steps.len()], script: script.clone(), start: 0 })
    }

    /// Returns the script that was read, or that has been drawn so far.
    pub(crate) fn script(&self) -> &Script {
        match self {
            Self::Drawn(drawn) => &drawn.script,
            Self::Read(read) => &read.script,
        }
    }

    /// Returns the next prompt and what happens after it; `None` at the end of the script.
    pub(crate) fn prompt(&mut self) -> Option<(String, Vec<Act>)> {
        match self {
            Self::Drawn(drawn) => drawn.prompt(),
            Self::Read(read) => read.prompt(),
        }
    }

    /// Returns the reply to this request and what happens after it.
    pub(crate) fn reply(&mut self, request: &ModelRequest) -> (Reply, Vec<Act>) {
        match self {
            Self::Drawn(drawn) => drawn.reply(request),
            Self::Read(read) => {
                let taken = read.take(|step| match step {
                    Step::Reply(reply) => Some(reply.clone()),
                    _ => None,
                });
                taken.unwrap_or_else(|| (done(), Vec::new()))
            }
        }
    }

    /// Returns the answer to this question and what happens after it.
    pub(crate) fn answer(&mut self, question: &Question) -> (Answer, Vec<Act>) {
        match self {
            Self::Drawn(drawn) => drawn.answer(question),
            Self::Read(read) => {
                let taken = read.take(|step| match step {
                    Step::Answer(answer) => Some(answer.clone()),
                    _ => None,
                });
                taken.unwrap_or_else(|| (Answer::deny("nobody answers"), Vec::new()))
            }
        }
    }
}

/// Returns the reply of a model to which nothing is left to say.
pub(crate) fn done() -> Reply {
    Reply { text: "done".to_owned(), tokens: (10, 1), ..Reply::default() }
}

/// Steps that are drawn when they are needed, so that they fit: calls name the tools of the request.
#[derive(Debug)]
pub(crate) struct Drawn {
    random: Random,
    plan: Arc<Plan>,
    script: Script,
    /// The schemas of the tools that a request had.
    schemas: BTreeMap<String, Value>,
    prompts: u64,
    turns: u32,
    named: u32,
    acts: usize,
}

impl Drawn {
    fn prompt(&mut self) -> Option<(String, Vec<Act>)> {
        let used = self.script.steps.iter().filter(|step| matches!(step, Step::Prompt(_))).count();
        if used as u64 >= self.prompts {
            return None;
        }
        let text = self.plan.prompts.get(used)?.clone();
        self.turns = 0;
        self.script.steps.push(Step::Prompt(text.clone()));
        Some((text, self.acts()))
    }

    fn reply(&mut self, request: &ModelRequest) -> (Reply, Vec<Act>) {
        let reply = self.draw_reply(request);
        self.script.steps.push(Step::Reply(reply.clone()));
        (reply, self.acts())
    }

    fn draw_reply(&mut self, request: &ModelRequest) -> Reply {
        self.named += 1;
        let tools = request.tools.definitions();
        for tool in tools {
            if !self.schemas.contains_key(&tool.name) {
                self.schemas.insert(tool.name.clone(), tool.parameters.clone());
            }
        }
        let calls = self.turns < self.plan.turns && !tools.is_empty() && self.random.chance(75);
        let mut reply = Reply { tokens: (10 + self.random.below(300), 1 + self.random.below(60)), ..done() };
        if calls || self.random.chance(10) {
            let says = self.random.chance(50);
            reply.text = if says { format!("text {}", self.named) } else { String::new() };
        }
        // A judge has no tools and replies with the number of an answer.
        if tools.is_empty() && self.random.chance(60) {
            reply.text = (1 + self.random.below(3)).to_string();
        }
        if calls {
            self.turns += 1;
            let count = *self.random.pick(&[1, 1, 1, 1, 2, 2, 3]).unwrap_or(&1);
            for _ in 0..count {
                if let Some(tool) = self.random.pick(tools) {
                    reply.calls.push(self.call(&tool.name, &tool.parameters));
                }
            }
        }
        let faults = self.plan.faults.clone();
        if faults.contains(Fault::ModelFailure) && self.random.chance(9) {
            let kinds = [
                ErrorKind::Network,
                ErrorKind::Network,
                ErrorKind::RateLimited,
                ErrorKind::Api,
                ErrorKind::ContextOverflow,
                ErrorKind::Quota,
            ];
            reply.end = ReplyEnd::Fails(*self.random.pick(&kinds).unwrap_or(&ErrorKind::Network));
            if self.random.chance(50) {
                (reply.text, reply.calls) = (String::new(), Vec::new());
            }
        } else if faults.contains(Fault::ModelPause) && self.random.chance(6) {
            reply.end = match self.random.below(5) {
                0 | 1 => ReplyEnd::Length,
                2 | 3 => ReplyEnd::Paused,
                _ => ReplyEnd::Hangs,
            };
            if reply.end == ReplyEnd::Paused {
                reply.calls = Vec::new();
                reply.text = format!("text {}", self.named);
            }
        }
        if faults.contains(Fault::ModelPause) && self.random.chance(8) {
            reply.delay_ms = 1 + self.random.below(120_000);
        }
        reply
    }

    fn call(&mut self, tool: &str, schema: &Value) -> Call {
        let faults = &self.plan.faults;
        let mut call = Call { tool: tool.to_owned(), arguments: String::new(), fault: ToolFault::None };
        if faults.contains(Fault::InvalidCall) && self.random.chance(3) {
            "no_such_tool".clone_into(&mut call.tool);
        }
        let given = self.plan.arguments.get(tool).and_then(|given| self.random.pick(given));
        call.arguments = if faults.contains(Fault::InvalidCall) && self.random.chance(8) {
            unfitting(schema, &mut self.random)
        } else if let Some(given) = given {
            given.to_string()
        } else {
            fitting(schema, &mut self.random).to_string()
        };
        if faults.contains(Fault::ToolFailure) && self.random.chance(10) {
            let drawn = [ToolFault::Fails, ToolFault::FailsAfter, ToolFault::Panics];
            call.fault = *self.random.pick(&drawn).unwrap_or(&ToolFault::None);
        } else if faults.contains(Fault::ToolDelay) && self.random.chance(12) {
            call.fault = match self.random.below(4) {
                0 => ToolFault::Hangs,
                _ => ToolFault::Slow(1 + self.random.below(90_000)),
            };
        }
        call
    }

    fn answer(&mut self, question: &Question) -> (Answer, Vec<Act>) {
        let denies = self.plan.faults.contains(Fault::Denial) && self.random.chance(40);
        let answer = match (&question.call, &question.budget) {
            (Some(call), _) if denies && self.random.chance(30) => {
                let proposed = call.arguments.value().cloned().unwrap_or_default();
                Answer::AllowWith(self.changed(call.name.as_str(), proposed))
            }
            _ if denies => Answer::deny("the user says no"),
            (_, Some(_)) => Answer::Raise { by: Spending::of_tokens(1 + self.random.below(1_000)) },
            _ => Answer::Allow,
        };
        self.script.steps.push(Step::Answer(answer.clone()));
        (answer, self.acts())
    }

    /// Returns other arguments that fit the schema of the tool, or the proposed ones if the schema is not known.
    fn changed(&mut self, tool: &str, proposed: Value) -> Value {
        if let Some(given) = self.plan.arguments.get(tool).and_then(|given| self.random.pick(given)) {
            return given.clone();
        }
        match self.schemas.get(tool) {
            Some(schema) => fitting(schema, &mut self.random),
            None => proposed,
        }
    }

    /// Draws what happens after the step that was drawn last.
    fn acts(&mut self) -> Vec<Act> {
        let mut acts = Vec::new();
        while self.acts < MAX_ACTS && self.random.chance(30) {
            let Some(what) = self.action() else { break };
            self.acts += 1;
            let reach = if self.random.chance(60) { 8 } else { 30 };
            acts.push(Act { after: u32::try_from(self.random.below(reach)).unwrap_or_default(), what });
        }
        self.script.steps.extend(acts.iter().cloned().map(Step::Act));
        acts
    }

    fn action(&mut self) -> Option<Action> {
        let faults = &self.plan.faults;
        let mut possible = Vec::new();
        if faults.contains(Fault::Message) {
            possible.extend([0, 0, 0, 1, 1, 2]);
        }
        for (fault, number) in
            [(Fault::Abort, 3), (Fault::Kill, 4), (Fault::Kill, 4), (Fault::Crash, 5), (Fault::ClockJump, 6)]
        {
            if faults.contains(fault) {
                possible.push(number);
            }
        }
        if self.plan.has_store {
            let of_store = [(Fault::StoreFailure, 7), (Fault::StoreFailure, 8), (Fault::Takeover, 9)];
            possible.extend(of_store.iter().filter(|(fault, _)| faults.contains(*fault)).map(|(_, n)| *n));
        }
        let number = *self.random.pick(&possible)?;
        self.named += 1;
        Some(match number {
            0 => Action::Steer(format!("steering {}", self.named)),
            1 => Action::FollowUp(format!("follow-up {}", self.named)),
            2 => Action::Complete(format!("result {}.", self.named)),
            3 => Action::Abort,
            4 => Action::Kill,
            5 => Action::Crash,
            7 => Action::StoreFails(StoreFault::Before),
            8 => Action::StoreFails(StoreFault::After),
            9 => Action::Stop,
            _ => {
                let jumps = [-3_600_000, -1_000, 1_000, 60_000, 3_600_000, 86_400_000];
                Action::Jump(*self.random.pick(&jumps).unwrap_or(&1_000))
            }
        })
    }
}

/// Steps of a script.
#[derive(Debug)]
pub(crate) struct Read {
    script: Script,
    taken: Vec<bool>,
    /// The position of the first step of the current prompt.
    start: usize,
}

impl Read {
    fn prompt(&mut self) -> Option<(String, Vec<Act>)> {
        let steps = self.script.steps.iter().zip(&self.taken).enumerate().skip(self.start);
        let (at, text) = steps
            .filter_map(|(at, (step, taken))| match step {
                Step::Prompt(text) if !taken => Some((at, text.clone())),
                _ => None,
            })
            .next()?;
        self.start = at;
        self.mark(at);
        Some((text, self.acts_after(at)))
    }

    /// Takes the next step of the current prompt that `select` selects.
    fn take<T>(&mut self, select: impl Fn(&Step) -> Option<T>) -> Option<(T, Vec<Act>)> {
        let steps = self.script.steps.iter().zip(&self.taken).enumerate().skip(self.start);
        let here = steps.take_while(|(_, (step, taken))| **taken || !matches!(step, Step::Prompt(_)));
        let (at, value) =
            here.filter(|(_, (_, taken))| !**taken).find_map(|(at, (step, _))| Some((at, select(step)?)))?;
        self.mark(at);
        Some((value, self.acts_after(at)))
    }

    fn mark(&mut self, at: usize) {
        if let Some(taken) = self.taken.get_mut(at) {
            *taken = true;
        }
    }

    fn acts_after(&self, at: usize) -> Vec<Act> {
        let after = self.script.steps.iter().skip(at + 1);
        after
            .map_while(|step| match step {
                Step::Act(act) => Some(act.clone()),
                _ => None,
            })
            .collect()
    }
}
