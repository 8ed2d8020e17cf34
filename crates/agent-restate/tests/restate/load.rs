//! A deterministic agent for workers that are killed: its model and its tools depend on nothing but the conversation, and
//! they write what they do to a file that survives them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use agent_core::message::{Message, StopReason};
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{AgentTool, Effects, History, ModelConfig, ModelRequest, ToolResult};
use agent_restate::DurableAgent;
use serde_json::json;

/// The name of the agent.
pub(crate) const NAME: &str = "load";

/// The variable that makes the test `worker_process` a worker: its address and the file of its log.
const WORKER: &str = "LOOPTREE_DURABLE_WORKER";

/// How the agent works.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// The rounds of tool calls in a run.
    pub(crate) rounds: usize,
    /// The time of a model call and of a tool call.
    pub(crate) pause: Duration,
    /// The steps of an invocation.
    pub(crate) hand_over_after: u32,
    /// Whether the first call asks.
    pub(crate) asks: bool,
}

impl Work {
    fn text(self) -> String {
        let asks = usize::from(self.asks);
        format!("{} {} {} {asks}", self.rounds, self.pause.as_millis(), self.hand_over_after)
    }

    fn parse(text: &str) -> Self {
        let numbers: Vec<u64> = text.split(' ').map(|number| number.parse().unwrap()).collect();
        Self {
            rounds: numbers[0] as usize,
            pause: Duration::from_millis(numbers[1]),
            hand_over_after: numbers[2] as u32,
            asks: numbers[3] == 1,
        }
    }
}

/// Writes a line that survives the process.
fn note(log: &Path, line: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(log).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn reply(work: Work, request: &ModelRequest) -> ScriptedReply {
    // Only this prompt: the replies behind the last message of a user.
    let messages: Vec<_> = request.history.llm_messages().collect();
    let begin = messages.iter().rposition(|message| matches!(message, Message::User(_))).unwrap_or(0);
    let round = messages[begin..].iter().filter(|message| matches!(message, Message::Assistant(_))).count();
    if round >= work.rounds {
        return ScriptedReply::text(format!("done after {round} rounds"));
    }
    let id = |kind: &str| format!("{kind}{begin}-{round}");
    if work.asks && round == 0 {
        return ScriptedReply::call(&id("ask"), "ask", json!({}));
    }
    match round % 3 {
        0 => ScriptedReply::call(&id("once"), "once", json!({"n": round})),
        1 => ScriptedReply::call(&id("look"), "look", json!({"n": round})),
        _ => ScriptedReply::call(&id("once"), "once", json!({"n": round})).and_call(
            &id("look"),
            "look",
            json!({}),
        ),
    }
}

fn tool(name: &'static str, effects: Effects, log: PathBuf, work: Work) -> ScriptedTool {
    let tool = ScriptedTool::new(name, move |_, ctx| {
        let log = log.clone();
        async move {
            let call = format!("{} {}", ctx.loop_id.as_str(), ctx.tool_call_id.as_str());
            note(&log, &format!("tool+ {name} {call}"));
            tokio::time::sleep(work.pause).await;
            note(&log, &format!("tool- {name} {call}"));
            Ok(ToolResult::text(format!("{name} of {}", ctx.tool_call_id.as_str())))
        }
    });
    tool.with_effects(effects)
}

/// Returns the model, and the tools with their log.
fn parts(work: Work, log: &Path) -> (ScriptedProvider, Vec<Arc<dyn AgentTool>>) {
    let model = ScriptedProvider::responding(move |request| reply(work, request));
    let ask = tool("ask", Effects::Once, log.to_owned(), work).asking("May it?");
    let tools = vec![
        Arc::new(tool("once", Effects::Once, log.to_owned(), work)) as Arc<dyn AgentTool>,
        Arc::new(tool("look", Effects::ReadOnly, log.to_owned(), work)),
        Arc::new(ask),
    ];
    (model, tools)
}

pub(crate) fn agent(work: Work, log: &Path) -> DurableAgent {
    let (model, tools) = parts(work, log);
    let log = log.to_owned();
    DurableAgent::new(NAME)
        .model(ModelConfig::default())
        .provider(model)
        .system_prompt("Be brief.")
        .tools(tools)
        .hand_over_after(work.hand_over_after)
        .hooks(hooks(work, log))
}

/// Lets a model call take time, and notes it with the loop of the turn.
fn hooks(work: Work, log: PathBuf) -> agent_core::Hooks {
    agent_core::Hooks::new()
        .before_turn({
            let log = log.clone();
            move |turn| {
                note(&log, &format!("turn {}", turn.loop_id.as_str()));
                async { true }
            }
        })
        .transform_context(move |history| {
            let log = log.clone();
            async move {
                note(&log, "model+");
                tokio::time::sleep(work.pause).await;
                note(&log, "model-");
                Ok(history)
            }
        })
}

/// Returns the loops that these lines name.
pub(crate) fn loops(lines: &[String]) -> BTreeSet<&str> {
    lines
        .iter()
        .filter_map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
            ["turn", of_loop] | ["tool+" | "tool-", _, of_loop, _] => Some(of_loop),
            _ => None,
        })
        .collect()
}

