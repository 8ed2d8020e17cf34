//! An agent with commands in the background, in a folder of its own.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use looptree::StreamProvider;
use looptree::message::Message;
use looptree::prelude::*;
use looptree::testing::{ScriptedProvider, ScriptedReply};
use looptree::tools::BashTool;
use looptree::tools::background_work::BackgroundWork;
use serde_json::{Value, json};

/// Long enough for anything that is to happen, on any machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The variable by which a test finds its processes.
pub(crate) const MARK: &str = "BACKGROUND_TEST";

/// Waits in a command for the file `go`.
pub(crate) const UNTIL_GO: &str = "until [ -e go ]; do sleep 0.05; done";

/// What a command starts: in its group, in a group of its own, and without an environment. Each writes its number.
pub(crate) const FAMILY: &str = "
    sleep 300 & echo $! > child
    env -i sleep 300 & echo $! > bare
    setsid bash -c 'echo $$ > stray; exec sleep 300' &
    until [ -s child -a -s stray -a -s bare ]; do sleep 0.01; done
    touch ready; sleep 300
";

pub(crate) struct Place {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) mark: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mark = format!("{}", dir.path().display());
        Self { dir, mark }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn put(&self, name: &str) {
        std::fs::write(self.path().join(name), "").unwrap();
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.path().join(name).exists()
    }

    /// The processes that commands of this place have started and that still run.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let variable = format!("{MARK}={}", self.mark).into_bytes();
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| runs(*pid))
            .filter(|pid| {
                let held = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                held.split(|byte| *byte == 0).any(|one| one == variable)
            })
            .collect()
    }

    /// The processes that work in this place, whatever their environment is.
    pub(crate) fn processes_inside(&self) -> Vec<u32> {
        let place = self.path().canonicalize().unwrap();
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| runs(*pid))
            .filter(|pid| {
                std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&place))
            })
            .collect()
    }

    /// Waits until a [`FAMILY`] in the folder has ended with everything that was started here.
    pub(crate) async fn all_gone(&self) {
        // A process that is ended while it writes its number leaves an empty file.
        let number = |name| std::fs::read_to_string(self.path().join(name)).ok()?.trim().parse().ok();
        let family: Vec<u32> = ["child", "bare", "stray"].into_iter().filter_map(number).collect();
        until("the end of the processes", || {
            self.processes().is_empty() && !family.iter().any(|pid| runs(*pid))
        })
        .await;
    }

    /// An agent with `bash`, `read_output` and `background`, whose model follows this script.
    pub(crate) fn agent(&self, work: &BackgroundWork, model: impl StreamProvider + 'static) -> BasicAgent {
        let agent = self.unattached(work, model);
        work.attach(&agent).unwrap();
        agent
    }

    pub(crate) fn unattached(
        &self,
        work: &BackgroundWork,
        model: impl StreamProvider + 'static,
    ) -> BasicAgent {
        let workspace = Workspace::open(self.path()).unwrap();
        let bash = BashTool::new(workspace.clone()).with_env(MARK, &self.mark);
        let tools = CodingTools::new(workspace).with_bash(bash).with_background_work(work.clone()).tools();
        looptree::agent(ModelConfig::default()).with_provider(model).with_tools(tools)
    }
}

/// Whether a process runs; one that is dead and only not waited for does not.
pub(crate) fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

/// Waits until it is so.
#[track_caller]
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < PATIENCE, "{caller}: {what} never came");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it hangs")
}

/// Runs a prompt to its end.
pub(crate) async fn run(agent: &BasicAgent, prompt: &str) -> RunEnd {
    within(agent.prompt(prompt).unwrap().end()).await
}

/// Runs a prompt to its end, which must be that of a complete run.
pub(crate) async fn ask(agent: &BasicAgent, prompt: &str) {
    let end = run(agent, prompt).await;
    assert!(end.is_completed(), "{end:?}");
}

/// A call of `bash` in the background.
pub(crate) fn start(id: &str, command: &str) -> ScriptedReply {
    ScriptedReply::call(id, "bash", in_background(command))
}

pub(crate) fn in_background(command: &str) -> Value {
    json!({"command": command, "background": true})
}

/// The results that came in a later message to the call: their texts.
pub(crate) fn ends_of(agent: &BasicAgent, call: &str) -> Vec<String> {
    let messages = agent.messages();
    let ends = messages.iter().filter(|message| match message.as_llm() {
        Some(Message::User(user)) => {
            user.deferred.as_ref().is_some_and(|deferred| deferred.tool_call_id.as_str() == call)
        }
        _ => false,
    });
    ends.map(|message| message.text()).collect()
}

/// The text of the result of a call.
pub(crate) fn result_of(agent: &BasicAgent, call: &str) -> String {
    let messages = agent.messages();
    let result = messages.iter().find_map(|message| match message.as_llm() {
        Some(Message::ToolResult(result)) if result.tool_call_id.as_str() == call => Some(message.text()),
        _ => None,
    });
    result.unwrap_or_else(|| panic!("no result of {call}"))
}

/// The texts of the last request.
pub(crate) fn last_request(model: &ScriptedProvider) -> String {
    let requests = model.requests();
    requests.last().unwrap().messages().map(Message::text).collect::<Vec<_>>().join("\n---\n")
}

/// The whole output of a work so far.
pub(crate) async fn output(work: &BackgroundWork, key: &str) -> String {
    work.output_store().read(key, 0, 1 << 20).await.unwrap().text().to_owned()
}

pub(crate) fn here() -> PathBuf {
    std::env::current_exe().unwrap()
}
