//! `cargo xtask acp-client`: a client of the Agent Client Protocol by another project drives `looptree acp`.
//!
//! The client is npm's `acpx`, without a terminal. The model is a server on loopback with prepared replies.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use super::install::Place;
use super::litellm::stream;
use super::mcp_conformance::{built_command, with_node};
use super::process::{Process, last_lines};
use super::{on_runtime, text};
use crate::server::{Response, Server};
use crate::workspace::Workspace;

const NAME: &str = "acp-client";

/// Also in `docs/interop.md`.
const CLIENT: &str = "acpx@0.19.1";

/// How long one prompt may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is done and what must be seen.
struct Check {
    name: &'static str,
    /// The client's answer to every permission.
    permission: &'static str,
    call: (&'static str, Value),
    /// Texts of the protocol that the client must report.
    reported: &'static [&'static str],
    /// The file in the directory of the session and its content; `None` if it must not exist.
    file: (&'static str, Option<&'static str>),
}

fn checks() -> [Check; 3] {
    let write = ("write_file", json!({"path": "notes.txt", "content": "written\n"}));
    let run = || ("bash", json!({"command": "echo ran > ran.txt"}));
    [
        Check {
            name: "edit, allowed",
            permission: "--approve-all",
            call: write,
            reported: &["\"type\":\"diff\"", "\"status\":\"completed\"", "\"stopReason\":\"end_turn\""],
            file: ("notes.txt", Some("written\n")),
        },
        Check {
            name: "command, allowed",
            permission: "--approve-all",
            call: run(),
            reported: &["\"kind\":\"execute\"", "\"status\":\"completed\"", "\"stopReason\":\"end_turn\""],
            file: ("ran.txt", Some("ran\n")),
        },
        Check {
            name: "command, denied",
            permission: "--deny-all",
            call: run(),
            reported: &[
                "\"status\":\"failed\"",
                "The user did not allow this call",
                "\"stopReason\":\"end_turn\"",
            ],
            file: ("ran.txt", None),
        },
    ]
}

/// Runs the checks; `false` when one failed.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<bool> {
    if let Some(unknown) = arguments.first() {
        bail!("`cargo xtask acp-client` takes no argument, but got `{unknown}`");
    }
    let place = Place::at(&workspace.root);
    let agent = built_command(&workspace.root)?;
    on_runtime(async {
        let (node, folder) = match with_node(&place, NAME, CLIENT).await? {
            Ok(found) => found,
            Err(missing) => {
                say!("skipped: {NAME}: {missing}");
                return Ok(true);
            }
        };
        let client = folder.join("node_modules/acpx/dist/cli.js");
        let model = Server::start().await?;
        let mut is_good = true;
        for check in checks() {
            match judged(&place, &node, &client, &agent, &model, &check).await {
                Ok(()) => say!("acpx  {:<18} passed", check.name),
                Err(error) => {
                    is_good = false;
                    say!("acpx  {:<18} FAILED: {error:#}", check.name);
                }
            }
        }
        Ok(is_good)
    })
}

async fn judged(
    place: &Place,
    node: &Path,
    client: &Path,
    agent: &Path,
    model: &Server,
    check: &Check,
) -> anyhow::Result<()> {
    let folder = place.scratch(NAME, "work")?;
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    std::fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let url = model.prepare_all(replies(&check.call));
    let agent = format!("{} acp --base-url {url} --model local/scripted", text(agent)?);
    let mut command = place.command(NAME, node)?;
    command.current_dir(&folder).arg(client).args(["--agent", &agent, "--cwd", text(&folder)?]);
    command.args([check.permission, "--format", "json", "exec", "Do what the reply says."]);
    let log = place.log(NAME);
    let (_, printed) = Process::start(NAME, command, &log)?.done(PATIENCE).await?;
    for reported in check.reported {
        ensure!(printed.contains(reported), "{reported} is not reported:\n{}", last_lines(&printed));
    }
    let (name, expected) = check.file;
    let found = std::fs::read_to_string(folder.join(name)).ok();
    ensure!(found.as_deref() == expected, "{name} is {found:?} and must be {expected:?}");
    Ok(())
}

/// The replies of the model: the call, and the end.
fn replies((tool, arguments): &(&'static str, Value)) -> Vec<Response> {
    let function = json!({"name": tool, "arguments": arguments.to_string()});
    let call =
        json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]});
    vec![stream(vec![call], "tool_calls"), stream(vec![json!({"content": "That was it."})], "stop")]
}
