//! `looptree mcp`: the agent as a server of the Model Context Protocol, over standard input and output or HTTP.

mod ask;
mod http;
mod lines;
mod report;
mod tools;

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use looptree::{Message, Question};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ServerHandler, ServiceExt as _};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::args::Flags;
use crate::exit::Exit;
use crate::screen::Screen;
use crate::served::{Host, Served, told_to_end};
use crate::servers::EditorServers;
use crate::sessions::among;
use crate::text::chain;
use crate::work::Watched;
use ask::{Caller, Decided};
use report::report;
use tools::{AnswerArgs, ContinueArgs, RunArgs};

/// The number of sessions that stay in memory. Those that are idle for the longest time are closed; `continue` opens them again.
const MAX_OPEN: usize = 32;

/// Where the server listens; standard input and output without it.
pub(crate) struct Listen {
    pub(crate) address: SocketAddr,
    /// Further names by which clients may call the server.
    pub(crate) hosts: Vec<String>,
}

/// Serves until the client closes the connection or a signal ends the process.
pub(crate) async fn run(flags: Flags, listen: Option<Listen>, screen: Screen) -> Result<Exit> {
    let host = Arc::new(Host::new(flags, screen.clone())?);
    let root = host.directory()?;
    let server = Server { host: Arc::clone(&host), root };
    if listen.is_none() && std::io::stdin().is_terminal() {
        screen.line("this serves an MCP client, which starts the command itself; Ctrl-C ends it (docs/guides/mcp-server.md)");
    }
    let ended = match listen {
        Some(listen) => tokio::select! {
            ended = http::serve(server, listen, &screen) => ended,
            () = told_to_end() => Ok(()),
        },
        None => tokio::select! {
            ended = over_pipes(server) => ended,
            () = told_to_end() => Ok(()),
        },
    };
    host.close_all().await;
    ended.map(|()| Exit::Done)
}

async fn over_pipes(server: Server) -> Result<()> {
    let running = match server.serve(lines::over(tokio::io::stdin(), tokio::io::stdout())).await {
        Ok(running) => running,
        // A client that leaves before it introduces itself.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(error).context("the client did not introduce itself"),
    };
    running.waiting().await.context("the connection to the client broke")?;
    Ok(())
}

/// The server of one client. All share the sessions.
#[derive(Clone)]
struct Server {
    host: Arc<Host<()>>,
    /// The directory in which the process was started.
    root: PathBuf,
}

/// What the client asks for.
enum Wanted {
    Run(RunArgs),
    Continue(ContinueArgs),
    Answer(AnswerArgs),
}

/// The state of a call that continues with the answer to a question.
#[derive(serde::Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    session_id: String,
    question_id: String,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let implementation = Implementation::new("looptree", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(implementation)
            .with_instructions(format!(
                "A coding agent that works in {}. {}",
                self.root.display(),
                tools::INSTRUCTIONS
            ))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let wanted = wanted(&request)?;
        match self.call(wanted, &context).await {
            Ok(response) => Ok(response),
            Err(error) => Ok(CallToolResult::error(vec![ContentBlock::text(chain(&error))]).into()),
        }
    }
}

/// Reads what a request wants.
fn wanted(request: &CallToolRequestParams) -> Result<Wanted, ErrorData> {
    let arguments = Value::Object(request.arguments.clone().unwrap_or_default());
    if let Some(state) = &request.request_state {
        let state: State = serde_json::from_str(state)
            .map_err(|_| ErrorData::invalid_params("the requestState is not one of this server", None))?;
        let Decided { decision, reason } = ask::of_responses(request.input_responses.as_ref());
        let State { session_id, question_id } = state;
        return Ok(Wanted::Answer(AnswerArgs { session_id, question_id, decision, reason, cwd: None }));
    }
    match &*request.name {
        "run" => read(arguments).map(Wanted::Run),
        "continue" => read(arguments).map(Wanted::Continue),
        "answer" => read(arguments).map(Wanted::Answer),
        other => {
            let text = format!("there is no tool {other:?}; there are run, continue and answer");
            Err(ErrorData::invalid_params(text, None))
        }
    }
}

fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, ErrorData> {
    serde_json::from_value(arguments)
        .map_err(|error| ErrorData::invalid_params(format!("the arguments cannot be used: {error}"), None))
}

