//! One round: a run of the coding agent from its prompt to its deleted session.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use looptree::event::Ended;
use looptree::model::ApiProtocol;
use looptree::prelude::*;
use looptree::provider::ModelRequest;
use looptree::testing::{ScriptedProvider, ScriptedReply};
use looptree::tools::SubAgentTool;
use looptree::{AgentEvent, Message};
use serde_json::{Value, json};

/// The file that a round writes and edits.
const NOTES: &str = "soak-notes.md";

/// In one round of so many a command runs into its time-out, which takes a second.
const KILLED_EACH: usize = 8;

/// What the model asks for, one reply each, and a part of the results that it must get.
fn script(round: usize) -> Vec<(Vec<(&'static str, Value)>, &'static str)> {
    let mut script = vec![
        (
            vec![
                ("search", json!({"pattern": "pub fn \\w+", "include": "*.rs"})),
                ("list_files", json!({"path": "crates", "pattern": "*.rs"})),
            ],
            "matches)",
        ),
        (vec![("read_file", json!({"path": "Cargo.toml"}))], "[workspace]"),
        (
            vec![(
                "bash",
                json!({"command": "find . -name '*.rs' | wc -l; (sleep 60 &) ; head -c 300000 /dev/zero | tr '\\0' x"}),
            )],
            "Exit code: 0",
        ),
        (
            vec![("write_file", json!({"path": NOTES, "content": format!("# Round {round}\n\nopen\n")}))],
            "Wrote",
        ),
        (vec![("edit_file", json!({"path": NOTES, "old_text": "open", "new_text": "done"}))], "Replaced"),
        (
            vec![("helper", json!({"task": "first"})), ("helper", json!({"task": "second"}))],
            "the helper's answer",
        ),
        (vec![("read_file", json!({"path": "no/such/file"}))], "Cannot access"),
    ];
    if round.is_multiple_of(KILLED_EACH) {
        // It is killed with all that it has started.
        let command = json!({"command": "echo begun; sleep 60 & sleep 60", "timeout": 1});
        script.push((vec![("bash", command)], "timed out"));
    }
    script
}

fn model(id: &str) -> ModelConfig {
    ModelConfig::new(ApiProtocol::AnthropicMessages, "script", id)
}

/// The scripted model, for the agent and its helpers.
fn provider(round: usize) -> ScriptedProvider {
    ScriptedProvider::responding(move |request: &ModelRequest| {
        let replies = request.messages().filter(|m| matches!(m, Message::Assistant(_))).count();
        if request.model.id == "helper" {
            return match replies {
                0 => {
                    ScriptedReply::call("h", "search", json!({"pattern": "TODO|fn main", "path": "examples"}))
                }
                _ => ScriptedReply::text("the helper's answer"),
            };
        }
        match script(round).into_iter().nth(replies) {
            Some((calls, _)) => {
                calls.into_iter().enumerate().fold(ScriptedReply::new(), |reply, (n, (tool, arguments))| {
                    reply.and_call(&format!("c{replies}-{n}"), tool, arguments)
                })
            }
            None => ScriptedReply::text("All of it is done.").in_pieces_of(4),
        }
    })
}

/// Runs one round. A result that is not as it should be is an error: a round that did nothing would leave nothing behind.
pub(crate) async fn run(repository: &Path, scratch: &Path, round: usize) -> Result<()> {
    let sessions = scratch.join("sessions");
    let workspace = Workspace::open(repository)?;
    let helper = SubAgentTool::new("helper", model("helper")).with_tools(workspace.read_only_tools());
    let mut agent = looptree::BasicAgent::new(model("coder"))
        .with_provider(provider(round))
        .with_system_prompt("You work on a repository.")
        .with_tools(workspace.tools())
        .with_tool(helper);
    let recorder = SessionRecorder::attach(&mut agent, JsonStore::open(&sessions)?);
    let events = agent.prompt("Go through the repository.")?.collect().await;
    let Some(AgentEvent::AgentEnd(end)) = events.last() else { bail!("round {round} has no end") };
    ensure!(matches!(end.ended, Ended::Completed), "round {round} ended with {:?}", end.ended);
    let results = results(&events);
    for (_, part) in script(round) {
        ensure!(
            results.iter().any(|text| text.contains(part)),
            "round {round}: no result has `{part}`: {results:?}"
        );
    }

    let id = agent.session_id();
    recorder.close().await?;
    drop((agent, recorder, events));
    let loaded =
        JsonStore::open(&sessions)?.load_session(id.as_str()).context("the session cannot be read back")?;
    ensure!(loaded.open_run()?.is_none(), "round {round}: the run that was read back is open");
    ensure!(loaded.into_session().loops.len() == 1, "round {round}: the session has not one loop");
    std::fs::remove_dir_all(&sessions).context("cannot delete the sessions")?;
    std::fs::remove_file(repository.join(NOTES)).context("the notes were not written")?;
    Ok(())
}

fn results(events: &[AgentEvent]) -> Vec<String> {
    let text = |event: &AgentEvent| match event {
        AgentEvent::ToolExecutionEnd(end) => Some(end.result.to_text().chars().take(20_000).collect()),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}
