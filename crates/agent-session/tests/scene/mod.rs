//! Agents that follow a random script, and a journal that looks at each record.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a scene is part of tests, outside a test function"
)]

use agent_core::compat::SeedSetters as _;
use agent_core::compat::SeedVerbs as _;
use std::sync::{Arc, Mutex};

use agent_core::journal::{GroupEntry, Journal, JournalEntry, JournalError};
use agent_core::run::Run;
use agent_core::testing::{ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentMessage, Answer, BasicAgent, ContextConfig, ErrorKind, ModelConfig, RunEnd, ToolExecutionStrategy,
    Usage,
};
use agent_session::{JsonStore, LoadedSession};
use async_trait::async_trait;
use proptest::prelude::*;

mod delegating;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod store;

#[allow(unused_imports, reason = "each test file uses a part of it")]
pub(crate) use delegating::Delegating;
pub(crate) use store::Store;

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Json,
    #[cfg(feature = "sqlite")]
    Sqlite,
    #[cfg(feature = "postgres")]
    Postgres,
}

/// How many cases a law is tried with: what the environment says, else so many, or a sixth of them with a server.
#[expect(clippy::disallowed_methods, reason = "the developer says it")]
pub(crate) fn cases(usual: u32) -> u32 {
    let usual = if env!("CARGO_CRATE_NAME") == "postgres" { usual.div_ceil(6) } else { usual };
    std::env::var("LOOPTREE_LAW_CASES").map_or(usual, |n| n.parse().unwrap())
}

/// The kinds of stores that the tests of this program try. The program `postgres`, which includes the files of other programs,
/// has a server and tries that store alone.
pub(crate) fn kinds() -> &'static [Kind] {
    #[cfg(feature = "postgres")]
    if env!("CARGO_CRATE_NAME") == "postgres" {
        return if postgres::is_there() { &[Kind::Postgres] } else { &[Kind::Json] };
    }
    &[
        Kind::Json,
        #[cfg(feature = "sqlite")]
        Kind::Sqlite,
    ]
}

/// The path of a test of a module, for a child process that runs it alone.
pub(crate) fn test_in(module: &str, name: &str) -> String {
    match module.split_once("::") {
        Some((_, inner)) => format!("{inner}::{name}"),
        None => name.to_owned(),
    }
}

impl Kind {
    /// The store of this kind in a folder.
    pub(crate) fn open(self, dir: &std::path::Path) -> Store {
        match self {
            Self::Json => Store::new(JsonStore::open(dir.join("sessions")).unwrap()),
            #[cfg(feature = "sqlite")]
            Self::Sqlite => Store::new(agent_session::SqliteStore::open(dir.join("sessions.db")).unwrap()),
            #[cfg(feature = "postgres")]
            Self::Postgres => postgres::open(dir),
        }
    }

    /// Lets the rights of processes end that had the store of this folder open and were killed. Locks of files end by
    /// themselves; a lease ends with its time, which the test does not wait for.
    pub(crate) fn after_kill(self, dir: &std::path::Path) {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => postgres::Address::of(dir).end_leases(),
            _ => {
                let _ = dir;
            }
        }
    }

    /// Whether the store has its sessions in its folder.
    pub(crate) fn is_in_folder(self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => false,
            _ => true,
        }
    }

    /// Copies the store of a folder as a killed process leaves it, where it is not in the folder.
    pub(crate) fn copy(self, from: &std::path::Path, to: &std::path::Path) {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => postgres::copy(from, to),
            _ => {
                let _ = (from, to);
            }
        }
    }

    /// The kind with this name.
    pub(crate) fn named(name: &str) -> Self {
        let all = [
            Self::Json,
            #[cfg(feature = "sqlite")]
            Self::Sqlite,
            #[cfg(feature = "postgres")]
            Self::Postgres,
        ];
        all.into_iter().find(|kind| format!("{kind:?}") == name).unwrap()
    }
}

/// The file that says to a child process which kind of store it finds.
const NOTE: &str = "kind-of-store";

impl Kind {
    /// Notes the kind for child processes that work in this folder.
    pub(crate) fn note(self, dir: &std::path::Path) {
        std::fs::write(dir.join(NOTE), format!("{self:?}")).unwrap();
        #[cfg(feature = "postgres")]
        if self == Self::Postgres {
            postgres::Address::of(dir);
        }
    }

    /// The kind that was noted in this folder.
    pub(crate) fn noted(dir: &std::path::Path) -> Self {
        Self::named(&std::fs::read_to_string(dir.join(NOTE)).unwrap())
    }
}

/// Does the same with an empty store of each kind.
pub(crate) fn each_store(check: impl Fn(Kind, &Store)) {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        check(*kind, &kind.open(dir.path()));
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// What the model does when it is called.
#[derive(Debug, Clone)]
pub(crate) enum Play {
    Text(usize),
    Calls(Vec<&'static str>),
    TextAndCall(usize),
    Fails,
    Retried,
    Overflows,
    Cut(usize),
}

/// What the user does.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Prompt(usize),
    Steer,
    FollowUp,
    NewSession,
    Clear,
    Note,
}

pub(crate) fn play() -> impl Strategy<Value = Play> {
    let tool = prop::sample::select(vec!["say", "fail", "ask", "unknown"]);
    prop_oneof![
        3 => (0usize..300).prop_map(Play::Text),
        4 => prop::collection::vec(tool, 1..4).prop_map(Play::Calls),
        1 => (0usize..300).prop_map(Play::TextAndCall),
        1 => Just(Play::Fails),
        2 => Just(Play::Retried),
        1 => Just(Play::Overflows),
        1 => (0usize..200).prop_map(Play::Cut),
    ]
}

pub(crate) fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0usize..400).prop_map(Act::Prompt),
        1 => Just(Act::Steer),
        1 => Just(Act::FollowUp),
        1 => Just(Act::NewSession),
        1 => Just(Act::Clear),
        1 => Just(Act::Note),
    ]
}

