//! What a session costs over the built-in driver. `cargo xtask bench durable` starts this; nothing is compared with a bound.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_core::message::Message;
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{AgentTool, BasicAgent, Effects, ExecutionLimits, ModelConfig};
use agent_restate::{Client, DurableAgent};
use serde_json::json;

use crate::server::Server;
use crate::sessions::ended;
use crate::worker::Worker;

/// The tool rounds of a short run, and the steps that it has: a model call and a group of calls a round, the last reply,
/// and its end.
const ROUNDS: usize = 20;
const STEPS: usize = 2 * ROUNDS + 2;

/// Runs of which the median is taken.
const REPEATS: usize = 15;

/// A model that calls a tool in so many rounds. The prompt is a number.
fn model() -> ScriptedProvider {
    ScriptedProvider::responding(|request| {
        let (mut rounds, mut wanted) = (0, 0);
        for message in request.history.llm_messages() {
            match message {
                Message::Assistant(_) => rounds += 1,
                Message::User(_) => (rounds, wanted) = (0, message.text().parse().unwrap_or(0)),
                _ => {}
            }
        }
        if rounds < wanted {
            ScriptedReply::call(&format!("c{rounds}"), "look", json!({}))
        } else {
            ScriptedReply::text("Done.")
        }
    })
}

fn tools() -> Vec<Arc<dyn AgentTool>> {
    vec![Arc::new(ScriptedTool::saying("look", "seen").with_effects(Effects::ReadOnly))]
}

fn agent(name: &str, hand_over_after: u32) -> DurableAgent {
    DurableAgent::new(name)
        .model(ModelConfig::default())
        .provider(model())
        .tools(tools())
        .configure(|config| config.policy.limits = Some(ExecutionLimits::unlimited()))
        .hand_over_after(hand_over_after)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Returns the CPU time of a process so far; zero where `/proc` is missing.
fn cpu(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name of the program may contain spaces, so the fields are counted from its end.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

async fn embedded(rounds: usize) -> Duration {
    let agent = BasicAgent::new(ModelConfig::default()).with_provider(model()).with_tools(tools());
    let started = Instant::now();
    agent.prompt(rounds.to_string()).unwrap().collect().await;
    started.elapsed()
}

async fn prompt(client: &Client, agent: &str, key: String, rounds: usize) -> Duration {
    let session = client.session(agent, key);
    let started = Instant::now();
    ended(session.prompt(rounds.to_string()).send().await.unwrap().wait().await.unwrap());
    started.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures for a minute"]
async fn what_a_session_costs() {
    let Some(server) = Server::start().await else { return };
    let (whole, relay) = (Worker::start(agent("whole", u32::MAX)), Worker::start(agent("relay", 200)));
    server.register(whole.address).await;
    server.register(relay.address).await;
    let client = server.client();
    prompt(&client, "whole", "warm".into(), ROUNDS).await;

    let (mut alone, mut durable) = (Vec::new(), Vec::new());
    for n in 0..REPEATS {
        alone.push(embedded(ROUNDS).await);
        durable.push(prompt(&client, "whole", format!("one{n}"), ROUNDS).await);
    }
    let (alone, durable) = (median(alone), median(durable));
    let a_step = (durable.saturating_sub(alone)).as_secs_f64() * 1e3 / STEPS as f64;
    println!(
        "one session, {STEPS} steps: embedded {alone:.1?}, durable {durable:.1?}, {a_step:.2} ms a step over embedded"
    );

    for sessions in [50, 500] {
        let started = Instant::now();
        let used = [cpu(std::process::id()), cpu(server.pid())];
        let tasks: Vec<_> = (0..sessions)
            .map(|n| {
                let client = client.clone();
                tokio::spawn(async move { prompt(&client, "whole", format!("{sessions}-{n}"), ROUNDS).await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let elapsed = started.elapsed();
        let rate = (sessions * STEPS) as f64 / elapsed.as_secs_f64();
        let [own, servers] = [(std::process::id(), used[0]), (server.pid(), used[1])]
            .map(|(pid, before)| (cpu(pid) - before).as_secs_f64() * 1e6 / (sessions * STEPS) as f64);
        println!(
            "{sessions} sessions at once: {elapsed:.1?}, {rate:.0} steps/s; CPU a step: worker, model and load {own:.0} us, \
             server {servers:.0} us"
        );
    }

    let one = prompt(&client, "whole", "long".into(), 1_000).await;
    let handed = prompt(&client, "relay", "long".into(), 1_000).await;
    println!("1,000 turns: {one:.1?} in one invocation, {handed:.1?} with a hand-over every 200 steps");
    let mut later = Vec::new();
    for _ in 0..REPEATS {
        later.push(prompt(&client, "whole", "long".into(), 0).await);
    }
    let mut fresh = Vec::new();
    for n in 0..REPEATS {
        fresh.push(prompt(&client, "whole", format!("fresh{n}"), 0).await);
    }
    println!("a prompt: {:.1?} in a new session, {:.1?} after 1,000 turns", median(fresh), median(later));
}

/// The sizes of the stated mix: the result of a tool, and a reply, in bytes.
const RESULT: usize = 2_048;
const REPLY: usize = 1_200;

/// The prompts of a session of the mix, and the tool rounds after each.
const PROMPTS: usize = 10;
const ROUNDS_OF_PROMPT: usize = 4;

/// What a session leaves in the server. `cargo xtask size` computes with these figures.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures"]
async fn what_a_session_stores() {
    let Some(server) = Server::start().await else { return };
    let model = ScriptedProvider::responding(|request| {
        let since = |messages: Vec<&Message>| {
            messages.iter().rev().take_while(|m| !matches!(m, Message::User(_))).count()
        };
        let rounds = since(request.history.llm_messages().collect()) / 2;
        let reply = ScriptedReply::text("words ".repeat(REPLY / 6));
        if rounds < ROUNDS_OF_PROMPT {
            reply.and_call(&format!("c{rounds}"), "look", json!({}))
        } else {
            reply
        }
    });
    let look =
        ScriptedTool::saying("look", "line of text\n".repeat(RESULT / 13)).with_effects(Effects::ReadOnly);
    let agent =
        DurableAgent::new("mix").model(ModelConfig::default()).provider(model).tools([Arc::new(look) as _]);
    let worker = Worker::start(agent.configure(|config| config.policy.context = None));
    server.register(worker.address).await;
    let session = server.client().session("mix", "s");
    for _ in 0..PROMPTS {
        ended(session.prompt("Look into it").send().await.unwrap().wait().await.unwrap());
    }
    let number = async |sql: &str| {
        let row = server.query(sql).await.remove(0);
        row["n"].as_u64().unwrap_or_default()
    };
    let steps = number("SELECT count(*) AS n FROM sys_journal WHERE entry_type = 'Command: Run'").await;
    let journal = number("SELECT sum(raw_length) AS n FROM sys_journal").await;
    let state =
        number("SELECT sum(octet_length(value_utf8)) AS n FROM state WHERE service_name = 'mix'").await;
    let messages = serde_json::to_vec(&session.history().await.unwrap()).unwrap().len();
    println!(
        "{PROMPTS} prompts with {ROUNDS_OF_PROMPT} tool rounds each: {steps} steps, journal {journal} bytes, \
         state {state} bytes, messages {messages} bytes as JSON"
    );
}
