//! Records a task to a cassette, and replays it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, anyhow};
use looptree::budget::AtLimit;
use looptree::compat::SeedVerbs as _;
use looptree::event::Ended;
use looptree::message::CostConfig;
use looptree::model::ApiProtocol;
use looptree::prelude::*;
use looptree::session::{Cassette, CassetteRecorder, Replay};
use serde::{Deserialize, Serialize};

use crate::approval::{Approvals, Approver, Outside};
use crate::args::{Approve, money as parse_money};
use crate::exit::{Exit, usage};
use crate::money;
use crate::screen::{Screen, Style, Styled};
use crate::servers::Servers;
use crate::settings::{MoneyText, Settings};
use crate::setup::{SYSTEM_PROMPT, compaction, context_of};
use crate::work::{Events, Interrupts, Meter, watch};

/// The name of the cassette's note with the settings of the task.
const NOTE: &str = "looptree";

/// The task and the settings that its replay needs besides the cassette.
#[derive(Serialize, Deserialize, Clone)]
struct RecordedTask {
    task: String,
    system_prompt: String,
    approve: Approve,
    plan_only: bool,
    can_ask: bool,
    /// Which tools were those of MCP servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outside: Option<Outside>,
    /// The answers to the run's questions, in their order.
    answers: Vec<Answer>,
    asked_at_limit: bool,
    budget: Option<String>,
    max_tokens_total: Option<u64>,
    max_turns: Option<u32>,
    thinking: ThinkingLevel,
    model: Model,
}

/// The facts about the model that the replay needs. It does not call the model.
#[derive(Serialize, Deserialize, Clone)]
struct Model {
    api: ApiProtocol,
    provider: String,
    id: String,
    name: String,
    context_window: Option<u32>,
    max_tokens: Option<u32>,
    cost: CostConfig,
}

/// The recording of a task to a cassette file.
pub(crate) struct TaskRecording {
    recorder: CassetteRecorder,
    file: PathBuf,
    recorded: Arc<Mutex<RecordedTask>>,
}

impl TaskRecording {
    /// Prepares a recording. The file must not exist.
    pub(crate) fn new(
        file: PathBuf,
        task: &str,
        settings: &Settings,
        approvals: &Approvals,
        at_limit: AtLimit,
        agent: &BasicAgent,
    ) -> Result<Self> {
        if file.exists() {
            return Err(usage(format!("{} exists; name a new file to record to", file.display())));
        }
        let config = agent.config();
        let model = &config.model;
        let recorded = RecordedTask {
            task: task.to_owned(),
            system_prompt: agent.system_prompt().to_string(),
            approve: approvals.approve(),
            plan_only: approvals.plan_only(),
            can_ask: approvals.approver() == Approver::Present,
            outside: approvals.outside(),
            answers: Vec::new(),
            asked_at_limit: at_limit == AtLimit::Pause,
            budget: settings.budget.value.map(|money| money.0.to_string()),
            max_tokens_total: settings.max_tokens_total.value,
            max_turns: settings.max_turns.value,
            thinking: settings.thinking.value.unwrap_or_default(),
            model: Model {
                api: model.api,
                provider: model.provider.clone(),
                id: model.id.clone(),
                name: model.name.clone(),
                context_window: model.context_window,
                max_tokens: model.max_tokens,
                cost: model.cost.clone(),
            },
        };
        Ok(Self { recorder: CassetteRecorder::new(), file, recorded: Arc::new(Mutex::new(recorded)) })
    }

    pub(crate) fn attach(&self, agent: BasicAgent) -> BasicAgent {
        self.recorder.attach(agent)
    }

    /// Records the answer to a question.
    pub(crate) fn answered(&self, answer: &Answer) {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.answers.push(answer.clone());
    }

    pub(crate) fn save(self, screen: &Screen) -> Result<()> {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.recorder.note(NOTE, serde_json::to_value(&recorded)?);
        self.recorder.cassette().save(&self.file)?;
        screen.line(format!("recording: {0}; looptree replay {0} plays it", self.file.display()));
        Ok(())
    }
}

/// Replays a recorded task. It calls no model, runs no tool and writes no session.
pub(crate) async fn replay(file: &Path, screen: &Screen) -> Result<Exit> {
    let cassette = Cassette::load(file)?;
    let note = cassette.notes.get(NOTE).cloned();
    let note = note.ok_or_else(|| anyhow!("{} is not a recording of this program", file.display()))?;
    let recorded: RecordedTask = serde_json::from_value(note)
        .with_context(|| format!("{} is damaged at /notes/{NOTE}", file.display()))?;
    let budget = recorded.budget.as_deref().map(parse_money).transpose();
    let budget = budget.map_err(|e| anyhow!("{}: the budget {e}", file.display()))?.map(MoneyText);
    let at_limit = if recorded.asked_at_limit { AtLimit::Pause } else { AtLimit::Stop };
    let Model { api, provider, id, name, context_window, max_tokens, cost } = recorded.model;
    let mut model = ModelConfig::new(api, provider, id).with_cost(cost);
    (model.name, model.context_window, model.max_tokens) = (name, context_window, max_tokens);
    screen.line(format!("replay: {} ({} calls of the model)", file.display(), cassette.model_calls()));
    screen.line(format!("model: {} ({}), which is not called", model.name, model.provider));
    let approver = if recorded.can_ask { Approver::Present } else { Approver::Absent };
    let approvals = Approvals::new(recorded.approve, recorded.plan_only, approver);
    if let Some(outside) = recorded.outside {
        approvals.set_outside(outside);
    }
    let mut limits = ExecutionLimits::unlimited();
    limits.max_turns = recorded.max_turns;
    let context = context_of(&model);
    let replay = Replay::new(cassette);
    let prompt = if recorded.system_prompt.is_empty() { SYSTEM_PROMPT } else { &recorded.system_prompt };
    let agent = BasicAgent::new(model)
        .with_system_prompt(prompt)
        .with_tools(replay.tools())
        .with_hooks(approvals.hooks())
        .with_limits(limits)
        .with_compaction_strategy(compaction())
        .configure(|config| config.policy.context = Some(context))
        .with_thinking(recorded.thinking)
        .with_budget(money::of_limits(budget, recorded.max_tokens_total, at_limit));
    let agent = replay.attach(agent);
    let handle = agent.handle();
    let mut answers = recorded.answers.into_iter();
    let mut interrupts = Interrupts::open(Servers::default());
    let mut meter = Meter::default();
    screen.line(Styled::from("> ") + screen.paint(Style::Bold, Styled::prose(&recorded.task)));
    let mut events = handle.prompt(recorded.task.as_str())?;
    let watched = loop {
        let watched = watch(&handle, events, Events::Shown, screen, &mut interrupts, &mut meter).await;
        let Some(asked) = watched.questions.first() else { break watched };
        let answer =
            answers.next().unwrap_or_else(|| Answer::deny("The recording has no answer to this question."));
        screen.line(crate::screen::question(asked));
        screen.line(match &answer {
            Answer::Deny { .. } => "  answered: no",
            _ => "  answered: yes",
        });
        events = handle.answer(asked.id.clone(), answer)?;
    };
    let replayed = replay.finish()?;
    screen.line(format!(
        "the replay is equal to the recording: {} model calls, {} tool calls",
        replayed.model_calls, replayed.tool_calls
    ));
    Ok(if watched.ended == Some(Ended::Completed) { Exit::Done } else { Exit::Failed })
}