fn words(length: usize) -> String {
    "word \u{2028}\"quoted\" ".chars().cycle().take(length).collect()
}

impl Play {
    fn reply(&self, at: usize) -> ScriptedReply {
        let call = |reply: ScriptedReply, n: usize, tool: &str| {
            reply.and_call(&format!("call_{at}_{n}"), tool, serde_json::json!({"text": words(at * 7 + n)}))
        };
        let reply = match self {
            Self::Text(length) => ScriptedReply::text(words(*length)),
            Self::Calls(tools) => tools
                .iter()
                .enumerate()
                .fold(ScriptedReply::new().and_thinking(words(120), Some("sig")), |r, (n, t)| call(r, n, t)),
            Self::TextAndCall(length) => call(ScriptedReply::text(words(*length)), 0, "say"),
            Self::Fails => ScriptedReply::error(ErrorKind::Auth, "bad key"),
            Self::Retried => ScriptedReply::error(ErrorKind::Network, "reset"),
            Self::Overflows => ScriptedReply::error(ErrorKind::ContextOverflow, "too long"),
            Self::Cut(length) => ScriptedReply::text(words(*length)).failing(ErrorKind::Network, "cut"),
        };
        reply.using(Usage::new(10 + at as u64, 5, 0, 0))
    }
}

pub(crate) fn agent(plays: &[Play], strategy: ToolExecutionStrategy) -> BasicAgent {
    let provider = ScriptedProvider::new(plays.iter().enumerate().map(|(at, p)| p.reply(at)));
    BasicAgent::new(ModelConfig::default())
        .with_environment(Arc::new(ManualEnvironment::skipping(1_000)))
        .with_provider(provider)
        .with_session_id("s-1")
        .with_tool_execution(strategy)
        .with_context_config(
            ContextConfig::default()
                .with_system_prompt_tokens(0)
                .with_max_context_tokens(900)
                .with_keep_recent(3)
                .with_keep_first(1),
        )
        .with_tool(ScriptedTool::saying("say", words(250)))
        .with_tool(ScriptedTool::failing("fail", "it failed"))
        .with_tool(ScriptedTool::saying("ask", "allowed").asking("May I?"))
}

/// Does what the user does, and waits for the end each time.
pub(crate) async fn perform(agent: &BasicAgent, acts: &[Act]) {
    for (at, act) in acts.iter().enumerate() {
        match act {
            Act::Prompt(length) => {
                drop(agent.prompt(format!("prompt {at} {}", words(*length))).unwrap());
                settle(agent).await;
            }
            Act::Steer => agent.steer(format!("steer {at}")),
            Act::FollowUp => agent.follow_up(format!("follow {at}")),
            Act::NewSession => drop(agent.new_session()),
            Act::Clear => agent.clear_messages().unwrap(),
            Act::Note => {
                agent
                    .append_message(AgentMessage::extension("note", serde_json::json!({ "at": at })))
                    .unwrap();
            }
        }
    }
}

/// Answers every question until the run has ended.
pub(crate) async fn settle(agent: &BasicAgent) {
    let mut n = 0;
    while let Some(RunEnd::Suspended(questions)) = agent.finish().await {
        let answer = if n % 2 == 0 { Answer::Allow } else { Answer::Deny { reason: "no".into() } };
        n += 1;
        drop(agent.answer(questions[0].id.clone(), answer).unwrap());
    }
}

type Check = dyn Fn(&LoadedSession, &Run) + Send + Sync;

/// After each record: loads the session and looks at it. A failed look is kept for the end.
pub(crate) struct Looking {
    inner: Arc<dyn Journal>,
    store: Store,
    check: Box<Check>,
    pub(crate) failures: Mutex<Vec<String>>,
    pub(crate) records: Mutex<usize>,
}

impl std::fmt::Debug for Looking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Looking")
    }
}

impl Looking {
    pub(crate) fn at(
        agent: &mut BasicAgent,
        store: &Store,
        check: impl Fn(&LoadedSession, &Run) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let looking = Arc::new(Self {
            inner: agent.config().services.journal.unwrap(),
            store: store.clone(),
            check: Box::new(check),
            failures: Mutex::default(),
            records: Mutex::default(),
        });
        agent.set_journal(Some(Arc::clone(&looking) as Arc<dyn Journal>));
        looking
    }

    #[track_caller]
    pub(crate) fn assert_fine(&self) {
        let failures = self.failures.lock().unwrap();
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}

#[async_trait]
impl Journal for Looking {
    async fn append_group(&self, entry: GroupEntry<'_>) -> Result<(), JournalError> {
        self.inner.append_group(entry).await
    }

    async fn append(&self, entry: JournalEntry<'_>) -> Result<(), JournalError> {
        let id = entry.run.setup().session_id.clone();
        let label = format!(
            "{:?} at {:?}",
            entry.inputs.iter().map(|i| i.input.name()).collect::<Vec<_>>(),
            entry.now
        );
        let run = entry.run.clone();
        self.inner.append(entry).await?;
        *self.records.lock().unwrap() += 1;
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let loaded = self.store.load_session(id.as_str()).expect("the session loads");
            (self.check)(&loaded, &run);
        }));
        if let Err(panic) = looked {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
                .unwrap_or_default();
            self.failures.lock().unwrap().push(format!("{label}: {text}"));
        }
        Ok(())
    }
}
