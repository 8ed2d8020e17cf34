//! The built-in driver and a session on Restate make the same run of the same script.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_core::event::NumberedEvent;
use agent_core::{
    AgentContext, AgentEvent, AgentLoopConfig, Answer, CancellationToken, History, Spending, agent_loop,
    agent_loop_answer, event_channel,
};
use agent_restate::{DurableAgent, TurnEnd};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::json;

use crate::server::Server;
use crate::worker::Worker;
use crate::world::World;

/// The scripts, unless `LOOPTREE_SCRIPTS` says otherwise.
const SCRIPTS: usize = 20;

const MOST_ANSWERS: usize = 6;

/// The time limit of tools without one of their own.
const LONGEST: Duration = Duration::from_secs(600);

/// What a driver made of a script.
#[derive(Debug, PartialEq)]
struct Made {
    events: Vec<NumberedEvent>,
    /// The conversation, if the run has ended.
    history: Option<History>,
    draws: usize,
    spent: Option<Spending>,
}

fn answer(world: &World) -> Answer {
    match world.draw(4) {
        0 => Answer::Deny { reason: "no".into() },
        1 => Answer::AllowWith(json!({"n": 3})),
        _ => Answer::Allow,
    }
}

fn loop_id(config: &AgentLoopConfig) -> String {
    format!("session.{}.1", config.config_segment())
}

/// Aborts come from a token that only the built-in driver has, so that these scripts have none; both ignore it.
async fn built_in(name: &str, world: &World) -> Made {
    let mut config = world.config();
    config.policy.tool_timeout = Some(LONGEST);
    let mut context = AgentContext::new("Be brief.").with_tools(world.tools());
    context.agent_id = Some(name.into());
    context.session_id = Some("session".into());
    context.loop_id = Some(loop_id(&config).into());
    let mut events = Vec::new();
    let (tx, rx) = event_channel();
    agent_loop(vec!["go".into()], &mut context, &config, tx, CancellationToken::new()).await.unwrap();
    events.extend(rx.collect_numbered().await);
    for _ in 0..MOST_ANSWERS {
        let Some(run) = &context.suspended else { break };
        let (question, answer) = (run.questions()[0].id.clone(), answer(world));
        let (tx, rx) = event_channel();
        let cancel = CancellationToken::new();
        agent_loop_answer(&mut context, &config, question, answer, tx, cancel).await.unwrap();
        events.extend(rx.collect_numbered().await);
    }
    events.retain(|event| !event.is_live());
    let history = context.suspended.is_none().then(|| context.history.clone());
    let draws = world.row.lock().unwrap().at();
    let spent = config.services.budget.map(|budget| budget.spent());
    Made { events, history, draws, spent }
}

async fn durable(name: &str, world: &World, server: &Server) -> Made {
    let budget = Arc::new(Mutex::new(None));
    let agent = DurableAgent::new(name)
        .model(agent_core::ModelConfig::default())
        .system_prompt("Be brief.")
        .tools(world.tools())
        .longest_step(LONGEST)
        .configure({
            let (world, budget) = (world.clone(), Arc::clone(&budget));
            move |config| {
                *config = world.config();
                budget.lock().unwrap().clone_from(&config.services.budget);
            }
        });
    let worker = Worker::start(agent);
    server.register(worker.address).await;
    let session = server.client().session(name, "session");
    let mut end = session.prompt("go").send().await.unwrap().wait().await.unwrap();
    for _ in 0..MOST_ANSWERS {
        let TurnEnd::Waiting(questions) = &end else { break };
        let answer = answer(world);
        end = session.answer(questions[0].id.clone(), answer).await.unwrap().wait().await.unwrap();
    }
    let events = session.events_from(0).await.unwrap().collect().await.unwrap();
    let events = events.into_iter().map(|event| event.event).collect();
    let history = match end {
        TurnEnd::Ended(_) => Some(session.history().await.unwrap()),
        _ => None,
    };
    worker.stop().await;
    let draws = world.row.lock().unwrap().at();
    let spent = budget.lock().unwrap().take().map(|budget: agent_core::Budget| budget.spent());
    Made { events, history, draws, spent }
}

/// The same events with the same numbers, the same history and the same spending, with hooks, questions, retries, routes,
/// budgets, compaction, steering, deferred calls and child loops.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_makes_the_run_of_the_built_in_driver() {
    let Some(server) = Server::start().await else { return };
    let scripts = std::env::var("LOOPTREE_SCRIPTS").map_or(SCRIPTS, |count| count.parse().unwrap());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = prop::collection::vec(any::<u16>(), 8..160);
    std::panic::set_hook(Box::new(|_| {}));
    let (mut suspended, mut children, mut compacted, mut tools) = (0, 0, 0, 0);
    let mut differences = Vec::new();
    for script in 0..scripts {
        let numbers = strategy.new_tree(&mut runner).unwrap().current();
        let name = format!("script{script}");
        // Every fourth run is long, in a small context, so that it is compacted by one of the strategies.
        let world =
            || if script % 4 == 3 { World::long(numbers.clone()) } else { World::new(numbers.clone()) };
        let expected = built_in(&name, &world()).await;
        let made = durable(&name, &world(), &server).await;
        let any = |test: fn(&AgentEvent) -> bool| usize::from(expected.events.iter().any(|e| test(&e.event)));
        suspended += any(|e| matches!(e, AgentEvent::RunSuspended { .. }));
        children += any(|e| e.loop_id().as_str().contains(".sub."));
        compacted += any(|e| matches!(e, AgentEvent::CompactionEnded(_)));
        tools += any(|e| matches!(e, AgentEvent::ToolExecutionEnd(_)));
        if made != expected {
            let first = made.events.iter().zip(&expected.events).position(|(a, b)| a != b);
            let at = first.unwrap_or(made.events.len().min(expected.events.len()));
            differences.push(format!(
                "script {script}, event {at}: {:?}\n  built-in: {:?}\n  counts {} and {}, draws {} and {}, spent {:?} and {:?}",
                made.events.get(at),
                expected.events.get(at),
                made.events.len(),
                expected.events.len(),
                made.draws,
                expected.draws,
                made.spent,
                expected.spent,
            ));
        }
    }
    let _ = std::panic::take_hook();
    assert!(differences.is_empty(), "{} of {scripts}:\n{}", differences.len(), differences.join("\n"));
    println!(
        "{scripts} scripts: {suspended} suspended, {children} with children, {compacted} compacted, {tools} with tools"
    );
    if scripts < SCRIPTS {
        return;
    }
    assert!(
        suspended > 0 && children > 0 && compacted > 0 && tools > 0,
        "the scripts reach what they are made for"
    );
}
