//! An approval in another process: one process starts a run, which suspends; another one shows the question, answers it and
//! continues the run.
//!
//! `cargo run -p looptree-examples --example approval`, and then the same with `-- yes` or `-- no`. The sessions are in
//! `looptree-approval` in the folder for temporary files. A script answers; with `--model anthropic/claude-sonnet-5-5` in both
//! commands, a model does; `docs/examples.md` lists the names and keys of all providers.
#![expect(clippy::print_stdout, reason = "a program that talks to the user")]

use anyhow::{Context as _, Result, bail};
use looptree::hooks::Decision;
use looptree::prelude::*;
use looptree::testing::{ScriptedProvider, ScriptedReply};
use looptree::{Message, Timestamp, ToolPolicy};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Deploy {
    version: u32,
}

/// Every process builds the agent in the same way.
fn deployer() -> Result<BasicAgent> {
    let script = ScriptedProvider::responding(|request| match request.messages().last() {
        Some(Message::ToolResult(result)) if result.is_error => "I did not deploy version 7.".into(),
        Some(Message::ToolResult(_)) => "Version 7 is in production.".into(),
        _ => ScriptedReply::call("call_1", "deploy", json!({"version": 7})),
    });
    let deploy = tool_fn("deploy", "Deploys a version to production.", |args: Deploy, _| async move {
        println!("(deploys version {})", args.version);
        Ok("deployed")
    });
    Ok(looptree_examples::agent(script)?
        .with_tool(deploy)
        .with_hooks(Hooks::new().policy(ToolPolicy::new(Decision::Ask))))
}

async fn start(store: JsonStore) -> Result<()> {
    let mut agent = deployer()?;
    let recorder = SessionRecorder::attach(&mut agent, store);
    match agent.prompt("Deploy version 7.")?.end().await {
        RunEnd::Suspended(_) => println!("session {} waits for an approval", agent.session_id()),
        end => println!("the run ended without a question: {end}"),
    }
    recorder.close().await?;
    Ok(())
}

async fn answer(store: JsonStore, answer: Answer) -> Result<()> {
    let found = store.unfinished().await?;
    let run =
        *found.waiting().first().context("no run waits for an approval; start one without an argument")?;
    let question = run.questions.first().context("a suspended run has a question")?;
    let call = question.approval().context("the question is not about a call")?;
    println!("{call}"); // the tool and every argument, with invisible characters escaped
    // Approves exactly the call that was shown. No model and no tool is needed for this.
    store.answer_approval(&run.session_id, &call, answer, Timestamp::now()).await?;

    let (agent, recorder) = deployer()?.restore_session(store.clone(), &run.session_id).await?;
    println!("{}", agent.resume()?.end().await.into_reply()?.text());
    recorder.close().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let store = JsonStore::open(std::env::temp_dir().join("looptree-approval"))?;
    match looptree_examples::arguments().first().map(String::as_str) {
        None => start(store).await,
        Some("yes") => answer(store, Answer::Allow).await,
        Some("no") => answer(store, Answer::deny("not today")).await,
        Some(other) => bail!("the argument is yes or no, not {other}"),
    }
}
