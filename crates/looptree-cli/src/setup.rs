//! Builds the agent of a run, with its tools, policy, sandbox, budget and session.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use etcetera::BaseStrategy as _;
use looptree::budget::AtLimit;
use looptree::compat::SeedVerbs as _;
use looptree::context::{ContextConfig, SummarizingCompaction};
use looptree::prelude::*;
use looptree::retry::RetryConfig;
use looptree::session::{FileWatch, SessionError, sessions_folder};
use looptree::tools::bash::CommandSlots;
use looptree::tools::plan::RetainPlan;

use crate::approval::{Approvals, Approver, Outside};
use crate::args::Approve;
use crate::choose::Chosen;
use crate::exit::usage;
use crate::recording::TaskRecording;
use crate::screen::Screen;
use crate::servers::{Connect, Servers};
use crate::settings::{Instructions, Settings, platform};
use crate::{money, sandbox};

pub(crate) const SYSTEM_PROMPT: &str = "You are a careful software engineer working in the user's directory through tools. Look before \
you change anything, make the smallest change that solves the task, and check it by running the project's own tests. \
Finish with a short report of what you changed and how you checked it.";

/// The maximum context size that is used, in tokens. Longer conversations cost more than they are worth.
const MAX_CONTEXT: u64 = 200_000;
/// The context size that is used for a model whose context window is unknown, in tokens.
const UNKNOWN_CONTEXT: u64 = 100_000;

/// The maximum size of each output stream of a command that the model receives at once; `read_output` returns the rest.
const MAX_COMMAND_OUTPUT: usize = 32 * 1024;

/// Returns the system prompt for a directory.
fn system_prompt(root: &Path) -> String {
    format!(
        "{SYSTEM_PROMPT}\n\nThe user's directory is {}, on {} ({}).",
        root.display(),
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}

/// An agent that can start, and what the program needs to work with it.
pub(crate) struct Setup {
    pub(crate) agent: BasicAgent,
    pub(crate) recorder: SessionRecorder,
    pub(crate) store: JsonStore,
    pub(crate) watch: FileWatch,
    pub(crate) root: PathBuf,
    /// The files that the tools can access.
    pub(crate) workspace: Workspace,
    pub(crate) approvals: Approvals,
    pub(crate) recording: Option<TaskRecording>,
    /// The files with instructions that the system prompt contains.
    pub(crate) instruction_files: Vec<PathBuf>,
    /// Messages for the user before the first run.
    pub(crate) notes: Vec<String>,
    /// The MCP servers whose tools the agent has. They must be closed before the program ends.
    pub(crate) servers: Servers,
    /// Whether the agent continues a session.
    pub(crate) continues: bool,
}

/// The options for building an agent.
pub(crate) struct SetupOptions<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) root: &'a Path,
    pub(crate) approver: Approver,
    pub(crate) at_limit: AtLimit,
    /// The session that is continued.
    pub(crate) session: Option<String>,
    pub(crate) record: Option<PathBuf>,
    pub(crate) task: Option<&'a str>,
    /// Where messages go that cannot wait until the agent is there.
    pub(crate) screen: &'a Screen,
    /// The instructions, if they were read before.
    pub(crate) instructions: Option<Instructions>,
    /// How many commands run at once.
    pub(crate) slots: CommandSlots,
}

/// Returns the compaction strategy: a summary by the model that preserves the plan.
pub(crate) fn compaction() -> RetainPlan<SummarizingCompaction> {
    RetainPlan::new(SummarizingCompaction::new())
}

/// Returns the limit of the conversation for a model.
pub(crate) fn context_of(model: &ModelConfig) -> ContextConfig {
    let window = model.context_window.map_or(UNKNOWN_CONTEXT, |window| u64::from(window).min(MAX_CONTEXT));
    ContextConfig::default().with_max_context_tokens(window)
}

/// Returns how often and after which delays a failed call is repeated.
fn retries(settings: &Settings) -> RetryConfig {
    let mut retries = RetryConfig::default();
    if let Some(most) = settings.max_retries.value {
        retries = retries.with_max_retries(most);
    }
    if let Some(seconds) = settings.max_retry_wait.value {
        retries = retries.with_max_retry_delay(Duration::from_secs(seconds));
    }
    retries
}

impl Setup {
    /// Starts the MCP servers whose tools the agent gets, builds the agent and restores its session, if it continues one.
    pub(crate) async fn make(chosen: Chosen, connect: Connect, options: SetupOptions<'_>) -> Result<Self> {
        match connect {
            Connect::Shared(servers) => Self::with_servers(chosen, options, servers).await,
            Connect::Own(editor) => {
                let servers = Servers::start(options.settings, options.root, editor, options.screen).await?;
                let made = Self::with_servers(chosen, options, servers.clone()).await;
                if made.is_err() {
                    servers.close().await;
                }
                made
            }
        }
    }