/// What the built-in driver makes of the prompt, as texts.
pub(crate) async fn expected(work: Work, folder: &Path) -> Vec<String> {
    let (model, tools) = parts(work, &folder.join("expected"));
    let agent = agent_core::BasicAgent::new(ModelConfig::default())
        .with_provider(model)
        .with_system_prompt("Be brief.")
        .with_tools(tools);
    agent.prompt("go").unwrap().collect().await;
    while let Some(question) = agent.questions().into_iter().next() {
        agent.answer(question.id, agent_core::Answer::Allow).unwrap().collect().await;
    }
    texts(&agent.history())
}

/// A conversation without its times.
pub(crate) fn texts(history: &History) -> Vec<String> {
    let text = |message: &Message| match message {
        Message::User(_) => format!("user: {}", message.text()),
        Message::Assistant(reply) => {
            let calls: Vec<_> = reply.tool_calls().map(|call| format!("{} {}", call.name, call.id)).collect();
            let failed = if reply.stop_reason == StopReason::Error { " failed" } else { "" };
            format!("assistant{failed}: {} {calls:?}", message.text())
        }
        Message::ToolResult(result) => format!("result of {}: {}", result.tool_call_id, message.text()),
        other => format!("{other:?}"),
    };
    history.llm_messages().map(text).collect()
}

/// A worker in a process of its own.
pub(crate) struct WorkerProcess {
    work: Work,
    pub(crate) address: SocketAddr,
    pub(crate) log: PathBuf,
    process: Child,
}

impl WorkerProcess {
    pub(crate) fn start(work: Work, address: SocketAddr, log: PathBuf) -> Self {
        let process = spawn(work, address, &log);
        Self { work, address, log, process }
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub(crate) fn start_again(&mut self) {
        self.process = spawn(self.work, self.address, &self.log);
    }

    /// Returns the lines that the worker and those before it have written.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines_from(0)
    }

    /// Returns the lines from this byte of the log on.
    pub(crate) fn lines_from(&self, byte: u64) -> Vec<String> {
        let mut text = String::new();
        if let Ok(mut file) = std::fs::File::open(&self.log) {
            file.seek(SeekFrom::Start(byte)).unwrap();
            file.read_to_string(&mut text).unwrap();
        }
        text.lines().map(str::to_owned).collect()
    }

    /// Returns the length of the log in bytes.
    pub(crate) fn written(&self) -> u64 {
        std::fs::metadata(&self.log).map_or(0, |file| file.len())
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(work: Work, address: SocketAddr, log: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "load::worker_process", "--nocapture"])
        .env(WORKER, format!("{address}|{}|{}", log.display(), work.text()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The process of a worker; does nothing as a test.
#[test]
fn worker_process() {
    let Ok(variable) = std::env::var(WORKER) else { return };
    let parts: Vec<&str> = variable.split('|').collect();
    let (address, log) = (parts[0].parse().unwrap(), PathBuf::from(parts[1]));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(agent_restate::serve(agent(Work::parse(parts[2]), &log), address)).unwrap();
}

/// Counts the executions of each call of a tool.
pub(crate) fn executions(lines: &[String], tool: &str) -> BTreeMap<String, usize> {
    let prefix = format!("tool+ {tool} ");
    let mut counts = BTreeMap::new();
    for call in lines.iter().filter_map(|line| line.strip_prefix(&prefix)) {
        *counts.entry(call.to_owned()).or_insert(0) += 1;
    }
    counts
}
