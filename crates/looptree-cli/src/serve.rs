//! `looptree serve`: the agent as an HTTP service.

mod keys;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use looptree::BudgetLimits;
use looptree::budget::AtLimit;
use looptree::prelude::*;
use looptree::serve::{
    AgentFactory, BoxError, ConversationRef, Limits, Recovery, ServedAgent, Service, ServiceBuilder,
    VanishedClient,
};
use looptree::session::SessionStore;
use looptree::tools::bash::CommandSlots;
use tokio::net::TcpListener;

use crate::approval::Approver;
use crate::args::Flags;
use crate::choose;
use crate::exit::Exit;
use crate::screen::Screen;
use crate::served::told_to_end;
use crate::servers::{Connect, EditorServers, Servers};
use crate::settings::{Broken, Instructions, Settings, directory, serving_consent};
use crate::setup::{Setup, SetupOptions, sessions_of, workspace};

/// The name of the agent, which clients use as a model.
const AGENT: &str = "looptree";

/// The folder with what the keys have spent, in that of the sessions.
const LEDGER: &str = "serve-ledger";

/// The options of the server.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServeArgs {
    /// Listens on this address. Other machines reach only addresses outside of 127.0.0.1.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The file with the keys of clients (docs/serve.md). Without it the key is read from LOOPTREE_SERVE_KEY; without that a random
    /// one is printed.
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Gives each conversation a folder of its own below this one, instead of the directory of --cwd for all.
    #[arg(long, value_name = "DIR")]
    workspaces: Option<PathBuf>,
    /// Aborts a run when no client has read its events for this time.
    #[arg(long, value_name = "SECONDS")]
    stop_vanished: Option<u64>,
    /// How many conversations are in memory at once.
    #[arg(long, value_name = "N")]
    max_conversations: Option<usize>,
    /// Does not resume the runs that the last process has left; clients can.
    #[arg(long)]
    no_resume: bool,
}

/// Serves until a signal ends the process.
pub(crate) async fn run(flags: Flags, args: ServeArgs, screen: Screen) -> Result<Exit> {
    let root = directory(&flags)?;
    // Read once: later, clients can write to the directory.
    let settings = Settings::load(&flags, &root, &serving_consent(&flags)?, Broken::SkipsProject)?;
    for note in settings.warnings.iter().chain(&settings.notes) {
        screen.error_line(format!("warning: {note}"));
    }
    // A missing model is found before the first client.
    let chosen = choose::choose(&settings).await?.into_model()?;
    let sessions = sessions_of(&settings, &root)?;
    let store = JsonStore::open(&sessions)?;
    // In a folder of its own, so that no list of sessions has it.
    let ledger = JsonStore::open(sessions.join(LEDGER))?;
    let (keys, note) = keys::read(args.keys.as_deref())?;
    let mut limits = Limits::default();
    limits.conversation_budget = budget(&settings);
    if let Some(seconds) = args.stop_vanished {
        limits.vanished = VanishedClient::Stop { after: Duration::from_secs(seconds) };
    }
    if let Some(most) = args.max_conversations {
        limits.open_conversations = most.max(1);
    }
    let listener =
        TcpListener::bind(args.listen).await.with_context(|| format!("cannot listen on {}", args.listen))?;
    screen.line(format!("model: {} ({})", chosen.model.name, chosen.model.provider));
    screen.line(format!("directory: {}", root.display()));
    screen.line(&note);
    let servers = Servers::start(&settings, &root, EditorServers::default(), &screen).await?;
    if !servers.are_none() {
        screen.line(format!("MCP servers: {}", servers.names().join(", ")));
    }
    for failure in servers.failures() {
        screen.error_line(format!("warning: {failure}"));
    }
    // A client can write the files of a directory that all share, so that they are read once.
    let instructions = match args.workspaces {
        None => Some(Instructions::read(&settings, &root).await?),
        Some(_) => None,
    };
    let coder = Coder {
        settings,
        instructions,
        root,
        workspaces: args.workspaces,
        store: store.clone(),
        servers: servers.clone(),
        screen: screen.clone(),
        slots: keys
            .iter()
            .map(|key| (key.name().into(), CommandSlots::part_of_process(keys.len())))
            .collect(),
    };
    let builder = Service::builder(store)
        .ledger_store(ledger)
        .agent_factory(AGENT, coder)
        .keys(keys)
        .limits(limits)
        .recovery(if args.no_resume { Recovery::Leave } else { Recovery::Resume });
    let ended = listen(builder, listener, &screen).await;
    servers.close().await;
    ended.map(|()| Exit::Done)
}

async fn listen(builder: ServiceBuilder, listener: TcpListener, screen: &Screen) -> Result<()> {
    let service = builder.build()?;
    screen.line(format!("listening on http://{}", listener.local_addr()?));
    service.serve(listener, told_to_end()).await?;
    Ok(())
}

fn budget(settings: &Settings) -> BudgetLimits {
    let mut limits = BudgetLimits::none();
    if let Some(money) = settings.budget.value {
        limits = limits.with_money(money.0);
    }
    if let Some(tokens) = settings.max_tokens_total.value {
        limits = limits.with_tokens(tokens);
    }
    limits
}

/// Makes the coding agent of a conversation.
struct Coder {
    settings: Settings,
    /// The instructions of the directory that all conversations share.
    instructions: Option<Instructions>,
    root: PathBuf,
    workspaces: Option<PathBuf>,
    store: JsonStore,
    /// The conversations share them.
    servers: Servers,
    screen: Screen,
    /// The slots for commands of each key, which are equal parts of those of the process.
    slots: BTreeMap<Arc<str>, CommandSlots>,
}

#[async_trait]
impl AgentFactory for Coder {
    async fn make(&self, conversation: &ConversationRef) -> Result<ServedAgent, BoxError> {
        Ok(self.agent(conversation).await?)
    }
}

impl Coder {
    /// Returns the slots of a key. A client can then fill its own, and none of another.
    fn slots_for(&self, key: &str) -> CommandSlots {
        self.slots.get(key).cloned().unwrap_or_else(CommandSlots::of_process)
    }

    async fn agent(&self, conversation: &ConversationRef) -> Result<ServedAgent> {
        let root = match &self.workspaces {
            None => self.root.clone(),
            Some(folder) => {
                let own = std::path::absolute(folder)?.join(conversation.id.as_str());
                std::fs::create_dir_all(&own).with_context(|| format!("cannot create {}", own.display()))?;
                own.canonicalize()?
            }
        };
        let chosen = choose::choose(&self.settings).await?.into_model()?;
        let options = SetupOptions {
            settings: &self.settings,
            root: &root,
            approver: Approver::Present,
            at_limit: AtLimit::Stop,
            session: None,
            record: None,
            task: None,
            screen: &self.screen,
            instructions: self.instructions.clone(),
            slots: self.slots_for(&conversation.key),
        };
        let Setup { mut agent, watch, .. } =
            Setup::make(chosen, Connect::Shared(self.servers.clone()), options).await?;
        // The service has the budgets of keys and conversations.
        agent.set_config(|config| config.services.budget = None);
        let session = SessionStore::load_session(&self.store, conversation.id.as_str()).await?;
        if let Some(end) = session.end_point() {
            watch.adopt(&session.files_at(&end)?);
        }
        Ok(ServedAgent::from(agent).with_workspace(workspace(&self.settings, &root)?))
    }
}
