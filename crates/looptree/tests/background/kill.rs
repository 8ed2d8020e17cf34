//! SIGKILL of the process that runs the agent: no process of a command is left, in the foreground and in the background,
//! and each call in the background has an answer after the restart.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use looptree::prelude::*;
use looptree::testing::{ScriptedProvider, ScriptedReply};
use looptree::tools::background_work::{BackgroundWork, OUTCOME_UNKNOWN};
use looptree::tools::{BashTool, SandboxRules};

use serde_json::json;

use crate::support::{FAMILY, MARK, Place, ends_of, here, in_background, runs, until, within};

const GO: &str = "go-child";
const KIND: &str = "kind";
const COMMANDS: usize = 6;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

fn sandbox(kind: &str, workspace: &Workspace) -> Sandbox {
    let rules = SandboxRules::for_workspace(workspace);
    match kind {
        "landlock" => Sandbox::landlock(rules),
        "bwrap" => Sandbox::bwrap(rules),
        _ => Sandbox::none(),
    }
}

/// The agent of this folder, in whichever process.
fn agent(work: &BackgroundWork, dir: &Path, model: &ScriptedProvider) -> BasicAgent {
    let kind = std::fs::read_to_string(dir.join(KIND)).unwrap();
    let workspace = Workspace::open(dir.join("project")).unwrap();
    let bash = BashTool::new(workspace.clone())
        .with_env(MARK, std::fs::read_to_string(dir.join("mark")).unwrap())
        .with_sandbox(sandbox(&kind, &workspace));
    let tools = CodingTools::new(workspace).with_bash(bash).with_background_work(work.clone()).tools();
    looptree::agent(ModelConfig::default())
        .with_provider(model.clone())
        .with_session_id("s-1")
        .with_tools(tools)
}

/// What the agent does when it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// It is idle, and commands run in the background.
    Idle,
    /// The model answers, and commands run in the background.
    Open,
    /// It waits for commands in the foreground.
    Foreground,
}

/// What a command in the foreground does beside its family: pipelines, and processes that are deaf to the signals which
/// can be ignored.
const DEAF: &str =
    "trap '' TERM HUP INT PIPE; (trap '' TERM HUP INT; sleep 300 | cat | sort) & yes | sleep 300 &";

/// Each command has a folder of its own for its numbers.
fn starts(when: When) -> ScriptedReply {
    (0..COMMANDS).fold(ScriptedReply::new(), |reply, n| {
        let command = format!("mkdir -p {n}; cd {n}; {FAMILY}");
        let arguments = match when {
            When::Idle | When::Open => in_background(&command),
            When::Foreground => json!({"command": format!("{DEAF} {command}")}),
        };
        reply.and_call(&format!("c{n}"), "bash", arguments)
    })
}

/// What is killed.
#[test]
#[ignore = "the child of another test"]
fn an_agent_works_until_it_is_killed() {
    if !Path::new(GO).exists() {
        return;
    }
    block_on(async {
        let work = BackgroundWork::new();
        let when = match std::fs::read_to_string("when").unwrap().as_str() {
            "Idle" => When::Idle,
            "Open" => When::Open,
            _ => When::Foreground,
        };
        let end = if when == When::Idle { "I wait.".into() } else { ScriptedReply::text("I").and_hang() };
        let model = ScriptedProvider::new([starts(when), end]);
        let mut agent = agent(&work, Path::new("."), &model);
        work.attach(&agent).unwrap();
        let _recorder = SessionRecorder::attach(&mut agent, JsonStore::open("sessions").unwrap());
        let _events = agent.prompt("Start").unwrap();
        until("all commands", || (0..COMMANDS).all(|n| Path::new(&format!("project/{n}/ready")).exists()))
            .await;
        if when == When::Idle {
            within(agent.wait_for_idle()).await;
        }
        std::fs::write("started", "").unwrap();
        std::future::pending::<()>().await;
    });
}

struct Lives {
    place: Place,
}

impl Lives {
    fn new(kind: &str, when: When) -> Self {
        let place = Place::new();
        std::fs::create_dir(place.path().join("project")).unwrap();
        std::fs::write(place.path().join(KIND), kind).unwrap();
        std::fs::write(place.path().join("mark"), &place.mark).unwrap();
        place.put(GO);
        std::fs::write(place.path().join("when"), format!("{when:?}")).unwrap();
        Self { place }
    }

