//! Sending without knowing what is needed, and noting a resume as what it is (seed 002's future scenarios).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

#[path = "support/runs.rs"]
mod runs;

use agent_core::compat::SeedVerbs as _;
use agent_core::testing::{ScriptedReply, ScriptedTool};
use agent_core::{
    AgentError, AgentEvent, AgentMessage, AgentSnapshot, AgentStart, BasicAgent, Content, ContinuationKind,
    EventReceiver, TurnTrigger,
};
use serde_json::json;

use runs::{agent, asked, run, said, within};

async fn started(events: EventReceiver) -> AgentStart {
    let events = within(events.collect()).await;
    let Some(AgentEvent::AgentStart(start)) = events.into_iter().next() else { panic!("no start") };
    *start
}

#[track_caller]
fn check_kind(kind: Option<&ContinuationKind>, expect: &str) {
    let name = match kind {
        None => "none",
        Some(ContinuationKind::Default) => "default",
        Some(ContinuationKind::Rerun { tag }) => {
            assert!(!tag.is_empty());
            "rerun"
        }
        Some(ContinuationKind::Branch { tag }) => {
            assert!(!tag.is_empty());
            "branch"
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(name, expect);
}

/// REQ-180.
#[tokio::test]
async fn a_message_to_an_empty_or_answered_conversation_starts_a_first_loop() {
    let (agent, _) = agent([ScriptedReply::text("one"), ScriptedReply::text("two")]);
    for _ in 0..2 {
        let start = started(agent.send("go").unwrap()).await;
        check_kind(start.continuation_kind.as_ref(), "none");
        assert_eq!(start.parent_loop_id, None);
    }
    assert_eq!(said(&agent), "user(go) assistant(one) user(go) assistant(two)");
}

/// REQ-180.
#[tokio::test]
async fn a_message_to_a_conversation_that_waits_for_a_reply_continues_it_as_a_branch() {
    let (agent, model) = agent([ScriptedReply::text("one"), ScriptedReply::text("two")]);
    run(&agent, "first").await;
    let before = agent.last_loop_id();
    agent.append_message("second").unwrap();
    let start = started(agent.send("third").unwrap()).await;
    check_kind(start.continuation_kind.as_ref(), "branch");
    assert_eq!(start.parent_loop_id, before);
    assert_eq!(asked(&model.requests()[1]), "user(first) assistant(one) user(second) user(third)");
}

/// REQ-180.
#[tokio::test]
async fn without_a_loop_before_a_waiting_conversation_is_plainly_continued() {
    let (agent, _) = agent([ScriptedReply::text("one")]);
    agent.append_message("loaded from elsewhere").unwrap();
    assert_eq!(agent.continuation_kind(), ContinuationKind::Default);
    let start = started(agent.send("go").unwrap()).await;
    check_kind(start.continuation_kind.as_ref(), "default");
    assert_eq!(start.parent_loop_id, None);
}

#[tokio::test]
async fn a_message_neither_interrupts_a_run_nor_answers_a_question() {
    let (agent, _) = agent([ScriptedReply::call("c1", "ask", json!({}))]);
    let agent = agent.with_tool(ScriptedTool::saying("ask", "done").asking("May I?"));
    let events = agent.send("go").unwrap();
    assert!(matches!(agent.send("and this"), Err(AgentError::Busy)));
    within(events.collect()).await;
    let waiting = agent.send("and this").unwrap_err();
    assert!(matches!(&waiting, AgentError::Suspended { questions } if questions.len() == 1), "{waiting}");
}

/// A change to an agent that stands after a tool result, and what going on is then.
type Change = fn(BasicAgent) -> BasicAgent;

/// The agent stands after its tool's result: an exchange whose answer failed.
async fn standing() -> (BasicAgent, agent_core::testing::ScriptedProvider) {
    let (agent, model) = agent([
        ScriptedReply::call("c1", "look", json!({})),
        ScriptedReply::text("found"),
        ScriptedReply::text("again"),
    ]);
    let agent = agent.with_tool(ScriptedTool::saying("look", "a key")).with_system_prompt("Be brief.");
    run(&agent, "Look.").await;
    let kept: Vec<AgentMessage> = agent.messages().iter().take(3).map(|m| (**m).clone()).collect();
    agent.replace_messages(kept).unwrap();
    (agent, model)
}

/// REQ-180.
#[tokio::test]
async fn an_unchanged_resume_is_a_rerun_and_a_changed_one_a_branch() {
    let cases: [(&str, Change, &str); 5] = [
        ("nothing", |a| a, "rerun"),
        (
            "the tool's result",
            |a| {
                a.replace_tool_result("c1", &[Content::text("a lamp")]).unwrap();
                a
            },
            "branch",
        ),
        ("the system prompt", |a| a.with_system_prompt("Be long."), "branch"),
        (
            "a message more",
            |a| {
                a.append_message("and?").unwrap();
                a
            },
            "branch",
        ),
        (
            "a note more",
            |a| {
                a.append_message(runs::note()).unwrap();
                a
            },
            "branch",
        ),
    ];
    for (what, change, expect) in cases {
        let (agent, _) = standing().await;
        let before = agent.last_loop_id();
        let agent = change(agent);
        // Once in this process, and once through a snapshot as text.
        let text = serde_json::to_string(&agent.checkpoint()).unwrap();
        let snapshot: AgentSnapshot = serde_json::from_str(&text).unwrap();
        let (elsewhere, _) = runs::agent([ScriptedReply::text("again")]);
        let elsewhere = elsewhere.restore(snapshot).unwrap();
        for agent in [agent, elsewhere] {
            let start = started(agent.go_on().unwrap()).await;
            assert_eq!(start.parent_loop_id, before, "{what}");
            check_kind(start.continuation_kind.as_ref(), expect);
            let loop_id = start.loop_id.as_str();
            assert!(loop_id.ends_with(".2"), "{what}: the counters went along: {loop_id}");
        }
    }
}

/// REQ-193.
#[tokio::test]
async fn a_changed_result_is_what_the_model_sees_and_its_first_turn_is_a_branch() {
    let (agent, model) = standing().await;
    agent.replace_tool_result("c1", &[Content::text("a lamp")]).unwrap();
    let events = within(agent.go_on().unwrap().collect()).await;
    let shown = model.requests().last().unwrap().messages().last().unwrap().text();
    assert_eq!(shown, "a lamp");
    let trigger = events.iter().find_map(|e| match e {
        AgentEvent::TurnStart { triggered_by, .. } => Some(*triggered_by),
        _ => None,
    });
    assert_eq!(trigger, Some(TurnTrigger::Branch));
    let missing = agent.replace_tool_result("c9", &[]).unwrap_err();
    assert!(matches!(&missing, AgentError::NoResult { call } if *call == "c9"), "{missing}");
}

#[tokio::test]
async fn sending_nothing_goes_on_and_says_why_it_cannot() {
    let (agent, _) = standing().await;
    let start = started(agent.send(Vec::<AgentMessage>::new()).unwrap()).await;
    check_kind(start.continuation_kind.as_ref(), "rerun");
    assert!(matches!(agent.send(Vec::<AgentMessage>::new()), Err(AgentError::AssistantTail)));
    let (fresh, _) = runs::agent(Vec::<ScriptedReply>::new());
    assert!(matches!(fresh.go_on(), Err(AgentError::EmptyTranscript)));
}

/// REQ-180, REQ-215.
#[tokio::test]
async fn after_a_rewind_a_prompt_branches_from_the_loop_that_it_goes_on_from() {
    let (agent, _) =
        agent([ScriptedReply::text("one"), ScriptedReply::text("two"), ScriptedReply::text("x")]);
    run(&agent, "first").await;
    let then = agent.checkpoint();
    run(&agent, "second").await;
    let mut back = then.clone();
    back.rewound = true;
    back.loop_counters = agent.checkpoint().loop_counters;
    let agent = agent.restore(back).unwrap();
    assert!(agent.checkpoint().rewound, "a checkpoint keeps it");
    let start = started(agent.prompt("other").unwrap()).await;
    check_kind(start.continuation_kind.as_ref(), "branch");
    assert_eq!(start.parent_loop_id, then.last_loop_id);
    assert_eq!(said(&agent), "user(first) assistant(one) user(other) assistant(x)");
    assert!(!agent.checkpoint().rewound, "it counts once");
}

/// Cancelled in the middle, looked at, gone on with (seed 002: human in the loop).
#[tokio::test]
async fn after_an_abort_the_same_run_is_tried_again_or_goes_another_way() {
    let script = || {
        vec![
            ScriptedReply::text("half").and_hang(),
            ScriptedReply::text("whole"),
            ScriptedReply::text("more"),
        ]
    };
    for (words, kind) in [(None, "rerun"), (Some("shorter, please"), "branch")] {
        let (agent, model) = agent(script());
        let mut events = agent.prompt("go").unwrap();
        while !matches!(within(events.recv()).await, Some(AgentEvent::MessageUpdate { .. })) {}
        agent.abort();
        within(events.collect()).await;
        let before = agent.last_loop_id();
        // What is known of it goes along in a checkpoint, too.
        let checkpoint = agent.checkpoint();
        assert!(!checkpoint.changed && !checkpoint.rewound);
        let events = match words {
            None => agent.go_on(),
            Some(words) => agent.send(words),
        };
        let start = started(events.unwrap()).await;
        check_kind(start.continuation_kind.as_ref(), kind);
        assert_eq!(start.parent_loop_id, before);
        let shown = asked(&model.requests()[1]);
        let expect = words.map_or("user(go)".to_owned(), |w| format!("user(go) user({w})"));
        assert_eq!(shown, expect, "the half reply is not shown");
        assert!(said(&agent).contains("assistant(half)"), "it is kept for people");
    }
}
