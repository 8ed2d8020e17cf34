//! Work in the background: the model starts a command, continues, reads its output while it runs, and receives its end.
//!
//! `cargo run -p looptree-examples --example background` answers from a script; the command is real and needs `bash`.
//! `-- --model anthropic/claude-sonnet-5-5` asks a model; `docs/examples.md` lists the names and keys of all providers.
#![expect(clippy::print_stdout, reason = "a program that talks to the user")]

use std::time::Duration;

use looptree::prelude::*;
use looptree::testing::{ScriptedProvider, ScriptedReply};
use looptree::tools::background_work::BackgroundWork;
use serde_json::json;

/// Writes two frames, waits until a file appears, and writes the third one.
const RENDER: &str = "echo frame 1; echo frame 2; until [ -e continue ]; do sleep 0.05; done; echo frame 3";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let script = ScriptedProvider::new([
        ScriptedReply::call("call_1", "bash", json!({"command": RENDER, "background": true})),
        ScriptedReply::text("The rendering has started."),
        ScriptedReply::call("call_2", "read_output", json!({"key": "out-1"})),
        ScriptedReply::text("Two frames so far."),
        ScriptedReply::text("It is complete: three frames."),
    ]);
    let work = BackgroundWork::new();
    let tools = CodingTools::new(Workspace::open(folder.path())?).with_background_work(work.clone()).tools();
    let agent = looptree_examples::agent(script)?.with_tools(tools);
    work.attach(&agent)?;
    let _subscription = agent.subscribe(|event| match event {
        AgentEvent::ToolExecutionStart { tool_name, .. } => println!("[{tool_name}]"),
        AgentEvent::ToolExecutionEnd(end) if end.tool_name.as_str() == "read_output" => {
            println!("[-> {}]", end.result.to_text().trim_end().replace('\n', " | "));
        }
        _ => {}
    });

    println!(
        "{}",
        agent.chat(format!("Run this in the background, without waiting for it: {RENDER}")).await?
    );
    for info in work.list() {
        println!("{}: {}", info.state.name(), info.title);
        // The program reads the output as well: here until two frames are there, for ten seconds at most.
        for _ in 0..200 {
            if work.output_store().read(&info.output_key, 0, 1_000).await?.text().contains("frame 2") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    println!("{}", agent.chat("How far is it? Read the output.").await?);

    std::fs::write(folder.path().join("continue"), "")?;
    work.wait().await; // until nothing runs; the end of the work enters the conversation with the next prompt
    println!("{}", agent.chat("Is it complete?").await?);
    Ok(())
}
