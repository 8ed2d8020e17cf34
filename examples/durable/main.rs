//! A session that outlives its workers: it asks for an approval, its worker is killed, the answer is given while no process
//! of the agent is alive, and another worker finishes the run.
//!
//! `cargo xtask restate` installs a Restate server below `target`, once. Then
//! `cargo run -p looptree-examples --features durable --example durable` answers from a script.
//! `-- --model anthropic/claude-sonnet-5-5` asks a model; `docs/examples.md` lists the names and keys of all providers. The
//! guide `docs/guides/scale-out.md` explains it.
#![expect(clippy::print_stdout, reason = "a program that talks to the user")]
#![expect(clippy::disallowed_methods, reason = "it starts a server and workers as its own processes")]

mod server;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use looptree::prelude::*;
use looptree::restate::{self, Client, DurableAgent, TurnEnd};
use looptree::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use serde_json::json;

use server::{Server, free_port};

/// The agent of all workers.
fn deployer() -> Result<DurableAgent> {
    let script = ScriptedProvider::responding(|request| {
        let results = request.history.llm_messages().filter(|message| message.as_tool_result().is_some());
        if results.count() == 0 {
            ScriptedReply::call("c1", "deploy", json!({"to": "production"}))
        } else {
            ScriptedReply::text("Version 7 is in production.")
        }
    });
    let deploy = ScriptedTool::saying("deploy", "deployed").asking("Deploy to production?");
    let agent = DurableAgent::new("deployer")
        .system_prompt("You deploy what the user asks for.")
        .tools([std::sync::Arc::new(deploy.with_effects(Effects::Once)) as _]);
    Ok(match looptree_examples::model()? {
        Some(model) => agent.model(model),
        None => agent.model(ModelConfig::default()).provider(script),
    })
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = looptree_examples::arguments().into_iter();
    if let (Some("worker"), Some(address)) = (arguments.next().as_deref(), arguments.next()) {
        return Ok(restate::serve(deployer()?, address.parse()?).await?);
    }
    let Some(server) = Server::start().await? else {
        println!("skipped: no Restate server; `cargo xtask restate` installs one");
        return Ok(());
    };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
    let mut worker = Worker::start(address)?;
    server.register(address).await?;

    let session = Client::connect(server.ingress())?.session("deployer", "release-7");
    let turn = session.prompt("Deploy version 7").idempotency_key("deploy-7").send().await?;
    let TurnEnd::Waiting(questions) = turn.wait().await? else { bail!("the run did not ask") };
    let question = questions.first().context("a suspended run has a question")?;
    println!("the session asks: {}", question.text);

    worker.kill()?;
    println!("the worker is killed");
    session.answer(question.id.clone(), Answer::Allow).await?;
    println!("the answer is given, and no worker is alive");
    worker = Worker::start(address)?;
    println!("another worker starts");

    match turn.wait().await? {
        TurnEnd::Ended(end) => println!("the run: {:?}, {}", end.ended, end.reply.context("a reply")?.text()),
        other => bail!("the run did not end: {other:?}"),
    }
    let events = session.events_from(0).await?.collect().await?;
    println!("the session has {} events, numbered and each once", events.len());
    worker.kill()
}

/// A worker as a process of its own.
struct Worker(Child);

impl Worker {
    fn start(address: SocketAddr) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("worker").arg(address.to_string()).args(std::env::args().skip(1)).stdin(Stdio::null());
        Ok(Self(command.spawn().context("the worker cannot be started")?))
    }

    fn kill(&mut self) -> Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A worker that was killed before needs nothing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