impl Server {
    async fn call(&self, wanted: Wanted, context: &RequestContext<RoleServer>) -> Result<CallToolResponse> {
        let session = match &wanted {
            Wanted::Run(run) => {
                if run.task.trim().is_empty() {
                    bail!("the task is empty");
                }
                self.host.close_idle(MAX_OPEN.saturating_sub(1)).await;
                self.host
                    .open(&self.directory(run.cwd.as_deref())?, None, EditorServers::default(), ())
                    .await?
            }
            Wanted::Continue(more) => self.session(&more.session_id, more.cwd.as_deref()).await?,
            Wanted::Answer(answer) => self.session(&answer.session_id, answer.cwd.as_deref()).await?,
        };
        let id = session.setup.agent.session_id();
        let turn = session
            .begin()
            .with_context(|| format!("the session {id} works already; try again after its end"))?;
        let mut caller = Caller::new(context, session.setup.approvals.clone());
        let stop = turn.stop.clone();
        let working = async {
            match wanted {
                Wanted::Run(RunArgs { task, .. }) => {
                    session.work(Some(Message::user(task)), &turn, &mut caller).await
                }
                Wanted::Continue(more) => {
                    if more.message.trim().is_empty() {
                        bail!("the message is empty");
                    }
                    session.work(Some(Message::user(more.message)), &turn, &mut caller).await
                }
                Wanted::Answer(answer) => {
                    let question = open_question(&session, &answer.question_id)?;
                    let decided = Decided { decision: answer.decision, reason: answer.reason };
                    let answer = decided.answer(&question, &session.setup.approvals);
                    session.answer(&question, answer, &turn, &mut caller).await
                }
            }
        };
        let watched = {
            tokio::pin!(working);
            tokio::select! {
                watched = &mut working => watched,
                () = context.ct.cancelled() => {
                    stop.cancel();
                    working.await
                }
            }
        };
        let asks = caller.finish().await;
        self.respond(&session, watched?, asks)
    }

    fn respond(&self, session: &Served<()>, watched: Watched, asks: ask::Asks) -> Result<CallToolResponse> {
        if let (ask::Asks::ByResult, Some(question)) = (asks, watched.questions.first()) {
            let session_id = session.setup.agent.session_id().to_string();
            let state = State { session_id, question_id: ask::id_of(question) };
            return Ok(ask::as_result(question, serde_json::to_string(&state)?)?.into());
        }
        Ok(report(session, watched)?.into())
    }

    /// Returns the directory of a run, which is in the one of the process.
    fn directory(&self, cwd: Option<&Path>) -> Result<PathBuf> {
        let Some(cwd) = cwd else { return Ok(self.root.clone()) };
        let cannot = || format!("cannot open the directory {}", cwd.display());
        let root = self.root.join(cwd).canonicalize().with_context(cannot)?;
        if !root.starts_with(&self.root) || !root.is_dir() {
            bail!(
                "{} is not a directory inside of {}, in which this server works",
                cwd.display(),
                self.root.display()
            );
        }
        Ok(root)
    }

    /// Returns the session of an id or of the beginning of one. It is opened if it is not.
    async fn session(&self, id: &str, cwd: Option<&Path>) -> Result<Arc<Served<()>>> {
        if let Some(session) = self.host.get(id) {
            return Ok(session);
        }
        let root = self.directory(cwd)?;
        let mut known = self.host.store(&root)?.list_session_ids()?;
        // An open session can be one of another directory.
        known.extend(self.host.ids());
        known.sort();
        known.dedup();
        let id = among(&known, id)?;
        if let Some(session) = self.host.get(&id) {
            return Ok(session);
        }
        self.host.close_idle(MAX_OPEN.saturating_sub(1)).await;
        self.host.open(&root, Some(id), EditorServers::default(), ()).await
    }
}

/// Returns the question that waits, if it has this id.
fn open_question(session: &Served<()>, id: &str) -> Result<Question> {
    let open = session.setup.agent.questions();
    if let Some(question) = open.iter().find(|question| ask::id_of(question) == id) {
        return Ok(question.clone());
    }
    let known: Vec<String> = open.iter().map(ask::id_of).collect();
    if known.is_empty() {
        bail!("the session waits for no answer");
    }
    bail!("the session does not wait for the answer to {id:?}, but to {}", known.join(", "))
}

/// Returns whether this version of the protocol has no requests of the server to the client.
fn asks_by_result(version: Option<&ProtocolVersion>) -> bool {
    version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}