    async fn with_servers(chosen: Chosen, options: SetupOptions<'_>, servers: Servers) -> Result<Self> {
        let SetupOptions {
            settings,
            root,
            approver,
            at_limit,
            session,
            record,
            task,
            instructions,
            slots,
            ..
        } = options;
        let mut notes = settings.notes.clone();
        notes.extend(chosen.notes);
        let model = chosen.model;
        let sessions = sessions_of(settings, root)?;
        let workspace = workspace(settings, root)?;
        let (shell, held) = sandbox::shell(settings, &workspace).await?;
        let shell = shell.with_slots(slots);
        notes.push(held);
        let shell = shell.with_max_output_bytes(MAX_COMMAND_OUTPUT);
        let instructions = match instructions {
            Some(instructions) => instructions,
            None => Instructions::read(settings, root).await?,
        };
        notes.extend(instructions.files.iter().map(|file| format!("instructions: {}", file.display())));
        if !instructions.skills.is_empty() {
            let names: Vec<_> = instructions.skills.iter().map(|skill| skill.name().to_owned()).collect();
            notes.push(format!("skills: {}", names.join(", ")));
        }
        notes.extend(instructions.notes.iter().cloned());
        let approvals =
            Approvals::new(settings.approve(), settings.plan_only.value.unwrap_or(false), approver);
        approvals.set_directory(root);
        let files = workspace.clone();
        let watch = FileWatch::new(root, move |path: &str| files.open_file(path));
        let context = context_of(&model);
        let mut limits = ExecutionLimits::unlimited();
        limits.max_turns = settings.max_turns.value;
        let mut agent = looptree::agent(model)
            .with_system_prompt(instructions.after(&system_prompt(root)))
            .with_tools(CodingTools::new(workspace.clone()).with_bash(shell).with_plan().tools())
            .with_skills(&instructions.skills)
            .with_hooks(watch.hooks(approvals.hooks()))
            .with_limits(limits)
            .with_compaction_strategy(compaction())
            .configure(|config| {
                config.policy.context = Some(context);
                config.policy.retry = retries(settings);
                if let Some(most) = settings.max_repeats.value {
                    config.policy.max_repeats = most;
                }
            })
            .with_budget(money::budget(settings, at_limit));
        if let Some(level) = settings.thinking.value {
            agent = agent.with_thinking(level);
        }
        if !servers.are_none() {
            // The sandbox does not confine the servers, so that it allows none of their calls.
            let approve = settings.approve.value.unwrap_or(Approve::Ask);
            approvals.set_outside(Outside { approve, own: tool_names(&agent).into_iter().collect() });
            agent = servers.attach(agent);
        }
        notes.extend(servers.notes(&tool_names(&agent)));
        let recording = match (record, task) {
            (Some(file), Some(task)) => {
                Some(TaskRecording::new(file, task, settings, &approvals, at_limit, &agent)?)
            }
            (Some(_), None) => return Err(usage("--record needs a task")),
            (None, _) => None,
        };
        if let Some(recording) = &recording {
            agent = recording.attach(agent);
        }
        let store = JsonStore::open(sessions)?;
        let continues = session.is_some();
        let recorder = if let Some(id) = &session {
            let session =
                store.load_session(id).with_context(|| format!("cannot continue the session {id}"))?;
            if let Some(end) = session.end_point() {
                watch.adopt(&session.files_at(&end)?);
            }
            let recorder;
            (agent, recorder) = agent
                .restore_session(store.clone(), id)
                .await
                .map_err(|error| lacking(error, id, &servers.failures()))?;
            recorder
        } else {
            SessionRecorder::attach(&mut agent, store.clone())
        };
        Ok(Self {
            agent,
            recorder,
            store,
            watch,
            root: root.to_owned(),
            workspace,
            approvals,
            recording,
            instruction_files: instructions.files,
            notes,
            servers,
            continues,
        })
    }
}

/// Opens the directory of the task. The folders with the user's own settings and data, which can be inside of it, are protected: a
/// tool that writes them would decide where keys go.
pub(crate) fn workspace(settings: &Settings, root: &Path) -> Result<Workspace> {
    let mut workspace = Workspace::open(root)?;
    for path in user_paths(settings) {
        workspace = workspace.with_protected(path)?;
    }
    Ok(workspace)
}

/// Returns the folders and files with the user's own settings and data. The files can be links to elsewhere.
pub(crate) fn user_paths(settings: &Settings) -> Vec<PathBuf> {
    let platform = platform();
    let folders = platform.iter().flat_map(|p| [p.config_dir(), p.data_dir()]);
    let mut paths: Vec<PathBuf> = folders.map(|folder| folder.join("looptree")).collect();
    if let Some(own) = paths.first().cloned() {
        paths.extend(["config.toml", "AGENTS.md", "skills"].map(|name| own.join(name)));
    }
    paths.extend(settings.user_file().map(Path::to_path_buf));
    // They name programs, and are read again for each session of an editor.
    paths.extend(settings.mcp_files.iter().filter_map(|file| std::path::absolute(file).ok()));
    paths
}

/// Returns the names of the tools of an agent.
pub(crate) fn tool_names(agent: &BasicAgent) -> Vec<String> {
    agent.tools().iter().map(|tool| tool.name().to_owned()).collect()
}

/// Returns the error of a session that cannot be restored, with what the user of the command can do.
fn lacking(error: SessionError, id: &str, failures: &[String]) -> anyhow::Error {
    match error {
        SessionError::Missing { missing, .. } => {
            let failures: String = failures.iter().map(|failure| format!("; {failure}")).collect();
            anyhow!(
                "the open run of session {id} needs {}, which the agent does not have here{failures}. Continue it where it was \
                 started and with the same MCP servers, or without the open run: looptree sessions fork {id}",
                missing.join(", ")
            )
        }
        other => other.into(),
    }
}

/// Returns the folder with the sessions of a directory: the one that was named, or the one of the platform. Refuses a folder
/// inside of the directory, where a command of the model could change it.
pub(crate) fn sessions_of(settings: &Settings, root: &Path) -> Result<PathBuf> {
    let Some(folder) = &settings.sessions.value else {
        return sessions_folder(root).context("use --sessions DIR to choose a folder");
    };
    let folder = std::path::absolute(folder)?;
    // The part that exists is resolved, so that a link into the directory is found.
    let existing = folder.ancestors().find_map(|above| above.canonicalize().ok());
    if existing.is_some_and(|existing| existing.starts_with(root)) {
        bail!(usage(format!(
            "the folder of --sessions, {}, is inside of the directory of the task, where commands could change it; \
             name one outside of it",
            folder.display()
        )));
    }
    Ok(folder)
}
