//! Records a task to a cassette, and replays it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow};
use looptree::budget::AtLimit;
use looptree::message::CostConfig;
use looptree::model::ApiProtocol;
use looptree::prelude::*;
use looptree::session::{Cassette, CassetteRecorder, Replay};
use serde::{Deserialize, Serialize};

use crate::approval::{self, Mode};
use crate::args::Args;
use crate::keyboard::Keyboard;
use crate::money;
use crate::render::Screen;
use crate::talk::{self, Asking, Ending};

/// Under which name the program keeps what it needs beside the run.
const NOTE: &str = "coding_assistant";

/// What stood around the run.
#[derive(Serialize, Deserialize)]
struct Around {
    task: String,
    mode: String,
    /// What was typed when the run asked.
    typed: Vec<String>,
    asked_at_limit: bool,
    budget: Option<String>,
    max_tokens_total: Option<u64>,
    model: Model,
}

/// What the replay must know of the model, which it does not ask.
#[derive(Serialize, Deserialize)]
struct Model {
    api: ApiProtocol,
    provider: String,
    id: String,
    name: String,
    context_window: Option<u32>,
    max_tokens: Option<u32>,
    cost: CostConfig,
}

/// The cassette that a run is being recorded to.
pub(crate) struct Tape {
    recorder: CassetteRecorder,
    file: PathBuf,
    task: String,
    mode: Mode,
    budget: Option<String>,
    max_tokens_total: Option<u64>,
    model: Model,
}

impl Tape {
    /// The tape that the command line asks for.
    pub(crate) fn of(args: &Args, mode: Mode, model: &ModelConfig) -> Option<Self> {
        Some(Self {
            recorder: CassetteRecorder::new(),
            file: args.record.clone()?,
            task: args.task.clone()?,
            mode,
            budget: args.budget.map(|money| money.to_string()),
            max_tokens_total: args.max_tokens_total,
            model: Model {
                api: model.api,
                provider: model.provider.clone(),
                id: model.id.clone(),
                name: model.name.clone(),
                context_window: model.context_window,
                max_tokens: model.max_tokens,
                cost: model.cost.clone(),
            },
        })
    }

    pub(crate) fn attach(&self, agent: BasicAgent) -> BasicAgent {
        self.recorder.attach(agent)
    }

    pub(crate) fn save(self, keyboard: &Keyboard, screen: &Screen) -> Result<()> {
        let around = Around {
            task: self.task,
            mode: self.mode.name().to_owned(),
            typed: keyboard.came().to_vec(),
            asked_at_limit: money::at_limit() == AtLimit::Pause,
            budget: self.budget,
            max_tokens_total: self.max_tokens_total,
            model: self.model,
        };
        self.recorder.note(NOTE, serde_json::to_value(&around)?);
        self.recorder.cassette().save(&self.file)?;
        screen.line(&format!("recording: {}; --replay runs it again", self.file.display()));
        Ok(())
    }
}

/// Replays a recorded task. It calls no model, runs no tool and writes no session.
pub(crate) async fn replay(file: &Path, screen: &Screen) -> Result<ExitCode> {
    let cassette = Cassette::load(file)?;
    let note = cassette.notes.get(NOTE).cloned();
    let note = note.ok_or_else(|| anyhow!("{} is not a recording of this program", file.display()))?;
    let around: Around = serde_json::from_value(note)
        .with_context(|| format!("{} is damaged at /notes/{NOTE}", file.display()))?;
    let mode = Mode::named(&around.mode)
        .with_context(|| format!("{}: there is no mode {:?}", file.display(), around.mode))?;
    let args = Args {
        budget: around.budget.as_deref().map(str::parse).transpose()?,
        max_tokens_total: around.max_tokens_total,
        ..Args::default()
    };
    let Model { api, provider, id, name, context_window, max_tokens, cost } = around.model;
    let mut model = ModelConfig::new(api, provider, id).with_cost(cost);
    (model.name, model.context_window, model.max_tokens) = (name, context_window, max_tokens);
    let at_limit = if around.asked_at_limit { AtLimit::Pause } else { AtLimit::Stop };

    screen.line(&format!("replay: {} ({} calls of the model)", file.display(), cassette.model_calls()));
    screen.line(&format!("model: {} ({}), which is not asked", model.name, model.provider));
    let replay = Replay::new(cassette);
    let agent = BasicAgent::new(model)
        .with_system_prompt(crate::SYSTEM_PROMPT)
        .with_tools(replay.tools())
        .with_hooks(approval::hooks(mode))
        .with_budget(money::budget(&args, at_limit));
    let agent = replay.attach(agent);
    let mut keyboard = Keyboard::typing(around.typed);
    let ending = talk::turn(&agent, &around.task, Asking::Here, screen, &mut keyboard).await?;
    let replayed = replay.finish()?;
    screen.line(&format!(
        "the replay went the way of the recording: {} calls of the model, {} of tools",
        replayed.model_calls, replayed.tool_calls
    ));
    Ok(if ending == Ending::Well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
