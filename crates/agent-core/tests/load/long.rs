//! One agent for a very long time.

use agent_core::compat::SeedSetters as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agent_core::message::message_tokens;
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool, assert_well_formed};
use agent_core::{AgentEvent, AgentMessage, ContextConfig, History, Message};
use serde_json::json;

use crate::room::{agent, boxed};

const TURNS: usize = 1_000;
const BUDGET: u64 = 4_000;

fn config() -> ContextConfig {
    ContextConfig::default().with_max_context_tokens(BUDGET).with_system_prompt_tokens(0).with_keep_recent(6)
}

/// The task is first, the newest exchange last, and nothing is over the budget.
fn check(history: &History, turn: usize) {
    assert!(history.tokens() <= BUDGET, "turn {turn}: {} tokens", history.tokens());
    let first = history.messages().next().unwrap();
    assert!(first.text().starts_with("the task"), "turn {turn}: {first:?}");
    if turn > 0 {
        let last = history.llm_messages().last().unwrap();
        let result = last.as_tool_result().expect("the newest result");
        assert_eq!(result.tool_call_id.as_str(), format!("call-{}", turn - 1));
        assert!(last.text().starts_with(&format!("output {}", turn - 1)));
    }
}

/// REQ-171.
#[tokio::test]
async fn a_run_of_a_thousand_turns_stays_within_its_budget_and_is_compacted_now_and_then() {
    let turn = Arc::new(AtomicUsize::new(0));
    let model = ScriptedProvider::responding(move |request| {
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        check(&request.history, turn);
        if turn + 1 == TURNS {
            "done".into()
        } else {
            ScriptedReply::call(&format!("call-{turn}"), "t", json!({"n": turn}))
        }
    });
    let tool = ScriptedTool::new("t", |args, _| async move {
        Ok(format!("output {}\n{}", args["n"], "a line of what a tool may say\n".repeat(12)).into())
    });
    let agent =
        agent(&model).with_tools(boxed([tool])).with_context_config(config()).with_execution_limits(None);
    let mut events = agent.prompt("the task: count").unwrap();
    let (mut turns, mut compactions, mut last, mut seen) = (0, Vec::new(), None, Vec::new());
    while let Some(event) = events.recv().await {
        match &event {
            AgentEvent::TurnStart { .. } => turns += 1,
            AgentEvent::CompactionStarted { estimated_tokens, .. } => {
                assert!(*estimated_tokens > BUDGET, "compacted without need at {estimated_tokens}");
            }
            AgentEvent::CompactionEnded(ended) => {
                assert!(ended.estimated_tokens_after <= BUDGET);
                // Of old turns one line each may be left.
                assert!(ended.messages_after < BUDGET as usize / 8, "{} messages", ended.messages_after);
                compactions.push(turns);
            }
            AgentEvent::AgentEnd(end) => last = Some(end.messages.len()),
            _ => {}
        }
        if !event.is_live() {
            seen.push(event);
        }
    }
    assert_well_formed(&seen);
    assert_eq!(turns, TURNS);
    assert_eq!(last, Some(2 * TURNS), "the log has every message, whatever was compacted");
    assert!(compactions.len() > 20, "{compactions:?}");
    let closest = compactions.windows(2).map(|w| w[1] - w[0]).min().unwrap();
    assert!(closest >= 2, "a compaction makes room for several turns: {compactions:?}");
    assert!(agent.history().tokens() <= BUDGET + 200, "the last reply comes on top");
}

/// The messages that remain of the start and the end of a conversation when the middle is dropped.
const KEPT: usize = 2 + 6;
/// The line about the messages that were dropped.
const MARKER: usize = 1;
/// A question and its answer, or a call and its result.
const ONE_TURN: usize = 2;

/// REQ-172.
#[tokio::test]
async fn the_messages_of_an_agent_stay_few_in_a_long_conversation() {
    // The budget has room for what remains, and not for one turn more.
    const ONE_MESSAGE: u64 = 45;
    const ROOM: u64 = (KEPT + MARKER) as u64 * ONE_MESSAGE;
    let model = ScriptedProvider::responding(|request| {
        assert!(request.history.tokens() <= ROOM);
        ScriptedReply::text(format!("answer to {}", request.history.last().unwrap().text()))
    });
    let agent = agent(&model).with_context_config(config().with_max_context_tokens(ROOM));
    let (mut most, mut shortened) = (0, 0);
    for n in 0..300 {
        let before = agent.messages().len();
        let answer = agent.chat(format!("question {n}: {}", "word ".repeat(30))).await.unwrap();
        assert!(answer.starts_with(&format!("answer to question {n}:")));
        shortened += usize::from(agent.messages().len() < before + ONE_TURN);
        most = most.max(agent.messages().len());
    }
    assert!(most <= KEPT + MARKER + ONE_TURN, "{most} messages at once after 600 were said");
    assert!(most >= KEPT + MARKER, "only {most} messages: the newest ones were dropped, too");
    assert!(shortened > 100, "shortened {shortened} times only");
    assert!(agent.history().llm_messages().last().is_some_and(|m| matches!(m, Message::Assistant(_))));
}

/// REQ-172. The lines that replace old calls stay until the budget is used up, so that their number depends on the
/// budget and not on the length of the run.
#[tokio::test]
async fn the_messages_of_a_run_do_not_grow_with_its_turns() {
    const ROOM: u64 = 1_000;
    let line = message_tokens(&AgentMessage::user("[Summary] [Assistant used 1 tool(s)]"));
    let counts = Arc::new(Mutex::new(Vec::new()));
    let (seen, turn) = (Arc::clone(&counts), AtomicUsize::new(0));
    let model = ScriptedProvider::responding(move |request| {
        seen.lock().unwrap().push(request.history.len());
        match turn.fetch_add(1, Ordering::Relaxed) {
            turn if turn < 600 => ScriptedReply::call(&format!("call-{turn}"), "t", json!({"n": turn})),
            _ => "done".into(),
        }
    });
    let agent = agent(&model)
        .with_tools(boxed([ScriptedTool::saying("t", "what a tool says\n".repeat(10))]))
        .with_context_config(config().with_max_context_tokens(ROOM))
        .with_execution_limits(None);
    agent.chat("the task: count").await.unwrap();
    let counts = counts.lock().unwrap();
    let most = |of: &[usize]| of.iter().copied().max().unwrap();
    let lines = usize::try_from(ROOM / line).unwrap();
    println!("at most {} messages", most(&counts));
    assert!(most(&counts) <= KEPT + MARKER + ONE_TURN + lines, "{} messages", most(&counts));
    assert!(most(&counts[200..]) <= most(&counts[..200]), "the peak of a long run is that of a short one");
}