    fn begin(&self) -> Child {
        Command::new(here())
            .args(["--exact", "kill::an_agent_works_until_it_is_killed", "--ignored", "--nocapture"])
            .current_dir(self.place.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap()
    }

    /// The numbers that the commands have written down. In `bwrap` they are numbers of its own, which other processes have here.
    fn family(&self) -> Vec<u32> {
        if std::fs::read_to_string(self.place.path().join(KIND)).unwrap() == "bwrap" {
            return Vec::new();
        }
        let names = (0..COMMANDS).flat_map(|n| ["child", "bare", "stray"].map(|name| format!("{n}/{name}")));
        names
            .filter_map(|name| std::fs::read_to_string(self.place.path().join("project").join(name)).ok())
            .filter_map(|number| number.trim().parse().ok())
            .collect()
    }

    async fn all_gone(&self) {
        until("the end of all processes", || {
            self.place.processes().is_empty()
                && self.place.processes_inside().is_empty()
                && !self.family().iter().any(|pid| runs(*pid))
        })
        .await;
    }

    /// Continues in this process. Returns what the model was shown last, and how many calls were lost.
    async fn restart(&self) -> usize {
        let work = BackgroundWork::new();
        let model = ScriptedProvider::responding(|_| "I see.".into());
        let agent = agent(&work, self.place.path(), &model);
        let store = JsonStore::open(self.place.path().join("sessions")).unwrap();
        let Ok((agent, recorder)) = agent.restore_session(store, "s-1").await else { return 0 };
        let lost = work.attach(&agent).unwrap();
        assert!(work.attach(&agent).unwrap().is_empty(), "each is answered once");
        let mut end = match agent.resume() {
            Ok(mut events) => Some(within(events.end()).await),
            Err(_) if lost.is_empty() => None,
            Err(_) => Some(within(agent.continue_run().unwrap().end()).await),
        };
        // A call that was cut off is asked about.
        while let Some(RunEnd::Suspended(questions)) = &end {
            let denied = Answer::Deny { reason: "cut off".to_owned() };
            end = Some(within(agent.answer(questions[0].id.clone(), denied).unwrap().end()).await);
        }
        for call in &lost {
            let ends = ends_of(&agent, call.tool_call_id.as_str());
            assert!(ends.len() == 1 && ends[0].contains(OUTCOME_UNKNOWN), "{ends:?}");
        }
        // Calls that had not begun when the process was killed have begun now.
        let waiting: BTreeSet<String> =
            agent.history().deferred().iter().map(|c| c.handle.to_string()).collect();
        let begun: BTreeSet<String> = work.list().iter().map(|info| info.id.to_string()).collect();
        assert_eq!(waiting, begun);
        work.kill_all();
        within(work.wait()).await;
        if !begun.is_empty() {
            let _ = within(agent.continue_run().unwrap().end()).await;
        }
        assert!(agent.history().deferred().is_empty());
        let history = agent.messages();
        let (_, repairs) = looptree::history::History::repaired(
            history.into_iter().map(|message| looptree::history::Entry::new(message, 1)),
        );
        assert!(repairs.is_empty(), "{repairs:?}");
        recorder.close().await.unwrap();
        lost.len()
    }
}

async fn works_here(kind: &str) -> bool {
    let place = Place::new();
    match sandbox(kind, &Workspace::open(place.path()).unwrap()).check().await {
        Ok(()) => true,
        Err(error) => {
            crate::skip::sandbox(kind, &error);
            false
        }
    }
}

#[test]
fn a_killed_agent_leaves_no_process_and_its_calls_are_answered_after_the_restart() {
    let background =
        [("none", When::Idle), ("none", When::Open), ("landlock", When::Open), ("bwrap", When::Open)];
    let foreground = ["none", "landlock", "bwrap"].map(|kind| (kind, When::Foreground));
    for (kind, when) in background.into_iter().chain(foreground) {
        if !block_on(works_here(kind)) {
            continue;
        }
        let lives = Lives::new(kind, when);
        let mut child = lives.begin();
        block_on(until("the start", || lives.place.has("started")));
        assert!(lives.place.processes().len() >= COMMANDS * 3, "{kind}: shells and children run");
        assert!(
            lives.place.processes_inside().len() >= COMMANDS * 4,
            "{kind}: also those without an environment"
        );
        child.kill().unwrap();
        child.wait().unwrap();
        block_on(lives.all_gone());
        let lost = if when == When::Foreground { 0 } else { COMMANDS };
        assert_eq!(block_on(lives.restart()), lost, "{kind} {when:?}");
    }
}

#[test]
fn an_agent_that_is_killed_while_it_starts_commands_leaves_no_process() {
    for (kind, when) in [
        ("none", When::Open),
        ("none", When::Foreground),
        ("landlock", When::Foreground),
        ("bwrap", When::Foreground),
    ] {
        if !block_on(works_here(kind)) {
            continue;
        }
        for millis in [10_u64, 40, 70, 100, 130, 150, 170, 190, 210, 230, 250, 300] {
            let lives = Lives::new(kind, when);
            let mut child = lives.begin();
            std::thread::sleep(Duration::from_millis(millis));
            child.kill().unwrap();
            child.wait().unwrap();
            block_on(lives.all_gone());
            let started = lives.family().len();
            // A call that had not begun in the foreground would begin now.
            let lost = if when == When::Foreground { 0 } else { block_on(lives.restart()) };
            eprintln!("{kind} {when:?}: killed after {millis} ms: {started} started, {lost} lost");
            block_on(lives.all_gone());
        }
    }
}
